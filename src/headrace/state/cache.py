"""The record cache: the last writes of a store, sent on only when a commit or the budget asks for it.

A write stays in the cache as *dirty*. A flush sends each dirty row once, in the order of its last dirtying, to the
store below (and with it to the changelog) and to the store's listener; the row stays as *clean* for later reads. A row
keeps the record context of its last write, because what is forwarded on a flush carries it.
Source: ``org.apache.kafka.streams.state.internals.ThreadCache`` and ``NamedCache``.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, TypeAlias

from headrace.records import TracedOffset
from headrace.state.sorted_keys import SortedKeys

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.records import Headers

_ENTRY_OVERHEAD = 200

CacheEntry: TypeAlias = "tuple[Any, int, bytes | None, Headers | None, str | None, int, int]"
"""A cached row: ``(value, timestamp, raw, headers, topic, partition, offset)``.

``raw`` is its bytes (None is a tombstone); ``value`` is the decoded object, only when it cannot be changed in place,
else :data:`UNDECODED`; the rest is the time and the context of the record that wrote it. A plain tuple: one is made for
every write.
"""

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

    __slots__ = ("_budget", "_dirty", "_flush_row", "_keys", "entries")

    def __init__(self, budget: CacheBudget, flush_row: Callable[[bytes, CacheEntry], None]) -> None:
        self.entries: OrderedDict[bytes, CacheEntry] = OrderedDict()
        self._dirty: dict[bytes, None] = {}
        self._keys: SortedKeys | None = None
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
        dirty = self._dirty
        dirty.pop(key, None)
        dirty[key] = None
        self.put_clean(key, entry)

    def put_clean(self, key: bytes, entry: CacheEntry) -> None:
        """Remember what a read found below."""
        entries, budget = self.entries, self._budget
        former = entries.get(key)
        raw = entry[2]
        entries[key] = entry
        if former is None:
            keys = self._keys
            if keys is not None:
                keys.add(key)
                if len(keys) > 2 * len(entries) + 1000:
                    # most of them are those of evicted rows: the next look begins anew
                    self._keys = None
            budget.used_bytes += _ENTRY_OVERHEAD + len(key) + (0 if raw is None else len(raw))
        else:
            entries.move_to_end(key)
            old = former[2]
            budget.used_bytes += (0 if raw is None else len(raw)) - (0 if old is None else len(old))
            if former[6].__class__ is not int:
                budget.used_bytes -= _traced(former)
        if entry[6].__class__ is not int:
            budget.used_bytes += _traced(entry)
        while budget.used_bytes > budget.max_bytes and entries:
            self._evict()

    def _evict(self) -> None:
        key = next(iter(self.entries))
        if key in self._dirty:
            self.flush()
            if key in self._dirty:
                # written again by whoever was sent it; it is no longer the eldest
                return
        entry = self.entries.pop(key, None)
        if entry is not None:
            self._budget.used_bytes -= _size(key, entry)

    def is_unsent(self, key: bytes) -> bool:
        """Whether the row is there, and a flush would send it. A tombstone is no row."""
        return key in self._dirty and self.entries[key][2] is not None

    @property
    def dirty(self) -> int:
        """How many rows a flush would send."""
        return len(self._dirty)

    def between(self, low: bytes | None, high: bytes | None) -> dict[bytes, CacheEntry]:
        """Rows with ``low <= key <= high`` (None: no bound), clean ones too."""
        entries, keys = self.entries, self._keys
        if keys is None:
            keys = self._keys = SortedKeys(entries)
        return {key: entries[key] for key in keys.between(low, high) if key in entries}

    def flush(self) -> None:
        """Send every dirty row on. A row dirtied anew meanwhile waits for the next flush."""
        entries, dirty = self.entries, self._dirty
        for key in list(dirty):
            # who is sent a row may use this store, and an eviction then flushes from within: a row stays dirty until
            # its own turn, or it would look clean and be evicted unsent
            if key not in dirty:
                continue
            del dirty[key]
            entry = entries[key]
            self._flush_row(key, entry)
            if entry[6].__class__ is not int and entries.get(key) is entry:
                # nobody can ask any more for the record that wrote it
                self._budget.used_bytes -= _traced(entry)
                entry = entries[key] = (*entry[:6], int(entry[6]))
            if entry[2] is None and key not in dirty and entries.get(key) is entry:
                # a tombstone below answers by itself
                del entries[key]
                self._budget.used_bytes -= _ENTRY_OVERHEAD + len(key)

    def clear(self) -> None:
        """Forget everything, dirty rows too."""
        for key, entry in self.entries.items():
            self._budget.used_bytes -= _size(key, entry)
        self.entries.clear()
        self._dirty.clear()
        self._keys = None


def _size(key: bytes, entry: CacheEntry) -> int:
    raw = entry[2]
    return _ENTRY_OVERHEAD + len(key) + (0 if raw is None else len(raw)) + _traced(entry)


def _traced(entry: CacheEntry) -> int:
    """Bytes of the record in whose context the row was written, where they are kept."""
    offset = entry[6]
    return len(offset.raw_key or b"") + len(offset.raw_value or b"") if isinstance(offset, TracedOffset) else 0
