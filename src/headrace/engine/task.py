"""A stream task: one partition of a sub-topology, from its first record to its last commit.

Life cycle (source: ``processor.internals.Task.State``); :data:`TRANSITIONS` is the whole of it.

Who may commit what: a task hands out offsets only while RUNNING or SUSPENDED and only when nothing in it has failed.
``prepare_commit`` flushes caches downstream and seals the stores; then the thread flushes the producer and commits;
then ``post_commit`` writes the sealed rows to the stores, or ``drop_uncommitted`` forgets them.
"""

from __future__ import annotations

import logging
import sys
from enum import Enum
from typing import TYPE_CHECKING, Any

from headrace.engine.binding import BoundTask
from headrace.engine.offsets import decode_metadata, encode_metadata
from headrace.engine.order import TimeOrder
from headrace.engine.stall import Stall
from headrace.errors import IllegalStateException
from headrace.records import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from headrace.api.engine import RecordCollector
    from headrace.api.stores import KeyValueBody
    from headrace.engine.queues import PartitionQueue
    from headrace.engine.settings import EngineSettings
    from headrace.metrics import TaskMetrics
    from headrace.records import RawRecord, TaskId
    from headrace.state.base import StoreBase
    from headrace.state.cache import CacheBudget
    from headrace.topology.built import SubTopology


_log = logging.getLogger(__name__)


class TaskState(Enum):
    """Where a task is in its life."""

    CREATED = "CREATED"
    """Made; its stores are open, nothing has been restored."""
    RESTORING = "RESTORING"
    """Its stores are being brought up to their changelogs."""
    RUNNING = "RUNNING"
    """It processes records."""
    SUSPENDED = "SUSPENDED"
    """It processes nothing more; its last commit may still come."""
    CLOSED = "CLOSED"
    """Its stores are closed and its directory is free."""


TRANSITIONS: Mapping[TaskState, frozenset[TaskState]] = {
    TaskState.CREATED: frozenset({TaskState.RESTORING, TaskState.CLOSED}),
    TaskState.RESTORING: frozenset({TaskState.RUNNING, TaskState.SUSPENDED, TaskState.CLOSED}),
    TaskState.RUNNING: frozenset({TaskState.RESTORING, TaskState.SUSPENDED, TaskState.CLOSED}),
    TaskState.SUSPENDED: frozenset({TaskState.RESTORING, TaskState.CLOSED}),
    TaskState.CLOSED: frozenset(),
}


