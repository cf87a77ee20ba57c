"""Restores tasks on a thread and with a consumer of its own, so that running tasks go on.

What flows: the stream thread hands over a created task; here its committed offsets are read (waiting for a
predecessor's unfinished transaction), each store is brought from the offset it reflects up to the high watermark that
its changelog had when the restore began, and the task goes back with the offsets to start from. While it is here, its
stores belong to this thread; afterwards to the stream thread again.

A restore ends by the high watermark read with READ_UNCOMMITTED and by the consumer's position, which passes aborted
records and markers: ending by the last stable offset would leave out what an unfinished transaction is about to commit.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.errors import (
    KafkaException,
    MissingSourceTopicException,
    OffsetOutOfRangeException,
    StreamsException,
    TaskCorruptedException,
    TimeoutException,
)
from headrace.resets import AutoOffsetReset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.engine.task import StreamTask
    from headrace.kafka import RecordConsumer, TopicAdmin
    from headrace.records import OffsetAndMetadata, RawRecord, TaskId, TopicPartition
    from headrace.state.base import StoreBase

_log = logging.getLogger(__name__)

_POLL_S = 0.1
_BATCH = 10_000
_COMMITTED_WAIT_S = 0.25
_SIGN_OF_LIFE_S = 1.0
_RETRY_S = 0.1


@dataclass(slots=True)
class Restored:
    """A task that is ready to run: where its partitions start, and what was committed for them."""

    task: StreamTask
    positions: dict[TopicPartition, int]
    committed: dict[TopicPartition, OffsetAndMetadata | None]
    restored_records: int


@dataclass(slots=True)
class _Changelog:
    end: int
    started: float
    store: str
    count: int = 0


@dataclass(slots=True)
class _Job:
    task: StreamTask
    deadline: float
    committed: dict[TopicPartition, OffsetAndMetadata | None] | None = None
    open: dict[TopicPartition, _Changelog] = field(default_factory=dict["TopicPartition", _Changelog])
    count: int = 0
    not_before: float = 0.0
    """When the brokers are asked again after they had no answer."""


class StateUpdater:
    """The restore thread of one stream thread."""

    def __init__(
        self,
        name: str,
        consumer: Callable[[], RecordConsumer],
        admin: TopicAdmin,
        reset_policy: Callable[[TopicPartition], AutoOffsetReset],
        timeout_ms: int,
    ) -> None:
        """Make it; nothing runs before :meth:`start`.

        Args:
            name: The thread's name.
            consumer: Makes the restore consumer, which is this thread's own.
            admin: For offsets of logs.
            reset_policy: Where a partition without a committed offset begins.
            timeout_ms: ``task.timeout.ms``: how long brokers may keep a task from being restored.
        """
        self._make_consumer = consumer
        self._admin = admin
        self._reset_policy = reset_policy
        self._timeout_s = timeout_ms / 1000
        self._guard = threading.Condition()
        self._incoming: deque[StreamTask] = deque()
        self._removing: set[TaskId] = set()
        self._work: deque[Callable[[], object]] = deque()
        self._jobs: dict[TaskId, _Job] = {}
        self._ready: deque[Restored] = deque()
        self._failed: deque[tuple[StreamTask, Exception]] = deque()
        self._stop = False
        self._fatal: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def add(self, task: StreamTask) -> None:
        """Hand a task over. It comes back by :meth:`drain`, or by :meth:`remove`."""
        with self._guard:
            self._incoming.append(task)
            self._guard.notify_all()

    def submit(self, work: Callable[[], object]) -> None:
        """Have something slow done here, between restores; its errors are logged, as it is tried again anyway."""
        with self._guard:
            self._work.append(work)
            self._guard.notify_all()

    def remove(self, task_ids: Iterable[TaskId], timeout_s: float, sign_of_life: Callable[[], None]) -> None:
        """Take tasks back as they are; returns once this thread no longer touches them.

        Args:
            task_ids: The tasks; those that are not here are passed over.
            timeout_s: Longest wait in seconds: a broker call may be under way.
            sign_of_life: Called now and then meanwhile.

        Raises:
            StreamsException: This thread still holds them after the wait.
        """
        wanted = set(task_ids)
        deadline = time.monotonic() + timeout_s
        with self._guard:
            self._removing |= wanted
            self._guard.notify_all()
            while not self._guard.wait_for(
                lambda: not self._removing & wanted or not self._thread.is_alive(), _SIGN_OF_LIFE_S
            ):
                if time.monotonic() >= deadline:
                    raise StreamsException(
                        f"the restore of tasks {', '.join(map(str, sorted(wanted)))} did not stop within {timeout_s} s"
                    )
                sign_of_life()
            self._ready = deque(entry for entry in self._ready if entry.task.id not in wanted)
            self._failed = deque(entry for entry in self._failed if entry[0].id not in wanted)

    def drain(self) -> list[Restored]:
        """Tasks that are restored, which are the caller's from now on.

        Raises:
            Exception: What a task's restore failed with; the task is still the caller's to close.
        """
        if self._fatal is not None:
            raise self._fatal
        if not self._ready and not self._failed:
            return []
        with self._guard:
            if self._failed:
                raise self._failed.popleft()[1]
            done = list(self._ready)
            self._ready.clear()
        return done

    def close(self, timeout_s: float) -> None:
        """Stop the thread and free its consumer; tasks that are here stay as they are.

        Args:
            timeout_s: Longest wait in seconds; a broker call under way then ends by itself on the daemon thread.
        """
        with self._guard:
            self._stop = True
            self._guard.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        consumer: RecordConsumer | None = None
        try:
            while True:
                with self._guard:
                    while not (self._stop or self._incoming or self._removing or self._work or self._jobs):
                        self._guard.wait()
                    if self._stop:
                        return
                    work = list(self._work)
                    self._work.clear()
                    removing = set(self._removing)
                    removed = self._take_removed()
                    for task in self._incoming:
                        self._jobs[task.id] = _Job(task, time.monotonic() + self._timeout_s)
                    self._incoming.clear()
                if consumer is None and (self._jobs or removed):
                    consumer = self._make_consumer()
                if removed and consumer is not None:
                    consumer.incremental_unassign([tp for job in removed for tp in job.open])
                if removing:
                    with self._guard:
                        self._removing -= removing
                        self._guard.notify_all()
                for piece in work:
                    self._do(piece)
                if consumer is not None and self._jobs:
                    self._advance(consumer)
        except BaseException as e:
            # a restore thread that dies silently would leave tasks waiting for ever
            with self._guard:
                self._fatal = _as_error(e)
                self._jobs.clear()
                self._removing.clear()
                self._guard.notify_all()
            if not isinstance(e, Exception):
                raise
        finally:
            if consumer is not None:
                consumer.close()

    def _take_removed(self) -> list[_Job]:
        removed = [job for task_id in self._removing if (job := self._jobs.pop(task_id, None)) is not None]
        self._incoming = deque(task for task in self._incoming if task.id not in self._removing)
        return removed

    def _do(self, piece: Callable[[], object]) -> None:
        try:
            piece()
        except KafkaException as e:
            _log.warning("%s; it is tried again later", e)

    def _advance(self, consumer: RecordConsumer) -> None:
        for job in list(self._jobs.values()):
            if job.committed is None:
                self._attempt(consumer, job, self._begin)
                if self._removing or self._stop:
                    # whoever takes tasks back should not wait for the broker calls of all the others
                    return
        reading = {tp: job for job in self._jobs.values() for tp in job.open}
        if reading:
            self._read(consumer, reading)
        elif self._jobs and all(job.not_before > time.monotonic() for job in self._jobs.values()):
            with self._guard:
                self._guard.wait(_RETRY_S)
        for job in list(self._jobs.values()):
            if job.committed is not None and not job.open:
                self._attempt(consumer, job, self._hand_back)

    def _read(self, consumer: RecordConsumer, reading: dict[TopicPartition, _Job]) -> None:
        batch = consumer.poll(_POLL_S, _BATCH)
        for tp, error in batch.errors:
            broken = reading.get(tp) if tp is not None else None
            if broken is not None and isinstance(error, OffsetOutOfRangeException):
                self._fail(consumer, broken, _out_of_range(broken.task, error))
            elif tp is None and not isinstance(error, TimeoutException):
                raise error
            else:
                _log.warning("restoring: %s", error)
        for tp, records in batch.records.items():
            if tp in reading and tp in reading[tp].open:
                self._apply(reading[tp], tp, records)
        positions = consumer.position([tp for job in self._jobs.values() for tp in job.open])
        for job in list(self._jobs.values()):
            for tp, changelog in list(job.open.items()):
                if positions[tp] >= changelog.end:
                    self._finish(consumer, job, tp, changelog, positions[tp])
            if job.open and time.monotonic() > job.deadline:
                self._fail(
                    consumer,
                    job,
                    TimeoutException(
                        f"task {job.task.id}: no changelog record arrived for {self._timeout_s:.0f} s "
                        "(task.timeout.ms) although the restore is not complete"
                    ),
                )

    def _apply(self, job: _Job, tp: TopicPartition, records: list[RawRecord]) -> None:
        end = job.open[tp].end
        if records[-1][0] >= end:
            # of an input topic that serves as changelog, what is not committed is still to be processed
            records = [record for record in records if record[0] < end]
            if not records:
                return
        job.task.restore(tp, records)
        job.open[tp].count += len(records)
        job.count += len(records)
        job.deadline = time.monotonic() + self._timeout_s

    def _attempt(self, consumer: RecordConsumer, job: _Job, step: Callable[[RecordConsumer, _Job], None]) -> None:
        if time.monotonic() < job.not_before:
            return
        try:
            step(consumer, job)
        except (TimeoutException, MissingSourceTopicException) as e:
            # a topic just made may not be known to every broker yet
            if time.monotonic() > job.deadline:
                self._fail(consumer, job, e)
            else:
                _log.debug("task %s waits: %s", job.task.id, e)
                job.not_before = time.monotonic() + _RETRY_S
        except Exception as e:
            self._fail(consumer, job, e)

    def _begin(self, consumer: RecordConsumer, job: _Job) -> None:
        task = job.task
        # waits for offsets in a predecessor's open transaction: only what is final may be started from
        committed = consumer.committed(task.partitions, _COMMITTED_WAIT_S)
        partitions = list(task.changelogs)
        ends = self._admin.list_offsets(partitions, "latest")
        targets = dict(ends)
        starts = self._admin.list_offsets(partitions, "earliest")
        ids = self._admin.topic_ids(tp.topic for tp in partitions)
        offsets: dict[TopicPartition, int] = {}
        for tp, store in task.changelogs.items():
            self._check_origin(task, store, ids.get(tp.topic))
            known = store.rows.body.offset()
            if known is not None and not starts[tp] <= known <= ends[tp]:
                raise TaskCorruptedException(
                    f"task {task.id}: store {store.name} reflects offset {known} of {tp}, but the log holds "
                    f"{starts[tp]} to {ends[tp]}: the topic was deleted or truncated. The local store is dropped and "
                    "restored from what there is.",
                    (task.id,),
                    wipe=True,
                )
            offsets[tp] = starts[tp] if known is None else known
        for tp in task.source_changelogs:
            # what comes after is input: the task processes it itself
            entry = committed.get(tp)
            targets[tp] = offsets[tp] if entry is None else min(entry.offset, ends[tp])
        for tp, offset in offsets.items():
            job.open[tp] = _Changelog(targets[tp], time.monotonic(), task.changelogs[tp].name)
            _log.debug("task %s: restoring %s from %d to %d", task.id, tp, offset, targets[tp])
        consumer.incremental_assign(offsets)
        job.committed = committed
        for tp, changelog in list(job.open.items()):
            if offsets[tp] >= changelog.end:
                self._finish(consumer, job, tp, changelog, offsets[tp])

    @staticmethod
    def _check_origin(task: StreamTask, store: StoreBase[Any, Any], topic_id: str | None) -> None:
        """A store of a topic that was deleted and made anew (a reset) holds rows that the new one knows nothing of."""
        body = store.rows.body
        known = body.origin()
        if topic_id is None or known == topic_id:
            return
        if known is not None:
            _log.warning(
                "task %s: the changelog topic of store %s was deleted and made anew (a reset): the local rows are "
                "dropped and restored from the new one",
                task.id,
                store.name,
            )
            body.clear()
        body.remember_origin(topic_id)

    def _finish(
        self, consumer: RecordConsumer, job: _Job, tp: TopicPartition, changelog: _Changelog, position: int
    ) -> None:
        del job.open[tp]
        consumer.incremental_unassign([tp])
        job.task.changelogs[tp].rows.restore([], min(position, changelog.end))
        _log.info(
            "Restored store %s partition %d: %d records in %.3f seconds",
            changelog.store,
            tp.partition,
            changelog.count,
            time.monotonic() - changelog.started,
        )

    def _hand_back(self, consumer: RecordConsumer, job: _Job) -> None:
        committed = job.committed or {}
        positions = {tp: entry.offset for tp, entry in committed.items() if entry is not None}
        unknown = [tp for tp in job.task.partitions if tp not in positions]
        for policy in {self._reset_policy(tp) for tp in unknown}:
            positions |= self._reset([tp for tp in unknown if self._reset_policy(tp) == policy], policy)
        left = [tp for tp in unknown if tp not in positions]
        if left:
            raise StreamsException(
                f"No committed offset for {', '.join(map(str, sorted(left)))}, and auto.offset.reset=none forbids to "
                "choose one. Set offsets for the group (headrace reset --to-earliest), or another reset policy.",
                job.task.id,
            )
        del self._jobs[job.task.id]
        with self._guard:
            self._ready.append(Restored(job.task, positions, committed, job.count))

    def _reset(self, partitions: list[TopicPartition], policy: AutoOffsetReset) -> dict[TopicPartition, int]:
        if policy == AutoOffsetReset.NONE:
            return {}
        if policy.age is None:
            return self._admin.list_offsets(partitions, "earliest" if policy == AutoOffsetReset.EARLIEST else "latest")
        since = int(time.time() * 1000) - int(policy.age.total_seconds() * 1000)
        found = self._admin.list_offsets(partitions, max(since, 0))
        # no record is that young: only what comes from now on
        ends = self._admin.list_offsets([tp for tp, offset in found.items() if offset < 0], "latest")
        return {**found, **ends}

    def _fail(self, consumer: RecordConsumer, job: _Job, error: Exception) -> None:
        self._jobs.pop(job.task.id, None)
        if job.open:
            consumer.incremental_unassign(list(job.open))
        with self._guard:
            self._failed.append((job.task, error))


def _out_of_range(task: StreamTask, error: OffsetOutOfRangeException) -> TaskCorruptedException:
    return TaskCorruptedException(f"task {task.id}: {error}", (task.id,), wipe=True)


def _as_error(error: BaseException) -> Exception:
    return error if isinstance(error, Exception) else StreamsException(f"the restore thread was stopped: {error!r}")
