"""What the job's HTTP ports say (``/tasks``), and what follows: how long lines wait, which task is the hot one. Pure.

A line is in the totals once it is read, counted behind the repartition, and committed. How long the oldest line that is
not has waited is not told by anybody; it is seen by looking every second: where a partition ended at some look, and
whether the task has passed that place by now.

A job that is cut off from the brokers answers all the same, and by its own ends it is caught up for ever. So what it
says of them is compared with what the brokers say.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from course_revenue.topology import REJECTED_REASON
from headrace.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

BUDGET_MS: Final = 60_000
"""A line must be in the totals within this time after it landed."""

_RUNNING: Final = "RUNNING"
_OVER: Final = frozenset({"DEAD", "PENDING_SHUTDOWN"})
_LONGEST_ROUND_S: Final = 10.0
UNHEARD_MS: Final = 10_000
"""What has lain at the brokers for longer, and a task that runs does not know of, it cannot hear of."""
_SAMPLES: Final = 3_600
_HOT_SHARE: Final = 2.0
_HOT_RATE: Final = 1.0
_HOT_LAG: Final = 100


class Progress(msgspec.Struct, frozen=True):
    """A partition of a task as ``/tasks`` tells it."""

    topic: str
    partition: int
    offset: int | None = None
    end: int | None = None
    lag: int | None = None


class Task(msgspec.Struct, frozen=True):
    """A task as ``/tasks`` tells it; a standby has no rate and no commits."""

    id: str
    type: str
    state: str
    partitions: tuple[Progress, ...] = ()
    records_total: int = 0
    records_per_second: float | None = None
    restore_remaining: int = 0
    last_commit_ms: int | None = None
    dropped: dict[str, int] = {}
    waits_for: str | None = None

    @property
    def active(self) -> bool:
        """Whether it processes."""
        return self.type == "active"

    @property
    def tells(self) -> bool:
        """Whether it runs and knows how far it is in any of its partitions."""
        return self.state == _RUNNING and any(at.end is not None and at.offset is not None for at in self.partitions)

    @property
    def lag(self) -> int | None:
        """Offsets to the ends of its partitions; None where none is known."""
        known = [at.lag for at in self.partitions if at.lag is not None]
        return sum(known) if known else None


class _Thread(msgspec.Struct, frozen=True):
    name: str
    state: str
    round_age_s: float | None = None

    @property
    def held_up(self) -> bool:
        """Whether it does nothing for its tasks, though it is there to: what they tell is old then."""
        return self.round_age_s is not None and self.round_age_s > _LONGEST_ROUND_S and self.state not in _OVER


class Told(msgspec.Struct, frozen=True):
    """One instance as ``/tasks`` tells it, alone or among those of a supervisor."""

    instance: str | None = None
    answers: bool = True
    reason: str | None = None
    starts: int | None = None
    application_id: str | None = None
    client_id: str = ""
    version: str = ""
    state: str = ""
    threads: tuple[_Thread, ...] = ()
    tasks: tuple[Task, ...] = ()


class _Page(Told, frozen=True):
    instances: tuple[Told, ...] | None = None


_page: Final = msgspec.json.Decoder(_Page)


def read_tasks(body: bytes) -> tuple[Told, ...]:
    """The instances that an answer of ``/tasks`` tells of.

    Raises:
        ValueError: It is no such answer.
    """
    try:
        page = _page.decode(body)
    except msgspec.DecodeError as error:
        raise ValueError(f"what came is no list of tasks: {error}") from error
    if page.instances is None and not page.state:
        raise ValueError("what came is no list of tasks")
    return (page,) if page.instances is None else page.instances


@dataclass(slots=True)
class Endpoint:
    """One address and what it last answered; ``failure`` is why it does not, None when it does.

    ``since_ms`` is when it last began, or ceased, to answer; None before it was first asked.
    """

    address: str
    instances: tuple[Told, ...] = ()
    failure: str | None = None
    since_ms: int | None = None


@dataclass(slots=True)
class _Waiting:
    """How long the oldest line that is not in the totals has waited at one task, by what was seen of it."""

    places: dict[tuple[str, int], deque[tuple[int, int]]] = field(
        default_factory=dict[tuple[str, int], "deque[tuple[int, int]]"]
    )
    commit: int | None = None
    counted: int = 0
    uncommitted_since: int | None = None

    def look(self, task: Task, now_ms: int) -> int:
        """Takes in how the task is now; returns the ms."""
        oldest = now_ms
        for at in task.partitions:
            if at.end is None or at.offset is None:
                continue
            seen = self.places.setdefault((at.topic, at.partition), deque(maxlen=_SAMPLES))
            if not seen or seen[-1][1] < at.end:
                seen.append((now_ms, at.end))
            while seen and seen[0][1] <= at.offset:
                seen.popleft()
            if seen:
                oldest = min(oldest, seen[0][0])
        if task.last_commit_ms != self.commit or task.records_total < self.counted:
            self.commit, self.counted, self.uncommitted_since = task.last_commit_ms, task.records_total, None
        elif task.records_total > self.counted and self.uncommitted_since is None:
            self.uncommitted_since = now_ms
        if self.uncommitted_since is not None:
            oldest = min(oldest, self.uncommitted_since)
        return now_ms - oldest


class Job:
    """All addresses of the job. Used by one thread.

    Args:
        addresses: Of the ports; none is allowed, and then nothing is known of the job.
    """

    def __init__(self, addresses: Iterable[str]) -> None:
        self.endpoints = {address: Endpoint(address) for address in addresses}
        self._waiting: dict[str, _Waiting] = {}
        self._waited: dict[str, int] = {}
        self._unheard: dict[TopicPartition, tuple[int, int]] = {}
        """By partition since when it ends, at the brokers, at least there, and the job does not know."""
        self._compared_ms = 0
        self.hidden: frozenset[str] = frozenset()
        """Topics that it reads, and whose ends the brokers do not tell us."""

    def answered(self, address: str, instances: Sequence[Told], now_ms: int) -> None:
        """An address told of its instances."""
        endpoint = self.endpoints[address]
        if endpoint.failure is not None or endpoint.since_ms is None:
            endpoint.since_ms = now_ms
        endpoint.instances, endpoint.failure = tuple(instances), None
        self._forget()
        for told in instances:
            for task in told.tasks:
                if task.active:
                    self._waited[task.id] = self._waiting.setdefault(task.id, _Waiting()).look(task, now_ms)

    def failed(self, address: str, failure: str, now_ms: int) -> None:
        """An address did not answer, or with something else."""
        endpoint = self.endpoints[address]
        if endpoint.failure is None:
            endpoint.since_ms = now_ms
        endpoint.failure, endpoint.instances = failure, ()
        self._forget()

    def reads(self) -> set[TopicPartition]:
        """The partitions that it reads, by what it says."""
        return {
            TopicPartition(at.topic, at.partition) for task in self.tasks() if task.active for at in task.partitions
        }

    def compare(self, ends: Mapping[TopicPartition, int], hidden: Iterable[str], now_ms: int) -> None:
        """Takes in where the partitions that it reads end by what the brokers say; ``hidden`` are what they hide."""
        self._compared_ms, self.hidden = now_ms, frozenset(hidden)
        heard = self._heard()
        for tp, end in ends.items():
            if tp in heard and end > heard[tp]:
                self._unheard.setdefault(tp, (now_ms, end))
        self._hear()

    def unheard(self) -> tuple[int, list[str]]:
        """For how long something has lain at the brokers that the job does not know of, in ms, and in which topics."""
        since = min((since for since, _ in self._unheard.values()), default=self._compared_ms)
        return self._compared_ms - since, sorted({tp.topic for tp in self._unheard})

    def tasks(self) -> list[Task]:
        """Those of every instance that answers."""
        return [task for at in self.endpoints.values() for told in at.instances for task in told.tasks]

    @property
    def answers(self) -> bool:
        """Whether any instance does."""
        return any(told.answers for at in self.endpoints.values() for told in at.instances)

    def waited_ms(self) -> int | None:
        """How long the oldest line that is not in the totals has waited; None when nobody can tell.

        At least so long: what waited before the first look is counted from that look. While an instance does not
        answer, a thread is held up, or a task does not run yet or is not seen at all, lines may wait that are not seen;
        so then only a wait beyond the budget is told.
        """
        longest = max(self._waited.values(), default=None)
        if longest is None:
            return None
        longest = max(longest, self.unheard()[0])
        return longest if self._sees_all() or longest > BUDGET_MS else None

    def held_up(self) -> list[str]:
        """The threads that have not come round for a while: offsets and ends of their tasks are of that time."""
        return [
            thread.name
            for at in self.endpoints.values()
            for told in at.instances
            for thread in told.threads
            if thread.held_up
        ]

    def unseen(self) -> list[str]:
        """Tasks that no instance tells to be active, though there must be one: told by copies, and by gaps."""
        known: dict[str, set[int]] = {}
        active: dict[str, set[int]] = {}
        for task in self.tasks():
            group, _, partition = task.id.rpartition("_")
            if not partition.isdecimal():
                continue
            known.setdefault(group, set()).add(int(partition))
            if task.active:
                active.setdefault(group, set()).add(int(partition))
        return [
            f"{group}_{partition}"
            for group, partitions in sorted(known.items())
            for partition in range(max(partitions) + 1)
            if partition not in active.get(group, ())
        ]

    def _sees_all(self) -> bool:
        hears = not self.hidden and self.unheard()[0] <= UNHEARD_MS
        return (
            hears
            and not (self.held_up() or self.unseen())
            and all(
                at.failure is None
                and all(
                    told.answers and told.state == _RUNNING and all(task.tells for task in told.tasks if task.active)
                    for told in at.instances
                )
                for at in self.endpoints.values()
            )
        )

    def dropped(self) -> Counter[str]:
        """Lines passed over by reason, rejected ones included, since the tasks began."""
        counts: Counter[str] = Counter()
        for task in self.tasks():
            counts.update(task.dropped)
        return counts

    def rejected(self) -> int:
        """Lines sent to the rejected topic, since the tasks began."""
        return sum(count for reason, count in self.dropped().items() if reason.startswith(REJECTED_REASON))

    def _forget(self) -> None:
        """Of tasks that nobody tells of any more nothing is known."""
        active = {task.id for task in self.tasks() if task.active}
        for gone in self._waiting.keys() - active:
            del self._waiting[gone], self._waited[gone]
        self._hear()

    def _heard(self) -> dict[TopicPartition, int]:
        """How far the tasks that run know what lies in their partitions; the furthest where several say so."""
        heard: dict[TopicPartition, int] = {}
        for task in self.tasks():
            for at in task.partitions if task.active and task.tells else ():
                if at.end is not None and at.offset is not None:
                    tp = TopicPartition(at.topic, at.partition)
                    heard[tp] = max(heard.get(tp, 0), at.end, at.offset)
        return heard

    def _hear(self) -> None:
        heard = self._heard()
        self._unheard = {tp: seen for tp, seen in self._unheard.items() if tp in heard and heard[tp] < seen[1]}


def hot(tasks: Iterable[Task]) -> dict[str, list[str]]:
    """The tasks that carry much more than their neighbours, with what they have more of.

    Neighbours are active tasks of one sub-topology: they do the same to other partitions, so one that stands out has a
    hot course. It is hot with at least twice the others' mean rate or lag.
    """
    groups: dict[str, list[Task]] = {}
    for task in tasks:
        if task.active:
            groups.setdefault(task.id.partition("_")[0], []).append(task)
    found: dict[str, list[str]] = {}
    for group in groups.values():
        rates = {task.id: task.records_per_second or 0.0 for task in group}
        lags = {task.id: float(task.lag or 0) for task in group}
        for what, least, values in (("rate", _HOT_RATE, rates), ("lag", _HOT_LAG, lags)):
            if (one := _outlier(values, least)) is not None:
                found.setdefault(one, []).append(what)
    return found


def _outlier(values: Mapping[str, float], least: float) -> str | None:
    if len(values) < 2:
        return None
    greatest = max(values, key=lambda one: values[one])
    others = (sum(values.values()) - values[greatest]) / (len(values) - 1)
    return greatest if values[greatest] >= least and values[greatest] >= _HOT_SHARE * others else None


@dataclass(frozen=True, slots=True)
class Freshness:
    """How the promise is kept: a line is in the totals within the budget.

    Attributes:
        verdict: ``fresh``: the newest line is younger than the budget. ``caught_up``: it is older, and nothing waits.
            ``late``: lines wait for longer than the budget. ``unknown``: the newest line is older, and nobody says
            whether more have landed. ``empty``: there is no line.
        age_ms: Since the newest event time in the totals.
        waited_ms: See ``Job.waited_ms``.
    """

    verdict: str
    age_ms: int | None
    waited_ms: int | None


def freshness(newest_event_ms: int | None, waited_ms: int | None, now_ms: int) -> Freshness:
    """The verdict; see there."""
    age = None if newest_event_ms is None else now_ms - newest_event_ms
    if waited_ms is not None and waited_ms > BUDGET_MS:
        verdict = "late"
    elif age is None:
        verdict = "empty"
    elif age <= BUDGET_MS:
        verdict = "fresh"
    else:
        verdict = "unknown" if waited_ms is None else "caught_up"
    return Freshness(verdict, age, waited_ms)
