"""Protobuf message classes, made without a compiler."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf import timestamp_pb2 as _timestamp  # fills the pool

_FIELD = descriptor_pb2.FieldDescriptorProto
STRING, INT64, MESSAGE = _FIELD.TYPE_STRING, _FIELD.TYPE_INT64, _FIELD.TYPE_MESSAGE


def _field(message: Any, number: int, name: str, type_: Any, type_name: str | None = None) -> None:
    message.field.add(name=name, number=number, type=type_, type_name=type_name, label=_FIELD.LABEL_OPTIONAL)


def customer_file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="shop/customer.proto", package="shop", syntax="proto3")
    _field(file.message_type.add(name="Customer"), 1, "id", STRING)
    return file


def order_file(*, wider: bool = False) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="shop/order.proto", package="shop", syntax="proto3")
    file.dependency.extend(["shop/customer.proto", "google/protobuf/timestamp.proto"])
    order = file.message_type.add(name="Order")
    _field(order, 1, "id", STRING)
    _field(order, 2, "amount", INT64)
    _field(order, 3, "who", MESSAGE, ".shop.Customer")
    _field(order, 4, "at", MESSAGE, ".google.protobuf.Timestamp")
    if wider:
        _field(order, 5, "note", STRING)
    line = order.nested_type.add(name="Line")
    _field(line, 1, "text", STRING)
    _field(file.message_type.add(name="Refund"), 1, "id", STRING)
    return file


def classes(*, wider: bool = False) -> dict[str, Any]:
    """Message classes by full name, in a pool of their own."""
    pool = descriptor_pool.DescriptorPool()
    for raw in (
        _timestamp.DESCRIPTOR.serialized_pb,
        customer_file().SerializeToString(),
        order_file(wider=wider).SerializeToString(),
    ):
        pool.AddSerializedFile(raw)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
        for name in ("shop.Customer", "shop.Order", "shop.Order.Line", "shop.Refund")
    }


_CLASSES = classes()
Customer, Order = _CLASSES["shop.Customer"], _CLASSES["shop.Order"]
Line, Refund = _CLASSES["shop.Order.Line"], _CLASSES["shop.Refund"]
WiderOrder = classes(wider=True)["shop.Order"]
