"""Typed session stores: aggregates by key and session.

The changelog record's key is ``key ‖ 8-byte end ‖ 8-byte start``, big endian; its value is the aggregate's bytes. A
session ages by its end.
Source: ``SessionStore``, ``SessionKeySchema``, ``RocksDBSessionStore`` and ``InMemorySessionStore`` (4.4).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from struct import Struct
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from headrace.api.record import own_headers
from headrace.api.windows import MAX_TIMESTAMP, SessionWindow, Windowed
from headrace.state.aging import AgingStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.api.serde import Serde
    from headrace.api.stores import SessionBytesStoreSupplier
    from headrace.api.windows import Window
    from headrace.records import Headers
    from headrace.state.aging import Found
    from headrace.state.buffer import BufferedStore
    from headrace.state.context import StoreContext
    from headrace.state.formats import RowFormat

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")

_SUFFIX = Struct(">qq")
_pack, _unpack = _SUFFIX.pack, _SUFFIX.unpack


class AggregationWithHeaders(NamedTuple):
    """An aggregate and headers. Source: ``state.AggregationWithHeaders`` (KIP-1271)."""

    aggregation: Any
    headers: Headers


class SessionFacade(AgingStore[K, V], ABC, Generic[K, V, R]):
    """Keys and sessions to what the store shows as a row (``R``).

    Times are epoch ms. Sessions of one key come by their ends, then by their starts (in memory: latest start first);
    those of many keys come as Java's bodies give them: on disk by segment, then by the bytes of key, end and start; in
    memory by end, then by key. Iterators are snapshots. The store belongs to its task's thread.
    """

    _suffix_size = _SUFFIX.size

    def __init__(
        self,
        rows: BufferedStore,
        key_serde: Serde[K],
        value_serde: Serde[V],
        row_format: RowFormat,
        supplier: SessionBytesStoreSupplier,
        context: StoreContext,
        *,
        caching: bool,
    ) -> None:
        super().__init__(rows, key_serde, value_serde, row_format, supplier, context, caching=caching)
        # as in Java, sessions of a range of keys come by key from disk, although those of a range of time come by time
        self._by_time = not rows.body.persistent

    def find_pairs(self, key: K, earliest_end: int, latest_start: int) -> list[tuple[Any, ...]]:
        """``(start, end, aggregate, timestamp, headers)`` of a key's sessions, as :meth:`find_sessions` has them.

        The DSL's way in, like the three below.
        """
        decode = self._decode
        return [
            (*_bounds(row_key), decode(raw), timestamp, headers)
            for row_key, (raw, timestamp, headers) in self._of_one(self._encode_key(key), earliest_end, latest_start)
        ]

    def get_pair(self, key: K, start: int, end: int) -> tuple[Any, ...] | None:
        """``(aggregate, timestamp, headers)`` of a session, or None."""
        return self._get_aged(end, self._encode_key(key) + _pack(end, start))

    def put_pair(
        self, key: K, start: int, end: int, aggregate: V | None, timestamp: int, headers: Headers | None
    ) -> None:
        """Set or remove (None) a session, on behalf of the record in work."""
        self._put_aged(end, self._encode_key(key) + _pack(end, start), aggregate, timestamp, headers)

    def find_all_pairs(self, earliest_end: int, latest_end: int) -> list[tuple[Any, ...]]:
        """``(key, start, end, aggregate, timestamp, headers)`` of all sessions that end in a time range."""
        decode, decode_key, at = self._decode, self._decode_key, self._at
        return [
            (decode_key(row_key[at:-16]), *_bounds(row_key), decode(raw), timestamp, headers)
            for row_key, (raw, timestamp, headers) in self._in_time(earliest_end, latest_end)
        ]

    @abstractmethod
    def put(self, session_key: Windowed[K], aggregate: R | None) -> None:
        """Set a session's aggregate; None removes the session."""

    def remove(self, session_key: Windowed[K]) -> None:
        """Remove a session."""
        self.put(session_key, None)

    def fetch_session(self, key: K, session_start: int, session_end: int) -> R | None:
        """The aggregate of the session with these bounds, or None."""
        row = self._get_aged(session_end, self._key(key) + _pack(session_end, session_start))
        return None if row is None else self._row(row[0], row[2])

    def look_up(self, key: K, session_start: int, session_end: int) -> tuple[Any, ...] | None:
        """``(value, timestamp, headers)`` of a session, or None.

        For operators other than the one that puts the rows.
        """
        return self._look_up_aged(session_end, self._encode_key(key) + _pack(session_end, session_start))

    def find_sessions(self, key: K, earliest_end: int, latest_start: int) -> Iterator[tuple[Windowed[K], R]]:
        """Sessions of a key that end at ``earliest_end`` or later and start at ``latest_start`` or earlier.

        Raises:
            ValueError: ``latest_start`` is negative (a store in memory without a cache finds nothing then), or a store
                on disk with a cache is asked for times in a segment that ends after the greatest one.
        """
        return self._shown(self._of_one(self._key(key), earliest_end, latest_start))

    def backward_find_sessions(self, key: K, earliest_end: int, latest_start: int) -> Iterator[tuple[Windowed[K], R]]:
        """As :meth:`find_sessions`, backwards."""
        return self._shown(self._of_one(self._key(key), earliest_end, latest_start, reverse=True))

    def find_sessions_range(
        self, key_from: K | None, key_to: K | None, earliest_end: int, latest_start: int
    ) -> Iterator[tuple[Windowed[K], R]]:
        """As :meth:`find_sessions`, of the keys from ``key_from`` to ``key_to``, both included (None: no bound)."""
        return self._in_range(key_from, key_to, earliest_end, latest_start, reverse=False)

    def backward_find_sessions_range(
        self, key_from: K | None, key_to: K | None, earliest_end: int, latest_start: int
    ) -> Iterator[tuple[Windowed[K], R]]:
        """As :meth:`find_sessions_range`, backwards."""
        return self._in_range(key_from, key_to, earliest_end, latest_start, reverse=True)

    def find_all_sessions(self, earliest_end: int, latest_end: int) -> Iterator[tuple[Windowed[K], R]]:
        """Sessions of every key that end from ``earliest_end`` to ``latest_end``, both included."""
        self._check_open()
        return self._shown(self._in_time(earliest_end, latest_end))

    def fetch(self, key: K) -> Iterator[tuple[Windowed[K], R]]:
        """Every session of a key."""
        return self.find_sessions(key, 0, MAX_TIMESTAMP)

    def backward_fetch(self, key: K) -> Iterator[tuple[Windowed[K], R]]:
        """Every session of a key, backwards."""
        return self.backward_find_sessions(key, 0, MAX_TIMESTAMP)

    def fetch_range(self, key_from: K | None, key_to: K | None) -> Iterator[tuple[Windowed[K], R]]:
        """Every session of the keys from ``key_from`` to ``key_to``, both included (None: no bound)."""
        return self.find_sessions_range(key_from, key_to, 0, MAX_TIMESTAMP)

    def backward_fetch_range(self, key_from: K | None, key_to: K | None) -> Iterator[tuple[Windowed[K], R]]:
        """As :meth:`fetch_range`, backwards."""
        return self.backward_find_sessions_range(key_from, key_to, 0, MAX_TIMESTAMP)

    def _of_one(
        self, raw_key: bytes, earliest_end: int, latest_start: int, *, reverse: bool = False
    ) -> Iterator[Found]:
        if latest_start < 0 and (self.persistent or self.cache is not None):
            # in Java that is the start of a window that bounds the search
            raise ValueError(f"store {self.name}: no session starts before 0, but {latest_start} was asked for")
        if (
            self.persistent
            and self.cache is not None
            and not reverse
            and self._cached_segments.pass_all_time(earliest_end)
        ):
            # in Java the segment's end, which bounds the search of the cache, wraps into the negative
            raise ValueError(f"store {self.name}: the segment of time {earliest_end} would end after the greatest time")
        low, high = _pack(max(earliest_end, 0), 0), _pack(MAX_TIMESTAMP, MAX_TIMESTAMP)
        found = self._of_key(raw_key, low, high, earliest_end, MAX_TIMESTAMP, reverse=reverse)
        early = (row for row in found if int.from_bytes(row[0][-8:], "big") <= latest_start)
        return self._ordered(early, reverse=reverse)

    def _in_range(
        self, key_from: K | None, key_to: K | None, earliest_end: int, latest_start: int, *, reverse: bool
    ) -> Iterator[tuple[Windowed[K], R]]:
        self._check_open()
        low = None if key_from is None else self._encode_key(key_from)
        high = None if key_to is None else self._encode_key(key_to)
        if low is not None and high is not None and low > high:
            return iter(())
        top = _pack(MAX_TIMESTAMP, MAX_TIMESTAMP)
        found = self._of_keys(low, high, top, earliest_end, MAX_TIMESTAMP, reverse=reverse)
        return self._shown(row for row in found if int.from_bytes(row[0][-8:], "big") <= latest_start)

    def _in_time(self, earliest_end: int, latest_end: int) -> Iterator[Found]:
        if latest_end < earliest_end or latest_end < 0:
            return iter(())
        if self._indexed and self.cache is None:
            # as in Java, the index on disk shows what has expired too
            first = max(earliest_end, 0 if self.persistent else self._segments.oldest_visible)
            found = iter(self._by_index(first, latest_end))
        else:
            found = self._of_keys(None, None, b"", earliest_end, latest_end, reverse=False)
        return self._ordered(found, reverse=False) if self._indexed else found

    def _shown(self, found: Iterator[Found]) -> Iterator[tuple[Windowed[K], R]]:
        decode, windowed, row, at = self._decode, self._windowed, self._row, self._at
        return ((windowed(row_key[at:]), row(decode(raw), headers)) for row_key, (raw, _, headers) in found)

    @abstractmethod
    def _row(self, aggregate: V, headers: Headers | None) -> R:
        """What is shown of a row."""

    def _put_session(self, session_key: Windowed[K], aggregate: V | None, headers: Headers | None) -> None:
        raw_key, window = self._key(session_key.key), session_key.window
        session = raw_key + _pack(window.end, window.start)
        self._put_aged(window.end, session, aggregate, self._record.timestamp, headers)

    def _listener_time(self, row_key: bytes, timestamp: int) -> int:
        return _bounds(row_key)[1]

    def _time_of(self, key: bytes) -> int:
        return int.from_bytes(key[-16:-8], "big")

    def _time_key(self, key: bytes) -> bytes:
        return key[-16:] + key[:-16]

    def _from_time_key(self, key: bytes) -> bytes:
        return key[16:] + key[:16]

    def _order(self, row_key: bytes) -> Any:
        end, start, key = row_key[-16:-8], row_key[-8:], row_key[self._at : -16]
        return (end, start, key) if self.persistent else (end, key, -int.from_bytes(start, "big"))

    def _window_of(self, key: bytes) -> Window:
        start, end = _bounds(key)
        return SessionWindow(start, end)


class SessionStore(SessionFacade[K, V, V]):
    """Keys and sessions to aggregates. Source: ``state.SessionStore``."""

    def put(self, session_key: Windowed[K], aggregate: V | None) -> None:
        """See :class:`SessionFacade`."""
        self._put_session(session_key, aggregate, self._record.headers)

    def _row(self, aggregate: V, headers: Headers | None) -> V:
        return aggregate


class SessionStoreWithHeaders(SessionFacade[K, V, AggregationWithHeaders]):
    """Keys and sessions to aggregates with headers, which the changelog records have too.

    Source: ``state.SessionStoreWithHeaders`` (KIP-1271).
    """

    def put(self, session_key: Windowed[K], aggregate: AggregationWithHeaders | None) -> None:
        """See :class:`SessionFacade`."""
        if aggregate is None:
            self._put_session(session_key, None, self._record.headers)
        else:
            self._put_session(session_key, aggregate[0], own_headers(aggregate[1]))

    def _row(self, aggregate: V, headers: Headers | None) -> AggregationWithHeaders:
        return AggregationWithHeaders(aggregate, list(headers or ()))


def _bounds(key: bytes) -> tuple[int, int]:
    end, start = _unpack(key[-16:])
    return start, end
