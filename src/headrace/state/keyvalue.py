"""Typed key-value stores: what processors see, and the closures' fast way in for the DSL.

Rows of a timestamped store are ``8-byte big-endian timestamp + value``; its changelog record holds the bare value and
has the timestamp as the record's own. A plain store's row and changelog value are the value's bytes.
Source: ``KeyValueStore``, ``TimestampedKeyValueStore`` and the Metered/Caching/ChangeLogging bodies of Kafka 4.4.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from headrace.api.record import own_headers
from headrace.api.times import whole_ms
from headrace.state.base import StoreBase
from headrace.state.body import prefix_end
from headrace.state.cache import UNDECODED, RecordCache
from headrace.state.formats import PLAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from headrace.api.serde import Serde, Serializer
    from headrace.records import Headers
    from headrace.state.buffer import BufferedStore
    from headrace.state.context import StoreContext
    from headrace.state.formats import RowFormat

    Split = tuple[bytes, int, Headers | None]
    _Get = Callable[[bytes], tuple[Any, ...] | None]
    _Put = Callable[[bytes, Any, int, Headers | None], None]

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")


class ValueAndTimestamp(NamedTuple):
    """A value and the time (epoch ms) of its last change. Source: ``state.ValueAndTimestamp``."""

    value: Any
    timestamp: int


class ValueTimestampHeaders(NamedTuple):
    """A value, the time (epoch ms) of its last change, and headers (KIP-1271).

    Source: ``state.ValueTimestampHeaders``.
    """

    value: Any
    timestamp: int
    headers: Headers


def timed(row: ValueAndTimestamp, store: str) -> tuple[Any, int]:
    """Value and timestamp of a row that a program puts into a store.

    Checked here, because a cache would find out only when it is flushed, by a commit that no record answers for.

    Raises:
        TypeError: It is not a pair, or its timestamp no whole number.
        ValueError: The timestamp is more than 64 bits hold.
    """
    value, timestamp = _parts(row, 2, ValueAndTimestamp, store)
    return value, whole_ms(timestamp, f"store {store}")


def timed_with_headers(row: ValueTimestampHeaders, store: str) -> tuple[Any, int, Headers]:
    """As :func:`timed`, with headers that nobody else has."""
    value, timestamp, headers = _parts(row, 3, ValueTimestampHeaders, store)
    return value, whole_ms(timestamp, f"store {store}"), own_headers(headers)


def _parts(row: object, count: int, kind: type, store: str) -> tuple[Any, ...]:
    if isinstance(row, tuple):
        parts: tuple[Any, ...] = row  # pyright: ignore[reportUnknownVariableType]  # a user's object
        if len(parts) == count:
            return parts
    raise TypeError(f"store {store} takes a {kind.__name__}, not a {type(row).__name__}")  # pyright: ignore[reportUnknownArgumentType]  # a user's object


class KeyValueFacade(StoreBase[K, V], ABC, Generic[K, V, R]):
    """Keys to what the store shows as a row (``R``), in the order of the keys' bytes (unsigned).

    Iterators are snapshots: rows may be written and deleted while iterating. The store belongs to its task's thread.
    """

    @abstractmethod
    def get(self, key: K) -> R | None:
        """The row under ``key``, or None."""

    @abstractmethod
    def put(self, key: K, value: R | None) -> None:
        """Set the row under ``key``; None deletes it."""

    def put_if_absent(self, key: K, value: R | None) -> R | None:
        """Set the row when there is none. Returns what was there, or None when it was set."""
        old = self.get(key)
        if old is None:
            self.put(key, value)
        return old

    def put_all(self, entries: Iterable[tuple[K, R | None]]) -> None:
        """Put each pair, in order."""
        for key, value in entries:
            self.put(key, value)

    def delete(self, key: K) -> R | None:
        """Delete the row. Returns what was there, or None."""
        old = self.get(key)
        self.put(key, None)
        return old

    def range(self, low: K | None, high: K | None) -> Iterator[tuple[K, R]]:
        """Rows from ``low`` to ``high``, both included (None: no bound), in the order of the keys' bytes."""
        return self._range(low, high, reverse=False)

    def reverse_range(self, low: K | None, high: K | None) -> Iterator[tuple[K, R]]:
        """As :meth:`range`, from high to low."""
        return self._range(low, high, reverse=True)

    def all(self) -> Iterator[tuple[K, R]]:
        """Every row, in the order of the keys' bytes."""
        return self._range(None, None, reverse=False)

    def reverse_all(self) -> Iterator[tuple[K, R]]:
        """Every row, in reverse order of the keys' bytes."""
        return self._range(None, None, reverse=True)

    def prefix_scan(self, prefix: Any, prefix_serializer: Serializer[Any]) -> Iterator[tuple[K, R]]:
        """Rows whose key's bytes begin with the serialized ``prefix``, in order."""
        self._check_open()
        raw = prefix_serializer.serialize(self._serde_topic, prefix)
        if raw is None:
            raise ValueError(f"store {self.name}: prefix cannot be None")
        rows = self._scan(raw, prefix_end(raw), reverse=False)
        return (self._shown(key, row) for key, row in rows if key.startswith(raw))

    def approximate_num_entries(self) -> int:
        """Number of rows, roughly (uncommitted writes are counted as rows)."""
        self._check_open()
        return self.rows.approximate_count() + (self.cache.dirty if self.cache is not None else 0)

    @abstractmethod
    def _shown(self, key: bytes, row: Split) -> tuple[K, R]:
        """A row of an iterator."""

    def _range(self, low: K | None, high: K | None, *, reverse: bool) -> Iterator[tuple[K, R]]:
        self._check_open()
        raw_low = None if low is None else self._encode_key(low)
        raw_high = None if high is None else self._encode_key(high)
        shown = self._shown
        rows = self._scan(raw_low, raw_high, reverse)
        return (shown(key, row) for key, row in rows)


