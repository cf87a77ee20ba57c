"""Deletes directories of tasks that are no longer here. Source: ``StateDirectory.cleanRemovedTasks``, KIP-1259."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.state.directory import StateDirectory

_log = logging.getLogger(__name__)


class StateCleaner:
    """A thread that looks every ``state.cleanup.delay.ms`` for task directories that nobody has touched for as long.

    Args:
        name: The thread's name.
        directory: Where to look.
        delay_ms: ``state.cleanup.delay.ms``.
        max_age_ms: ``state.cleanup.dir.max.age.ms``: older ones are deleted at the start; negative for never.
    """

    def __init__(self, name: str, directory: StateDirectory, delay_ms: int, max_age_ms: int) -> None:
        self._directory = directory
        self._delay_ms = delay_ms
        self._max_age_ms = max_age_ms
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Delete what is too old to be restored from, then start the thread."""
        if self._max_age_ms >= 0:
            self._remove(self._max_age_ms, "state.cleanup.dir.max.age.ms")
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and wait for it."""
        self._stop.set()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._delay_ms / 1000):
            self._remove(self._delay_ms, "state.cleanup.delay.ms")

    def _remove(self, age_ms: int, setting: str) -> None:
        try:
            for task_id in self._directory.remove_unused(time.time() - age_ms / 1000):
                _log.info("Deleted the directory of task %s, unused for %d ms (%s)", task_id, age_ms, setting)
        except OSError as e:
            _log.warning("directories of tasks that are no longer here could not be deleted: %s", e)
