"""The closure of a sink: encode, choose the partitions, send; errors go to the production handler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.api.handlers import SerializationExceptionOrigin

if TYPE_CHECKING:
    from headrace.api.engine import Process, RecordCollector
    from headrace.engine.codecs import Encoders
    from headrace.engine.failures import TaskFailures
    from headrace.partitioning import StreamPartitioner
    from headrace.records import Headers


def bind_sink(
    name: str,
    topic: str,
    encoders: Encoders,
    partitioner: StreamPartitioner[Any, Any] | None,
    collector: RecordCollector,
    failures: TaskFailures,
) -> Process:
    """What a sink does with a record.

    Args:
        name: The sink's node.
        topic: Where to.
        encoders: Make the bytes of key and value.
        partitioner: None for the key's own partition; else it may choose several, or none (counted as dropped).
        collector: Takes the bytes.
        failures: Decides about errors.
    """
    send = collector.sender(topic)
    encode_key, encode_value, cell = encoders
    anywhere: tuple[int | None, ...] = (None,)
    encode_error, send_error = failures.encode_error, failures.send_error

    def process(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
        partitions = anywhere if partitioner is None else chosen(partitioner, key, value, timestamp, headers)
        if not partitions:
            return
        try:
            raw_key = None if key is None else encode_key(key)
        except Exception as e:
            encode_error(name, topic, SerializationExceptionOrigin.KEY, e, key, value, timestamp, headers)
            return
        try:
            raw_value = None if value is None else encode_value(value)
        except Exception as e:
            encode_error(name, topic, SerializationExceptionOrigin.VALUE, e, key, value, timestamp, headers)
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
        except Exception as e:
            failures.user_error(name, e, key, value, timestamp, headers)
            return ()
        if partitions is None:
            return anywhere
        if not partitions:
            failures.drop("partitioner chose no partition")
        return tuple(sorted(partitions))

    if cell is None:
        return process

    def process_with_own_headers(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
        # the record's own: other sinks may send the same list
        cell.headers = own = list(headers) if headers else []
        process(key, value, timestamp, own)

    return process_with_own_headers
