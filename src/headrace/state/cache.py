"""The record cache: the last writes of a store, sent on only when a commit or the budget asks for it.

A write stays in the cache as *dirty*. A flush sends each dirty row once, in the order of its last dirtying, to the
store below (and with it to the changelog) and to the store's listener; the row stays as *clean* for later reads. A row
keeps the record context of its last write, because what is forwarded on a flush carries it.
Source: ``org.apache.kafka.streams.state.internals.ThreadCache`` and ``NamedCache``.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.records import Headers

_ENTRY_OVERHEAD = 200


class CacheEntry(NamedTuple):
    """A cached row: its bytes (None is a tombstone), its time, and the context of the record that wrote it."""

    raw: bytes | None
    timestamp: int
    value: Any
    """The decoded value, only when it cannot be changed in place; otherwise :data:`UNDECODED`."""
    headers: Headers | None
    topic: str | None
    partition: int
    offset: int


UNDECODED: Any = object()
"""Stands for a value that has to be decoded anew for every reader."""


class CacheBudget:
    """Bytes shared by the caches of one stream thread (``statestore.cache.max.bytes`` over the threads)."""

    __slots__ = ("max_bytes", "used_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.used_bytes = 0


class RecordCache:
    """The cache of one store. ``flush_row`` sends a dirty row on."""

    __slots__ = ("_budget", "_dirty", "_flush_row", "entries")

    def __init__(self, budget: CacheBudget, flush_row: Callable[[bytes, CacheEntry], None]) -> None:
        self.entries: OrderedDict[bytes, CacheEntry] = OrderedDict()
        self._dirty: dict[bytes, None] = {}
        self._budget = budget
        self._flush_row = flush_row

    def get(self, key: bytes) -> CacheEntry | None:
        """The row, made the most recently used one."""
        entry = self.entries.get(key)
        if entry is not None:
            self.entries.move_to_end(key)
        return entry

    def put(self, key: bytes, entry: CacheEntry) -> None:
        """A write: the row becomes dirty and the most recently used one."""
        self._dirty.pop(key, None)
        self._dirty[key] = None
        self._add(key, entry)

    def put_clean(self, key: bytes, entry: CacheEntry) -> None:
        """Remember what a read found below."""
        self._add(key, entry)

    def _add(self, key: bytes, entry: CacheEntry) -> None:
        entries, budget = self.entries, self._budget
        former = entries.get(key)
        raw = entry[0]
        if former is None:
            budget.used_bytes += _ENTRY_OVERHEAD + len(key) + (0 if raw is None else len(raw))
            entries[key] = entry
        else:
            old = former[0]
            budget.used_bytes += (0 if raw is None else len(raw)) - (0 if old is None else len(old))
            entries[key] = entry
            entries.move_to_end(key)
        while budget.used_bytes > budget.max_bytes and entries:
            self._evict()

    def _evict(self) -> None:
        key = next(iter(self.entries))
        if key in self._dirty:
            self.flush()
        entry = self.entries.pop(key, None)
        if entry is not None:
            self._budget.used_bytes -= _ENTRY_OVERHEAD + len(key) + (0 if entry.raw is None else len(entry.raw))

    @property
    def dirty(self) -> bool:
        """Whether a flush would send anything."""
        return bool(self._dirty)

    def dirty_rows(self, low: bytes | None, high: bytes | None) -> dict[bytes, bytes | None]:
        """Dirty rows with ``low <= key <= high``, for scans."""
        entries = self.entries
        return {
            key: entries[key].raw
            for key in self._dirty
            if (low is None or key >= low) and (high is None or key <= high)
        }

    def dirty_entry(self, key: bytes) -> CacheEntry:
        """The row under a key that :meth:`dirty_rows` gave."""
        return self.entries[key]

    def flush(self) -> None:
        """Send every dirty row on. A row dirtied meanwhile waits for the next flush."""
        dirty, self._dirty = self._dirty, {}
        entries = self.entries
        for key in dirty:
            entry = entries.get(key)
            if entry is None:
                continue
            self._flush_row(key, entry)
            if entry.raw is None and key not in self._dirty and entries.get(key) is entry:
                # a tombstone below answers by itself
                del entries[key]
                self._budget.used_bytes -= _ENTRY_OVERHEAD + len(key)

    def clear(self) -> None:
        """Forget everything, dirty rows too."""
        for key, entry in self.entries.items():
            self._budget.used_bytes -= _ENTRY_OVERHEAD + len(key) + (0 if entry.raw is None else len(entry.raw))
        self.entries.clear()
        self._dirty.clear()
