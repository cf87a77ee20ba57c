"""Uncommitted writes over committed rows.

Invariants:

1. The body holds only what a commit has made final. Writes wait in ``active``; ``seal`` moves them to ``sealed`` when a
   commit begins, ``apply`` writes them to the body once it has succeeded, ``drop`` forgets both after a failure.
2. A read sees ``active``, then ``sealed``, then the body; a None in a buffer is a tombstone and hides what lies below.
3. Every write goes to the changelog when it happens, never collapsed: readers of the changelog may count records.
4. The body's offset is the next changelog offset to restore from. It moves in the same batch as the rows, so after a
   crash only what came after it is read again.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from headrace.state.body import prefix_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.state.body import KeyValueBody

    Log = Callable[[bytes, bytes | None, int | None], None]

_ROW_OVERHEAD = 120
"""Rough cost in bytes of one buffered row beside its key and value."""


class BufferedStore:
    """A bytes-to-bytes store that is never ahead of its transaction.

    Attributes:
        uncommitted_bytes: Rough memory held by writes that wait for a commit.
    """

    def __init__(self, name: str, body: KeyValueBody, log: Log | None) -> None:
        self.name = name
        self.body = body
        self.log = log
        self.uncommitted_bytes = 0
        self._active: dict[bytes, bytes | None] = {}
        self._sealed: dict[bytes, bytes | None] = {}
        self._body_get = body.get

    def get(self, key: bytes) -> bytes | None:
        """The value as of the last write, or None."""
        if key in self._active:
            return self._active[key]
        if key in self._sealed:
            return self._sealed[key]
        return self._body_get(key)

    def put(self, key: bytes, stored: bytes | None, logged: bytes | None, timestamp: int | None) -> None:
        """Write a row (None deletes it) and its changelog record.

        Args:
            key: The key.
            stored: What the store holds.
            logged: What the changelog record holds as its value.
            timestamp: Time of the changelog record (epoch ms); None lets the producer choose.
        """
        if self.log is not None:
            self.log(key, logged, timestamp)
        active = self._active
        grown = 0 if stored is None else len(stored)
        if key in active:
            former = active[key]
            self.uncommitted_bytes += grown - (0 if former is None else len(former))
        else:
            self.uncommitted_bytes += _ROW_OVERHEAD + len(key) + grown
        active[key] = stored

    def scan(self, low: bytes | None, high: bytes | None, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Rows with ``low <= key <= high`` in unsigned byte order: a snapshot that later writes do not change."""
        overlay = {
            k: v
            for buffer in (self._sealed, self._active)
            for k, v in buffer.items()
            if (low is None or k >= low) and (high is None or k <= high)
        }
        return overlaid(overlay, self.body.scan(low, high, reverse), reverse)

    def prefix(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Rows whose key begins with ``prefix``, in order."""
        end = prefix_end(prefix)
        return (row for row in self.scan(prefix, end) if row[0] != end or row[0].startswith(prefix))

    def approximate_count(self) -> int:
        """Number of rows, roughly: uncommitted deletes and overwrites are not told apart from inserts."""
        return self.body.approximate_count() + len(self._active) + len(self._sealed)

    def seal(self) -> None:
        """A commit begins: what was written so far belongs to it."""
        if self._sealed:
            self._sealed.update(self._active)
        else:
            self._sealed = self._active
        self._active = {}

    def apply(self, offset: int | None) -> None:
        """The commit succeeded: its rows and the next changelog offset go to the body.

        An offset that is not past the body's own is an old one (the partition was elsewhere meanwhile) and stays out.
        """
        known = self.body.offset()
        if offset is not None and known is not None and offset <= known:
            offset = None
        if self._sealed or offset is not None:
            self.body.write(list(self._sealed.items()), offset)
        self._sealed = {}
        self.uncommitted_bytes = sum(
            _ROW_OVERHEAD + len(k) + (0 if v is None else len(v)) for k, v in self._active.items()
        )

    def drop(self) -> None:
        """The commit failed, or the task was lost: forget every write that the body does not have."""
        self._active = {}
        self._sealed = {}
        self.uncommitted_bytes = 0

    def restore(self, rows: list[tuple[bytes, bytes | None]], offset: int) -> None:
        """Write committed changelog rows, already in stored form, and the offset after them."""
        self.body.write(rows, offset)

    def close(self) -> None:
        """Close the body; uncommitted writes are forgotten."""
        self.drop()
        self.body.close()


def overlaid(
    overlay: dict[bytes, bytes | None], below: Iterator[tuple[bytes, bytes]], reverse: bool
) -> Iterator[tuple[bytes, bytes]]:
    """Rows of ``below`` with those of ``overlay`` laid over them (None hides), in key order or in reverse."""
    if not overlay:
        return below
    above = iter(sorted(overlay.items(), reverse=reverse))
    kept: Iterator[tuple[bytes, bytes | None]] = (row for row in below if row[0] not in overlay)
    merged = heapq.merge(above, kept, key=lambda row: row[0], reverse=reverse)
    return ((key, value) for key, value in merged if value is not None)
