"""The buffer of suppressed changes: the last change of each key, in the order of the times at which they were put.

A key keeps its place in the order when it changes again. What is buffered lies in memory; the changelog gets, with each
commit, the keys that changed since the last one, as they are then. Rows, and the values of changelog records, which
carry the header ``v`` with the byte 3, are::

    i64 timestamp, i64 offset, i32 size, topic, i32 partition, i32 number of headers
    per header: i32 size, key, i32 size or -1, value
    i32 size or -1, prior value
    i32 size, -1 or -2 (the same as prior), old value
    i32 size or -1, new value
    i64 buffer time

The prior value is the one that was emitted last; the old value, the one before the new. A deletion is a tombstone.
Versions 0 to 2, of Java's library before 2.5.1, are read too. Sources:
``state.internals.{InMemoryTimeOrderedKeyValueChangeBuffer,BufferValue}``,
``processor.internals.ProcessorRecordContext`` (4.4).
"""

from __future__ import annotations

import heapq
import struct
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from headrace.errors import ProcessorStateException
from headrace.javaorder import bytes_hash, hash_capacity, in_buckets
from headrace.state.base import StoreBase
from headrace.state.formats import PLAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.api.serde import Serde
    from headrace.records import Headers, RawRecord
    from headrace.state.buffer import BufferedStore
    from headrace.state.context import StoreContext

K = TypeVar("K")
V = TypeVar("V")

_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")
_TIMES: Final = struct.Struct(">qq")
_SAME: Final = -2
_VERSION: Final = "v"
_HEADERS: Final[Headers] = [(_VERSION, b"\x03")]


class Buffered(NamedTuple):
    """A buffered change, in bytes: where its record lay, and the values."""

    timestamp: int
    offset: int
    topic: str
    partition: int
    headers: Headers
    prior: bytes | None
    old: bytes | None
    new: bytes | None

    def encoded(self, time: int) -> bytes:
        """The row, see the module."""
        topic = self.topic.encode()
        parts = [
            _TIMES.pack(self.timestamp, self.offset),
            _sized(topic),
            _I32.pack(self.partition),
            _I32.pack(len(self.headers)),
        ]
        for name, value in self.headers:
            parts += (_sized(name.encode()), _sized(value))
        parts.append(_sized(self.prior))
        same = self.old is not None and self.old == self.prior
        parts += (_I32.pack(_SAME) if same else _sized(self.old), _sized(self.new), _I64.pack(time))
        return b"".join(parts)

    def size_bytes(self, key: bytes) -> int:
        """What Java says that it takes in memory, under ``key``."""
        context = 8 + 8 + 4 + _length(self.topic)
        context += sum(_length(name) + len(value or b"") for name, value in self.headers)
        old = 0 if self.old is None or self.old == self.prior else len(self.old)
        return 8 + len(key) + context + len(self.prior or b"") + old + len(self.new or b"")


def _length(text: str) -> int:
    # Java counts UTF-16 units
    return len(text) if text.isascii() else len(text.encode("utf-16-be")) // 2


def _sized(data: bytes | None) -> bytes:
    return _I32.pack(-1) if data is None else _I32.pack(len(data)) + data


