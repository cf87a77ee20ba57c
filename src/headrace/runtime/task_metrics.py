"""The metrics of one active task: its plain counters, and what its thread notes now and then."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headrace.metrics.catalog import NODE, OWN_TASK, TASK, TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.engine.queues import PartitionQueue
    from headrace.engine.task import StreamTask
    from headrace.metrics import Meter, MetricsRegistry
    from headrace.records import TopicPartition


class PartitionProgress(NamedTuple):
    """How far a task is in one input partition.

    Attributes:
        offset: Of the next record to process.
        end: Of the partition as of the last fetch; None when nothing was fetched yet.
    """

    offset: int
    end: int | None

    @property
    def lag(self) -> int | None:
        """Offsets from the one to the other."""
        return None if self.end is None else max(0, self.end - self.offset)


class _SourceMeters:
    """Of one source: how many records a second it takes up, and how late they are when it does."""

    __slots__ = ("latency", "process", "queues")

    def __init__(self, process: Meter, latency: Meter) -> None:
        self.process = process
        self.latency = latency
        self.queues: list[PartitionQueue] = []


class TaskMeters:
    """See the module. Written by the task's stream thread; read by any.

    Attributes:
        task: The task.
        process: Records and the ms that they took.
        punctuate: Calls of punctuators and the ms that they took.
        progress: By input partition how far the task was when last looked at.
        last_commit_ms: When it last committed (epoch ms), 0 before that.
    """

    def __init__(self, registry: MetricsRegistry, thread: str, task: StreamTask) -> None:
        """Register the metrics.

        Args:
            registry: Where.
            thread: Name of the task's thread.
            task: The task.
        """
        self.task = task
        self.process = registry.meter()
        self.progress: Mapping[TopicPartition, PartitionProgress] = {}
        self.last_commit_ms = 0
        self.punctuate, self._dropped, self._restored = registry.meter(), registry.meter(), registry.meter()
        self._sources: dict[str, _SourceMeters] = {}
        self._reasons: set[str] = set()
        self._outputs: set[tuple[str, str]] = set()
        self._partitions: set[TopicPartition] = set()
        self._scope = registry.scope()
        self._tags = (thread, str(task.id))
        self._register()
        self._register_sources()
        self._register_reasons()
        self._register_outputs()

    def ran(self, now: float, took_s: float, records: int, now_ms: int) -> None:
        """Note a run of at least one record.

        Args:
            now: Seconds of the registry's clock.
            took_s: How long it took.
            records: How many.
            now_ms: Of the wall clock (epoch ms).
        """
        self.process.record(now, took_s * 1000, records)
        for source in self._sources.values():
            for queue in source.queues:
                if queue.last_time >= 0:
                    source.latency.record(now, now_ms - queue.last_time)
                    queue.last_time = -1

    def look(self, now: float, positions: Mapping[TopicPartition, int], end: Callable[[TopicPartition], int]) -> None:
        """Take in what has been counted since the last look; called about once a second.

        Args:
            now: Seconds of the registry's clock.
            positions: Where the consumer is in the task's partitions.
            end: The end of a partition as of the last fetch; negative when it is not known.
        """
        counters = self.task.metrics
        self.punctuate.follow(now, counters.punctuated, counters.punctuation_ms)
        self._restored.follow(now, counters.restored)
        self._dropped.follow(now, counters.dropped.total())
        if len(counters.dropped) > len(self._reasons):
            self._register_reasons()
        if len(counters.produced) > len(self._outputs):
            self._register_outputs()
        for source in self._sources.values():
            source.process.follow(now, _taken(source.queues))
        progress: dict[TopicPartition, PartitionProgress] = {}
        for tp, queue in self.task.queues.items():
            waiting, last = queue.head_offset(), end(tp)
            # nothing waits: the consumer is past all that was processed, markers of transactions included
            progress[tp] = PartitionProgress(positions[tp] if waiting is None else waiting, None if last < 0 else last)
        self.progress = progress
        if self._partitions != progress.keys():
            self._register_partitions()

    def close(self) -> None:
        """The task is no longer here."""
        self._scope.close()

    def _register(self) -> None:
        task, tags, add, clock = self.task, self._tags, self._scope.add, self._scope.registry.clock
        counters, process = task.metrics, self.process
        self._scope.add_meter(TASK, "process", tags, process)
        # counted by the engine, so that it is exact wherever the task runs
        add(TASK, "process-total", tags, lambda: counters.processed)
        add(TASK, "active-process-ratio", tags, lambda: min(1.0, process.amount_rate(clock()) / 1000))
        add(TASK, "active-buffer-count", tags, lambda: task.buffered)
        self._scope.add_meter(TASK, "punctuate", tags, self.punctuate)
        add(TASK, "punctuate-total", tags, lambda: counters.punctuated)
        self._scope.add_meter(TASK, "dropped-records", tags, self._dropped)
        add(TASK, "dropped-records-total", tags, lambda: counters.dropped.total())
        self._scope.add_meter(TASK, "restore", tags, self._restored)
        add(TASK, "restore-total", tags, lambda: counters.restored)
        add(TASK, "restore-remaining-records-total", tags, lambda: counters.to_restore)
        add(OWN_TASK, "last-commit-time-ms", tags, lambda: self.last_commit_ms)
        add(OWN_TASK, "stream-time-ms", tags, lambda: task.stream_time_ms)

    def _register_sources(self) -> None:
        add, meter, clock = self._scope.add, self._scope.registry.meter, self._scope.registry.clock
        by_topic: dict[tuple[str, str], list[PartitionQueue]] = {}
        for tp, queue in self.task.queues.items():
            node = self.task.source_of(tp.topic)
            by_topic.setdefault((node, tp.topic), []).append(queue)
            if node not in self._sources:
                self._sources[node] = _SourceMeters(meter(), meter())
            self._sources[node].queues.append(queue)
        for (node, topic), queues in by_topic.items():
            tags = (*self._tags, node, topic)
            add(TOPIC, "records-consumed-total", tags, partial(_taken, queues))
            add(TOPIC, "bytes-consumed-total", tags, partial(_taken_bytes, queues))
        for node, source in self._sources.items():
            of_node, latency = (*self._tags, node), source.latency
            self._scope.add_meter(NODE, "process", of_node, source.process)
            add(NODE, "process-total", of_node, partial(_taken, source.queues))
            for kind, view in {"avg": latency.average, "min": latency.least, "max": latency.peak}.items():
                add(NODE, f"record-e2e-latency-{kind}", of_node, lambda view=view: view(clock()))  # type: ignore[misc]  # bound at once

    def _register_outputs(self) -> None:
        produced = self.task.metrics.produced
        for output in set(produced) - self._outputs:
            self._outputs.add(output)
            tags, traffic = (*self._tags, *output), produced[output]
            self._scope.add(TOPIC, "records-produced-total", tags, partial(getattr, traffic, "records"))
            self._scope.add(TOPIC, "bytes-produced-total", tags, partial(getattr, traffic, "bytes"))

    def _register_reasons(self) -> None:
        dropped = self.task.metrics.dropped
        for reason in set(dropped) - self._reasons:
            self._reasons.add(reason)
            self._scope.add(
                OWN_TASK,
                "dropped-records-by-reason-total",
                (*self._tags, reason),
                partial(dropped.__getitem__, reason),
            )

    def _register_partitions(self) -> None:
        for tp in self.progress.keys() - self._partitions:
            self._partitions.add(tp)
            self._scope.add(OWN_TASK, "records-lag", (*self._tags, tp.topic, str(tp.partition)), partial(self._lag, tp))

    def _lag(self, tp: TopicPartition) -> float:
        lag = self.progress[tp].lag
        return float("nan") if lag is None else lag


def _taken(queues: list[PartitionQueue]) -> int:
    return sum(queue.taken for queue in queues)


def _taken_bytes(queues: list[PartitionQueue]) -> int:
    return sum(queue.taken_bytes or 0 for queue in queues)


__all__ = ["PartitionProgress", "TaskMeters"]
