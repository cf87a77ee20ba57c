"""The buffer of suppressed changes: the last change of each key, in the order of the times at which they were put.

A key keeps its place in the order when it changes again. What is buffered lies in memory; the changelog gets, with each
commit, the keys that changed since the last one, as they are then: see :mod:`headrace.state.buffered`. A deletion is a
tombstone. Under ``dsl.store.format=HEADERS`` each value is kept with its time and headers; the changelog record has
those of the prior and of the old value in the headers ``vh.prior`` and ``vh.old``.
Source: ``state.internals.InMemoryTimeOrderedKeyValueChangeBuffer`` (4.4).
"""

from __future__ import annotations

import heapq
import struct
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headrace.errors import ProcessorStateException
from headrace.javaorder import bytes_hash, hash_capacity, in_buckets
from headrace.state.base import StoreBase
from headrace.state.buffered import VERSION, Buffered, decode_buffered, read_changelog
from headrace.state.formats import NO_TIMESTAMP, PLAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.api.serde import Serde
    from headrace.records import Headers, RawRecord
    from headrace.state.buffer import BufferedStore
    from headrace.state.context import StoreContext
    from headrace.state.formats import RowFormat

K = TypeVar("K")
V = TypeVar("V")

_PRIOR: Final = "vh.prior"
_OLD: Final = "vh.old"


