"""A process of the application, which may die and freeze, and its disk, which outlives it."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from headrace.errors import LockException
from headrace.state.memory import InMemoryBody
from simulation.clock import Killed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from headrace.records import TaskId
    from simulation.clock import Clock, Strand


class Disk:
    """What is left when a process dies.

    Attributes:
        bodies: Rows of stores, by the path of each.
        torn: Stores that were being written when the process died.
    """

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.process_id = uuid.UUID(int=(number + 1) << 64 | 0x4000_8000_0000_0000_0000)
        self.bodies: dict[tuple[TaskId, str], InMemoryBody] = {}
        self.members: dict[str, int] = {}
        self.sums: dict[TaskId, int] = {}
        self.torn: set[tuple[TaskId, str]] = set()


class Process:
    """One run of an instance: an owner of strands and events."""

    def __init__(self, name: str, disk: Disk, clock: Clock) -> None:
        self.name = name
        self.disk = disk
        self.clock = clock
        self.dead = False
        self.frozen_until = 0.0
        self.cut_until = 0.0
        self.strands: list[Strand] = []
        self.armed: list[tuple[int, Callable[[], None]]] = []
        """What is to happen after so many requests more."""

    def request(self) -> None:
        """A request is sent."""
        if self.armed:
            left = [(number - 1, action) for number, action in self.armed]
            self.armed = [entry for entry in left if entry[0] > 0]
            for number, action in left:
                if number <= 0:
                    self.clock.at(self.clock.random.uniform(0.0, 0.008), action)

    def kill(self) -> None:
        """End it: its strands go without having any effect."""
        self.dead = True
        for strand in self.strands:
            self.clock.kick(strand)

    def check(self) -> None:
        """Raise when it is dead."""
        if self.dead:
            raise Killed


class DiskBody:
    """Rows on the disk of a process: what is written while it lives stays."""

    persistent = True

    def __init__(self, process: Process, place: tuple[TaskId, str]) -> None:
        self._process = process
        self._place = place
        self._rows = rows = process.disk.bodies.setdefault(place, InMemoryBody())
        self.get = rows.get
        self.scan = rows.scan
        self.offset = rows.offset
        self.origin = rows.origin
        self.approximate_count = rows.approximate_count

    def write(self, rows: Sequence[tuple[bytes, bytes | None]], offset: int | None) -> None:
        """In two batches now and then, between which the process may die."""
        process = self._process
        process.check()
        random = process.clock.random
        if len(rows) > 1 and random.random() < 0.2:
            half = random.randrange(1, len(rows))
            process.disk.torn.add(self._place)
            self._rows.write(rows[:half], None)
            rows = rows[half:]
            process.clock.sleep(random.uniform(0.0, 0.01))
        elif random.random() < 0.2:
            process.clock.sleep(random.uniform(0.0, 0.01))
        self._rows.write(rows, offset)
        if offset is not None:
            process.disk.torn.discard(self._place)

    def delete_below(self, bound: bytes) -> None:
        self._process.check()
        self._rows.delete_below(bound)

    def remember_origin(self, topic_id: str) -> None:
        self._process.check()
        self._rows.remember_origin(topic_id)

    def clear(self) -> None:
        self._process.check()
        self._rows.clear()

    def close(self) -> None:
        pass


class Directory:
    """``StateDirectory`` of a process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._disk = process.disk
        self._owners: dict[TaskId, object] = {}
        self.process_id = process.disk.process_id

    def members(self) -> dict[str, int]:
        return dict(self._disk.members)

    def keep_members(self, members: Mapping[str, int]) -> None:
        if not self._process.dead:
            self._disk.members = dict(members)

    def store_path(self, task_id: TaskId, store: str) -> Any:
        return self._process, task_id, store

    def acquire(self, task_id: TaskId, owner: object) -> None:
        if self._owners.setdefault(task_id, owner) is not owner:
            raise LockException(f"task {task_id} is still held by another thread", task_id)

    def release(self, task_id: TaskId, owner: object) -> None:
        if self._owners.get(task_id) is owner:
            del self._owners[task_id]

    def task_ids(self) -> Iterator[TaskId]:
        return iter(sorted({task_id for task_id, _ in self._disk.bodies}))

    def has_task(self, task_id: TaskId) -> bool:
        return any(found == task_id for found, _ in self._disk.bodies)

    def offset_sums(self) -> dict[TaskId, int]:
        return dict(self._disk.sums)

    def save_offset_sum(self, task_id: TaskId, total: int) -> None:
        if not self._process.dead:
            self._disk.sums[task_id] = total

    def remove_task(self, task_id: TaskId) -> None:
        self._process.check()
        for found, store in list(self._disk.bodies):
            if found == task_id:
                del self._disk.bodies[found, store]
        self._disk.sums.pop(task_id, None)


def open_body(persistent: bool, path: Any) -> Any:
    """In place of the function that opens a store's body in :mod:`headrace.state.suppliers`."""
    if not persistent:
        return InMemoryBody()
    process, task_id, store = path
    process.check()
    return DiskBody(process, (task_id, store))
