"""Typed window stores: rows by key and the start of a window.

The changelog record's key is ``key ‖ 8-byte start ‖ 4-byte sequence number``, big endian; the number is 0 unless the
store keeps duplicates. Its value is the bare value. A timestamped store's changelog records have the rows' timestamps,
a plain one's that of the record in work.
Source: ``WindowStore``, ``TimestampedWindowStore``, ``WindowKeySchema``, ``RocksDBWindowStore`` and
``InMemoryWindowStore`` (4.4).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from struct import Struct
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

from headrace.api.windows import MAX_TIMESTAMP, TimeWindow, Windowed
from headrace.state.aging import AgingStore
from headrace.state.formats import PLAIN
from headrace.state.keyvalue import ValueAndTimestamp, ValueTimestampHeaders, timed, timed_with_headers
from headrace.state.segments import EXPIRED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.api.serde import Serde
    from headrace.api.stores import WindowBytesStoreSupplier
    from headrace.api.windows import Window
    from headrace.records import Headers
    from headrace.state.aging import Found
    from headrace.state.buffer import BufferedStore
    from headrace.state.context import StoreContext
    from headrace.state.formats import RowFormat

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")

_SUFFIX = Struct(">qI")
_MAX_SEQUENCE = 2**31 - 1
_pack = _SUFFIX.pack


class WindowFacade(AgingStore[K, V], ABC, Generic[K, V, R]):
    """Keys and window starts to what the store shows as a row (``R``).

    Times are epoch ms; time ranges include both ends and compare with window starts. Rows of one key come by time;
    rows of many keys come as Java's bodies give them: on disk by segment, then by the bytes of key and time; in memory
    by time, then by key. Iterators are snapshots. The store belongs to its task's thread.
    """

    _suffix_size = _SUFFIX.size
    _logs_nothing_put: ClassVar[bool] = False
    """Whether a None put into a store that keeps duplicates leaves a changelog record."""

    def __init__(
        self,
        rows: BufferedStore,
        key_serde: Serde[K],
        value_serde: Serde[V],
        row_format: RowFormat,
        supplier: WindowBytesStoreSupplier,
        context: StoreContext,
        *,
        caching: bool,
    ) -> None:
        # as in Java, one that is ordered by time shows its rows a millisecond longer
        shown_ms = supplier.retention_ms + 1 if supplier.time_first and rows.body.persistent else None
        super().__init__(
            rows, key_serde, value_serde, row_format, supplier, context, caching=caching, shown_ms=shown_ms
        )
        self.window_size_ms = supplier.window_size_ms
        self._duplicates = supplier.retain_duplicates

    def get_pair(self, key: K, window_start: int) -> tuple[Any, ...] | None:
        """``(value, timestamp, headers)`` of a key and window, or None. The DSL's way in, like the two below."""
        return self._get_aged(window_start, self._encode_key(key) + _pack(window_start, self._segments.sequence))

    def look_up(self, key: K, window_start: int) -> tuple[Any, ...] | None:
        """As :meth:`get_pair`, for operators other than the one that puts the rows."""
        return self._look_up_aged(window_start, self._encode_key(key) + _pack(window_start, self._segments.sequence))

    def put_pair(self, key: K, value: V | None, window_start: int, timestamp: int, headers: Headers | None) -> None:
        """Set or delete (None) the row of a key and window at a time, on behalf of the record in work."""
        self._put_raw(self._encode_key(key), value, window_start, timestamp, headers)

    def fetch_pairs(self, key: K, time_from: int, time_to: int) -> list[tuple[Any, ...]]:
        """``(window start, value, timestamp, headers)`` of a key's windows in a time range, ascending."""
        decode = self._decode
        return [
            (_start(row_key), decode(raw), timestamp, headers)
            for row_key, (raw, timestamp, headers) in self._of_one(self._encode_key(key), time_from, time_to)
        ]

    def fetch_raw(self, key: K, time_from: int, time_to: int, reverse: bool) -> Iterator[tuple[int, bytes, int]]:
        """``(window start, bytes for decode, timestamp)`` of a key's windows in a time range: not all may be needed."""
        found = self._of_one(self._encode_key(key), time_from, time_to, reverse=reverse)
        return ((_start(row_key), raw, timestamp) for row_key, (raw, timestamp, _) in found)

    @property
    def decode(self) -> Callable[[bytes], V]:
        """Gives the value of what :meth:`fetch_raw` found."""
        return self._decode

    def fetch_all_pairs(self, time_from: int, time_to: int) -> list[tuple[Any, ...]]:
        """``(key, window start, value, timestamp, headers)`` of all windows in a time range, in the store's order."""
        decode, decode_key, at = self._decode, self._decode_key, self._at
        return [
            (decode_key(row_key[at:-12]), _start(row_key), decode(raw), timestamp, headers)
            for row_key, (raw, timestamp, headers) in self._in_time(time_from, time_to, reverse=False)
        ]

    @abstractmethod
    def put(self, key: K, value: R | None, window_start: int) -> None:
        """Set the row of a key and window; None deletes it (and does nothing in a store that keeps duplicates)."""

    @overload
    def fetch(self, key: K, time_from: int) -> R | None: ...

    @overload
    def fetch(self, key: K, time_from: int, time_to: int) -> Iterator[tuple[int, R]]: ...

    def fetch(self, key: K, time_from: int, time_to: int | None = None) -> R | Iterator[tuple[int, R]] | None:
        """The row of the window that starts at ``time_from``, or None; with ``time_to`` the rows of that time range.

        Rows come as ``(window start, row)``, ascending.
        """
        raw_key = self._key(key)
        if time_to is not None:
            return self._shown_by_start(self._of_one(raw_key, time_from, time_to))
        row = self._get_aged(time_from, raw_key + _pack(time_from, self._segments.sequence))
        return None if row is None else self._row(*row)

    def backward_fetch(self, key: K, time_from: int, time_to: int) -> Iterator[tuple[int, R]]:
        """As :meth:`fetch` of a time range, descending."""
        return self._shown_by_start(self._of_one(self._key(key), time_from, time_to, reverse=True))

    def fetch_range(
        self, key_from: K | None, key_to: K | None, time_from: int, time_to: int
    ) -> Iterator[tuple[Windowed[K], R]]:
        """Rows of the keys from ``key_from`` to ``key_to``, both included (None: no bound), in a time range."""
        return self._in_range(key_from, key_to, time_from, time_to, reverse=False)

    def backward_fetch_range(
        self, key_from: K | None, key_to: K | None, time_from: int, time_to: int
    ) -> Iterator[tuple[Windowed[K], R]]:
        """As :meth:`fetch_range`, backwards."""
        return self._in_range(key_from, key_to, time_from, time_to, reverse=True)

    def fetch_all(self, time_from: int, time_to: int) -> Iterator[tuple[Windowed[K], R]]:
        """Rows of every key in a time range."""
        return self._shown_by_key(self._in_time(time_from, time_to, reverse=False))

    def backward_fetch_all(self, time_from: int, time_to: int) -> Iterator[tuple[Windowed[K], R]]:
        """As :meth:`fetch_all`, backwards."""
        return self._shown_by_key(self._in_time(time_from, time_to, reverse=True))

    def all(self) -> Iterator[tuple[Windowed[K], R]]:
        """Every row."""
        return self.fetch_all(0, MAX_TIMESTAMP)

    def backward_all(self) -> Iterator[tuple[Windowed[K], R]]:
        """Every row, backwards."""
        return self.backward_fetch_all(0, MAX_TIMESTAMP)

    @abstractmethod
    def _row(self, value: V, timestamp: int, headers: Headers | None) -> R:
        """What is shown of a row."""

    def _put_raw(
        self, raw_key: bytes, value: V | None, window_start: int, timestamp: int, headers: Headers | None
    ) -> None:
        if self._duplicates:
            raw = None if value is None else self._encode(value)
            self._add(raw_key, raw, window_start, timestamp, headers)
            return
        key = raw_key + _pack(window_start, self._segments.sequence)
        self._put_aged(window_start, key, value, timestamp, headers)

    def _add(
        self, raw_key: bytes, raw: bytes | None, window_start: int, timestamp: int, headers: Headers | None
    ) -> None:
        """One more row, in a store that keeps duplicates; it is never cached."""
        if raw is None and not self._logs_nothing_put:
            # there is no telling which of the duplicates is meant
            return
        segments = self._segments
        segments.sequence = (segments.sequence + 1) & _MAX_SEQUENCE
        key = raw_key + _pack(window_start, segments.sequence)
        if raw is not None:
            self._check_time(window_start)
            self._write(self._row_key(window_start, key), raw, timestamp, headers)
            return
        if self.rows.log is not None:
            self.rows.log(key, None, timestamp, self._logged_headers(None, headers))
        if not self.persistent and not segments.accept(window_start):
            self._drop(EXPIRED)

    def _of_one(self, raw_key: bytes, first: int, last: int, *, reverse: bool = False) -> Iterator[Found]:
        if last < first or last < 0:
            return iter(())
        low, high = _pack(max(first, 0), 0), _pack(last, _MAX_SEQUENCE)
        return self._of_key(raw_key, low, high, first, last, reverse=reverse)

    def _in_range(
        self, key_from: K | None, key_to: K | None, first: int, last: int, *, reverse: bool
    ) -> Iterator[tuple[Windowed[K], R]]:
        self._check_open()
        low = None if key_from is None else self._encode_key(key_from)
        high = None if key_to is None else self._encode_key(key_to)
        if last < first or (low is not None and high is not None and low > high):
            return iter(())
        top = _pack(last, _MAX_SEQUENCE)
        return self._shown_by_key(self._of_keys(low, high, top, first, last, reverse=reverse))

    def _in_time(self, first: int, last: int, *, reverse: bool) -> Iterator[Found]:
        self._check_open()
        if last < first or last < 0:
            return iter(())
        if self._indexed and self.cache is None:
            found = self._by_index(max(first, self._segments.oldest_visible), last)
            return reversed(found) if reverse else iter(found)
        return self._of_keys(None, None, b"", first, last, reverse=reverse)

    def _shown_by_start(self, found: Iterator[Found]) -> Iterator[tuple[int, R]]:
        decode, row = self._decode, self._row
        return ((_start(row_key), row(decode(raw), timestamp, headers)) for row_key, (raw, timestamp, headers) in found)

    def _shown_by_key(self, found: Iterator[Found]) -> Iterator[tuple[Windowed[K], R]]:
        decode, row, windowed, at = self._decode, self._row, self._windowed, self._at
        return (
            (windowed(row_key[at:]), row(decode(raw), timestamp, headers))
            for row_key, (raw, timestamp, headers) in found
        )

    def _time_of(self, key: bytes) -> int:
        return _start(key)

    def _time_key(self, key: bytes) -> bytes:
        return key[-12:-4] + key[:-12] + key[-4:]

    def _from_time_key(self, key: bytes) -> bytes:
        return key[8:-4] + key[:8] + key[-4:]

    def _order(self, row_key: bytes) -> Any:
        return row_key[-12:-4], row_key[self._at : -12], row_key[-4:]

    def _window_of(self, key: bytes) -> Window:
        start = _start(key)
        return TimeWindow(start, min(start + self.window_size_ms, MAX_TIMESTAMP))

    def _note_restored(self, key: bytes) -> None:
        # numbers go on after the greatest one: beginning anew would overwrite duplicates
        sequence = int.from_bytes(key[-4:], "big")
        self._segments.sequence = max(self._segments.sequence, sequence)


