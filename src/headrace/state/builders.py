"""Descriptions of stores: what kind, where it keeps its rows, how it is cached and logged.

A builder is a frozen value. Each ``with_…`` returns another one; ``build`` opens the store for one task. Source:
``org.apache.kafka.streams.state.{Stores,StoreBuilder}`` (4.4).
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from headrace.api.option_parts import check_serde
from headrace.api.options import checked
from headrace.api.stores import StoreSupplier
from headrace.api.windows import MAX_TIMESTAMP
from headrace.errors import IllegalStateException
from headrace.state import suppliers
from headrace.state.buffer import BufferedStore
from headrace.state.formats import DSL_HEADERS, DSL_SESSION_HEADERS, HEADERS, PLAIN, SESSION_HEADERS, TIMESTAMPED
from headrace.state.keyvalue import KeyValueStore, TimestampedKeyValueStore, TimestampedKeyValueStoreWithHeaders
from headrace.state.lru import LruRows
from headrace.state.session import SessionStore, SessionStoreWithHeaders
from headrace.state.suppress import SuppressBuffer
from headrace.state.versioned import VersionedKeyValueStore
from headrace.state.window import TimestampedWindowStore, TimestampedWindowStoreWithHeaders, WindowStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.api.serde import Serde
    from headrace.api.stores import (
        KeyValueBytesStoreSupplier,
        SessionBytesStoreSupplier,
        VersionedBytesStoreSupplier,
        WindowBytesStoreSupplier,
    )
    from headrace.api.windows import Duration
    from headrace.state.base import StoreBase
    from headrace.state.context import StoreContext
    from headrace.state.formats import RowFormat

_COMPACTION_LAG_MS = 86_400_000
"""For how much longer than its history a versioned store's changelog keeps all versions."""

_log = logging.getLogger(__name__)

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class StoreBuilder(Generic[K, V]):
    """A store to be made once per task. Each kind is a subclass; :class:`Stores` makes them.

    Serdes of None are filled from the configuration's defaults. ``logging`` False means no changelog: the store is
    lost with its directory. ``log_config`` holds topic settings that go over Kafka Streams' own for the changelog.
    """

    supplier: StoreSupplier
    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    caching: bool = False
    logging: bool = True
    log_config: Mapping[str, str] = field(default_factory=lambda: dict[str, str](), hash=False)

    cleanup_policy: ClassVar[str] = "compact"
    """``cleanup.policy`` of the changelog topic, unless it is set otherwise."""

    def __post_init__(self) -> None:
        checked(self.supplier, StoreSupplier)
        check_serde(self.key_serde)
        check_serde(self.value_serde)

    @property
    def name(self) -> str:
        """The store's name."""
        return self.supplier.name

    def with_caching_enabled(self) -> Self:
        """Keep recent writes in the record cache, so that only the last of a commit interval goes further."""
        return replace(self, caching=True)

    def with_caching_disabled(self) -> Self:
        """Send every write on at once."""
        return replace(self, caching=False)

    def with_logging_enabled(self, config: Mapping[str, str] | None = None) -> Self:
        """Write a changelog topic, with these topic settings over the usual ones."""
        return replace(self, logging=True, log_config=dict(config or {}))

    def with_logging_disabled(self) -> Self:
        """Write no changelog: the store's content is lost with its directory."""
        return replace(self, logging=False, log_config={})

    def changelog_times(self, additional_retention_ms: int) -> Mapping[str, str]:
        """Settings of the changelog topic that follow from how long the store keeps its rows.

        Args:
            additional_retention_ms: ``windowstore.changelog.additional.retention.ms``.
        """
        return {}

    @abstractmethod
    def build(self, context: StoreContext) -> StoreBase[K, V]:
        """Open the store for one task.

        Raises:
            TopologyException: A serde is missing.
            ProcessorStateException: The rows on disk cannot be used.
        """

    def _rows(self, context: StoreContext) -> BufferedStore:
        return BufferedStore(self.name, context.open(self.supplier), context.log)

    def _serdes(self, context: StoreContext) -> tuple[Serde[K], Serde[V]]:
        return context.key_serde(self.key_serde), context.value_serde(self.value_serde)


