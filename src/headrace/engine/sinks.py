"""The closure of a sink: encode, choose the partitions, send; errors go to the production handler."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from headrace.api.handlers import SerializationExceptionOrigin
from headrace.api.record import RecordContext as SeenContext

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.api.engine import Process, RecordCollector, RecordContext, Send
    from headrace.engine.codecs import Encoders
    from headrace.engine.failures import TaskFailures
    from headrace.partitioning import StreamPartitioner
    from headrace.records import Headers
    from headrace.topology.built import TopicNameExtractor

    ChooserError = Callable[[Exception, Any, Any, int, Headers | None], None]


def bind_sink(
    name: str,
    topic: str,
    encoders: Encoders,
    partitioner: StreamPartitioner[Any, Any] | None,
    collector: RecordCollector,
    failures: TaskFailures,
    chooser_error: ChooserError,
) -> Process:
    """What a sink does with a record.

    Args:
        name: The sink's node.
        topic: Where to.
        encoders: Make the bytes of key and value.
        partitioner: None for the key's own partition; else it may choose several, or none (counted as dropped).
        collector: Takes the bytes.
        failures: Decides about errors.
        chooser_error: Decides about those of the functions that choose topic and partitions.
    """
    return _bind(name, topic, encoders, partitioner, collector, failures, chooser_error, collector.sender(topic))


def bind_dynamic_sink(
    name: str,
    extractor: TopicNameExtractor,
    encoders: Callable[[str], Encoders],
    partitioner: StreamPartitioner[Any, Any] | None,
    collector: RecordCollector,
    failures: TaskFailures,
    chooser_error: ChooserError,
    record: RecordContext,
) -> Process:
    """What a sink does that writes each record to a topic of its own.

    Args:
        name: The sink's node.
        extractor: Gives the topic. It must exist: whether it does is asked before the first record for it.
        encoders: Makes the encoders of a topic.
        partitioner: See :func:`bind_sink`.
        collector: Takes the bytes.
        failures: Decides about errors.
        chooser_error: Decides about those of the functions that choose topic and partitions.
        record: The task's record context.
    """
    sinks: dict[str, Process] = {}

    def open_sink(topic: object) -> Process:
        if topic is None:
            raise ValueError(f"the topic of a record must not be None, but {extractor} gave none")
        if not isinstance(topic, str):
            raise ValueError(f"the topic of a record must be a text, but {extractor} gave {type(topic).__name__}")
        send = _checked_sender(topic, collector)
        sinks[topic] = sink = _bind(name, topic, encoders(topic), partitioner, collector, failures, chooser_error, send)
        return sink

    def process(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
        context = SeenContext(record.topic, record.partition, record.offset, timestamp, list(headers or ()))
        try:
            topic = extractor(key, value, context)
            sink = sinks.get(topic) or open_sink(topic)
        except Exception as e:
            chooser_error(e, key, value, timestamp, headers)
            return
        sink(key, value, timestamp, headers)

    return process


def _numbers(partitions: object, partitioner: object, topic: str, partition_count: int) -> tuple[int, ...]:
    """The partitions that a user's partitioner chose, in order.

    Raises:
        ValueError: They are no partitions of the topic.
    """
    chosen: set[object] = (
        set(cast("Iterable[object]", partitions)) if isinstance(partitions, Iterable) else {partitions}
    )
    # True is an int to Python
    numbers = sorted(number for number in chosen if isinstance(number, int) and not isinstance(number, bool))
    wrong = len(numbers) < len(chosen) or (numbers and not 0 <= numbers[0] <= numbers[-1] < partition_count)
    if wrong or not isinstance(partitions, Iterable):
        raise ValueError(
            f"{type(partitioner).__name__} chose the partitions {partitions!r} of topic {topic}: give a set of numbers "
            f"from 0 to {partition_count - 1}, or None for the usual partition"
        )
    return tuple(numbers)


def _checked_sender(topic: str, collector: RecordCollector) -> Send:
    send: Send | None = None

    def checked(
        partition: int | None, key: bytes | None, value: bytes | None, timestamp: int | None, headers: Headers | None
    ) -> None:
        nonlocal send
        if send is None:
            collector.partition_count(topic)
            send = collector.sender(topic)
        send(partition, key, value, timestamp, headers)

    return checked


def _bind(
    name: str,
    topic: str,
    encoders: Encoders,
    partitioner: StreamPartitioner[Any, Any] | None,
    collector: RecordCollector,
    failures: TaskFailures,
    chooser_error: ChooserError,
    send: Send,
) -> Process:
    encode_key, encode_value, cell, key_serializer, value_serializer = encoders
    anywhere: tuple[int | None, ...] = (None,)
    encode_error, send_error = failures.encode_error, failures.send_error

    def process(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
        partitions = anywhere if partitioner is None else chosen(partitioner, key, value, timestamp, headers)
        if not partitions:
            return
        try:
            raw_key = None if key is None else encode_key(key)
        except Exception as e:
            origin = SerializationExceptionOrigin.KEY
            encode_error(name, topic, origin, e, key, value, timestamp, headers, key_serializer)
            return
        try:
            raw_value = None if value is None else encode_value(value)
        except Exception as e:
            origin = SerializationExceptionOrigin.VALUE
            encode_error(name, topic, origin, e, key, value, timestamp, headers, value_serializer)
            return
        for partition in partitions:
            try:
                send(partition, raw_key, raw_value, timestamp, headers)
            except Exception as e:
                send_error(name, topic, partition, e, raw_key, raw_value, timestamp, headers)

    def chosen(
        partitioner: StreamPartitioner[Any, Any], key: Any, value: Any, timestamp: int, headers: Headers | None
    ) -> tuple[int | None, ...]:
        # an unknown topic is no error of the user's partitioner
        partition_count = collector.partition_count(topic)
        try:
            partitions = partitioner.partitions(topic, key, value, partition_count)
            if partitions is None:
                return anywhere
            # the brokers would be asked again and again for one that is not there
            numbers = _numbers(partitions, partitioner, topic, partition_count)
        except Exception as e:
            chooser_error(e, key, value, timestamp, headers)
            return ()
        if not numbers:
            failures.drop("partitioner chose no partition")
        return numbers

    if cell is None:
        return process

    def process_with_own_headers(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
        # the record's own: other sinks may send the same list
        cell.headers = own = list(headers) if headers else []
        process(key, value, timestamp, own)

    return process_with_own_headers
