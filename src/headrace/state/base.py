"""What every store has: a name, bytes below it, a cache or none, and the commit steps that its task calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace.errors import (
    AuthorizationException,
    ConfigException,
    InvalidStateStoreException,
    SerializationException,
    TimeoutException,
)
from headrace.state.buffer import overlaid
from headrace.state.cache import UNDECODED, RecordCache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from headrace.api.engine import ProcessChange
    from headrace.api.serde import Serde, Serializer
    from headrace.api.stores import KeyValueBody
    from headrace.records import Headers, RawRecord
    from headrace.state.buffer import BufferedStore
    from headrace.state.cache import CacheEntry
    from headrace.state.context import StoreContext
    from headrace.state.formats import RowFormat

    Split = tuple[bytes, int, Headers | None]

K = TypeVar("K")
V = TypeVar("V")

_NOT_THE_VALUES = (TimeoutException, AuthorizationException, ConfigException)
"""Errors of a serde that are not about the value, see :mod:`headrace.api.serde`."""


class StoreBase(Generic[K, V]):
    """Types over bytes. Rows lie under *row keys*, which a kind of store makes of its keys (and times).

    A kind says how its row keys are made and read (:meth:`_listener_key`), and what a write to the rows below does
    (:meth:`_write`); reading, caching and flushing are the same for all.
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
        self.name = rows.name
        self.rows = rows
        self._record = context.record
        self._serde_topic = topic = context.serde_topic
        self._encode_key: Callable[[K], bytes] = _encoder(key_serde.serializer, "key", context)
        self._decode_key: Callable[[bytes], K] = key_serde.deserializer.bind(topic)
        self._encode: Callable[[V], bytes] = _encoder(value_serde.serializer, "value", context)
        self._decode: Callable[[bytes], V] = value_serde.deserializer.bind(topic)
        self._keep_decoded = value_serde.immutable
        self._keep_given = value_serde.immutable and value_serde.faithful
        self._join, self._split = row_format.join, row_format.split
        self._logged_headers, self._shown_headers = row_format.logged, row_format.shown
        self._listener: ProcessChange | None = None
        self._send_old_values = False
        self._looked_at: set[bytes] = set()
        """Cached rows that others have looked at before they were sent on."""
        self.cache: RecordCache | None = None
        if caching and context.budget is not None and context.budget.max_bytes > 0:
            self.cache = RecordCache(context.budget, self._flush_row)
        self._open = True

    @property
    def persistent(self) -> bool:
        """Whether committed rows outlive the process."""
        return self.rows.body.persistent

    @property
    def is_open(self) -> bool:
        """False once the task has closed."""
        return self._open

    @property
    def dirty(self) -> bool:
        """Whether a commit has something to send on first."""
        return self.cache is not None and self.cache.dirty > 0

    def set_flush_listener(self, listener: ProcessChange, send_old_values: bool) -> bool:
        """Have flushed rows forwarded. Returns whether the store is cached: if not, the caller forwards by itself."""
        self._send_old_values = send_old_values
        if self.cache is None:
            return False
        self._listener = listener
        return True

    def apart(self, aggregate: Any, value: Any) -> Any:
        """What is sent on of an aggregate: not the record's own value, as which a reduction begins.

        Whoever gets it may change it in place, and the record may lie in more windows and go to more operators.
        """
        if aggregate is not value or aggregate is None or self._keep_decoded:
            return aggregate
        return self._decode(self._encode(aggregate))

    def flush(self) -> None:
        """Send dirty cached rows on."""
        if self.cache is not None:
            self.cache.flush()

    def seal(self) -> None:
        """A commit begins: what was written so far belongs to it."""
        self.rows.seal()

    def restore(self, records: Sequence[RawRecord], offset: int | None) -> None:
        """Take committed changelog records in, and the offset after them when they are of one partition."""
        join = self._join
        rows = [
            (key, join(value, timestamp, headers)) for _, timestamp, key, value, headers in records if key is not None
        ]
        self.rows.restore(rows, offset)

    def close(self) -> None:
        """Close; uncommitted writes are forgotten. Closing twice does nothing."""
        if self._open:
            self._open = False
            if self.cache is not None:
                self.cache.clear()
            self.rows.close()

    def clear(self) -> None:
        """Forget everything, committed rows and the changelog offset too."""
        self.rows.body.clear()
        self.drop_uncommitted()

    def detach(self) -> KeyValueBody:
        """Close, and give the body, which stays open with its committed rows: another store goes on with it."""
        if self._open:
            self._open = False
            if self.cache is not None:
                self.cache.clear()
            self.rows.drop()
        return self.rows.body

    def drop_uncommitted(self) -> None:
        """Forget cached and buffered writes."""
        if self.cache is not None:
            self.cache.clear()
        self._looked_at.clear()
        self.rows.drop()

    def _write(self, row_key: bytes, raw: bytes | None, timestamp: int, headers: Headers | None) -> None:
        """Write a row and its changelog record."""
        self.rows.put(
            row_key,
            self._join(raw, timestamp, headers),
            raw,
            timestamp,
            self._logged_headers(raw, headers),
        )

    def _listener_key(self, row_key: bytes) -> Any:
        """The key that a flush listener is told of a row."""
        return self._decode_key(row_key)

    def _listener_time(self, row_key: bytes, timestamp: int) -> int:
        """The time that a flush listener is told of a row."""
        return timestamp

    def _put_row(self, row_key: bytes, raw: bytes | None, timestamp: int, headers: Headers | None) -> None:
        """A write of bytes, to the cache or through it."""
        cache = self.cache
        if cache is None:
            self._write(row_key, raw, timestamp, headers)
        else:
            record = self._record
            cache.put(row_key, (UNDECODED, timestamp, raw, headers, record.topic, record.partition, record.offset))

    def _flush_row(self, row_key: bytes, entry: CacheEntry) -> None:
        value, timestamp, raw, headers = entry[:4]
        listener = self._listener
        if listener is None:
            self._write(row_key, raw, timestamp, headers)
            return
        old = self._below(row_key) if raw is None or self._send_old_values else None
        if row_key in self._looked_at:
            self._looked_at.remove(row_key)
        elif raw is None and old is None:
            # never left the cache: nobody downstream has heard of it
            return
        saved = self._install(entry)
        try:
            self._write(row_key, raw, timestamp, headers)
            new = None if raw is None else self._decode(raw) if value is UNDECODED else value
            sent_old = self._decode(old[0]) if self._send_old_values and old is not None else None
            time = self._listener_time(row_key, timestamp)
            listener(self._listener_key(row_key), new, sent_old, True, time, self._shown_headers(headers))
        finally:
            self._reinstall(saved)

    def _note_look(self, row_key: bytes) -> None:
        """Another operator looks at a row: what it makes of one that has not been sent on yet is to be taken back.

        In Java it is not: what was joined with a row that came and went between two commits stays.
        """
        cache = self.cache
        if cache is not None and cache.is_unsent(row_key):
            self._looked_at.add(row_key)

    def _below(self, row_key: bytes) -> Split | None:
        """A row below the cache."""
        stored = self.rows.get(row_key)
        return None if stored is None else self._split(stored)

    def _scan(self, low: bytes | None, high: bytes | None, reverse: bool) -> Iterator[tuple[bytes, Split]]:
        """Rows with ``low <= row key <= high``, cached ones over those below."""
        split, cache = self._split, self.cache
        below = ((key, split(stored)) for key, stored in self.rows.scan(low, high, reverse))
        if cache is None:
            return below
        overlay: dict[bytes, Split | None] = {
            key: None if entry[2] is None else (entry[2], entry[1], entry[3])
            for key, entry in cache.between(low, high).items()
        }
        return overlaid(overlay, below, reverse)

    def _check_open(self) -> None:
        if not self._open:
            raise InvalidStateStoreException(f"store {self.name} is closed: its task is no longer here")

    def _key(self, key: K | None) -> bytes:
        if key is None:
            raise ValueError(f"store {self.name}: key cannot be None")
        if not self._open:
            self._check_open()
        return self._encode_key(key)

    def _install(self, entry: CacheEntry) -> tuple[str | None, int, int, int, Headers | None]:
        record = self._record
        saved = (record.topic, record.partition, record.offset, record.timestamp, record.headers)
        _, record.timestamp, _, record.headers, record.topic, record.partition, record.offset = entry
        return saved

    def _reinstall(self, saved: tuple[str | None, int, int, int, Headers | None]) -> None:
        record = self._record
        record.topic, record.partition, record.offset, record.timestamp, record.headers = saved


def _encoder(serializer: Serializer[Any], half: str, context: StoreContext) -> Callable[[Any], bytes]:
    """The serializer's function for a store; a value that it does not take is an error that names store and types."""
    encode = serializer.bind(context.serde_topic)

    def bound(data: Any) -> bytes:
        try:
            return encode(data)
        except _NOT_THE_VALUES:
            raise
        except Exception as e:
            detail = f": {e}" if isinstance(e, SerializationException) else ""
            raise SerializationException(
                f"The {half} for {context.place} is a {type(data).__name__} that {type(serializer).__name__} does not "
                f"take{detail}. Pass the serde that fits its type (Materialized, Grouped) or set default.{half}.serde"
            ) from e

    return bound
