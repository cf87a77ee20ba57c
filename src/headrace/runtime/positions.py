"""How far the state of this process is: what each member says of it when it joins, and what is asked of it at run time.

A number a task: the sum of its stores' changelog offsets. Of tasks that are open it is read from the stores; of others
from a file in the task's directory, written when the task closes and now and then meanwhile. After a kill the file is a
little behind, which only makes the task look less caught up than it is.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from headrace.assignment import RUNNING_OFFSET
from headrace.engine.standby import StandbyTask
from headrace.runtime.changelogs import offset_sum

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.records import TaskId, TopicPartition
    from headrace.runtime.changelogs import Restorable
    from headrace.state.directory import StateDirectory

_SAVE_EVERY_S = 1.0


class StatePositions:
    """See the module; one for all threads of a client."""

    def __init__(self, directory: StateDirectory) -> None:
        self._directory = directory
        self._writing = threading.Lock()
        """Taken before the other one, which nobody may hold while the disk is written: heartbeats ask for positions."""
        self._guard = threading.Lock()
        self._open: dict[TaskId, Restorable] = {}
        self._running: set[TaskId] = set()
        self._closed = directory.offset_sums()
        self._saved_at = 0.0

    def __call__(self) -> dict[TaskId, int]:
        """By task the offset sum, or ``RUNNING_OFFSET``; of tasks that have state here."""
        with self._guard:
            found = {task_id: offset for task_id, offset in self._closed.items() if self._directory.has_task(task_id)}
            found |= {task_id: offset_sum(task) for task_id, task in self._open.items() if task.changelogs}
            return found | dict.fromkeys(self._running, RUNNING_OFFSET)

    def opened(self, task: Restorable) -> None:
        """The task's stores are open: it restores, or follows."""
        with self._guard:
            self._open[task.id] = task

    def running(self, task: Restorable) -> None:
        """The task has all its state and processes."""
        if task.changelogs:
            with self._guard:
                self._running.add(task.id)

    def closed(self, task: Restorable) -> None:
        """The task's stores are about to be closed, or were."""
        with self._writing:
            with self._guard:
                self._running.discard(task.id)
                was_open = self._open.get(task.id) is task
                if was_open:
                    del self._open[task.id]
                moved = self._moved([task] if was_open else [])
            self._write(moved)

    def save(self) -> None:
        """Write down how far open tasks are; does nothing most of the time."""
        if time.monotonic() - self._saved_at < _SAVE_EVERY_S:
            return
        with self._writing:
            self._saved_at = time.monotonic()
            with self._guard:
                moved = self._moved(self._open.values())
            self._write(moved)

    def end_sums(self) -> dict[TaskId, int]:
        """By standby task the sum of its changelogs' ends when last looked at; of those whose ends are all known."""
        with self._guard:
            return {
                task_id: sum(dict(task.ends).values())
                for task_id, task in self._open.items()
                if isinstance(task, StandbyTask) and task.ends.keys() >= task.changelogs.keys()
            }

    def stores(self) -> dict[TaskId, dict[TopicPartition, tuple[str, int | None]]]:
        """By open task and changelog partition the store's name, and the next offset it reads; None if it writes."""
        with self._guard:
            return {
                task.id: {
                    tp: (store.name, None if task.id in self._running else store.rows.body.offset() or 0)
                    for tp, store in task.changelogs.items()
                }
                for task in self._open.values()
            }

    def _moved(self, tasks: Iterable[Restorable]) -> dict[TaskId, int]:
        now = {task.id: offset_sum(task, persistent_only=True) for task in tasks}
        moved = {task_id: total for task_id, total in now.items() if total > 0 and self._closed.get(task_id) != total}
        self._closed |= moved
        return moved

    def _write(self, moved: Mapping[TaskId, int]) -> None:
        for task_id, total in moved.items():
            self._directory.save_offset_sum(task_id, total)
