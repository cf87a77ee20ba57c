"""State stores: protocols, bodies, caching, changelogging and the commit that keeps a store behind its transaction.

A typed store (:mod:`.keyvalue`) sits on a :class:`~headrace.state.buffer.BufferedStore`, which holds uncommitted
writes in memory over a body (:mod:`.memory`, :mod:`.rocksdb`). Reads see the record cache, then the buffer, then the
body; tombstones hide. The body never holds what has not been committed.
"""

from headrace.api.stores import KeyValueBytesStoreSupplier, StoreType
from headrace.state.builders import StoreBuilder, Stores
from headrace.state.keyvalue import (
    KeyValueStore,
    TimestampedKeyValueStore,
    TimestampedKeyValueStoreWithHeaders,
    ValueAndTimestamp,
    ValueTimestampHeaders,
)
from headrace.state.session import AggregationWithHeaders, SessionStore, SessionStoreWithHeaders
from headrace.state.suppliers import InMemoryDslStoreSuppliers, RocksDBDslStoreSuppliers
from headrace.state.versioned import VersionedKeyValueStore, VersionedRecord
from headrace.state.window import TimestampedWindowStore, TimestampedWindowStoreWithHeaders, WindowStore

__all__ = [
    "AggregationWithHeaders",
    "InMemoryDslStoreSuppliers",
    "KeyValueBytesStoreSupplier",
    "KeyValueStore",
    "RocksDBDslStoreSuppliers",
    "SessionStore",
    "SessionStoreWithHeaders",
    "StoreBuilder",
    "StoreType",
    "Stores",
    "TimestampedKeyValueStore",
    "TimestampedKeyValueStoreWithHeaders",
    "TimestampedWindowStore",
    "TimestampedWindowStoreWithHeaders",
    "ValueAndTimestamp",
    "ValueTimestampHeaders",
    "VersionedKeyValueStore",
    "VersionedRecord",
    "WindowStore",
]
