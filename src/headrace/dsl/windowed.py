"""The handles of grouped streams with windows.

Sources: ``kstream.internals.{TimeWindowedKStreamImpl,SlidingWindowedKStreamImpl,SessionWindowedKStreamImpl,
WindowStoreMaterializer,SlidingWindowStoreMaterializer,SessionStoreMaterializer}`` (4.4).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from headrace import naming
from headrace.api.options import is_unnamed, name_of
from headrace.api.windows import (
    EmitStrategy,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
    Windowed,
)
from headrace.dsl.stores import SessionShape, WindowShape
from headrace.processors.counting import Add, Zero
from headrace.processors.windows import SessionWindowAggregate, SlidingWindowAggregate, TimeWindowAggregate
from headrace.serdes import Serdes, SessionWindowedSerde, TimeWindowedSerde

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.api.options import Materialized, Named
    from headrace.api.serde import Serde
    from headrace.api.windows import Windows
    from headrace.dsl.grouped import KGroupedStream
    from headrace.dsl.ktable import KTable
    from headrace.dsl.stores import StoreShape
    from headrace.processors.windows import WindowedAggregate

K = TypeVar("K")
V = TypeVar("V")
VR = TypeVar("VR")


def _nothing() -> None:
    """What a reduction begins with."""


def _sum(key: object, one: int, other: int) -> int:
    return one + other


@dataclass(frozen=True, slots=True)
class _Reducing:
    """A reducer as an aggregator: the first value stands as it is."""

    reducer: Callable[[Any, Any], Any]

    def __call__(self, key: object, value: Any, aggregate: Any) -> Any:
        return value if aggregate is None else self.reducer(aggregate, value)


@dataclass(frozen=True, slots=True)
class _ReducingSessions:
    """A reducer as a merger of sessions."""

    reducer: Callable[[Any, Any], Any]

    def __call__(self, key: object, one: Any, other: Any) -> Any:
        return other if one is None else self.reducer(one, other)


class Windowing(Protocol):
    """What one kind of windows makes of an aggregation: the operator, the shape of its store, the serde of its keys."""

    def operator(
        self, store_name: str, initializer: Callable[[], Any], aggregator: Callable[..., Any], emit: EmitStrategy
    ) -> WindowedAggregate:
        """The operator that aggregates."""
        ...

    def shape(self, emit: EmitStrategy) -> StoreShape:
        """What the store must be."""
        ...

    def key_serde(self, inner: Serde[Any]) -> Serde[Any]:
        """The serde of windowed keys."""
        ...


@dataclass(frozen=True, slots=True)
class ByTime:
    """Windows that follow from a record's time alone."""

    windows: Windows

    def operator(
        self, store_name: str, initializer: Callable[[], Any], aggregator: Callable[..., Any], emit: EmitStrategy
    ) -> WindowedAggregate:
        """See :class:`Windowing`."""
        if emit is EmitStrategy.ON_WINDOW_CLOSE and not isinstance(self.windows, TimeWindows):
            raise ValueError(f"{emit.value} is for TimeWindows, SlidingWindows and SessionWindows, not {self.windows}")
        return TimeWindowAggregate(store_name, initializer, aggregator, emit, self.windows)

    def shape(self, emit: EmitStrategy) -> StoreShape:
        """See :class:`Windowing`."""
        size, on_close = self.windows.size_ms, emit is EmitStrategy.ON_WINDOW_CLOSE
        return WindowShape(size, size + self.windows.grace_ms, emit_on_close=on_close)

    def key_serde(self, inner: Serde[Any]) -> Serde[Any]:
        """See :class:`Windowing`."""
        return TimeWindowedSerde(inner, self.windows.size_ms)


@dataclass(frozen=True, slots=True)
class BySliding:
    """Windows that records open."""

    windows: SlidingWindows

    def operator(
        self, store_name: str, initializer: Callable[[], Any], aggregator: Callable[..., Any], emit: EmitStrategy
    ) -> WindowedAggregate:
        """See :class:`Windowing`."""
        return SlidingWindowAggregate(store_name, initializer, aggregator, emit, self.windows)

    def shape(self, emit: EmitStrategy) -> StoreShape:
        """See :class:`Windowing`."""
        difference, on_close = self.windows.time_difference_ms, emit is EmitStrategy.ON_WINDOW_CLOSE
        # a record looks back at windows that begin up to two differences before it
        needed = 2 * difference + self.windows.grace_ms
        return WindowShape(difference, needed, sliding=True, emit_on_close=on_close)

    def key_serde(self, inner: Serde[Any]) -> Serde[Any]:
        """See :class:`Windowing`."""
        return TimeWindowedSerde(inner, self.windows.time_difference_ms)