class KeyValueStore(KeyValueFacade[K, V, V]):
    """Keys to values. Source: ``state.KeyValueStore``."""

    def __init__(
        self,
        rows: BufferedStore,
        key_serde: Serde[K],
        value_serde: Serde[V],
        context: StoreContext,
        *,
        caching: bool,
    ) -> None:
        super().__init__(rows, key_serde, value_serde, PLAIN, context, caching=caching)

    def get(self, key: K) -> V | None:
        """The value under ``key``, or None."""
        raw = self._raw(self._key(key))
        return None if raw is None else self._decode(raw)

    def put(self, key: K, value: V | None) -> None:
        """Set the value under ``key``; None deletes it."""
        record = self._record
        raw = None if value is None else self._encode(value)
        self._put_row(self._key(key), raw, record.timestamp, record.headers)

    def _shown(self, key: bytes, row: Split) -> tuple[K, V]:
        return self._decode_key(key), self._decode(row[0])

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


class PairedKeyValueStore(KeyValueFacade[K, V, R], Generic[K, V, R]):
    """A store of values with timestamps, and the DSL's way into it.

    ``get_pair`` and ``put_pair`` are functions made once per store, because they run for every record. With the format
    ``PLAIN`` rows have no timestamps, as on a plain store supplier; they read back as -1.
    """

    def __init__(
        self,
        rows: BufferedStore,
        key_serde: Serde[K],
        value_serde: Serde[V],
        row_format: RowFormat,
        context: StoreContext,
        *,
        caching: bool,
    ) -> None:
        super().__init__(rows, key_serde, value_serde, row_format, context, caching=caching)
        get_raw, put_raw = self._cached_access(self.cache) if self.cache is not None else self._direct_access()
        encode_key, note_look = self._encode_key, self._note_look

        def get_pair(key: K) -> tuple[Any, ...] | None:
            return get_raw(encode_key(key))

        def look_up(key: K) -> tuple[Any, ...] | None:
            raw_key = encode_key(key)
            note_look(raw_key)
            return get_raw(raw_key)

        def put_pair(key: K, value: V | None, timestamp: int, headers: Headers | None) -> bool | None:
            put_raw(encode_key(key), value, timestamp, headers)
            return True

        self._get_raw = get_raw
        self._put_raw = put_raw
        self.get_pair = get_pair
        """``(value, timestamp, …, headers)`` under a key, or None: the fourth member is the headers."""
        self.look_up = get_pair if self.cache is None else look_up
        """As ``get_pair``, for operators other than the one that puts the rows."""
        self.put_pair = put_pair
        """Set or delete (None) the value under a key at a time, on behalf of the record in work.

        Gives whether it is the latest of its key, and None when it was not put: both other than True only where a store
        has versions.
        """

    def _read(self, key: bytes) -> tuple[V, int, bytes, Headers | None] | None:
        stored = self.rows.get(key)
        if stored is None:
            return None
        raw, timestamp, headers = self._split(stored)
        return self._decode(raw), timestamp, raw, headers

    def _direct_access(self) -> tuple[_Get, _Put]:
        encode, write = self._encode, self._write

        def put(key: bytes, value: Any, timestamp: int, headers: Headers | None) -> None:
            write(key, None if value is None else encode(value), timestamp, headers)

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
                return None if raw is None else (decode(raw), entry[1], raw, entry[3])
            row = read(key)
            if row is not None:
                value, timestamp, raw, headers = row
                remember(key, (value if keep_decoded else UNDECODED, timestamp, raw, headers, None, -1, -1))
            return row

        def put(key: bytes, value: Any, timestamp: int, headers: Headers | None) -> None:
            raw = None if value is None else encode(value)
            kept = value if keep_given and raw is not None else UNDECODED
            dirty(key, (kept, timestamp, raw, headers, record.topic, record.partition, record.offset))

        return get, put


