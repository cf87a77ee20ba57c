"""The suppliers that come with the library: RocksDB and memory. Source: ``org.apache.kafka.streams.state.Stores``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headrace.api.stores import (
    DslStoreSuppliers,
    KeyValueBytesStoreSupplier,
    SessionBytesStoreSupplier,
    StoreType,
    VersionedBytesStoreSupplier,
    WindowBytesStoreSupplier,
)
from headrace.api.windows import duration_ms
from headrace.naming import validate_name
from headrace.state.memory import InMemoryBody
from headrace.state.rocksdb import RocksDBBody

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.api.stores import DslKeyValueParams, DslSessionParams, DslWindowParams, KeyValueBody
    from headrace.api.windows import Duration

_SHORTEST_SEGMENT_MS = 60_000
_SECOND, _MINUTE, _HOUR = 1000, 60_000, 3_600_000


@dataclass(frozen=True)
class KeyValueSupplier(KeyValueBytesStoreSupplier):
    """RocksDB or memory."""

    name: str
    persistent: bool
    timestamped: bool = False
    max_entries: int | None = None
    with_headers: bool = False

    def open(self, path: Path) -> KeyValueBody:
        """See :class:`headrace.api.stores.StoreSupplier`."""
        return _open(self.persistent, path)


@dataclass(frozen=True)
class VersionedSupplier(VersionedBytesStoreSupplier):
    """RocksDB."""

    name: str
    history_retention_ms: int
    segment_interval_ms: int
    persistent: bool = True
    timestamped: bool = True

    def open(self, path: Path) -> KeyValueBody:
        """See :class:`headrace.api.stores.StoreSupplier`."""
        return _open(self.persistent, path)


@dataclass(frozen=True)
class WindowSupplier(WindowBytesStoreSupplier):
    """RocksDB or memory."""

    name: str
    persistent: bool
    retention_ms: int
    window_size_ms: int
    segment_interval_ms: int
    retain_duplicates: bool = False
    timestamped: bool = False
    time_first: bool = False
    with_headers: bool = False

    def open(self, path: Path) -> KeyValueBody:
        """See :class:`headrace.api.stores.StoreSupplier`."""
        return _open(self.persistent, path)


@dataclass(frozen=True)
class SessionSupplier(SessionBytesStoreSupplier):
    """RocksDB or memory."""

    name: str
    persistent: bool
    retention_ms: int
    segment_interval_ms: int
    time_first: bool = False
    with_headers: bool = False

    def open(self, path: Path) -> KeyValueBody:
        """See :class:`headrace.api.stores.StoreSupplier`."""
        return _open(self.persistent, path)


def key_value_supplier(
    name: str,
    *,
    persistent: bool,
    timestamped: bool = False,
    max_entries: int | None = None,
    with_headers: bool = False,
) -> KeyValueSupplier:
    """Check the name and make a supplier."""
    validate_name(name)
    if max_entries is not None and max_entries < 0:
        raise ValueError(f"store {name}: max_entries must not be negative, but it is {max_entries}")
    return KeyValueSupplier(name, persistent, timestamped, max_entries, with_headers)


def versioned_supplier(
    name: str, history_retention: Duration, segment_interval: Duration | None = None
) -> VersionedSupplier:
    """Check the arguments and make a supplier.

    Raises:
        ValueError: The retention is negative, or the segment interval less than 1 ms.
    """
    validate_name(name)
    retention_ms = _not_negative(name, "history_retention", history_retention)
    if segment_interval is None:
        interval_ms = _versioned_interval(retention_ms)
    else:
        interval_ms = duration_ms(segment_interval, "segment_interval")
        if interval_ms < 1:
            raise ValueError(f"store {name}: segment_interval must be at least 1 ms, but it is {interval_ms} ms")
    return VersionedSupplier(name, retention_ms, interval_ms)


def window_supplier(
    name: str,
    retention: Duration,
    window_size: Duration,
    *,
    persistent: bool,
    retain_duplicates: bool = False,
    timestamped: bool = False,
    time_first: bool = False,
    with_headers: bool = False,
) -> WindowSupplier:
    """Check the arguments and make a supplier.

    Raises:
        ValueError: A time is negative, or the retention is less than the window's size.
    """
    validate_name(name)
    retention_ms = _not_negative(name, "retention", retention)
    size_ms = _not_negative(name, "window_size", window_size)
    if size_ms > retention_ms:
        raise ValueError(
            f"store {name}: the retention of {retention_ms} ms is less than the window size of {size_ms} ms, so rows "
            "would be gone while their window is open"
        )
    return WindowSupplier(
        name,
        persistent,
        retention_ms,
        size_ms,
        _interval(retention_ms),
        retain_duplicates,
        timestamped,
        time_first,
        with_headers,
    )


def session_supplier(
    name: str, retention: Duration, *, persistent: bool, time_first: bool = False, with_headers: bool = False
) -> SessionSupplier:
    """Check the arguments and make a supplier.

    Raises:
        ValueError: The retention is negative.
    """
    validate_name(name)
    retention_ms = _not_negative(name, "retention", retention)
    return SessionSupplier(name, persistent, retention_ms, _interval(retention_ms), time_first, with_headers)


class _BuiltInDslStoreSuppliers(DslStoreSuppliers):
    _persistent: ClassVar[bool]

    def key_value_store(self, params: DslKeyValueParams) -> KeyValueBytesStoreSupplier:
        """See :class:`headrace.api.stores.DslStoreSuppliers`."""
        return key_value_supplier(
            params.name,
            persistent=self._persistent,
            timestamped=params.timestamped,
            with_headers=params.with_headers and self._persistent,
        )

    def window_store(self, params: DslWindowParams) -> WindowBytesStoreSupplier:
        """See :class:`headrace.api.stores.DslStoreSuppliers`."""
        return window_supplier(
            params.name,
            params.retention_ms,
            params.window_size_ms,
            persistent=self._persistent,
            retain_duplicates=params.retain_duplicates,
            timestamped=params.timestamped,
            time_first=params.emit_on_close,
            # rows in memory have no room for headers, as in Java
            with_headers=params.with_headers and self._persistent,
        )

    def session_store(self, params: DslSessionParams) -> SessionBytesStoreSupplier:
        """See :class:`headrace.api.stores.DslStoreSuppliers`."""
        return session_supplier(
            params.name,
            params.retention_ms,
            persistent=self._persistent,
            time_first=params.emit_on_close,
            with_headers=params.with_headers and self._persistent,
        )


class RocksDBDslStoreSuppliers(_BuiltInDslStoreSuppliers):
    """Every store in RocksDB. Source: ``state.BuiltInDslStoreSuppliers``."""

    _persistent = True


class InMemoryDslStoreSuppliers(_BuiltInDslStoreSuppliers):
    """Every store in memory. Source: ``state.BuiltInDslStoreSuppliers``."""

    _persistent = False


def built_in(store_type: StoreType) -> DslStoreSuppliers:
    """The suppliers that put every store there."""
    return RocksDBDslStoreSuppliers() if store_type is StoreType.ROCKS_DB else InMemoryDslStoreSuppliers()


def _open(persistent: bool, path: Path) -> KeyValueBody:
    return RocksDBBody(path) if persistent else InMemoryBody()


def _not_negative(name: str, what: str, value: Duration) -> int:
    milliseconds = duration_ms(value, what)
    if milliseconds < 0:
        raise ValueError(f"store {name}: {what} must not be negative, but it is {milliseconds} ms")
    return milliseconds


def _interval(retention_ms: int) -> int:
    return max(retention_ms // 2, _SHORTEST_SEGMENT_MS)


def _versioned_interval(retention_ms: int) -> int:
    # short spans where the whole is short, so that what has expired is not kept for much longer than the rest
    if retention_ms <= _MINUTE:
        return max(retention_ms // 3, 2 * _SECOND)
    if retention_ms <= 5 * _MINUTE:
        return max(retention_ms // 5, 20 * _SECOND)
    if retention_ms <= _HOUR:
        return max(retention_ms // 12, _MINUTE)
    return max(retention_ms // 24, 5 * _MINUTE)
