"""Members of the group that a dead process of this state directory left behind.

The brokers let a dead member's tasks wait until its session runs out, 45 s by default. But whoever holds the lock of
the state directory knows that the process before it is dead, and the directory knows its members: so the new process
joins, and then makes them leave. What they left in a transaction ends by the stable transactional id, as ever.

A static member does not wait for the others of its process, whose tasks are to stay where they are: each one takes the
place of the member that had its own ``group.instance.id``. Under the classic protocol the brokers see to that when it
joins. Under the streams protocol they refuse it while the other has not let go of the id, which is then said for the
dead (:meth:`Predecessors.dead`).
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
        static_threads: How many threads the client has whose members are static, 0 if none is.
    """

    def __init__(self, directory: StateDirectory, static_threads: int = 0) -> None:
        self._directory = directory
        self._static_threads = static_threads
        self._guard = threading.Lock()
        self._dead = directory.members()
        self._own: dict[int, str] = {}

    def dead(self) -> frozenset[str]:
        """Member ids of dead processes that may still be in the group."""
        with self._guard:
            return frozenset(self._dead)

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
        if self._dead:
            gone = self._replaced_by(index)
            if gone and membership.take_over(gone):
                with self._guard:
                    for other in gone:
                        self._dead.pop(other, None)
                    self._write()

    def left(self, index: int) -> None:
        """A thread's member has left the group in good order."""
        with self._guard:
            self._own.pop(index, None)
            self._write()

    def _replaced_by(self, index: int) -> frozenset[str]:
        """The dead whom the member of this thread makes leave."""
        with self._guard:
            return frozenset(
                member_id
                for member_id, number in self._dead.items()
                # a static one of another thread of today is that thread's
                if number == index or number > self._static_threads
            )

    def _write(self) -> None:
        # those of the dead stay written down until they are gone: this process may die before it has seen to it
        self._directory.keep_members(self._dead | {member_id: index for index, member_id in self._own.items()})
