"""Where a store keeps its rows, and the suppliers that name one: what options and users' own stores need to know.

A supplier names a store, says what shape its rows have, and opens a *body* for one task: committed rows, sorted bytes
to bytes. All that is above a body (uncommitted writes, caching, changelog, retention, types) is the same for each.
Sources: ``org.apache.kafka.streams.state.{StoreSupplier,KeyValueBytesStoreSupplier,WindowBytesStoreSupplier,
SessionBytesStoreSupplier,VersionedBytesStoreSupplier,DslStoreSuppliers,DslKeyValueParams,DslWindowParams,
DslSessionParams}`` (4.4).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


class StoreType(Enum):
    """Where a store keeps its rows."""

    ROCKS_DB = "rocksDB"
    """On disk, in RocksDB, below ``state.dir``."""
    IN_MEMORY = "in_memory"
    """In memory only; always restored from the start of its changelog."""


class KeyValueBody(Protocol):
    """Committed rows, sorted bytes to bytes, and the changelog offset they reflect. Keys order as unsigned bytes."""

    persistent: bool
    """Whether rows outlive the process."""

    def get(self, key: bytes, /) -> bytes | None:
        """The row's value, or None."""
        ...

    def scan(self, low: bytes | None, high: bytes | None, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        """Rows with ``low <= key <= high`` (None: no bound) in key order, or in reverse; a snapshot of this moment."""
        ...

    def write(self, rows: Sequence[tuple[bytes, bytes | None]], offset: int | None) -> None:
        """Apply rows in order (None deletes) and then, with the last of them, the next changelog offset to restore.

        A crash leaves a prefix of the rows and the former offset; writing them again gives the same content.
        """
        ...

    def delete_below(self, bound: bytes) -> None:
        """Delete every row with a key less than ``bound`` and give its memory or disk space back.

        It runs between two records: what takes long, as the rewriting of files, is for a thread of the body's own, and
        the space may come back later.
        """
        ...

    def offset(self) -> int | None:
        """Next changelog offset to restore from, or None when nothing has been recorded."""
        ...

    def origin(self) -> str | None:
        """Id of the topic that the rows and the offset are of, or None when none has been recorded."""
        ...

    def remember_origin(self, topic_id: str) -> None:
        """Record it. Another topic of the same name, made later, has another id and says nothing about these rows."""
        ...

    def clear(self) -> None:
        """Delete every row, the offset and the origin."""
        ...

    def approximate_count(self) -> int:
        """Number of rows, roughly."""
        ...

    def close(self) -> None:
        """Let go of files. Closing twice does nothing."""
        ...


class StoreSupplier(ABC):
    """Names a store and opens its body. Subclass one of the four kinds below for a store of your own.

    Attributes:
        name: The store's name.
        persistent: Whether the bodies it opens outlive the process.
    """

    name: str
    persistent: bool

    @abstractmethod
    def open(self, path: Path) -> KeyValueBody:
        """The body for one task; ``path`` is a directory of its own, which a persistent body may make and fill."""


class KeyValueBytesStoreSupplier(StoreSupplier):
    """A key-value store, before serdes, caching and logging are chosen.

    Attributes:
        timestamped: Rows have room for a timestamp. A persistent supplier that has none gives, where a timestamped
            store is wanted, rows that read back with timestamp -1; one in memory always has room.
        with_headers: Rows have room for headers as well (KIP-1271).
        max_entries: Rows kept, the least recently used being forgotten first; None for all.
    """

    timestamped: bool = False
    with_headers: bool = False
    max_entries: int | None = None


class VersionedBytesStoreSupplier(KeyValueBytesStoreSupplier):
    """A store of every version of a key's value within a time span. Source: KIP-889.

    Attributes:
        history_retention_ms: How far back from the greatest timestamp seen versions are kept, and how late a write may
            be.
        segment_interval_ms: Versions are deleted by spans of this length.
    """

    history_retention_ms: int
    segment_interval_ms: int


class WindowBytesStoreSupplier(StoreSupplier):
    """A window store, before serdes, caching and logging are chosen.

    Attributes:
        retention_ms: How far back from the greatest window start seen rows are kept.
        window_size_ms: Length of a window, from which a row's window end follows.
        segment_interval_ms: Rows are deleted by spans of this length.
        retain_duplicates: A key may have several rows at one time; a None value then writes nothing.
        timestamped: As of :class:`KeyValueBytesStoreSupplier`.
        with_headers: Likewise.
        time_first: Rows of all keys come ordered by time first (for results that go out when a window closes).
    """

    retention_ms: int
    window_size_ms: int
    segment_interval_ms: int
    retain_duplicates: bool = False
    timestamped: bool = False
    with_headers: bool = False
    time_first: bool = False


class SessionBytesStoreSupplier(StoreSupplier):
    """A session store, before serdes, caching and logging are chosen.

    Attributes:
        retention_ms: How far back from the greatest session end seen sessions are kept.
        segment_interval_ms: Sessions are deleted by spans of this length.
        with_headers: As of :class:`KeyValueBytesStoreSupplier`.
        time_first: As of :class:`WindowBytesStoreSupplier`.
    """

    retention_ms: int
    segment_interval_ms: int
    with_headers: bool = False
    time_first: bool = False


@dataclass(frozen=True, slots=True)
class DslKeyValueParams:
    """What the DSL knows of a key-value store that it needs. ``with_headers``: ``dsl.store.format`` is HEADERS."""

    name: str
    timestamped: bool = True
    with_headers: bool = False


@dataclass(frozen=True, slots=True)
class DslWindowParams:
    """What the DSL knows of a window store that it needs.

    ``emit_on_close``: results go out when a window closes. ``sliding``: the windows are sliding ones.
    ``with_headers``: ``dsl.store.format`` is HEADERS.
    """

    name: str
    retention_ms: int
    window_size_ms: int
    retain_duplicates: bool = False
    emit_on_close: bool = False
    sliding: bool = False
    timestamped: bool = True
    with_headers: bool = False


@dataclass(frozen=True, slots=True)
class DslSessionParams:
    """What the DSL knows of a session store that it needs. ``with_headers``: ``dsl.store.format`` is HEADERS."""

    name: str
    retention_ms: int
    emit_on_close: bool = False
    with_headers: bool = False


class DslStoreSuppliers(ABC):
    """Where the stores of DSL operators keep their rows, when nothing nearer says so (KIP-954)."""

    @abstractmethod
    def key_value_store(self, params: DslKeyValueParams) -> KeyValueBytesStoreSupplier:
        """The supplier of a key-value store."""

    @abstractmethod
    def window_store(self, params: DslWindowParams) -> WindowBytesStoreSupplier:
        """The supplier of a window store."""

    @abstractmethod
    def session_store(self, params: DslSessionParams) -> SessionBytesStoreSupplier:
        """The supplier of a session store."""