class _Reader:
    """Takes numbers and sized bytes off the front of some bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def i32(self) -> int:
        number: int = _I32.unpack_from(self._data, self._at)[0]
        self._at += 4
        return number

    def i64(self) -> int:
        number: int = _I64.unpack_from(self._data, self._at)[0]
        self._at += 8
        return number

    def taken(self, size: int) -> bytes:
        if size < 0 or self._at + size > len(self._data):
            raise ValueError(f"{size} bytes at {self._at} of {len(self._data)}")
        self._at += size
        return self._data[self._at - size : self._at]

    def sized(self) -> bytes | None:
        size = self.i32()
        return None if size == -1 else self.taken(size)

    def rest(self) -> bytes:
        return self.taken(len(self._data) - self._at)

    def context(self) -> tuple[int, int, str, int, Headers]:
        timestamp, offset = self.i64(), self.i64()
        topic, partition, count = (self.sized() or b"").decode(), self.i32(), self.i32()
        headers: Headers = [((self.sized() or b"").decode(), self.sized()) for _ in range(max(0, count))]
        return timestamp, offset, topic, partition, headers


def decode_buffered(data: bytes) -> tuple[Buffered, int]:
    """A row's change and its buffer time.

    Raises:
        ValueError, struct.error: It is no row.
    """
    reader = _Reader(data)
    context, prior = reader.context(), reader.sized()
    size = reader.i32()
    old = prior if size == _SAME else None if size == -1 else reader.taken(size)
    new = reader.sized()
    return Buffered(*context, prior, old, new), reader.i64()


def _legacy_change(data: bytes | None) -> tuple[bytes | None, bytes | None]:
    """``(old, new)`` of ``i32 size or -1, old, i32 size or -1, new``; all of it may be missing."""
    if data is None:
        return None, None
    reader = _Reader(data)
    return reader.sized(), reader.sized()


class SuppressBuffer(StoreBase[K, V]):
    """The buffered changes of one task. ``evict_until`` and ``evict_beyond`` hand them out, oldest first."""

    def __init__(self, rows: BufferedStore, key_serde: Serde[K], value_serde: Serde[V], context: StoreContext) -> None:
        super().__init__(rows, key_serde, value_serde, PLAIN, context, caching=False)
        self._entries: dict[bytes, tuple[int, bytes, int]] = {}
        """By key: buffer time, row, size."""
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
        return self._size

    def __len__(self) -> int:
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
        record = self._record
        entry = self._entries.get(raw_key)
        if entry is None:
            prior = raw_old
            heapq.heappush(self._order, (time, raw_key))
        else:
            prior = decode_buffered(entry[1])[0].prior
            time = entry[0]
            self._size -= entry[2]
        raw_new = None if new is None else self._encode(new)
        buffered = Buffered(
            timestamp, record.offset, record.topic or "", record.partition, headers or [], prior, raw_old, raw_new
        )
        size = buffered.size_bytes(raw_key)
        self._entries[raw_key] = (time, buffered.encoded(time), size)
        self._size += size
        self._dirty[raw_key] = None

    def evict_until(self, time: int, emit: Callable[[K, Buffered], None]) -> None:
        """Hand out, and then forget, what was put for ``time`` or before."""
        order = self._order
        while order and order[0][0] <= time:
            self._evict(emit)

    def evict_beyond(self, max_records: int, max_bytes: int, emit: Callable[[K, Buffered], None]) -> None:
        """Hand out, and then forget, the oldest until no more is left than may be."""
        while self._order and (len(self._entries) > max_records or self._size > max_bytes):
            self._evict(emit)

    def prior(self, key: K) -> tuple[bool, V | None]:
        """Whether a change waits under ``key``, and if so the value that was emitted before it."""
        if not self._loaded:
            self._load()
        entry = self._entries.get(self._encode_key(key))
        if entry is None:
            return False, None
        prior = decode_buffered(entry[1])[0].prior
        return True, None if prior is None else self._decode(prior)

    def value(self, raw: bytes | None) -> V | None:
        """The value of bytes of a :class:`Buffered`."""
        return None if raw is None else self._decode(raw)

    def flush(self) -> None:
        """Write what changed to the changelog. See :class:`headrace.state.base.StoreBase`."""
        dirty = self._dirty
        self._dirty_capacity = hash_capacity(len(dirty), self._dirty_capacity)
        for key in in_buckets(dirty, bytes_hash, self._dirty_capacity):
            entry = self._entries.get(key)
            if entry is None:
                self.rows.put(key, None, None, None)
            else:
                self.rows.put(key, entry[1], entry[1], None, _HEADERS)
        dirty.clear()

    def restore(self, records: Sequence[RawRecord], offset: int | None) -> None:
        """See :class:`headrace.state.base.StoreBase`."""
        restored: dict[bytes, bytes | None] = {}
        for at, timestamp, key, value, headers in records:
            if key is not None:
                known = restored[key] if key in restored else self.rows.get(key)
                try:
                    restored[key] = None if value is None else _as_row(value, headers, known, at, timestamp)
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
            self._entries[key] = (time, row, buffered.size_bytes(key))
        self._order = [(entry[0], key) for key, entry in self._entries.items()]
        heapq.heapify(self._order)
        self._size = sum(entry[2] for entry in self._entries.values())
        self._loaded = True

    def _evict(self, emit: Callable[[K, Buffered], None]) -> None:
        key = self._order[0][1]
        _, row, size = self._entries[key]
        # readers are shown the prior value until the change has gone on
        emit(self._decode_key(key), decode_buffered(row)[0])
        heapq.heappop(self._order)
        del self._entries[key]
        self._size -= size
        self._dirty[key] = None


def _as_row(value: bytes, headers: Headers | None, known: bytes | None, offset: int, timestamp: int) -> bytes:
    """The row of a changelog record of any version. ``known`` is the row so far."""
    version = next((data for name, data in reversed(headers or []) if name == _VERSION), b"\0")
    if version == b"\x03":
        time = decode_buffered(value)[1]
        buffered = None
    elif version == b"\x02":
        buffered, time = _version_2(value)
    elif version in (b"\x00", b"\x01"):
        reader = _Reader(value)
        time = reader.i64()
        context = reader.context() if version == b"\x01" else (timestamp, offset, "", -1, list(headers or []))
        old, new = _legacy_change(reader.sized() if version == b"\x01" else reader.rest())
        prior = old if known is None else decode_buffered(known)[0].prior
        buffered = Buffered(*context, prior, old, new)
    else:
        raise ValueError(f"version {version!r}")
    place = time if known is None else decode_buffered(known)[1]
    if buffered is None:
        return value if place == time else value[:-8] + _I64.pack(place)
    return buffered.encoded(place)


def _version_2(value: bytes) -> tuple[Buffered, int]:
    try:
        reader = _Reader(value)
        context = reader.context()
        old, new = _legacy_change(reader.sized())
        return Buffered(*context, reader.sized(), old, new), reader.i64()
    except (ValueError, struct.error):
        # 2.4 and 2.5.0 wrote version 3 under this number
        return decode_buffered(value)
