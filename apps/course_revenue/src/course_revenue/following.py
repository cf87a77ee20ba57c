"""How far a job has got: its committed offsets beside the ends of what it reads.

A difference of offsets counts transaction markers and aborted records, too, so it is "about" so many records. Whether
nothing is left is therefore decided by reading what lies behind the committed offset.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from headrace import TopicPartition
from headrace.errors import TimeoutException
from headrace.topics import TopicAdmin, TopicReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType

Offsets = dict[TopicPartition, int]

LOOK_S: Final = 0.25
_WORTH_READING: Final = 200
_STANDS_S: Final = 3.0


class Standing(NamedTuple):
    """How far a job has got; numbers of records, about.

    Attributes:
        read: lines before its committed offsets, from the starts of the topic on.
        behind: lines between these and the ends.
        inside: records that wait in its repartition topics.
    """

    read: int
    behind: int
    inside: int


@dataclass(frozen=True, slots=True)
class Watched:
    """A job: its id, the topic of lines, what else it reads from outside, and its repartition topics."""

    application_id: str
    lines: str
    others: tuple[str, ...]
    repartition: frozenset[str]


class JobOffsets:
    """Asks the brokers about one job. Used by one thread; a context manager.

    Args:
        brokers: ``host:port`` list.
        job: which.
        client: more librdkafka settings, such as security.

    Raises:
        TimeoutException: from every method: the brokers do not answer.
    """

    def __init__(self, brokers: str, job: Watched, client: Mapping[str, Any]) -> None:
        self._brokers, self._job, self._client = brokers, job, client
        self._seen: Offsets = {}
        self._moved_at = time.monotonic()
        self._admin = TopicAdmin({**client, "bootstrap.servers": brokers})

    def ends(self) -> Offsets:
        """The ends of what it reads from outside: what is committed there now."""
        return self._ends((self._job.lines, *self._job.others))

    def standing(self) -> Standing:
        """How far it is now."""
        committed = self.committed()
        lines = self._partitions([self._job.lines])
        starts = self._admin.list_offsets(lines, "earliest")
        ends = self._admin.list_offsets(lines, "latest", read_committed=True)
        read = {tp: max(committed.get(tp, 0), starts[tp]) for tp in lines}
        inside = self._ends(self._job.repartition)
        return Standing(
            read=sum(read[tp] - starts[tp] for tp in lines),
            behind=sum(max(0, ends[tp] - read[tp]) for tp in lines),
            inside=sum(max(0, end - committed.get(tp, 0)) for tp, end in inside.items()),
        )

    def committed(self) -> Offsets:
        """Its committed offsets."""
        return {tp: at.offset for tp, at in self._admin.group_offsets(self._job.application_id).items()}

    def has_read(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether everything from outside before these ends is read; it may be in the repartition topics yet."""
        return self._nothing_before(ends)

    def written(self) -> Offsets:
        """Where its repartition topics end, what no transaction has committed yet included."""
        return self._admin.list_offsets(self._partitions(self._job.repartition), "latest")

    def has_counted(self, written: Mapping[TopicPartition, int]) -> bool:
        """Whether everything in its repartition topics before these ends is in the totals, or never will be.

        A transaction that is decided moves the offsets of what was read at once, and is visible in these topics only
        when its markers are there: until then nothing is left to be read, and not everything is counted.
        """
        visible = self._ends(self._job.repartition)
        return all(visible.get(tp, 0) >= end for tp, end in written.items()) and self._nothing_before(written)

    def close(self) -> None:
        """Free the client."""
        self._admin.close()

    def _nothing_before(self, ends: Mapping[TopicPartition, int]) -> bool:
        committed = self.committed()
        starts = self._admin.list_offsets(ends, "earliest")
        left = {tp: (at, end) for tp, end in ends.items() if (at := max(committed.get(tp, 0), starts[tp])) < end}
        now = time.monotonic()
        if committed != self._seen:
            self._seen, self._moved_at = committed, now
        # while it goes on nobody has to look; what is left of one that stands still may be markers and aborted records
        if now - self._moved_at < _STANDS_S and any(end - at > _WORTH_READING for at, end in left.values()):
            return False
        return not any(self._holds_records(tp, at, end) for tp, (at, end) in left.items())

    def _holds_records(self, tp: TopicPartition, start: int, end: int) -> bool:
        at = {tp.partition: start}
        with TopicReader(self._brokers, tp.topic, client=self._client, start=at) as reader:
            return any(record.offset < end for record in reader.to_end(ends={tp.partition: end}))

    def _ends(self, topics: Iterable[str]) -> Offsets:
        return self._admin.list_offsets(self._partitions(topics), "latest", read_committed=True)

    def _partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        counts = self._admin.partition_counts(topics)
        return [TopicPartition(topic, number) for topic, count in sorted(counts.items()) for number in range(count)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def catch_up(
    job: JobOffsets, show: Callable[[Standing], None], check: Callable[[], None], *, patience_s: float = 60.0
) -> None:
    """Waits until the job has counted everything that is there now; what comes meanwhile is not waited for.

    Args:
        job: which.
        show: told how far it is, a few times a second.
        check: called as often; raises when there is no more use in waiting.
        patience_s: how long the brokers may leave questions without an answer, in seconds: internal topics that have
            just been made have no leaders for a moment.

    Raises:
        TimeoutException: they did for longer.
    """
    ends: Offsets | None = None
    written: Offsets | None = None
    answered = time.monotonic()
    while True:
        check()
        try:
            ends = job.ends() if ends is None else ends
            show(job.standing())
            if written is None and job.has_read(ends):
                written = job.written()
            if written is not None and job.has_counted(written):
                return
            answered = time.monotonic()
        except TimeoutException:
            if time.monotonic() - answered > patience_s:
                raise
        time.sleep(LOOK_S)
