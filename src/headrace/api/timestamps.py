"""Timestamp extractors. Source: ``org.apache.kafka.streams.processor.*Timestamp*``."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from headrace.errors import StreamsException

if TYPE_CHECKING:
    from headrace.records import Headers

_log = logging.getLogger(__name__)


class ConsumerRecord(NamedTuple):
    """A record as it was read, with decoded key and value."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: Headers | None


class TimestampExtractor(Protocol):
    """Gives a record its time."""

    def extract(self, record: ConsumerRecord, partition_time: int) -> int:
        """Epoch milliseconds for ``record``; a negative number drops the record (counted).

        Args:
            record: The record with decoded key and value.
            partition_time: Greatest timestamp seen on its partition, -1 when none was.
        """
        ...


class FailOnInvalidTimestamp:
    """The record's own timestamp; a negative one stops the thread. The default."""

    def extract(self, record: ConsumerRecord, partition_time: int) -> int:
        """See :class:`TimestampExtractor`.

        Raises:
            StreamsException: The timestamp is negative.
        """
        if record.timestamp < 0:
            raise StreamsException(
                f"Record at {record.topic}-{record.partition} offset {record.offset} has the negative timestamp "
                f"{record.timestamp}. Its producer may be very old, or the topic was written without timestamps: "
                "set another default.timestamp.extractor to go on."
            )
        return record.timestamp


class LogAndSkipOnInvalidTimestamp:
    """The record's own timestamp; a record with a negative one is dropped with a warning."""

    def extract(self, record: ConsumerRecord, partition_time: int) -> int:
        """See :class:`TimestampExtractor`."""
        if record.timestamp < 0:
            _log.warning(
                "Record at %s-%d offset %d is skipped: negative timestamp %d",
                record.topic,
                record.partition,
                record.offset,
                record.timestamp,
            )
        return record.timestamp


class UsePartitionTimeOnInvalidTimestamp:
    """The record's own timestamp, or the partition's greatest so far when it is negative."""

    def extract(self, record: ConsumerRecord, partition_time: int) -> int:
        """See :class:`TimestampExtractor`.

        Raises:
            StreamsException: The timestamp is negative and no earlier record had one.
        """
        if record.timestamp >= 0:
            return record.timestamp
        if partition_time < 0:
            raise StreamsException(
                f"Record at {record.topic}-{record.partition} offset {record.offset} has no timestamp and no earlier "
                "record of the partition has one to take in its place."
            )
        return partition_time


class WallclockTimestampExtractor:
    """The time at which the record is read."""

    def extract(self, record: ConsumerRecord, partition_time: int) -> int:
        """See :class:`TimestampExtractor`."""
        return time.time_ns() // 1_000_000
