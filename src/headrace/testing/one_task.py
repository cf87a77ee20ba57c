"""Everything in one task, as the Java library's TopologyTestDriver does it.

All sub-topologies run in task ``0_0`` with one partition; records for internal topics, and for output topics that the
topology reads, go round at once until it is quiet. After every record there is a commit, so caches flush and their
deduplication is not seen.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.api.handlers import LogAndContinueExceptionHandler
from headrace.engine.global_task import GlobalTask
from headrace.engine.task import StreamTask, TaskState
from headrace.records import TaskId, TopicPartition
from headrace.state.cache import CacheBudget
from headrace.testing.simulation import Written
from headrace.topology.built import merged

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from headrace.api.engine import ChangelogSend, Send
    from headrace.engine.settings import EngineSettings
    from headrace.records import Headers
    from headrace.topology.built import BuiltTopology


class OneTask:
    """A topology in one task. Its output goes to ``capture``."""

    def __init__(
        self,
        built: BuiltTopology,
        settings: EngineSettings,
        directory: Path,
        cache_bytes: int,
        capture: Callable[[Written], None],
    ) -> None:
        self._capture = capture
        self._sent: list[Written] = []
        self._pending: deque[Written] = deque()
        self._offsets: dict[str, int] = {}
        self._written: dict[str, int] = {}
        stores = directory / built.application_id / "0_0" / "rocksdb"
        self.global_task = _global_task(built, settings, directory)
        self._task = StreamTask(
            merged(0, built.subtopologies, built.node_order),
            TaskId(0, 0),
            settings,
            self,
            CacheBudget(cache_bytes),
            lambda store: stores / store,
            lambda partition: True,
            global_stores=None if self.global_task is None else self.global_task.views,
        )
        try:
            self._task.transition(TaskState.RESTORING)
            self._task.complete_restoration()
        except BaseException:
            self._task.close()
            raise
        kept = () if self.global_task is None else self.global_task.partitions
        self.sources = {partition.topic for partition in (*self._task.partitions, *kept)}

    def tasks(self) -> dict[TaskId, StreamTask]:
        """The task."""
        return {self._task.id: self._task}

    def global_stores(self) -> Mapping[str, Any]:
        """The global stores by name."""
        return {} if self.global_task is None else self.global_task.stores

    def global_drops(self) -> Counter[str]:
        """Records that the processors of global stores dropped, by reason."""
        return Counter() if self.global_task is None else self.global_task.dropped

    def reads(self, topic: str) -> bool:
        """Whether anything reads a topic, by its name or by a pattern."""
        if topic not in self.sources and self._task.add_partition(TopicPartition(topic, 0)):
            self.sources.add(topic)
        return topic in self.sources

    def pipe(self, topic: str, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers | None) -> None:
        """Add one input record and process until it is quiet."""
        self._enqueue(topic, key, value, timestamp, headers)
        self._run()

    def punctuate_wall_clock(self) -> None:
        """Call the punctuators that are due by the clock, and process what they send."""
        self._task.punctuate_wall_clock()
        self.commit()
        self._recirculate()
        self._run()

    def commit(self) -> None:
        """Flush caches, as a commit does."""
        self._task.prepare_commit(lambda partition: None)
        self._task.post_commit({})
        # as in Java: what a record has sent is not seen when it fails
        for written in self._sent:
            self._capture(written)
            if self.reads(written.topic):
                self._pending.append(written)
        self._sent.clear()

    def close(self) -> None:
        """Close processors and stores."""
        if self.global_task is not None:
            self.global_task.close()
        self._task.close()

    def sender(self, topic: str) -> Send:
        """See :class:`headrace.api.engine.RecordCollector`."""

        def send(
            partition: int | None,
            key: bytes | None,
            value: bytes | None,
            timestamp: int | None,
            headers: Headers | None,
        ) -> None:
            self._send(topic, key, value, timestamp or 0, headers)

        return send

    def changelog_sender(self, topic: str, partition: int) -> ChangelogSend:
        """See :class:`headrace.api.engine.RecordCollector`."""
        return lambda key, value, timestamp, headers: self._send(topic, key, value, timestamp, headers)

    def partition_count(self, topic: str) -> int:
        """See :class:`headrace.api.engine.RecordCollector`."""
        return 1

    def _send(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp: int | None, headers: Headers | None
    ) -> None:
        offset = self._written.get(topic, 0)
        self._written[topic] = offset + 1
        self._sent.append(Written(topic, 0, offset, timestamp, key, value, headers))

    def _enqueue(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers | None
    ) -> None:
        offset = self._offsets.get(topic, 0)
        self._offsets[topic] = offset + 1
        partition, records = TopicPartition(topic, 0), [(offset, timestamp, key, value, headers)]
        if self.global_task is not None and partition in self.global_task.partitions:
            self.global_task.process(partition, records)
        else:
            self._task.add_records(partition, records)

    def _run(self) -> None:
        while True:
            moved = self._task.process(1)
            if moved or self._task.wants_commit():
                self.commit()
            if self._task.stalled is not None:
                # it goes on when the wall clock is moved
                raise self._task.stalled
            if not self._recirculate() and not moved:
                return

    def _recirculate(self) -> bool:
        moved = bool(self._pending)
        while self._pending:
            written = self._pending.popleft()
            self._enqueue(written.topic, written.key, written.value, written.timestamp or 0, written.headers)
        return moved


def _global_task(built: BuiltTopology, settings: EngineSettings, directory: Path) -> GlobalTask | None:
    if built.global_stores is None:
        return None
    stores = directory / built.application_id / "global" / "rocksdb"
    return GlobalTask(
        built.global_stores,
        replace(settings, deserialization_handler=LogAndContinueExceptionHandler()),
        lambda store: stores / store,
        dict.fromkeys(built.global_stores.part.source_topics, 1),
    )
