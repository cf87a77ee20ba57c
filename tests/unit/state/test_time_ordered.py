"""The buffer in which records of a stream wait for a table: what is due, and what finding it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unit.state.harness import make_world

from headrace.serdes import Serdes
from headrace.state.buffer import BufferedStore
from headrace.state.memory import InMemoryBody
from headrace.state.time_ordered import TimeOrderedBuffer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.records import Headers

TEXT = Serdes.String()


class Counting(BufferedStore):
    """Counts the rows that scans had to put over the committed ones."""

    looked_at = 0

    def scan(self, low: bytes | None, high: bytes | None, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        self.looked_at += len(self._active.between(low, high))
        return super().scan(low, high, reverse)


def _buffer(grace_ms: int) -> tuple[Counting, TimeOrderedBuffer[str, str]]:
    world = make_world(InMemoryBody())
    rows = Counting("buffer", InMemoryBody(), None)
    buffer = TimeOrderedBuffer(rows, TEXT, TEXT, world.context, grace_ms)
    buffer.start()
    return rows, buffer


def test_due_records_come_by_time_and_each_once() -> None:
    _, buffer = _buffer(5)
    taken: list[tuple[Any, int]] = []

    def take(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
        taken.append((key, timestamp))

    for key, timestamp in (("a", 3), ("b", 1), ("c", 6), ("d", 2), ("e", 8), ("f", 3), ("g", 30)):
        assert buffer.put(key, "v", timestamp, None)
        buffer.evict(take)
    assert not buffer.put("late", "v", 24, None)
    assert taken == [("b", 1), ("d", 2), ("a", 3), ("f", 3), ("c", 6), ("e", 8)]


def test_giving_up_a_record_does_not_cost_what_came_and_went_since_the_commit() -> None:
    rows, buffer = _buffer(10)
    taken: list[int] = []
    for timestamp in range(1000):
        buffer.put("k", "v", timestamp, None)
        buffer.evict(lambda key, value, at, headers: taken.append(at))
    assert taken == list(range(990))
    assert rows.looked_at < 2000
