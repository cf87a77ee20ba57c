"""The handle of a stream of records, and that of a split one. Source: ``kstream.internals.KStreamImpl`` (4.4)."""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from headrace import naming
from headrace.api.joins import JoinWindows, StreamJoined
from headrace.api.options import Branched, Grouped, Joined, Produced, Repartitioned, checked, name_of
from headrace.api.printed import Printed
from headrace.dsl.global_table import GlobalKTable, join_with_global
from headrace.dsl.graph import Process, Sink, Split, StreamToTable
from headrace.dsl.grouped import KGroupedStream
from headrace.dsl.ktable import KTable
from headrace.dsl.stream_joins import add_buffer, check_history, join_streams
from headrace.processors.joins import BufferedStreamTableJoin, StreamTableJoin
from headrace.processors.papi import UserFixedKeyProcessor, UserProcessor
from headrace.processors.printing import StreamPrint
from headrace.processors.stateless import (
    PassThrough,
    StreamFilter,
    StreamFlatMap,
    StreamFlatMapValues,
    StreamForeach,
    StreamMap,
    StreamMapValues,
    StreamMerge,
    StreamPeek,
    StreamSelectKey,
)
from headrace.topology.topology import check_supplier, stores_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.api.engine import Operator
    from headrace.api.options import Materialized, Named
    from headrace.api.processor import FixedKeyProcessor, Processor
    from headrace.api.record import RecordContext
    from headrace.api.serde import Serde
    from headrace.dsl.place import Place

K = TypeVar("K")
V = TypeVar("V")
KR = TypeVar("KR")
VR = TypeVar("VR")
VO = TypeVar("VO")
KO = TypeVar("KO")


