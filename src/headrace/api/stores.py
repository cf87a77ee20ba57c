"""Where a store keeps its rows, and the suppliers that name one: what option objects need to know of stores."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class StoreType(Enum):
    """Where a store keeps its rows."""

    ROCKS_DB = "rocksDB"
    """On disk, in RocksDB, below ``state.dir``."""
    IN_MEMORY = "in_memory"
    """In memory only; always restored from the start of its changelog."""


@dataclass(frozen=True, slots=True)
class KeyValueBytesStoreSupplier:
    """Name and body of a key-value store, before serdes, caching and logging are chosen."""

    name: str
    store_type: StoreType
    timestamped: bool
