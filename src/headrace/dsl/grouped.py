"""The handle of a stream whose records are grouped by key. Source: ``kstream.internals.KGroupedStreamImpl`` (4.4)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace import naming
from headrace.dsl.graph import Process, Repartition, Store
from headrace.dsl.ktable import KTable
from headrace.processors.aggregate import StreamAggregate, StreamReduce
from headrace.processors.counting import Add, Zero
from headrace.serdes import Serdes

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.api.engine import Operator
    from headrace.api.options import Grouped, Materialized, Named
    from headrace.dsl.place import Place

K = TypeVar("K")
V = TypeVar("V")
VR = TypeVar("VR")


class KGroupedStream(Generic[K, V]):
    """Records grouped by key, to be aggregated. Made by the library.

    Every aggregation drops records without a key or a value (counted), keeps its rows in a store with a changelog, and
    gives each row the latest of its records' times. Where the key was changed before, the records go through a
    repartition topic first: it is named by :class:`~headrace.api.options.Grouped`, else after the store.
    """

    def __init__(self, at: Place, grouped: Grouped[K, V]) -> None:
        self._at = at
        self._grouped = grouped
        self._shared_repartition: int | None = None

    def count(self, materialized: Materialized[K, int] | None = None, named: Named | None = None) -> KTable[K, int]:
        """The number of records of each key.

        Args:
            named: Name of the node.
            materialized: The store.
        """
        if materialized is not None and materialized.store_name is None:
            # Java once took a number here and goes on to do so: later names depend on it
            self._at.scope.names.store(naming.AGGREGATE)
        store = self._at.scope.store(materialized, naming.AGGREGATE, self._grouped.key_serde, Serdes.Long())
        operator = StreamAggregate(store.name, Zero(), Add(1))
        return self._aggregate(named, naming.AGGREGATE, store, operator)

    def reduce(
        self,
        reducer: Callable[[V, V], V],
        materialized: Materialized[K, V] | None = None,
        named: Named | None = None,
    ) -> KTable[K, V]:
        """All values of each key combined into one of the same type.

        Args:
            reducer: ``(value so far, new value) -> value``. The first value stands as it is; None deletes the row.
            named: Name of the node.
            materialized: The store.
        """
        grouped = self._grouped
        store = self._at.scope.store(materialized, naming.REDUCE, grouped.key_serde, grouped.value_serde)
        return self._aggregate(named, naming.REDUCE, store, StreamReduce(store.name, reducer))

    def aggregate(
        self,
        initializer: Callable[[], VR],
        aggregator: Callable[[K, V, VR], VR],
        materialized: Materialized[K, VR] | None = None,
        named: Named | None = None,
    ) -> KTable[K, VR]:
        """All values of each key combined into an aggregate of any type.

        Args:
            initializer: Makes the aggregate that a key begins with.
            aggregator: ``(key, value, aggregate) -> aggregate``. It may change and return the one it is given; None
                deletes the row.
            named: Name of the node.
            materialized: The store. Its value serde is the configured default unless given.
        """
        store = self._at.scope.store(materialized, naming.AGGREGATE, self._grouped.key_serde, None)
        operator = StreamAggregate(store.name, initializer, aggregator)
        return self._aggregate(named, naming.AGGREGATE, store, operator)

    def _aggregate(self, named: Named | None, prefix: str, store: Store, operator: Operator) -> KTable[K, Any]:
        name = self._at.scope.node_name(None if named is None else named.name, prefix)
        at = self._repartitioned(store) if self._at.repartition else self._at
        at = replace(at.add(name, Process(operator, store)), key_serde=store.key_serde, value_serde=store.value_serde)
        return KTable(at, store.materialized.store_name)

    def _repartitioned(self, store: Store) -> Place:
        grouped, scope = self._grouped, self._at.scope
        names = naming.repartition_names(scope.names, grouped.name or store.name)
        if self._shared_repartition is None or grouped.name is None:
            named = grouped.name is not None or store.materialized.store_name is not None
            place = self._at.through_topic(names, grouped.key_serde, grouped.value_serde, named=named)
            self._shared_repartition = place.node
            return place
        # aggregations of one grouping with a name share its topic
        scope.graph.connect(self._at.node, self._shared_repartition)
        data = scope.graph.nodes[self._shared_repartition].data
        assert isinstance(data, Repartition)
        source = data.names.source
        return replace(
            self._at, node=self._shared_repartition, name=source, sources=frozenset({source}), repartition=False
        )
