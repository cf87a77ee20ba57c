"""High availability (KIP-441): a task runs where its state is, and moves once the state is there too.

The sticky target says where every task shall run in the end. A task whose process there is not caught up runs where its
state is for now, and a warm-up is made at the target: a standby task beyond ``num.standby.replicas``. At most
``max.warmup.replicas`` of them are made at a time, and the group looks again after ``probing.rebalance.interval.ms``.

Source: ``HighAvailabilityTaskAssignor``, whose target does not look at where tasks run now; a sticky one moves fewer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from headrace.assignment.lags import Lags
from headrace.assignment.racks import STATELESS, RackCosts, Racks, nearer
from headrace.assignment.standby import StandbyPlacement
from headrace.assignment.sticky import assign, cooperative, owners

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from headrace.assignment.sticky import MemberState
    from headrace.records import TaskId


@dataclass(frozen=True, slots=True)
class AssignmentSettings:
    """What the leader's configuration says about placing tasks.

    Attributes:
        standby_replicas: ``num.standby.replicas``.
        acceptable_lag: ``acceptable.recovery.lag``, in records.
        max_warmups: ``max.warmup.replicas``.
        probing_interval_ms: ``probing.rebalance.interval.ms``.
        tags: ``rack.aware.assignment.tags``.
        warm_up: False moves tasks at once, wherever their state is (``StickyTaskAssignor``).
        rack_strategy: ``rack.aware.assignment.strategy``.
        traffic_cost: ``rack.aware.assignment.traffic_cost``; None is the assignor's own.
        non_overlap_cost: ``rack.aware.assignment.non_overlap_cost``; likewise.
    """

    standby_replicas: int = 0
    acceptable_lag: int = 10_000
    max_warmups: int = 2
    probing_interval_ms: int = 600_000
    tags: tuple[str, ...] = ()
    warm_up: bool = True
    rack_strategy: Literal["none", "min_traffic", "balance_subtopology"] = "none"
    traffic_cost: int | None = None
    non_overlap_cost: int | None = None

    @property
    def rack_costs(self) -> RackCosts:
        """Of tasks with state. Where tasks shall move only if they must, a move costs more than traffic."""
        traffic, move = (10, 1) if self.warm_up else (1, 10)
        return RackCosts(
            traffic if self.traffic_cost is None else self.traffic_cost,
            move if self.non_overlap_cost is None else self.non_overlap_cost,
        )


@dataclass(frozen=True, slots=True)
class Placement:
    """Where tasks are for now.

    Attributes:
        active: By member the tasks to run, those that others still own included.
        handed_out: Of those the ones that may start now.
        standby: By member the standby and warm-up tasks.
        unsettled: Some task waits for its state elsewhere: look again later.
    """

    active: Mapping[str, frozenset[TaskId]]
    handed_out: Mapping[str, frozenset[TaskId]]
    standby: Mapping[str, frozenset[TaskId]]
    unsettled: bool


def place(
    tasks: Collection[TaskId],
    stateful: Collection[TaskId],
    members: Mapping[str, MemberState],
    claimants: Mapping[str, MemberState],
    ends: Mapping[TaskId, int] | None,
    settings: AssignmentSettings,
    racks: Racks | None = None,
) -> Placement:
    """Place all tasks, and copies of those with state.

    Args:
        tasks: All tasks of the topology.
        stateful: Those with state that a changelog keeps.
        members: Who may be given tasks.
        claimants: Whose tasks are withheld from others: ``members``, and members that get nothing.
        ends: By task the sum of its changelogs' ends; None when unknown.
        settings: The leader's configuration.
        racks: Where processes and partitions are, when that shall count.
    """
    lags = Lags(members, stateful, ends, settings.acceptable_lag)
    target = assign(tasks, members, lags)
    if racks is not None:
        kinds = (
            ([task for task in tasks if lags.stateful(task)], settings.rack_costs),
            ([task for task in tasks if not lags.stateful(task)], STATELESS),
        )
        home = {task: members[member_id].process_id for task, member_id in owners(members).items()}
        balance = settings.rack_strategy == "balance_subtopology"
        target = nearer(target, members, kinds, home, racks, balance=balance)
    active = {member_id: set(given) for member_id, given in target.items()}
    warming: dict[TaskId, str] = {}
    unsettled = settings.warm_up and _keep_where_state_is(active, warming, members, lags, settings)
    copies, waiting = _copies(active, warming, members, lags, settings, racks)
    final = {member_id: frozenset(given) for member_id, given in active.items()}
    handed_out = cooperative(final, claimants)
    for member_id, given in final.items():
        # until its owner gives a task up, its next one has a copy: it begins to restore, or keeps what it has
        if members[member_id].follows:
            copies[member_id] |= {task for task in given - handed_out[member_id] if lags.stateful(task)}
    return Placement(final, handed_out, {m: frozenset(t) for m, t in copies.items()}, unsettled or waiting)


def _keep_where_state_is(
    active: Mapping[str, set[TaskId]],
    warming: dict[TaskId, str],
    members: Mapping[str, MemberState],
    lags: Lags,
    settings: AssignmentSettings,
) -> bool:
    """Put tasks back to where their state is; returns whether any does not run where it shall in the end."""
    owner = owners(members)
    processes = sorted({state.process_id for state in members.values()})
    moving: list[tuple[int, TaskId, str, str]] = []
    for wanted, given in active.items():
        process = members[wanted].process_id
        for task in given:
            if not members[wanted].follows or lags.caught_up(process, task):
                continue
            ready = sum(lags.caught_up(other, task) for other in processes)
            holder = owner.get(task)
            if holder is None or (ready and not lags.caught_up(members[holder].process_id, task)):
                # nobody has it, or its owner still restores it and others need not
                if lags.nearest(task) == lags.of(process, task):
                    continue
                holder = _nearest_member(task, active, members, lags)
            if holder != wanted:
                moving.append((ready, task, wanted, holder))
    for _, task, wanted, holder in sorted(moving):
        active[wanted].discard(task)
        active[holder].add(task)
        if len(warming) < settings.max_warmups:
            warming[task] = wanted
    return bool(moving)


def _nearest_member(
    task: TaskId, active: Mapping[str, set[TaskId]], members: Mapping[str, MemberState], lags: Lags
) -> str:
    def cost(member_id: str) -> tuple[bool, int, bool, int, str]:
        state = members[member_id]
        ready = lags.caught_up(state.process_id, task)
        far = 0 if ready else lags.of(state.process_id, task)
        return (not ready, far, task not in state.standbys, len(active[member_id]), member_id)

    return min(members, key=cost)


def _copies(
    active: Mapping[str, set[TaskId]],
    warming: dict[TaskId, str],
    members: Mapping[str, MemberState],
    lags: Lags,
    settings: AssignmentSettings,
    racks: Racks | None,
) -> tuple[dict[str, set[TaskId]], bool]:
    """Standby and warm-up tasks by member, and whether a standby task waits for its state too."""
    stateful = [task for given in active.values() for task in given if lags.stateful(task)]
    placement = StandbyPlacement(members, active, lags, settings.tags)
    warm = {task: members[member_id].process_id for task, member_id in warming.items()}
    placed = placement.place(stateful, settings.standby_replicas, warm)
    if racks is not None:
        placement.exchange(racks, settings.rack_costs, warm)
    waiting = False
    if settings.warm_up and settings.standby_replicas:
        waiting = _keep_copies(placed, active, len(warming), members, lags, settings)
    result: dict[str, set[TaskId]] = {member_id: set() for member_id in members}
    for task, member_id in warming.items():
        result[member_id].add(task)
    for process_id, tasks in sorted(placed.items()):
        _spread(placement, process_id, sorted(tasks), active, result)
    return result, waiting


def _keep_copies(
    placed: Mapping[bytes, set[TaskId]],
    active: Mapping[str, set[TaskId]],
    warmups: int,
    members: Mapping[str, MemberState],
    lags: Lags,
    settings: AssignmentSettings,
) -> bool:
    """A standby task that shall move stays until the new copy is caught up; returns whether any waits for that."""
    home = {task: members[member_id].process_id for member_id, given in active.items() for task in given}
    held: dict[TaskId, set[bytes]] = {}
    for state in members.values():
        for task in state.standbys:
            held.setdefault(task, set()).add(state.process_id)
    waiting = False
    for process_id, tasks in sorted(placed.items()):
        for task in sorted(tasks):
            if lags.caught_up(process_id, task):
                continue
            others = [
                other
                for other in sorted(held.get(task, ()))
                if other != home[task] and task not in placed[other] and lags.caught_up(other, task)
            ]
            if not others:
                continue
            waiting = True
            placed[others[0]].add(task)
            if warmups < settings.max_warmups:
                warmups += 1
            else:
                tasks.discard(task)
    return waiting


def _spread(
    placement: StandbyPlacement,
    process_id: bytes,
    tasks: Sequence[TaskId],
    active: Mapping[str, set[TaskId]],
    result: dict[str, set[TaskId]],
) -> None:
    for task in tasks:
        counts = {member_id: len(active[member_id]) + len(result[member_id]) for member_id in result}
        result[placement.member_of(process_id, task, counts)].add(task)