class SuppressBuffer(StoreBase[K, V]):
    """The buffered changes of one task. ``evict_until`` and ``evict_beyond`` hand them out, oldest first."""

    def __init__(
        self,
        rows: BufferedStore,
        key_serde: Serde[K],
        value_serde: Serde[V],
        row_format: RowFormat,
        context: StoreContext,
    ) -> None:
        super().__init__(rows, key_serde, value_serde, row_format, context, caching=False)
        self._with_headers = row_format is not PLAIN
        self._entries: dict[bytes, tuple[int, bytes, int, int]] = {}
        """By key: buffer time, row, size, and the offset, which may have the bytes of its record."""
        self._order: list[tuple[int, bytes]] = []
        """A heap of buffer times and keys: one of each entry."""
        self._dirty: dict[bytes, None] = {}
        self._dirty_capacity = hash_capacity(0)
        self._loaded = False
        self._size = 0

    @property
    def dirty(self) -> bool:
        """Whether the next commit has something to write."""
        return bool(self._dirty)

    @property
    def size_bytes(self) -> int:
        """What is buffered, in bytes as Java counts them."""
        if not self._loaded:
            self._load()
        return self._size

    def __len__(self) -> int:
        if not self._loaded:
            self._load()
        return len(self._entries)

    def put(self, time: int, key: K, new: V | None, old: V | None, timestamp: int, headers: Headers | None) -> None:
        """Buffer a change of the record in work; one that waits under the same key is replaced, in its place.

        Args:
            time: Where in the order a key that does not wait yet is placed.
            key: The key.
            new: The value, None for a deletion.
            old: The value before.
            timestamp: Time of the change (epoch ms).
            headers: What it is emitted with.
        """
        if not self._loaded:
            self._load()
        raw_key = self._encode_key(key)
        raw_old = None if old is None else self._encode(old)
        raw_new = None if new is None else self._encode(new)
        entry = self._entries.get(raw_key)
        if entry is None:
            old_part = prior = self._join(raw_old, NO_TIMESTAMP, None)
            heapq.heappush(self._order, (time, raw_key))
        else:
            waiting = decode_buffered(entry[1])[0]
            prior = waiting.prior
            # the old value is what waited so far, so its time and headers are known
            known: tuple[int, Headers | None] = (NO_TIMESTAMP, None)
            if self._with_headers and waiting.new is not None:
                known = self._split(waiting.new)[1:]
            old_part = self._join(raw_old, *known)
            time = entry[0]
            self._size -= entry[2]
        record = self._record
        buffered = Buffered(
            timestamp,
            record.offset,
            record.topic or "",
            record.partition,
            headers or [],
            prior,
            old_part,
            self._join(raw_new, timestamp, headers),
        )
        size = buffered.size_bytes(raw_key)
        self._entries[raw_key] = (time, buffered.encoded(time), size, record.offset)
        self._size += size
        self._dirty[raw_key] = None

    def evict_until(self, time: int, emit: Callable[[K, Buffered], None]) -> None:
        """Hand out, and then forget, what was put for ``time`` or before."""
        if not self._loaded:
            self._load()
        order = self._order
        while order and order[0][0] <= time:
            self._evict(emit)

    def evict_beyond(self, max_records: int, max_bytes: int, emit: Callable[[K, Buffered], None]) -> None:
        """Hand out, and then forget, the oldest until no more is left than may be."""
        if not self._loaded:
            self._load()
        while self._order and (len(self._entries) > max_records or self._size > max_bytes):
            self._evict(emit)

    def prior(self, key: K) -> tuple[bool, tuple[Any, ...] | None]:
        """Whether a change waits under ``key``, and if so the row that was emitted before it.

        The time of that row is not known, except in the format with headers.
        """
        if not self._loaded:
            self._load()
        entry = self._entries.get(self._encode_key(key))
        if entry is None:
            return False, None
        prior = decode_buffered(entry[1])[0].prior
        if prior is None:
            return True, None
        raw, timestamp, headers = self._split(prior)
        return True, (self._decode(raw), timestamp, headers)

    def value(self, part: bytes | None) -> V | None:
        """The value of a part of a :class:`~headrace.state.buffered.Buffered`."""
        return None if part is None else self._decode(self._split(part)[0])

    def flush(self) -> None:
        """Write what changed to the changelog. See :class:`headrace.state.base.StoreBase`."""
        dirty = self._dirty
        self._dirty_capacity = hash_capacity(len(dirty), self._dirty_capacity)
        for key in in_buckets(dirty, bytes_hash, self._dirty_capacity):
            entry = self._entries.get(key)
            if entry is None:
                self.rows.put(key, None, None, None)
            else:
                self.rows.put(key, entry[1], *self._logged(entry[1]))
        dirty.clear()

    def restore(self, records: Sequence[RawRecord], offset: int | None) -> None:
        """See :class:`headrace.state.base.StoreBase`."""
        restored: dict[bytes, bytes | None] = {}
        for at, timestamp, key, value, headers in records:
            if key is not None:
                known = restored[key] if key in restored else self.rows.get(key)
                try:
                    restored[key] = None if value is None else self._as_row(value, headers, known, at, timestamp)
                except (ValueError, struct.error) as e:
                    raise ProcessorStateException(
                        f"store {self.name}: the changelog record at offset {at} is no buffered change"
                    ) from e
        self.rows.restore(list(restored.items()), offset)
        self._loaded = False

    def drop_uncommitted(self) -> None:
        """See :class:`headrace.state.base.StoreBase`."""
        super().drop_uncommitted()
        self._dirty.clear()
        self._loaded = False

    def _load(self) -> None:
        self._entries.clear()
        for key, row in self.rows.scan(None, None):
            buffered, time = decode_buffered(row)
            self._entries[key] = (time, row, buffered.size_bytes(key), buffered.offset)
        self._order = [(entry[0], key) for key, entry in self._entries.items()]
        heapq.heapify(self._order)
        self._size = sum(entry[2] for entry in self._entries.values())
        self._loaded = True

    def _evict(self, emit: Callable[[K, Buffered], None]) -> None:
        key = self._order[0][1]
        _, row, size, offset = self._entries[key]
        # readers are shown the prior value until the change has gone on
        emit(self._decode_key(key), decode_buffered(row)[0]._replace(offset=offset))
        heapq.heappop(self._order)
        del self._entries[key]
        self._size -= size
        self._dirty[key] = None

    def _logged(self, row: bytes) -> tuple[bytes, None, Headers]:
        """Value, time and headers of the changelog record of a row: its parts are bare, their headers are beside."""
        headers: Headers = [(VERSION, b"\x03")]
        if not self._with_headers:
            return row, None, headers
        buffered, time = decode_buffered(row)
        prior, old, new = buffered.prior, buffered.old, buffered.new
        if prior is not None and prior != old:
            headers.append((_PRIOR, self._before_value(prior)))
        if old is not None:
            headers.append((_OLD, self._before_value(old)))
        bare = buffered._replace(prior=self._bare(prior), old=self._bare(old), new=self._bare(new))
        return bare.encoded(time), None, headers

    def _as_row(self, value: bytes, headers: Headers | None, known: bytes | None, offset: int, timestamp: int) -> bytes:
        """The row of a changelog record of any version. ``known`` is the row so far."""
        waiting, place = (None, None) if known is None else decode_buffered(known)
        known_prior = None if waiting is None else (self._bare(waiting.prior),)
        buffered, time = read_changelog(value, headers, known_prior, offset, timestamp)
        if self._with_headers:
            parts = {name: data for name, data in headers or [] if data is not None}
            old = self._part(buffered.old, parts.get(_OLD), buffered.timestamp)
            prior = old
            if buffered.prior != buffered.old or _PRIOR in parts:
                prior = self._part(buffered.prior, parts.get(_PRIOR), buffered.timestamp)
            new = self._join(buffered.new, buffered.timestamp, buffered.headers)
            buffered = buffered._replace(prior=prior, old=old, new=new)
        return buffered.encoded(time if place is None else place)

    def _bare(self, part: bytes | None) -> bytes | None:
        return None if part is None else self._split(part)[0]

    def _before_value(self, part: bytes) -> bytes:
        return part[: len(part) - len(self._split(part)[0])]

    def _part(self, raw: bytes | None, before: bytes | None, timestamp: int) -> bytes | None:
        if raw is None or before is None:
            return self._join(raw, timestamp, None)
        return before + raw
