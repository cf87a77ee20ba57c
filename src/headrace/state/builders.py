"""Descriptions of stores: what kind, where it keeps its rows, how it is cached and logged.

A builder is a frozen value. Each ``with_…`` returns another one. Source: ``org.apache.kafka.streams.state.Stores``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace.api.stores import KeyValueBytesStoreSupplier, StoreType
from headrace.naming import validate_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.api.serde import Serde

__all__ = ["AnyStoreBuilder", "KeyValueBytesStoreSupplier", "StoreBuilder", "StoreKind", "StoreType", "Stores"]

K = TypeVar("K")
V = TypeVar("V")


class StoreKind(Enum):
    """What a store's rows are."""

    KEY_VALUE = "key-value"
    """Values as they are."""
    TIMESTAMPED_KEY_VALUE = "timestamped-key-value"
    """Values with the timestamp of their last change."""


@dataclass(frozen=True, slots=True)
class StoreBuilder(Generic[K, V]):
    """A store to be made once per task.

    Serdes of None are filled from the configuration's defaults. ``logging`` False means no changelog: the store is
    lost with its directory. ``log_config`` holds topic settings that go over Kafka Streams' own for the changelog.
    """

    name: str
    kind: StoreKind
    store_type: StoreType = StoreType.ROCKS_DB
    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    caching: bool = False
    logging: bool = True
    log_config: Mapping[str, str] = field(default_factory=lambda: dict[str, str]())
    plain_body: bool = False
    """A timestamped store on a supplier of plain values: rows carry no timestamp and read back as -1."""

    def with_caching_enabled(self) -> StoreBuilder[K, V]:
        """Keep recent writes in the record cache, so that only the last of a commit interval goes further."""
        return replace(self, caching=True)

    def with_caching_disabled(self) -> StoreBuilder[K, V]:
        """Send every write on at once."""
        return replace(self, caching=False)

    def with_logging_enabled(self, config: Mapping[str, str] | None = None) -> StoreBuilder[K, V]:
        """Write a changelog topic, with these topic settings over the usual ones."""
        return replace(self, logging=True, log_config=dict(config or {}))

    def with_logging_disabled(self) -> StoreBuilder[K, V]:
        """Write no changelog: the store's content is lost with its directory."""
        return replace(self, logging=False, log_config={})


class Stores:
    """Factory of store suppliers and builders. Source: ``org.apache.kafka.streams.state.Stores`` (4.4)."""

    @staticmethod
    def persistent_key_value_store(name: str) -> KeyValueBytesStoreSupplier:
        """RocksDB, plain values."""
        validate_name(name)
        return KeyValueBytesStoreSupplier(name, StoreType.ROCKS_DB, timestamped=False)

    @staticmethod
    def persistent_timestamped_key_value_store(name: str) -> KeyValueBytesStoreSupplier:
        """RocksDB, values with timestamps."""
        validate_name(name)
        return KeyValueBytesStoreSupplier(name, StoreType.ROCKS_DB, timestamped=True)

    @staticmethod
    def in_memory_key_value_store(name: str) -> KeyValueBytesStoreSupplier:
        """In memory; plain or timestamped by the builder that takes it."""
        validate_name(name)
        return KeyValueBytesStoreSupplier(name, StoreType.IN_MEMORY, timestamped=False)

    @staticmethod
    def key_value_store_builder(
        supplier: KeyValueBytesStoreSupplier, key_serde: Serde[K] | None, value_serde: Serde[V] | None
    ) -> StoreBuilder[K, V]:
        """A builder of a :class:`headrace.state.KeyValueStore`."""
        return StoreBuilder(supplier.name, StoreKind.KEY_VALUE, supplier.store_type, key_serde, value_serde)

    @staticmethod
    def timestamped_key_value_store_builder(
        supplier: KeyValueBytesStoreSupplier, key_serde: Serde[K] | None, value_serde: Serde[V] | None
    ) -> StoreBuilder[K, V]:
        """A builder of a :class:`headrace.state.TimestampedKeyValueStore`."""
        return StoreBuilder(supplier.name, StoreKind.TIMESTAMPED_KEY_VALUE, supplier.store_type, key_serde, value_serde)


AnyStoreBuilder = StoreBuilder[Any, Any]
