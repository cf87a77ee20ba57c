"""A topology under construction. Sources: ``org.apache.kafka.streams.Topology``, ``InternalTopologyBuilder`` (4.4).

A sub-topology is a set of nodes that are connected by edges or share a store: they run in one task. An internal topic
between two nodes cuts them apart. Sub-topologies are numbered by their first node in the order of addition; the
numbers are part of task ids, and so of directories and of what other members of the group understand.
"""

from __future__ import annotations

import re
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

from headrace.api.processor import FixedKeyProcessor
from headrace.config.loading import make
from headrace.config.streams import StreamsConfig, settings_of
from headrace.errors import TopologyException
from headrace.javaorder import hash_order
from headrace.naming import internal_topic
from headrace.processors.papi import UserFixedKeyProcessor, UserProcessor
from headrace.processors.wrapped import wrap
from headrace.resets import AutoOffsetReset
from headrace.topology import topics
from headrace.topology.built import (
    BuiltTopology,
    GlobalStores,
    InternalTopic,
    NodeSpec,
    ProcessorSpec,
    SinkSpec,
    SourceSpec,
    SubTopology,
    joined_topics,
    merged,
)
from headrace.topology.describe import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from headrace.api.engine import Operator
    from headrace.api.handlers import ErrorPolicy
    from headrace.api.processor import Processor, ProcessorWrapper
    from headrace.api.serde import Deserializer, Serializer
    from headrace.api.timestamps import TimestampExtractor
    from headrace.partitioning import StreamPartitioner
    from headrace.state.builders import AnyStoreBuilder
    from headrace.topology.built import TopicNameExtractor

    AnyProcessor = Processor[Any, Any, Any, Any] | FixedKeyProcessor[Any, Any, Any]


_WRAPPER_KEY: Final = "processor.wrapper.class"


