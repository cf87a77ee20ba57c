"""A consistent cut through the job: offsets at which input, repartition topic and totals cover the same lines.

A transaction of the job moves its source offsets, writes to the repartition topic and writes totals. Once it is decided
its markers arrive in those partitions one after the other, so a look at all of them may find one transaction half
visible. A look is of one moment, and its offsets are a cut, when

* another look after it finds the same offsets: none of them ever falls, so nothing became visible between the two; and
* between the two no transaction of the job was decided with markers yet to be written. One that is half visible at
  both looks is in that state at its coordinator all the time between them.

A transaction that is only open is visible nowhere, so the job may be as busy as it likes: what the cut needs is a gap
between two commits that is as long as three requests. Each look ends one try and begins the next.

Under ``at_least_once`` nothing says which totals belong to which offsets; then only offsets that stand still are
waited for, and that the cut is not exact is told with it.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from course_revenue.errors import NoCutError
from headrace.errors import StreamsException, TimeoutException
from headrace.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.topics import TopicAdmin

Offsets: TypeAlias = "Mapping[int, int]"
"""By partition."""

_DECIDED: Final = frozenset({"PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
_THREAD: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-\d+")
"""What follows the application id and a hyphen in the transactional id of a thread of the job."""
_PAUSE_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class JobTopics:
    """What a cut goes through: the job's id and its topics; ``repartition`` is an internal one."""

    application_id: str
    lines: str
    repartition: str
    output: str
    rejected: str
    exactly_once: bool


@dataclass(frozen=True, slots=True)
class Cut:
    """Where the job stood at one moment. Everything before the offsets counts, and nothing behind them.

    Attributes:
        lines: up to where the input was taken in (committed offsets).
        repartition: up to where the repartition topic was taken into the totals (committed offsets).
        repartition_ends: its committed end.
        output: the committed end of the totals.
        rejected: likewise of the rejected topic; empty where there is none.
        exact: whether no transaction is half in it.
        looks: how many looks it took.
    """

    lines: Offsets
    repartition: Offsets = field(default_factory=dict[int, int])
    repartition_ends: Offsets = field(default_factory=dict[int, int])
    output: Offsets = field(default_factory=dict[int, int])
    rejected: Offsets = field(default_factory=dict[int, int])
    exact: bool = True
    looks: int = 1

    def named(self, topics: JobTopics) -> str:
        """The offsets on one line, for the books."""
        parts = [f"{topics.lines} {_shown(self.lines)}"]
        flight = {p: f"{start}..{self.repartition_ends[p]}" for p, start in self.repartition.items()}
        if flight:
            parts.append(f"{topics.repartition} {_shown(flight)}")
        parts.append(f"{topics.output} {_shown(self.output)}")
        if self.rejected:
            parts.append(f"{topics.rejected} {_shown(self.rejected)}")
        return "; ".join(parts)


def take_cut(admin: TopicAdmin, topics: JobTopics, timeout_s: float) -> Cut:
    """Looks until it has a cut. The job may be running, under load, or stopped.

    Args:
        admin: asks the brokers.
        topics: the job's.
        timeout_s: how long to try, in seconds.

    Raises:
        NoCutError: no gap between two commits was found in time, or the job's transactions cannot be seen.
        StreamsException: an offset of the job lies outside of its topic.
        TimeoutException: the brokers do not answer.
    """
    counts = admin.partition_counts([topics.lines, topics.repartition, topics.output, topics.rejected])
    looker = _Looker(admin, topics, counts)
    deadline = time.monotonic() + timeout_s
    before: _Look | None = None
    looks = moved = undecided = 0
    failure: TimeoutException | None = None
    while time.monotonic() < deadline or looks == 0:
        try:
            quiet = before is None or looker.nothing_is_half_written(before)
            look = looker.look()
        except TimeoutException as error:
            # a leader or a coordinator is being moved
            before, failure = None, error
            time.sleep(_PAUSE_S)
            continue
        looks += 1
        if before is not None and look == before and quiet:
            return looker.cut(look, looks)
        moved += before is not None and look != before
        undecided += not quiet
        before = look
    if failure is not None and looks < 2:
        raise failure
    raise NoCutError(
        f"no moment between two commits of {topics.application_id} was found in {timeout_s:.0f} s: of {looks} looks"
        f" {moved} found offsets that had moved and {undecided} a transaction between its decision and its markers."
        " Give it longer (--timeout), commit less often (commit.interval.ms), or stop the instances: the cut of a"
        " stopped job is as good"
    )