@dataclass(frozen=True, slots=True)
class BySession:
    """Sessions, whose aggregates ``merger`` makes one of two."""

    windows: SessionWindows
    merger: Callable[[Any, Any, Any], Any]

    def operator(
        self, store_name: str, initializer: Callable[[], Any], aggregator: Callable[..., Any], emit: EmitStrategy
    ) -> WindowedAggregate:
        """See :class:`Windowing`."""
        return SessionWindowAggregate(store_name, initializer, aggregator, emit, self.merger, self.windows)

    def shape(self, emit: EmitStrategy) -> StoreShape:
        """See :class:`Windowing`."""
        needed = self.windows.gap_ms + self.windows.grace_ms
        return SessionShape(needed, emit is EmitStrategy.ON_WINDOW_CLOSE)

    def key_serde(self, inner: Serde[Any]) -> Serde[Any]:
        """See :class:`Windowing`."""
        return SessionWindowedSerde(inner)


def by_time(windows: Windows | SlidingWindows) -> Windows | SlidingWindows:
    """The windows, which are not sessions.

    Raises:
        TypeError: They are no windows to aggregate by.
    """
    if not isinstance(windows, SlidingWindows) and not hasattr(windows, "windows_for"):
        raise TypeError(f"windowed_by takes time, sliding, unlimited or session windows, not {windows!r}")
    return windows


class _WindowedStream(Generic[K, V]):
    """What the handles have in common: the grouped stream, and when results are given."""

    def __init__(self, grouped: KGroupedStream[K, V]) -> None:
        self._grouped = grouped
        self._emit = EmitStrategy.ON_WINDOW_UPDATE

    def emit_strategy(self, emit_strategy: EmitStrategy) -> Self:
        """When the aggregations that follow give results (KIP-825). Gives this handle."""
        self._emit = emit_strategy
        return self

    def _table(
        self,
        windowing: Windowing,
        prefix: str,
        initializer: Callable[[], Any],
        aggregator: Callable[..., Any],
        materialized: Materialized[K, Any] | None,
        value_serde: Serde[Any] | None,
        named: Named | None,
    ) -> KTable[Windowed[K], Any]:
        grouped = self._grouped
        store = grouped.at.scope.store(materialized, prefix, grouped.grouped.key_serde, value_serde)
        name = grouped.at.scope.node_name(name_of(named), prefix)
        return grouped.aggregated(
            name,
            replace(store, shape=windowing.shape(self._emit)),
            windowing.operator(store.name, initializer, aggregator, self._emit),
            None if store.key_serde is None else windowing.key_serde(store.key_serde),
        )


