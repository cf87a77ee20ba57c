"""The standby tasks of one stream thread, and the open stores that change hands between them and its active tasks."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from headrace.api.restore import SuspendReason
from headrace.engine.standby import StandbyTask
from headrace.errors import LockException, ProcessorStateException

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from headrace.api.stores import KeyValueBody
    from headrace.records import TaskId, TopicPartition
    from headrace.runtime.client import ClientSettings
    from headrace.runtime.state_updater import StateUpdater
    from headrace.topology.copartition import Plan

_log = logging.getLogger(__name__)


class StandbyTasks:
    """See the module. Used by its stream thread only.

    An active task that becomes a standby, or the other way round, keeps its stores open: :meth:`keep` and :meth:`take`.
    The task's directory stays locked meanwhile, by the same owner.

    Args:
        name: The thread's name, for messages.
        shared: The client's fixed parts.
        owner: Who locks directories: the stream thread.
        updater: Keeps them up.
        plan: The tasks there are now.
        sign_of_life: Called now and then while this waits for the updater.
    """

    def __init__(
        self,
        name: str,
        shared: ClientSettings,
        owner: object,
        updater: StateUpdater,
        plan: Callable[[], Plan],
        sign_of_life: Callable[[], None],
    ) -> None:
        self._name = name
        self._shared = shared
        self._owner = owner
        self._updater = updater
        self._plan = plan
        self._sign_of_life = sign_of_life
        self._kept: dict[TaskId, dict[str, KeyValueBody]] = {}
        self._waiting: set[TaskId] = set()
        self.tasks: dict[TaskId, StandbyTask] = {}
        """Those that follow their changelogs."""

    def set(self, wanted: Iterable[TaskId], active: Iterable[TaskId]) -> None:
        """Have exactly these; what becomes active is kept open for :meth:`take`.

        Args:
            wanted: The standby tasks from now on.
            active: The active tasks from now on.
        """
        following, becoming = frozenset(wanted), frozenset(active)
        self._stop(self.tasks.keys() - following, becoming)
        self._waiting = set(following - self.tasks.keys())
        for task_id in self._kept.keys() - following - becoming:
            self._let_go(task_id)

    def serve(self) -> None:
        """Start those whose directories are free by now."""
        for task_id in sorted(self._waiting):
            self._start(task_id)

    def keep(self, task_id: TaskId, bodies: dict[str, KeyValueBody]) -> None:
        """Hold the open stores of an active task that has ended, until the task is a standby; the directory too."""
        self._kept[task_id] = bodies

    def take(self, task_id: TaskId) -> Mapping[str, KeyValueBody] | None:
        """The open stores of a standby task that has become active, or None; from now on the caller's."""
        return self._kept.pop(task_id, None)

    def drop_kept(self) -> None:
        """Close open stores that wait for a task to take them over."""
        for task_id in list(self._kept):
            self._let_go(task_id)

    def close(self) -> None:
        """Close all; the updater must have ended, or holds none of them."""
        self._waiting.clear()
        for task in list(self.tasks.values()):
            self._close(task)
        self.drop_kept()

    def _stop(self, leaving: Iterable[TaskId], becoming: frozenset[TaskId]) -> None:
        going = [self.tasks[task_id] for task_id in leaving]
        if not going:
            return
        self._updater.remove([task.id for task in going], self._shared.task_timeout_ms / 1000, self._sign_of_life)
        for task in going:
            promoted = task.id in becoming
            self._tell(task, SuspendReason.PROMOTED if promoted else SuspendReason.MIGRATED)
            if promoted:
                del self.tasks[task.id]
                self._kept[task.id] = task.detach()
            else:
                self._close(task)

    def _tell(self, task: StandbyTask, reason: SuspendReason) -> None:
        for tp, store in task.changelogs.items():
            self._shared.listeners.standby.on_update_suspended(
                tp, store.name, store.rows.body.offset() or 0, task.ends.get(tp, -1), reason
            )

    def _start(self, task_id: TaskId) -> None:
        plan, shared = self._plan(), self._shared
        partitions: tuple[TopicPartition, ...] | None = plan.tasks.get(task_id)
        sub = next((sub for sub in plan.built.subtopologies if sub.id == task_id.subtopology), None)
        if partitions is None or sub is None:
            # of a topic that this instance does not know yet, or no more: the next assignment says
            self._waiting.discard(task_id)
            return
        try:
            shared.directory.acquire(task_id, self._owner)
        except LockException as e:
            # a sibling thread is still closing it
            _log.debug("%s", e)
            return
        self._waiting.discard(task_id)
        try:
            task = StandbyTask(
                sub,
                task_id,
                shared.engine,
                lambda store: shared.directory.store_path(task_id, store),
                partitions,
                self._kept.pop(task_id, None),
            )
        except BaseException as e:
            shared.directory.release(task_id, self._owner)
            if isinstance(e, ProcessorStateException):
                # the active task lives elsewhere: a copy that cannot be kept is no reason to end this thread
                _log.error("%s: standby task %s cannot be kept: %s", self._name, task_id, e)  # says it all
                return
            raise
        self.tasks[task_id] = task
        shared.positions.opened(task)
        self._updater.add(task)

    def _close(self, task: StandbyTask) -> None:
        del self.tasks[task.id]
        self._shared.positions.closed(task)
        try:
            task.close()
        finally:
            self._shared.directory.release(task.id, self._owner)

    def _let_go(self, task_id: TaskId) -> None:
        for body in self._kept.pop(task_id).values():
            body.close()
        self._shared.directory.release(task_id, self._owner)