class WindowStore(WindowFacade[K, V, V]):
    """Keys and window starts to values. Source: ``state.WindowStore``."""

    def __init__(
        self,
        rows: BufferedStore,
        key_serde: Serde[K],
        value_serde: Serde[V],
        supplier: WindowBytesStoreSupplier,
        context: StoreContext,
        *,
        caching: bool,
        row_format: RowFormat = PLAIN,
    ) -> None:
        super().__init__(rows, key_serde, value_serde, row_format, supplier, context, caching=caching)

    def put(self, key: K, value: V | None, window_start: int) -> None:
        """See :class:`WindowFacade`."""
        record = self._record
        self._put_raw(self._key(key), value, window_start, record.timestamp, record.headers)

    def _row(self, value: V, timestamp: int, headers: Headers | None) -> V:
        return value


class TimestampedWindowStore(WindowFacade[K, V, ValueAndTimestamp]):
    """Keys and window starts to values with the time of their last change. Source: ``state.TimestampedWindowStore``."""

    def put(self, key: K, value: ValueAndTimestamp | None, window_start: int) -> None:
        """See :class:`WindowFacade`."""
        raw_key, record = self._key(key), self._record
        bare, timestamp = (None, record.timestamp) if value is None else timed(value, self.name)
        self._put_raw(raw_key, bare, window_start, timestamp, record.headers)

    def _row(self, value: V, timestamp: int, headers: Headers | None) -> ValueAndTimestamp:
        return ValueAndTimestamp(value, timestamp)


class TimestampedWindowStoreWithHeaders(WindowFacade[K, V, ValueTimestampHeaders]):
    """Keys and window starts to values with the time of their last change and headers.

    Changelog records have the headers too. A store that keeps duplicates writes None to the changelog alone, as Java's
    does. Source: ``state.TimestampedWindowStoreWithHeaders`` (KIP-1271).
    """

    _logs_nothing_put = True

    def put(self, key: K, value: ValueTimestampHeaders | None, window_start: int) -> None:
        """See :class:`WindowFacade`."""
        raw_key, record = self._key(key), self._record
        if value is None:
            self._put_raw(raw_key, None, window_start, record.timestamp, record.headers)
        else:
            bare, timestamp, headers = timed_with_headers(value, self.name)
            self._put_raw(raw_key, bare, window_start, timestamp, headers)

    def _row(self, value: V, timestamp: int, headers: Headers | None) -> ValueTimestampHeaders:
        return ValueTimestampHeaders(value, timestamp, list(headers or ()))


def _start(key: bytes) -> int:
    return int.from_bytes(key[-12:-4], "big")