class TimestampedKeyValueStore(PairedKeyValueStore[K, V, ValueAndTimestamp]):
    """Keys to values with the time of their last change. Source: ``state.TimestampedKeyValueStore``."""

    def get(self, key: K) -> ValueAndTimestamp | None:
        """The value and timestamp under ``key``, or None."""
        pair = self._get_raw(self._key(key))
        return None if pair is None else ValueAndTimestamp(pair[0], pair[1])

    def put(self, key: K, value: ValueAndTimestamp | None) -> None:
        """Set the value under ``key`` with its timestamp; None deletes it."""
        raw_key, record = self._key(key), self._record
        bare, timestamp = (None, record.timestamp) if value is None else timed(value, self.name)
        self._put_raw(raw_key, bare, timestamp, record.headers)

    def _shown(self, key: bytes, row: Split) -> tuple[K, ValueAndTimestamp]:
        return self._decode_key(key), ValueAndTimestamp(self._decode(row[0]), row[1])


class TimestampedKeyValueStoreWithHeaders(PairedKeyValueStore[K, V, ValueTimestampHeaders]):
    """Keys to values with the time of their last change and headers, which the changelog records have too.

    Source: ``state.TimestampedKeyValueStoreWithHeaders`` (KIP-1271).
    """

    def get(self, key: K) -> ValueTimestampHeaders | None:
        """The value, timestamp and headers under ``key``, or None."""
        pair = self._get_raw(self._key(key))
        return None if pair is None else ValueTimestampHeaders(pair[0], pair[1], list(pair[3] or ()))

    def put(self, key: K, value: ValueTimestampHeaders | None) -> None:
        """Set the value under ``key`` with its timestamp and headers; None deletes it."""
        raw_key, record = self._key(key), self._record
        if value is None:
            self._put_raw(raw_key, None, record.timestamp, record.headers)
        else:
            self._put_raw(raw_key, *timed_with_headers(value, self.name))

    def _shown(self, key: bytes, row: Split) -> tuple[K, ValueTimestampHeaders]:
        return self._decode_key(key), ValueTimestampHeaders(self._decode(row[0]), row[1], list(row[2] or ()))
