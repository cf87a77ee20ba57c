"""Landing the output topic in a table: batches of committed records, the latest of each key, one commit a batch.

Where to go on from is in the table alone, never in a consumer group. Killed at any moment, the last commit is there
with its offsets or not at all, and the next start reads from those. A replay reads the topic from its start and
replaces the table by one commit: whoever reads the table sees the old one or the new one.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from course_revenue.errors import LakeError
from course_revenue.lake.table import Landed
from headrace.errors import MissingSourceTopicException, SerializationException, TimeoutException
from headrace.records import TopicPartition
from headrace.serdes import StringDeserializer
from headrace.topics import TopicAdmin, TopicReader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from course_revenue.lake.table import LakeTable
    from course_revenue.options import Target
    from headrace.topics import TopicRecord

log = logging.getLogger(__name__)

_POLL_S: Final = 0.2
_PATIENCE_S: Final = 60.0
_RETRY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Pace:
    """When a batch is merged, and how often the table is tidied.

    ``every_s`` is the longest time in seconds that records wait, ``records`` the most that a batch has;
    ``compact_every`` counts commits, 0 for never, and ``retention_hours`` is how far back versions can be read.
    """

    every_s: float
    records: int
    compact_every: int
    retention_hours: int


class Landing:
    """One writer of a table. A context manager.

    Args:
        at: the brokers, and the topic's settings.
        table: where to.
        pace: see there.
        skip_undecodable: pass over records that do not decode, with a warning; the course keeps the total before.

    Raises:
        MissingSourceTopicException: there is no output topic.
    """

    def __init__(self, at: Target, table: LakeTable, pace: Pace, *, skip_undecodable: bool = False) -> None:
        self._at = at
        self._table = table
        self._pace = pace
        self._skip_undecodable = skip_undecodable
        self._topic = at.settings.output
        self._key = StringDeserializer()
        self._value = at.values.revenue.deserializer
        self._admin = TopicAdmin({**at.client, "bootstrap.servers": at.brokers}, timeout_ms=int(_PATIENCE_S * 1000))
        self._latest: dict[str, Landed] = {}
        self._fetched: deque[TopicRecord] = deque()
        self._commits = 0
        try:
            self._topic_id, count = self._look()
            self._partitions = [TopicPartition(self._topic, number) for number in range(count)]
        except BaseException:
            self._admin.close()
            raise

    def follow(self, over: Callable[[], bool], *, once: bool) -> None:
        """Lands what is new, until ``over`` says so, or (``once``) up to the committed end that the topic has now.

        Raises:
            LakeError: the table's offsets are not the topic's, somebody else writes to the table, or a record does not
                decode.
            TimeoutException: with ``once``, the brokers or the schema registry do not answer.
        """
        landed = self._table.offsets(self._topic, self._topic_id, range(len(self._partitions)))
        starts, ends = self._bounds()
        if not landed and not self._table.empty:
            raise LakeError(
                f"{self._table.uri} was not landed from {self._topic} as it is now: the topic was made anew, or is"
                " another one. --replay makes the table anew from it; its former versions stay readable"
            )
        _check_continued(self._topic, landed, starts, ends)
        with self._reader({**starts, **landed}) as reader:
            self._run(reader, over, reader.ends() if once else None)

    def replay(self) -> None:
        """Replaces the table by what the topic has now, in one commit.

        Raises:
            LakeError: somebody else writes to the table, or a record does not decode.
            TimeoutException: the brokers or the schema registry do not answer.
        """
        with self._reader(self._bounds()[0]) as reader:
            for record in reader.to_end(_PATIENCE_S):
                self._take(record)
            # what removes a row matters only where there is one
            self._table.replace(self._latest.values(), self._topic, self._topic_id, reader.positions())
        self._latest = {}

    def close(self) -> None:
        """Free the client."""
        self._admin.close()

    def _run(self, reader: TopicReader, over: Callable[[], bool], ends: Mapping[int, int] | None) -> None:
        base: Mapping[int, int] = reader.positions()
        before, moved_at = base, time.monotonic()
        since = time.monotonic()
        while True:
            self._fill(reader, patient=ends is None)
            now, positions = time.monotonic(), self._positions(reader)
            if positions != before:
                before, moved_at = positions, now
            reached = ends is not None and all(positions[partition] >= end for partition, end in ends.items())
            last = over() or reached
            due = last or len(self._latest) >= self._pace.records or now - since >= self._pace.every_s
            if due and self._latest:
                base = self._commit(base, positions, last=last or ends is not None)
            if due:
                since = time.monotonic()
            if last:
                return
            if ends is not None and now - moved_at > _PATIENCE_S:
                raise TimeoutException(f"reading {self._topic}: no progress for {_PATIENCE_S} s at {positions}")

    def _fill(self, reader: TopicReader, *, patient: bool) -> None:
        """Takes what has come into the batch, as long as there is room; ``patient`` waits for the schema registry."""
        if not self._fetched and len(self._latest) < self._pace.records:
            self._fetched.extend(reader.poll(_POLL_S))
        while self._fetched and len(self._latest) < self._pace.records:
            try:
                self._take(self._fetched[0])
            except TimeoutException as error:
                if not patient:
                    raise
                log.warning("a record waits: %s", error)
                time.sleep(_RETRY_S)
                return
            self._fetched.popleft()

    def _positions(self, reader: TopicReader) -> dict[int, int]:
        """Up to where everything is in the batch, or was in one before."""
        positions = reader.positions()
        for record in reversed(self._fetched):
            positions[record.partition] = record.offset
        return positions

    def _commit(self, base: Mapping[int, int], positions: dict[int, int], *, last: bool) -> Mapping[int, int]:
        """Merges the batch; the offsets that the table has then. Brokers that do not answer are waited for."""
        try:
            self._check_topic(base)
        except TimeoutException as error:
            if last:
                raise
            log.warning("the batch waits: %s", error)
            time.sleep(_RETRY_S)
            return base
        stored = self._table.offsets(self._topic, self._topic_id, range(len(self._partitions)))
        if any(base[partition] != offset for partition, offset in stored.items()):
            raise LakeError(
                f"somebody else has landed {self._topic} in {self._table.uri} meanwhile (it is at {stored}): only one"
                " course-revenue lake may do that"
            )
        self._table.merge(self._latest.values(), self._topic, self._topic_id, positions)
        log.info("version %d: %d courses, up to %s", self._table.version, len(self._latest), positions)
        self._latest = {}
        self._commits += 1
        if self._pace.compact_every and self._commits % self._pace.compact_every == 0:
            self._table.maintain(self._pace.retention_hours)
        return positions

    def _take(self, record: TopicRecord) -> None:
        try:
            course = self._key.deserialize_with_headers(self._topic, record.headers, record.key)
            total = self._value.deserialize_with_headers(self._topic, record.headers, record.value)
        except SerializationException as error:
            what = f"the record at {self._topic}-{record.partition}, offset {record.offset} is no total: {error}"
            if not self._skip_undecodable:
                raise LakeError(
                    f"{what}. Nothing behind it is landed. Find out who wrote it; --skip-undecodable passes over it,"
                    " and its course keeps the total before it"
                ) from error
            log.warning("passed over: %s", what)
            return
        if course is not None:
            self._latest[course] = Landed(course, record.partition, record.offset, total)

    def _look(self) -> tuple[str, int]:
        """The topic's id and number of partitions."""
        ids, counts = self._admin.topic_ids([self._topic]), self._admin.partition_counts([self._topic])
        if self._topic not in ids or self._topic not in counts:
            raise MissingSourceTopicException(
                f"there is no topic {self._topic} at {self._at.brokers}: course-revenue topics makes it"
            )
        return ids[self._topic], counts[self._topic]

    def _check_topic(self, base: Mapping[int, int]) -> None:
        """What was read since the last commit is of the same topic, and nothing was deleted before it was read."""
        topic_id, count = self._look()
        if topic_id != self._topic_id:
            raise LakeError(
                f"{self._topic} was deleted and made anew: what came since is not landed. --replay makes the table anew"
                " from it; its former versions stay readable"
            )
        if count != len(self._partitions):
            raise LakeError(f"{self._topic} has {count} partitions now: start course-revenue lake again")
        _check_continued(self._topic, base, *self._bounds())

    def _bounds(self) -> tuple[dict[int, int], dict[int, int]]:
        """Starts and written ends by partition."""
        starts = self._admin.list_offsets(self._partitions, "earliest")
        ends = self._admin.list_offsets(self._partitions, "latest")
        return (
            {tp.partition: offset for tp, offset in starts.items()},
            {tp.partition: offset for tp, offset in ends.items()},
        )

    def _reader(self, start: Mapping[int, int]) -> TopicReader:
        at = self._at
        return TopicReader(at.brokers, self._topic, client=at.client, timeout_s=_PATIENCE_S, start=start)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _check_continued(topic: str, landed: Mapping[int, int], starts: Mapping[int, int], ends: Mapping[int, int]) -> None:
    """Decides whether the topic goes on where the table stands. Pure.

    Raises:
        LakeError: it does not.
    """
    for partition, offset in sorted(landed.items()):
        if offset < starts[partition]:
            raise LakeError(
                f"{topic}-{partition} begins at offset {starts[partition]} now and the table ends at {offset}: totals"
                " of courses that did not change since are gone. --replay makes the table anew from what there is"
            )
        if offset > ends[partition]:
            raise LakeError(
                f"{topic}-{partition} ends at offset {ends[partition]} and the table at {offset}: the brokers have lost"
                " records. --replay makes the table anew from what there is; its former versions stay readable"
            )