class TimeWindowedKStream(_WindowedStream[K, V]):
    """Records grouped by key and by windows that follow from their times. Made by the library.

    A row's key is a :class:`~headrace.api.windows.Windowed`. A record for a window that has closed is dropped and
    counted.
    """

    def __init__(self, grouped: KGroupedStream[K, V], windows: Windows | SlidingWindows) -> None:
        super().__init__(grouped)
        self._windows = windows
        self._windowing: Windowing = BySliding(windows) if isinstance(windows, SlidingWindows) else ByTime(windows)

    def emit_strategy(self, emit_strategy: EmitStrategy) -> Self:
        """When the aggregations that follow give results (KIP-825). Gives this handle.

        Raises:
            ValueError: Results are to be given when a window closes that never does.
        """
        if emit_strategy is EmitStrategy.ON_WINDOW_CLOSE and isinstance(self._windows, UnlimitedWindows):
            raise ValueError(f"{emit_strategy.value} cannot be used with {self._windows}: it never closes")
        return super().emit_strategy(emit_strategy)

    def count(
        self, materialized: Materialized[K, int] | None = None, named: Named | None = None
    ) -> KTable[Windowed[K], int]:
        """The number of records of each key and window. One without a value counts, except with sliding windows.

        Args:
            materialized: The store.
            named: Name of the node.
        """
        if is_unnamed(materialized) and not isinstance(self._windows, SlidingWindows):
            # Java once took a number here and goes on to do so: later names depend on it
            self._grouped.at.scope.names.store(naming.AGGREGATE)
        return self._table(self._windowing, naming.AGGREGATE, Zero(), Add(1), materialized, Serdes.Long(), named)

    def reduce(
        self,
        reducer: Callable[[V, V], V | None],
        materialized: Materialized[K, V] | None = None,
        named: Named | None = None,
    ) -> KTable[Windowed[K], V]:
        """All values of each key and window combined into one of the same type.

        Args:
            reducer: ``(value so far, new value) -> value``. The first value stands as it is; None deletes the row.
            materialized: The store.
            named: Name of the node.
        """
        value_serde = self._grouped.grouped.value_serde
        reducing = _Reducing(reducer)
        return self._table(self._windowing, naming.REDUCE, _nothing, reducing, materialized, value_serde, named)

    def aggregate(
        self,
        initializer: Callable[[], VR],
        aggregator: Callable[[K, V, VR], VR | None],
        materialized: Materialized[K, VR] | None = None,
        named: Named | None = None,
    ) -> KTable[Windowed[K], VR]:
        """All values of each key and window combined into an aggregate of any type.

        Args:
            initializer: Makes the aggregate that a window begins with.
            aggregator: ``(key, value, aggregate) -> aggregate``. It may change and return the one it is given; None
                deletes the row.
            materialized: The store. Its value serde is the configured default unless given.
            named: Name of the node.
        """
        return self._table(self._windowing, naming.AGGREGATE, initializer, aggregator, materialized, None, named)


class SessionWindowedKStream(_WindowedStream[K, V]):
    """Records grouped by key and by sessions. Made by the library.

    A row's key is a :class:`~headrace.api.windows.Windowed` whose window is the session. When sessions become one, the
    rows of the former ones are deleted.
    """

    def __init__(self, grouped: KGroupedStream[K, V], windows: SessionWindows) -> None:
        super().__init__(grouped)
        self._windows = windows

    def count(
        self, materialized: Materialized[K, int] | None = None, named: Named | None = None
    ) -> KTable[Windowed[K], int]:
        """The number of records of each session. One without a value counts.

        Args:
            materialized: The store.
            named: Name of the node.
        """
        if is_unnamed(materialized):
            # Java once took a number here and goes on to do so: later names depend on it
            self._grouped.at.scope.names.store(naming.AGGREGATE)
        windowing = BySession(self._windows, _sum)
        return self._table(windowing, naming.AGGREGATE, Zero(), Add(1), materialized, Serdes.Long(), named)

    def reduce(
        self,
        reducer: Callable[[V, V], V | None],
        materialized: Materialized[K, V] | None = None,
        named: Named | None = None,
    ) -> KTable[Windowed[K], V]:
        """All values of each session combined into one of the same type.

        Args:
            reducer: ``(value so far, new value) -> value``, also of the values of two sessions that become one. The
                first value stands as it is; None deletes the row.
            materialized: The store.
            named: Name of the node.
        """
        windowing = BySession(self._windows, _ReducingSessions(reducer))
        value_serde = self._grouped.grouped.value_serde
        reducing = _Reducing(reducer)
        return self._table(windowing, naming.REDUCE, _nothing, reducing, materialized, value_serde, named)

    def aggregate(
        self,
        initializer: Callable[[], VR],
        aggregator: Callable[[K, V, VR], VR | None],
        session_merger: Callable[[K, VR, VR], VR],
        materialized: Materialized[K, VR] | None = None,
        named: Named | None = None,
    ) -> KTable[Windowed[K], VR]:
        """All values of each session combined into an aggregate of any type.

        Args:
            initializer: Makes the aggregate that a record begins with, before the sessions near it are merged in.
            aggregator: ``(key, value, aggregate) -> aggregate``. It may change and return the one it is given; None
                deletes the row.
            session_merger: ``(key, aggregate, aggregate of a session) -> aggregate``.
            materialized: The store. Its value serde is the configured default unless given.
            named: Name of the node.
        """
        windowing = BySession(self._windows, session_merger)
        return self._table(windowing, naming.AGGREGATE, initializer, aggregator, materialized, None, named)
