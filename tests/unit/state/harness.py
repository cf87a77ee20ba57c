"""Stores over either body with a changelog that is kept as a list, as the tests of this folder use them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.api.engine import RecordContext
from headrace.serdes import Serdes
from headrace.state.buffer import BufferedStore
from headrace.state.cache import CacheBudget
from headrace.state.context import StoreContext
from headrace.state.formats import PLAIN, TIMESTAMPED
from headrace.state.keyvalue import KeyValueStore, TimestampedKeyValueStore
from headrace.state.memory import InMemoryBody
from headrace.state.rocksdb import RocksDBBody

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.api.serde import Serde
    from headrace.api.stores import KeyValueBody
    from headrace.state.buffer import Log

Logged = tuple[bytes, "bytes | None", "int | None"]

BODIES = ("rocksdb", "memory")


def make_body(kind: str, path: Path) -> KeyValueBody:
    return RocksDBBody(path / "store") if kind == "rocksdb" else InMemoryBody()


@dataclass
class World:
    """One store with all that stands round it in a task."""

    rows: BufferedStore
    record: RecordContext
    log: list[Logged]
    budget: CacheBudget | None
    dropped: list[str] = field(default_factory=lambda: list[str]())
    forwarded: list[tuple[Any, ...]] = field(default_factory=lambda: list[tuple[Any, ...]]())

    @property
    def context(self) -> StoreContext:
        return store_context(self.record, self.rows.log, self.budget, self.dropped.append)

    def at(self, offset: int, timestamp: int, topic: str = "in") -> None:
        """Put a record in work."""
        record = self.record
        record.topic, record.partition, record.offset, record.timestamp = topic, 0, offset, timestamp

    def listen(self, store: TimestampedKeyValueStore[Any, Any], send_old_values: bool = True) -> bool:
        def listener(key: Any, new: Any, old: Any, is_latest: bool, timestamp: int, headers: Any) -> None:
            self.forwarded.append((key, new, old, timestamp))

        return store.set_flush_listener(listener, send_old_values)

    def commit(self, store: Any = None) -> None:
        """Flush, seal, and apply with the changelog's end as the offset."""
        if store is not None:
            store.flush()
        (self.rows if store is None else store).seal()
        self.rows.apply(len(self.log))


def store_context(
    record: RecordContext,
    log: Log | None,
    budget: CacheBudget | None,
    drop: Callable[[str], None],
    path: Path = Path("unused"),
) -> StoreContext:
    def serde(given: Serde[Any] | None) -> Serde[Any]:
        return given or Serdes.String()

    return StoreContext("changelog", path, log, serde, serde, record, budget, drop)


def make_world(body: KeyValueBody, cache_bytes: int | None = None, name: str = "store") -> World:
    log: list[Logged] = []
    rows = BufferedStore(name, body, lambda key, value, timestamp, headers: log.append((key, value, timestamp)))
    budget = None if cache_bytes is None else CacheBudget(cache_bytes)
    world = World(rows, RecordContext(), log, budget)
    world.at(0, 0)
    return world


def plain(world: World, value_serde: Serde[Any] | None = None) -> KeyValueStore[Any, Any]:
    serde = value_serde or Serdes.String()
    return KeyValueStore(world.rows, Serdes.String(), serde, world.context, caching=world.budget is not None)


def timestamped(
    world: World, value_serde: Serde[Any] | None = None, *, plain_body: bool = False
) -> TimestampedKeyValueStore[Any, Any]:
    return TimestampedKeyValueStore(
        world.rows,
        Serdes.String(),
        value_serde or Serdes.String(),
        PLAIN if plain_body else TIMESTAMPED,
        world.context,
        caching=world.budget is not None,
    )