@dataclass(frozen=True)
class KeyValueStoreBuilder(StoreBuilder[K, V]):
    """Values as they are."""

    supplier: KeyValueBytesStoreSupplier

    def build(self, context: StoreContext) -> KeyValueStore[K, V]:
        """See :class:`StoreBuilder`."""
        serdes = self._serdes(context)
        rows = _key_value_rows(self.supplier, context, log_forgotten=True)
        return KeyValueStore(rows, *serdes, context, caching=self.caching)


@dataclass(frozen=True)
class TimestampedKeyValueStoreBuilder(StoreBuilder[K, V]):
    """Values with the timestamp of their last change."""

    supplier: KeyValueBytesStoreSupplier

    def build(self, context: StoreContext) -> TimestampedKeyValueStore[K, V]:
        """See :class:`StoreBuilder`."""
        serdes = self._serdes(context)
        row_format = _timestamped_format(self.supplier)
        rows = _key_value_rows(self.supplier, context, log_forgotten=False)
        return TimestampedKeyValueStore(rows, *serdes, row_format, context, caching=self.caching)


@dataclass(frozen=True)
class TimestampedKeyValueStoreWithHeadersBuilder(StoreBuilder[K, V]):
    """Values with the timestamp of their last change and headers."""

    supplier: KeyValueBytesStoreSupplier

    def build(self, context: StoreContext) -> TimestampedKeyValueStoreWithHeaders[K, V]:
        """See :class:`StoreBuilder`."""
        serdes = self._serdes(context)
        rows = _key_value_rows(self.supplier, context, log_forgotten=False)
        return TimestampedKeyValueStoreWithHeaders(rows, *serdes, HEADERS, context, caching=self.caching)


@dataclass(frozen=True)
class VersionedKeyValueStoreBuilder(StoreBuilder[K, V]):
    """The versions of values. Such stores are never cached."""

    supplier: VersionedBytesStoreSupplier

    def with_caching_enabled(self) -> Self:
        """Not for versioned stores.

        Raises:
            IllegalStateException: Always.
        """
        raise IllegalStateException(f"store {self.name} is versioned: versioned stores are not cached")

    def changelog_times(self, additional_retention_ms: int) -> Mapping[str, str]:
        """See :class:`StoreBuilder`. Every version must be there to be restored until its time has passed."""
        lag_ms = min(self.supplier.history_retention_ms + _COMPACTION_LAG_MS, MAX_TIMESTAMP)
        return {"min.compaction.lag.ms": str(lag_ms)}

    def build(self, context: StoreContext) -> VersionedKeyValueStore[K, V]:
        """See :class:`StoreBuilder`."""
        serdes = self._serdes(context)
        return VersionedKeyValueStore(self._rows(context), *serdes, self.supplier, context)


@dataclass(frozen=True)
class _WindowStoreBuilder(StoreBuilder[K, V]):
    supplier: WindowBytesStoreSupplier
    changelog_retention_ms: int | None = None
    """What the changelog's retention follows from; None: the supplier's."""

    cleanup_policy: ClassVar[str] = "compact,delete"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.caching and self.supplier.retain_duplicates:
            _log.warning("store %s keeps duplicates, so it is not cached", self.name)
            object.__setattr__(self, "caching", False)

    def changelog_times(self, additional_retention_ms: int) -> Mapping[str, str]:
        """See :class:`StoreBuilder`."""
        return _kept(self.changelog_retention_ms, self.supplier.retention_ms, additional_retention_ms)


@dataclass(frozen=True)
class WindowStoreBuilder(_WindowStoreBuilder[K, V]):
    """Values by key and window."""

    def build(self, context: StoreContext) -> WindowStore[K, V]:
        """See :class:`StoreBuilder`."""
        serdes = self._serdes(context)
        return WindowStore(self._rows(context), *serdes, self.supplier, context, caching=self.caching)


