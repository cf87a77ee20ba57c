"""A topology as a streams group knows it: what its members send and must agree on, to the order of every list.

The brokers compare a joining member's description with the group's, list by list, so all is in the order in which the
Java library sends it; then Java and headrace members of one group agree. Names and configs are those of the topology.
Sources: ``StreamThread.initBrokerTopology``, ``InternalTopologyBuilder.copartitionGroups``,
``StreamsGroupHeartbeatRequestManager`` (4.4), KIP-1071.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.errors import TopologyException
from headrace.javaorder import copied_capacity, hash_order, in_buckets, string_hash
from headrace.topology.built import SinkSpec, SourceSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from headrace.topology.built import BuiltTopology, InternalTopic, SubTopology


class GroupTopic(NamedTuple):
    """An internal topic that the brokers are to make.

    ``partitions`` is 0 where they decide, ``replication_factor`` -1 for their default; ``configs`` are sorted by name.
    """

    name: str
    partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...]


class CopartitionGroup(NamedTuple):
    """Topics that must agree in partitions, by their places in the sub-topology's two lists."""

    source_topics: tuple[int, ...]
    repartition_source_topics: tuple[int, ...]


class GroupSubtopology(NamedTuple):
    """What the brokers are told of one sub-topology. Lists of topics are sorted by name.

    ``changelog_topics`` has source topics that serve as a changelog too: they exist, so the brokers do not make them.
    """

    id: str
    source_topics: tuple[str, ...]
    changelog_topics: tuple[GroupTopic, ...]
    repartition_sink_topics: tuple[str, ...]
    repartition_source_topics: tuple[GroupTopic, ...]
    copartition_groups: tuple[CopartitionGroup, ...]


class GroupNode(NamedTuple):
    """A node as it is described to the brokers. ``kind`` is one of ``SOURCE``, ``PROCESSOR`` and ``SINK``.

    ``sink_topic`` is None where each record chooses it, and for other nodes.
    """

    name: str
    kind: int
    source_topics: tuple[str, ...]
    sink_topic: str | None
    stores: tuple[str, ...]
    successors: tuple[str, ...]


SOURCE, PROCESSOR, SINK = 1, 2, 3


class TopologyDescription(NamedTuple):
    """All nodes by sub-topology, and the source and the processor of each global store."""

    subtopologies: tuple[tuple[str, tuple[GroupNode, ...]], ...]
    global_stores: tuple[tuple[GroupNode, GroupNode], ...]


def topology_description(built: BuiltTopology) -> TopologyDescription:
    """What brokers show of a topology, if they keep it. Source: ``TopologyDescriptionConverter`` (4.4), KIP-1331."""
    subtopologies = tuple((str(sub.id), tuple(_nodes(sub))) for sub in built.subtopologies)
    if built.global_stores is None:
        return TopologyDescription(subtopologies, ())
    nodes = {node.name: node for node in _nodes(built.global_stores.part)}
    pairs = tuple(
        (node, nodes[successor]) for node in nodes.values() if node.kind == SOURCE for successor in node.successors[:1]
    )
    return TopologyDescription(subtopologies, pairs)


def _nodes(sub: SubTopology) -> Iterator[GroupNode]:
    for spec in sub.nodes:
        successors = sub.children.get(spec.name, ())
        if isinstance(spec, SourceSpec):
            yield GroupNode(spec.name, SOURCE, spec.topics, None, (), successors)
        elif isinstance(spec, SinkSpec):
            yield GroupNode(spec.name, SINK, (), spec.topic if isinstance(spec.topic, str) else None, (), successors)
        else:
            yield GroupNode(spec.name, PROCESSOR, (), None, spec.stores, successors)


def group_topology(built: BuiltTopology, replication_factor: int) -> tuple[GroupSubtopology, ...]:
    """The description of a topology for its streams group, sub-topologies in the order of their ids as texts.

    Args:
        built: The topology.
        replication_factor: Of internal topics, -1 for the brokers' default.

    Raises:
        TopologyException: A source reads by a pattern, or joined topics lie in different sub-topologies: the streams
            protocol has neither.
    """
    for sub in built.subtopologies:
        if sub.patterns:
            raise TopologyException(
                f"sub-topology {sub.id} reads topics by the pattern {', '.join(sub.patterns)}, which the streams group "
                "protocol does not have: name the topics, or set group.protocol=classic"
            )
    repartition = {name for sub in built.subtopologies for name in sub.repartition_topics}
    groups = _copartition_groups(built, repartition)
    parts = [_subtopology(sub, repartition, groups, replication_factor) for sub in built.subtopologies]
    if sum(len(part.copartition_groups) for part in parts) != len(groups):
        split = next(
            group for group in groups if not any(sub.source_topics.issuperset(group) for sub in built.subtopologies)
        )
        raise TopologyException(
            f"the topics {', '.join(sorted(split))} have to agree in partitions but are read by different "
            "sub-topologies, which the streams group protocol cannot express: set group.protocol=classic"
        )
    return tuple(sorted(parts, key=lambda part: part.id))


def _subtopology(
    sub: SubTopology, repartition: set[str], groups: Iterable[list[str]], replication_factor: int
) -> GroupSubtopology:
    sources = sorted(sub.source_topics - sub.repartition_topics.keys())
    internal = sorted(sub.repartition_topics)
    return GroupSubtopology(
        str(sub.id),
        tuple(sources),
        _topics(sub.changelog_topics, replication_factor, enforced=False),
        tuple(sorted(sub.sink_topics & repartition)),
        _topics(sub.repartition_topics, replication_factor, enforced=True),
        tuple(
            CopartitionGroup(
                tuple(sources.index(topic) for topic in group if topic in sources),
                tuple(internal.index(topic) for topic in group if topic not in sources),
            )
            for group in groups
            if sub.source_topics.issuperset(group)
        ),
    )


def _topics(topics: Mapping[str, InternalTopic], replication_factor: int, *, enforced: bool) -> tuple[GroupTopic, ...]:
    return tuple(
        GroupTopic(
            name, (topic.partitions or 0) if enforced else 0, replication_factor, tuple(sorted(topic.config.items()))
        )
        for name, topic in sorted(topics.items())
    )


def _copartition_groups(built: BuiltTopology, repartition: set[str]) -> list[list[str]]:
    """Groups of joined topics, and the topics of each, in the order of Java's hash sets.

    Java fills its sets with the names before the application id is put in front of internal ones, which matters
    where two names share a bucket.
    """
    prefix = f"{built.application_id}-"
    topics_of = {
        spec.name: spec.topics for sub in built.subtopologies for spec in sub.nodes if isinstance(spec, SourceSpec)
    }
    final: dict[str, str] = {}
    group_of: dict[str, dict[str, None]] = {}
    for sources in built.copartitioned_sources:
        names: list[str] = []
        for source in hash_order(sorted(sources), copied=True):
            for topic in topics_of.get(source, ()):
                name = topic.removeprefix(prefix) if topic in repartition else topic
                final[name] = topic
                names.append(name)
        names = hash_order(names)
        group = next((group_of[name] for name in names if name in group_of), dict[str, None]())
        group.update(dict.fromkeys(final[name] for name in names))
        group_of.update(dict.fromkeys(names, group))
    distinct = list(dict.fromkeys(tuple(group) for group in group_of.values()))
    ordered = in_buckets(
        distinct, lambda group: sum(map(string_hash, group)) & 0xFFFFFFFF, copied_capacity(len(group_of))
    )
    return [hash_order(group) for group in ordered]
