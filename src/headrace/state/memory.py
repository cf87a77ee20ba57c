"""Rows in memory: a dict, and its keys in order as far as somebody scans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.state.sorted_keys import SortedKeys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class InMemoryBody:
    """A :class:`~headrace.api.stores.KeyValueBody` that is lost with the process."""

    persistent = False

    def __init__(self) -> None:
        self._rows: dict[bytes, bytes] = {}
        self._keys: SortedKeys | None = None
        self._offset: int | None = None
        self._origin: str | None = None
        self.get = self._rows.get

    def scan(self, low: bytes | None, high: bytes | None, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        """See the protocol."""
        rows = self._rows
        keys = self._keys
        if keys is None:
            keys = self._keys = SortedKeys(rows)
        found = [(key, rows[key]) for key in dict.fromkeys(keys.between(low, high)) if key in rows]
        return iter(found[::-1] if reverse else found)

    def write(self, rows: Sequence[tuple[bytes, bytes | None]], offset: int | None) -> None:
        """See the protocol."""
        mine, keys = self._rows, self._keys
        for key, value in rows:
            if value is None:
                mine.pop(key, None)
            else:
                if keys is not None and key not in mine:
                    keys.add(key)
                mine[key] = value
        if keys is not None and len(keys) > 2 * len(mine) + 1000:
            # most of them are those of deleted rows: the next scan begins anew
            self._keys = None
        if offset is not None:
            self._offset = offset

    def delete_below(self, bound: bytes) -> None:
        """See the protocol."""
        keys = self._keys
        if keys is None:
            keys = self._keys = SortedKeys(self._rows)
        for key in keys.take_below(bound):
            self._rows.pop(key, None)

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
        self._keys = None
        self._offset = self._origin = None

    def approximate_count(self) -> int:
        """See the protocol."""
        return len(self._rows)

    def close(self) -> None:
        """See the protocol."""
