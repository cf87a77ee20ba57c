"""Records of one partition that wait for their task, and how a run of them is processed.

A *run* is the stretch of records of one partition that may go in one go: until another partition's head is older, the
queue is empty, the limit is reached, or the task asks to stop (a commit). Time is read from raw records where the
extractor only looks at them; any other extractor needs the head decoded, one head per partition and no more, so that
errors do not surface early.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any

from headrace.api.engine import NEVER
from headrace.api.timestamps import (
    ConsumerRecord,
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    UsePartitionTimeOnInvalidTimestamp,
)
from headrace.errors import StreamsException
from headrace.metrics import record_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from headrace.api.engine import Process, RecordContext
    from headrace.api.timestamps import TimestampExtractor
    from headrace.engine.codecs import Decoders, HeaderCell
    from headrace.records import Headers, RawRecord, TopicPartition

    DecodeError = Callable[[Exception, str, RawRecord], bool]
    """Decides about a record that does not decode: True to skip it, False to leave it the head and stop."""

_RAW_EXTRACTORS = (FailOnInvalidTimestamp, LogAndSkipOnInvalidTimestamp, UsePartitionTimeOnInvalidTimestamp)


def _offset(raw: RawRecord) -> int:
    return raw[0]


class PartitionQueue:
    """Queue of a partition whose times are its records' own.

    Attributes:
        size: Records waiting.
        partition_time: Greatest timestamp taken from this partition, -1 before the first.
        next_offset: Offset after the last record processed, dropped ones included; None before the first.
        end_offset: Offset of the last record added, -1 before the first.
        last_time: Timestamp of the last record that left the queue; whoever has looked at it sets it to -1.
        taken_bytes: Sizes of the records that have left the queue; None where nobody wants to know.
    """

    def __init__(
        self,
        partition: TopicPartition,
        record: RecordContext,
        extractor: TimestampExtractor,
        decoders: Decoders,
        child: Process,
        on_decode_error: DecodeError,
        drop: Callable[[str], None],
    ) -> None:
        self.partition = partition
        self.size = 0
        self.partition_time = -1
        self.next_offset: int | None = None
        self.end_offset = -1
        self.last_time = -1
        self.taken_bytes: int | None = None
        self._topic_bytes = len(partition.topic.encode())
        self._record = record
        self._extractor = extractor
        self._decode_key = decoders.key
        self._decode_value = decoders.value
        self._header_cell = decoders.cell
        self._child = child
        self._on_decode_error = on_decode_error
        self._drop = drop
        self._chunks: deque[list[RawRecord]] = deque()
        self._at = 0
        self._traced = 0
        self._added = 0

    def add(self, records: list[RawRecord]) -> None:
        """Append records, which are the queue's own from now on."""
        if records:
            self._chunks.append(records)
            self.size += len(records)
            self.end_offset = records[-1][0]
            self._added += len(records)

    @property
    def taken(self) -> int:
        """Records that have left the queue by being processed or dropped."""
        return self._added - self.size

    def clear(self) -> None:
        """Forget what waits, and what of it was processed: the next records may come from anywhere."""
        self._chunks.clear()
        self._at = 0
        self._added -= self.size
        self.size = 0
        self.next_offset = None

    def head_offset(self) -> int | None:
        """Offset of the oldest record that waits, or None."""
        return self._chunks[0][self._at][0] if self.size else None

    def raw_record(self, offset: int) -> RawRecord | None:
        """The record at an offset, when it is in work or waits still."""
        if not self._chunks:
            return None
        chunk, near = self._chunks[0], self._traced
        # the next one as a rule
        if near >= len(chunk) or chunk[near][0] != offset:
            near = bisect_left(chunk, offset, self._at, key=_offset)
        self._traced = near + 1
        return chunk[near] if near < len(chunk) and chunk[near][0] == offset else None

    def head_timestamp(self) -> int:
        """Time of the oldest record that waits; there must be one."""
        return self._chunks[0][self._at][1]

    def run(self, bound: int, limit: int) -> int:
        """Process records with a time up to ``bound``, at most ``limit``. Returns how many left the queue."""
        chunk = self._chunks[0]
        at = self._at
        record = self._record
        record.topic, record.partition = self.partition
        decode_key, decode_value, child = self._decode_key, self._decode_value, self._child
        partition_time, stream_time = self.partition_time, record.stream_time
        count = 0
        try:
            rest = iter(chunk)
            # straight to the place: when partitions alternate, a run is a record or two far into its chunk
            rest.__setstate__(at)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # a list's iterator has it
            records: Iterable[RawRecord] = islice(rest, limit)
            if self._header_cell is not None:
                records = self._showing_headers(records, self._header_cell)
            for raw in records:
                offset, timestamp, raw_key, raw_value, headers = raw
                if timestamp > bound:
                    break
                record.offset = offset
                try:
                    key = None if raw_key is None else decode_key(raw_key)
                    value = None if raw_value is None else decode_value(raw_value)
                except Exception as e:
                    if not self._on_decode_error(e, self._failing_half(raw), raw):
                        break
                    count += 1
                    continue
                if timestamp < 0:
                    timestamp = self._extract(raw, key, value)
                    if timestamp < 0:
                        count += 1
                        self._drop("negative timestamp")
                        continue
                if timestamp > partition_time:
                    self.partition_time = partition_time = timestamp
                    if timestamp > stream_time:
                        record.stream_time = stream_time = timestamp
                        if timestamp >= record.punctuate_at:
                            record.interrupt = True
                child(key, value, timestamp, headers)
                # after the child: a record that failed stays the head, so that its offset can never be committed
                count += 1
                if record.interrupt:
                    break
        finally:
            self._take(count)
        return count

    @staticmethod
    def _showing_headers(records: Iterable[RawRecord], cell: HeaderCell) -> Iterator[RawRecord]:
        for raw in records:
            cell.headers = raw[4]
            yield raw

    def _take(self, count: int) -> None:
        if not count:
            return
        chunk = self._chunks[0]
        at = self._at + count
        self.size -= count
        last = chunk[at - 1]
        self.next_offset, self.last_time = last[0] + 1, last[1]
        if self.taken_bytes is not None:
            topic_bytes = self._topic_bytes
            self.taken_bytes += sum(record_bytes(topic_bytes, *raw[2:]) for raw in chunk[self._at : at])
        if at == len(chunk):
            self._chunks.popleft()
            at = 0
        self._at = at

    def _extract(self, raw: RawRecord, key: Any, value: Any) -> int:
        topic, partition = self.partition
        record = ConsumerRecord(topic, partition, raw[0], raw[1], key, value, raw[4])
        try:
            extracted = self._extractor.extract(record, self.partition_time)
            # an unusable answer is the extractor's fault too
            if extracted >= NEVER:
                raise ValueError(f"{extracted} is greater than 64 bits hold")
            return extracted if extracted < 0 else int(extracted)
        except StreamsException:
            raise
        except Exception as e:
            raise StreamsException(
                f"The timestamp extractor {type(self._extractor).__name__} failed for the record at "
                f"{topic}-{partition} offset {raw[0]}: {e}"
            ) from e

    def _failing_half(self, raw: RawRecord) -> str:
        try:
            if raw[2] is not None:
                self._decode_key(raw[2])
        except Exception:
            return "key"
        return "value"


