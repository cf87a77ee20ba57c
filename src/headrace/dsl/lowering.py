"""From the logical graph to a topology: every node is written once its parents are.

Source: ``GraphNode.writeToTopology`` (4.4).
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import singledispatch
from typing import TYPE_CHECKING, Any

from headrace.api.timestamps import FailOnInvalidTimestamp
from headrace.dsl.graph import (
    ROOT,
    GlobalSource,
    Graph,
    Node,
    Process,
    Repartition,
    Root,
    Sink,
    Split,
    StateStore,
    Store,
    StreamSource,
    StreamStreamJoin,
    StreamToTable,
    TableJoin,
    TableSource,
    ThroughTopic,
)
from headrace.processors import tables
from headrace.processors.stateless import NullKeyFilter, PassThrough, StreamBranch
from headrace.serdes import WindowedSerializer, WindowedStreamPartitioner
from headrace.topology import Topology
from headrace.topology.built import SourceSpec

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping

    from headrace.api.engine import Operator
    from headrace.api.serde import Deserializer, Serde, Serializer
    from headrace.dsl.graph import NodeData
    from headrace.dsl.stores import StoreDefaults
    from headrace.state.builders import AnyStoreBuilder


def lower(graph: Graph, defaults: StoreDefaults, config: Mapping[str, Any]) -> Topology:
    """The topology of a graph whose passes have run.

    Args:
        graph: The graph.
        defaults: What the configuration says of stores.
        config: Settings for the topology.

    Raises:
        TopologyException: Two nodes or stores have one name, a topic is read by two sources, or joined repartition
            topics have different enforced partition counts.
    """
    topology = Topology(config)
    written: set[int] = set()
    # a node may come up before its last parent was written: then it comes up again behind that parent
    queue = [(graph.nodes[ROOT].priority, ROOT)]
    while queue:
        _, number = heapq.heappop(queue)
        node = graph.nodes[number]
        if number not in written and written.issuperset(node.parents):
            there = set(topology.node_names)
            _write(node.data, _At(topology, graph, node, defaults))
            topology.set_error_policy(node.on_error, *(name for name in topology.node_names if name not in there))
            written.add(number)
        for child in node.children:
            heapq.heappush(queue, (graph.nodes[child].priority, child))
    for group in graph.copartitioned:
        topology.copartition_sources(group)
    topology.validate_copartition()
    return topology


@dataclass(frozen=True, slots=True)
class _At:
    """A node that is being written, and where to."""

    topology: Topology
    graph: Graph
    node: Node
    defaults: StoreDefaults

    @property
    def parents(self) -> tuple[str, ...]:
        return tuple(self.graph.nodes[parent].name for parent in self.node.parents)

    def add_operator(self, operator: Operator, *parents: str) -> None:
        self.topology.add_operator(self.node.name, operator, parents or self.parents)

    def add_store(self, store: Store) -> None:
        self.topology.add_state_store(self.builder(store), self.node.name)

    def builder(self, store: Store) -> AnyStoreBuilder:
        return store.shape.builder(store, self.defaults)


@singledispatch
def _write(data: NodeData, at: _At) -> None:
    """Write a node of the graph: one body for each kind of data."""
    raise TypeError(f"{at.node.name}: nothing writes a {type(data).__name__}")


@_write.register(Root)
def _(data: Root, at: _At) -> None:
    """Nothing stands for it in a topology."""


@_write.register(StreamSource)
def _(data: StreamSource, at: _At) -> None:
    _add_source(at.topology, at.node.name, data.topics, data)


@_write.register(TableSource)
def _(data: TableSource, at: _At) -> None:
    _add_source(at.topology, data.source_name, (data.topic,), data)
    at.add_operator(_table_source(data), data.source_name)
    if data.stored and data.reuse_topic:
        builder = at.builder(data.store).with_logging_disabled()
        at.topology.add_state_store(builder, at.node.name)
        at.topology.connect_source_store_and_topic(builder.name, data.topic)
    elif data.stored:
        at.add_store(data.store)


@_write.register(GlobalSource)
def _(data: GlobalSource, at: _At) -> None:
    consumed, store = data.consumed, data.store
    builder = at.builder(store) if isinstance(store, Store) else store
    source = SourceSpec(
        data.source_name,
        (data.topic,),
        _deserializer(consumed.key_serde),
        _deserializer(consumed.value_serde),
        consumed.timestamp_extractor,
    )
    at.topology.add_global_operator(
        # a cache would keep from readers what is there
        builder.with_logging_disabled().with_caching_disabled(),
        source,
        at.node.name,
        data.operator,
        reprocess_on_restore=data.reprocess,
    )


@_write.register(StreamToTable)
def _(data: StreamToTable, at: _At) -> None:
    at.add_operator(_table_source(data))
    if data.stored:
        at.add_store(data.store)


@_write.register(Process)
def _(data: Process, at: _At) -> None:
    at.add_operator(data.operator)
    if data.store is not None:
        at.add_store(data.store)
    for builder in data.brought:
        at.topology.add_state_store(builder, at.node.name)
    if data.store_names:
        at.topology.connect_processor_and_state_stores(at.node.name, *data.store_names)


@_write.register(TableJoin)
def _(data: TableJoin, at: _At) -> None:
    topology = at.topology
    topology.add_operator(data.this_name, data.this, (at.graph.nodes[data.left].name,))
    topology.add_operator(data.other_name, data.other, (at.graph.nodes[data.right].name,))
    at.add_operator(data.merge, data.this_name, data.other_name)
    topology.connect_processor_and_state_stores(data.this_name, *data.this.other.store_names)
    topology.connect_processor_and_state_stores(data.other_name, *data.other.other.store_names)
    if data.store is not None:
        at.add_store(data.store)


@_write.register(StreamStreamJoin)
def _(data: StreamStreamJoin, at: _At) -> None:
    names, topology = data.names, at.topology
    this_store = at.builder(data.this_store)
    if data.single_store:
        at.add_operator(data.self_join, names.this_windowed)
        topology.add_state_store(this_store, names.this_windowed, names.merge)
        return
    topology.add_operator(names.this_join, data.this_side, (names.this_windowed,))
    topology.add_operator(names.other_join, data.other_side, (names.other_windowed,))
    at.add_operator(PassThrough(), names.this_join, names.other_join)
    topology.add_state_store(this_store, names.this_windowed, names.other_join)
    topology.add_state_store(at.builder(data.other_store), names.other_windowed, names.this_join)
    if data.waiting is not None:
        topology.add_state_store(at.builder(data.waiting), names.this_join, names.other_join)


@_write.register(Split)
def _(data: Split, at: _At) -> None:
    at.add_operator(StreamBranch(data.predicates, data.child_names))


@_write.register(Repartition)
def _(data: Repartition, at: _At) -> None:
    names, topology = data.names, at.topology
    topology.add_repartition_topic(names.topic, data.partitions)
    topology.add_operator(names.filter, NullKeyFilter(data.null_keys), at.parents)
    topology.add_sink(
        names.sink,
        names.topic,
        names.filter,
        key_serializer=_serializer(data.key_serde),
        value_serializer=_serializer(data.value_serde),
        partitioner=data.partitioner,
    )
    topology.add_source(
        names.source,
        names.topic,
        key_deserializer=_deserializer(data.key_serde),
        value_deserializer=_deserializer(data.value_serde),
        # the records' times were decided upstream, whatever the configured extractor says
        timestamp_extractor=FailOnInvalidTimestamp(),
    )


@_write.register(ThroughTopic)
def _(data: ThroughTopic, at: _At) -> None:
    at.topology.add_repartition_topic(data.topic, None)
    at.topology.add_sink(
        data.sink_name,
        data.topic,
        *at.parents,
        key_serializer=_serializer(data.key_serde),
        value_serializer=_serializer(data.value_serde),
        partitioner=data.partitioner,
    )
    at.topology.add_source(
        data.source_name,
        data.topic,
        key_deserializer=_deserializer(data.key_serde),
        value_deserializer=_deserializer(data.value_serde),
        timestamp_extractor=data.timestamp_extractor,
    )


@_write.register(Sink)
def _(data: Sink, at: _At) -> None:
    at.topology.add_sink(
        at.node.name,
        data.topic,
        *at.parents,
        key_serializer=_serializer(data.key_serde),
        value_serializer=_serializer(data.value_serde),
        partitioner=data.partitioner or _windowed_partitioner(data.key_serde),
    )


@_write.register(StateStore)
def _(data: StateStore, at: _At) -> None:
    store = data.store
    at.topology.add_state_store(at.builder(store) if isinstance(store, Store) else store)


def _table_source(data: TableSource | StreamToTable) -> tables.TableSource:
    return tables.TableSource(data.store.name if data.stored else None, send_old_values=data.send_old_values)


def _add_source(
    topology: Topology, name: str, topics: tuple[str | re.Pattern[str], ...], data: StreamSource | TableSource
) -> None:
    consumed = data.consumed
    topology.add_source(
        name,
        *topics,
        key_deserializer=_deserializer(consumed.key_serde),
        value_deserializer=_deserializer(consumed.value_serde),
        timestamp_extractor=consumed.timestamp_extractor,
        offset_reset=consumed.offset_reset,
    )


def _windowed_partitioner(serde: Serde[Any] | None) -> WindowedStreamPartitioner[Any] | None:
    serializer = _serializer(serde)
    if not isinstance(serializer, WindowedSerializer):
        return None
    windowed: WindowedSerializer[Any] = serializer  # pyright: ignore[reportUnknownVariableType]  # any key
    return WindowedStreamPartitioner(windowed)


def _serializer(serde: Serde[Any] | None) -> Serializer[Any] | None:
    return None if serde is None else serde.serializer


def _deserializer(serde: Serde[Any] | None) -> Deserializer[Any] | None:
    return None if serde is None else serde.deserializer
