"""What the threads of one client share: the built topology, loaded settings, the state directory."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import uuid
    from collections.abc import Mapping

    from headrace.config import StreamsConfig
    from headrace.engine.settings import EngineSettings
    from headrace.resets import AutoOffsetReset
    from headrace.runtime.topics import TopicPreparation
    from headrace.state.directory import StateDirectory
    from headrace.topology.built import BuiltTopology, SubTopology


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """One client's fixed parts. Times are in ms."""

    application_id: str
    client_id: str
    process_id: uuid.UUID
    config: StreamsConfig
    engine: EngineSettings
    subtopologies: Mapping[int, SubTopology]
    fingerprint: bytes
    topics: TopicPreparation
    directory: StateDirectory
    exactly_once: bool
    commit_interval_ms: int
    poll_ms: int
    task_timeout_ms: int
    max_poll_interval_ms: int
    repartition_purge_interval_ms: int
    metadata_max_age_ms: int
    cache_bytes_per_thread: int
    reset_policies: Mapping[str, AutoOffsetReset]
    """Reset policy by source topic, where the source has one of its own."""
    default_reset_policy: AutoOffsetReset

    def membership_options(self, thread_index: int) -> dict[str, Any]:
        """Keyword arguments of the membership of one thread; a static id ends with the thread's number, as in Java."""
        return self.config.membership_config(thread_index)


def fingerprint(built: BuiltTopology) -> bytes:
    """A short hash of what members of one group must agree on: sub-topologies, their topics and stores."""
    text = "\n".join(
        f"{sub.id} {sorted(sub.source_topics)} {sorted(sub.repartition_topics)} {sorted(sub.changelog_topics)}"
        for sub in built.subtopologies
    )
    return hashlib.sha256(text.encode("utf-8")).digest()[:8]
