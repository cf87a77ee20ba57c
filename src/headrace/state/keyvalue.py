"""Typed key-value stores: what processors see, and the closures' fast way in for the DSL.

Rows of a timestamped store are ``8-byte big-endian timestamp + value``; its changelog record holds the bare value and
has the timestamp as the record's own. A plain store's row and changelog value are the value's bytes.
Source: ``KeyValueStore``, ``TimestampedKeyValueStore`` and the Metered/Caching/ChangeLogging bodies of Kafka 4.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from headrace.errors import InvalidStateStoreException
from headrace.state.body import prefix_end
from headrace.state.buffer import overlaid
from headrace.state.cache import UNDECODED, RecordCache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from headrace.api.engine import ProcessChange, RecordContext
    from headrace.api.serde import Serde, Serializer
    from headrace.records import Headers
    from headrace.state.buffer import BufferedStore
    from headrace.state.cache import CacheBudget, CacheEntry

    _Get = Callable[[bytes], tuple[Any, ...] | None]
    _Put = Callable[[bytes, Any, int, Headers | None], None]

K = TypeVar("K")
V = TypeVar("V")

NO_TIMESTAMP = -1
"""Timestamp of a value that a plain store supplier holds for a timestamped store."""


class ValueAndTimestamp(NamedTuple):
    """A value and the time (epoch ms) of its last change. Source: ``state.ValueAndTimestamp``."""

    value: Any
    timestamp: int


class StoreBase(Generic[K, V]):
    """What both kinds share: keys, life cycle, and the commit steps that the task calls."""

    def __init__(
        self,
        rows: BufferedStore,
        serde_topic: str,
        key_serde: Serde[K],
        value_serde: Serde[V],
        record: RecordContext,
        budget: CacheBudget | None,
    ) -> None:
        self.name = rows.name
        self.rows = rows
        self._record = record
        self._serde_topic = serde_topic
        self._encode_key: Callable[[K], bytes] = key_serde.serializer.bind(serde_topic)
        self._decode_key: Callable[[bytes], K] = key_serde.deserializer.bind(serde_topic)
        self._encode: Callable[[V], bytes] = value_serde.serializer.bind(serde_topic)
        self._decode: Callable[[bytes], V] = value_serde.deserializer.bind(serde_topic)
        self._keep_decoded = value_serde.immutable
        self._keep_given = value_serde.immutable and value_serde.faithful
        self._listener: ProcessChange | None = None
        self._send_old_values = False
        self.cache: RecordCache | None = None if budget is None else RecordCache(budget, self._flush_row)
        self._open = True

    @property
    def persistent(self) -> bool:
        """Whether committed rows outlive the process."""
        return self.rows.body.persistent

    @property
    def is_open(self) -> bool:
        """False once the task has closed."""
        return self._open

    def approximate_num_entries(self) -> int:
        """Number of rows, roughly (uncommitted writes are counted as rows)."""
        self._check_open()
        return self.rows.approximate_count() + (len(self.cache.dirty_rows(None, None)) if self.cache else 0)

    def set_flush_listener(self, listener: ProcessChange, send_old_values: bool) -> bool:
        """Have flushed rows forwarded. Returns whether the store is cached: if not, the caller forwards by itself."""
        self._send_old_values = send_old_values
        if self.cache is None:
            return False
        self._listener = listener
        return True

    def flush(self) -> None:
        """Send dirty cached rows on."""
        if self.cache is not None:
            self.cache.flush()

    def close(self) -> None:
        """Close; uncommitted writes are forgotten. Closing twice does nothing."""
        if self._open:
            self._open = False
            if self.cache is not None:
                self.cache.clear()
            self.rows.close()

    def drop_uncommitted(self) -> None:
        """Forget cached and buffered writes."""
        if self.cache is not None:
            self.cache.clear()
        self.rows.drop()

    def from_changelog(self, value: bytes | None, timestamp: int) -> bytes | None:
        """The row that a changelog record stands for."""
        raise NotImplementedError

    def _flush_row(self, key: bytes, entry: CacheEntry) -> None:
        raise NotImplementedError

    def _check_open(self) -> None:
        if not self._open:
            raise InvalidStateStoreException(f"store {self.name} is closed: its task is no longer here")

    def _key(self, key: K | None) -> bytes:
        if key is None:
            raise ValueError(f"store {self.name}: key cannot be None")
        if not self._open:
            self._check_open()
        return self._encode_key(key)

    def _bounds(self, low: K | None, high: K | None) -> tuple[bytes | None, bytes | None]:
        self._check_open()
        return None if low is None else self._encode_key(low), None if high is None else self._encode_key(high)

    def _install(self, entry: CacheEntry) -> tuple[str | None, int, int, int, Headers | None]:
        record = self._record
        saved = (record.topic, record.partition, record.offset, record.timestamp, record.headers)
        _, record.timestamp, _, record.headers, record.topic, record.partition, record.offset = entry
        return saved

    def _reinstall(self, saved: tuple[str | None, int, int, int, Headers | None]) -> None:
        record = self._record
        record.topic, record.partition, record.offset, record.timestamp, record.headers = saved


class KeyValueStore(StoreBase[K, V]):
    """Keys to values, in the order of the keys' bytes (unsigned). Source: ``state.KeyValueStore``.

    Iterators are snapshots: rows may be written and deleted while iterating. The store belongs to its task's thread.
    """

    def get(self, key: K) -> V | None:
        """The value under ``key``, or None."""
        return self._decoded(self._raw(self._key(key)))

    def put(self, key: K, value: V | None) -> None:
        """Set the value under ``key``; None deletes it."""
        self._put(self._key(key), None if value is None else self._encode(value))

    def put_if_absent(self, key: K, value: V | None) -> V | None:
        """Set the value when there is none. Returns the value that was there, or None when it was set."""
        raw_key = self._key(key)
        old = self._raw(raw_key)
        if old is None:
            self._put(raw_key, None if value is None else self._encode(value))
        return self._decoded(old)

    def put_all(self, entries: Iterable[tuple[K, V | None]]) -> None:
        """Put each pair, in order."""
        for key, value in entries:
            self.put(key, value)

    def delete(self, key: K) -> V | None:
        """Delete the row. Returns the value that was there, or None."""
        raw_key = self._key(key)
        old = self._raw(raw_key)
        self._put(raw_key, None)
        return self._decoded(old)

    def range(self, low: K | None, high: K | None) -> Iterator[tuple[K, V]]:
        """Rows from ``low`` to ``high``, both included (None: no bound), in the order of the keys' bytes."""
        return self._scan(*self._bounds(low, high), reverse=False)

    def reverse_range(self, low: K | None, high: K | None) -> Iterator[tuple[K, V]]:
        """As :meth:`range`, from high to low."""
        return self._scan(*self._bounds(low, high), reverse=True)

    def all(self) -> Iterator[tuple[K, V]]:
        """Every row, in the order of the keys' bytes."""
        return self.range(None, None)

    def reverse_all(self) -> Iterator[tuple[K, V]]:
        """Every row, in reverse order of the keys' bytes."""
        return self.reverse_range(None, None)

    def prefix_scan(self, prefix: Any, prefix_serializer: Serializer[Any]) -> Iterator[tuple[K, V]]:
        """Rows whose key's bytes begin with the serialized ``prefix``, in order."""
        self._check_open()
        raw = prefix_serializer.serialize(self._serde_topic, prefix)
        if raw is None:
            raise ValueError(f"store {self.name}: prefix cannot be None")
        end = prefix_end(raw)
        return (row for key, row in self._scan_raw(raw, end, reverse=False) if key.startswith(raw))

    def from_changelog(self, value: bytes | None, timestamp: int) -> bytes | None:
        """The row that a changelog record stands for."""
        return value

    def _decoded(self, raw: bytes | None) -> V | None:
        return None if raw is None else self._decode(raw)

    def _raw(self, key: bytes) -> bytes | None:
        cache = self.cache
        if cache is None:
            return self.rows.get(key)
        entry = cache.get(key)
        if entry is not None:
            return entry[2]
        raw = self.rows.get(key)
        if raw is not None:
            cache.put_clean(key, (UNDECODED, -1, raw, None, None, -1, -1))
        return raw

    def _put(self, key: bytes, raw: bytes | None) -> None:
        record = self._record
        if self.cache is None:
            self.rows.put(key, raw, raw, record.timestamp)
        else:
            self.cache.put(
                key,
                (UNDECODED, record.timestamp, raw, record.headers, record.topic, record.partition, record.offset),
            )

    def _flush_row(self, key: bytes, entry: CacheEntry) -> None:
        self.rows.put(key, entry[2], entry[2], entry[1])

    def _scan(self, low: bytes | None, high: bytes | None, reverse: bool) -> Iterator[tuple[K, V]]:
        return (row for _, row in self._scan_raw(low, high, reverse))

    def _scan_raw(self, low: bytes | None, high: bytes | None, reverse: bool) -> Iterator[tuple[bytes, tuple[K, V]]]:
        below = self.rows.scan(low, high, reverse)
        if self.cache is not None:
            below = overlaid(self.cache.dirty_rows(low, high), below, reverse)
        decode_key, decode = self._decode_key, self._decode
        return ((key, (decode_key(key), decode(raw))) for key, raw in below)


