"""The immutable topology that the engine, the group leader and ``describe()`` read.

Names of internal topics in it are final (with the application id in front) except where said.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.api.engine import Operator
    from headrace.api.serde import Deserializer, Serializer
    from headrace.api.timestamps import TimestampExtractor
    from headrace.partitioning import StreamPartitioner
    from headrace.state.builders import AnyStoreBuilder


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """A source node. A deserializer or extractor of None means the configured default."""

    name: str
    topics: tuple[str, ...]
    key_deserializer: Deserializer[Any] | None = None
    value_deserializer: Deserializer[Any] | None = None
    timestamp_extractor: TimestampExtractor | None = None
    offset_reset: str | None = None
    """``earliest``, ``latest``, ``none`` or None for ``auto.offset.reset`` of the configuration."""


@dataclass(frozen=True, slots=True)
class ProcessorSpec:
    """An inner node: its operator and the names of the stores connected to it."""

    name: str
    operator: Operator
    stores: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SinkSpec:
    """A sink node. A serializer of None means the configured default; ``topic`` is final."""

    name: str
    topic: str
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
    """Changelog topic by topic name."""
    store_changelogs: Mapping[str, str]
    """Store name to changelog topic name (absent for stores without logging)."""


@dataclass(frozen=True, slots=True)
class BuiltTopology:
    """A whole application: sub-topologies by number and the groups of topics that must agree in partitions."""

    application_id: str
    subtopologies: tuple[SubTopology, ...]
    copartition_groups: tuple[frozenset[str], ...] = ()
    description: str = field(default="", repr=False)
    """What ``describe()`` prints."""
