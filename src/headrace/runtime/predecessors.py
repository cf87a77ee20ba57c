"""Members of the group that a dead process of this state directory left behind.

The brokers let a dead member's tasks wait until its session runs out, 45 s by default. But whoever holds the lock of
the state directory knows that the process before it is dead, and the directory knows its members. So each thread goes
on as the member of the thread of its number: to the group it is a member that joins again. Those that are left over,
because there are fewer threads now, are made to leave by one that has joined. What the dead left in a transaction ends
by the stable transactional id: each thread ends that of its number, and the first one those of numbers that there are
no threads for, else whoever takes their tasks over would wait until the brokers abort them.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.kafka import Membership
    from headrace.state.directory import StateDirectory


class Predecessors:
    """Shared by the threads of a client. Thread-safe.

    Args:
        directory: Locked by this process.
        threads: How many the client begins with, numbered from 1.
    """

    def __init__(self, directory: StateDirectory, threads: int) -> None:
        self._directory = directory
        self._guard = threading.Lock()
        self._dead = directory.members()
        by_index = {index: member_id for member_id, index in self._dead.items()}
        self._former = {index: by_index[index] for index in by_index.keys() & set(range(1, threads + 1))}
        for member_id in self._former.values():
            del self._dead[member_id]
        self._own: dict[int, str] = {}
        self._left_over = set(self._dead.values()) - set(range(1, threads + 1))
        self._ending = threading.Lock()

    def of(self, index: int) -> str | None:
        """The member id of the dead thread of this number, once: the caller goes on as that member."""
        if index in self._left_over:
            # a thread that is added: it ends the transaction itself, and must not be taken for the dead one
            with self._ending:
                self._left_over.discard(index)
        with self._guard:
            former = self._former.pop(index, None)
            if former is not None:
                self._own[index] = former
            return former

    def end_transactions(self, end: Callable[[int], None]) -> None:
        """Have what dead threads left in transactions ended whose numbers no thread has now; once for all threads.

        Args:
            end: Ends the transaction of a number.
        """
        if self._left_over:
            with self._ending:
                # those being ended stay in it: whoever is added for one waits
                for index in sorted(self._left_over):
                    end(index)
                    self._left_over.discard(index)

    def watch(self, index: int, membership: Membership) -> None:
        """Keep the member id of a thread, and have this member make those leave who are left over.

        Cheap when nothing is new.

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
                self._dead = {}
                self._write()

    def member_id(self, index: int) -> str | None:
        """The member id of a thread, or None when it is no member; may be asked by any thread."""
        return self._own.get(index)

    def left(self, index: int) -> None:
        """A thread's member has left the group in good order."""
        with self._guard:
            self._own.pop(index, None)
            self._write()

    def _write(self) -> None:
        # those of the dead stay written down until they are gone: this process may die before it has seen to it
        living = self._former | self._own
        self._directory.keep_members(self._dead | {member_id: index for index, member_id in living.items()})
