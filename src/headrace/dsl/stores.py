"""What kinds of stores the operators of the DSL need, and the builders that these become.

Source: ``kstream.internals.{KeyValueStoreMaterializer,WindowStoreMaterializer,SlidingWindowStoreMaterializer,
SessionStoreMaterializer}`` (4.4).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.api.stores import (
    DslKeyValueParams,
    DslSessionParams,
    DslStoreSuppliers,
    DslWindowParams,
    KeyValueBytesStoreSupplier,
    SessionBytesStoreSupplier,
    StoreType,
    VersionedBytesStoreSupplier,
    WindowBytesStoreSupplier,
)
from headrace.api.windows import MAX_TIMESTAMP, wrapped
from headrace.errors import TopologyException
from headrace.state.builders import (
    SessionStoreBuilder,
    Stores,
    SuppressBufferBuilder,
    TimestampedKeyValueStoreBuilder,
    TimestampedKeyValueStoreWithHeadersBuilder,
    TimestampedWindowStoreBuilder,
    VersionedKeyValueStoreBuilder,
)
from headrace.state.join_window import JoinWindowStoreBuilder
from headrace.state.outer_join import OuterJoinStoreBuilder
from headrace.state.suppliers import built_in, key_value_supplier

if TYPE_CHECKING:
    from headrace.api.serde import Serde
    from headrace.dsl.graph import Store
    from headrace.state.builders import AnyStoreBuilder


@dataclass(frozen=True, slots=True)
class StoreDefaults:
    """What the configuration says of the DSL's stores.

    Attributes:
        suppliers: Where stores keep their rows when the user did not say.
        with_headers: Rows have room for headers, where their bodies can (``dsl.store.format`` is HEADERS).
    """

    suppliers: DslStoreSuppliers
    with_headers: bool = False

    def supplying(self, store: Store) -> DslStoreSuppliers:
        """Where a store keeps its rows."""
        chosen = store.materialized.store_type
        if chosen is None:
            return self.suppliers
        return built_in(chosen) if isinstance(chosen, StoreType) else chosen


class StoreShape(ABC):
    """What an operator needs of its store beyond names and serdes."""

    @abstractmethod
    def builder(self, store: Store, defaults: StoreDefaults) -> AnyStoreBuilder:
        """The builder of the store.

        Args:
            store: What the user said of it.
            defaults: What the configuration says of all stores.

        Raises:
            TopologyException: The user's supplier is of another kind.
        """

    def check(self, store: Store) -> None:  # noqa: B027  # most have nothing to check
        """Check what the user said of the store.

        Raises:
            ValueError: The retention is too short for the windows.
        """


@dataclass(frozen=True, slots=True)
class KeyValueShape(StoreShape):
    """The rows of a table by key."""

    def builder(self, store: Store, defaults: StoreDefaults) -> AnyStoreBuilder:
        """See :class:`StoreShape`."""
        how = store.materialized
        supplier = how.store_supplier or defaults.supplying(store).key_value_store(
            DslKeyValueParams(store.name, with_headers=defaults.with_headers)
        )
        if not isinstance(supplier, KeyValueBytesStoreSupplier):
            raise _other_kind(store, KeyValueBytesStoreSupplier.__name__)
        if isinstance(supplier, VersionedBytesStoreSupplier):
            return VersionedKeyValueStoreBuilder(
                supplier,
                store.key_serde,
                store.value_serde,
                logging=how.logging_enabled,
                log_config=dict(how.topic_config),
            )
        return TimestampedKeyValueStoreBuilder(
            supplier,
            store.key_serde,
            store.value_serde,
            caching=how.caching_enabled,
            logging=how.logging_enabled,
            log_config=dict(how.topic_config),
        )


@dataclass(frozen=True, slots=True)
class WindowShape(StoreShape):
    """The rows of a windowed table.

    Attributes:
        size_ms: Length of a window; the time difference of sliding ones.
        retention_ms: How long rows are needed at least.
        sliding: The windows are sliding ones.
        emit_on_close: Results go out when a window closes.
    """

    size_ms: int
    retention_ms: int
    sliding: bool = False
    emit_on_close: bool = False

    def check(self, store: Store) -> None:
        """See :class:`StoreShape`."""
        _retention(store, self.retention_ms)

    def builder(self, store: Store, defaults: StoreDefaults) -> AnyStoreBuilder:
        """See :class:`StoreShape`."""
        how = store.materialized
        retention_ms = _fits(store, _retention(store, self.retention_ms))
        supplier = how.store_supplier or defaults.supplying(store).window_store(
            DslWindowParams(
                store.name,
                retention_ms,
                self.size_ms,
                emit_on_close=self.emit_on_close,
                sliding=self.sliding,
                with_headers=defaults.with_headers,
            )
        )
        if not isinstance(supplier, WindowBytesStoreSupplier):
            raise _other_kind(store, WindowBytesStoreSupplier.__name__)
        return TimestampedWindowStoreBuilder(
            supplier,
            store.key_serde,
            store.value_serde,
            # what is given out when a sliding window closes is read from the rows: they must be complete below
            caching=how.caching_enabled and not (self.sliding and self.emit_on_close),
            logging=how.logging_enabled,
            log_config=dict(how.topic_config),
            changelog_retention_ms=retention_ms,
        )


@dataclass(frozen=True, slots=True)
class SessionShape(StoreShape):
    """The sessions of a windowed table.

    Attributes:
        retention_ms: How long sessions are needed at least.
        emit_on_close: Results go out when a session closes.
    """

    retention_ms: int
    emit_on_close: bool = False

    def check(self, store: Store) -> None:
        """See :class:`StoreShape`."""
        _retention(store, self.retention_ms)

    def builder(self, store: Store, defaults: StoreDefaults) -> AnyStoreBuilder:
        """See :class:`StoreShape`."""
        how = store.materialized
        retention_ms = _fits(store, _retention(store, self.retention_ms))
        supplier = how.store_supplier or defaults.supplying(store).session_store(
            DslSessionParams(store.name, retention_ms, self.emit_on_close, defaults.with_headers)
        )
        if not isinstance(supplier, SessionBytesStoreSupplier):
            raise _other_kind(store, SessionBytesStoreSupplier.__name__)
        return SessionStoreBuilder(
            supplier,
            store.key_serde,
            store.value_serde,
            caching=how.caching_enabled and not self.emit_on_close,
            logging=how.logging_enabled,
            log_config=dict(how.topic_config),
            changelog_retention_ms=retention_ms,
        )


@dataclass(frozen=True, slots=True)
class BufferShape(StoreShape):
    """The changes of a table that wait. There is one kind, in memory, whatever the user chose for tables."""

    def builder(self, store: Store, defaults: StoreDefaults) -> AnyStoreBuilder:
        """See :class:`StoreShape`."""
        how = store.materialized
        return SuppressBufferBuilder(
            Stores.in_memory_key_value_store(store.name),
            store.key_serde,
            store.value_serde,
            logging=how.logging_enabled,
            log_config=dict(how.topic_config),
            with_headers=defaults.with_headers,
        )


@dataclass(frozen=True, slots=True)
class SubscriptionShape(StoreShape):
    """What a foreign-key join keeps of its left side: rows with headers, whatever ``dsl.store.format`` says."""

    def builder(self, store: Store, defaults: StoreDefaults) -> AnyStoreBuilder:
        """See :class:`StoreShape`."""
        params = DslKeyValueParams(store.name, with_headers=True)
        return TimestampedKeyValueStoreWithHeadersBuilder(
            defaults.supplying(store).key_value_store(params), store.key_serde, store.value_serde
        )


@dataclass(frozen=True, slots=True)
class JoinWindowShape(StoreShape):
    """What a join of two streams keeps of one side: every record of a key and time.

    Such stores are never cached, and their changelog is not compacted: it has no two records of one key.

    Attributes:
        size_ms: Length of the join's window.
        retention_ms: How long rows are needed.
    """

    size_ms: int
    retention_ms: int

    def builder(self, store: Store, defaults: StoreDefaults) -> AnyStoreBuilder:
        """See :class:`StoreShape`."""
        how = store.materialized
        supplier, log_config = how.store_supplier, dict(how.topic_config)
        if supplier is None:
            params = DslWindowParams(
                store.name, _fits(store, self.retention_ms), self.size_ms, retain_duplicates=True, timestamped=False
            )
            supplier = defaults.supplying(store).window_store(params)
            log_config["cleanup.policy"] = "delete"
        if not isinstance(supplier, WindowBytesStoreSupplier):
            raise _other_kind(store, WindowBytesStoreSupplier.__name__)
        return JoinWindowStoreBuilder(
            supplier, store.key_serde, store.value_serde, logging=how.logging_enabled, log_config=log_config
        )


@dataclass(frozen=True, slots=True)
class OuterJoinShape(StoreShape):
    """What a left or outer join of two streams keeps of records that have met none, of both sides.

    Attributes:
        other_value_serde: Serde of the right side's values; the store's own is of the left side's.
        persistent: Where the rows are kept, where the user said so by the store of the left side.
    """

    other_value_serde: Serde[Any] | None
    persistent: bool | None = None

    def builder(self, store: Store, defaults: StoreDefaults) -> AnyStoreBuilder:
        """See :class:`StoreShape`."""
        how = store.materialized
        if self.persistent is None:
            params = DslKeyValueParams(store.name, timestamped=False)
            supplier = defaults.supplying(store).key_value_store(params)
        else:
            supplier = key_value_supplier(store.name, persistent=self.persistent)
        return OuterJoinStoreBuilder(
            supplier,
            store.key_serde,
            store.value_serde,
            logging=how.logging_enabled,
            log_config=dict(how.topic_config),
            other_value_serde=self.other_value_serde,
        )


KEY_VALUE: Final = KeyValueShape()


def _other_kind(store: Store, needed: str) -> TopologyException:
    given = type(store.materialized.store_supplier).__name__
    return TopologyException(f"store {store.name} needs a {needed}, but its Materialized has a {given}")


def _retention(store: Store, needed_ms: int) -> int:
    """What the user asked for, or else what is needed, which may be more than 64 bits hold: see :func:`_fits`."""
    asked = store.materialized.retention_ms
    if asked is None:
        return needed_ms
    # as in Java, where what is needed is negative when it does not fit
    if asked < wrapped(needed_ms):
        raise ValueError(
            f"the retention of store {store.name} is {asked} ms, but its windows need {needed_ms} ms "
            "(their size, twice the time difference of sliding ones, or the gap of sessions; plus the grace period)"
        )
    return asked


def _fits(store: Store, retention_ms: int) -> int:
    """The retention of a store that is built now.

    Raises:
        ValueError: It does not fit into 64 bits, so that nothing could ever be said to be too old.
    """
    if retention_ms > MAX_TIMESTAMP:
        raise ValueError(
            f"store {store.name}: its windows would need their rows for {retention_ms} ms, which does not fit into "
            "64 bits: give them a shorter grace period or size"
        )
    return retention_ms
