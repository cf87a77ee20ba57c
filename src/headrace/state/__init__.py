"""State stores: protocols, bodies, caching, changelogging and the commit that keeps a store behind its transaction.

A typed store (:mod:`.keyvalue`) sits on a :class:`~headrace.state.buffer.BufferedStore`, which holds uncommitted
writes in memory over a body (:mod:`.memory`, :mod:`.rocksdb`). Reads see the record cache, then the buffer, then the
body; tombstones hide. The body never holds what has not been committed.
"""

from headrace.state.builders import KeyValueBytesStoreSupplier, StoreBuilder, StoreKind, Stores, StoreType
from headrace.state.keyvalue import KeyValueStore, TimestampedKeyValueStore, ValueAndTimestamp

__all__ = [
    "KeyValueBytesStoreSupplier",
    "KeyValueStore",
    "StoreBuilder",
    "StoreKind",
    "StoreType",
    "Stores",
    "TimestampedKeyValueStore",
    "ValueAndTimestamp",
]
