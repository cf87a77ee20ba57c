"""The handle of a table that is grouped by another key. Source: ``kstream.internals.KGroupedTableImpl`` (4.4)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace import naming
from headrace.api.options import name_of
from headrace.api.timestamps import FailOnInvalidTimestamp
from headrace.dsl.graph import Process, ThroughTopic
from headrace.dsl.ktable import KTable
from headrace.processors.counting import Add, Zero
from headrace.processors.table_aggregate import TableAggregate, TableReduce
from headrace.serdes import Serdes
from headrace.serdes.change import change_serde

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.api.options import Grouped, Materialized, Named
    from headrace.api.serde import Serde
    from headrace.dsl.graph import Store
    from headrace.dsl.place import Place
    from headrace.processors.rows import TableOperator

K = TypeVar("K")
V = TypeVar("V")
VR = TypeVar("VR")


class KGroupedTable(Generic[K, V]):
    """Rows of a table grouped by another key, to be aggregated. Made by :meth:`~headrace.dsl.KTable.group_by`.

    A row that changes is first taken out of its former group's aggregate, with its former value, and then put into its
    group's. All go through a repartition topic, which is named by :class:`~headrace.api.options.Grouped`, else after
    the store. Each aggregate has the latest of its changes' times.
    """

    def __init__(self, at: Place, grouped: Grouped[K, V]) -> None:
        self._at = at
        self._grouped = grouped
        self._repartition: int | None = None

    def count(self, materialized: Materialized[K, int] | None = None, named: Named | None = None) -> KTable[K, int]:
        """The number of rows in each group.

        Args:
            materialized: The store.
            named: Name of the node, and with ``-sink`` and ``-source`` behind it of the topic's nodes.
        """
        store = self._store(materialized, Serdes.Long())
        operator = TableAggregate(store.name, Zero(), Add(1), Add(-1))
        return self._aggregate(named, naming.TABLE_AGGREGATE, store, operator)

    def reduce(
        self,
        adder: Callable[[V, V], V | None],
        subtractor: Callable[[V, V], V | None],
        materialized: Materialized[K, V] | None = None,
        named: Named | None = None,
    ) -> KTable[K, V]:
        """The values of each group combined into one of the same type.

        Args:
            adder: ``(value so far, new value) -> value``. The first value stands as it is; None deletes the row.
            subtractor: ``(value so far, old value) -> value``.
            materialized: The store.
            named: See :meth:`count`.
        """
        store = self._store(materialized, self._grouped.value_serde)
        return self._aggregate(named, naming.TABLE_REDUCE, store, TableReduce(store.name, adder, subtractor))

    def aggregate(
        self,
        initializer: Callable[[], VR],
        adder: Callable[[K, V, VR], VR | None],
        subtractor: Callable[[K, V, VR], VR | None],
        materialized: Materialized[K, VR] | None = None,
        named: Named | None = None,
    ) -> KTable[K, VR]:
        """The values of each group combined into an aggregate of any type.

        Args:
            initializer: Makes the aggregate that a group begins with.
            adder: ``(key, new value, aggregate) -> aggregate``. It may change and return the one it is given; None
                deletes the row.
            subtractor: ``(key, old value, aggregate) -> aggregate``, likewise.
            materialized: The store. Its value serde is the configured default unless given.
            named: See :meth:`count`.
        """
        store = self._store(materialized, None)
        operator = TableAggregate(store.name, initializer, adder, subtractor)
        return self._aggregate(named, naming.TABLE_AGGREGATE, store, operator)

    def _store(self, materialized: Materialized[K, Any] | None, value_serde: Serde[Any] | None) -> Store:
        return self._at.scope.store(materialized, naming.TABLE_AGGREGATE, self._grouped.key_serde, value_serde)

    def _aggregate(self, named: Named | None, prefix: str, store: Store, operator: TableOperator) -> KTable[K, Any]:
        at, grouped, scope = self._at, self._grouped, self._at.scope
        given = name_of(named)
        sink = naming.suffixed(scope.names, given, "-sink", naming.SINK)
        source = naming.suffixed(scope.names, given, "-source", naming.SOURCE)
        name = scope.node_name(given, prefix)
        if self._repartition is None or grouped.name is None:
            topic = naming.table_repartition_topic(grouped.name or store.name)
            changes = change_serde(grouped.value_serde)
            extractor = FailOnInvalidTimestamp()
            data = ThroughTopic(topic, sink, source, grouped.key_serde, changes, timestamp_extractor=extractor)
            self._repartition = scope.graph.add((at.node,), source, data)
        else:
            # aggregations of one grouping with a name share its topic
            scope.graph.connect(at.node, self._repartition)
        at = replace(
            at,
            node=self._repartition,
            key_serde=store.key_serde,
            value_serde=store.value_serde,
            sources=frozenset({source}),
            repartition=False,
        )
        return KTable(at.add(name, Process(operator, store)), store.materialized.store_name)
