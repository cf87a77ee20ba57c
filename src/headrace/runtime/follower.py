"""The standby tasks of one state updater: each store is kept at the end of its changelog.

A standby task has no end to reach: it follows until it is taken away, also over errors, which are logged and tried
again. While active tasks restore it does not read, so that those get all there is (:meth:`Follower.hold`).

A store whose changelog is an input topic follows up to what is committed and no further: what comes after is still to
be processed. Records past that wait here, and the partition is paused meanwhile.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from headrace.errors import (
    AuthorizationException,
    KafkaException,
    MissingSourceTopicException,
    OffsetOutOfRangeException,
    TimeoutException,
)
from headrace.runtime.changelogs import Doubt, check_origins, fits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.api.restore import StandbyUpdateListener
    from headrace.engine.standby import StandbyTask
    from headrace.kafka import PolledBatch, RecordConsumer, TopicAdmin
    from headrace.records import RawRecord, TaskId, TopicPartition

_log = logging.getLogger(__name__)

_RETRY_S = 1.0
_COMMITTED_EVERY_S = 1.0
_COMMITTED_WAIT_S = 0.25


class Follower:
    """See the module. Used by the state updater's thread, with its consumer.

    Args:
        admin: For offsets of logs.
        listener: Told what happens.
    """

    def __init__(self, admin: TopicAdmin, listener: StandbyUpdateListener) -> None:
        self._admin = admin
        self._listener = listener
        self._tasks: dict[TaskId, StandbyTask] = {}
        self._new: dict[TaskId, StandbyTask] = {}
        self._reading: dict[TopicPartition, StandbyTask] = {}
        self._held = False
        self._limits: dict[TopicPartition, int] = {}
        self._waiting: dict[TopicPartition, list[RawRecord]] = {}
        self._not_before = 0.0
        self._doubt = Doubt()
        self._limits_at = 0.0

    def __len__(self) -> int:
        return len(self._tasks)

    def add(self, task: StandbyTask) -> None:
        """Follow its changelogs from now on."""
        self._tasks[task.id] = self._new[task.id] = task

    def remove(self, consumer: RecordConsumer | None, task_ids: Iterable[TaskId]) -> None:
        """Let go of tasks; those that are not here are passed over."""
        gone = {task_id for task_id in task_ids if self._tasks.pop(task_id, None) is not None}
        for task_id in gone:
            self._new.pop(task_id, None)
        partitions = [tp for tp, task in self._reading.items() if task.id in gone]
        if consumer is not None:
            self._stop_reading(consumer, partitions)

    def hold(self, consumer: RecordConsumer) -> None:
        """Read nothing for now."""
        if not self._held:
            self._held = True
            if self._reading:
                consumer.pause(self._reading)

    def advance(self, consumer: RecordConsumer, timeout_s: float, most: int) -> int:
        """Read for up to ``timeout_s`` seconds, and take in what comes; returns the number of records."""
        if self._held:
            self._held = False
            consumer.resume(tp for tp in self._reading if tp not in self._waiting)
        self._begin(consumer)
        self._raise_limits(consumer)
        if not self._reading:
            time.sleep(timeout_s)
            return 0
        batch = consumer.poll(timeout_s, most)
        self.take(consumer, batch)
        return sum(map(len, batch.records.values()))

    def take(self, consumer: RecordConsumer, batch: PolledBatch) -> None:
        """Take in what a poll gave for partitions that are followed here."""
        for tp, error in batch.errors:
            if tp is not None and tp in self._reading and isinstance(error, OffsetOutOfRangeException):
                self._start_anew(consumer, tp, error)
            elif isinstance(error, AuthorizationException) or (tp is None and not isinstance(error, TimeoutException)):
                raise error
            else:
                _log.warning("following changelogs: %s", error)
        positions = consumer.position(self._reading)
        for tp, task in list(self._reading.items()):
            records = batch.records.get(tp)
            self._apply(consumer, tp, task, records or [], positions[tp])

    def _apply(
        self, consumer: RecordConsumer, tp: TopicPartition, task: StandbyTask, records: list[RawRecord], position: int
    ) -> None:
        store = task.changelogs[tp]
        if records:
            task.ends[tp] = max(consumer.watermarks(tp, cached=True)[1], position)
        if tp in self._limits:
            records, position = self._up_to_limit(consumer, tp, records, position)
        if records:
            task.restore(tp, records, position)
            self._listener.on_batch_loaded(tp, store.name, task.id, records[-1][0], len(records), task.ends[tp])
        elif position > (store.rows.body.offset() or 0):
            # past the markers of transactions
            store.rows.restore([], position)
            task.ends[tp] = max(task.ends.get(tp, -1), position)

    def _up_to_limit(
        self, consumer: RecordConsumer, tp: TopicPartition, records: list[RawRecord], position: int
    ) -> tuple[list[RawRecord], int]:
        waited = self._waiting.pop(tp, [])
        records = waited + records
        later = [record for record in records if record[0] >= self._limits[tp]]
        if later:
            self._waiting[tp] = later
            if not waited:
                consumer.pause((tp,))
            return records[: len(records) - len(later)], later[0][0]
        if waited:
            consumer.resume((tp,))
        return records, position

    def _begin(self, consumer: RecordConsumer) -> None:
        if not self._new or time.monotonic() < self._not_before:
            return
        tasks = list(self._new.values())
        partitions = [tp for task in tasks for tp in task.changelogs]
        try:
            ends = self._admin.list_offsets(partitions, "latest")
            starts = self._admin.list_offsets(partitions, "earliest")
            ids = self._admin.topic_ids(tp.topic for tp in partitions)
        except (TimeoutException, MissingSourceTopicException) as e:
            # a topic just made may not be known to every broker yet
            _log.debug("standby tasks wait: %s", e)
            self._not_before = time.monotonic() + _RETRY_S
            return
        for task in tasks:
            check_origins(task, ids)
        fit = all(fits(store, starts[tp], ends[tp]) for task in tasks for tp, store in task.changelogs.items())
        if self._doubt.lasts(time.monotonic(), fit=fit):
            self._not_before = time.monotonic() + _RETRY_S
            return
        offsets: dict[TopicPartition, int] = {}
        for task in tasks:
            for tp, store in task.changelogs.items():
                known = store.rows.body.offset()
                if not fits(store, starts[tp], ends[tp]):
                    _log.warning(
                        "standby task %s: store %s reflects offset %d of %s, but the log holds %d to %d: it is dropped "
                        "and filled anew",
                        task.id,
                        store.name,
                        known,
                        tp,
                        starts[tp],
                        ends[tp],
                    )
                    store.clear()
                    known = None
                offsets[tp] = starts[tp] if known is None else known
                task.ends[tp] = ends[tp]
                self._reading[tp] = task
                if tp in task.source_changelogs:
                    self._limits[tp] = offsets[tp]
                    self._limits_at = 0.0
                self._listener.on_update_start(tp, store.name, offsets[tp])
        self._new.clear()
        consumer.incremental_assign(offsets)
        _log.info("Standby tasks %s follow their changelogs", ", ".join(str(task.id) for task in tasks))

    def _start_anew(self, consumer: RecordConsumer, tp: TopicPartition, error: OffsetOutOfRangeException) -> None:
        task = self._reading[tp]
        store = task.changelogs[tp]
        _log.warning("standby task %s: store %s is dropped and filled anew: %s", task.id, store.name, error)
        store.clear()
        self._stop_reading(consumer, task.changelogs)
        self._new[task.id] = task

    def _stop_reading(self, consumer: RecordConsumer, partitions: Iterable[TopicPartition]) -> None:
        gone = [tp for tp in partitions if self._reading.pop(tp, None) is not None]
        for tp in gone:
            self._limits.pop(tp, None)
            self._waiting.pop(tp, None)
        consumer.incremental_unassign(gone)

    def _raise_limits(self, consumer: RecordConsumer) -> None:
        """See what was committed of input topics that serve as changelogs."""
        if not self._limits or time.monotonic() - self._limits_at < _COMMITTED_EVERY_S:
            return
        self._limits_at = time.monotonic()
        try:
            committed = consumer.committed(self._limits, _COMMITTED_WAIT_S)
        except KafkaException as e:
            _log.debug("standby tasks wait for committed offsets: %s", e)
            return
        for tp, entry in committed.items():
            if entry is not None and entry.offset > self._limits[tp]:
                self._limits[tp] = entry.offset