@dataclass(frozen=True, slots=True)
class _Look:
    """Committed offsets and ends, as the brokers gave them; no ends where those need not stand still."""

    committed: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]


class _Looker:
    """The requests. What each topic's partitions are is asked once: other counts are a rebuild."""

    def __init__(self, admin: TopicAdmin, topics: JobTopics, counts: Mapping[str, int]) -> None:
        self._admin = admin
        self._topics = topics
        self._counts = counts
        self._written = [
            TopicPartition(topic, number)
            for topic in (topics.repartition, topics.output, topics.rejected)
            for number in range(counts.get(topic, 0))
        ]
        self._sources = [topic for topic in (topics.lines, topics.repartition) if topic in counts]
        self._prefix = f"{topics.application_id}-"

    def look(self) -> _Look:
        committed = self._admin.group_offsets(self._topics.application_id)
        return _Look(
            {tp: found.offset for tp, found in committed.items() if tp.topic in self._sources},
            self._admin.list_offsets(self._written, "latest", read_committed=True) if self._topics.exactly_once else {},
        )

    def nothing_is_half_written(self, look: _Look) -> bool:
        """Whether no transaction of the job is between its decision and its markers."""
        if not self._topics.exactly_once:
            return True
        states = self._admin.transactions(self._prefix)
        if self._shows_the_job(states):
            return _DECIDED.isdisjoint(states.values())
        # forgotten after a week, or hidden from us: then there must be no open transaction either
        if self._admin.list_offsets(self._written, "latest") == look.ends:
            stable = self._admin.group_offsets(self._topics.application_id, stable=True)
            return {tp: at.offset for tp, at in stable.items() if tp.topic in self._sources} == look.committed
        active = self._admin.describe_group(self._topics.application_id).active
        # an instance that was started meanwhile has its transactions before it is a member
        if active and not self._shows_the_job(self._admin.transactions(self._prefix)):
            raise NoCutError(
                f"the transactions of {self._topics.application_id} are not shown to this principal, so nobody can say"
                " whether one is half written: kafka-acls --bootstrap-server HOST:PORT --add --allow-principal"
                f" User:NAME --operation Describe --transactional-id {self._prefix} --resource-pattern-type prefixed"
            )
        return False

    def _shows_the_job(self, names: Iterable[str]) -> bool:
        """Whether transactions of the job's threads are among those of its prefix, which others may share."""
        return any(_THREAD.fullmatch(name.removeprefix(self._prefix)) for name in names)

    def cut(self, look: _Look, looks: int) -> Cut:
        """What a look comes to; where nothing was committed yet, nothing was taken in."""
        topics = self._topics
        sources = [TopicPartition(topic, number) for topic in self._sources for number in range(self._counts[topic])]
        taken_in = {**self._admin.list_offsets(sources, "earliest"), **look.committed}
        for partition, end in self._admin.list_offsets(sources, "latest").items():
            if taken_in[partition] > end:
                raise StreamsException(
                    f"the committed offset of {topics.application_id} in {partition}, {taken_in[partition]}, lies"
                    f" behind its end, {end}: the topic was made anew, or has lost records. Reset the application"
                    " (headrace reset), and run it again"
                )
        ends = look.ends or self._admin.list_offsets(self._written, "latest", read_committed=True)
        return Cut(
            _of(taken_in, topics.lines),
            _of(taken_in, topics.repartition),
            _of(ends, topics.repartition),
            _of(ends, topics.output),
            _of(ends, topics.rejected),
            exact=topics.exactly_once,
            looks=looks,
        )


def _of(offsets: Mapping[TopicPartition, int], topic: str) -> dict[int, int]:
    return {tp.partition: offset for tp, offset in offsets.items() if tp.topic == topic}


def _shown(offsets: Mapping[int, object]) -> str:
    return " ".join(f"{partition}:{offset}" for partition, offset in sorted(offsets.items()))