class TimestampedKeyValueStore(StoreBase[K, V]):
    """Keys to values with the time of their last change. Source: ``state.TimestampedKeyValueStore``.

    The public methods take and give :class:`ValueAndTimestamp`. ``get_pair`` and ``put_pair`` are the DSL's way
    in: functions made once per store, because they run for every record.
    ``plain_body`` keeps rows without timestamps, as a plain store supplier does; they read back as -1.
    """

    def __init__(
        self,
        rows: BufferedStore,
        serde_topic: str,
        key_serde: Serde[K],
        value_serde: Serde[V],
        record: RecordContext,
        budget: CacheBudget | None,
        plain_body: bool = False,
    ) -> None:
        super().__init__(rows, serde_topic, key_serde, value_serde, record, budget)
        self._header = 0 if plain_body else 8
        get_raw, put_raw = self._cached_access(self.cache) if self.cache is not None else self._direct_access()
        encode_key = self._encode_key

        def get_pair(key: K) -> tuple[Any, ...] | None:
            return get_raw(encode_key(key))

        def put_pair(key: K, value: V | None, timestamp: int, headers: Headers | None) -> bool | None:
            put_raw(encode_key(key), value, timestamp, headers)
            return True

        self._get_raw = get_raw
        self._put_raw = put_raw
        self.get_pair = get_pair
        """``(value, timestamp, …)`` under a key, or None; further members are the store's own."""
        self.put_pair = put_pair
        """Set or delete (None) the value under a key at a time, on behalf of the record in work.

        Gives whether it is the latest of its key, and None when it was not put: both other than True only where a store
        has versions.
        """

    def get(self, key: K) -> ValueAndTimestamp | None:
        """The value and timestamp under ``key``, or None."""
        pair = self._get_raw(self._key(key))
        return None if pair is None else ValueAndTimestamp(pair[0], pair[1])

    def put(self, key: K, value: ValueAndTimestamp | None) -> None:
        """Set the value under ``key`` with its timestamp; None deletes it."""
        raw_key = self._key(key)
        if value is None:
            self._put_raw(raw_key, None, self._record.timestamp, self._record.headers)
        else:
            self._put_raw(raw_key, value[0], value[1], self._record.headers)

    def put_if_absent(self, key: K, value: ValueAndTimestamp | None) -> ValueAndTimestamp | None:
        """Set the value when there is none. Returns what was there, or None when it was set."""
        old = self.get(key)
        if old is None:
            self.put(key, value)
        return old

    def put_all(self, entries: Iterable[tuple[K, ValueAndTimestamp | None]]) -> None:
        """Put each pair, in order."""
        for key, value in entries:
            self.put(key, value)

    def delete(self, key: K) -> ValueAndTimestamp | None:
        """Delete the row. Returns what was there, or None."""
        old = self.get(key)
        self.put(key, None)
        return old

    def range(self, low: K | None, high: K | None) -> Iterator[tuple[K, ValueAndTimestamp]]:
        """Rows from ``low`` to ``high``, both included (None: no bound), in the order of the keys' bytes."""
        return self._scan(*self._bounds(low, high), reverse=False)

    def reverse_range(self, low: K | None, high: K | None) -> Iterator[tuple[K, ValueAndTimestamp]]:
        """As :meth:`range`, from high to low."""
        return self._scan(*self._bounds(low, high), reverse=True)

    def all(self) -> Iterator[tuple[K, ValueAndTimestamp]]:
        """Every row, in the order of the keys' bytes."""
        return self.range(None, None)

    def reverse_all(self) -> Iterator[tuple[K, ValueAndTimestamp]]:
        """Every row, in reverse order of the keys' bytes."""
        return self.reverse_range(None, None)

    def prefix_scan(self, prefix: Any, prefix_serializer: Serializer[Any]) -> Iterator[tuple[K, ValueAndTimestamp]]:
        """Rows whose key's bytes begin with the serialized ``prefix``, in order."""
        self._check_open()
        raw = prefix_serializer.serialize(self._serde_topic, prefix)
        if raw is None:
            raise ValueError(f"store {self.name}: prefix cannot be None")
        end = prefix_end(raw)
        return (row for key, row in self._scan_raw(raw, end, reverse=False) if key.startswith(raw))

    def from_changelog(self, value: bytes | None, timestamp: int) -> bytes | None:
        """The row that a changelog record stands for."""
        return self._stored(value, timestamp)

    def _stored(self, raw: bytes | None, timestamp: int) -> bytes | None:
        if raw is None or not self._header:
            return raw
        return timestamp.to_bytes(8, "big", signed=True) + raw

    def _split(self, stored: bytes) -> tuple[bytes, int]:
        if not self._header:
            return stored, NO_TIMESTAMP
        return stored[8:], int.from_bytes(stored[:8], "big", signed=True)

    def _read(self, key: bytes) -> tuple[V, int, bytes] | None:
        stored = self.rows.get(key)
        if stored is None:
            return None
        raw, timestamp = self._split(stored)
        return self._decode(raw), timestamp, raw

    def _direct_access(self) -> tuple[_Get, _Put]:
        encode, stored, write = self._encode, self._stored, self.rows.put

        def put(key: bytes, value: Any, timestamp: int, headers: Headers | None) -> None:
            raw = None if value is None else encode(value)
            write(key, stored(raw, timestamp), raw, timestamp)

        return self._read, put

    def _cached_access(self, cache: RecordCache) -> tuple[_Get, _Put]:
        encode, decode, record = self._encode, self._decode, self._record
        read, remember, dirty = self._read, cache.put_clean, cache.put
        keep_decoded, keep_given = self._keep_decoded, self._keep_given
        find, touch = cache.entries.get, cache.entries.move_to_end

        def get(key: bytes) -> tuple[Any, ...] | None:
            entry = find(key)
            if entry is not None:
                touch(key)
                if entry[0] is not UNDECODED:
                    return entry
                raw = entry[2]
                return None if raw is None else (decode(raw), entry[1])
            row = read(key)
            if row is not None:
                value, timestamp, raw = row
                remember(key, (value if keep_decoded else UNDECODED, timestamp, raw, None, None, -1, -1))
            return row

        def put(key: bytes, value: Any, timestamp: int, headers: Headers | None) -> None:
            raw = None if value is None else encode(value)
            kept = value if keep_given and raw is not None else UNDECODED
            dirty(key, (kept, timestamp, raw, headers, record.topic, record.partition, record.offset))

        return get, put

    def _flush_row(self, key: bytes, entry: CacheEntry) -> None:
        value, timestamp, raw, headers = entry[:4]
        listener = self._listener
        if listener is None:
            self.rows.put(key, self._stored(raw, timestamp), raw, timestamp)
            return
        old_stored = self.rows.get(key) if raw is None or self._send_old_values else None
        if raw is None and old_stored is None:
            # never left the cache: nobody downstream has heard of it
            return
        saved = self._install(entry)
        try:
            self.rows.put(key, self._stored(raw, timestamp), raw, timestamp)
            new = None if raw is None else self._decode(raw) if value is UNDECODED else value
            old = None
            if self._send_old_values and old_stored is not None:
                old = self._decode(self._split(old_stored)[0])
            listener(self._decode_key(key), new, old, True, timestamp, headers)
        finally:
            self._reinstall(saved)

    def _scan(self, low: bytes | None, high: bytes | None, reverse: bool) -> Iterator[tuple[K, ValueAndTimestamp]]:
        return (row for _, row in self._scan_raw(low, high, reverse))

    def _scan_raw(
        self, low: bytes | None, high: bytes | None, reverse: bool
    ) -> Iterator[tuple[bytes, tuple[K, ValueAndTimestamp]]]:
        below = self.rows.scan(low, high, reverse)
        cache = self.cache
        if cache is not None:
            dirty = {
                key: self._stored(raw, cache.dirty_entry(key)[1]) for key, raw in cache.dirty_rows(low, high).items()
            }
            below = overlaid(dirty, below, reverse)
        decode_key, decode, split = self._decode_key, self._decode, self._split
        for_rows = ((key, *split(stored)) for key, stored in below)
        if cache is not None and not self._header:
            # a plain body has no times, but those of rows that are still cached are known
            cached = {key: entry[1] for key, entry in cache.entries.items()}
            for_rows = ((key, raw, cached.get(key, ts)) for key, raw, ts in for_rows)
        return ((key, (decode_key(key), ValueAndTimestamp(decode(raw), ts))) for key, raw, ts in for_rows)
