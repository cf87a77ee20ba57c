"""Where dead letters get the bytes of the input record from.

The record in work is known by its offset, which also goes along with what is cached. When somebody may ask for the
record's bytes, its offset is a :class:`~headrace.records.TracedOffset`, which has them; nothing else changes, and
nothing is kept where nobody asks, or for a cached row that has been sent on. As in the Java library the bytes are let
go once something made of the record has been sent, for whatever still shares its context: the branches beside the one
that led to the sink have them still, if an operator on the way made a new record. A user's processor always counts as
one that does; in Java not when it forwards the very record it got. Sources: ``ProcessorRecordContext``,
``RecordCollectorImpl.freeRawInputRecordFromContext`` (4.4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.records import TracedOffset

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.api.engine import Process, ProcessChange, RecordCollector, RecordContext, Send
    from headrace.engine.queues import PartitionQueue
    from headrace.records import Headers


def traced_source(child: Process, record: RecordContext, queue: Callable[[], PartitionQueue]) -> Process:
    """A source's edge that has the record in work traced."""

    def process(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
        offset = record.offset
        raw = queue().raw_record(offset)
        if raw is not None:
            record.offset = traced = TracedOffset(offset)
            traced.raw_key, traced.raw_value = raw[2], raw[3]
        child(key, value, timestamp, headers)

    return process


def in_own_context(forward: Process, record: RecordContext) -> Process:
    """The edge of an operator that makes new records: what is let go below it is there again above."""

    def process(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
        offset = record.offset
        try:
            forward(key, value, timestamp, headers)
        finally:
            record.offset = offset

    return process


def change_in_own_context(forward: ProcessChange, record: RecordContext) -> ProcessChange:
    """The same for a table's edge."""

    def process(key: Any, new: Any, old: Any, is_latest: bool, timestamp: int, headers: Headers | None) -> None:
        offset = record.offset
        try:
            forward(key, new, old, is_latest, timestamp, headers)
        finally:
            record.offset = offset

    return process


def raw_source(offset: int) -> tuple[bytes | None, bytes | None]:
    """Key and value bytes of the record at a traced offset; None each for any other."""
    return (offset.raw_key, offset.raw_value) if isinstance(offset, TracedOffset) else (None, None)


class ReleasingCollector:
    """A :class:`~headrace.api.engine.RecordCollector` whose sends let the input record's bytes go."""

    def __init__(self, collector: RecordCollector, record: RecordContext) -> None:
        self._collector = collector
        self._record = record
        self.changelog_sender = collector.changelog_sender
        self.partition_count = collector.partition_count

    def sender(self, topic: str) -> Send:
        """See the protocol."""
        send, record = self._collector.sender(topic), self._record

        def released(
            partition: int | None,
            key: bytes | None,
            value: bytes | None,
            timestamp: int | None,
            headers: Headers | None,
        ) -> None:
            record.offset = int(record.offset)
            send(partition, key, value, timestamp, headers)

        return released