@dataclass(frozen=True)
class TimestampedWindowStoreBuilder(_WindowStoreBuilder[K, V]):
    """Values by key and window, with the timestamp of their last change."""

    def build(self, context: StoreContext) -> TimestampedWindowStore[K, V]:
        """See :class:`StoreBuilder`."""
        serdes = self._serdes(context)
        row_format = _timestamped_format(self.supplier)
        rows = self._rows(context)
        return TimestampedWindowStore(rows, *serdes, row_format, self.supplier, context, caching=self.caching)


@dataclass(frozen=True)
class TimestampedWindowStoreWithHeadersBuilder(_WindowStoreBuilder[K, V]):
    """Values by key and window, with the timestamp of their last change and headers."""

    def build(self, context: StoreContext) -> TimestampedWindowStoreWithHeaders[K, V]:
        """See :class:`StoreBuilder`."""
        serdes, rows = self._serdes(context), self._rows(context)
        return TimestampedWindowStoreWithHeaders(rows, *serdes, HEADERS, self.supplier, context, caching=self.caching)


@dataclass(frozen=True)
class _SessionStoreBuilder(StoreBuilder[K, V]):
    supplier: SessionBytesStoreSupplier
    changelog_retention_ms: int | None = None
    """What the changelog's retention follows from; None: the supplier's."""

    cleanup_policy: ClassVar[str] = "compact,delete"

    def changelog_times(self, additional_retention_ms: int) -> Mapping[str, str]:
        """See :class:`StoreBuilder`."""
        return _kept(self.changelog_retention_ms, self.supplier.retention_ms, additional_retention_ms)


@dataclass(frozen=True)
class SessionStoreBuilder(_SessionStoreBuilder[K, V]):
    """Aggregates by key and session."""

    def build(self, context: StoreContext) -> SessionStore[K, V]:
        """See :class:`StoreBuilder`."""
        serdes = self._serdes(context)
        row_format = DSL_SESSION_HEADERS if self.supplier.with_headers else PLAIN
        return SessionStore(self._rows(context), *serdes, row_format, self.supplier, context, caching=self.caching)


@dataclass(frozen=True)
class SessionStoreWithHeadersBuilder(_SessionStoreBuilder[K, V]):
    """Aggregates with headers by key and session."""

    def build(self, context: StoreContext) -> SessionStoreWithHeaders[K, V]:
        """See :class:`StoreBuilder`."""
        serdes, rows = self._serdes(context), self._rows(context)
        return SessionStoreWithHeaders(rows, *serdes, SESSION_HEADERS, self.supplier, context, caching=self.caching)


@dataclass(frozen=True)
class SuppressBufferBuilder(StoreBuilder[K, V]):
    """Changes of a table that wait; see :class:`headrace.api.suppressed.Suppressed`."""

    with_headers: bool = False
    """Each value is kept with its time and headers."""

    def build(self, context: StoreContext) -> SuppressBuffer[K, V]:
        """See :class:`StoreBuilder`."""
        row_format = HEADERS if self.with_headers else PLAIN
        return SuppressBuffer(self._rows(context), *self._serdes(context), row_format, context)


