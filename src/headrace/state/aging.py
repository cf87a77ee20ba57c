"""What window and session stores share: rows in segments, a cache over them, the order in which they are shown."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace.api.windows import MAX_TIMESTAMP, Windowed
from headrace.state.base import StoreBase
from headrace.state.body import prefix_end
from headrace.state.buffer import overlaid
from headrace.state.cache import UNDECODED
from headrace.state.segments import EXPIRED, SegmentNumbers, Segments

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from headrace.api.serde import Serde
    from headrace.api.stores import SessionBytesStoreSupplier, WindowBytesStoreSupplier
    from headrace.api.windows import Window
    from headrace.records import Headers, RawRecord
    from headrace.state.buffer import BufferedStore
    from headrace.state.context import StoreContext
    from headrace.state.formats import RowFormat

    Split = tuple[bytes, int, Headers | None]
    Found = tuple[bytes, Split]
    """A row key, and the row's value bytes, timestamp and headers."""

K = TypeVar("K")
V = TypeVar("V")


class AgingStore(StoreBase[K, V], ABC, Generic[K, V]):
    """Rows under ``segment ‖ lead ‖ key ‖ suffix``, where the suffix has a fixed length and says the times.

    ``key ‖ suffix`` is the changelog record's key. The lead is empty, or one byte where the segment also has an index
    by time: rows under ``segment ‖ 0x01 ‖ time key`` with empty values, which the changelog never has.
    """

    _suffix_size: int

    def __init__(
        self,
        rows: BufferedStore,
        key_serde: Serde[K],
        value_serde: Serde[V],
        row_format: RowFormat,
        supplier: WindowBytesStoreSupplier | SessionBytesStoreSupplier,
        context: StoreContext,
        *,
        caching: bool,
        shown_ms: int | None = None,
    ) -> None:
        super().__init__(rows, key_serde, value_serde, row_format, context, caching=caching)
        persistent, time_first = rows.body.persistent, supplier.time_first
        self.retention_ms = supplier.retention_ms
        self._segments = Segments(
            rows,
            supplier.retention_ms,
            supplier.segment_interval_ms,
            takes_whole_segments=persistent,
            shown_ms=shown_ms,
        )
        self._cached_segments = SegmentNumbers(supplier.segment_interval_ms)
        self._drop = context.drop
        self._by_time = time_first or not persistent
        self._indexed = time_first
        self._lead = b"\0" if time_first else b""
        self._at = 8 + len(self._lead)

    def seal(self) -> None:
        """See :class:`headrace.state.base.StoreBase`."""
        cache = self.cache
        if self._segments.seal() and cache is not None:
            self._cached_segments.keep(lambda prefix: cache.between(prefix, prefix_end(prefix)))
        super().seal()

    def drop_uncommitted(self) -> None:
        """See :class:`headrace.state.base.StoreBase`."""
        super().drop_uncommitted()
        self._cached_segments.forget_below(MAX_TIMESTAMP)
        self._segments.reload()

    def restore(self, records: Sequence[RawRecord], offset: int | None) -> None:
        """See :class:`headrace.state.base.StoreBase`. Rows that have expired by the end of the batch are left out."""
        rows: list[tuple[bytes, bytes | None]] = []
        segments = self._segments
        for _, timestamp, key, value, headers in records:
            if key is not None and segments.accept(self._time_of(key)):
                self._note_restored(key)
                rows.extend(self._rows_of(key, self._join(value, timestamp, headers)))
        own, expired = segments.restored()
        if expired is not None:
            rows = [row for row in rows if row[0] >= expired]
        self.rows.restore([*rows, own], offset, expired)

    @abstractmethod
    def _time_of(self, key: bytes) -> int:
        """The time by which a row ages, of its changelog key."""

    @abstractmethod
    def _time_key(self, key: bytes) -> bytes:
        """The changelog key with its times first, as the index has it."""

    @abstractmethod
    def _window_of(self, key: bytes) -> Window:
        """The window of a changelog key."""

    @abstractmethod
    def _order(self, row_key: bytes) -> Any:
        """By what rows of many keys are ordered when time comes first."""

    def _note_restored(self, key: bytes) -> None:
        """A changelog record was accepted."""

    def _row_key(self, time: int, key: bytes) -> bytes:
        return self._segments.prefix(time) + self._lead + key

    def _rows_of(self, key: bytes, stored: bytes | None) -> Iterable[tuple[bytes, bytes | None]]:
        """The rows of a changelog key."""
        prefix = self._segments.prefix(self._time_of(key))
        row = (prefix + self._lead + key, stored)
        if not self._indexed:
            return (row,)
        return row, (prefix + b"\1" + self._time_key(key), None if stored is None else b"")

    def _write(self, row_key: bytes, raw: bytes | None, timestamp: int, headers: Headers | None) -> None:
        rows = self.rows
        key = row_key[self._at :]
        if rows.log is not None:
            # also what the store itself does not keep any more: its readers may have another retention
            rows.log(key, raw, timestamp, self._logged_headers(raw, headers))
        if not self._segments.accept(self._time_of(key)):
            self._drop(EXPIRED)
            return
        for row in self._rows_of(key, self._join(raw, timestamp, headers)):
            rows.write(*row)

    def _listener_key(self, row_key: bytes) -> Any:
        return self._windowed(row_key[self._at :])

    def _windowed(self, key: bytes) -> Windowed[K]:
        return Windowed(self._decode_key(key[: -self._suffix_size]), self._window_of(key))

    def _below(self, row_key: bytes) -> Split | None:
        expired = self._time_of(row_key[self._at :]) < self._segments.oldest_visible
        return None if expired else super()._below(row_key)

    def _put_aged(self, time: int, key: bytes, value: Any, timestamp: int, headers: Headers | None) -> None:
        """A write of a value (None deletes) under a changelog key."""
        self._check_time(time)
        raw = None if value is None else self._encode(value)
        row_key = self._row_key(time, key)
        cache = self.cache
        if cache is None:
            self._write(row_key, raw, timestamp, headers)
            return
        self._cached_segments.note(time)
        record = self._record
        kept = value if self._keep_given and raw is not None else UNDECODED
        cache.put(row_key, (kept, timestamp, raw, headers, record.topic, record.partition, record.offset))

    def _check_time(self, time: int) -> None:
        if time < 0:
            raise ValueError(f"store {self.name}: a window must not begin or end before 0, but this one does at {time}")

    def _look_up_aged(self, time: int, key: bytes) -> tuple[V, int, Headers | None] | None:
        """As :meth:`_get_aged`, for operators other than the one that puts the rows."""
        if self.cache is not None and time >= 0:
            self._note_look(self._row_key(time, key))
        return self._get_aged(time, key)

    def _get_aged(self, time: int, key: bytes) -> tuple[V, int, Headers | None] | None:
        """The row under a changelog key as ``(value, timestamp, headers)``."""
        if time < 0:
            return None
        row_key = self._row_key(time, key)
        cache = self.cache
        if cache is not None:
            entry = cache.get(row_key)
            if entry is not None:
                if entry[2] is None:
                    return None
                return self._decode(entry[2]) if entry[0] is UNDECODED else entry[0], entry[1], entry[3]
        if time < self._segments.oldest_visible:
            return None
        stored = self.rows.get(row_key)
        if stored is None:
            return None
        raw, timestamp, headers = self._split(stored)
        return self._decode(raw), timestamp, headers

    def _of_key(self, key: bytes, low: bytes, high: bytes, first: int, last: int, *, reverse: bool) -> Iterator[Found]:
        """Rows of one key with suffixes ``low`` to ``high`` and times ``first`` to ``last``, in row key order."""
        head = self._lead + key
        size = 8 + len(head) + self._suffix_size
        found = self._spanned(head + low, head + high, first, last, reverse=reverse)
        # between two rows of the key may lie those of longer keys
        return (row for row in found if len(row[0]) == size)

    def _of_keys(
        self, low: bytes | None, high: bytes | None, high_suffix: bytes, first: int, last: int, *, reverse: bool
    ) -> Iterator[Found]:
        """Rows of the keys ``low`` to ``high`` (None: no bound), times ``first`` to ``last``, in the store's order."""
        lead, at, size = self._lead, self._at, self._suffix_size
        # a key that begins another may come after it, when its suffix is greater than the other's rest
        top = None if high is None else max(high[:n] + high_suffix for n in range(len(high) + 1))
        found = self._spanned(lead + (low or b""), None if top is None else lead + top, first, last, reverse=reverse)
        in_range = (
            row
            for row in found
            if (low is None or row[0][at:-size] >= low) and (high is None or row[0][at:-size] <= high)
        )
        return self._ordered(in_range, reverse=reverse) if self._by_time else in_range

    def _ordered(self, found: Iterator[Found], *, reverse: bool) -> Iterator[Found]:
        """Rows of many keys by time."""
        return iter(sorted(found, key=lambda row: self._order(row[0]), reverse=reverse))

    def _spanned(self, low: bytes, high: bytes | None, first: int, last: int, *, reverse: bool) -> Iterator[Found]:
        """Rows in the same bounds of every segment that may have times ``first`` to ``last``, those times only."""
        at, time_of, split, scan = self._at, self._time_of, self._split, self.rows.scan
        visible = max(first, self._segments.oldest_visible)
        # every scan begins here, so that the whole is a snapshot
        scans = [
            scan(prefix + low, self._end(prefix, high), reverse)
            for prefix in self._segments.between(visible, last, reverse=reverse)
        ]
        below = (
            (key, split(stored)) for key, stored in chain.from_iterable(scans) if visible <= time_of(key[at:]) <= last
        )
        cache = self.cache
        if cache is None:
            return below
        # what is cached is shown as long as it is, expired or not: as in Java
        overlay: dict[bytes, Split | None] = {
            key: None if entry[2] is None else (entry[2], entry[1], entry[3])
            for prefix in self._cached_segments.between(first, last, reverse=False)
            for key, entry in cache.between(prefix + low, self._end(prefix, high)).items()
            if first <= time_of(key[at:]) <= last
        }
        return overlaid(overlay, below, reverse)

    def _end(self, prefix: bytes, high: bytes | None) -> bytes | None:
        # no row is as short as a bare prefix, so a bound that is one includes nothing of what it begins
        return prefix_end(prefix + self._lead) if high is None else prefix + high

    def _by_index(self, first: int, last: int) -> list[Found]:
        """Rows below the cache with times ``first`` to ``last``, found by the index and in its order.

        What has expired is found as long as its segment is there.
        """
        rows, split, at = self.rows, self._split, self._at
        # time keys begin with the time, and none is as short as that alone
        low, high = first.to_bytes(8, "big"), (last + 1).to_bytes(8, "big")
        found: list[Found] = []
        for prefix in self._segments.live(first, last):
            for index_key, _ in rows.scan(prefix + b"\1" + low, prefix + b"\1" + high):
                row_key = prefix + self._lead + self._from_time_key(index_key[at:])
                stored = rows.get(row_key)
                if stored is not None:
                    found.append((row_key, split(stored)))
        return found

    @abstractmethod
    def _from_time_key(self, key: bytes) -> bytes:
        """The changelog key of a time key: the inverse of :meth:`_time_key`."""
