"""A topology under construction. Sources: ``org.apache.kafka.streams.Topology``, ``InternalTopologyBuilder`` (4.4).

A sub-topology is a set of nodes that are connected by edges or share a store: they run in one task. An internal topic
between two nodes cuts them apart. Sub-topologies are numbered by their first node in the order of addition; the
numbers are part of task ids, and so of directories and of what other members of the group understand.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from headrace.errors import TopologyException
from headrace.javaorder import hash_order
from headrace.naming import internal_topic
from headrace.processors.papi import UserProcessor
from headrace.topology import topics
from headrace.topology.built import (
    BuiltTopology,
    InternalTopic,
    NodeSpec,
    ProcessorSpec,
    SinkSpec,
    SourceSpec,
    SubTopology,
)
from headrace.topology.describe import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from headrace.api.engine import Operator
    from headrace.api.options import AutoOffsetReset
    from headrace.api.processor import Processor
    from headrace.api.serde import Deserializer, Serializer
    from headrace.api.timestamps import TimestampExtractor
    from headrace.partitioning import StreamPartitioner
    from headrace.state.builders import AnyStoreBuilder


class Topology:
    """Nodes and stores of an application, added one by one.

    The adding methods return the topology itself. Names must be new, parents must be there already.

    Example:
        >>> from headrace.topology import Topology
        >>> topology = Topology().add_source("lines", "input").add_sink("out", "output", "lines")
        >>> print(topology.describe())  # doctest: +NORMALIZE_WHITESPACE
        Topologies:
           Sub-topology: 0
            Source: lines (topics: [input])
              --> out
            Sink: out (topic: output)
              <-- lines
    """

    def __init__(self) -> None:
        self._specs: dict[str, NodeSpec] = {}
        self._parents: dict[str, tuple[str, ...]] = {}
        self._stores: dict[str, AnyStoreBuilder] = {}
        self._readers: dict[str, list[str]] = {}
        self._source_topics: set[str] = set()
        self._repartition_topics: dict[str, int | None] = {}
        self._copartitioned: list[frozenset[str]] = []

    # what users call

    def add_source(
        self,
        name: str,
        *source_topics: str,
        key_deserializer: Deserializer[Any] | None = None,
        value_deserializer: Deserializer[Any] | None = None,
        timestamp_extractor: TimestampExtractor | None = None,
        offset_reset: AutoOffsetReset | None = None,
    ) -> Topology:
        """Read topics.

        Args:
            name: Name of the node.
            source_topics: One or more topics, none of them read by another node.
            key_deserializer: Of keys; None for the configured default, as with every argument that follows.
            value_deserializer: Of values.
            timestamp_extractor: Gives records their times.
            offset_reset: Where to begin without a committed offset.

        Raises:
            TopologyException: The name is taken, no topic was given, or a topic is read by another source.
        """
        self._check_new(name)
        if not source_topics:
            raise TopologyException(f"the source {name} needs at least one topic")
        for topic in source_topics:
            if topic in self._source_topics:
                raise TopologyException(
                    f"the topic {topic} of source {name} has already been registered by another source: "
                    "read it once and use the result twice"
                )
            self._source_topics.add(topic)
        self._add(
            SourceSpec(
                name,
                tuple(source_topics),
                key_deserializer,
                value_deserializer,
                timestamp_extractor,
                None if offset_reset is None else offset_reset.value,
            ),
            (),
        )
        return self

    def add_processor(
        self, name: str, supplier: Callable[[], Processor[Any, Any, Any, Any]], *parent_names: str
    ) -> Topology:
        """Add a processor below its parents.

        Args:
            name: Name of the node.
            supplier: Makes a new processor at each call: one is made for every task.
            parent_names: One or more nodes whose records it gets.

        Raises:
            TopologyException: The name is taken, a parent is missing or a sink, or the supplier gave the same object
                twice.
        """
        check_supplier(name, supplier)
        return self.add_operator(name, UserProcessor(supplier), parent_names)

    def add_sink(
        self,
        name: str,
        topic: str,
        *parent_names: str,
        key_serializer: Serializer[Any] | None = None,
        value_serializer: Serializer[Any] | None = None,
        partitioner: StreamPartitioner[Any, Any] | None = None,
    ) -> Topology:
        """Write a topic.

        Args:
            name: Name of the node.
            topic: Topic to write.
            parent_names: One or more nodes whose records are written.
            key_serializer: Of keys; None for the configured default.
            value_serializer: Of values; None for the configured default.
            partitioner: Chooses partitions; None for Kafka's own choice by the key's bytes.

        Raises:
            TopologyException: The name is taken, or a parent is missing or a sink.
        """
        self._check_new(name)
        self._check_parents(name, parent_names)
        self._add(SinkSpec(name, topic, key_serializer, value_serializer, partitioner), parent_names)
        return self

    def add_state_store(self, builder: AnyStoreBuilder, *processor_names: str) -> Topology:
        """Add a store and connect it to processors. The very same builder may be added again.

        Raises:
            TopologyException: Another store has the name, or a processor is missing.
        """
        known = self._stores.get(builder.name)
        if known is not None and known is not builder:
            raise TopologyException(f"a different StateStore has already been added with the name {builder.name}")
        self._stores[builder.name] = builder
        self._readers.setdefault(builder.name, [])
        for name in processor_names:
            self._connect(name, builder.name)
        return self

    def connect_processor_and_state_stores(self, processor_name: str, *store_names: str) -> Topology:
        """Let a processor use stores. Processors that share a store run in one task.

        Raises:
            TopologyException: The processor or a store is missing, or no store was named.
        """
        if not store_names:
            raise TopologyException(f"no store was named to connect with the processor {processor_name}")
        for name in store_names:
            self._connect(processor_name, name)
        return self

    def describe(self) -> str:
        """The nodes, edges, stores and topics as text, as Java prints them."""
        return describe(self._groups(), self._specs, self._parents)

    @property
    def state_store_names(self) -> tuple[str, ...]:
        """Names of all stores, also of those that no processor uses."""
        return tuple(self._stores)

    # what the DSL's lowering calls too

    def add_operator(self, name: str, operator: Operator, parent_names: Iterable[str]) -> Topology:
        """Add a node with a ready operator. Raises as :meth:`add_processor`."""
        parents = tuple(parent_names)
        self._check_new(name)
        self._check_parents(name, parents)
        self._add(ProcessorSpec(name, operator), parents)
        return self

    def add_repartition_topic(self, topic: str, partitions: int | None) -> None:
        """Make ``topic`` an internal one: it gets the application id in front, and is created and purged by us.

        ``partitions`` is an enforced number, or None where the sub-topologies that write it decide.
        """
        self._repartition_topics[topic] = partitions

    def copartition_sources(self, source_names: Iterable[str]) -> None:
        """Sources whose topics must have one partition count, because a node joins their records by key."""
        self._copartitioned.append(frozenset(source_names))

    def validate_copartition(self) -> None:
        """Check what can be known about joined topics before there is a cluster.

        Raises:
            TopologyException: Joined repartition topics have different enforced partition counts.
        """
        for group in self._copartitioned_topics():
            counts = {topic: self._repartition_topics.get(topic) for topic in group}
            if None not in counts.values() and len(set(counts.values())) > 1:
                listed = ", ".join(f"'{topic}' with {count}" for topic, count in sorted(counts.items()))
                raise TopologyException(f"joined topics do not have the same number of partitions: {listed}")

    def build(self, application_id: str, topic_config: Mapping[str, str] | None = None) -> BuiltTopology:
        """Freeze the topology for an application.

        Args:
            application_id: ``application.id``, in front of every internal topic's name.
            topic_config: Settings of internal topics (the configuration's ``topic.*`` without that prefix).
        """
        extra = dict(topic_config or {})
        return BuiltTopology(
            application_id,
            tuple(
                self._subtopology(number, names, application_id, extra) for number, names in enumerate(self._groups())
            ),
            self._copartition_groups(application_id),
            self.describe(),
        )

    # how it is done

    def _check_new(self, name: str) -> None:
        if name in self._specs:
            raise TopologyException(f"processor {name} is already added")

    def _check_parents(self, name: str, parents: tuple[str, ...]) -> None:
        if not parents:
            raise TopologyException(f"{name} must have at least one parent")
        for parent in parents:
            if parent == name:
                raise TopologyException(f"processor {name} cannot be a predecessor of itself")
            if parent not in self._specs:
                raise TopologyException(f"predecessor processor {parent} of {name} is not added yet")
            if isinstance(self._specs[parent], SinkSpec):
                raise TopologyException(f"the sink {parent} cannot be a parent of {name}")

    def _add(self, spec: NodeSpec, parents: tuple[str, ...]) -> None:
        self._specs[spec.name] = spec
        self._parents[spec.name] = tuple(dict.fromkeys(parents))

    def _connect(self, processor: str, store: str) -> None:
        if store not in self._stores:
            raise TopologyException(f"StateStore {store} is not added yet")
        spec = self._specs.get(processor)
        if spec is None:
            raise TopologyException(f"processor {processor} is not added yet")
        if not isinstance(spec, ProcessorSpec):
            raise TopologyException(f"the store {store} cannot be connected to {processor}: it is a source or a sink")
        if processor not in self._readers[store]:
            self._readers[store].append(processor)
            self._specs[processor] = replace(spec, stores=(*spec.stores, store))

    def _groups(self) -> list[list[str]]:
        """Node names per sub-topology, both in the order of addition."""
        leader = {name: name for name in self._specs}

        def find(name: str) -> str:
            while leader[name] != name:
                leader[name] = name = leader[leader[name]]
            return name

        linked = [(name, parent) for name, parents in self._parents.items() for parent in parents]
        linked += [(readers[0], reader) for readers in self._readers.values() for reader in readers[1:]]
        for one, other in linked:
            leader[find(one)] = find(other)
        groups: dict[str, list[str]] = {}
        for name in self._specs:
            groups.setdefault(find(name), []).append(name)
        return list(groups.values())

    def _final(self, application_id: str, topic: str) -> str:
        return internal_topic(application_id, topic) if topic in self._repartition_topics else topic

    def _subtopology(
        self, number: int, names: list[str], application_id: str, topic_config: Mapping[str, str]
    ) -> SubTopology:
        specs: list[NodeSpec] = []
        children: dict[str, list[str]] = {name: [] for name in names}
        stores: dict[str, AnyStoreBuilder] = {}
        read: set[str] = set()
        written: set[str] = set()
        repartition: dict[str, InternalTopic] = {}
        for name in names:
            spec = self._specs[name]
            for parent in self._parents[name]:
                children[parent].append(name)
            if isinstance(spec, SourceSpec):
                for topic in spec.topics:
                    if topic in self._repartition_topics:
                        made = topics.repartition(application_id, topic, self._repartition_topics[topic], topic_config)
                        repartition[made.name] = made
                spec = replace(spec, topics=tuple(self._final(application_id, topic) for topic in spec.topics))
                read.update(spec.topics)
            elif isinstance(spec, SinkSpec):
                spec = replace(spec, topic=self._final(application_id, spec.topic))
                written.add(spec.topic)
            else:
                # Java registers the stores of a node in the order of a hash set, and flushes caches in that order
                for store in hash_order(spec.stores):
                    stores[store] = self._stores[store]
            specs.append(spec)
        changelogs = {
            store.name: topics.changelog(application_id, store, topic_config)
            for store in stores.values()
            if store.logging
        }
        return SubTopology(
            number,
            tuple(specs),
            MappingProxyType({name: tuple(below) for name, below in children.items()}),
            tuple(stores.values()),
            frozenset(read),
            frozenset(written),
            MappingProxyType(repartition),
            MappingProxyType({topic.name: topic for topic in changelogs.values()}),
            MappingProxyType({store: topic.name for store, topic in changelogs.items()}),
        )

    def _copartitioned_topics(self) -> list[list[str]]:
        result: list[list[str]] = []
        for sources in self._copartitioned:
            specs = (self._specs.get(name) for name in sorted(sources))
            result.append([topic for spec in specs if isinstance(spec, SourceSpec) for topic in spec.topics])
        return result

    def _copartition_groups(self, application_id: str) -> tuple[frozenset[str], ...]:
        """Groups that have a topic in common become one, in the way Java does it: a group joins the first it meets."""
        group_of: dict[str, set[str]] = {}
        for raw in self._copartitioned_topics():
            group_topics = hash_order(self._final(application_id, topic) for topic in raw)
            group = next((group_of[topic] for topic in group_topics if topic in group_of), set[str]())
            group.update(group_topics)
            for topic in group_topics:
                group_of[topic] = group
        return tuple(dict.fromkeys(frozenset(group) for group in group_of.values()))


def check_supplier(name: str, supplier: Callable[[], object]) -> None:
    """Check that a supplier makes a new object at each call.

    Raises:
        TopologyException: It gave the same object twice.
    """
    if supplier() is supplier():
        raise TopologyException(
            f"the supplier of processor {name} gave the same object twice: each task needs a processor of its own, "
            "so it must make a new one at each call"
        )
