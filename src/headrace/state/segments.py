"""Rows that age: their keys begin with a span of time, and whole spans are forgotten.

A *segment* is a span of ``interval_ms``; its number is ``timestamp // interval_ms``, and every row key begins with that
number as 8 bytes big endian. So rows come ordered by segment, as in Java, where each is a database of its own, and a
segment is deleted as one range of keys.

*Observed stream time* is the greatest timestamp written to the store. A row is visible while its timestamp is greater
than observed stream time less the retention. A write is refused once its row could never be seen (in memory) or once
its segment has gone (on disk, as in Java, where the last live segment goes on taking rows that no reader is shown).
Observed stream time is part of each commit, in a row of its own: neither restart nor crash changes what is visible.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

from headrace.api.windows import MAX_TIMESTAMP, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.state.buffer import BufferedStore

EXPIRED: Final = "expired record"
"""Why a write that comes too late is dropped."""

_META: Final = b"\xffheadrace"
"""Row of the store's own state, greater than every other: 8-byte observed stream time, 4-byte sequence number."""
_ABOVE_ALL: Final = b"\x80"
"""Greater than every segment's prefix, less than :data:`_META`."""


class SegmentNumbers:
    """The segments that may have rows, in order."""

    __slots__ = ("_interval_ms", "_numbers")

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._numbers: list[int] = []

    def pass_all_time(self, timestamp: int) -> bool:
        """Whether the segment of a time would end after the greatest time there is."""
        return (timestamp // self._interval_ms + 1) * self._interval_ms - 1 > MAX_TIMESTAMP

    def note(self, timestamp: int) -> None:
        """A row of this time may exist from now on."""
        number = timestamp // self._interval_ms
        numbers = self._numbers
        if not numbers or number > numbers[-1]:
            numbers.append(number)
        elif number != numbers[-1]:
            at = bisect_left(numbers, number)
            if numbers[at] != number:
                numbers.insert(at, number)

    def between(self, first: int, last: int, *, reverse: bool) -> list[bytes]:
        """Prefixes of the segments that may have rows of the times ``first`` to ``last``, in order or in reverse."""
        numbers, interval = self._numbers, self._interval_ms
        found = numbers[bisect_left(numbers, first // interval) : bisect_right(numbers, last // interval)]
        if reverse:
            found.reverse()
        return [number.to_bytes(8, "big") for number in found]

    def any_below(self, number: int) -> bool:
        """Whether there are segments before ``number``."""
        return bool(self._numbers) and self._numbers[0] < number

    def forget_below(self, number: int) -> None:
        """Forget the segments before ``number``."""
        del self._numbers[: bisect_left(self._numbers, number)]

    def keep(self, wanted: Callable[[bytes], object]) -> None:
        """Forget the segments for whose prefixes ``wanted`` gives nothing."""
        self._numbers = [number for number in self._numbers if wanted(number.to_bytes(8, "big"))]

    def read(self, rows: BufferedStore) -> None:
        """Take up the segments that ``rows`` has: one look each."""
        self._numbers = []
        low = 0
        while (row := next(rows.scan(low.to_bytes(8, "big"), _ABOVE_ALL), None)) is not None:
            number = int.from_bytes(row[0][:8], "big")
            self._numbers.append(number)
            low = number + 1


class Segments:
    """What a store knows of its rows' times.

    Attributes:
        observed: Observed stream time, -1 before the first write.
        sequence: Number of the last row of a store that keeps duplicates.
        oldest_visible: Least timestamp that readers are shown.
    """

    def __init__(
        self,
        rows: BufferedStore,
        retention_ms: int,
        interval_ms: int,
        *,
        takes_whole_segments: bool,
        shown_ms: int | None = None,
    ) -> None:
        """Read where the store stands.

        Args:
            rows: Where the rows are.
            retention_ms: How long a row is kept.
            interval_ms: Length of a segment.
            takes_whole_segments: A write is refused only when its whole segment has gone.
            shown_ms: How long a row is visible, when that is not as long as it is kept.
        """
        self._rows = rows
        self._retention_ms = retention_ms
        self._shown_ms = retention_ms if shown_ms is None else shown_ms
        self._interval_ms = interval_ms
        self._takes_whole_segments = takes_whole_segments
        self._numbers = SegmentNumbers(interval_ms)
        self.between, self.note = self._numbers.between, self._numbers.note
        self._numbers.read(rows)
        self.reload()

    def reload(self) -> None:
        """Go back to what was committed. The segments known so far are at least those that are there then."""
        self.observed, self.sequence, self.oldest_visible, self._expired = -1, 0, 0, 0
        meta = self._rows.get(_META)
        if meta is not None:
            self.sequence = int.from_bytes(meta[8:], "big")
            self.observe(int.from_bytes(meta[:8], "big", signed=True))
        self._recorded = (self.observed, self.sequence)

    def live(self, first: int, last: int) -> list[bytes]:
        """Prefixes of the segments that are still there and may have rows of the times ``first`` to ``last``, in order.

        A segment goes with the write that makes it too old, as in Java; its rows are deleted with the next commit.
        """
        return self.between(max(first, self._first_live() * self._interval_ms), last, reverse=False)

    def prefix(self, timestamp: int) -> bytes:
        """What the row key of a row of this time begins with."""
        return (timestamp // self._interval_ms).to_bytes(8, "big")

    def accept(self, timestamp: int) -> bool:
        """A write of this time comes: observed stream time moves. Returns whether the row is still to be kept."""
        self.observe(timestamp)
        if timestamp <= self.observed - self._retention_ms and (
            not self._takes_whole_segments or timestamp // self._interval_ms < self._first_live()
        ):
            return False
        self.note(timestamp)
        return True

    def observe(self, timestamp: int) -> None:
        """A timestamp was seen: observed stream time follows it."""
        if timestamp > self.observed:
            self.observed = timestamp
            self.oldest_visible = max(0, wrapped(timestamp - self._shown_ms + 1))

    def seal(self) -> bool:
        """A commit begins: it includes observed stream time, and the deletion of the segments that have gone.

        Returns whether there are any.
        """
        if (self.observed, self.sequence) != self._recorded:
            self._recorded = (self.observed, self.sequence)
            self._rows.write(_META, self._meta())
        bound = self._expire()
        if bound is None:
            return False
        self._rows.expire(bound)
        return True

    def restored(self) -> tuple[tuple[bytes, bytes], bytes | None]:
        """What goes with a batch of restored rows: the store's own row, and below what rows are to be deleted."""
        self._recorded = (self.observed, self.sequence)
        return (_META, self._meta()), self._expire()

    def _expire(self) -> bytes | None:
        first = self._first_live()
        if first <= self._expired:
            return None
        # what the commit before deleted is gone; what this one deletes is known until the next, should it fail
        self._numbers.forget_below(self._expired)
        self._expired = first
        return first.to_bytes(8, "big") if self._numbers.any_below(first) else None

    def _first_live(self) -> int:
        return max(0, self.observed - self._retention_ms) // self._interval_ms

    def _meta(self) -> bytes:
        return self.observed.to_bytes(8, "big", signed=True) + self.sequence.to_bytes(4, "big")
