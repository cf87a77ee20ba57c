"""Tasks in the racks of their partitions: less traffic between racks, every process keeping its number of tasks.

The target is improved as a flow of least cost is: a cycle of processes that hand a task on to each other, and that
costs less in all, is looked for and done until there is none. Then no assignment with the same numbers costs less.
A task costs ``traffic`` for each of its partitions that has no replica in the rack of its process, and ``move`` where
it does not run now. Only what becomes cheaper is done, so that the next assignment finds nothing to do.

With ``balance`` the tasks of each sub-topology shall also be spread evenly, which counts before everything else: the
nodes of the graph are then a process's tasks of one sub-topology, and a process that takes a task of one and hands on
one of another pays for, or gains, what that does to its share.

Source: ``RackAwareTaskAssignor`` (KIP-925), which solves a graph of all tasks and all processes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from headrace.assignment.sticky import MemberState
    from headrace.records import TaskId, TopicPartition


class RackCosts(NamedTuple):
    """``rack.aware.assignment.traffic_cost`` and ``non_overlap_cost``."""

    traffic: int
    move: int


STATELESS: RackCosts = RackCosts(1, 0)
"""Tasks without state may move for nothing."""


class Racks:
    """Where processes and partitions are.

    Args:
        processes: Rack by process.
        partitions: Racks of a partition's replicas.
        sources: What each task reads.
        changelogs: The changelogs of each task with state.
    """

    def __init__(
        self,
        processes: Mapping[bytes, str],
        partitions: Mapping[TopicPartition, Collection[str]],
        sources: Mapping[TaskId, Iterable[TopicPartition]],
        changelogs: Mapping[TaskId, Iterable[TopicPartition]],
    ) -> None:
        self.processes = processes
        self._of_sources = {task: [partitions.get(tp, ()) for tp in tps] for task, tps in sources.items()}
        self._of_changelogs = {task: [partitions.get(tp, ()) for tp in tps] for task, tps in changelogs.items()}

    def crossings(self, task: TaskId, process: bytes) -> int:
        """Source partitions of a task that a process would read from another rack."""
        rack = self.processes[process]
        return sum(rack not in racks for racks in self._of_sources.get(task, ()))

    def copy_crossings(self, task: TaskId, process: bytes) -> int:
        """The same of changelogs."""
        rack = self.processes[process]
        return sum(rack not in racks for racks in self._of_changelogs.get(task, ()))


def racks_of(members: Mapping[str, MemberState]) -> dict[bytes, str] | None:
    """The rack of every process; None if one has none, or its members say different things."""
    found: dict[bytes, str] = {}
    for state in members.values():
        if not state.rack or found.setdefault(state.process_id, state.rack) != state.rack:
            return None
    return found


def nearer(
    target: Mapping[str, frozenset[TaskId]],
    members: Mapping[str, MemberState],
    kinds: Iterable[tuple[Collection[TaskId], RackCosts]],
    home: Mapping[TaskId, bytes],
    racks: Racks,
    *,
    balance: bool,
) -> dict[str, frozenset[TaskId]]:
    """The target with tasks exchanged between processes; every member keeps its number of tasks of each kind.

    Args:
        target: By member id.
        members: By member id.
        kinds: Tasks that may be exchanged for each other, and what they cost.
        home: Process that runs a task now.
        racks: Where everything is.
        balance: Spread each sub-topology evenly first.
    """
    result = {member_id: set(tasks) for member_id, tasks in target.items()}
    weights: dict[bytes, int] = {}
    for state in members.values():
        weights[state.process_id] = weights.get(state.process_id, 0) + 1
    for tasks, costs in kinds:
        at = {task: members[member_id].process_id for member_id, has in target.items() for task in has & set(tasks)}

        def cost(task: TaskId, process: bytes, costs: RackCosts = costs, at: Mapping[TaskId, bytes] = at) -> int:
            moved = process != home.get(task, at[task])
            return costs.traffic * racks.crossings(task, process) + costs.move * moved

        placed = Exchange(at, weights, cost, balance=balance).run()
        _hand_on(result, {task: process for task, process in placed.items() if process != at[task]}, members)
    return {member_id: frozenset(tasks) for member_id, tasks in result.items()}


def _hand_on(result: dict[str, set[TaskId]], moved: Mapping[TaskId, bytes], members: Mapping[str, MemberState]) -> None:
    """Move tasks to processes: their members have room by as many as were taken from them."""
    room: dict[str, int] = {}
    for member_id, tasks in result.items():
        room[member_id] = len(tasks & moved.keys())
        tasks.difference_update(moved)
    for task, process in sorted(moved.items()):
        able = [m for m, state in members.items() if state.process_id == process and room.get(m, 0) > 0]
        chosen = min(able, key=lambda member_id: (task not in members[member_id].owned, member_id))
        result[chosen].add(task)
        room[chosen] -= 1


class _Step(NamedTuple):
    """An arc of the graph: to which node, for how much more, and the task that goes along; None within a process."""

    to: int
    cost: int
    task: TaskId | None


class Exchange:
    """Tasks on processes, and cycles that make it cheaper.

    A node is a group of tasks on a process, twice: a task leaves from the node of its group and arrives at the one of
    its group elsewhere, from where one of any group of that process leaves in turn.

    Args:
        at: By task its process.
        weights: By process its part of all: the number of its members.
        cost: Of a task on a process.
        balance: Groups are sub-topologies, to be spread by the weights; else all tasks are one group.
    """

    def __init__(
        self,
        at: Mapping[TaskId, bytes],
        weights: Mapping[bytes, int],
        cost: Callable[[TaskId, bytes], int],
        *,
        balance: bool,
    ) -> None:
        self._at = dict(at)
        self._processes = sorted(weights)
        self._groups = sorted({task.subtopology for task in at}) if balance else [-1]
        self._costs = {task: {process: cost(task, process) for process in self._processes} for task in at}
        self._dear = 1 + sum(max(by_process.values()) for by_process in self._costs.values())
        self._tasks: dict[tuple[int, bytes], set[TaskId]] = {
            (group, process): set() for process in self._processes for group in self._groups
        }
        for task, process in at.items():
            self._tasks[self._group(task), process].add(task)
        self._nodes = list(self._tasks)
        self._number = {node: number for number, node in enumerate(self._nodes)}
        self._shares = {
            (group, process): self._share(group, weights[process], sum(weights.values()))
            for group, process in self._nodes
        }
        self._leaving: dict[int, list[_Step]] = {}

    def run(self) -> dict[TaskId, bytes]:
        """The cheapest places."""
        while self._at and (steps := self._cycles()):
            for step in steps:
                if step.task is not None:
                    self._move(step.task, self._nodes[step.to - len(self._nodes)][1])
        return self._at

    def _group(self, task: TaskId) -> int:
        return task.subtopology if self._groups[0] >= 0 else -1

    def _share(self, group: int, weight: int, weights: int) -> tuple[int, int]:
        """The least and the greatest number of a group's tasks that is a fair share of a process."""
        if group < 0:
            return 0, len(self._at)
        count = sum(self._group(task) == group for task in self._at)
        return count * weight // weights, -(-count * weight // weights)

    def _move(self, task: TaskId, process: bytes) -> None:
        group = self._group(task)
        for node in ((group, self._at[task]), (group, process)):
            self._leaving.pop(self._number[node], None)
        self._tasks[group, self._at[task]].discard(task)
        self._tasks[group, process].add(task)
        self._at[task] = process

    def _steps(self) -> list[list[_Step]]:
        """By node what goes on from it: first where tasks leave, then where they arrive."""
        size = len(self._nodes)
        for number, (group, process) in enumerate(self._nodes):
            if number not in self._leaving:
                self._leaving[number] = self._leave(group, process)
        arriving: list[list[_Step]] = []
        for group, process in self._nodes:
            arriving.append(
                [
                    _Step(
                        self._number[other, process],
                        0
                        if other == group
                        else self._dear * (self._off((group, process), 1) + self._off((other, process), -1)),
                        None,
                    )
                    for other in self._groups
                ]
            )
        return [self._leaving[number] for number in range(size)] + arriving

    def _leave(self, group: int, process: bytes) -> list[_Step]:
        tasks = sorted(self._tasks[group, process])
        steps: list[_Step] = []
        for other in self._processes:
            if other != process and tasks:
                task = min(tasks, key=lambda task: (self._costs[task][other] - self._costs[task][process], task))
                more = self._costs[task][other] - self._costs[task][process]
                steps.append(_Step(len(self._nodes) + self._number[group, other], more, task))
        return steps

    def _off(self, node: tuple[int, bytes], change: int) -> int:
        """How much further from its share a group on a process is when that many tasks more are there."""
        least, most = self._shares[node]

        def wrong(count: int) -> int:
            return max(0, count - most) + max(0, least - count)

        count = len(self._tasks[node])
        return wrong(count + change) - wrong(count)

    def _cycles(self) -> list[_Step]:
        """The steps of some cycles without a common node that cost less than nothing; none if there are no such."""
        steps = self._steps()
        far = [0] * len(steps)
        came: dict[int, tuple[int, _Step]] = {}
        found: list[_Step] = []
        changed = True
        while changed and not found:
            changed = False
            for start, leaving in enumerate(steps):
                for step in leaving:
                    if far[start] + step.cost < far[step.to]:
                        far[step.to] = far[start] + step.cost
                        came[step.to] = start, step
                        changed = True
            # ways that are the shortest so far and go in a circle become shorter with each time round (Bellman, Ford)
            found = _circles(came)
        return found


def _circles(came: Mapping[int, tuple[int, _Step]]) -> list[_Step]:
    """The steps of all circles in a graph by which every node is come to from at most one other."""
    found: list[_Step] = []
    seen: dict[int, int] = {}
    for begin in came:
        node = begin
        while node in came and node not in seen:
            seen[node] = begin
            node = came[node][0]
        if seen.get(node) == begin:
            first = node
            while True:
                node, step = came[node]
                found.append(step)
                if node == first:
                    break
    return found
