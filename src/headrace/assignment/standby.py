"""Where the copies of tasks are kept: standby tasks, never on the process of the active one.

Copies stay where they are as long as loads allow. With tags (KIP-708) a task's copies go to processes that differ in
them from the active task's process and from each other, as far as there are such: a process with fewer tags in common
is always preferred. The Java library leaves a tag out once its values are used up, and falls back to the least loaded
process when no candidate differs in all that are left.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headrace.assignment.lags import Lags
    from headrace.assignment.racks import RackCosts, Racks
    from headrace.assignment.sticky import MemberState
    from headrace.records import TaskId


@dataclass(slots=True)
class _Process:
    """One process being filled."""

    process_id: bytes
    members: list[str]
    tags: Mapping[str, str]
    active: set[TaskId] = field(default_factory=set["TaskId"])
    copies: set[TaskId] = field(default_factory=set["TaskId"])
    share: int = 0

    def load(self) -> float:
        return (len(self.active) + len(self.copies)) / len(self.members)


class StandbyPlacement:
    """Places the standby tasks of one round.

    Args:
        members: By member id; members that do not know of standby tasks get none.
        active: The active tasks of every member, as they shall be.
        lags: Who is how far with what.
        tags: ``rack.aware.assignment.tags``.
    """

    def __init__(
        self,
        members: Mapping[str, MemberState],
        active: Mapping[str, Iterable[TaskId]],
        lags: Lags,
        tags: Sequence[str],
    ) -> None:
        self._members = members
        self._lags = lags
        self._tags = tuple(tags)
        self._processes: dict[bytes, _Process] = {}
        self._held: dict[bytes, set[TaskId]] = {}
        for member_id, state in sorted(members.items()):
            if state.follows:
                found = self._processes.setdefault(state.process_id, _Process(state.process_id, [], state.tags))
                found.members.append(member_id)
            self._held.setdefault(state.process_id, set()).update(state.standbys, state.owned)
        self._tags_of = {state.process_id: state.tags for state in members.values()}
        self._home: dict[TaskId, bytes] = {}
        for member_id, tasks in active.items():
            process_id = members[member_id].process_id
            for task in tasks:
                self._home[task] = process_id
                if process_id in self._processes:
                    self._processes[process_id].active.add(task)

    def place(self, tasks: Iterable[TaskId], replicas: int, taken: Mapping[TaskId, bytes]) -> dict[bytes, set[TaskId]]:
        """Choose the processes of every task's copies.

        Args:
            tasks: Tasks with state.
            replicas: ``num.standby.replicas``; fewer when there are not as many other processes.
            taken: Process that warms a task up beside its standbys.

        Returns:
            By process id the tasks of which it keeps a copy.
        """
        wanted = dict.fromkeys(sorted(tasks), replicas)
        capacity = sum(len(process.members) for process in self._processes.values())
        total = replicas * len(wanted)
        for process in self._processes.values():
            process.share = -(-total * len(process.members) // max(capacity, 1))
        for staying in (True, False):
            for task in wanted:
                while wanted[task] > 0:
                    chosen = self._choose(task, taken.get(task), staying)
                    if chosen is None:
                        break
                    chosen.copies.add(task)
                    wanted[task] -= 1
        return {process.process_id: process.copies for process in self._processes.values()}

    def exchange(self, racks: Racks, costs: RackCosts, taken: Mapping[TaskId, bytes]) -> None:
        """Have processes in different racks exchange copies that are cheaper so, each keeping its number of them.

        No task gets more tags in common by it.

        Args:
            racks: Where processes and changelogs are.
            costs: Of reading a changelog across racks, and of a copy on a process that has nothing of it.
            taken: As in ``place``.
        """
        processes = sorted(self._processes)
        better = True
        while better:
            better = False
            for number, one in enumerate(processes):
                for other in processes[number + 1 :]:
                    if racks.processes[one] != racks.processes[other]:
                        better = self._exchange_two(one, other, racks, costs, taken) or better

    def _exchange_two(
        self, one: bytes, other: bytes, racks: Racks, costs: RackCosts, taken: Mapping[TaskId, bytes]
    ) -> bool:
        def cost(task: TaskId, process_id: bytes) -> int:
            moved = task not in self._held[process_id]
            return costs.traffic * racks.copy_crossings(task, process_id) + costs.move * moved

        def cheapest(here: bytes, there: bytes) -> list[tuple[int, TaskId]]:
            able = [
                task
                for task in self._processes[here].copies - self._processes[there].copies
                if there not in (self._home.get(task), taken.get(task)) and self._may_move(task, here, there)
            ]
            return sorted((cost(task, there) - cost(task, here), task) for task in able)

        done = False
        for (more, task), (more_back, back) in zip(cheapest(one, other), cheapest(other, one), strict=False):
            if more + more_back >= 0:
                break
            self._processes[one].copies.symmetric_difference_update((task, back))
            self._processes[other].copies.symmetric_difference_update((task, back))
            done = True
        return done

    def _may_move(self, task: TaskId, here: bytes, there: bytes) -> bool:
        others = [self._home.get(task), *(p.process_id for p in self._processes.values() if task in p.copies)]
        others.remove(here)
        return self._in_common(self._processes[there], others) <= self._in_common(self._processes[here], others)

    def member_of(self, process_id: bytes, task: TaskId, counts: Mapping[str, int]) -> str:
        """Which member of a process keeps a copy: one that has it, else the one with least (``counts``)."""
        return min(
            self._processes[process_id].members,
            key=lambda member_id: (
                task not in self._members[member_id].owned,
                task not in self._members[member_id].standbys,
                counts.get(member_id, 0),
                member_id,
            ),
        )

    def follows(self, process_id: bytes) -> bool:
        """Whether a process can keep copies."""
        return process_id in self._processes

    def _choose(self, task: TaskId, warming: bytes | None, staying: bool) -> _Process | None:
        able = [
            process
            for process in self._processes.values()
            if process.process_id not in (self._home.get(task), warming) and task not in process.copies
        ]
        if not able:
            return None
        used = [self._home.get(task), *(p.process_id for p in self._processes.values() if task in p.copies)]
        common = {process.process_id: self._in_common(process, used) for process in able}
        fewest = min(common.values())
        able = [process for process in able if common[process.process_id] == fewest]
        if staying:
            able = [
                process
                for process in able
                if task in self._held[process.process_id] and len(process.copies) < process.share
            ]
        return min(able, key=lambda process: self._cost(process, task), default=None)

    def _cost(self, process: _Process, task: TaskId) -> tuple[bool, bool, int, float, bytes]:
        ready = self._lags.caught_up(process.process_id, task)
        return (
            len(process.copies) >= process.share,
            not ready,
            0 if ready else self._lags.of(process.process_id, task),
            process.load(),
            process.process_id,
        )

    def _in_common(self, process: _Process, used: Sequence[bytes | None]) -> int:
        """In how many of the tags a process does not differ from those that have the task already."""
        return sum(
            1
            for tag in self._tags
            for other in used
            if other is not None and tag in process.tags and self._tags_of[other].get(tag) == process.tags[tag]
        )
