"""Joins of a stream in the logical graph: with a stream, and with a table over a buffer.

Sources: ``kstream.internals.{KStreamImplJoin,KStreamImpl}``, ``kstream.internals.graph.{StreamStreamJoinNode,
StreamTableJoinNode}`` (4.4).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace import naming
from headrace.api.options import Materialized
from headrace.api.stores import VersionedBytesStoreSupplier
from headrace.dsl.graph import ROOT, Process, StateStore, Store, StreamStreamJoin
from headrace.dsl.stores import JoinWindowShape, OuterJoinShape
from headrace.errors import StreamsException
from headrace.processors.stream_joins import JoinWindow, StreamJoinSide, StreamSelfJoin
from headrace.state.suppliers import key_value_supplier
from headrace.state.time_ordered import TimeOrderedBufferBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.api.joins import JoinWindows, StreamJoined
    from headrace.api.options import Joined
    from headrace.api.serde import Serde
    from headrace.api.stores import WindowBytesStoreSupplier
    from headrace.dsl.graph import Graph
    from headrace.dsl.place import Place


def join_streams(
    this: Place,
    other: Place,
    joiner: Callable[..., Any],
    windows: JoinWindows,
    options: StreamJoined[Any, Any, Any],
    *,
    with_key: bool,
    left_outer: bool,
    right_outer: bool,
) -> Place:
    """The place behind a join of the records at two places, which are partitioned alike.

    Raises:
        StreamsException: A store that the user supplied does not fit the join.
    """
    scope, graph = this.scope, this.scope.graph
    this_supplier, other_supplier = options.this_store_supplier, options.other_store_supplier
    names = naming.stream_join_names(
        scope.names,
        options.name,
        options.store_name,
        None if this_supplier is None else this_supplier.name,
        None if other_supplier is None else other_supplier.name,
        left_outer=left_outer,
        right_outer=right_outer,
    )
    _check(this_supplier, other_supplier, windows)
    if options.store_name is None:
        for store, generated in (
            (names.this_store, this_supplier is None),
            (names.other_store, other_supplier is None),
            (names.shared_store, this_supplier is None and left_outer),
        ):
            if generated:
                scope.unnamed.add_store(store, logged=options.logging_enabled)
    waiting = names.shared_store if left_outer else None

    def side(store: str, *, left: bool) -> StreamJoinSide:
        outer = left_outer if left else right_outer
        return StreamJoinSide(store, waiting, windows, joiner, with_key, left, outer)

    graph.add((this.node,), names.this_windowed, Process(JoinWindow(names.this_store)))
    graph.add((other.node,), names.other_windowed, Process(JoinWindow(names.other_store)))
    data = StreamStreamJoin(
        names,
        side(names.other_store, left=True),
        side(names.this_store, left=False),
        StreamSelfJoin(names.this_store, windows, joiner, with_key),
        _window_store(names.this_store, this_supplier, options.value_serde, windows, options),
        _window_store(names.other_store, other_supplier, options.other_value_serde, windows, options),
        _shared_store(names.shared_store, options) if left_outer else None,
    )
    node = graph.add((this.node, other.node), names.merge, data, takes_null_keys=left_outer)
    return replace(
        this,
        node=node,
        name=names.merge,
        # neither side's: nobody knows that both are the same
        key_serde=options.key_serde,
        value_serde=None,
        sources=this.sources | other.sources,
        repartition=False,
    )


def _window_store(
    name: str,
    supplier: WindowBytesStoreSupplier | None,
    value_serde: Serde[Any] | None,
    windows: JoinWindows,
    options: StreamJoined[Any, Any, Any],
) -> Store:
    how: Materialized[Any, Any] = Materialized(
        store_supplier=supplier,
        store_type=None if supplier is not None else options.store_type,
        logging_enabled=options.logging_enabled,
        topic_config=options.topic_config,
    )
    shape = JoinWindowShape(windows.size_ms, windows.size_ms + windows.grace_ms)
    return Store(name, how, options.key_serde, value_serde, shape)


def _shared_store(name: str, options: StreamJoined[Any, Any, Any]) -> Store:
    how: Materialized[Any, Any] = Materialized(
        store_type=options.store_type, logging_enabled=options.logging_enabled, topic_config=options.topic_config
    )
    beside = options.this_store_supplier
    # it is where this side's store is, unless the user says where both are
    persistent = beside.persistent if beside is not None and options.store_type is None else None
    shape = OuterJoinShape(options.other_value_serde, persistent)
    return Store(name, how, options.key_serde, options.value_serde, shape)


def _check(this: WindowBytesStoreSupplier | None, other: WindowBytesStoreSupplier | None, windows: JoinWindows) -> None:
    if this is not None and other is not None and this.name == other.name:
        raise StreamsException(f"both stores of a join have the name {this.name}; each needs its own")
    retention_ms = windows.size_ms + windows.grace_ms
    for supplier in (this, other):
        if supplier is None:
            continue
        if not supplier.retain_duplicates:
            raise StreamsException(f"the store {supplier.name} of a join must be made with retain_duplicates=True")
        if (supplier.window_size_ms, supplier.retention_ms) != (windows.size_ms, retention_ms):
            raise StreamsException(
                f"the store {supplier.name} has windows of {supplier.window_size_ms} ms and a retention of "
                f"{supplier.retention_ms} ms, but its join needs {windows.size_ms} ms and {retention_ms} ms"
            )


def add_buffer(at: Place, name: str, options: Joined[Any, Any, Any]) -> str:
    """The store in which the records of a join with a grace period wait; gives its name."""
    buffer = naming.join_buffer(name)
    assert options.grace_ms is not None, "asked for only then"
    if options.name is None:
        at.scope.unnamed.add_store(buffer, logged=True)
    builder: TimeOrderedBufferBuilder[Any, Any] = TimeOrderedBufferBuilder(
        key_value_supplier(buffer, persistent=True),
        options.key_serde or at.key_serde,
        options.value_serde or at.value_serde,
        grace_ms=options.grace_ms,
    )
    at.scope.graph.add((ROOT,), buffer, StateStore(builder))
    return buffer


def check_history(graph: Graph, store_names: tuple[str, ...], grace_ms: int) -> None:
    """Check that the stores of a table remember its rows for the grace period of a join.

    Raises:
        ValueError: One of them is not versioned, or keeps a shorter history.
    """
    for store in _stores(graph):
        if store.name not in store_names:
            continue
        supplier = store.materialized.store_supplier
        if not isinstance(supplier, VersionedBytesStoreSupplier):
            raise ValueError(
                f"a join with a grace period needs a versioned table, but the store {store.name} is not versioned: "
                "give the table Materialized.as_(Stores.persistent_versioned_key_value_store(...))"
            )
        if supplier.history_retention_ms < grace_ms:
            raise ValueError(
                f"the grace period of a join is {grace_ms} ms, but the versioned store {store.name} of its table keeps "
                f"a history of {supplier.history_retention_ms} ms: it must be at least as long"
            )


def _stores(graph: Graph) -> Iterator[Store]:
    for node in graph.nodes.values():
        store: object = getattr(node.data, "store", None)
        if isinstance(store, Store):
            yield store
