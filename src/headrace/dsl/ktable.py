"""The handle of a table: a stream of changes, each the new row of its key. Source: ``kstream.internals.KTableImpl``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from headrace import naming
from headrace.api.options import Grouped, Materialized, checked, is_unnamed, name_of
from headrace.api.suppressed import EagerBufferConfig, Suppressed
from headrace.dsl import tables
from headrace.dsl.foreign_key import join_on_foreign_key
from headrace.dsl.graph import Process, Store, TableJoin
from headrace.dsl.stores import BufferShape
from headrace.processors.suppress import TableSuppress
from headrace.processors.table_aggregate import TableRepartitionMap
from headrace.processors.table_joins import JoinedRows, TableJoinMerge, TableJoinSide
from headrace.processors.tables import TableFilter, TableMapValues, TableToStream, TableTransformValues
from headrace.topology.topology import check_supplier

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.api.engine import ValueGetterSupplier
    from headrace.api.options import Named, TableJoined
    from headrace.api.processor import ValueTransformerWithKey
    from headrace.api.serde import Serde
    from headrace.dsl.grouped_table import KGroupedTable
    from headrace.dsl.kstream import KStream
    from headrace.dsl.place import Place
    from headrace.processors.rows import TableOperator

K = TypeVar("K")
V = TypeVar("V")
KR = TypeVar("KR")
VR = TypeVar("VR")
KO = TypeVar("KO")
VO = TypeVar("VO")


@dataclass(frozen=True, slots=True)
class _Reversed:
    """A joiner as the other side of the join calls it."""

    joiner: Callable[[Any, Any], Any]

    def __call__(self, left: Any, right: Any) -> Any:
        return self.joiner(right, left)


@dataclass(frozen=True, slots=True)
class _OfValue:
    """A function of the value where one of key and value is called."""

    function: Callable[[Any], Any]

    def __call__(self, key: Any, value: Any) -> Any:
        return self.function(value)


class KTable(Generic[K, V]):
    """A table: the latest value of each key. Made by the library.

    Attributes:
        at: Where it stands in the logical graph (for the library's own use).
    """

    def __init__(self, at: Place, queryable_store_name: str | None = None) -> None:
        self.at = at
        self._queryable_store_name = queryable_store_name

    def queryable_store_name(self) -> str | None:
        """Name of the store that holds the table's rows, under which they can be queried; None when there is none."""
        return self._queryable_store_name

    def value_getter(self) -> ValueGetterSupplier:
        """How the table's rows are read; a table that is only read as changes keeps none until this is called.

        For the library's own use. The stores that it names must be connected to the node that binds it.
        """
        return tables.value_getter(self.at.scope.graph, self.at.node)

    def enable_sending_old_values(self, *, force: bool = True) -> bool:
        """Have the table's changes carry old values; gives whether they do.

        For the library's own use.

        Args:
            force: Make the table keep rows for it, if it does not yet.
        """
        return tables.send_old_values(self.at.scope.graph, self.at.node, force=force)

    # one row at a time

    def filter(
        self,
        predicate: Callable[[K, V], bool],
        materialized: Materialized[K, V] | None = None,
        named: Named | None = None,
    ) -> KTable[K, V]:
        """Only the rows for which ``predicate(key, value)`` holds; a row that no longer does is deleted.

        Args:
            predicate: Called for rows, never for deletions.
            materialized: The store. Only one with a name is made; without it rows that others look up are computed.
            named: Name of the node.
        """
        return self._filter(predicate, materialized, named, negate=False)

    def filter_not(
        self,
        predicate: Callable[[K, V], bool],
        materialized: Materialized[K, V] | None = None,
        named: Named | None = None,
    ) -> KTable[K, V]:
        """As :meth:`filter`, for the rows for which ``predicate(key, value)`` does not hold."""
        return self._filter(predicate, materialized, named, negate=True)

    @overload
    def map_values(
        self,
        mapper: Callable[[V], VR | None],
        materialized: Materialized[K, VR] | None = None,
        named: Named | None = None,
        *,
        with_key: Literal[False] = False,
    ) -> KTable[K, VR]: ...
    @overload
    def map_values(
        self,
        mapper: Callable[[K, V], VR | None],
        materialized: Materialized[K, VR] | None = None,
        named: Named | None = None,
        *,
        with_key: Literal[True],
    ) -> KTable[K, VR]: ...
    def map_values(
        self,
        mapper: Callable[..., Any],
        materialized: Materialized[K, Any] | None = None,
        named: Named | None = None,
        *,
        with_key: bool = False,
    ) -> KTable[K, Any]:
        """Another value for each row: ``mapper(value)``, or ``mapper(key, value)`` with ``with_key=True``.

        Args:
            mapper: Called for rows, never for deletions. None deletes the row. Its argument must not be changed.
            materialized: The store, see :meth:`filter`. Its value serde is the configured default unless given.
            named: Name of the node.
            with_key: The mapper takes the key too.
        """
        self._take_store_number(materialized, naming.TABLE_MAP_VALUES)
        name = self.at.scope.node_name(name_of(named), naming.TABLE_MAP_VALUES)
        operator = TableMapValues(mapper, with_key, _store_name(materialized))
        return self._computed(name, operator, materialized, None)

    def transform_values(
        self,
        supplier: Callable[[], ValueTransformerWithKey[K, V, VR]],
        *store_names: str,
        materialized: Materialized[K, VR] | None = None,
        named: Named | None = None,
    ) -> KTable[K, VR]:
        """Another value for each row by a transformer that may keep state.

        Args:
            supplier: Makes a new transformer at each call: one is made for every task.
            store_names: Stores that it uses.
            materialized: The store of the result, see :meth:`filter`. Without a named one, others that need rows get
                them from transformers of their own, which see none of ``store_names``: give it a name in that case.
            named: Name of the node.

        Raises:
            TopologyException: The supplier gave the same object twice.
        """
        name = self.at.scope.node_name(name_of(named), naming.TABLE_TRANSFORM_VALUES)
        check_supplier(name, supplier, "transform")
        operator = TableTransformValues(supplier, _store_name(materialized))
        return self._computed(name, operator, materialized, None, store_names)

    def _filter(
        self,
        predicate: Callable[[K, V], bool],
        materialized: Materialized[K, V] | None,
        named: Named | None,
        *,
        negate: bool,
    ) -> KTable[K, V]:
        self._take_store_number(materialized, naming.TABLE_FILTER)
        name = self.at.scope.node_name(name_of(named), naming.TABLE_FILTER)
        # where old values are to be had anyway, they spare tombstones for rows that never were
        send_old = self.enable_sending_old_values(force=False)
        operator = TableFilter(predicate, negate, _store_name(materialized), send_old_values=send_old)
        return self._computed(name, operator, materialized, self.at.value_serde)

    def _take_store_number(self, materialized: Materialized[K, Any] | None, prefix: str) -> None:
        if is_unnamed(materialized):
            # no store is made, but its number is taken all the same
            self.at.scope.names.store(prefix)

    def _computed(
        self,
        name: str,
        operator: TableOperator,
        materialized: Materialized[K, Any] | None,
        value_serde: Serde[Any] | None,
        store_names: tuple[str, ...] = (),
    ) -> KTable[K, Any]:
        at, key_serde = self.at, self.at.key_serde
        store = None
        if materialized is not None:
            if materialized.store_name is not None:
                # its serdes are the given ones or the defaults: unlike the result's, they are not inherited
                store = Store(materialized.store_name, materialized, materialized.key_serde, materialized.value_serde)
            key_serde = materialized.key_serde or key_serde
            value_serde = materialized.value_serde or value_serde
        inputs = () if store is not None else (at.node,)
        versioned = None if materialized is None else store is not None and store.versioned
        at = at.add(name, Process(operator, store, store_names, inputs, versioned))
        return KTable(replace(at, key_serde=key_serde, value_serde=value_serde), None if store is None else store.name)

    # groups

    def group_by(
        self, selector: Callable[[K, V], tuple[KR | None, VR | None]], grouped: Grouped[KR, VR] | None = None
    ) -> KGroupedTable[KR, VR]:
        """Group by another key. The rows go through a repartition topic, whether their key changes or not.

        Args:
            selector: ``(key, value) -> (key, value)``. Rows for which either is None belong to no group.
            grouped: Serdes of the topic (else the configured defaults), and its base name and that of the node.
        """
        from headrace.dsl.grouped_table import KGroupedTable

        how: Grouped[KR, VR] = checked(grouped, Grouped) or Grouped()
        name = self.at.scope.node_name(how.name, naming.TABLE_SELECT)
        at = self.at.add(name, Process(TableRepartitionMap(selector)))
        self.enable_sending_old_values()
        return KGroupedTable(at, how)

    # joins

    @overload
    def join(
        self,
        table: KTable[K, VO],
        joiner: Callable[[V, VO], VR | None],
        materialized: Materialized[K, VR] | None = None,
        named: Named | None = None,
    ) -> KTable[K, VR]: ...
    @overload
    def join(
        self,
        table: KTable[KO, VO],
        joiner: Callable[[V, VO], VR | None],
        materialized: Materialized[K, VR] | None = None,
        *,
        foreign_key_extractor: Callable[[V], KO | None],
        table_joined: TableJoined[K, KO] | None = None,
        with_key: Literal[False] = False,
    ) -> KTable[K, VR]: ...
    @overload
    def join(
        self,
        table: KTable[KO, VO],
        joiner: Callable[[V, VO], VR | None],
        materialized: Materialized[K, VR] | None = None,
        *,
        foreign_key_extractor: Callable[[K, V], KO | None],
        table_joined: TableJoined[K, KO] | None = None,
        with_key: Literal[True],
    ) -> KTable[K, VR]: ...
    def join(
        self,
        table: KTable[Any, VO],
        joiner: Callable[..., Any],
        materialized: Materialized[K, Any] | None = None,
        named: Named | None = None,
        *,
        foreign_key_extractor: Callable[..., Any] | None = None,
        table_joined: TableJoined[K, Any] | None = None,
        with_key: bool = False,
    ) -> KTable[K, Any]:
        """The rows of both tables that belong together: by their key, or by a foreign key.

        By the key, the topics of both need one partition count. By a foreign key, each row of this table refers to one
        row of the other: both sides are told of each other's changes through two internal topics, and the store of one
        side's subscriptions lies with the other. The result then has this table's keys.

        Args:
            table: The other table.
            joiner: ``(own value, other value) -> value``. None deletes the row.
            materialized: The store of the result. Without a name it is only made when the rows are looked up (by the
                key: always; without it they are joined when they are looked up).
            named: Of a join by the key: name of the node, and with ``-join-this`` and ``-join-other`` behind it of its
                sides.
            foreign_key_extractor: Key of the other table's row, of an own ``value``, or of ``(key, value)`` with
                ``with_key=True``. A row without one (None) is joined with nothing.
            table_joined: Of a join by a foreign key: name and partitioners.
            with_key: The extractor takes the key too.
        """
        if foreign_key_extractor is not None:
            extractor = foreign_key_extractor if with_key else _OfValue(foreign_key_extractor)
            return self._foreign_join(table, extractor, joiner, table_joined, materialized, keep_left=False)
        return self._join(table, joiner, materialized, named, needs_left=True, needs_right=True)

    @overload
    def left_join(
        self,
        table: KTable[K, VO],
        joiner: Callable[[V, VO | None], VR | None],
        materialized: Materialized[K, VR] | None = None,
        named: Named | None = None,
    ) -> KTable[K, VR]: ...
    @overload
    def left_join(
        self,
        table: KTable[KO, VO],
        joiner: Callable[[V, VO | None], VR | None],
        materialized: Materialized[K, VR] | None = None,
        *,
        foreign_key_extractor: Callable[[V], KO | None],
        table_joined: TableJoined[K, KO] | None = None,
        with_key: Literal[False] = False,
    ) -> KTable[K, VR]: ...
    @overload
    def left_join(
        self,
        table: KTable[KO, VO],
        joiner: Callable[[V, VO | None], VR | None],
        materialized: Materialized[K, VR] | None = None,
        *,
        foreign_key_extractor: Callable[[K, V], KO | None],
        table_joined: TableJoined[K, KO] | None = None,
        with_key: Literal[True],
    ) -> KTable[K, VR]: ...
    def left_join(
        self,
        table: KTable[Any, VO],
        joiner: Callable[..., Any],
        materialized: Materialized[K, Any] | None = None,
        named: Named | None = None,
        *,
        foreign_key_extractor: Callable[..., Any] | None = None,
        table_joined: TableJoined[K, Any] | None = None,
        with_key: bool = False,
    ) -> KTable[K, Any]:
        """As :meth:`join`, for each row of this table; the other value is None where there is none."""
        if foreign_key_extractor is not None:
            extractor = foreign_key_extractor if with_key else _OfValue(foreign_key_extractor)
            return self._foreign_join(table, extractor, joiner, table_joined, materialized, keep_left=True)
        return self._join(table, joiner, materialized, named, needs_left=True, needs_right=False)

    def outer_join(
        self,
        table: KTable[K, VO],
        joiner: Callable[[V | None, VO | None], VR | None],
        materialized: Materialized[K, VR] | None = None,
        named: Named | None = None,
    ) -> KTable[K, VR]:
        """As :meth:`join`, for each row of either table; the value of the one that has none is None."""
        return self._join(table, joiner, materialized, named, needs_left=False, needs_right=False)

    def _join(
        self,
        table: KTable[K, VO],
        joiner: Callable[..., Any],
        materialized: Materialized[K, Any] | None,
        named: Named | None,
        *,
        needs_left: bool,
        needs_right: bool,
    ) -> KTable[K, Any]:
        at, scope = self.at, self.at.scope
        at.check_same_builder(table.at)
        store = None if materialized is None else scope.store(materialized, naming.TABLE_MERGE, at.key_serde, None)
        given = name_of(named)
        name = scope.node_name(given, naming.TABLE_MERGE)
        sources = at.sources | table.at.sources
        scope.graph.copartitioned.append(sources)
        # where a row may be without the other one, its end must be told from one that never was
        if not needs_right:
            self.enable_sending_old_values()
        if not needs_left:
            table.enable_sending_old_values()
        left, right = self.value_getter(), table.value_getter()
        joined = JoinedRows(left, right, joiner, needs_left, needs_right)
        data = TableJoin(
            at.node,
            table.at.node,
            naming.suffixed(scope.names, given, "-join-this", naming.TABLE_JOIN_THIS),
            naming.suffixed(scope.names, given, "-join-other", naming.TABLE_JOIN_OTHER),
            TableJoinSide(right, joiner, needs_left, needs_right),
            TableJoinSide(left, _Reversed(joiner), needs_right, needs_left),
            TableJoinMerge(None if store is None else store.name, joined),
            store,
        )
        node = scope.graph.add((at.node, table.at.node), name, data)
        key_serde, value_serde = (at.key_serde, None) if store is None else (store.key_serde, store.value_serde)
        at = replace(at, node=node, name=name, key_serde=key_serde, value_serde=value_serde, sources=sources)
        return KTable(at, None if store is None else store.name)

    def _foreign_join(
        self,
        table: KTable[Any, VO],
        extractor: Callable[[Any, Any], Any],
        joiner: Callable[..., Any],
        table_joined: TableJoined[K, Any] | None,
        materialized: Materialized[K, Any] | None,
        *,
        keep_left: bool,
    ) -> KTable[K, Any]:
        at, store = join_on_foreign_key(
            self.at, table.at, extractor, joiner, table_joined, materialized, keep_left=keep_left
        )
        return KTable(at, store.name)

    # to a stream

    def suppress(self, suppressed: Suppressed[K]) -> KTable[K, V]:
        """Hold changes back, so that fewer of them go on.

        What waits is kept in a buffer in memory, with a changelog, and goes on when stream time has moved far enough:
        while no records come, nothing is emitted.

        Args:
            suppressed: For how long, how much, and the name. The table that it makes is not stored: its rows are those
                that were emitted.

        Raises:
            TopologyException: It waits for windows to close, but the table has no windows; or the table is versioned.
        """
        checked(suppressed, Suppressed)
        at, buffer = self.at, suppressed.buffer
        scope = at.scope
        name = suppressed.name or scope.names.processor(naming.TABLE_SUPPRESS)
        final = suppressed.wait_ms is None
        wait = tables.closes_after_ms(scope.graph, at.node) if suppressed.wait_ms is None else suppressed.wait_ms
        if suppressed.name is None:
            store_name = scope.names.store(naming.TABLE_SUPPRESS)
            if buffer.logging_enabled:
                scope.unnamed.add_changelog(store_name)
        else:
            store_name = naming.suppress_store(suppressed.name)
        # the buffer keeps what was emitted before, and shows it to whoever looks rows up
        self.enable_sending_old_values()
        limits = buffer.record_limit, buffer.byte_limit
        operator = TableSuppress(store_name, wait, final, *limits, isinstance(buffer, EagerBufferConfig))
        how: Materialized[K, V] = Materialized(logging_enabled=buffer.logging_enabled, topic_config=buffer.topic_config)
        store = Store(store_name, how, at.key_serde, at.value_serde, BufferShape())
        made = at.add(name, Process(operator, store, inputs=(at.node,)))
        return KTable(replace(made, sources=frozenset({at.name})))

    @overload
    def to_stream(self, *, named: Named | None = None) -> KStream[K, V]: ...
    @overload
    def to_stream(self, mapper: Callable[[K, V], KR], named: Named | None = None) -> KStream[KR, V]: ...
    def to_stream(self, mapper: Callable[[K, V], Any] | None = None, named: Named | None = None) -> KStream[Any, V]:
        """The changes as a stream: a deleted row is a record whose value is None.

        Args:
            mapper: ``(key, value) -> key`` gives the records another key.
            named: Name of the node.

        Raises:
            TypeError: The mapper cannot be called; a name that is given alone is ``named=``.
        """
        from headrace.dsl.kstream import KStream

        if mapper is not None and not callable(mapper):  # pyright: ignore[reportUnnecessaryComparison]  # a user's object
            raise TypeError(f"to_stream takes a function first, and a name as named=, not {mapper!r}")
        stream: KStream[Any, V] = KStream(
            replace(self.at.add_operator(named, naming.TABLE_TO_STREAM, TableToStream()), repartition=False)
        )
        return stream if mapper is None else stream.select_key(mapper)


def _store_name(materialized: Materialized[Any, Any] | None) -> str | None:
    given = checked(materialized, Materialized)
    return None if given is None else given.store_name
