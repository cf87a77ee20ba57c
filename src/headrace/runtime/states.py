"""States of a client and of a stream thread, each with its one transition table. Source: Kafka Streams 4.4."""

from __future__ import annotations

import threading
from enum import Enum
from typing import TYPE_CHECKING, Generic, TypeVar

from headrace.errors import IllegalStateException

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class State(Enum):
    """Where a :class:`headrace.KafkaStreams` client is in its life."""

    CREATED = "CREATED"
    """Made, not started."""
    REBALANCING = "REBALANCING"
    """Started; tasks are being given out or restored."""
    RUNNING = "RUNNING"
    """Every task of this client processes."""
    PENDING_SHUTDOWN = "PENDING_SHUTDOWN"
    """``close`` was called; threads finish."""
    NOT_RUNNING = "NOT_RUNNING"
    """Closed in good order."""
    PENDING_ERROR = "PENDING_ERROR"
    """A fatal error; the remaining threads finish."""
    ERROR = "ERROR"
    """Ended by a fatal error."""


CLIENT_TRANSITIONS: Mapping[State, frozenset[State]] = {
    State.CREATED: frozenset({State.REBALANCING, State.PENDING_SHUTDOWN}),
    State.REBALANCING: frozenset({State.RUNNING, State.PENDING_SHUTDOWN, State.PENDING_ERROR}),
    State.RUNNING: frozenset({State.REBALANCING, State.RUNNING, State.PENDING_SHUTDOWN, State.PENDING_ERROR}),
    State.PENDING_SHUTDOWN: frozenset({State.NOT_RUNNING}),
    State.NOT_RUNNING: frozenset(),
    State.PENDING_ERROR: frozenset({State.ERROR}),
    State.ERROR: frozenset(),
}


class ThreadState(Enum):
    """Where a stream thread is in its life."""

    CREATED = "CREATED"
    """Made, not started."""
    STARTING = "STARTING"
    """Started; it has not been given anything yet."""
    PARTITIONS_REVOKED = "PARTITIONS_REVOKED"
    """It gave tasks up and waits for the next assignment."""
    PARTITIONS_ASSIGNED = "PARTITIONS_ASSIGNED"
    """It has tasks that are not restored yet; restored ones process."""
    RUNNING = "RUNNING"
    """All its tasks process."""
    PENDING_SHUTDOWN = "PENDING_SHUTDOWN"
    """It commits and closes."""
    DEAD = "DEAD"
    """It has ended."""


THREAD_TRANSITIONS: Mapping[ThreadState, frozenset[ThreadState]] = {
    ThreadState.CREATED: frozenset({ThreadState.STARTING, ThreadState.PENDING_SHUTDOWN}),
    ThreadState.STARTING: frozenset(
        {ThreadState.PARTITIONS_REVOKED, ThreadState.PARTITIONS_ASSIGNED, ThreadState.PENDING_SHUTDOWN}
    ),
    ThreadState.PARTITIONS_REVOKED: frozenset(
        {ThreadState.PARTITIONS_REVOKED, ThreadState.PARTITIONS_ASSIGNED, ThreadState.PENDING_SHUTDOWN}
    ),
    ThreadState.PARTITIONS_ASSIGNED: frozenset(
        {
            ThreadState.PARTITIONS_REVOKED,
            ThreadState.PARTITIONS_ASSIGNED,
            ThreadState.RUNNING,
            ThreadState.PENDING_SHUTDOWN,
        }
    ),
    ThreadState.RUNNING: frozenset(
        {ThreadState.PARTITIONS_REVOKED, ThreadState.PARTITIONS_ASSIGNED, ThreadState.PENDING_SHUTDOWN}
    ),
    ThreadState.PENDING_SHUTDOWN: frozenset({ThreadState.DEAD}),
    ThreadState.DEAD: frozenset(),
}


class StreamThreadExceptionResponse(Enum):
    """What follows when a stream thread has died of an error."""

    REPLACE_THREAD = "REPLACE_THREAD"
    """A new thread takes its place; the error may come again."""
    SHUTDOWN_CLIENT = "SHUTDOWN_CLIENT"
    """This client closes and goes to ERROR; other instances take its tasks over."""
    SHUTDOWN_APPLICATION = "SHUTDOWN_APPLICATION"
    """Every instance of the application closes and goes to ERROR: the group tells them."""


S = TypeVar("S", bound=Enum)


class StateMachine(Generic[S]):
    """A state, moved by one function along its table; readable from any thread."""

    def __init__(
        self, what: str, initial: S, table: Mapping[S, frozenset[S]], on_change: Callable[[S, S], None]
    ) -> None:
        self._what = what
        self._state = initial
        self._table = table
        self._on_change = on_change
        self._changed = threading.Condition(threading.RLock())

    @property
    def state(self) -> S:
        """The state now."""
        return self._state

    def move(self, new: S) -> None:
        """Go to ``new`` and tell the listener.

        Raises:
            IllegalStateException: The table does not allow it.
        """
        if not self.try_move(new):
            raise IllegalStateException(f"{self._what} cannot go from {self._state.value} to {new.value}")

    def try_move(self, new: S) -> bool:
        """Go to ``new`` if the table allows it; returns whether it did."""
        with self._changed:
            old = self._state
            if new not in self._table[old]:
                return False
            self._state = new
            self._changed.notify_all()
        if new is not old:
            self._on_change(new, old)
        return True

    def wait_for(self, wanted: frozenset[S], timeout_s: float | None) -> bool:
        """Wait until the state is one of ``wanted``; returns whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: self._state in wanted, timeout_s)
