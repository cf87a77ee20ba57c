"""A task over a topology, with lists in place of brokers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.api.handlers import (
    DefaultProductionExceptionHandler,
    LogAndFailExceptionHandler,
    LogAndFailProcessingExceptionHandler,
)
from headrace.api.timestamps import FailOnInvalidTimestamp
from headrace.engine.settings import EngineSettings
from headrace.engine.task import StreamTask, TaskState
from headrace.records import TaskId, TopicPartition
from headrace.serdes import Serdes
from headrace.state.cache import CacheBudget

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.api.engine import ChangelogSend, Send
    from headrace.api.stores import KeyValueBody
    from headrace.records import Headers, RawRecord
    from headrace.topology import Topology

TEXT = Serdes.String()
DEFAULTS: dict[str, Any] = {
    "default_key_serde": TEXT,
    "default_value_serde": TEXT,
    "deserialization_handler": LogAndFailExceptionHandler(),
    "processing_handler": LogAndFailProcessingExceptionHandler(),
    "production_handler": DefaultProductionExceptionHandler(),
    "timestamp_extractor": FailOnInvalidTimestamp(),
    "max_task_idle_ms": 0,
    "buffered_records_per_partition": 1000,
    "uncommitted_max_bytes": 1 << 26,
}


class Lists:
    """Collector: everything sent, in order, as ``(topic, partition, key, value, timestamp, headers)``."""

    def __init__(self, partition_counts: dict[str, int] | None = None) -> None:
        self.sent: list[tuple[Any, ...]] = []
        self.changelog: list[tuple[Any, ...]] = []
        self.changelog_headers: list[Headers | None] = []
        self.refuse: dict[str, Exception] = {}
        self._counts = partition_counts or {}

    def sender(self, topic: str) -> Send:
        def send(
            partition: int | None,
            key: bytes | None,
            value: bytes | None,
            timestamp: int | None,
            headers: Headers | None,
        ) -> None:
            if topic in self.refuse:
                raise self.refuse[topic]
            self.sent.append((topic, partition, key, value, timestamp, headers))

        return send

    def changelog_sender(self, topic: str, partition: int) -> ChangelogSend:
        def send(key: bytes, value: bytes | None, timestamp: int | None, headers: Headers | None) -> None:
            if topic in self.refuse:
                raise self.refuse[topic]
            self.changelog.append((topic, partition, key, value, timestamp))
            self.changelog_headers.append(headers)

        return send

    def partition_count(self, topic: str) -> int:
        return self._counts.get(topic, 1)

    def values(self, topic: str = "out") -> list[str | None]:
        return [None if sent[3] is None else sent[3].decode() for sent in self.sent if sent[0] == topic]


class Bench:
    """One running task."""

    def __init__(
        self,
        topology: Topology,
        path: Path | None = None,
        *,
        task_id: TaskId = TaskId(0, 0),  # noqa: B008  # a value
        cache_bytes: int = 0,
        collector: Lists | None = None,
        run: bool = True,
        bodies: Mapping[str, KeyValueBody] | None = None,
        **settings: Any,
    ) -> None:
        self.now = 1000
        self.jumped_ms = 0
        """How far the wall clock is from the steady one."""
        self.lagging: set[TopicPartition] = set()
        self.collector = collector or Lists()
        self.built = topology.build("app")
        values = {**DEFAULTS, **settings}
        self.settings = EngineSettings(
            "app",
            {"some.key": "x"},
            system_time_ms=lambda: self.now + self.jumped_ms,
            steady_time_ms=lambda: self.now,
            **values,
        )
        self.task = StreamTask(
            self.built.subtopologies[task_id.subtopology],
            task_id,
            self.settings,
            self.collector,
            CacheBudget(cache_bytes) if cache_bytes else None,
            lambda store: (path or _no_path(store)) / store,
            lambda partition: partition not in self.lagging,
            bodies=bodies,
        )
        if run:
            self.task.transition(TaskState.RESTORING)
            self.task.complete_restoration()
        self._next: dict[TopicPartition, int] = {}

    def tp(self, topic: str) -> TopicPartition:
        return TopicPartition(topic, self.task.id.partition)

    def add(self, topic: str, *records: tuple[Any, Any, int], first_offset: int | None = None) -> None:
        """Append ``(key, value, timestamp)`` records; text is encoded, bytes are taken as they are."""
        partition = self.tp(topic)
        offset = self._next.get(partition, 0) if first_offset is None else first_offset
        raw: list[RawRecord] = [
            (offset + number, timestamp, _bytes(key), _bytes(value), None)
            for number, (key, value, timestamp) in enumerate(records)
        ]
        self._next[partition] = offset + len(raw)
        self.task.add_records(partition, raw)

    def add_values(self, topic: str, *pairs: tuple[str, int]) -> None:
        self.add(topic, *(("k", value, timestamp) for value, timestamp in pairs))

    def process(self, limit: int = 1000) -> int:
        return self.task.process(limit)

    def offsets(self, positions: dict[str, int] | None = None) -> dict[str, int]:
        """Prepare a commit: topic to offset."""
        found = self.task.prepare_commit(
            lambda partition: None if positions is None else positions.get(partition.topic)
        )
        return {partition.topic: entry.offset for partition, entry in found.items()}

    def commit(self, positions: dict[str, int] | None = None) -> dict[str, int]:
        offsets = self.offsets(positions)
        self.task.post_commit({})
        return offsets


def _bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _no_path(store: str) -> Path:
    # a persistent store cannot make its directory there: it needs a bench with a path
    return Path(os.devnull) / store