class ExtractingQueue(PartitionQueue):
    """Queue of a partition whose times come from a user's extractor: its head is decoded before it is chosen."""

    _head: tuple[int, int, Any, Any, Headers | None] | None = None

    def clear(self) -> None:
        """See the base."""
        super().clear()
        self._head = None

    def head_timestamp(self) -> int:
        """Time of the oldest record that decodes and has one; undecodable ones before it leave the queue.

        Returns :data:`~headrace.api.engine.NEVER` when no record is left, or the head cannot be decoded yet.
        """
        while self._head is None and self.size:
            raw = self._chunks[0][self._at]
            topic, partition = self.partition
            record = self._record
            record.topic, record.partition, record.offset = topic, partition, raw[0]
            offset, _, raw_key, raw_value, headers = raw
            if self._header_cell is not None:
                self._header_cell.headers = headers
            try:
                key = None if raw_key is None else self._decode_key(raw_key)
                value = None if raw_value is None else self._decode_value(raw_value)
            except Exception as e:
                if not self._on_decode_error(e, self._failing_half(raw), raw):
                    break
                self._take(1)
                continue
            extracted = self._extract(raw, key, value)
            if extracted < 0:
                self._drop("negative timestamp")
                self._take(1)
                continue
            self._head = (offset, extracted, key, value, headers)
        return NEVER if self._head is None else self._head[1]

    def run(self, bound: int, limit: int) -> int:
        """See the base."""
        count = 0
        record = self._record
        before = self.size
        while count < limit and self.size and self.head_timestamp() <= bound:
            head = self._head
            if head is None:
                break
            offset, timestamp, key, value, headers = head
            record.topic, record.partition = self.partition
            record.offset = offset
            self.partition_time = max(self.partition_time, timestamp)
            if timestamp > record.stream_time:
                record.stream_time = timestamp
                if timestamp >= record.punctuate_at:
                    record.interrupt = True
            self._child(key, value, timestamp, headers)
            count += 1
            self._head = None
            self._take(1)
            self.last_time = timestamp
            if record.interrupt:
                break
        return before - self.size


def make_queue(
    partition: TopicPartition,
    record: RecordContext,
    extractor: TimestampExtractor,
    decoders: Decoders,
    child: Process,
    on_decode_error: DecodeError,
    drop: Callable[[str], None],
) -> PartitionQueue:
    """The queue that fits the extractor."""
    kind = PartitionQueue if type(extractor) in _RAW_EXTRACTORS else ExtractingQueue
    return kind(partition, record, extractor, decoders, child, on_decode_error, drop)