class Topology:
    """Nodes and stores of an application, added one by one.

    The adding methods return the topology itself. Names must be new, parents must be there already.

    Args:
        config: Settings that shape the topology: ``processor.wrapper.class``, see
            :class:`headrace.api.processor.ProcessorWrapper`.

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

    def __init__(self, config: Mapping[str, Any] | StreamsConfig | None = None) -> None:
        self._wrapper = _wrapper(settings_of(config))
        self._specs: dict[str, NodeSpec] = {}
        self._parents: dict[str, tuple[str, ...]] = {}
        self._stores: dict[str, AnyStoreBuilder] = {}
        self._readers: dict[str, list[str]] = {}
        self._source_topics: set[str] = set()
        self._repartition_topics: dict[str, int | None] = {}
        self._copartitioned: list[frozenset[str]] = []
        self._source_changelogs: dict[str, str] = {}
        self._global_stores: dict[str, AnyStoreBuilder] = {}
        self._global_sources: dict[str, str] = {}
        self._reprocessed: set[str] = set()
        self._policies: dict[str, ErrorPolicy] = {}

    # what users call

    def add_source(
        self,
        name: str,
        *source_topics: str | re.Pattern[str],
        key_deserializer: Deserializer[Any] | None = None,
        value_deserializer: Deserializer[Any] | None = None,
        timestamp_extractor: TimestampExtractor | None = None,
        offset_reset: AutoOffsetReset | None = None,
        on_error: ErrorPolicy | None = None,
    ) -> Topology:
        """Read topics.

        Args:
            name: Name of the node.
            source_topics: One or more topics, none of them read by another node; or one compiled pattern: all topics of
                the cluster that match it as a whole, those made later too.
            key_deserializer: Of keys; None for the configured default, as with every argument that follows.
            value_deserializer: Of values.
            timestamp_extractor: Gives records their times.
            offset_reset: Where to begin without a committed offset.
            on_error: What becomes of records that do not decode.

        Raises:
            TopologyException: The name is taken, no topic was given, or a topic is read by another source.
        """
        self._check_new(name)
        if not source_topics:
            raise TopologyException(f"the source {name} needs at least one topic")
        named = tuple(topic for topic in source_topics if isinstance(topic, str))
        patterns = [topic for topic in source_topics if isinstance(topic, re.Pattern)]
        if len(patterns) > 1 or (patterns and named):
            raise TopologyException(f"the source {name} reads topics by their names, or by one pattern, not both")
        for topic in named:
            self._register_topic(name, topic)
        for pattern in patterns:
            self._register_pattern(name, pattern)
        self._add(
            SourceSpec(
                name,
                named,
                key_deserializer,
                value_deserializer,
                timestamp_extractor,
                offset_reset,
                patterns[0] if patterns else None,
            ),
            (),
        )
        return self.set_error_policy(on_error, name)

    def add_processor(
        self,
        name: str,
        supplier: Callable[[], AnyProcessor],
        *parent_names: str,
        on_error: ErrorPolicy | None = None,
    ) -> Topology:
        """Add a processor below its parents.

        Args:
            name: Name of the node.
            supplier: Makes a new processor at each call: one is made for every task. When it has a method ``stores()``,
                the builders that it gives are added and connected to this node.
            parent_names: One or more nodes whose records it gets.
            on_error: What becomes of its errors.

        Raises:
            TopologyException: The name is taken, a parent is missing or a sink, or the supplier gave the same object
                twice.
        """
        operator = user_operator(name, supplier)
        self.add_operator(name, operator, parent_names)
        for builder in stores_of(supplier):
            self.add_state_store(builder, name)
        return self.set_error_policy(on_error, name)

    def add_sink(
        self,
        name: str,
        topic: str | TopicNameExtractor,
        *parent_names: str,
        key_serializer: Serializer[Any] | None = None,
        value_serializer: Serializer[Any] | None = None,
        partitioner: StreamPartitioner[Any, Any] | None = None,
        on_error: ErrorPolicy | None = None,
    ) -> Topology:
        """Write a topic.

        Args:
            name: Name of the node.
            topic: Topic to write; or a function ``(key, value, context) -> topic`` that chooses one for each record.
                Topics are not created.
            parent_names: One or more nodes whose records are written.
            key_serializer: Of keys; None for the configured default.
            value_serializer: Of values; None for the configured default.
            partitioner: Chooses partitions; None for Kafka's own choice by the key's bytes.
            on_error: What becomes of records that cannot be encoded or sent.

        Raises:
            TopologyException: The name is taken, or a parent is missing or a sink.
        """
        self._check_new(name)
        self._check_parents(name, parent_names)
        self._add(SinkSpec(name, topic, key_serializer, value_serializer, partitioner), parent_names)
        return self.set_error_policy(on_error, name)

    def add_state_store(self, builder: AnyStoreBuilder, *processor_names: str) -> Topology:
        """Add a store and connect it to processors. The very same builder may be added again.

        Raises:
            TopologyException: Another store has the name, or a processor is missing.
        """
        if builder.name in self._global_stores:
            raise TopologyException(f"a different GlobalStateStore has already been added with the name {builder.name}")
        known = self._stores.get(builder.name)
        if known is not None and known is not builder:
            raise TopologyException(f"a different StateStore has already been added with the name {builder.name}")
        self._stores[builder.name] = builder
        self._readers.setdefault(builder.name, [])
        for name in processor_names:
            self._connect(name, builder.name)
        return self

    def add_global_store(
        self,
        builder: AnyStoreBuilder,
        source_name: str,
        topic: str,
        processor_name: str,
        supplier: Callable[[], Processor[Any, Any, Any, Any]],
        *,
        key_deserializer: Deserializer[Any] | None = None,
        value_deserializer: Deserializer[Any] | None = None,
        timestamp_extractor: TimestampExtractor | None = None,
    ) -> Topology:
        """Add a store that every instance holds whole, kept by a processor that reads all partitions of a topic.

        It is complete, up to the moment of the start, before the first record of any task is processed. Every processor
        may read it by its name, without being connected, and none may write it but this one. A restore runs the records
        through the processor.

        Args:
            builder: The store, without logging: its topic is its changelog.
            source_name: Name of the source node.
            topic: Topic to read.
            processor_name: Name of the processor's node.
            supplier: Makes the processor that writes the store. It cannot forward, schedule or commit.
            key_deserializer: Of keys; None for the configured default.
            value_deserializer: Of values; None for the configured default.
            timestamp_extractor: Not asked, as in Java: records have their own times.

        Raises:
            TopologyException: A name or the topic is taken, the store has logging enabled, or the supplier gave the
                same object twice.
        """
        check_supplier(processor_name, supplier)
        source = SourceSpec(source_name, (topic,), key_deserializer, value_deserializer, timestamp_extractor)
        return self.add_global_operator(
            builder, source, processor_name, UserProcessor(supplier), reprocess_on_restore=True
        )

    def add_read_only_state_store(
        self,
        builder: AnyStoreBuilder,
        source_name: str,
        topic: str,
        processor_name: str,
        supplier: Callable[[], Processor[Any, Any, Any, Any]],
        *,
        key_deserializer: Deserializer[Any] | None = None,
        value_deserializer: Deserializer[Any] | None = None,
        timestamp_extractor: TimestampExtractor | None = None,
    ) -> Topology:
        """Add a store that is filled from a topic, partition by partition; the topic is its changelog (KIP-813).

        What the processor writes must be what a restore reads from the topic: each record's value under its key. Other
        processors are connected to the store by its name as to any other.

        Args:
            builder: The store; its logging is turned off.
            source_name: Name of the source node.
            topic: Topic to read, from its beginning.
            processor_name: Name of the processor's node.
            supplier: Makes the processor that writes the store, one for every task.
            key_deserializer: Of keys; None for the configured default.
            value_deserializer: Of values; None for the configured default.
            timestamp_extractor: Gives records their times.

        Raises:
            TopologyException: A name or the topic is taken, or the supplier gave the same object twice.
        """
        self.add_source(
            source_name,
            topic,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
            timestamp_extractor=timestamp_extractor,
            offset_reset=AutoOffsetReset.EARLIEST,
        )
        self.add_processor(processor_name, supplier, source_name)
        self.add_state_store(builder.with_logging_disabled(), processor_name)
        return self.connect_source_store_and_topic(builder.name, topic)

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
        groups = self._groups()
        return describe(groups, self._specs, self._parents, [self._is_global(names) for names in groups])

    @property
    def node_names(self) -> tuple[str, ...]:
        """Names of all nodes in the order in which they were added."""
        return tuple(self._specs)

    @property
    def state_store_names(self) -> tuple[str, ...]:
        """Names of all stores, also of those that no processor uses."""
        return (*self._stores, *self._global_stores)

    # what the DSL's lowering calls too

    def add_operator(self, name: str, operator: Operator, parent_names: Iterable[str]) -> Topology:
        """Add a node with a ready operator. Raises as :meth:`add_processor`."""
        parents = tuple(parent_names)
        self._check_new(name)
        self._check_parents(name, parents)
        brought: tuple[AnyStoreBuilder, ...] = ()
        if self._wrapper is not None:
            operator, supplier = wrap(self._wrapper, name, operator)
            brought = stores_of(supplier)
        self._add(ProcessorSpec(name, operator), parents)
        for builder in brought:
            self.add_state_store(builder, name)
        return self

    def set_error_policy(self, policy: ErrorPolicy | None, *names: str) -> Topology:
        """Have a policy decide about the errors of nodes; None leaves them to the configured handlers."""
        if policy is not None:
            self._policies.update(dict.fromkeys(names, policy))
        return self

    def add_global_operator(
        self,
        builder: AnyStoreBuilder,
        source: SourceSpec,
        processor_name: str,
        operator: Operator,
        *,
        reprocess_on_restore: bool,
    ) -> Topology:
        """Add a global store with a ready operator. Raises as :meth:`add_global_store`.

        ``reprocess_on_restore`` False: the store is a copy of its topic, and is restored without the operator.
        """
        self._check_new(source.name)
        self._check_new(processor_name)
        if source.name == processor_name:
            raise TopologyException(f"the source and the processor of a global store are both called {processor_name}")
        name, (topic,) = builder.name, source.topics
        if name in self._stores or name in self._global_stores:
            raise TopologyException(f"a different StateStore has already been added with the name {name}")
        if builder.logging:
            raise TopologyException(f"StateStore {name} for global table must not have logging enabled")
        self._register_topic(source.name, topic)
        if self._wrapper is not None:
            operator, _ = wrap(self._wrapper, processor_name, operator)
        self._add(source, ())
        self._add(ProcessorSpec(processor_name, operator, (name,)), (source.name,))
        self._global_stores[name] = builder
        self._global_sources[source.name] = name
        if reprocess_on_restore:
            self._reprocessed.add(name)
        return self.connect_source_store_and_topic(name, topic)

    def connect_source_store_and_topic(self, store: str, topic: str) -> Topology:
        """Have a source topic serve as the changelog of a store.

        Raises:
            TopologyException: The store has such a topic already.
        """
        if store in self._source_changelogs:
            raise TopologyException(f"Source store {store} is already added")
        self._source_changelogs[store] = topic
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

    def build(
        self,
        application_id: str,
        topic_config: Mapping[str, str] | None = None,
        additional_retention_ms: int = 86_400_000,
    ) -> BuiltTopology:
        """Freeze the topology for an application.

        Args:
            application_id: ``application.id``, in front of every internal topic's name.
            topic_config: Settings of internal topics (the configuration's ``topic.*`` without that prefix).
            additional_retention_ms: ``windowstore.changelog.additional.retention.ms``.
        """
        extra = dict(topic_config or {})
        subs: list[SubTopology] = []
        global_subs: list[SubTopology] = []
        for number, names in enumerate(self._groups()):
            chosen = global_subs if self._is_global(names) else subs
            chosen.append(self._subtopology(number, names, application_id, extra, additional_retention_ms))
        return BuiltTopology(
            application_id,
            tuple(subs),
            joined_topics(self._copartitioned, (spec for sub in subs for spec in sub.nodes)),
            self.describe(),
            tuple(self._copartitioned),
            self._frozen_global_stores(global_subs),
            tuple(self._specs),
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
            if self._is_global([parent, *self._parents[parent]]):
                raise TopologyException(f"{name} cannot follow {parent}, which only keeps a global store")

    def _add(self, spec: NodeSpec, parents: tuple[str, ...]) -> None:
        self._specs[spec.name] = spec
        self._parents[spec.name] = tuple(dict.fromkeys(parents))

    def _register_topic(self, source: str, topic: str) -> None:
        if topic in self._source_topics:
            raise TopologyException(
                f"the topic {topic} of source {source} has already been registered by another source: "
                "read it once and use the result twice"
            )
        for spec in self._specs.values():
            if isinstance(spec, SourceSpec) and spec.pattern is not None and spec.pattern.fullmatch(topic):
                raise TopologyException(
                    f"the topic {topic} of source {source} matches the pattern {spec.pattern.pattern} of {spec.name}"
                )
        self._source_topics.add(topic)

    def _register_pattern(self, source: str, pattern: re.Pattern[str]) -> None:
        for topic in sorted(self._source_topics):
            if pattern.fullmatch(topic):
                raise TopologyException(
                    f"the pattern {pattern.pattern} of source {source} matches {topic}, which another source reads"
                )

    def _is_global(self, names: Iterable[str]) -> bool:
        return any(name in self._global_sources for name in names)

    def _frozen_global_stores(self, parts: list[SubTopology]) -> GlobalStores | None:
        if not parts:
            return None
        topic_of = {name: self._source_changelogs[name] for name in self._global_stores}
        return GlobalStores(merged(-1, parts, self._specs), MappingProxyType(topic_of), frozenset(self._reprocessed))

    def _connect(self, processor: str, store: str) -> None:
        if store in self._global_stores:
            raise TopologyException(
                f"Global StateStore {store} can be used by a processor without being connected; do not connect it"
            )
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
        self,
        number: int,
        names: list[str],
        application_id: str,
        topic_config: Mapping[str, str],
        additional_retention_ms: int,
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
                if isinstance(spec.topic, str):
                    spec = replace(spec, topic=self._final(application_id, spec.topic))
                    written.add(cast("str", spec.topic))
            else:
                # Java registers the stores of a node in the order of a hash set, and flushes caches in that order
                for store in hash_order(spec.stores):
                    stores[store] = self._global_stores[store] if self._is_global(names) else self._stores[store]
            specs.append(spec)
        changelogs = {
            store.name: topics.changelog(application_id, store, topic_config, additional_retention_ms)
            for store in stores.values()
            if store.logging
        }
        shared = {
            store.name: replace(
                topics.changelog(application_id, store, topic_config, additional_retention_ms), name=input_topic
            )
            for store in stores.values()
            if (input_topic := self._source_changelogs.get(store.name)) and store.name in self._stores
        }
        changelogs |= shared
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
            MappingProxyType({name: self._policies[name] for name in names if name in self._policies}),
            frozenset(topic.name for topic in shared.values()),
        )

    def _copartitioned_topics(self) -> list[list[str]]:
        result: list[list[str]] = []
        for sources in self._copartitioned:
            specs = (self._specs.get(name) for name in sorted(sources))
            result.append([topic for spec in specs if isinstance(spec, SourceSpec) for topic in spec.topics])
        return result


def check_topology(topology: object) -> None:
    """Check that what is to be run is a topology: the builder is easily given in its place.

    Raises:
        TypeError: It is something else.
    """
    if not isinstance(topology, Topology):
        raise TypeError(
            f"a Topology is expected here, not a {type(topology).__name__}: give what StreamsBuilder.build() returns"
        )


def check_supplier(name: str, supplier: Callable[[], object], method: str = "process") -> object:
    """Check that a supplier makes a new object at each call; gives one.

    Raises:
        TypeError: It cannot be called, or what it gives has no such method.
        TopologyException: It gave the same object twice.
    """
    if not callable(supplier):  # pyright: ignore[reportUnnecessaryComparison]  # a user's object
        raise TypeError(
            f"the supplier of processor {name} is a {type(supplier).__name__}, which cannot be called: give its class, "
            "or a function that makes a new one at each call"
        )
    made = supplier()
    if not hasattr(made, method):
        raise TypeError(f"the supplier of processor {name} gave {made!r}, which has no method {method}")
    if made is supplier():
        raise TopologyException(
            f"the supplier of processor {name} gave the same object twice: each task needs a processor of its own, "
            "so it must make a new one at each call"
        )
    return made


def _wrapper(config: Mapping[str, Any]) -> ProcessorWrapper | None:
    reference = config.get(_WRAPPER_KEY)
    if reference is None or (isinstance(reference, str) and reference.endswith(".NoOpProcessorWrapper")):
        return None
    found = make(reference, _WRAPPER_KEY)
    if hasattr(found, "configure"):
        found.configure(dict(config))
    wrapper: ProcessorWrapper = found
    return wrapper


def user_operator(name: str, supplier: Callable[[], AnyProcessor]) -> Operator:
    """The operator of a user's processor, of either kind.

    Raises:
        TopologyException: The supplier gave the same object twice.
    """
    made = check_supplier(name, supplier)
    if isinstance(made, FixedKeyProcessor):
        return UserFixedKeyProcessor(cast("Callable[[], FixedKeyProcessor[Any, Any, Any]]", supplier))
    return UserProcessor(cast("Callable[[], Processor[Any, Any, Any, Any]]", supplier))


def stores_of(supplier: object) -> tuple[AnyStoreBuilder, ...]:
    """Builders of the stores that a supplier brings along (``ConnectedStoreProvider.stores`` in Java)."""
    stores: Any = getattr(supplier, "stores", None)
    brought: Any = None if stores is None else stores()
    return tuple(brought or ())
