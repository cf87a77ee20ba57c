from __future__ import annotations

import base64
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from hypothesis import given
from hypothesis import strategies as st
from unit.serdes.registry.messages import Customer, Line, Order, Refund, WiderOrder

from headrace.config import StreamsConfig
from headrace.errors import ConfigException, SerializationException
from headrace.runtime.classes import instance
from headrace.serdes.registry import SchemaReference, SchemaRegistryClient
from headrace.serdes.registry.protobuf import KafkaProtobufSerde, KafkaProtobufSerializer, message_indexes

if TYPE_CHECKING:
    from google.protobuf.message import Message


def at(name: str | None = None, **settings: Any) -> dict[str, Any]:
    return {
        "schema.registry.url": f"mock://{name or uuid.uuid4().hex}",
        **{k.replace("_", "."): v for k, v in settings.items()},
    }


@pytest.mark.parametrize(
    ("message", "indexes"),
    [(Order(id="a", amount=3), b"\x00"), (Refund(id="r"), b"\x02\x02"), (Line(text="l"), b"\x04\x00\x00")],
)
def test_the_wire_form_is_confluents(message: Message, indexes: bytes) -> None:
    serde: KafkaProtobufSerde[Any] = KafkaProtobufSerde(type(message), config=at())
    raw = serde.serializer.serialize("t", message)
    # the imported file is registered first
    assert raw == b"\x00\x00\x00\x00\x02" + indexes + message.SerializeToString()
    assert serde.deserializer.deserialize("t", raw) == message


def test_the_place_of_a_message() -> None:
    assert message_indexes(Order.DESCRIPTOR) == [0]
    assert message_indexes(Refund.DESCRIPTOR) == [1]
    assert message_indexes(Line.DESCRIPTOR) == [0, 0]


def test_imported_files_are_registered_under_their_names() -> None:
    where = at()
    KafkaProtobufSerde(Order, config=where).serializer.serialize("t", Order(id="a"))
    client = SchemaRegistryClient(where)
    assert client.get_subjects() == ["shop/customer.proto", "t-value"]
    schema = client.get_latest_version("t-value").schema
    assert schema.type == "PROTOBUF"
    assert schema.references == (SchemaReference("shop/customer.proto", "shop/customer.proto", 1),)
    assert FileDescriptorProto.FromString(base64.b64decode(schema.text)).name == "shop/order.proto"


@given(st.text(st.characters(codec="utf-8")), st.integers(-(2**63), 2**63 - 1))
def test_messages_come_back_equal(text: str, number: int) -> None:
    serde: KafkaProtobufSerde[Any] = KafkaProtobufSerde(Order, config=at("round-trip"))
    message = Order(id=text, amount=number, who=Customer(id=text))
    assert serde.deserializer.deserialize("t", serde.serializer.serialize("t", message)) == message


def test_other_versions_of_a_class() -> None:
    where = at()
    older: KafkaProtobufSerde[Any] = KafkaProtobufSerde(Order, config=where)
    newer: KafkaProtobufSerde[Any] = KafkaProtobufSerde(WiderOrder, config=where)
    raw = newer.serializer.serialize("t", WiderOrder(id="a", note="n"))
    read: Any = older.deserializer.deserialize("t", raw)
    assert read.id == "a"
    # a field that the class does not know stays
    again = older.serializer.serialize("t", read)
    back: Any = newer.deserializer.deserialize("t", again)
    assert back.note == "n"
    assert SchemaRegistryClient(where).get_versions("t-value") == [1, 2]


def test_the_name_of_a_message_in_its_subject() -> None:
    where = at(value_subject_name_strategy="io.confluent.kafka.serializers.subject.RecordNameStrategy")
    KafkaProtobufSerde(Line, config=where).serializer.serialize("t", Line(text="l"))
    assert "shop.Order.Line" in SchemaRegistryClient(where).get_subjects()


def test_indexes_are_in_the_header_beside_the_guid() -> None:
    where = at(value_schema_id_serializer="io.confluent.kafka.serializers.schema.id.HeaderSchemaIdSerializer")
    serde: KafkaProtobufSerde[Any] = KafkaProtobufSerde(Refund, config=where)
    headers: list[tuple[str, bytes | None]] = []
    message = Refund(id="r")
    raw = serde.serializer.serialize_with_headers("t", headers, message)
    assert raw == message.SerializeToString()
    guid = SchemaRegistryClient(where).get_latest_version("t-value").guid
    assert headers == [("__value_schema_id", b"\x01" + uuid.UUID(guid).bytes + b"\x02\x02")]
    assert serde.deserializer.deserialize_with_headers("t", headers, raw) == message


def test_messages_of_several_classes_in_one_topic() -> None:
    where = at(value_subject_name_strategy="io.confluent.kafka.serializers.subject.RecordNameStrategy")
    serializer = KafkaProtobufSerializer()
    serializer.configure(where, is_key=False)
    encode = serializer.bind("t")
    assert encode(Order(id="a"))[5:6] == b"\x00"
    assert encode(Refund(id="r"))[5:7] == b"\x02\x02"
    assert {"shop.Order", "shop.Refund"} < set(SchemaRegistryClient(where).get_subjects())


def test_schemas_that_must_be_registered_already() -> None:
    where = at()
    locked = {**where, "auto.register.schemas": False}
    with pytest.raises(SerializationException, match="is not registered under subject 'shop/customer"):
        KafkaProtobufSerde(Order, config=locked).serializer.serialize("t", Order())
    KafkaProtobufSerde(Order, config=where).serializer.serialize("t", Order())
    assert KafkaProtobufSerde(Order, config=locked).serializer.serialize("t", Order(id="a")) is not None


def test_wrong_values() -> None:
    serde: Any = KafkaProtobufSerde(Order, config=at())
    with pytest.raises(SerializationException, match="takes a Order, not a Refund"):
        serde.serializer.serialize("t", Refund())
    raw = serde.serializer.serialize("t", Order(id="a"))
    with pytest.raises(SerializationException, match=r"not the bytes of a shop\.Order"):
        serde.deserializer.deserialize("t", raw[:6] + b"\xff")
    with pytest.raises(SerializationException, match="cut off"):
        serde.deserializer.deserialize("t", raw[:5])


def test_the_serde_by_its_java_name() -> None:
    config = StreamsConfig.load(
        {
            "application.id": "a",
            "bootstrap.servers": "b:1",
            "default.value.serde": "io.confluent.kafka.streams.serdes.protobuf.KafkaProtobufSerde",
            "specific.protobuf.value.type": "unit.serdes.registry.messages:Order",
            **at(),
        }
    )
    serde = instance(config, "default.value.serde")
    message = Order(id="a")
    assert serde.deserializer.deserialize("t", serde.serializer.serialize("t", message)) == message


@pytest.mark.parametrize(
    ("setting", "text"), [(None, "no message class: set specific"), (str, "str is not a Protobuf message class")]
)
def test_a_class_that_is_missing_in_the_settings(setting: Any, text: str) -> None:
    with pytest.raises(ConfigException, match=text):
        KafkaProtobufSerde(config=at(specific_protobuf_value_type=setting))
