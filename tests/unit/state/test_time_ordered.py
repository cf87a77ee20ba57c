"""The buffer in which records of a stream wait for a table: what is due, and what finding it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unit.state.harness import make_world

from headrace.api.serde import Serde
from headrace.api.windows import MAX_TIMESTAMP
from headrace.serdes import Serdes
from headrace.serdes.primitives import StringDeserializer
from headrace.state.buffer import BufferedStore
from headrace.state.memory import InMemoryBody
from headrace.state.time_ordered import TimeOrderedBuffer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.records import Headers

TEXT = Serdes.String()


class Counting(BufferedStore):
    """Counts the rows that scans had to put over the committed ones."""

    looked_at = 0

    def scan(self, low: bytes | None, high: bytes | None, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        self.looked_at += len(self._active.between(low, high))
        return super().scan(low, high, reverse)


class NoBad(StringDeserializer):
    """Gives back every text but one."""

    def bind(self, topic: str) -> Callable[[bytes], str]:
        decode = super().bind(topic)

        def bound(data: bytes) -> str:
            if data == b"bad":
                raise ValueError("no key")
            return decode(data)

        return bound


def _buffer(grace_ms: int, keys: Serde[str] = TEXT) -> tuple[Counting, TimeOrderedBuffer[str, str]]:
    world = make_world(InMemoryBody())
    rows = Counting("buffer", InMemoryBody(), None)
    buffer = TimeOrderedBuffer(rows, keys, TEXT, world.context, grace_ms)
    buffer.start()
    return rows, buffer


def _no_failure(error: Exception, key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
    raise error


def test_records_of_the_greatest_time_come_too() -> None:
    _, buffer = _buffer(0)
    taken: list[int] = []
    for timestamp in (MAX_TIMESTAMP - 1, MAX_TIMESTAMP, MAX_TIMESTAMP):
        assert buffer.put("k", "v", timestamp, None)
        buffer.evict(lambda key, value, at, headers: taken.append(at), _no_failure)
    assert taken == [MAX_TIMESTAMP - 1, MAX_TIMESTAMP, MAX_TIMESTAMP]


def test_a_record_that_does_not_decode_any_more_fails_alone() -> None:
    _, buffer = _buffer(5, Serde(TEXT.serializer, NoBad()))
    buffer.put("bad", "v", 1, None)
    buffer.put("good", "v", 2, None)
    failed: list[tuple[str, int]] = []
    taken: list[int] = []
    for timestamp in (10, 20):
        buffer.put("k", "v", timestamp, None)
        buffer.evict(
            lambda key, value, at, headers: taken.append(at),
            lambda error, key, value, at, headers: failed.append((str(error), at)),
        )
    assert failed == [("no key", 1)]
    assert taken == [2, 10]


def test_due_records_come_by_time_and_each_once() -> None:
    _, buffer = _buffer(5)
    taken: list[tuple[Any, int]] = []

    def take(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
        taken.append((key, timestamp))

    for key, timestamp in (("a", 3), ("b", 1), ("c", 6), ("d", 2), ("e", 8), ("f", 3), ("g", 30)):
        assert buffer.put(key, "v", timestamp, None)
        buffer.evict(take, _no_failure)
    assert not buffer.put("late", "v", 24, None)
    assert taken == [("b", 1), ("d", 2), ("a", 3), ("f", 3), ("c", 6), ("e", 8)]


def test_giving_up_a_record_does_not_cost_what_came_and_went_since_the_commit() -> None:
    rows, buffer = _buffer(10)
    taken: list[int] = []
    for timestamp in range(1000):
        buffer.put("k", "v", timestamp, None)
        buffer.evict(lambda key, value, at, headers: taken.append(at), _no_failure)
    assert taken == list(range(990))
    assert rows.looked_at < 2000
