"""Rows in memory: a dict, and its keys in order only while somebody scans."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class InMemoryBody:
    """A :class:`~headrace.state.body.KeyValueBody` that is lost with the process."""

    persistent = False

    def __init__(self) -> None:
        self._rows: dict[bytes, bytes] = {}
        self._sorted: list[bytes] | None = []
        self._offset: int | None = None
        self._origin: str | None = None
        self.get = self._rows.get

    def scan(self, low: bytes | None, high: bytes | None, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        """See the protocol."""
        keys = self._sorted
        if keys is None:
            keys = self._sorted = sorted(self._rows)
        start = 0 if low is None else bisect_left(keys, low)
        stop = len(keys) if high is None else bisect_right(keys, high)
        rows = self._rows
        found = [(key, rows[key]) for key in keys[start:stop]]
        return iter(found[::-1] if reverse else found)

    def write(self, rows: Sequence[tuple[bytes, bytes | None]], offset: int | None) -> None:
        """See the protocol."""
        mine = self._rows
        for key, value in rows:
            if value is None:
                if mine.pop(key, None) is not None:
                    self._sorted = None
            else:
                if key not in mine:
                    self._sorted = None
                mine[key] = value
        if offset is not None:
            self._offset = offset

    def offset(self) -> int | None:
        """See the protocol."""
        return self._offset

    def origin(self) -> str | None:
        """See the protocol."""
        return self._origin

    def remember_origin(self, topic_id: str) -> None:
        """See the protocol."""
        self._origin = topic_id

    def clear(self) -> None:
        """See the protocol."""
        self._rows.clear()
        self._sorted = []
        self._offset = self._origin = None

    def approximate_count(self) -> int:
        """See the protocol."""
        return len(self._rows)

    def close(self) -> None:
        """See the protocol."""
