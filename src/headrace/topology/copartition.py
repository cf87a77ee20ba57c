"""How many partitions every internal topic gets, and which tasks there are. Pure: partition counts in, a plan out.

Used by start-up, by the group's leader and by checks, so that all of them agree. Sources: ``RepartitionTopics``,
``CopartitionedTopicsEnforcer``, ``ChangelogTopics``, ``PartitionGrouper`` (4.4).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from headrace.errors import MissingSourceTopicException, TopologyException
from headrace.records import TaskId, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.topology.built import BuiltTopology, InternalTopic


@dataclass(frozen=True, slots=True)
class Plan:
    """Partition counts and tasks of a topology on a cluster."""

    partition_counts: Mapping[str, int]
    """Of every topic that is read, and of every changelog."""
    repartition_topics: Mapping[str, InternalTopic]
    """By name, each with its partition count."""
    changelog_topics: Mapping[str, InternalTopic]
    """Those to make, by name, each with its partition count: one for every task of its sub-topology."""
    source_topics: Mapping[int, frozenset[str]]
    """Topics that a sub-topology reads, by its number."""
    tasks: Mapping[TaskId, tuple[TopicPartition, ...]]
    """Every task with the partitions it reads, sorted."""
    built: BuiltTopology
    """The topology, with the topics that its patterns match."""


def plan(built: BuiltTopology, partition_counts: Mapping[str, int]) -> Plan:
    """Decide partition counts and tasks.

    A repartition topic gets the number that was asked for; otherwise the greatest count among the topics read by the
    sub-topologies that write it, or, where it is joined, the count of what it is joined with.

    Args:
        built: The topology.
        partition_counts: Partition counts of the topics that exist on the cluster. Internal topics are not looked up
            in it: whoever creates them compares.

    Raises:
        MissingSourceTopicException: Source topics are missing; the message names all of them.
        TopologyException: Joined topics have different partition counts; the message names both topics and counts.
    """
    counts = _external_counts(built, partition_counts)
    repartition = {
        name: topic for subtopology in built.subtopologies for name, topic in subtopology.repartition_topics.items()
    }
    _count_repartition_topics(built, repartition, counts)
    for group in built.copartition_groups:
        _agree(group, repartition, counts)
    tasks: dict[TaskId, tuple[TopicPartition, ...]] = {}
    changelogs: dict[str, InternalTopic] = {}
    for subtopology in built.subtopologies:
        number = max((counts[topic] for topic in subtopology.source_topics), default=0)
        for partition in range(number):
            tasks[TaskId(subtopology.id, partition)] = tuple(
                TopicPartition(topic, partition)
                for topic in sorted(subtopology.source_topics)
                if partition < counts[topic]
            )
        for name, topic in subtopology.changelog_topics.items():
            if name in subtopology.source_changelogs:
                continue
            changelogs[name] = replace(topic, partitions=number)
            counts[name] = number
    return Plan(
        MappingProxyType(counts),
        MappingProxyType({name: replace(topic, partitions=counts[name]) for name, topic in repartition.items()}),
        MappingProxyType(changelogs),
        MappingProxyType({subtopology.id: subtopology.source_topics for subtopology in built.subtopologies}),
        MappingProxyType(tasks),
        built,
    )


def _external_counts(built: BuiltTopology, partition_counts: Mapping[str, int]) -> dict[str, int]:
    external = {
        topic
        for subtopology in built.subtopologies
        for topic in subtopology.source_topics - subtopology.repartition_topics.keys()
    }
    missing = sorted(external - partition_counts.keys())
    if missing:
        raise MissingSourceTopicException(
            f"Source topics do not exist: {', '.join(missing)}. Create them, then start the application "
            f"'{built.application_id}' again."
        )
    return {topic: partition_counts[topic] for topic in external}


def _count_repartition_topics(
    built: BuiltTopology, repartition: Mapping[str, InternalTopic], counts: dict[str, int]
) -> None:
    """Add counts of repartition topics, from the sources downwards: one may depend on another."""
    for name, topic in repartition.items():
        if topic.partitions is not None:
            counts[name] = topic.partitions
    open_topics = [name for name in repartition if name not in counts]
    while open_topics:
        found: dict[str, int] = {}
        for name in open_topics:
            above = [
                counts[source]
                for subtopology in built.subtopologies
                if name in subtopology.sink_topics
                for source in subtopology.source_topics
                if source in counts
            ]
            if above:
                found[name] = max(above)
                counts[name] = found[name]
        if not found:
            raise TopologyException(
                f"the partition counts of repartition topics depend on each other only: {', '.join(open_topics)}. "
                "Ask for a number of partitions for one of them"
            )
        open_topics = [name for name in open_topics if name not in found]


def _agree(group: frozenset[str], repartition: Mapping[str, InternalTopic], counts: dict[str, int]) -> None:
    """Give the repartition topics of a group of joined topics one partition count, or say who disagrees."""
    fixed = [name for name in sorted(group) if name not in repartition] or [
        name for name in sorted(group) if repartition[name].partitions_enforced
    ]
    count = counts[fixed[0]] if fixed else max((counts[name] for name in group), default=0)
    for name in sorted(group):
        topic = repartition.get(name)
        if topic is not None and not topic.partitions_enforced:
            counts[name] = count
        elif counts[name] != count:
            raise TopologyException(
                f"joined topics are not co-partitioned: '{fixed[0]}' has {count} partitions and '{name}' has "
                f"{counts[name]}. Joined topics need the same number of partitions: repartition one of the streams, "
                "or create one of the topics anew"
            )
