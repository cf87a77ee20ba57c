"""Things by their time, in Java's order among equal times.

Which of several partitions, or of several punctuations, with one time goes first is not defined by Kafka Streams, but
it can be seen in the order of outputs, and it should be the same here: step for step that of
``java.util.PriorityQueue``.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from headrace.api.engine import NEVER

T = TypeVar("T")


class TimeOrder(Generic[T]):
    """A heap of things by the times under which they were offered."""

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[tuple[int, T]] = []

    def __bool__(self) -> bool:
        return bool(self._heap)

    def least(self) -> int:
        """The least time, :data:`NEVER` when there is none."""
        return self._heap[0][0] if self._heap else NEVER

    def offer(self, item: T, time: int) -> None:
        """Put something in; under :data:`NEVER` it stays out."""
        if time == NEVER:
            return
        heap = self._heap
        at = len(heap)
        heap.append((time, item))
        while at > 0:
            parent = (at - 1) >> 1
            if time >= heap[parent][0]:
                break
            heap[at] = heap[parent]
            at = parent
        heap[at] = (time, item)

    def poll(self) -> T:
        """Take the one with the least time out; there must be one."""
        heap = self._heap
        first = heap[0][1]
        last = heap.pop()
        size = len(heap)
        if size:
            at, half = 0, size >> 1
            while at < half:
                child = 2 * at + 1
                if child + 1 < size and heap[child][0] > heap[child + 1][0]:
                    child += 1
                if last[0] <= heap[child][0]:
                    break
                heap[at] = heap[child]
                at = child
            heap[at] = last
        return first

    def clear(self) -> None:
        """Forget all of them."""
        self._heap.clear()
