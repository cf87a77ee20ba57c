"""What the threads of one client share: the built topology, loaded settings, the state directory."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.api.restore import StandbyUpdateListener, StateRestoreListener
from headrace.topology.built import SourceSpec

if TYPE_CHECKING:
    import uuid

    from headrace.config import StreamsConfig
    from headrace.engine.settings import EngineSettings
    from headrace.metrics import MetricsRegistry
    from headrace.resets import AutoOffsetReset
    from headrace.runtime.groups import GroupProtocol
    from headrace.runtime.positions import StatePositions
    from headrace.runtime.predecessors import Predecessors
    from headrace.state.directory import StateDirectory
    from headrace.topology.built import BuiltTopology


@dataclass(slots=True)
class Listeners:
    """Who is told of state that comes and goes; set before the client starts."""

    restore: StateRestoreListener = field(default_factory=StateRestoreListener)
    standby: StandbyUpdateListener = field(default_factory=StandbyUpdateListener)


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """One client's fixed parts. Times are in ms."""

    application_id: str
    client_id: str
    process_id: uuid.UUID
    config: StreamsConfig
    engine: EngineSettings
    fingerprint: bytes
    group: GroupProtocol
    directory: StateDirectory
    exactly_once: bool
    commit_interval_ms: int
    poll_ms: int
    task_timeout_ms: int
    max_poll_interval_ms: int
    repartition_purge_interval_ms: int
    metadata_max_age_ms: int
    cache_bytes_per_thread: int
    default_reset_policy: AutoOffsetReset
    positions: StatePositions
    listeners: Listeners
    predecessors: Predecessors
    metrics: MetricsRegistry
    paused: threading.Event = field(default_factory=threading.Event)
    """Set while tasks neither process nor restore (``KafkaStreams.pause``)."""

    def transactional_id(self, index: int) -> str:
        """That of a stream thread's producer: the same for the thread of this number of the next process."""
        return f"{self.application_id}-{self.process_id}-{index}"


def reset_policies(built: BuiltTopology) -> dict[str, AutoOffsetReset]:
    """Reset policy by source topic, where the source has one of its own."""
    return {
        topic: node.offset_reset
        for sub in built.subtopologies
        for node in sub.nodes
        if isinstance(node, SourceSpec) and node.offset_reset is not None
        for topic in node.topics
    }


def fingerprint(built: BuiltTopology) -> bytes:
    """A short hash of what members of one group must agree on: sub-topologies, their topics and stores.

    Of sources with patterns that is the pattern: members may find new topics at different moments.
    """
    text = "\n".join(
        f"{sub.id} {sorted((*sub.source_topics, *sub.patterns))} {sorted(sub.repartition_topics)} "
        f"{sorted(sub.changelog_topics)}"
        for sub in built.subtopologies
    )
    return hashlib.sha256(text.encode("utf-8")).digest()[:8]
