"""How long failures may follow one another without a commit between them, and how long to wait after each."""

from __future__ import annotations

from typing import Final

_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 5.0
_CALM_S: Final = 60.0
"""Failures that are further apart than this, and than the limit, have nothing to do with one another.

There need not be a commit between them: there may have been nothing to commit, or no task.
"""


class Patience:
    """Failures of one thread since its last commit. Times are in seconds of one clock.

    Args:
        limit_s: How long there may be nothing but failures.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._first_s: float | None = None
        self._last_s = 0.0
        self._pause_s = _FIRST_PAUSE_S

    def succeeded(self) -> None:
        """Something was committed."""
        self._first_s = None
        self._pause_s = _FIRST_PAUSE_S

    def failed(self, now_s: float) -> float:
        """Something has failed. Returns for how long there has been nothing but failures."""
        if self._first_s is None or now_s - self._last_s > max(self._limit_s, _CALM_S):
            self._first_s = now_s
            self._pause_s = _FIRST_PAUSE_S
        self._last_s = now_s
        return now_s - self._first_s

    def pause_s(self) -> float:
        """How long to wait now: twice as long each time, up to 5 s."""
        pause, self._pause_s = self._pause_s, min(2 * self._pause_s, _LONGEST_PAUSE_S)
        return pause
