"""Uncommitted writes over committed rows.

Invariants:

1. The body holds only what a commit has made final. Writes wait in ``active``; ``seal`` moves them to ``sealed`` when a
   commit begins, ``apply`` writes them to the body once it has succeeded, ``drop`` forgets both after a failure.
2. A read sees ``active``, then ``sealed``, then the body; a None in a buffer is a tombstone and hides what lies below.
3. Every write goes to the changelog when it happens, never collapsed: readers of the changelog may count records.
4. The body's offset is the next changelog offset to restore from. It moves in the same batch as the rows, so after a
   crash only what came after it is read again.
5. Rows below ``expire``'s bound are deleted like everything else: by the commit after it, never before.
"""

from __future__ import annotations

import heapq
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar

from headrace.state.body import prefix_end
from headrace.state.sorted_keys import SortedKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.api.stores import KeyValueBody
    from headrace.records import Headers

    Log = Callable[[bytes, bytes | None, int | None, Headers | None], None]

V = TypeVar("V")

_ROW_OVERHEAD = 120
"""Rough cost in bytes of one buffered row beside its key and value."""


class _Generation:
    """Buffered rows, with their keys in order from the first scan on."""

    __slots__ = ("keys", "rows")

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes | None] = {}
        self.keys: SortedKeys | None = None

    def between(self, low: bytes | None, high: bytes | None) -> dict[bytes, bytes | None]:
        rows, keys = self.rows, self.keys
        if not rows:
            return {}
        if keys is None:
            keys = self.keys = SortedKeys(rows)
        return {key: rows[key] for key in keys.between(low, high) if key in rows}

    def update(self, newer: _Generation) -> None:
        if self.keys is not None:
            for key in newer.rows.keys() - self.rows.keys():
                self.keys.add(key)
        self.rows.update(newer.rows)

    def delete_below(self, bound: bytes) -> None:
        for key in self.between(None, bound):
            if key < bound:
                del self.rows[key]
        if self.keys is not None:
            self.keys.take_below(bound)


class BufferedStore:
    """A bytes-to-bytes store that is never ahead of its transaction.

    Attributes:
        uncommitted_bytes: Rough memory held by writes that wait for a commit.
        log: ``(key, value, timestamp, headers)`` to the changelog, or None.
    """

    def __init__(self, name: str, body: KeyValueBody, log: Log | None) -> None:
        self.name = name
        self.body = body
        self.log = log
        self.uncommitted_bytes = 0
        self._active = _Generation()
        self._sealed = _Generation()
        self._expired: bytes | None = None
        self._sealed_expired: bytes | None = None
        self._body_get = body.get

    def get(self, key: bytes) -> bytes | None:
        """The value as of the last write, or None."""
        active = self._active.rows
        if key in active:
            return active[key]
        sealed = self._sealed.rows
        if key in sealed:
            return sealed[key]
        return self._body_get(key)

    def put(
        self,
        key: bytes,
        stored: bytes | None,
        logged: bytes | None,
        timestamp: int | None,
        headers: Headers | None = None,
    ) -> None:
        """Write a row (None deletes it) and its changelog record, both under ``key``.

        Args:
            key: The key.
            stored: What the store holds.
            logged: What the changelog record holds as its value.
            timestamp: Time of the changelog record (epoch ms); None lets the producer choose.
            headers: Headers of the changelog record.
        """
        if self.log is not None:
            self.log(key, logged, timestamp, headers)
        self.write(key, stored)

    def write(self, key: bytes, stored: bytes | None) -> None:
        """Write a row (None deletes it) that has no changelog record of its own, or one under another key."""
        generation = self._active
        active = generation.rows
        grown = 0 if stored is None else len(stored)
        if key in active:
            former = active[key]
            self.uncommitted_bytes += grown - (0 if former is None else len(former))
        else:
            self.uncommitted_bytes += _ROW_OVERHEAD + len(key) + grown
            if generation.keys is not None:
                generation.keys.add(key)
        active[key] = stored

    def expire(self, bound: bytes) -> None:
        """Have the next commit delete every row with a key less than ``bound``. Nobody may ask for them any more."""
        if self._expired is None or bound > self._expired:
            self._expired = bound

    def scan(self, low: bytes | None, high: bytes | None, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Rows with ``low <= key <= high`` in unsigned byte order: a snapshot that later writes do not change."""
        overlay = self._sealed.between(low, high)
        if overlay:
            overlay.update(self._active.between(low, high))
        else:
            overlay = self._active.between(low, high)
        return overlaid(overlay, self.body.scan(low, high, reverse), reverse)

    def prefix(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Rows whose key begins with ``prefix``, in order."""
        end = prefix_end(prefix)
        return (row for row in self.scan(prefix, end) if row[0] != end or row[0].startswith(prefix))

    def approximate_count(self) -> int:
        """Number of rows, roughly: uncommitted deletes and overwrites are not told apart from inserts."""
        return self.body.approximate_count() + len(self._active.rows) + len(self._sealed.rows)

    def seal(self) -> None:
        """A commit begins: what was written so far belongs to it."""
        if self._sealed.rows:
            self._sealed.update(self._active)
        else:
            self._sealed = self._active
        self._active = _Generation()
        if self._expired is not None:
            self._sealed_expired, self._expired = self._expired, None

    def apply(self, offset: int | None) -> None:
        """The commit succeeded: its rows and the next changelog offset go to the body.

        An offset that is not past the body's own is an old one (the partition was elsewhere meanwhile) and stays out.
        """
        known = self.body.offset()
        if offset is not None and known is not None and offset <= known:
            offset = None
        sealed, bound = self._sealed, self._sealed_expired
        if bound is not None:
            sealed.delete_below(bound)
        if sealed.rows or offset is not None:
            self.body.write(list(sealed.rows.items()), offset)
        self._sealed = _Generation()
        if bound is not None:
            self.body.delete_below(bound)
            self._sealed_expired = None
        self.uncommitted_bytes = sum(
            _ROW_OVERHEAD + len(k) + (0 if v is None else len(v)) for k, v in self._active.rows.items()
        )

    def drop(self) -> None:
        """The commit failed, or the task was lost: forget every write that the body does not have."""
        self._active = _Generation()
        self._sealed = _Generation()
        self._expired = self._sealed_expired = None
        self.uncommitted_bytes = 0

    def restore(self, rows: list[tuple[bytes, bytes | None]], offset: int | None, expired: bytes | None = None) -> None:
        """Write committed changelog rows, already in stored form, and the offset after them; expire below a bound."""
        self.body.write(rows, offset)
        if expired is not None:
            self.body.delete_below(expired)

    def close(self) -> None:
        """Close the body; uncommitted writes are forgotten."""
        self.drop()
        self.body.close()


def overlaid(
    overlay: dict[bytes, V | None], below: Iterator[tuple[bytes, V]], reverse: bool
) -> Iterator[tuple[bytes, V]]:
    """Rows of ``below`` with those of ``overlay`` laid over them (None hides), in key order or in reverse."""
    if not overlay:
        return below
    above = iter(sorted(overlay.items(), key=_key, reverse=reverse))
    kept: Iterator[tuple[bytes, V | None]] = (row for row in below if row[0] not in overlay)
    merged = heapq.merge(above, kept, key=_key, reverse=reverse)
    return ((key, value) for key, value in merged if value is not None)


_key = itemgetter(0)
