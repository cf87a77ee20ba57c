"""A task's head record that waits for something its serde needs, such as a schema registry.

Nothing is wrong with the record, so no handler is asked, and it stays the head: its offset cannot be committed. The
task tries again after a pause that grows; other tasks of the thread go on meanwhile. After ``task.timeout.ms`` it is an
error of the thread. Source: ``TaskExecutor.processTask`` and ``maybeInitTaskTimeoutOrThrow`` of Kafka 4.4.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from headrace.errors import StreamsException

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.errors import TimeoutException
    from headrace.records import TaskId

_log = logging.getLogger(__name__)

_FIRST_PAUSE_MS: Final = 100
_LONGEST_PAUSE_MS: Final = 5_000


class Stall:
    """Whether a task waits, and until when. ``error`` is why; None when it does not."""

    def __init__(self, task_id: TaskId, clock: Callable[[], int], timeout_ms: int) -> None:
        self.error: TimeoutException | None = None
        self._task_id = task_id
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._since = 0
        self._next = 0
        self._pause_ms = _FIRST_PAUSE_MS

    def holds(self) -> bool:
        """Whether it is too early to try again."""
        return self.error is not None and self._clock() < self._next

    def extend(self, error: TimeoutException, where: str) -> None:
        """It is not there yet. ``where`` is the record's place.

        Raises:
            StreamsException: It has not been there for ``task.timeout.ms``.
        """
        now = self._clock()
        if self.error is None:
            self._since, self._pause_ms = now, _FIRST_PAUSE_MS
        if now - self._since > self._timeout_ms:
            raise StreamsException(
                f"The record at {where} has waited for {(now - self._since) / 1000:.0f} s (task.timeout.ms); its "
                f"offset is not committed: {error}",
                self._task_id,
            ) from error
        self.error = error
        self._next = now + self._pause_ms
        _log.warning("Task %s waits at %s, trying again in %d ms: %s", self._task_id, where, self._pause_ms, error)
        self._pause_ms = min(2 * self._pause_ms, _LONGEST_PAUSE_MS)

    def end(self) -> None:
        """Records are processed again."""
        self.error = None
