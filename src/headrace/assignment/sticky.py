"""The sticky assignment: balanced by count, moving as few tasks as balance allows, the same for the same input.

Two steps. ``assign`` finds the target: every task on exactly one member. ``cooperative`` makes of it what may be
handed out now: a task that another live member still owns is withheld until that member has given it up and joined
again, so that no task ever has two owners.

Balance: with ``n`` tasks and ``m`` members each gets ``n // m`` or one more. The one more goes first to members that
already own that many (each such choice saves a move), then to the process with the fewest tasks per member.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headrace.records import TaskId


@dataclass(frozen=True, slots=True)
class MemberState:
    """What the leader knows of a member.

    Attributes:
        process_id: 16 bytes; the members of one process share it, and its state directory.
        owned: tasks the member runs now.
        stored: tasks whose state is in the process's state directory, run or not.
        generation: of the member's last assignment; claims of an older one lose against newer ones.
    """

    process_id: bytes
    owned: frozenset[TaskId] = frozenset()
    stored: frozenset[TaskId] = frozenset()
    generation: int = -1


@dataclass(slots=True)
class _Load:
    """A member being filled: its share and what it has so far."""

    member_id: str
    process_id: bytes
    quota: int
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


def assign(tasks: Sequence[TaskId], members: Mapping[str, MemberState]) -> dict[str, frozenset[TaskId]]:
    """The target: every task on exactly one member, members' counts at most one apart.

    A member keeps what it owns up to its share; a free task goes to a member whose process has its state, if there is
    room, else where its sub-topology is rarest. Deterministic: depends on the values alone, not on their order.

    Args:
        tasks: all tasks of the topology; owned or stored tasks that are not among them are ignored.
        members: by member id; empty gives an empty result.

    Returns:
        Every member id with its tasks, possibly none.
    """
    if not members:
        return {}
    everything = sorted(set(tasks))
    owner = owners(members)
    owned: dict[str, list[TaskId]] = {member_id: [] for member_id in members}
    for task in everything:
        if task in owner:
            owned[owner[task]].append(task)
    loads = _shares(len(everything), members, {member_id: len(found) for member_id, found in owned.items()})
    free = set(everything)
    for load in loads:
        for task in owned[load.member_id]:
            load.add(task)
        while load.room < 0:
            # Give up from the sub-topology this member has most of, so that each one's tasks stay spread.
            load.remove(max(load.tasks, key=lambda task: (load.by_subtopology[task.subtopology], task)))
        free -= load.tasks
    for task in sorted(free):
        chosen = _best(
            task, [load for load in loads if load.room > 0 and task in members[load.member_id].stored], loads
        )
        if chosen is not None:
            chosen.add(task)
            free.discard(task)
    for task in sorted(free):
        chosen = _best(task, [load for load in loads if load.room > 0], loads)
        assert chosen is not None  # the shares add up to the number of tasks
        chosen.add(task)
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


def _shares(count: int, members: Mapping[str, MemberState], owned: Mapping[str, int]) -> list[_Load]:
    """How many tasks each member gets, in the order of member ids."""
    base, extra = divmod(count, len(members))
    per_process: dict[bytes, int] = {}
    for state in members.values():
        per_process[state.process_id] = per_process.get(state.process_id, 0) + 1
    given = dict.fromkeys(per_process, 0)
    favoured: set[str] = set()
    for _ in range(extra):
        pick = min(
            (member_id for member_id in members if member_id not in favoured),
            key=lambda member_id: (
                owned[member_id] <= base,
                given[members[member_id].process_id] / per_process[members[member_id].process_id],
                -owned[member_id],
                members[member_id].process_id,
                member_id,
            ),
        )
        favoured.add(pick)
        given[members[pick].process_id] += 1
    return [
        _Load(member_id, members[member_id].process_id, base + (member_id in favoured)) for member_id in sorted(members)
    ]


def _best(task: TaskId, candidates: Sequence[_Load], loads: Sequence[_Load]) -> _Load | None:
    """The candidate whose process, then itself, has least of the task's sub-topology, then least of all."""
    if not candidates:
        return None
    per_process: dict[bytes, int] = {}
    for load in loads:
        per_process[load.process_id] = per_process.get(load.process_id, 0) + load.by_subtopology.get(
            task.subtopology, 0
        )
    return min(
        candidates,
        key=lambda load: (
            load.by_subtopology.get(task.subtopology, 0),
            per_process[load.process_id],
            -load.room,
            load.member_id,
        ),
    )
