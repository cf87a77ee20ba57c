"""Records as the Processor API sees them. The DSL path never makes one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from headrace.api.times import whole_ms
from headrace.api.windows import MAX_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.records import Headers

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")


class RecordMetadata(NamedTuple):
    """Where the input record that is being processed lies."""

    topic: str
    partition: int
    offset: int


class RecordContext(NamedTuple):
    """What is known of the record in work beside its key and value. Source: ``processor.RecordContext``.

    Outside of an input record (a punctuator) ``topic`` is None, and partition and offset are -1.
    """

    topic: str | None
    partition: int
    offset: int
    timestamp: int
    headers: Headers


class Change(NamedTuple):
    """A table's change, as processor wrappers see it in place of a value; each value is None where there is none."""

    new_value: Any
    old_value: Any
    is_latest: bool


class Record(Generic[K, V]):
    """A key, a value, a timestamp (epoch ms, never negative) and headers.

    A processor gets one per input and forwards one per output. ``headers`` is a list of its own: changing it changes
    this record only. Source: ``org.apache.kafka.streams.processor.api.Record``.

    Raises:
        TypeError: The timestamp is no whole number.
        ValueError: The timestamp is negative, or greater than 64 bits hold.
    """

    __slots__ = ("headers", "key", "timestamp", "value")

    def __init__(self, key: K, value: V, timestamp: int, headers: Headers | None = None) -> None:
        if timestamp.__class__ is not int or not 0 <= timestamp <= MAX_TIMESTAMP:
            timestamp = record_time(timestamp)
        self.key = key
        self.value = value
        self.timestamp = timestamp
        self.headers: Headers = [] if headers is None else list(headers)

    def with_key(self, key: K2) -> Record[K2, V]:
        """The same record under another key."""
        return Record(key, self.value, self.timestamp, self.headers)

    def with_value(self, value: V2) -> Record[K, V2]:
        """The same record with another value."""
        return Record(self.key, value, self.timestamp, self.headers)

    def with_timestamp(self, timestamp: int) -> Record[K, V]:
        """The same record at another time (epoch ms)."""
        return Record(self.key, self.value, timestamp, self.headers)

    def with_headers(self, headers: Headers) -> Record[K, V]:
        """The same record with other headers (copied)."""
        return Record(self.key, self.value, self.timestamp, headers)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        assert isinstance(other, Record)
        return (self.key, self.value, self.timestamp, self.headers) == (
            other.key,
            other.value,
            other.timestamp,
            other.headers,
        )

    __hash__ = None  # type: ignore[assignment]  # headers and values may be mutable

    def __repr__(self) -> str:
        return f"Record(key={self.key!r}, value={self.value!r}, timestamp={self.timestamp}, headers={self.headers!r})"


class FixedKeyRecord(Generic[K, V]):
    """A record whose key may not change, so that no repartitioning is needed after it.

    Made by the library only. Source: ``org.apache.kafka.streams.processor.api.FixedKeyRecord``.
    """

    __slots__ = ("_key", "headers", "timestamp", "value")

    def __init__(self, key: K, value: V, timestamp: int, headers: Headers | None = None) -> None:
        if timestamp.__class__ is not int or not 0 <= timestamp <= MAX_TIMESTAMP:
            timestamp = record_time(timestamp)
        self._key = key
        self.value = value
        self.timestamp = timestamp
        self.headers: Headers = [] if headers is None else list(headers)

    @property
    def key(self) -> K:
        """The key, which is fixed."""
        return self._key

    def with_value(self, value: V2) -> FixedKeyRecord[K, V2]:
        """The same record with another value."""
        return FixedKeyRecord(self._key, value, self.timestamp, self.headers)

    def with_timestamp(self, timestamp: int) -> FixedKeyRecord[K, V]:
        """The same record at another time (epoch ms)."""
        return FixedKeyRecord(self._key, self.value, timestamp, self.headers)

    def with_headers(self, headers: Headers) -> FixedKeyRecord[K, V]:
        """The same record with other headers (copied)."""
        return FixedKeyRecord(self._key, self.value, self.timestamp, headers)

    def __repr__(self) -> str:
        return f"FixedKeyRecord(key={self._key!r}, value={self.value!r}, timestamp={self.timestamp})"


def record_time(timestamp: int) -> int:
    """The timestamp of a record as a plain int.

    Raises:
        TypeError: It is no whole number, such as a product of ``time.time()``.
        ValueError: It is negative, or greater than 64 bits hold.
    """
    whole = whole_ms(timestamp, "a record")
    if whole < 0:
        raise ValueError(f"a record's timestamp must not be negative, but is {whole}")
    return whole


def own_headers(headers: Iterable[tuple[object, object]]) -> Headers:
    """A list of headers that nobody else has.

    Raises:
        TypeError: One of them is not a text with bytes or None.
    """
    own: Headers = []
    for name, value in headers:
        if not isinstance(name, str) or not (value is None or isinstance(value, bytes)):
            given = f"{type(name).__name__} and {type(value).__name__}"
            raise TypeError(f"a record's header is a str with bytes or None, not {given}")
        own.append((name, value))
    return own
