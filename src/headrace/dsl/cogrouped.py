"""The handles of several grouped streams that are aggregated into one table (KIP-150).

Sources: ``kstream.internals.{CogroupedKStreamImpl,TimeWindowedCogroupedKStreamImpl,SlidingWindowedCogroupedKStreamImpl,
SessionWindowedCogroupedKStreamImpl,CogroupedStreamAggregateBuilder}`` (4.4).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from headrace import naming
from headrace.api.options import name_of
from headrace.api.windows import EmitStrategy, SessionWindows, SlidingWindows
from headrace.dsl.graph import Process
from headrace.dsl.ktable import KTable
from headrace.dsl.windowed import BySession, BySliding, ByTime, by_time
from headrace.processors.aggregate import StreamAggregate
from headrace.processors.tables import TablePassThrough

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.api.engine import Operator
    from headrace.api.options import Materialized, Named
    from headrace.api.serde import Serde
    from headrace.api.windows import Windowed, Windows
    from headrace.dsl.graph import Store
    from headrace.dsl.grouped import KGroupedStream
    from headrace.dsl.place import Place
    from headrace.dsl.windowed import Windowing

K = TypeVar("K")
V = TypeVar("V")
VOut = TypeVar("VOut")


class _Inputs:
    """The grouped streams with their aggregators, and where each enters the aggregation."""

    def __init__(self) -> None:
        self.aggregators: dict[KGroupedStream[Any, Any], Callable[[Any, Any, Any], Any]] = {}
        self._entries: dict[KGroupedStream[Any, Any], Place] = {}

    def table(
        self,
        store: Store,
        operator: Callable[[Callable[[Any, Any, Any], Any]], Operator],
        key_serde: Serde[Any] | None,
        named: Named | None,
    ) -> KTable[Any, Any]:
        """Aggregate all into one store: a node for each input, and one behind them that merges their changes."""
        for grouped in self.aggregators:
            self._enter(grouped, store)
        scope = next(iter(self.aggregators)).at.scope
        scope.graph.copartitioned.append(
            frozenset(source for grouped in self._entries for source in grouped.at.sources)
        )
        given = name_of(named)
        nodes: list[int] = []
        for number, (grouped, aggregator) in enumerate(self.aggregators.items()):
            name = naming.suffixed(scope.names, given, f"-cogroup-agg-{number}", naming.COGROUP_AGGREGATE)
            # the store is the first one's; the others share it
            first = not nodes
            data = Process(
                operator(aggregator),
                store=store if first else None,
                store_names=() if first else (store.name,),
            )
            nodes.append(self._entries[grouped].add(name, data).node)
        name = naming.suffixed(scope.names, given, "-cogroup-merge", naming.COGROUP_MERGE)
        merge = scope.graph.add(tuple(nodes), name, Process(TablePassThrough(), inputs=tuple(nodes)))
        at = replace(
            next(iter(self._entries.values())),
            node=merge,
            name=name,
            key_serde=key_serde,
            value_serde=store.value_serde,
            # as in Java: no source, so that joins of the table leave its topics out of what must be alike
            sources=frozenset({name}),
            repartition=False,
        )
        return KTable(at, store.materialized.store_name)

    def _enter(self, grouped: KGroupedStream[Any, Any], store: Store) -> None:
        at, how = grouped.at, grouped.grouped
        if not at.repartition:
            self._entries[grouped] = at
            return
        # numbers are taken for every aggregation, but all of them share one topic
        names = naming.repartition_names(at.scope.names, how.name or store.name)
        if grouped not in self._entries:
            named = how.name is not None or store.materialized.store_name is not None
            self._entries[grouped] = at.through_topic(names, how.key_serde, how.value_serde, named=named)


class CogroupedKStream(Generic[K, VOut]):
    """Grouped streams with a common key, each with its own aggregator into one common aggregate. Made by the library.

    Each record's aggregation is as that of a :class:`~headrace.dsl.grouped.KGroupedStream`; the streams need not be
    equal in their values.
    """

    def __init__(self, grouped: KGroupedStream[K, V], aggregator: Callable[[K, V, VOut], VOut | None]) -> None:
        self._scope = grouped.at.scope
        self._inputs = _Inputs()
        self._inputs.aggregators[grouped] = aggregator

    def cogroup(
        self, grouped_stream: KGroupedStream[K, V], aggregator: Callable[[K, V, VOut], VOut | None]
    ) -> CogroupedKStream[K, VOut]:
        """Add a grouped stream. Gives this handle.

        Args:
            grouped_stream: The stream; one that is in already gets another aggregator.
            aggregator: ``(key, value, aggregate) -> aggregate`` for its records.
        """
        next(iter(self._inputs.aggregators)).at.check_same_builder(grouped_stream.at)
        self._inputs.aggregators[grouped_stream] = aggregator
        return self

    def aggregate(
        self,
        initializer: Callable[[], VOut],
        materialized: Materialized[K, VOut] | None = None,
        named: Named | None = None,
    ) -> KTable[K, VOut]:
        """One aggregate of each key over all streams.

        Args:
            initializer: Makes the aggregate that a key begins with.
            materialized: The store. Its serdes are the configured defaults unless given.
            named: Begins the names of the nodes.
        """
        store = self._scope.store(materialized, naming.COGROUP_AGGREGATE, None, None)
        return self._inputs.table(
            store, lambda aggregator: StreamAggregate(store.name, initializer, aggregator), store.key_serde, named
        )

    @overload
    def windowed_by(self, windows: Windows | SlidingWindows) -> TimeWindowedCogroupedKStream[K, VOut]: ...
    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedCogroupedKStream[K, VOut]: ...
    def windowed_by(
        self, windows: Windows | SlidingWindows | SessionWindows
    ) -> TimeWindowedCogroupedKStream[K, VOut] | SessionWindowedCogroupedKStream[K, VOut]:
        """Aggregate by windows too; results are given at every update."""
        if isinstance(windows, SessionWindows):
            return SessionWindowedCogroupedKStream(self._scope_store, self._inputs, windows)
        return TimeWindowedCogroupedKStream(self._scope_store, self._inputs, by_time(windows))

    def _scope_store(self, materialized: Materialized[Any, Any] | None) -> Store:
        return self._scope.store(materialized, naming.COGROUP_AGGREGATE, None, None)


def _windowed_table(
    inputs: _Inputs, store: Store, windowing: Windowing, initializer: Callable[[], Any], named: Named | None
) -> KTable[Windowed[Any], Any]:
    emit = EmitStrategy.ON_WINDOW_UPDATE
    return inputs.table(
        replace(store, shape=windowing.shape(emit)),
        lambda aggregator: windowing.operator(store.name, initializer, aggregator, emit),
        None if store.key_serde is None else windowing.key_serde(store.key_serde),
        named,
    )


class TimeWindowedCogroupedKStream(Generic[K, VOut]):
    """Cogrouped streams, by windows that follow from the records' times. Made by the library."""

    def __init__(
        self,
        store: Callable[[Materialized[Any, Any] | None], Store],
        inputs: _Inputs,
        windows: Windows | SlidingWindows,
    ) -> None:
        self._store = store
        self._inputs = inputs
        self._windowing: Windowing = BySliding(windows) if isinstance(windows, SlidingWindows) else ByTime(windows)

    def aggregate(
        self,
        initializer: Callable[[], VOut],
        materialized: Materialized[K, VOut] | None = None,
        named: Named | None = None,
    ) -> KTable[Windowed[K], VOut]:
        """One aggregate of each key and window over all streams. See :meth:`CogroupedKStream.aggregate`."""
        return _windowed_table(self._inputs, self._store(materialized), self._windowing, initializer, named)


class SessionWindowedCogroupedKStream(Generic[K, VOut]):
    """Cogrouped streams, by sessions over the records of all. Made by the library."""

    def __init__(
        self, store: Callable[[Materialized[Any, Any] | None], Store], inputs: _Inputs, windows: SessionWindows
    ) -> None:
        self._store = store
        self._inputs = inputs
        self._windows = windows

    def aggregate(
        self,
        initializer: Callable[[], VOut],
        session_merger: Callable[[K, VOut, VOut], VOut],
        materialized: Materialized[K, VOut] | None = None,
        named: Named | None = None,
    ) -> KTable[Windowed[K], VOut]:
        """One aggregate of each session over all streams. See :meth:`CogroupedKStream.aggregate`.

        Args:
            initializer: Makes the aggregate that a record begins with, before the sessions near it are merged in.
            session_merger: ``(key, aggregate, aggregate of a session) -> aggregate``.
            materialized: The store. Its serdes are the configured defaults unless given.
            named: Begins the names of the nodes.
        """
        windowing = BySession(self._windows, session_merger)
        return _windowed_table(self._inputs, self._store(materialized), windowing, initializer, named)
