"""How far behind each process is with each task's state, as far as the members' reports tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.assignment.wire import RUNNING_OFFSET

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from headrace.assignment.sticky import MemberState
    from headrace.records import TaskId

NO_STATE = 1 << 62
"""The lag of a process that has nothing of a task's state and whose end nobody knows."""
_SOME_STATE = NO_STATE - 1


class Lags:
    """Lags by process and task, in records of the task's changelogs.

    Args:
        members: By member id; what any member of a process says of a task counts for the process.
        stateful: Tasks that have state; the others are everywhere without lag.
        ends: By task the sum of its changelogs' ends; None when the brokers did not say, then only who runs a task
            counts as caught up with it, and the others by how far they are.
        acceptable: ``acceptable.recovery.lag``: the greatest lag that counts as caught up.
    """

    def __init__(
        self,
        members: Mapping[str, MemberState],
        stateful: Collection[TaskId],
        ends: Mapping[TaskId, int] | None,
        acceptable: int,
    ) -> None:
        self._acceptable = acceptable
        self._stateful = frozenset(stateful)
        self._processes = sorted({state.process_id for state in members.values()})
        self._lags: dict[tuple[bytes, TaskId], int] = {}
        self._ends = ends
        for state in members.values():
            for task in state.stored:
                self._note(state.process_id, task, _SOME_STATE)
            for task, offset in state.offsets.items():
                self._note(state.process_id, task, self._behind(task, offset))
        for state in members.values():
            for task in state.owned - state.offsets.keys():
                # what it runs, of a member whose version tells no more; others tell of a task that they still restore
                self._lags[state.process_id, task] = 0

    def stateful(self, task: TaskId) -> bool:
        """Whether a task has state."""
        return task in self._stateful

    def of(self, process: bytes, task: TaskId) -> int:
        """The lag of a process, 0 for a task without state and for one that runs there."""
        if task not in self._stateful:
            return 0
        return self._lags.get((process, task), self._behind(task, 0))

    def has_state(self, process: bytes, task: TaskId) -> bool:
        """Whether the process has said that it has some state of the task."""
        return (process, task) in self._lags

    def caught_up(self, process: bytes, task: TaskId) -> bool:
        """Whether the process may run the task at once."""
        return self.of(process, task) <= self._acceptable

    def nearest(self, task: TaskId) -> int:
        """The least lag that any process has."""
        return min(self.of(process, task) for process in self._processes)

    def _note(self, process: bytes, task: TaskId, lag: int) -> None:
        self._lags[process, task] = min(lag, self._lags.get((process, task), NO_STATE))

    def _behind(self, task: TaskId, offset: int) -> int:
        if offset == RUNNING_OFFSET:
            return 0
        if self._ends is None:
            # greater offsets are nearer, and everything is further than what counts as caught up
            return max(_SOME_STATE - 1 - offset, 0) if offset > 0 else NO_STATE
        return max(self._ends.get(task, 0) - max(offset, 0), 0)