class Stores:
    """Factory of store suppliers and builders. Source: ``org.apache.kafka.streams.state.Stores`` (4.4).

    Lengths of time are milliseconds or a :class:`datetime.timedelta`.
    """

    @staticmethod
    def persistent_key_value_store(name: str) -> KeyValueBytesStoreSupplier:
        """RocksDB, plain values."""
        return suppliers.key_value_supplier(name, persistent=True)

    @staticmethod
    def persistent_timestamped_key_value_store(name: str) -> KeyValueBytesStoreSupplier:
        """RocksDB, values with timestamps."""
        return suppliers.key_value_supplier(name, persistent=True, timestamped=True)

    @staticmethod
    def persistent_timestamped_key_value_store_with_headers(name: str) -> KeyValueBytesStoreSupplier:
        """RocksDB, values with timestamps and headers (KIP-1271)."""
        return suppliers.key_value_supplier(name, persistent=True, timestamped=True, with_headers=True)

    @staticmethod
    def in_memory_key_value_store(name: str) -> KeyValueBytesStoreSupplier:
        """In memory; plain or timestamped by the builder that takes it."""
        return suppliers.key_value_supplier(name, persistent=False)

    @staticmethod
    def persistent_versioned_key_value_store(
        name: str, history_retention: Duration, segment_interval: Duration | None = None
    ) -> VersionedBytesStoreSupplier:
        """RocksDB, the versions of values. A shorter segment interval deletes sooner, and costs late writes more."""
        return suppliers.versioned_supplier(name, history_retention, segment_interval)

    @staticmethod
    def lru_map(name: str, max_cache_size: int) -> KeyValueBytesStoreSupplier:
        """In memory, the ``max_cache_size`` most recently used keys; plain or timestamped by the builder."""
        return suppliers.key_value_supplier(name, persistent=False, max_entries=max_cache_size)

    @staticmethod
    def persistent_window_store(
        name: str, retention: Duration, window_size: Duration, retain_duplicates: bool = False
    ) -> WindowBytesStoreSupplier:
        """RocksDB, plain values."""
        return suppliers.window_supplier(
            name, retention, window_size, persistent=True, retain_duplicates=retain_duplicates
        )

    @staticmethod
    def persistent_timestamped_window_store(
        name: str, retention: Duration, window_size: Duration, retain_duplicates: bool = False
    ) -> WindowBytesStoreSupplier:
        """RocksDB, values with timestamps."""
        return suppliers.window_supplier(
            name, retention, window_size, persistent=True, retain_duplicates=retain_duplicates, timestamped=True
        )

    @staticmethod
    def persistent_timestamped_window_store_with_headers(
        name: str, retention: Duration, window_size: Duration, retain_duplicates: bool = False
    ) -> WindowBytesStoreSupplier:
        """RocksDB, values with timestamps and headers (KIP-1271)."""
        return suppliers.window_supplier(
            name,
            retention,
            window_size,
            persistent=True,
            retain_duplicates=retain_duplicates,
            timestamped=True,
            with_headers=True,
        )

    @staticmethod
    def in_memory_window_store(
        name: str, retention: Duration, window_size: Duration, retain_duplicates: bool = False
    ) -> WindowBytesStoreSupplier:
        """In memory; plain or timestamped by the builder that takes it."""
        return suppliers.window_supplier(
            name, retention, window_size, persistent=False, retain_duplicates=retain_duplicates
        )

    @staticmethod
    def persistent_session_store(name: str, retention: Duration) -> SessionBytesStoreSupplier:
        """RocksDB."""
        return suppliers.session_supplier(name, retention, persistent=True)

    @staticmethod
    def persistent_session_store_with_headers(name: str, retention: Duration) -> SessionBytesStoreSupplier:
        """RocksDB, aggregates with headers (KIP-1271)."""
        return suppliers.session_supplier(name, retention, persistent=True, with_headers=True)

    @staticmethod
    def in_memory_session_store(name: str, retention: Duration) -> SessionBytesStoreSupplier:
        """In memory."""
        return suppliers.session_supplier(name, retention, persistent=False)

    @staticmethod
    def key_value_store_builder(
        supplier: KeyValueBytesStoreSupplier, key_serde: Serde[K] | None, value_serde: Serde[V] | None
    ) -> KeyValueStoreBuilder[K, V]:
        """A builder of a :class:`headrace.state.KeyValueStore`."""
        return KeyValueStoreBuilder(supplier, key_serde, value_serde)

    @staticmethod
    def timestamped_key_value_store_builder(
        supplier: KeyValueBytesStoreSupplier, key_serde: Serde[K] | None, value_serde: Serde[V] | None
    ) -> TimestampedKeyValueStoreBuilder[K, V]:
        """A builder of a :class:`headrace.state.TimestampedKeyValueStore`."""
        return TimestampedKeyValueStoreBuilder(supplier, key_serde, value_serde)

    @staticmethod
    def timestamped_key_value_store_with_headers_builder(
        supplier: KeyValueBytesStoreSupplier, key_serde: Serde[K] | None, value_serde: Serde[V] | None
    ) -> TimestampedKeyValueStoreWithHeadersBuilder[K, V]:
        """A builder of a :class:`headrace.state.TimestampedKeyValueStoreWithHeaders`."""
        return TimestampedKeyValueStoreWithHeadersBuilder(supplier, key_serde, value_serde)

    @staticmethod
    def versioned_key_value_store_builder(
        supplier: VersionedBytesStoreSupplier, key_serde: Serde[K] | None, value_serde: Serde[V] | None
    ) -> VersionedKeyValueStoreBuilder[K, V]:
        """A builder of a :class:`headrace.state.VersionedKeyValueStore`."""
        return VersionedKeyValueStoreBuilder(supplier, key_serde, value_serde)

    @staticmethod
    def window_store_builder(
        supplier: WindowBytesStoreSupplier, key_serde: Serde[K] | None, value_serde: Serde[V] | None
    ) -> WindowStoreBuilder[K, V]:
        """A builder of a :class:`headrace.state.WindowStore`."""
        return WindowStoreBuilder(supplier, key_serde, value_serde)

    @staticmethod
    def timestamped_window_store_builder(
        supplier: WindowBytesStoreSupplier, key_serde: Serde[K] | None, value_serde: Serde[V] | None
    ) -> TimestampedWindowStoreBuilder[K, V]:
        """A builder of a :class:`headrace.state.TimestampedWindowStore`."""
        return TimestampedWindowStoreBuilder(supplier, key_serde, value_serde)

    @staticmethod
    def timestamped_window_store_with_headers_builder(
        supplier: WindowBytesStoreSupplier, key_serde: Serde[K] | None, value_serde: Serde[V] | None
    ) -> TimestampedWindowStoreWithHeadersBuilder[K, V]:
        """A builder of a :class:`headrace.state.TimestampedWindowStoreWithHeaders`."""
        return TimestampedWindowStoreWithHeadersBuilder(supplier, key_serde, value_serde)

    @staticmethod
    def session_store_with_headers_builder(
        supplier: SessionBytesStoreSupplier, key_serde: Serde[K] | None, value_serde: Serde[V] | None
    ) -> SessionStoreWithHeadersBuilder[K, V]:
        """A builder of a :class:`headrace.state.SessionStoreWithHeaders`."""
        return SessionStoreWithHeadersBuilder(supplier, key_serde, value_serde)

    @staticmethod
    def session_store_builder(
        supplier: SessionBytesStoreSupplier, key_serde: Serde[K] | None, value_serde: Serde[V] | None
    ) -> SessionStoreBuilder[K, V]:
        """A builder of a :class:`headrace.state.SessionStore`."""
        return SessionStoreBuilder(supplier, key_serde, value_serde)


def _key_value_rows(
    supplier: KeyValueBytesStoreSupplier, context: StoreContext, *, log_forgotten: bool
) -> BufferedStore:
    name, body, most = supplier.name, context.open(supplier), supplier.max_entries
    if most is None:
        return BufferedStore(name, body, context.log)
    return LruRows(name, body, context.log, most, log_forgotten=log_forgotten)


def _timestamped_format(supplier: KeyValueBytesStoreSupplier | WindowBytesStoreSupplier) -> RowFormat:
    if supplier.with_headers:
        return DSL_HEADERS
    # a persistent body of plain values stays as it is on disk; what is in memory is made anew anyway
    return PLAIN if supplier.persistent and not supplier.timestamped else TIMESTAMPED


def _kept(chosen_ms: int | None, retention_ms: int, additional_ms: int) -> Mapping[str, str]:
    kept_ms = retention_ms if chosen_ms is None else chosen_ms
    return {"retention.ms": str(min(kept_ms + additional_ms, MAX_TIMESTAMP))}


AnyStoreBuilder = StoreBuilder[Any, Any]
