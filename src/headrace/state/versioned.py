"""Versioned key-value stores: what a key's value was at any time within the history retention (KIP-889).

A key's versions follow each other: each is valid from its timestamp until the next one's. A put may come late and find
its place among them; one later than the history retention is dropped. The latest value never expires.

Rows: the latest value of a key under ``0x90 ‖ key`` as ``8-byte timestamp ‖ value``. A former version under
``segment of its end ‖ key ‖ 8-byte end`` as ``8-byte start ‖ 0x01 ‖ value``, or ``8-byte start ‖ 0x00`` where the key
had no value; one whose start is its end only says that something ended there. Changelog records have the version's
timestamp as their own and the bare value.
Source: ``VersionedKeyValueStore``, ``VersionedRecord`` and ``RocksDBVersionedStore`` (4.4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeVar

from headrace.api.times import whole_ms
from headrace.api.windows import MAX_TIMESTAMP
from headrace.state.base import StoreBase
from headrace.state.formats import TIMESTAMPED
from headrace.state.segments import EXPIRED, Segments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.api.serde import Serde
    from headrace.api.stores import VersionedBytesStoreSupplier
    from headrace.records import Headers, RawRecord
    from headrace.state.buffer import BufferedStore
    from headrace.state.context import StoreContext

K = TypeVar("K")
V = TypeVar("V")

_LATEST: Final = b"\x90"


class VersionedRecord(NamedTuple):
    """A version of a value: from when (epoch ms) it was valid, and until when; None: it is the latest.

    Source: ``state.VersionedRecord``.
    """

    value: Any
    timestamp: int
    valid_to: int | None = None


class _Version(NamedTuple):
    """A former version."""

    start: int
    end: int
    value: bytes | None


class VersionedKeyValueStore(StoreBase[K, V]):
    """Keys to the versions of their values. Source: ``state.VersionedKeyValueStore``."""

    VALID_TO_UNDEFINED: ClassVar[int] = -1
    """What :meth:`put` returns for the latest version."""
    NOT_PUT: ClassVar[int] = -(2**63)
    """What :meth:`put` returns for a write that came too late."""

    def __init__(
        self,
        rows: BufferedStore,
        key_serde: Serde[K],
        value_serde: Serde[V],
        supplier: VersionedBytesStoreSupplier,
        context: StoreContext,
    ) -> None:
        super().__init__(rows, key_serde, value_serde, TIMESTAMPED, context, caching=False)
        self.history_retention_ms = supplier.history_retention_ms
        self._segments = Segments(
            rows, supplier.history_retention_ms, supplier.segment_interval_ms, takes_whole_segments=True
        )
        self._drop = context.drop

    def get_pair(self, key: K) -> tuple[Any, ...] | None:
        """``(value, timestamp)`` of the latest version, or None. The DSL's way in, like the two below."""
        return self._get_latest(self._encode_key(key))

    def get_pair_as_of(self, key: K, timestamp: int) -> tuple[Any, ...] | None:
        """``(value, timestamp)`` of the version that was valid at a time, or None."""
        return self._get_as_of(self._encode_key(key), timestamp)

    def put_pair(self, key: K, value: V | None, timestamp: int, headers: Headers | None) -> bool | None:
        """Put a version, or say from when on there is no value. Returns whether it is the latest; None: too late."""
        valid_to = self._put(self._encode_key(key), value, timestamp)
        return None if valid_to == self.NOT_PUT else valid_to == self.VALID_TO_UNDEFINED

    def put(self, key: K, value: V | None, timestamp: int) -> int:
        """Put the value that is valid from ``timestamp`` on, until the next version; None: there is none.

        Returns:
            The timestamp of the next version; :attr:`VALID_TO_UNDEFINED` when this is the latest; :attr:`NOT_PUT` when
            it is older than the history retention allows, so that it was dropped.

        Raises:
            TypeError: The timestamp is no whole number.
            ValueError: It is negative, or more than 64 bits hold.
        """
        return self._put(self._key(key), value, self._version_time(timestamp))

    def delete(self, key: K, timestamp: int) -> VersionedRecord | None:
        """Say that there is no value from ``timestamp`` on. Returns the version that was valid there, or None."""
        raw_key, timestamp = self._key(key), self._version_time(timestamp)
        found = None if self._is_late(timestamp) else self._get_as_of(raw_key, timestamp)
        self._put(raw_key, None, timestamp)
        return found

    def get(self, key: K, as_of: int | None = None) -> VersionedRecord | None:
        """The latest version, or the one that was valid at ``as_of``; None when there is none.

        Beyond the history retention only the latest version is known: it is found when it was valid already.
        """
        raw_key = self._key(key)
        return self._get_latest(raw_key) if as_of is None else self._get_as_of(raw_key, as_of)

    def _version_time(self, timestamp: int) -> int:
        # before anything is written: the changelog is told first
        whole = whole_ms(timestamp, f"store {self.name}")
        if whole < 0:
            raise ValueError(f"store {self.name}: a version's timestamp must not be negative, but is {whole}")
        return whole

    def seal(self) -> None:
        """See :class:`headrace.state.base.StoreBase`."""
        self._segments.seal()
        super().seal()

    def drop_uncommitted(self) -> None:
        """See :class:`headrace.state.base.StoreBase`."""
        super().drop_uncommitted()
        self._segments.reload()

    def restore(self, records: Sequence[RawRecord], offset: int | None) -> None:
        """See :class:`headrace.state.base.StoreBase`."""
        # a version's place depends on those before it, so each goes the way of a write; then all is final at once
        for _, timestamp, key, value, _ in records:
            if key is not None and not self._is_late(timestamp):
                self._place(key, value, timestamp)
        self.seal()
        self.rows.apply(offset)

    def _put(self, raw_key: bytes, value: V | None, timestamp: int) -> int:
        raw = None if value is None else self._encode(value)
        if self.rows.log is not None:
            self.rows.log(raw_key, raw, timestamp, None)
        if self._is_late(timestamp):
            self._drop(EXPIRED)
            return self.NOT_PUT
        return self._place(raw_key, raw, timestamp)

    def _is_late(self, timestamp: int) -> bool:
        return timestamp < self._segments.observed - self.history_retention_ms

    def _place(self, key: bytes, value: bytes | None, timestamp: int) -> int:
        self._segments.observe(timestamp)
        latest = self._latest(key)
        if latest is not None and timestamp >= latest[1]:
            self._replace_latest(key, latest, value, timestamp)
            return self.VALID_TO_UNDEFINED
        after = self._ending_after(key, timestamp)
        if after is not None:
            return self._place_before(key, after, value, timestamp)
        if latest is not None:
            self._keep(key, _Version(timestamp, latest[1], value))
            return latest[1]
        if value is None:
            self._mark_end(key, timestamp)
        else:
            self.rows.write(_LATEST + key, self._join(value, timestamp, None))
        return self.VALID_TO_UNDEFINED

    def _replace_latest(self, key: bytes, latest: tuple[bytes, int], value: bytes | None, timestamp: int) -> None:
        former, since = latest
        if timestamp > since:
            self._keep(key, _Version(since, timestamp, former))
        # one deleted at its own time leaves no trace (as in Java): an older version that comes late is the latest then
        self.rows.write(_LATEST + key, self._join(value, timestamp, None))

    def _place_before(self, key: bytes, after: _Version, value: bytes | None, timestamp: int) -> int:
        """Put a version before the end of the next one above, within it or in the gap before it."""
        if timestamp < after.start:
            self._keep(key, _Version(timestamp, after.start, value))
            return after.start
        self._keep(key, _Version(timestamp, after.end, value))
        if timestamp > after.start:
            self._keep(key, _Version(after.start, timestamp, after.value))
        return after.end

    def _mark_end(self, key: bytes, timestamp: int) -> None:
        """Nothing is valid from here on: a version that ends here says so, or a mark does."""
        ending = self._ending_after(key, timestamp - 1)
        if ending is None or ending.end != timestamp:
            self._keep(key, _Version(timestamp, timestamp, None))

    def _keep(self, key: bytes, version: _Version) -> None:
        self._segments.note(version.end)
        flag = b"\0" if version.value is None else b"\1" + version.value
        row_key = self._segments.prefix(version.end) + key + _time(version.end)
        self.rows.write(row_key, _time(version.start) + flag)

    def _latest(self, key: bytes) -> tuple[bytes, int] | None:
        stored = self.rows.get(_LATEST + key)
        return None if stored is None else self._split(stored)[:2]

    def _ending_after(self, key: bytes, timestamp: int) -> _Version | None:
        """The former version with the least end after a time."""
        first, size = timestamp + 1, 16 + len(key)
        for prefix in self._segments.between(first, MAX_TIMESTAMP, reverse=False):
            for row_key, stored in self.rows.scan(prefix + key + _time(first), prefix + key + b"\xff" * 8):
                # between two rows of the key may lie those of longer keys
                if len(row_key) == size:
                    end = int.from_bytes(row_key[-8:], "big")
                    start = int.from_bytes(stored[:8], "big")
                    return _Version(start, end, stored[9:] if stored[8] else None)
        return None

    def _get_latest(self, key: bytes) -> VersionedRecord | None:
        latest = self._latest(key)
        return None if latest is None else VersionedRecord(self._decode(latest[0]), latest[1])

    def _get_as_of(self, key: bytes, timestamp: int) -> VersionedRecord | None:
        latest = self._latest(key)
        if latest is not None and latest[1] <= timestamp:
            return VersionedRecord(self._decode(latest[0]), latest[1])
        if timestamp < 0 or self._is_late(timestamp):
            return None
        found = self._ending_after(key, timestamp)
        if found is None or found.value is None or found.start > timestamp:
            return None
        return VersionedRecord(self._decode(found.value), found.start, found.end)


def _time(timestamp: int) -> bytes:
    return timestamp.to_bytes(8, "big")
