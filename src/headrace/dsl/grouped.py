"""The handle of a stream whose records are grouped by key. Source: ``kstream.internals.KGroupedStreamImpl`` (4.4)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from headrace import naming
from headrace.api.options import is_unnamed, name_of
from headrace.api.windows import SessionWindows
from headrace.dsl.graph import Process, Repartition, Store
from headrace.dsl.ktable import KTable
from headrace.dsl.windowed import SessionWindowedKStream, TimeWindowedKStream, by_time
from headrace.processors.aggregate import StreamAggregate, StreamReduce
from headrace.processors.counting import Add, Zero
from headrace.serdes import Serdes

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.api.engine import Operator
    from headrace.api.options import Grouped, Materialized, Named
    from headrace.api.serde import Serde
    from headrace.api.windows import SlidingWindows, Windows
    from headrace.dsl.cogrouped import CogroupedKStream
    from headrace.dsl.place import Place

K = TypeVar("K")
V = TypeVar("V")
VR = TypeVar("VR")


class KGroupedStream(Generic[K, V]):
    """Records grouped by key, to be aggregated. Made by the library.

    Every aggregation drops records without a key or a value (counted), keeps its rows in a store with a changelog, and
    gives each row the latest of its records' times. Where the key was changed before, the records go through a
    repartition topic first: it is named by :class:`~headrace.api.options.Grouped`, else after the store.

    Attributes:
        at: Where it stands in the logical graph (for the library's own use).
        grouped: What the user said of the grouping (likewise).
    """

    def __init__(self, at: Place, grouped: Grouped[K, V]) -> None:
        self.at = at
        self.grouped = grouped
        self._shared_repartition: int | None = None

    def count(self, materialized: Materialized[K, int] | None = None, named: Named | None = None) -> KTable[K, int]:
        """The number of records of each key.

        Args:
            named: Name of the node.
            materialized: The store.
        """
        if is_unnamed(materialized):
            # Java once took a number here and goes on to do so: later names depend on it
            self.at.scope.names.store(naming.AGGREGATE)
        store = self.at.scope.store(materialized, naming.AGGREGATE, self.grouped.key_serde, Serdes.Long())
        operator = StreamAggregate(store.name, Zero(), Add(1))
        return self._table(named, naming.AGGREGATE, store, operator)

    def reduce(
        self,
        reducer: Callable[[V, V], V | None],
        materialized: Materialized[K, V] | None = None,
        named: Named | None = None,
    ) -> KTable[K, V]:
        """All values of each key combined into one of the same type.

        Args:
            reducer: ``(value so far, new value) -> value``. The first value stands as it is; None deletes the row.
            named: Name of the node.
            materialized: The store.
        """
        grouped = self.grouped
        store = self.at.scope.store(materialized, naming.REDUCE, grouped.key_serde, grouped.value_serde)
        return self._table(named, naming.REDUCE, store, StreamReduce(store.name, reducer))

    def aggregate(
        self,
        initializer: Callable[[], VR],
        aggregator: Callable[[K, V, VR], VR | None],
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
        store = self.at.scope.store(materialized, naming.AGGREGATE, self.grouped.key_serde, None)
        operator = StreamAggregate(store.name, initializer, aggregator)
        return self._table(named, naming.AGGREGATE, store, operator)

    @overload
    def windowed_by(self, windows: Windows | SlidingWindows) -> TimeWindowedKStream[K, V]: ...
    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedKStream[K, V]: ...
    def windowed_by(
        self, windows: Windows | SlidingWindows | SessionWindows
    ) -> TimeWindowedKStream[K, V] | SessionWindowedKStream[K, V]:
        """Group by windows of time too.

        Args:
            windows: :class:`~headrace.api.windows.TimeWindows`, ``SlidingWindows``, ``UnlimitedWindows`` or
                ``SessionWindows``; or windows of your own, see :class:`headrace.api.windows.Windows`.

        Raises:
            TypeError: They are something else, such as the windows of a join.
        """
        if isinstance(windows, SessionWindows):
            return SessionWindowedKStream(self, windows)
        return TimeWindowedKStream(self, by_time(windows))

    def cogroup(self, aggregator: Callable[[K, V, VR], VR | None]) -> CogroupedKStream[K, VR]:
        """Begin an aggregation that other grouped streams join (KIP-150).

        Args:
            aggregator: ``(key, value, aggregate) -> aggregate`` for the records of this one.
        """
        from headrace.dsl.cogrouped import CogroupedKStream

        return CogroupedKStream(self, aggregator)

    def aggregated(self, name: str, store: Store, operator: Operator, key_serde: Serde[Any] | None) -> KTable[Any, Any]:
        """The table that an operator makes of the grouped records. For the library's own use.

        Args:
            name: Name of the node.
            store: Where its rows are.
            operator: The operator.
            key_serde: Of the table's keys.
        """
        at = self._repartitioned(store) if self.at.repartition else self.at
        at = replace(at.add(name, Process(operator, store)), key_serde=key_serde, value_serde=store.value_serde)
        return KTable(at, store.materialized.store_name)

    def _table(self, named: Named | None, prefix: str, store: Store, operator: Operator) -> KTable[K, Any]:
        name = self.at.scope.node_name(name_of(named), prefix)
        return self.aggregated(name, store, operator, store.key_serde)

    def _repartitioned(self, store: Store) -> Place:
        grouped, scope = self.grouped, self.at.scope
        names = naming.repartition_names(scope.names, grouped.name or store.name)
        if self._shared_repartition is None or grouped.name is None:
            named = grouped.name is not None or store.materialized.store_name is not None
            place = self.at.through_topic(names, grouped.key_serde, grouped.value_serde, named=named)
            self._shared_repartition = place.node
            return place
        # aggregations of one grouping with a name share its topic
        scope.graph.connect(self.at.node, self._shared_repartition)
        data = scope.graph.nodes[self._shared_repartition].data
        assert isinstance(data, Repartition)
        source = data.names.source
        return replace(
            self.at, node=self._shared_repartition, name=source, sources=frozenset({source}), repartition=False
        )
