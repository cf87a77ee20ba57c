"""Reading a topic from its beginning, committed records only."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from headrace.errors import MissingSourceTopicException, OffsetOutOfRangeException, TimeoutException
from headrace.kafka import RecordConsumer, TopicAdmin
from headrace.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping
    from types import TracebackType

    from headrace.records import Headers

_BATCH = 10_000
_POLL_S = 0.1
_RETRY_S = 0.1
_CRITICAL = 2  # syslog level: what an admin client has to say comes as exceptions


class TopicRecord(NamedTuple):
    """A record and where it lies; ``timestamp`` in epoch ms, ``headers`` None where there are none."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None


class TopicReader:
    """Reads every partition of a topic from its first record on, ``read_committed``, outside of any group.

    Used by one thread. A context manager that closes itself.

    Args:
        bootstrap_servers: ``host:port`` list of the brokers.
        topic: must exist.
        client: more librdkafka settings, such as security.
        timeout_s: how long to wait for the brokers when opening, in seconds.
        start: by partition, the offset to begin at; other partitions are not read. None reads all from their starts.

    Raises:
        MissingSourceTopicException: there is no such topic, or no such partition.
        TimeoutException: the brokers did not answer in time.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        *,
        client: Mapping[str, Any] | None = None,
        timeout_s: float = 15.0,
        start: Mapping[int, int] | None = None,
    ) -> None:
        self.topic = topic
        self._common = {**(client or {}), "bootstrap.servers": bootstrap_servers}
        self._timeout_s = timeout_s
        with self._admin() as admin:
            count = admin.partition_counts([topic]).get(topic)
        if count is None:
            raise MissingSourceTopicException(
                f"there is no topic {topic} at {bootstrap_servers}: create it first", topic=topic
            )
        unknown = [partition for partition in start or () if not 0 <= partition < count]
        if unknown:
            raise MissingSourceTopicException(f"topic {topic} has {count} partitions, and no partition {unknown[0]}")
        self._partitions = [
            TopicPartition(topic, partition) for partition in (range(count) if start is None else start)
        ]
        self._ahead: dict[int, list[TopicRecord]] = {}
        self._paused: set[TopicPartition] = set()
        self._consumer = RecordConsumer({**self._common, "isolation.level": "read_committed"})
        self._consumer.assign(
            {tp: self._watermarks(tp)[0] if start is None else start[tp.partition] for tp in self._partitions}
        )

    def poll(self, timeout_s: float = _POLL_S) -> list[TopicRecord]:
        """The records that have arrived, in offset order within a partition; empty when none came within ``timeout_s``.

        Records that were deleted before they were read (retention, compaction of the oldest) are skipped.

        Raises:
            KafkaException: the client cannot go on, such as for missing permissions.
        """
        self._resume()
        if self._ahead:
            ahead, self._ahead = self._ahead, {}
            return [record for records in ahead.values() for record in records]
        return self._fetch(timeout_s)

    def _fetch(self, timeout_s: float) -> list[TopicRecord]:
        batch = self._consumer.poll(timeout_s, _BATCH)
        for tp, error in batch.errors:
            if tp is not None and isinstance(error, OffsetOutOfRangeException):
                self._consumer.incremental_unassign([tp])
                self._consumer.incremental_assign({tp: self._watermarks(tp)[0]})
            elif not isinstance(error, TimeoutException):
                raise error
        return [TopicRecord(tp.partition, *record) for tp, records in batch.records.items() for record in records]

    def positions(self) -> dict[int, int]:
        """By partition, the offset up to which (exclusive) everything was handed out."""
        fetched = {tp.partition: offset for tp, offset in self._consumer.position(self._partitions).items()}
        return fetched | {partition: records[0].offset for partition, records in self._ahead.items()}

    def ends(self) -> dict[int, int]:
        """By partition, the end of the committed records now (the last stable offset).

        Raises:
            TimeoutException: the brokers did not answer in time.
        """
        return {tp.partition: self._watermarks(tp)[1] for tp in self._partitions}

    def written_ends(self) -> dict[int, int]:
        """By partition, the end of the log now: what open transactions have written lies before it, too.

        Raises:
            TimeoutException: the brokers did not answer in time.
        """
        with self._admin() as admin:
            return {tp.partition: end for tp, end in admin.list_offsets(self._partitions, "latest").items()}

    def to_end(self, timeout_s: float | None = None, ends: Mapping[int, int] | None = None) -> Iterator[TopicRecord]:
        """The records up to the committed ends as they are at the first step; records that come later end nothing.

        Args:
            timeout_s: longest wait without any progress, in seconds; None is the constructor's.
            ends: other ends by partition. With those of ``written_ends`` transactions that are open now are waited for.

        Raises:
            TimeoutException: nothing came for ``timeout_s`` though the ends were not reached.
        """
        patience_s = self._timeout_s if timeout_s is None else timeout_s
        ends = self.ends() if ends is None else ends
        before = self.positions()
        deadline = time.monotonic() + patience_s
        while not self.has_reached(ends):
            # what lies past the ends was handed out with the same batch, and is not to be lost
            yield from self.poll()
            now = self.positions()
            if now != before:
                before, deadline = now, time.monotonic() + patience_s
            elif time.monotonic() > deadline:
                raise TimeoutException(f"reading {self.topic}: no progress for {patience_s} s at {now} of {ends}")

    def up_to(self, ends: Mapping[int, int], timeout_s: float | None = None) -> Iterator[TopicRecord]:
        """The records before these offsets and none behind them, which are left for whoever reads on.

        Args:
            ends: by partition; all of them must come to be committed ends. Partitions left out are not read on.
            timeout_s: longest wait without any progress, in seconds; None is the constructor's.

        Raises:
            TimeoutException: nothing came for ``timeout_s`` though the ends were not reached.
        """
        patience_s = self._timeout_s if timeout_s is None else timeout_s
        ahead, self._ahead = self._ahead, {}
        for records in ahead.values():
            yield from self._before(ends, records)
        self._resume()
        before, deadline = self.positions(), time.monotonic() + patience_s
        while not self.has_reached(ends):
            self._pause(tp for tp in self._partitions if before[tp.partition] >= ends.get(tp.partition, 0))
            yield from self._before(ends, self._fetch(_POLL_S))
            now = self.positions()
            if now != before:
                before, deadline = now, time.monotonic() + patience_s
            elif time.monotonic() > deadline:
                raise TimeoutException(f"reading {self.topic}: no progress for {patience_s} s at {now} of {ends}")

    def _before(self, ends: Mapping[int, int], records: Iterable[TopicRecord]) -> Iterator[TopicRecord]:
        """Hands out what lies before the ends and keeps the rest."""
        for record in records:
            if record.offset < ends.get(record.partition, 0):
                yield record
            else:
                self._ahead.setdefault(record.partition, []).append(record)

    def _pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetches no more of these partitions: what is kept of them must not grow while others are read."""
        more = set(partitions) - self._paused
        if more:
            self._consumer.pause(more)
            self._paused |= more

    def _resume(self) -> None:
        if self._paused:
            self._consumer.resume(self._paused)
            self._paused.clear()

    def has_reached(self, ends: Mapping[int, int]) -> bool:
        """Whether everything before these offsets was handed out."""
        positions = self.positions()
        return all(positions[partition] >= end for partition, end in ends.items())

    def close(self) -> None:
        """Free the client."""
        self._consumer.close()

    @contextlib.contextmanager
    def _admin(self) -> Generator[TopicAdmin]:
        """An administrator for a question or two: readers live long, and ask seldom."""
        admin = TopicAdmin({**self._common, "log_level": _CRITICAL}, timeout_ms=int(self._timeout_s * 1000))
        try:
            yield admin
        finally:
            admin.close()

    def _watermarks(self, partition: TopicPartition) -> tuple[int, int]:
        """Log start and committed end; waits for a leader, which a partition lacks just after a broker's start."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                return self._consumer.watermarks(partition, False, max(0.1, deadline - time.monotonic()))
            except TimeoutException:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
