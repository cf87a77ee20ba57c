"""From the logical graph to a topology: every node is written once its parents are.

Source: ``GraphNode.writeToTopology`` (4.4).
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from headrace.api.timestamps import FailOnInvalidTimestamp
from headrace.dsl.graph import (
    ROOT,
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
    StreamToTable,
    TableRepartition,
    TableSource,
)
from headrace.processors import tables
from headrace.processors.stateless import NullKeyFilter, StreamBranch
from headrace.serdes import WindowedSerializer, WindowedStreamPartitioner
from headrace.serdes.change import ChangeDeserializer, ChangeSerializer
from headrace.state.builders import StoreBuilder, StoreKind, StoreType
from headrace.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.api.serde import Deserializer, Serde, Serializer
    from headrace.state.builders import AnyStoreBuilder


def lower(graph: Graph, copartitioned: Iterable[frozenset[str]], default_store_type: StoreType) -> Topology:
    """The topology of a graph whose passes have run.

    Args:
        graph: The graph.
        copartitioned: Groups of source nodes whose records are joined.
        default_store_type: Body of stores for which none was chosen.

    Raises:
        TopologyException: Two nodes or stores have one name, a topic is read by two sources, or joined repartition
            topics have different enforced partition counts.
    """
    topology = Topology()
    written: set[int] = set()
    # a node may come up before its last parent was written: then it comes up again behind that parent
    queue = [(graph.nodes[ROOT].priority, ROOT)]
    while queue:
        _, number = heapq.heappop(queue)
        node = graph.nodes[number]
        if number not in written and written.issuperset(node.parents):
            _write(topology, node, tuple(graph.nodes[parent].name for parent in node.parents), default_store_type)
            written.add(number)
        for child in node.children:
            heapq.heappush(queue, (graph.nodes[child].priority, child))
    for group in copartitioned:
        topology.copartition_sources(group)
    topology.validate_copartition()
    return topology


def _write(topology: Topology, node: Node, parents: tuple[str, ...], default_store_type: StoreType) -> None:
    data = node.data
    match data:
        case Root():
            pass
        case StreamSource():
            _add_source(topology, node.name, data.topics, data)
        case TableSource():
            _add_source(topology, data.source_name, (data.topic,), data)
            topology.add_operator(node.name, _table_source(data), (data.source_name,))
            if data.stored:
                topology.add_state_store(_builder(data.store, default_store_type), node.name)
        case StreamToTable():
            topology.add_operator(node.name, _table_source(data), parents)
            if data.stored:
                topology.add_state_store(_builder(data.store, default_store_type), node.name)
        case Process():
            topology.add_operator(node.name, data.operator, parents)
            if data.store is not None:
                topology.add_state_store(_builder(data.store, default_store_type), node.name)
            if data.store_names:
                topology.connect_processor_and_state_stores(node.name, *data.store_names)
        case Split():
            topology.add_operator(node.name, StreamBranch(data.predicates, data.child_names), parents)
        case Repartition():
            _add_repartition(topology, data, parents)
        case TableRepartition():
            _add_table_repartition(topology, data, parents)
        case Sink():
            topology.add_sink(
                node.name,
                data.topic,
                *parents,
                key_serializer=_serializer(data.key_serde),
                value_serializer=_serializer(data.value_serde),
                partitioner=data.partitioner or _windowed_partitioner(data.key_serde),
            )
        case StateStore():
            topology.add_state_store(data.builder)


def _table_source(data: TableSource | StreamToTable) -> tables.TableSource:
    return tables.TableSource(data.store.name if data.stored else None, send_old_values=data.send_old_values)


def _add_source(topology: Topology, name: str, topics: tuple[str, ...], data: StreamSource | TableSource) -> None:
    consumed = data.consumed
    topology.add_source(
        name,
        *topics,
        key_deserializer=_deserializer(consumed.key_serde),
        value_deserializer=_deserializer(consumed.value_serde),
        timestamp_extractor=consumed.timestamp_extractor,
        offset_reset=consumed.offset_reset,
    )


def _add_repartition(topology: Topology, data: Repartition, parents: tuple[str, ...]) -> None:
    names = data.names
    topology.add_repartition_topic(names.topic, data.partitions)
    topology.add_operator(names.filter, NullKeyFilter(data.null_keys), parents)
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


def _add_table_repartition(topology: Topology, data: TableRepartition, parents: tuple[str, ...]) -> None:
    topology.add_repartition_topic(data.topic, None)
    topology.add_sink(
        data.sink_name,
        data.topic,
        *parents,
        key_serializer=_serializer(data.key_serde),
        value_serializer=ChangeSerializer(_serializer(data.value_serde)),
    )
    topology.add_source(
        data.source_name,
        data.topic,
        key_deserializer=_deserializer(data.key_serde),
        value_deserializer=ChangeDeserializer(_deserializer(data.value_serde)),
        timestamp_extractor=FailOnInvalidTimestamp(),
    )


def _builder(store: Store, default_store_type: StoreType) -> AnyStoreBuilder:
    chosen = store.materialized
    supplier = chosen.store_supplier
    if supplier is not None:
        store_type = supplier.store_type
        plain = store_type is StoreType.ROCKS_DB and not supplier.timestamped
    else:
        store_type = chosen.store_type or default_store_type
        plain = False
    return StoreBuilder(
        store.name,
        StoreKind.TIMESTAMPED_KEY_VALUE,
        store_type,
        store.key_serde,
        store.value_serde,
        caching=chosen.caching_enabled,
        logging=chosen.logging_enabled,
        log_config=dict(chosen.topic_config),
        plain_body=plain,
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
