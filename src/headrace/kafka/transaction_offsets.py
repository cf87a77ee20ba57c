"""Offsets into a transaction by librdkafka's own functions: confluent-kafka's call writes their metadata wrongly.

confluent-kafka takes offset metadata for text ended by a zero byte and sends that byte too, so what a Java successor
reads is no base64 any more: it starts without stream time. Nothing can be mended behind a commit, for the instance may
be killed right after it. So this one call goes to librdkafka itself (:mod:`headrace.kafka.native`).

The call also gets an end. librdkafka waits without limit for an answer that its own look-up of the group's coordinator
may never get (``rd_kafka_txn_op_req0`` with ``RD_POLL_INFINITE``, ``rd_kafka_coord_req_fsm``): seen while coordinators
moved and brokers were slow, and after every restart of an only broker while librdkafka began again from
``bootstrap.servers`` by itself (:func:`headrace.kafka.connections.data_client_config`). So it runs on a thread of its
own, which is left behind with its client when it hangs.

Uses: ``rdkafka.h`` of librdkafka 2.x (``rd_kafka_send_offsets_to_transaction``,
``rd_kafka_consumer_group_metadata_new_with_genid``, ``rd_kafka_topic_partition_t``).
"""

from __future__ import annotations

import ctypes
import threading
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, ClassVar

from confluent_kafka import KafkaError
from confluent_kafka import KafkaException as ClientException

from headrace.errors import IllegalStateException, TransactionAbortableException
from headrace.kafka.errors import ClosedClient
from headrace.kafka.native import function, handle

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import Producer

    from headrace.records import GroupIdentity, OffsetAndMetadata, TopicPartition


_GRACE_S = 5.0
"""How long the client may take beyond its own time limit."""


class _Partition(ctypes.Structure):
    _fields_: ClassVar[Any] = [
        ("topic", ctypes.c_char_p),
        ("partition", ctypes.c_int32),
        ("offset", ctypes.c_int64),
        ("metadata", ctypes.c_char_p),
        ("metadata_size", ctypes.c_size_t),
        ("opaque", ctypes.c_void_p),
        ("err", ctypes.c_int),
        ("private", ctypes.c_void_p),
    ]


class _PartitionList(ctypes.Structure):
    _fields_: ClassVar[Any] = [
        ("count", ctypes.c_int),
        ("size", ctypes.c_int),
        ("elements", ctypes.POINTER(_Partition)),
    ]


_pointer, _text, _int32 = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32
_new_group = function("rd_kafka_consumer_group_metadata_new_with_genid", _pointer, _text, _int32, _text, _text)
_free_group = function("rd_kafka_consumer_group_metadata_destroy", None, _pointer)
_send = function(
    "rd_kafka_send_offsets_to_transaction", _pointer, _pointer, ctypes.POINTER(_PartitionList), _pointer, ctypes.c_int
)
_code = function("rd_kafka_error_code", ctypes.c_int, _pointer)
_string = function("rd_kafka_error_string", _text, _pointer)
_is_fatal = function("rd_kafka_error_is_fatal", ctypes.c_int, _pointer)
_is_retriable = function("rd_kafka_error_is_retriable", ctypes.c_int, _pointer)
_requires_abort = function("rd_kafka_error_txn_requires_abort", ctypes.c_int, _pointer)
_free_error = function("rd_kafka_error_destroy", None, _pointer)


def send_offsets_to_transaction(
    client: Producer | ClosedClient,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    group: GroupIdentity,
    timeout_s: float,
) -> None:
    """``Producer.send_offsets_to_transaction`` with metadata as it is. Other threads go on meanwhile.

    Args:
        client: The transactional producer.
        offsets: Positions; metadata goes out as UTF-8.
        group: A member of the group. Not checked here.
        timeout_s: How long to wait for the brokers' answer.

    Raises:
        confluent_kafka.KafkaException: As the client's own method raises it.
        TransactionAbortableException: The client does not come back; it is of no more use.
        IllegalStateException: The producer was closed.
    """
    if isinstance(client, ClosedClient):
        raise IllegalStateException("the producer is closed")
    outcome: SimpleQueue[BaseException | None] = SimpleQueue()

    def run() -> None:
        try:
            _send_now(client, offsets, group, timeout_s)
        except BaseException as e:
            outcome.put(e)
        else:
            outcome.put(None)

    threading.Thread(target=run, name="headrace-offsets-to-transaction", daemon=True).start()
    try:
        error = outcome.get(timeout=timeout_s + _GRACE_S)
    except Empty:
        raise TransactionAbortableException(
            f"adding offsets of group {group.group_id} to a transaction: the client has not come back for "
            f"{timeout_s + _GRACE_S:.0f} s. Its transaction is given up"
        ) from None
    if error is not None:
        raise error


def _send_now(
    client: Producer, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupIdentity, timeout_s: float
) -> None:
    texts = [(tp.topic.encode(), entry.metadata.encode()) for tp, entry in offsets.items()]
    # librdkafka copies all of it before it returns, so the memory stays Python's
    positions = (_Partition * len(offsets))()
    for place, (topic, metadata), (tp, entry) in zip(positions, texts, offsets.items(), strict=True):
        place.topic, place.partition, place.offset = topic, tp.partition, entry.offset
        if metadata:
            place.metadata, place.metadata_size = metadata, len(metadata)
    instance_id = None if group.group_instance_id is None else group.group_instance_id.encode()
    member = _new_group(group.group_id.encode(), group.generation, group.member_id.encode(), instance_id)
    try:
        listed = _PartitionList(len(offsets), len(offsets), positions)
        error = _send(handle(client), ctypes.byref(listed), member, int(timeout_s * 1000))
    finally:
        _free_group(member)
    if error:
        try:
            raised = KafkaError(
                _code(error),
                (_string(error) or b"").decode(errors="replace"),
                bool(_is_fatal(error)),
                bool(_is_retriable(error)),
                bool(_requires_abort(error)),
            )
        finally:
            _free_error(error)
        raise ClientException(raised)
