"""What the HTTP port shows: one application instance, or several of them as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


class Observed(Protocol):
    """Asked on threads of the HTTP port, several at a time; what is observed is never waited for, and never waits."""

    def metrics(self) -> bytes:
        """All metrics in Prometheus' text format."""
        ...

    def not_live(self) -> str | None:
        """Why it should be started anew, or None when it lives."""
        ...

    def not_ready(self) -> str | None:
        """Why it does not do all of its work yet, or None when it does."""
        ...

    def tasks(self) -> Mapping[str, object]:
        """The instance and its tasks, of values that JSON has."""
        ...
