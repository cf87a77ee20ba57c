"""The metrics of one stream thread and of its tasks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from headrace.metrics.catalog import OWN_THREAD, THREAD
from headrace.runtime.states import ThreadState
from headrace.runtime.task_metrics import TaskMeters

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.engine.task import StreamTask
    from headrace.metrics import MetricsRegistry
    from headrace.records import TaskId, TopicPartition

_LOOK_S = 1.0
_ORDINALS = {state: number for number, state in enumerate(ThreadState)}


class ThreadMeters:
    """See the module. Written by the stream thread; read by any.

    Args:
        registry: Where the metrics are registered.
        name: Name of the thread.
        process_id: Of the client.
        state: The thread's state.
        started_ms: When it was made (epoch ms).
        blocked_s: Seconds that it has waited for brokers.
        cache_bytes: What its record caches hold.

    Attributes:
        commit: Commits and the ms that they took.
        rebalanced: What the group decided, ``assigned``, ``revoked`` and ``lost``, and the ms that following it took.
        tasks: Of the thread's active tasks.
    """

    def __init__(
        self,
        registry: MetricsRegistry,
        name: str,
        process_id: str,
        state: Callable[[], ThreadState],
        started_ms: int,
        blocked_s: Callable[[], float],
        cache_bytes: Callable[[], int],
    ) -> None:
        self._registry = registry
        self._name = name
        meter = registry.meter
        self._poll, self._process, self._punctuate, self.commit = meter(), meter(), meter(), meter()
        self._polled, self._processed, self._created, self._closed = meter(), meter(), meter(), meter()
        self.rebalanced = {"assigned": meter(), "revoked": meter(), "lost": meter()}
        self._looked_at = 0.0
        self._round_at = registry.clock()
        self._in_round = 0
        self.tasks: dict[TaskId, TaskMeters] = {}
        self._scope = scope = registry.scope()
        tags, clock = (name,), registry.clock
        for prefix, measured in {
            "poll": self._poll,
            "process": self._process,
            "commit": self.commit,
            "punctuate": self._punctuate,
            "task-created": self._created,
            "task-closed": self._closed,
            **{f"tasks-{event}": measured for event, measured in self.rebalanced.items()},
        }.items():
            scope.add_meter(THREAD, prefix, tags, measured)
        for prefix, records in {"poll-records": self._polled, "process-records": self._processed}.items():
            scope.add(THREAD, f"{prefix}-avg", tags, lambda records=records: records.average(clock()))  # type: ignore[misc]  # bound at once
            scope.add(THREAD, f"{prefix}-max", tags, lambda records=records: records.peak(clock()))  # type: ignore[misc]  # bound at once
        scope.add(THREAD, "thread-start-time", tags, lambda: started_ms)
        scope.add(THREAD, "state", tags, lambda: state().value)
        scope.add(THREAD, "thread-state", (name, process_id), lambda: _ORDINALS[state()])
        scope.add(THREAD, "blocked-time-ns-total", tags, lambda: int(blocked_s() * 1e9))
        scope.add(OWN_THREAD, "record-cache-bytes", tags, cache_bytes)
        scope.add(OWN_THREAD, "round-age-seconds", tags, lambda: self.round_age_s(clock()))

    def round_age_s(self, now: float) -> float:
        """Seconds since the thread's loop last came round; ``now`` is of the registry's clock."""
        return now - self._round_at

    def begins_round(self, now: float) -> bool:
        """Note that a round of the loop begins; returns whether it is time for :meth:`look`."""
        self._round_at = now
        if self._in_round:
            self._processed.record(now, self._in_round)
            self._in_round = 0
        return now - self._looked_at >= _LOOK_S

    def polled(self, now: float, took_s: float, records: int) -> None:
        """Note a poll."""
        self._poll.record(now, took_s * 1000)
        self._polled.record(now, records)

    def ran(self, task: StreamTask, now: float, took_s: float, records: int) -> None:
        """Note a run of at least one record of a task."""
        self._process.record(now, took_s * 1000, records)
        self._in_round += records
        self.tasks[task.id].ran(now, took_s, records, time.time_ns() // 1_000_000)

    def committed(self, now: float, took_s: float, tasks: Mapping[TaskId, StreamTask], now_ms: int) -> None:
        """Note a commit of all tasks that run.

        Args:
            now: Seconds of the registry's clock.
            took_s: How long it took.
            tasks: Which.
            now_ms: Of the wall clock (epoch ms).
        """
        self.commit.record(now, took_s * 1000)
        for task_id in tasks:
            self.tasks[task_id].last_commit_ms = now_ms

    def created(self, task: StreamTask, now: float) -> None:
        """Note a new task."""
        self.tasks[task.id] = TaskMeters(self._registry, self._name, task)
        self._created.record(now)

    def closed(self, task: StreamTask, now: float) -> None:
        """Note the end of a task."""
        self.tasks.pop(task.id).close()
        self._closed.record(now)

    def look(self, now: float, positions: Mapping[TopicPartition, int], end: Callable[[TopicPartition], int]) -> None:
        """Take in what tasks have counted. See :meth:`TaskMeters.look`; of those in ``positions``."""
        self._looked_at = now
        punctuated, took_ms = self._punctuate.count, self._punctuate.amount
        for meters in self.tasks.values():
            if meters.task.partitions <= positions.keys():
                before = meters.punctuate.count, meters.punctuate.amount
                meters.look(now, positions, end)
                punctuated += meters.punctuate.count - before[0]
                took_ms += meters.punctuate.amount - before[1]
        self._punctuate.follow(now, punctuated, took_ms)

    def close(self) -> None:
        """The thread has ended."""
        for meters in self.tasks.values():
            meters.close()
        self._scope.close()


__all__ = ["ThreadMeters"]