class KStream(Generic[K, V]):
    """A stream of records with keys ``K`` and values ``V``. Made by :class:`~headrace.dsl.StreamsBuilder`.

    An operation that gives another key marks the stream: the next grouping, join or table goes through a repartition
    topic, so that records of one key meet in one task.

    Attributes:
        at: Where it stands in the logical graph (for the library's own use).
    """

    def __init__(self, at: Place) -> None:
        self.at = at
        self._repartition: int | None = None

    # one record at a time

    def filter(self, predicate: Callable[[K, V], bool], named: Named | None = None) -> KStream[K, V]:
        """Only the records for which ``predicate(key, value)`` holds."""
        return KStream(self.at.add_operator(named, naming.FILTER, StreamFilter(predicate, negate=False)))

    def filter_not(self, predicate: Callable[[K, V], bool], named: Named | None = None) -> KStream[K, V]:
        """Only the records for which ``predicate(key, value)`` does not hold."""
        return KStream(self.at.add_operator(named, naming.FILTER, StreamFilter(predicate, negate=True)))

    def select_key(self, mapper: Callable[[K, V], KR], named: Named | None = None) -> KStream[KR, V]:
        """Another key: ``mapper(key, value)``."""
        return KStream(self.at.add_operator(named, naming.KEY_SELECT, StreamSelectKey(mapper)).new_key())

    def map(self, mapper: Callable[[K, V], tuple[KR, VR]], named: Named | None = None) -> KStream[KR, VR]:
        """Another key and value: ``mapper(key, value)`` gives both as a tuple."""
        return KStream(self.at.add_operator(named, naming.MAP, StreamMap(mapper)).new_key().new_value())

    @overload
    def map_values(
        self, mapper: Callable[[V], VR], named: Named | None = None, *, with_key: Literal[False] = False
    ) -> KStream[K, VR]: ...
    @overload
    def map_values(
        self, mapper: Callable[[K, V], VR], named: Named | None = None, *, with_key: Literal[True]
    ) -> KStream[K, VR]: ...
    def map_values(
        self, mapper: Callable[..., Any], named: Named | None = None, *, with_key: bool = False
    ) -> KStream[K, Any]:
        """Another value: ``mapper(value)``, or ``mapper(key, value)`` with ``with_key=True``. The key stays."""
        return KStream(self.at.add_operator(named, naming.MAP_VALUES, StreamMapValues(mapper, with_key)).new_value())

    def flat_map(
        self, mapper: Callable[[K, V], Iterable[tuple[KR, VR]]], named: Named | None = None
    ) -> KStream[KR, VR]:
        """Any number of new records: ``mapper(key, value)`` gives ``(key, value)`` tuples."""
        return KStream(self.at.add_operator(named, naming.FLAT_MAP, StreamFlatMap(mapper)).new_key().new_value())

    @overload
    def flat_map_values(
        self, mapper: Callable[[V], Iterable[VR]], named: Named | None = None, *, with_key: Literal[False] = False
    ) -> KStream[K, VR]: ...
    @overload
    def flat_map_values(
        self, mapper: Callable[[K, V], Iterable[VR]], named: Named | None = None, *, with_key: Literal[True]
    ) -> KStream[K, VR]: ...
    def flat_map_values(
        self, mapper: Callable[..., Iterable[Any]], named: Named | None = None, *, with_key: bool = False
    ) -> KStream[K, Any]:
        """Any number of values under the same key: ``mapper(value)``, or ``mapper(key, value)`` with ``with_key``."""
        operator = StreamFlatMapValues(mapper, with_key)
        return KStream(self.at.add_operator(named, naming.FLAT_MAP_VALUES, operator).new_value())

    def peek(self, action: Callable[[K, V], object], named: Named | None = None) -> KStream[K, V]:
        """Call ``action(key, value)`` for each record and pass it on as it is."""
        return KStream(self.at.add_operator(named, naming.PEEK, StreamPeek(action)))

    def for_each(self, action: Callable[[K, V], object], named: Named | None = None) -> None:
        """Call ``action(key, value)`` for each record; nothing follows it. Java's ``foreach``."""
        self.at.add_operator(named, naming.FOREACH, StreamForeach(action))

    def print(self, printed: Printed[K, V]) -> None:
        """Print each record as a line; nothing follows it.

        Args:
            printed: Where and how, and the name of the node.
        """
        checked(printed, Printed)
        # as in Java, the label is the name of this node, not of the one that prints
        label = self.at.name if printed.label is None else printed.label
        name = self.at.scope.node_name(printed.name, naming.PRINTING)
        self.at.add(name, Process(StreamPrint(printed, label)))

    # streams apart and together

    def merge(self, other: KStream[K, V], named: Named | None = None) -> KStream[K, V]:
        """The records of both streams, in no particular order between them. Serdes are not inherited."""
        at, scope = self.at, self.at.scope
        at.check_same_builder(other.at)
        name = scope.node_name(name_of(named), naming.MERGE)
        return KStream(
            replace(
                at,
                node=scope.graph.add((at.node, other.at.node), name, Process(StreamMerge())),
                name=name,
                key_serde=None,
                value_serde=None,
                sources=at.sources | other.at.sources,
                repartition=at.repartition or other.at.repartition,
            )
        )

    def split(self, named: Named | None = None) -> BranchedKStream[K, V]:
        """Begin to split the stream: each record goes to the first branch whose predicate holds.

        Args:
            named: Prefix of the branches' names.
        """
        return BranchedKStream(self.at, named)

    # topics

    def to(self, topic: str | Callable[[K, V, RecordContext], str], produced: Produced[K, V] | None = None) -> None:
        """Write the records to a topic. It is not created.

        Args:
            topic: Name of the topic; or a function ``(key, value, context) -> name`` that chooses one for each record
                (``TopicNameExtractor`` in Java). A record for a topic that does not exist goes to the production
                exception handler.
            produced: Serdes (else the stream's own), partitioner, name of the node.
        """
        how: Produced[K, V] = checked(produced, Produced) or Produced()
        at = self.at
        name = at.scope.node_name(how.name, naming.SINK)
        sink = Sink(topic, how.key_serde or at.key_serde, how.value_serde or at.value_serde, how.partitioner)
        at.add(name, sink)

    def repartition(self, repartitioned: Repartitioned[K, V] | None = None) -> KStream[K, V]:
        """Write the records to an internal topic and read them back, by their key's partition.

        Args:
            repartitioned: Name, serdes, partitioner and partition count of the topic.
        """
        how: Repartitioned[K, V] = checked(repartitioned, Repartitioned) or Repartitioned()
        at = self.at
        base = at.scope.names.processor(naming.REPARTITION) if how.name is None else how.name
        names = naming.repartition_names(at.scope.names, base)
        value_serde = how.value_serde or at.value_serde
        place = at.through_topic(
            names,
            how.key_serde,
            value_serde,
            how.partitioner,
            how.number_of_partitions,
            named=how.name is not None,
            explicit=True,
        )
        # the topic is read and written with the given key serde only; what follows inherits as usual
        return KStream(replace(place, key_serde=how.key_serde or at.key_serde))

    # tables and groups

    def to_table(self, materialized: Materialized[K, V] | None = None, named: Named | None = None) -> KTable[K, V]:
        """The stream read as a table: each record is the new row of its key, None deletes it.

        Args:
            named: Name of the node, and base name of the repartition topic where one is needed.
            materialized: The store. Without a name it is only made when the table's rows are looked up.
        """
        at, scope = self.at, self.at.scope
        name = scope.node_name(name_of(named), naming.TO_TABLE)
        inherited = (at.key_serde, at.value_serde) if materialized is None else (None, None)
        store = scope.store(materialized, naming.TO_TABLE, *inherited)
        key_serde, value_serde = store.key_serde or at.key_serde, store.value_serde or at.value_serde
        if at.repartition:
            names = naming.repartition_names(scope.names, name)
            at = at.through_topic(names, key_serde, value_serde, named=named is not None)
        is_named = store.materialized.store_name is not None
        at = at.add(name, StreamToTable(store, stored=is_named))
        return KTable(replace(at, key_serde=key_serde, value_serde=value_serde), store.materialized.store_name)

    def group_by_key(self, grouped: Grouped[K, V] | None = None) -> KGroupedStream[K, V]:
        """Group by the key as it is.

        Args:
            grouped: Serdes and the repartition topic's name; without it the stream's own serdes.
        """
        how: Grouped[K, V] = checked(grouped, Grouped) or Grouped(self.at.key_serde, self.at.value_serde)
        return KGroupedStream(self.at, how)

    def group_by(
        self, key_selector: Callable[[K, V], KR | None], grouped: Grouped[KR, V] | None = None
    ) -> KGroupedStream[KR, V]:
        """Group by another key: ``key_selector(key, value)``.

        Args:
            key_selector: Gives the key. Records for which it gives None are dropped.
            grouped: Serdes and name; without it the default key serde and the stream's own value serde.
        """
        how: Grouped[KR, V] = checked(grouped, Grouped) or Grouped(value_serde=self.at.value_serde)
        name = self.at.scope.node_name(how.name, naming.KEY_SELECT)
        return KGroupedStream(self.at.add(name, Process(StreamSelectKey(key_selector))).new_key(), how)

    # joins

    @overload
    def join(
        self,
        other: KStream[K, VO],
        /,
        joiner: Callable[[V, VO], VR],
        windows: JoinWindows,
        stream_joined: StreamJoined[K, V, VO] | None = None,
        *,
        with_key: Literal[False] = False,
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        other: KStream[K, VO],
        /,
        joiner: Callable[[K, V, VO], VR],
        windows: JoinWindows,
        stream_joined: StreamJoined[K, V, VO] | None = None,
        *,
        with_key: Literal[True],
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        other: KTable[K, VO],
        /,
        joiner: Callable[[V, VO], VR],
        joined: Joined[K, V, VO] | None = None,
        *,
        with_key: Literal[False] = False,
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        other: KTable[K, VO],
        /,
        joiner: Callable[[K, V, VO], VR],
        joined: Joined[K, V, VO] | None = None,
        *,
        with_key: Literal[True],
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        other: GlobalKTable[KO, VO],
        /,
        key_selector: Callable[[K, V], KO | None],
        joiner: Callable[[V, VO], VR],
        named: Named | None = None,
        *,
        with_key: Literal[False] = False,
    ) -> KStream[K, VR]: ...
    @overload
    def join(
        self,
        other: GlobalKTable[KO, VO],
        /,
        key_selector: Callable[[K, V], KO | None],
        joiner: Callable[[K, V, VO], VR],
        named: Named | None = None,
        *,
        with_key: Literal[True],
    ) -> KStream[K, VR]: ...
    def join(self, other: Any, /, *args: Any, **kwargs: Any) -> KStream[K, Any]:
        """Put each record together with what another stream or a table has under its key; nothing there, no result.

        With a **stream**: ``join(other, joiner, windows, stream_joined=None)``. Records of both meet when they have one
        key and their times are as close as the windows say; each pair gives a result, with the later of both times.
        Each side keeps its records as long as one may still come that meets them, in a store with a changelog. A
        stream joined with itself gives each pair in both orders, and each record with itself.

        With a **table**: ``join(table, joiner, joined=None)``. Each record is joined with the row that its key has at
        that moment, in a versioned table with the one that it had at the record's time; changes of the table give no
        results. With a grace period (``joined``, versioned tables only) records first wait until stream time is ahead
        of them by it, and are joined in the order of their times; one that comes later than that is joined at once.

        With a **global table**: ``join(table, key_selector, joiner, named=None)``. The key that is looked up is
        ``key_selector(key, value)``, and the result keeps the record's own key. Records for which the selector gives
        None are dropped (counted).

        The topics of both sides need one partition count, but for a global table. Records without a key or a value are
        dropped (counted).

        Args:
            other: The stream or table.
            *args: The ``joiner``: ``(value, other value)`` to the result's value. With a stream then the ``windows``,
                how far apart the times of two records may be, and ``stream_joined``, serdes and stores and the names of
                nodes, stores and repartition topics. With a table ``joined``, serdes and grace period and the name of
                the node and of the repartition topic. With a global table ``key_selector`` before, ``named`` after it.
            **kwargs: The same by name; ``with_key=True`` for a joiner that takes ``(key, value, other value)``.

        Raises:
            StreamsException: A supplied store does not fit the windows.
            ValueError: There is a grace period, but the table is not versioned or keeps a shorter history.
        """
        return self._join(other, args, kwargs, left=False)

    @overload
    def left_join(
        self,
        other: KStream[K, VO],
        /,
        joiner: Callable[[V, VO | None], VR],
        windows: JoinWindows,
        stream_joined: StreamJoined[K, V, VO] | None = None,
        *,
        with_key: Literal[False] = False,
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KStream[K, VO],
        /,
        joiner: Callable[[K, V, VO | None], VR],
        windows: JoinWindows,
        stream_joined: StreamJoined[K, V, VO] | None = None,
        *,
        with_key: Literal[True],
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KTable[K, VO],
        /,
        joiner: Callable[[V, VO | None], VR],
        joined: Joined[K, V, VO] | None = None,
        *,
        with_key: Literal[False] = False,
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        other: KTable[K, VO],
        /,
        joiner: Callable[[K, V, VO | None], VR],
        joined: Joined[K, V, VO] | None = None,
        *,
        with_key: Literal[True],
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        other: GlobalKTable[KO, VO],
        /,
        key_selector: Callable[[K, V], KO | None],
        joiner: Callable[[V, VO | None], VR],
        named: Named | None = None,
        *,
        with_key: Literal[False] = False,
    ) -> KStream[K, VR]: ...
    @overload
    def left_join(
        self,
        other: GlobalKTable[KO, VO],
        /,
        key_selector: Callable[[K, V], KO | None],
        joiner: Callable[[K, V, VO | None], VR],
        named: Named | None = None,
        *,
        with_key: Literal[True],
    ) -> KStream[K, VR]: ...
    def left_join(self, other: Any, /, *args: Any, **kwargs: Any) -> KStream[K, Any]:
        """As :meth:`join`, but what meets nothing is joined with None.

        With a **stream**: a record that met none gives a result with its own time, once a record of either side has
        moved stream time past the end of its window and the grace period, and looks are at least a second apart. A
        record without a key, or one that comes later than that, gives it at once.

        With a **table**: a record without a row, or without a key, is joined with None. Not together with a grace
        period: there a record without a key is an error, as in Java.
        """
        return self._join(other, args, kwargs, left=True)

    @overload
    def outer_join(
        self,
        other: KStream[K, VO],
        joiner: Callable[[V | None, VO | None], VR],
        windows: JoinWindows,
        stream_joined: StreamJoined[K, V, VO] | None = None,
        *,
        with_key: Literal[False] = False,
    ) -> KStream[K, VR]: ...
    @overload
    def outer_join(
        self,
        other: KStream[K, VO],
        joiner: Callable[[K, V | None, VO | None], VR],
        windows: JoinWindows,
        stream_joined: StreamJoined[K, V, VO] | None = None,
        *,
        with_key: Literal[True],
    ) -> KStream[K, VR]: ...
    def outer_join(
        self,
        other: KStream[K, Any],
        joiner: Callable[..., Any],
        windows: JoinWindows,
        stream_joined: StreamJoined[K, V, Any] | None = None,
        *,
        with_key: bool = False,
    ) -> KStream[K, Any]:
        """As :meth:`left_join` with a stream, for the records of both: what meets nothing is joined with None."""
        return self._join_stream(
            other, joiner, windows, stream_joined, with_key=with_key, left_outer=True, right_outer=True
        )

    def _join(self, other: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, left: bool) -> KStream[K, Any]:
        kind = type(other).__name__
        join: Callable[..., KStream[K, Any]]
        chosen: dict[str, Any] = {"left": left}
        if isinstance(other, KStream):
            join, chosen = self._join_stream, {"left_outer": left, "right_outer": False}
        elif isinstance(other, KTable):
            join = self._join_table
        elif isinstance(other, GlobalKTable):
            join = self._join_global
        else:
            raise TypeError(f"a KStream is joined with a stream or a table, not with a {kind}")
        try:
            bound = signature(join).bind(other, *args, **kwargs, **chosen)
        except TypeError as e:
            name = "left_join" if left else "join"
            raise TypeError(f"KStream.{name}() with a {kind}: {e}") from None
        return join(*bound.args, **bound.kwargs)

    def _join_global(
        self,
        table: GlobalKTable[Any, Any],
        key_selector: Callable[[K, V], Any],
        joiner: Callable[..., Any],
        named: Named | None = None,
        *,
        with_key: bool = False,
        left: bool,
    ) -> KStream[K, Any]:
        return KStream(join_with_global(self.at, table, key_selector, joiner, named, left=left, with_key=with_key))

    def _join_stream(
        self,
        other: KStream[K, Any],
        joiner: Callable[..., Any],
        windows: JoinWindows,
        stream_joined: StreamJoined[K, V, Any] | None = None,
        *,
        with_key: bool = False,
        left_outer: bool,
        right_outer: bool,
    ) -> KStream[K, Any]:
        how: StreamJoined[K, V, Any] = checked(stream_joined, StreamJoined) or StreamJoined()
        checked(windows, JoinWindows)
        self.at.check_same_builder(other.at)
        left, right, named = self.at, other.at, how.name is not None
        if left.repartition:
            base = naming.left_repartition(how.name, left.name)
            left = self._repartitioned_for_join(base, how.key_serde, how.value_serde, named=named)
        if right.repartition:
            base = naming.right_repartition(how.name, right.name)
            right = other._repartitioned_for_join(base, how.key_serde, how.other_value_serde, named=named)
        self.at.scope.graph.copartitioned.append(left.sources | right.sources)
        return KStream(
            join_streams(
                left,
                right,
                joiner,
                windows,
                how,
                with_key=with_key,
                left_outer=left_outer,
                right_outer=right_outer,
            )
        )

    def _join_table(
        self,
        table: KTable[K, Any],
        joiner: Callable[..., Any],
        joined: Joined[K, V, Any] | None = None,
        *,
        with_key: bool = False,
        left: bool,
    ) -> KStream[K, Any]:
        how: Joined[K, V, Any] = checked(joined, Joined) or Joined()
        at, scope = self.at, self.at.scope
        at.check_same_builder(table.at)
        if at.repartition:
            at = self._repartitioned_for_join(
                how.name or at.name, how.key_serde, how.value_serde, named=how.name is not None
            )
        sources = at.sources | table.at.sources
        scope.graph.copartitioned.append(sources)
        name = scope.node_name(how.name, naming.LEFT_JOIN if left else naming.JOIN)
        rows = table.value_getter()
        join = StreamTableJoin(rows, joiner, left, with_key)
        operator: Operator = join
        store_names = rows.store_names
        if how.grace_ms is not None:
            check_history(scope.graph, store_names, how.grace_ms)
            buffer = add_buffer(at, name, how)
            operator, store_names = BufferedStreamTableJoin(join, buffer), (*store_names, buffer)
        at = at.add(name, Process(operator, store_names=store_names), takes_null_keys=left)
        key_serde = how.key_serde or at.key_serde
        return KStream(replace(at, key_serde=key_serde, value_serde=None, sources=sources, repartition=False))

    def _repartitioned_for_join(
        self, base: str, key_serde: Serde[K] | None, value_serde: Serde[V] | None, *, named: bool
    ) -> Place:
        at = self.at
        key_serde, value_serde = key_serde or at.key_serde, value_serde or at.value_serde
        names = naming.repartition_names(at.scope.names, base)
        if self._repartition is None or base != at.name:
            place = at.through_topic(names, key_serde, value_serde, named=named)
            self._repartition = place.node
            return place
        # joins of one handle share a repartition that the user did not name: the second one's names are taken in vain
        return replace(
            at,
            node=self._repartition,
            name=names.source,
            key_serde=key_serde,
            value_serde=value_serde,
            sources=frozenset({names.source}),
            repartition=False,
        )

    # Processor API

    def process(
        self, supplier: Callable[[], Processor[K, V, KR, VR]], *store_names: str, named: Named | None = None
    ) -> KStream[KR, VR]:
        """Hand the records to a processor, which may forward anything.

        The result counts as having another key; the processor itself sees the records as they come, without a
        repartition before it.

        Args:
            supplier: Makes a new processor at each call: one is made for every task. When it has a method ``stores()``,
                the builders that it gives are added and connected to this node.
            store_names: Other stores that it uses.
            named: Name of the node.

        Raises:
            TopologyException: The supplier gave the same object twice.
        """
        name = self._processor_name(named, naming.PROCESSOR)
        check_supplier(name, supplier)
        data = Process(UserProcessor(supplier), store_names=store_names, brought=stores_of(supplier))
        return KStream(self.at.add(name, data).new_key().new_value())

    def process_values(
        self, supplier: Callable[[], FixedKeyProcessor[K, V, VR]], *store_names: str, named: Named | None = None
    ) -> KStream[K, VR]:
        """As :meth:`process`, with a processor that cannot change the key: no repartition follows."""
        name = self._processor_name(named, naming.PROCESS_VALUES)
        check_supplier(name, supplier)
        data = Process(UserFixedKeyProcessor(supplier), store_names=store_names, brought=stores_of(supplier))
        return KStream(self.at.add(name, data).new_value())

    def _processor_name(self, named: Named | None, prefix: str) -> str:
        # unlike other operations, these take no number when they are named
        return name_of(named) or self.at.scope.names.processor(prefix)


