"""The immutable topology that the engine, the group leader and ``describe()`` read.

Names of internal topics in it are final (with the application id in front) except where said.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from headrace.errors import TopologyException
from headrace.javaorder import hash_order

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Mapping

    from headrace.api.engine import Operator
    from headrace.api.handlers import ErrorPolicy
    from headrace.api.record import RecordContext
    from headrace.api.serde import Deserializer, Serializer
    from headrace.api.timestamps import TimestampExtractor
    from headrace.partitioning import StreamPartitioner
    from headrace.resets import AutoOffsetReset
    from headrace.state.builders import AnyStoreBuilder


TopicNameExtractor: TypeAlias = "Callable[[Any, Any, RecordContext], str]"
"""``(key, value, context) -> topic``: chooses the topic of each record. The topics must exist."""


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """A source node. A deserializer or extractor of None means the configured default.

    With a ``pattern`` its topics are those of the cluster that match it as a whole: none before they were looked up.
    """

    name: str
    topics: tuple[str, ...]
    key_deserializer: Deserializer[Any] | None = None
    value_deserializer: Deserializer[Any] | None = None
    timestamp_extractor: TimestampExtractor | None = None
    offset_reset: AutoOffsetReset | None = None
    """None for ``auto.offset.reset`` of the configuration."""
    pattern: re.Pattern[str] | None = None


@dataclass(frozen=True, slots=True)
class ProcessorSpec:
    """An inner node: its operator and the names of the stores connected to it."""

    name: str
    operator: Operator
    stores: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SinkSpec:
    """A sink node. A serializer of None means the configured default; ``topic`` is final.

    A callable ``topic`` gives the topic of each record.
    """

    name: str
    topic: str | TopicNameExtractor
    key_serializer: Serializer[Any] | None = None
    value_serializer: Serializer[Any] | None = None
    partitioner: StreamPartitioner[Any, Any] | None = None


NodeSpec: TypeAlias = SourceSpec | ProcessorSpec | SinkSpec


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A repartition or changelog topic to make. ``partitions`` is None where the sources decide."""

    name: str
    config: Mapping[str, str]
    partitions: int | None = None
    partitions_enforced: bool = False


@dataclass(frozen=True, slots=True)
class SubTopology:
    """Nodes that run in one task, parents before children.

    ``children`` maps a node's name to its children's names in the order in which they were connected.
    ``stores`` are in registration order: the order in which caches flush.
    """

    id: int
    nodes: tuple[NodeSpec, ...]
    children: Mapping[str, tuple[str, ...]]
    stores: tuple[AnyStoreBuilder, ...]
    source_topics: frozenset[str]
    """Every topic the sub-topology reads, repartition topics included."""
    sink_topics: frozenset[str]
    repartition_topics: Mapping[str, InternalTopic]
    """Repartition topics that this sub-topology reads."""
    changelog_topics: Mapping[str, InternalTopic]
    """Changelog topic by topic name, :attr:`source_changelogs` included."""
    store_changelogs: Mapping[str, str]
    """Store name to changelog topic name (absent for stores without logging)."""
    error_policies: Mapping[str, ErrorPolicy] = field(default_factory=dict["str", "ErrorPolicy"])
    """What decides about errors in place of the configured handlers, by node."""
    source_changelogs: frozenset[str] = frozenset()
    """Source topics that serve as a store's changelog: restored up to what is committed, never written or made."""

    @property
    def patterns(self) -> tuple[str, ...]:
        """Patterns of topics that the sub-topology reads."""
        return tuple(s.pattern.pattern for s in self.nodes if isinstance(s, SourceSpec) and s.pattern is not None)


@dataclass(frozen=True, slots=True)
class GlobalStores:
    """The stores that every instance holds whole, with the nodes that fill them from their topics.

    Attributes:
        part: Nodes and stores. It makes no tasks; its number is none that a task has.
        topics: The topic of each store, by the store's name.
        reprocessed: Stores that are restored by their processor; the others are copies of their topic.
    """

    part: SubTopology
    topics: Mapping[str, str]
    reprocessed: frozenset[str]


