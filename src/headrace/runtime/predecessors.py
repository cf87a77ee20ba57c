"""Members of the group that a dead process of this state directory left behind.

The brokers let a dead member's tasks wait until its session runs out, 45 s by default. But whoever holds the lock of
the state directory knows that the process before it is dead, and the directory knows its members: so the new process
joins, and then makes them leave. What they left in a transaction ends by the stable transactional id, as ever.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.kafka import Membership
    from headrace.state.directory import StateDirectory


class Predecessors:
    """Shared by the threads of a client. Thread-safe.

    Args:
        directory: Locked by this process.
    """

    def __init__(self, directory: StateDirectory) -> None:
        self._directory = directory
        self._guard = threading.Lock()
        self._dead: frozenset[str] = frozenset(directory.members().values())
        self._own: dict[int, str] = {}

    def watch(self, index: int, membership: Membership) -> None:
        """Keep the member id of a thread, and have this member take the place of dead ones. Cheap when nothing is new.

        Args:
            index: The thread's number.
            membership: Its own.
        """
        member_id = membership.member_id()
        if member_id is None:
            return
        if self._own.get(index) != member_id:
            with self._guard:
                self._own[index] = member_id
                self._write()
        if self._dead and membership.take_over(self._dead):
            with self._guard:
                self._dead = frozenset()
                self._write()

    def left(self, index: int) -> None:
        """A thread's member has left the group in good order."""
        with self._guard:
            self._own.pop(index, None)
            self._write()

    def _write(self) -> None:
        # those of the dead stay written down until they are gone: this process may die before it has seen to it
        dead = enumerate(sorted(self._dead), start=max(self._own, default=0) + 1)
        self._directory.keep_members(self._own | dict(dead))