class BranchedKStream(Generic[K, V]):
    """A stream that is being split. End with :meth:`default_branch` or :meth:`no_default_branch`.

    Both give a map of the branches' streams. Its keys, also the nodes' names, are the split's name followed by the
    branch's own; a branch without a name has its number from 1 on, the default branch 0.
    """

    def __init__(self, at: Place, named: Named | None) -> None:
        self._source = at
        name = at.scope.node_name(name_of(named), naming.BRANCH)
        self._split = at.add(name, Split((), ()))
        self._branches: dict[str, KStream[K, V]] = {}

    def branch(
        self, predicate: Callable[[K, V], bool], branched: Branched[KStream[K, V]] | None = None
    ) -> BranchedKStream[K, V]:
        """One more branch, of the records for which ``predicate(key, value)`` holds and no earlier one's did."""
        self._add(predicate, branched, len(self._data.predicates) + 1)
        return self

    def default_branch(self, branched: Branched[KStream[K, V]] | None = None) -> dict[str, KStream[K, V]]:
        """The branch of all other records; gives the map of branches."""
        self._add(None, branched, 0)
        return self._branches

    def no_default_branch(self) -> dict[str, KStream[K, V]]:
        """Drop all other records; gives the map of branches."""
        return self._branches

    @property
    def _data(self) -> Split:
        data = self._source.scope.graph.nodes[self._split.node].data
        assert isinstance(data, Split)
        return data

    def _add(
        self, predicate: Callable[[K, V], bool] | None, branched: Branched[KStream[K, V]] | None, index: int
    ) -> None:
        how: Branched[KStream[K, V]] = checked(branched, Branched) or Branched()
        scope, data = self._source.scope, self._data
        name = naming.branch(self._split.name, index if how.name is None else how.name)
        scope.names.processor(naming.BRANCH)  # taken, and the branch's own name used
        scope.graph.nodes[self._split.node].data = Split((*data.predicates, predicate), (*data.child_names, name))
        stream: KStream[K, V] = KStream(self._split.add(name, Process(PassThrough())))
        if how.chain_function is not None:
            result = how.chain_function(stream)
            if result is not None:
                self._branches[name] = result
        elif how.chain_consumer is not None:
            how.chain_consumer(stream)
        else:
            self._branches[name] = stream