@dataclass(frozen=True, slots=True)
class BuiltTopology:
    """A whole application: sub-topologies by number and the groups of topics that must agree in partitions."""

    application_id: str
    subtopologies: tuple[SubTopology, ...]
    copartition_groups: tuple[frozenset[str], ...] = ()
    description: str = field(default="", repr=False)
    """What ``describe()`` prints."""
    copartitioned_sources: tuple[frozenset[str], ...] = ()
    """Names of the source nodes whose topics ``copartition_groups`` has."""
    global_stores: GlobalStores | None = None
    node_order: tuple[str, ...] = ()
    """Every node in the order in which it was added."""

    @property
    def has_patterns(self) -> bool:
        """Whether topics have to be looked up."""
        return any(sub.patterns for sub in self.subtopologies)

    def with_topics(self, topics: Iterable[str]) -> BuiltTopology:
        """The same with the topics that match the patterns of its sources, from those of a cluster.

        The application's own internal topics match none.

        Raises:
            TopologyException: A topic matches two patterns, or a pattern and the name that another source reads.
        """
        named = {topic for sub in self.subtopologies for topic in _named_topics(sub)}
        readers: dict[str, str] = {}
        own = {name for sub in self.subtopologies for name in (*sub.repartition_topics, *sub.changelog_topics)}
        found = sorted(set(topics) - own)
        subs: list[SubTopology] = []
        for sub in self.subtopologies:
            specs = tuple(_matched(spec, found, named, readers) for spec in sub.nodes)
            read = frozenset(topic for spec in specs if isinstance(spec, SourceSpec) for topic in spec.topics)
            subs.append(replace(sub, nodes=specs, source_topics=read))
        groups = joined_topics(self.copartitioned_sources, (spec for sub in subs for spec in sub.nodes))
        return replace(self, subtopologies=tuple(subs), copartition_groups=groups)


def _named_topics(sub: SubTopology) -> set[str]:
    return {topic for s in sub.nodes if isinstance(s, SourceSpec) and s.pattern is None for topic in s.topics}


def _matched(spec: NodeSpec, topics: list[str], named: set[str], readers: dict[str, str]) -> NodeSpec:
    if not isinstance(spec, SourceSpec) or spec.pattern is None:
        return spec
    own = tuple(topic for topic in topics if spec.pattern.fullmatch(topic))
    for topic in own:
        other = readers.setdefault(topic, spec.pattern.pattern)
        if topic in named or other != spec.pattern.pattern:
            raise TopologyException(
                f"the topic {topic} matches the pattern {spec.pattern.pattern} of source {spec.name} and is read by "
                f"{'its name' if topic in named else f'the pattern {other}'} too: each topic can have one source"
            )
    return replace(spec, topics=own)


def joined_topics(groups: Iterable[frozenset[str]], specs: Iterable[NodeSpec]) -> tuple[frozenset[str], ...]:
    """Groups of topics that must agree in partitions, of groups of source nodes.

    Groups that have a topic in common become one, in the way Java does it: a group joins the first it meets.
    """
    topics_of = {spec.name: spec.topics for spec in specs if isinstance(spec, SourceSpec)}
    group_of: dict[str, set[str]] = {}
    for sources in groups:
        topics = hash_order(topic for name in sorted(sources) for topic in topics_of.get(name, ()))
        group = next((group_of[topic] for topic in topics if topic in group_of), set[str]())
        group.update(topics)
        for topic in topics:
            group_of[topic] = group
    return tuple(dict.fromkeys(frozenset(group) for group in group_of.values()))


def merged(number: int, parts: Iterable[SubTopology], order: Iterable[str]) -> SubTopology:
    """Several sub-topologies as one, to run in one task, with their nodes in that order of names.

    Operators are initialized, and caches flushed, in the order of the nodes.
    """
    subs = tuple(parts)
    nodes = {node.name: node for sub in subs for node in sub.nodes}
    ordered = tuple(nodes[name] for name in order if name in nodes)
    stores = {store.name: store for sub in subs for store in sub.stores}
    used = (name for node in ordered if isinstance(node, ProcessorSpec) for name in hash_order(node.stores))
    return SubTopology(
        number,
        ordered,
        MappingProxyType({name: children for sub in subs for name, children in sub.children.items()}),
        tuple(stores[name] for name in dict.fromkeys(used)),
        frozenset(topic for sub in subs for topic in sub.source_topics),
        frozenset(topic for sub in subs for topic in sub.sink_topics),
        MappingProxyType({name: topic for sub in subs for name, topic in sub.repartition_topics.items()}),
        MappingProxyType({name: topic for sub in subs for name, topic in sub.changelog_topics.items()}),
        MappingProxyType({store: topic for sub in subs for store, topic in sub.store_changelogs.items()}),
        MappingProxyType({node: policy for sub in subs for node, policy in sub.error_policies.items()}),
        frozenset(topic for sub in subs for topic in sub.source_changelogs),
    )
