"""What operators that make tables have in common: old values, and how others read their rows.

Sources: ``kstream.internals.KTable{ProcessorSupplier,ValueGetterSupplier,MaterializedValueGetterSupplier}``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar

from headrace.state.keyvalue import TimestampedKeyValueStore
from headrace.state.versioned import VersionedKeyValueStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.api.engine import Bound, NodeContext, ValueGetter, ValueGetterAsOf, ValueGetterSupplier
    from headrace.api.windows import Windowed

K = TypeVar("K")
V = TypeVar("V")

TableStore: TypeAlias = TimestampedKeyValueStore[K, V] | VersionedKeyValueStore[K, V]
"""What may hold a table's rows: its latest ones with their times, or former ones too."""


@dataclass(frozen=True, slots=True)
class TableOperator:
    """An operator whose output is a table's changes.

    ``send_old_values``: its changes carry the old value too. Who needs them asks while the topology is built, and
    whether they can be had is decided in the graph.
    """

    send_old_values: bool = field(default=False, kw_only=True)

    def sending_old_values(self) -> Self:
        """The same operator with :attr:`send_old_values`."""
        return replace(self, send_old_values=True)

    def bind(self, node: NodeContext, /) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        raise NotImplementedError

    def rows(self, *inputs: ValueGetterSupplier) -> ValueGetterSupplier:
        """How its rows are read.

        Args:
            inputs: How those of the tables that it is made from are read; none when it keeps its own.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class StoreRows:
    """The rows of a key-value store, also of one that keeps versions."""

    store_name: str

    @property
    def store_names(self) -> tuple[str, ...]:
        """See :class:`headrace.api.engine.ValueGetterSupplier`."""
        return (self.store_name,)

    def bind(self, node: NodeContext, /) -> ValueGetter:
        """See :class:`headrace.api.engine.ValueGetterSupplier`."""
        store: TableStore[Any, Any] = node.store(self.store_name)
        return store.get_pair if isinstance(store, VersionedKeyValueStore) else store.look_up

    def bind_as_of(self, node: NodeContext, /) -> ValueGetterAsOf | None:
        """See :class:`headrace.api.engine.ValueGetterSupplier`."""
        store: TableStore[Any, Any] = node.store(self.store_name)
        return store.get_pair_as_of if isinstance(store, VersionedKeyValueStore) else None


def _no_windowed_key(store_name: str, key: object) -> TypeError:
    return TypeError(f"store {store_name} has windowed keys, but was asked for a {type(key).__name__}: give a Windowed")


@dataclass(frozen=True, slots=True)
class WindowRows:
    """The rows of a window store, by windowed keys."""

    store_name: str

    @property
    def store_names(self) -> tuple[str, ...]:
        """See :class:`headrace.api.engine.ValueGetterSupplier`."""
        return (self.store_name,)

    def bind(self, node: NodeContext, /) -> ValueGetter:
        """See :class:`headrace.api.engine.ValueGetterSupplier`."""
        look_up: Callable[[Any, int], tuple[Any, ...] | None] = node.store(self.store_name).look_up

        def get(windowed: Windowed[Any]) -> tuple[Any, ...] | None:
            try:
                key, window = windowed.key, windowed.window
            except AttributeError:
                raise _no_windowed_key(self.store_name, windowed) from None
            return look_up(key, window.start)

        return get

    def bind_as_of(self, node: NodeContext, /) -> None:
        """See :class:`headrace.api.engine.ValueGetterSupplier`."""


@dataclass(frozen=True, slots=True)
class SessionRows:
    """The rows of a session store, by windowed keys. A row's time is its session's end."""

    store_name: str

    @property
    def store_names(self) -> tuple[str, ...]:
        """See :class:`headrace.api.engine.ValueGetterSupplier`."""
        return (self.store_name,)

    def bind(self, node: NodeContext, /) -> ValueGetter:
        """See :class:`headrace.api.engine.ValueGetterSupplier`."""
        look_up: Callable[[Any, int, int], tuple[Any, ...] | None] = node.store(self.store_name).look_up

        def get(windowed: Windowed[Any]) -> tuple[Any, ...] | None:
            try:
                key, window = windowed.key, windowed.window
            except AttributeError:
                raise _no_windowed_key(self.store_name, windowed) from None
            row = look_up(key, window.start, window.end)
            return None if row is None else (row[0], window.end)

        return get

    def bind_as_of(self, node: NodeContext, /) -> None:
        """See :class:`headrace.api.engine.ValueGetterSupplier`."""
