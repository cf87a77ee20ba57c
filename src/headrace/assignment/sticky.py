"""The sticky assignment: balanced by count, moving as few tasks as balance allows, the same for the same input.

Two steps. ``assign`` finds the target: every task on exactly one member. ``cooperative`` makes of it what may be
handed out now: a task that another live member still owns is withheld until that member has given it up and joined
again, so that no task ever has two owners.

Balance: with ``n`` tasks and ``m`` members each gets ``n // m`` or one more. The one more goes first to members that
already own that many (each such choice saves a move), then to the process with the fewest tasks per member, then to the
one that has the state of most. Tasks with state are spread so first, by themselves; then the others fill every member
up to its share of all tasks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.assignment.lags import Lags

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from headrace.records import TaskId


@dataclass(frozen=True, slots=True)
class MemberState:
    """What the leader knows of a member.

    Attributes:
        process_id: 16 bytes; the members of one process share it, and its state directory.
        owned: tasks the member runs now.
        stored: tasks whose state is in the process's state directory, run or not.
        generation: of the member's last assignment; claims of an older one lose against newer ones.
        standbys: standby and warm-up tasks of the member.
        offsets: how far the process's copies are (``assignment.wire``).
        tags: ``client.tag.*`` of the process.
        follows: whether the member knows of standby tasks (user data of version 1 does not).
        rack: ``client.rack`` of the process, empty when it has none.
    """

    process_id: bytes
    owned: frozenset[TaskId] = frozenset()
    stored: frozenset[TaskId] = frozenset()
    generation: int = -1
    standbys: frozenset[TaskId] = frozenset()
    offsets: Mapping[TaskId, int] = field(default_factory=dict["TaskId", int])
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    follows: bool = True
    rack: str = ""


@dataclass(slots=True)
class _Load:
    """A member being filled: its share and what it has so far."""

    member_id: str
    process_id: bytes
    quota: int = 0
    tasks: set[TaskId] = field(default_factory=set["TaskId"])
    by_subtopology: dict[int, int] = field(default_factory=dict[int, int])

    @property
    def room(self) -> int:
        return self.quota - len(self.tasks)

    def add(self, task: TaskId) -> None:
        self.tasks.add(task)
        self.by_subtopology[task.subtopology] = self.by_subtopology.get(task.subtopology, 0) + 1

    def remove(self, task: TaskId) -> None:
        self.tasks.discard(task)
        self.by_subtopology[task.subtopology] -= 1


def owners(members: Mapping[str, MemberState]) -> dict[TaskId, str]:
    """Who owns each task now. Of several claims the newest generation's counts; among equals none does.

    Two claims of one generation mean that something went wrong; with no owner the task is handed out as a free one.
    """
    claims: dict[TaskId, list[tuple[int, str]]] = {}
    for member_id, state in members.items():
        for task in state.owned:
            claims.setdefault(task, []).append((state.generation, member_id))
    result: dict[TaskId, str] = {}
    for task, found in claims.items():
        newest = max(generation for generation, _ in found)
        holders = [member_id for generation, member_id in found if generation == newest]
        if len(holders) == 1:
            result[task] = holders[0]
    return result


def assign(
    tasks: Collection[TaskId], members: Mapping[str, MemberState], lags: Lags | None = None
) -> dict[str, frozenset[TaskId]]:
    """The target: every task on exactly one member, members' counts at most one apart, with state and in all.

    A member keeps what it owns up to its share. What it gives up is what others are nearest to. A free task goes to a
    member whose process has its state, if there is room, else where its sub-topology is rarest. Deterministic: depends
    on the values alone, not on their order.

    Args:
        tasks: all tasks of the topology; owned or stored tasks that are not among them are ignored.
        members: by member id; empty gives an empty result.
        lags: which tasks have state, and who is how far with it; None: all have, and nobody knows.

    Returns:
        Every member id with its tasks, possibly none.
    """
    if not members:
        return {}
    known = Lags(members, tasks, None, 0) if lags is None else lags
    loads = [_Load(member_id, members[member_id].process_id) for member_id in sorted(members)]
    everything = sorted(set(tasks))
    filling = _Filling(members, loads, known)
    filling.fill([task for task in everything if known.stateful(task)])
    filling.fill([task for task in everything if not known.stateful(task)])
    return {load.member_id: frozenset(load.tasks) for load in loads}


def cooperative(
    target: Mapping[str, Iterable[TaskId]], members: Mapping[str, MemberState]
) -> dict[str, frozenset[TaskId]]:
    """What of ``target`` may be handed out in this round: all but the tasks that another live member owns.

    A member that loses tasks gives them up and joins again; the next round hands them out. Every claim counts here,
    also one that ``owners`` finds outdated, because its holder may not know yet.
    """
    claimed: dict[TaskId, set[str]] = {}
    for member_id, state in members.items():
        for task in state.owned:
            claimed.setdefault(task, set()).add(member_id)
    return {
        member_id: frozenset(task for task in tasks if claimed.get(task, {member_id}) == {member_id})
        for member_id, tasks in target.items()
    }


class _Filling:
    """Members being filled with one kind of tasks after the other."""

    def __init__(self, members: Mapping[str, MemberState], loads: Sequence[_Load], lags: Lags) -> None:
        self._members = members
        self._loads = loads
        self._lags = lags
        self._owner = owners(members)

    def fill(self, tasks: Sequence[TaskId]) -> None:
        """Spread these tasks so that the members have equal shares of all that they were given so far."""
        owned: dict[str, list[TaskId]] = {load.member_id: [] for load in self._loads}
        for task in tasks:
            if task in self._owner:
                owned[self._owner[task]].append(task)
        self._set_shares(tasks, owned)
        free = set(tasks)
        for load in self._loads:
            kept = owned[load.member_id]
            for task in kept:
                load.add(task)
        for load in self._loads:
            while load.room < 0:
                load.remove(self._to_give_up(load, owned[load.member_id]))
            free -= load.tasks
        for has_state in (True, False):
            for task in sorted(free):
                able = [load for load in self._loads if load.room > 0 and (not has_state or self._has(load, task))]
                chosen = self._best(task, able)
                if chosen is not None:
                    chosen.add(task)
                    free.discard(task)
        assert not free  # the shares add up to the number of tasks

    def _ready(self, process: bytes, task: TaskId) -> bool:
        return self._lags.has_state(process, task) and self._lags.caught_up(process, task)

    def _has(self, load: _Load, task: TaskId) -> bool:
        return task in self._members[load.member_id].stored or self._lags.has_state(load.process_id, task)

    def _to_give_up(self, load: _Load, owned: Sequence[TaskId]) -> TaskId:
        # what somebody with room is nearest to moves soonest; then from the sub-topology this member has most of
        takers = {other.process_id: other.member_id for other in self._loads if other.room > 0}

        def cost(task: TaskId) -> tuple[int, int, int, TaskId]:
            far = min((self._lags.of(process, task) for process in takers), default=0)
            followed = any(task in self._members[member_id].standbys for member_id in takers.values())
            # the latest of equals
            last = type(task)(-task.subtopology, -task.partition)
            return (0 if followed else 1, far, -load.by_subtopology[task.subtopology], last)

        return min((task for task in owned if task in load.tasks), key=cost)

    def _set_shares(self, tasks: Sequence[TaskId], owned: Mapping[str, Sequence[TaskId]]) -> None:
        """Set how many tasks each member is to have in all, once it was given its part of these."""
        members = self._members
        given = {load.member_id: len(load.tasks) for load in self._loads}
        base, extra = divmod(len(tasks) + sum(given.values()), len(self._loads))
        per_process: dict[bytes, int] = {}
        for state in members.values():
            per_process[state.process_id] = per_process.get(state.process_id, 0) + 1
        favours = dict.fromkeys(per_process, 0)
        ready = {process: sum(self._ready(process, task) for task in tasks) for process in per_process}
        favoured: set[str] = set()
        for _ in range(extra):
            pick = min(
                (member_id for member_id in members if member_id not in favoured),
                key=lambda member_id: (
                    # it has more than the base already and cannot be given less
                    given[member_id] <= base,
                    given[member_id] + len(owned[member_id]) <= base,
                    favours[members[member_id].process_id] / per_process[members[member_id].process_id],
                    -len(owned[member_id]),
                    -ready[members[member_id].process_id],
                    members[member_id].process_id,
                    member_id,
                ),
            )
            favoured.add(pick)
            favours[members[pick].process_id] += 1
        for load in self._loads:
            load.quota = base + (load.member_id in favoured)

    def _best(self, task: TaskId, candidates: Sequence[_Load]) -> _Load | None:
        """The candidate nearest to the task's state, then whose process and itself have least of its sub-topology."""
        if not candidates:
            return None
        per_process: dict[bytes, int] = {}
        for load in self._loads:
            per_process[load.process_id] = per_process.get(load.process_id, 0) + load.by_subtopology.get(
                task.subtopology, 0
            )
        return min(
            candidates,
            key=lambda load: (
                not self._lags.caught_up(load.process_id, task),
                self._lags.of(load.process_id, task),
                task not in self._members[load.member_id].standbys,
                load.by_subtopology.get(task.subtopology, 0),
                per_process[load.process_id],
                -load.room,
                load.member_id,
            ),
        )