class StreamTask:
    """One task. Used by one thread at a time."""

    def __init__(
        self,
        sub: SubTopology,
        task_id: TaskId,
        settings: EngineSettings,
        collector: RecordCollector,
        budget: CacheBudget | None,
        store_path: Callable[[str], Path],
        caught_up: Callable[[TopicPartition], bool],
        partitions: Collection[TopicPartition] | None = None,
        global_stores: Mapping[str, Any] | None = None,
        bodies: Mapping[str, KeyValueBody] | None = None,
    ) -> None:
        """Open the stores and bind the operators.

        Args:
            sub: What to run.
            task_id: Sub-topology and partition.
            settings: The application's settings.
            collector: Where output goes.
            budget: The thread's cache memory, or None for no caching.
            store_path: Directory of a store by its name.
            caught_up: Whether everything there is to fetch of a partition now has been added.
            partitions: The input partitions that exist (topics of one sub-topology may differ in their counts when they
                are merged and not joined); None for all.
            global_stores: Stores that every processor may read by name.
            bodies: Open bodies by store name, taken over from the standby task that was here before.
        """
        self.id = task_id
        self.state = TaskState.CREATED
        self._bound = BoundTask(
            sub, task_id, settings, collector, budget, store_path, partitions, global_stores, bodies
        )
        self.queues = self._bound.queues
        self._ordered: tuple[PartitionQueue, ...] = tuple(self.queues.values())
        self._record = self._bound.record
        self._source_changelogs = frozenset(tp for tp in self._bound.changelogs if tp.topic in sub.source_changelogs)
        self._caught_up = caught_up
        self._idle_ms = settings.max_task_idle_ms
        self._idle_since: dict[TopicPartition, int] = {}
        self._clock = settings.system_time_ms
        self._steady_ms = settings.steady_time_ms
        limit = settings.uncommitted_max_bytes
        self._max_uncommitted = sys.maxsize if limit < 0 else limit
        self._committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._handed_out: dict[TopicPartition, OffsetAndMetadata] = {}
        self._processed_since_commit = 0
        self._heads: TimeOrder[PartitionQueue] = TimeOrder()
        self._arrived: list[PartitionQueue] = []
        self._skipped = 0
        self._stall = Stall(task_id, settings.steady_time_ms, settings.task_timeout_ms)
        self.idling_since: int | None = None
        """Since when (epoch ms) there was nothing that could be processed; None while there is."""

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """Input partitions."""
        return frozenset(self.queues)

    @property
    def stores(self) -> Mapping[str, StoreBase[Any, Any]]:
        """Live stores by name, in registration order."""
        return self._bound.stores

    @property
    def changelogs(self) -> Mapping[TopicPartition, StoreBase[Any, Any]]:
        """Stores by the changelog partition that they are restored from."""
        return self._bound.changelogs

    @property
    def source_changelogs(self) -> frozenset[TopicPartition]:
        """Of the changelogs those that are input too: restored up to what is committed."""
        return self._source_changelogs

    def add_partition(self, partition: TopicPartition) -> bool:
        """Read one more partition of a source's topic or pattern; returns whether a source reads it."""
        added = self._bound.add_partition(partition)
        self._ordered = tuple(self.queues.values())
        return added

    @property
    def metrics(self) -> TaskMetrics:
        """Counters of the task."""
        return self._bound.metrics

    def source_of(self, topic: str) -> str:
        """The source that reads one of the task's input topics."""
        return self._bound.source_names[topic]

    @property
    def failure(self) -> Exception | None:
        """The fatal error that ended the task, or None."""
        return self._bound.failures.failure

    @property
    def stalled(self) -> Exception | None:
        """What the head record waits for, or None; see :mod:`headrace.engine.stall`."""
        return self._stall.error

    @property
    def stream_time_ms(self) -> int:
        """Greatest timestamp processed, -1 before the first record."""
        return self._record.stream_time

    @property
    def buffered(self) -> int:
        """Records that wait in the queues."""
        return sum(queue.size for queue in self._ordered)

    def transition(self, new: TaskState) -> None:
        """Go to another state.

        Raises:
            IllegalStateException: The life cycle does not allow it.
        """
        if new not in TRANSITIONS[self.state]:
            raise IllegalStateException(f"task {self.id} cannot go from {self.state.value} to {new.value}")
        self.state = new

    def complete_restoration(self) -> None:
        """The stores are restored: initialize the processors and go to RUNNING.

        Raises:
            StreamsException: A processor's ``init`` failed.
        """
        self._bound.initialize()
        self.transition(TaskState.RUNNING)

    def restore(self, changelog: TopicPartition, records: list[RawRecord], offset: int) -> None:
        """Take in committed records of a changelog partition, in order, and ``offset``, the next one to read."""
        self._bound.changelogs[changelog].restore(records, offset)

    def resume_from(self, committed: Mapping[TopicPartition, OffsetAndMetadata | None]) -> None:
        """Take over partition and stream time, and what processors keep, from the metadata of the committed offsets."""
        for partition, entry in committed.items():
            queue = self.queues.get(partition)
            if queue is None or entry is None:
                continue
            queue.partition_time, numbers = decode_metadata(entry.metadata)
            self._bound.metadata.merge(numbers)
            self._record.stream_time = max(self._record.stream_time, queue.partition_time)
            self._committed[partition] = entry

    def add_records(self, partition: TopicPartition, records: list[RawRecord]) -> None:
        """Append raw records of one of the task's partitions; the list is the task's own from now on."""
        queue = self.queues[partition]
        if records and not queue.size:
            self._arrived.append(queue)
        queue.add(records)
        if self._idle_since:
            self._idle_since.pop(partition, None)

    def process(self, limit: int) -> int:
        """Process up to ``limit`` records in the order of their times. Returns how many left the queues.

        After the record that moves stream time to a punctuation's due time, the punctuator is called. It returns early
        when the queues are empty, when a partition must be waited for (``max.task.idle.ms``), when the head record
        cannot be decoded yet (:attr:`stalled`), or when a commit is asked for.

        Raises:
            Exception: :attr:`failure`, when anything fatal happened, even if a user's code swallowed it.
        """
        if self._bound.failures.failure is not None:
            raise self._bound.failures.failure
        if self._stall.holds():
            return 0
        record = self._record
        done = 0
        try:
            while done < limit:
                record.interrupt = False
                chosen = self._choose()
                if chosen is None:
                    break
                queue, bound = chosen
                try:
                    done += queue.run(bound, limit - done)
                finally:
                    if queue.size:
                        self._offer(queue)
                if self._bound.failures.failure is not None:
                    raise self._bound.failures.failure
                if record.stream_time >= record.punctuate_at:
                    self._bound.punctuations.run_stream_time(self._bound.punctuate)
                if self._bound.commit_requested or self._bound.failures.unready is not None:
                    break
            self._note_stall()
        except Exception as e:
            raise self._bound.failures.fail_here(e)  # noqa: B904  # it is the same error, an earlier one, or has it as its cause
        finally:
            record.topic, record.partition, record.offset = None, -1, -1
            done += self._skipped
            self._skipped = 0
            if done:
                self.idling_since = None
                self._processed_since_commit += done
                self._bound.metrics.processed += done
            else:
                self.idle()
        return done

    def idle(self) -> None:
        """There is nothing to process now."""
        if self.idling_since is None:
            self.idling_since = self._clock()

    def punctuate_wall_clock(self) -> bool:
        """Call the punctuators that are due by the wall clock. Returns whether any was.

        Raises:
            Exception: :attr:`failure`.
        """
        bound = self._bound
        if bound.failures.failure is not None:
            raise bound.failures.failure
        try:
            called = bound.punctuations.run_wall_clock(bound.punctuate)
        except Exception as e:
            raise bound.failures.fail_here(e)  # noqa: B904  # it is the same error, an earlier one, or has it as its cause
        if called:
            self._processed_since_commit += 1
        return called

    def next_wall_clock(self) -> int:
        """When the next punctuation by the wall clock is due (epoch ms)."""
        return self._bound.punctuations.next_wall_clock()

    @property
    def has_uncommitted(self) -> bool:
        """Whether anything was done since the last commit."""
        return self._processed_since_commit > 0 or self._bound.commit_requested

    def wants_commit(self) -> bool:
        """Whether a processor asked for a commit, or uncommitted writes fill their memory."""
        if self._bound.commit_requested:
            return True
        if not self._processed_since_commit:
            return False
        waiting = sum(store.rows.uncommitted_bytes for store in self._bound.stores.values())
        return waiting >= self._max_uncommitted

    def _flush_caches(self) -> None:
        bound = self._bound
        # a flush may dirty the cache of a store further down
        while bound.dirty():
            for store in bound.stores.values():
                store.flush()
                if bound.failures.failure is not None:
                    raise bound.failures.failure

    def prepare_commit(
        self, position: Callable[[TopicPartition], int | None]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Flush caches downstream, seal the stores, and give the offsets to commit: those that have moved.

        Args:
            position: Where the consumer reads next in a partition, past transaction markers; None when it has none.

        Raises:
            Exception: :attr:`failure`; nothing may be committed for this task.
        """
        bound = self._bound
        if bound.failures.failure is not None:
            raise bound.failures.failure
        try:
            self._flush_caches()
            # what these send on may dirty a cache again
            while bound.settle():
                self._flush_caches()
        except Exception as e:
            raise bound.failures.fail_here(e)  # noqa: B904  # it is the same error, an earlier one, or has it as its cause
        for store in bound.stores.values():
            store.seal()
        moved: dict[TopicPartition, OffsetAndMetadata] = {}
        kept = bound.metadata
        for partition, queue in self.queues.items():
            offset = queue.head_offset()
            if offset is None:
                # nothing waits, so the position is past everything processed, transaction markers included
                offset = max(queue.next_offset or -1, position(partition) or -1)
                if offset < 0:
                    continue
            elif queue.next_offset is None:
                continue
            entry = OffsetAndMetadata(offset, encode_metadata(queue.partition_time, kept.entries))
            committed = self._committed.get(partition)
            if committed is None or committed.offset != offset or kept.changed:
                moved[partition] = entry
        self._handed_out = dict(moved)
        return moved

    def post_commit(self, acked: Mapping[TopicPartition, int]) -> None:
        """The commit succeeded: write its rows to the stores.

        Args:
            acked: The last acknowledged offset of every changelog partition written to.
        """
        self._committed.update(self._handed_out)
        self._handed_out = {}
        self._bound.metadata.changed = False
        for partition, store in self._bound.changelogs.items():
            if partition in self.source_changelogs:
                committed = self._committed.get(partition)
                offset = None if committed is None else committed.offset
            else:
                last = acked.get(partition)
                offset = None if last is None else last + 1
            store.rows.apply(offset)
        logged = set(self._bound.changelogs.values())
        for store in self._bound.stores.values():
            if store not in logged:
                store.rows.apply(None)
        self._bound.commit_requested = False
        self._processed_since_commit = 0

    def committed_offsets(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """The last committed offset of each input partition that has one."""
        return self._committed

    def end_offsets(self) -> dict[TopicPartition, int]:
        """The greatest offset that has come from each input partition, -1 before the first. For any thread."""
        return {queue.partition: queue.end_offset for queue in self._ordered}

    def drop_uncommitted(self) -> None:
        """Forget every write since the last commit, and every record that waits."""
        for store in self._bound.stores.values():
            store.drop_uncommitted()
        for queue in self._ordered:
            queue.clear()
        self._heads.clear()
        self._arrived.clear()
        self._stall.end()

    def close(self) -> None:
        """Close processors and stores; uncommitted writes are forgotten. Closing twice does nothing."""
        if self.state is TaskState.CLOSED:
            return
        self.transition(TaskState.CLOSED)
        self.drop_uncommitted()
        self._bound.close()

    def recycle(self) -> dict[str, KeyValueBody]:
        """Close processors, and give the open bodies by store name for the standby task that takes the task's place.

        What a processor's ``close`` raises is logged.
        """
        self.transition(TaskState.CLOSED)
        self.drop_uncommitted()
        try:
            self._bound.close_operators()
        except BaseException as e:
            _log.warning("task %s did not close in good order: %r", self.id, e)
        return self._bound.detach()

    def _choose(self) -> tuple[PartitionQueue, int] | None:
        heads = self._heads
        arrived, self._arrived = self._arrived, []
        for queue in arrived:
            self._offer(queue)
        if not heads or self._bound.failures.unready is not None or self._awaited():
            return None
        queue = heads.poll()
        return queue, heads.least()

    def _offer(self, queue: PartitionQueue) -> None:
        failures = self._bound.failures
        if failures.unready is None:
            waiting = queue.size
            time = queue.head_timestamp()
            # those before the head that do not decode are done with
            self._skipped += waiting - queue.size
            if failures.unready is None:
                if queue.size:
                    self._heads.offer(queue, time)
                return
        # a head that cannot be decoded yet may have a time that is not known yet
        self._arrived.append(queue)

    def _note_stall(self) -> None:
        unready, self._bound.failures.unready = self._bound.failures.unready, None
        if unready is None:
            self._stall.end()
            return
        record = self._record
        self._stall.extend(unready, f"{record.topic}-{record.partition} offset {record.offset}")

    def _awaited(self) -> bool:
        # all of them, also after the first: their times of waiting run side by side
        awaited = [queue for queue in self._ordered if not queue.size and self._must_wait_for(queue.partition)]
        return bool(awaited)

    def _must_wait_for(self, partition: TopicPartition) -> bool:
        if self._idle_ms < 0:
            return False
        if not self._caught_up(partition):
            self._idle_since.pop(partition, None)
            return True
        if self._idle_ms == 0:
            return False
        now = self._steady_ms()
        return now - self._idle_since.setdefault(partition, now) < self._idle_ms

    def must_wait(self) -> bool:
        """Whether records wait only for another partition's, or for what their serde needs."""
        return self.buffered > 0 and (self._stall.holds() or self._awaited())
