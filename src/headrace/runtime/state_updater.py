"""Restores active tasks and keeps standby tasks up, on a thread and with a consumer of its own, so that others go on.

What flows: the stream thread hands over a created task; here its committed offsets are read (waiting for a
predecessor's unfinished transaction), each store is brought from the offset it reflects up to the high watermark that
its changelog had when the restore began, and the task goes back with the offsets to start from. While it is here, its
stores belong to this thread; afterwards to the stream thread again. All stores of all tasks are read side by side.

Standby tasks stay until they are removed (:mod:`headrace.runtime.follower`). Active tasks come first: as long as one
restores, standby tasks are not read.

A restore ends by the high watermark read with READ_UNCOMMITTED and by the consumer's position, which passes aborted
records and markers: ending by the last stable offset would leave out what an unfinished transaction is about to commit.
The watermark is asked for once more when it is reached: a broker that just lost its leadership without knowing (it was
frozen, or cut off) answers with an old one, and a store that ends there would come up short. For the same reason a log
that seems to end before what a store already has is looked at again for a while before the store is given up.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from headrace.engine.standby import StandbyTask
from headrace.errors import (
    AuthorizationException,
    KafkaException,
    MissingSourceTopicException,
    OffsetOutOfRangeException,
    StreamsException,
    TaskCorruptedException,
    TimeoutException,
)
from headrace.resets import AutoOffsetReset
from headrace.runtime.changelogs import Doubt, check_origins, fits
from headrace.runtime.follower import Follower
from headrace.runtime.updater_metrics import UpdaterMeters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from headrace.engine.task import StreamTask
    from headrace.kafka import RecordConsumer, TopicAdmin
    from headrace.metrics import MetricsRegistry
    from headrace.records import OffsetAndMetadata, RawRecord, TaskId, TopicPartition
    from headrace.runtime.client import Listeners

_log = logging.getLogger(__name__)

_POLL_S = 0.1
_BATCH = 10_000
_COMMITTED_WAIT_S = 0.25
_SIGN_OF_LIFE_S = 1.0
_RETRY_S = 0.1
_PROGRESS_S = 5.0


@dataclass(slots=True)
class Restored:
    """A task that is ready to run: where its partitions start, and what was committed for them."""

    task: StreamTask
    positions: dict[TopicPartition, int]
    committed: dict[TopicPartition, OffsetAndMetadata | None]
    restored_records: int


@dataclass(slots=True)
class _Changelog:
    position: int
    end: int
    started: float
    store: str
    count: int = 0
    confirmed: bool = False
    """Whether the end was asked for again when it was reached."""


@dataclass(slots=True)
class _Job:
    task: StreamTask
    deadline: float
    committed: dict[TopicPartition, OffsetAndMetadata | None] | None = None
    open: dict[TopicPartition, _Changelog] = field(default_factory=dict["TopicPartition", _Changelog])
    count: int = 0
    not_before: float = 0.0
    """When the brokers are asked again after they had no answer."""
    doubt: Doubt = field(default_factory=Doubt)


class _Found(NamedTuple):
    """What the brokers say of tasks that begin to be restored."""

    committed: Mapping[TopicPartition, OffsetAndMetadata | None]
    ends: Mapping[TopicPartition, int]
    starts: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str]


class StateUpdater:
    """The thread of one stream thread that reads changelogs."""

    def __init__(
        self,
        name: str,
        consumer: Callable[[], RecordConsumer],
        admin: TopicAdmin,
        reset_policy: Callable[[TopicPartition], AutoOffsetReset],
        timeout_ms: int,
        listeners: Listeners,
        paused: threading.Event,
        metrics: MetricsRegistry,
    ) -> None:
        """Make it; nothing runs before :meth:`start`.

        Args:
            name: The thread's name.
            consumer: Makes the restore consumer, which is this thread's own.
            admin: For offsets of logs.
            reset_policy: Where a partition without a committed offset begins.
            timeout_ms: ``task.timeout.ms``: how long brokers may keep a task from being restored.
            listeners: Told of restores and of standby tasks.
            paused: While it is set no changelog is read.
            metrics: Where its own are registered while it runs.
        """
        self._make_consumer = consumer
        self._paused = paused
        self._admin = admin
        self._reset_policy = reset_policy
        self._timeout_s = timeout_ms / 1000
        self._guard = threading.Condition()
        self._incoming: deque[StreamTask | StandbyTask] = deque()
        self._listener = listeners.restore
        self._follower = Follower(admin, listeners.standby)
        self._logged_at = 0.0
        self._removing: set[TaskId] = set()
        self._work: deque[Callable[[], object]] = deque()
        self._jobs: dict[TaskId, _Job] = {}
        self._ready: deque[Restored] = deque()
        self._failed: deque[tuple[StreamTask, Exception]] = deque()
        self._stop = False
        self._fatal: Exception | None = None
        self._meters = UpdaterMeters(metrics, name, lambda: len(self._jobs), lambda: len(self._follower), paused.is_set)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def is_current(self) -> bool:
        """Whether this is the thread that asks."""
        return threading.current_thread() is self._thread

    def add(self, task: StreamTask | StandbyTask) -> None:
        """Hand a task over. An active one comes back by :meth:`drain`, or by :meth:`remove`; a standby by that only."""
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
        if self._fatal is not None and not self._failed:
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
                    while not (
                        self._stop or self._incoming or self._removing or self._work or self._jobs or self._follower
                    ):
                        self._guard.wait()
                    if self._stop:
                        break
                    work = list(self._work)
                    self._work.clear()
                    removing = set(self._removing)
                    removed = self._take_removed()
                    incoming = list(self._incoming)
                    self._incoming.clear()
                if consumer is None and incoming:
                    consumer = self._make_consumer()
                if removing:
                    self._let_go(consumer, removed, removing)
                    with self._guard:
                        self._removing -= removing
                        self._guard.notify_all()
                self._take_in(incoming)
                for piece in work:
                    self._do(piece)
                if consumer is not None:
                    self._measured_advance(consumer)
            self._tell_suspended(self._jobs.values())
        except BaseException as e:
            # a restore thread that dies silently would leave tasks waiting for ever
            with self._guard:
                jobs = list(self._jobs.values())
                self._fatal = _as_error(e)
                self._jobs.clear()
                self._removing.clear()
                self._guard.notify_all()
            # last: a listener may be what failed
            with contextlib.suppress(Exception):
                self._tell_suspended(jobs)
            if not isinstance(e, Exception):
                raise
        finally:
            self._meters.close()
            if consumer is not None:
                consumer.close()

    def _take_removed(self) -> list[_Job]:
        removed = [job for task_id in self._removing if (job := self._jobs.pop(task_id, None)) is not None]
        self._incoming = deque(task for task in self._incoming if task.id not in self._removing)
        return removed

    def _let_go(self, consumer: RecordConsumer | None, removed: list[_Job], removing: set[TaskId]) -> None:
        if consumer is not None:
            consumer.incremental_unassign([tp for job in removed for tp in job.open])
        self._follower.remove(consumer, removing)
        self._tell_suspended(removed)

    def _tell_suspended(self, jobs: Iterable[_Job]) -> None:
        for job in jobs:
            for tp, changelog in job.open.items():
                self._listener.on_restore_suspended(tp, changelog.store, changelog.count)

    def _take_in(self, incoming: Iterable[StreamTask | StandbyTask]) -> None:
        for task in incoming:
            if isinstance(task, StandbyTask):
                self._follower.add(task)
            else:
                self._jobs[task.id] = _Job(task, time.monotonic() + self._timeout_s)

    def _do(self, piece: Callable[[], object]) -> None:
        try:
            piece()
        except KafkaException as e:
            _log.warning("%s; it is tried again later", e)

    def _measured_advance(self, consumer: RecordConsumer) -> None:
        began, restored = time.monotonic(), bool(self._jobs)
        self._advance(consumer)
        now = time.monotonic()
        if restored or self._follower:
            self._meters.worked(now, now - began, restored)

    def _advance(self, consumer: RecordConsumer) -> None:
        if self._paused.is_set():
            for job in self._jobs.values():
                job.deadline = time.monotonic() + self._timeout_s
            with self._guard:
                self._guard.wait(_RETRY_S)
            return
        if not self._jobs:
            if self._follower:
                records = self._follower.advance(consumer, _POLL_S, _BATCH)
                self._meters.read(time.monotonic(), records)
            return
        self._follower.hold(consumer)
        new = [job for job in self._jobs.values() if job.committed is None]
        begins = bool(new)
        # all at once, and where that does not work, each by itself: one may wait for what the others need not
        if len(new) > 1 and not self._begin_together(consumer, new):
            new = []
        for job in new:
            if job.committed is None:
                self._attempt(consumer, job, self._begin)
                if self._removing or self._stop:
                    # whoever takes tasks back should not wait for the broker calls of all the others
                    return
        if begins:
            # a store that has everything does not wait for a poll
            self._finish_reached(consumer)
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
        self._meters.read(time.monotonic(), sum(map(len, batch.records.values())))
        for tp, error in batch.errors:
            broken = reading.get(tp) if tp is not None else None
            if broken is not None and broken.task.id not in self._jobs:
                continue  # it failed for another of its changelogs
            if broken is not None and isinstance(error, OffsetOutOfRangeException):
                self._fail(consumer, broken, _out_of_range(broken.task, error))
            elif broken is not None and isinstance(error, AuthorizationException):
                self._fail(consumer, broken, error)
            elif tp is None and not isinstance(error, TimeoutException):
                raise error
            else:
                _log.warning("restoring: %s", error)
        for tp, records in batch.records.items():
            if tp in reading and tp in reading[tp].open:
                self._apply(reading[tp], tp, records)
        self._log_progress()
        self._finish_reached(consumer)
        for job in list(self._jobs.values()):
            if job.open and time.monotonic() > job.deadline:
                self._fail(
                    consumer,
                    job,
                    TimeoutException(
                        f"task {job.task.id}: no changelog record arrived for {self._timeout_s:.0f} s "
                        "(task.timeout.ms) although the restore is not complete"
                    ),
                )

    def _finish_reached(self, consumer: RecordConsumer) -> None:
        """Finish the changelogs that are read up to their end, when a second look finds the same end."""
        being_read = [tp for job in self._jobs.values() for tp in job.open]
        if not being_read:
            return
        positions = consumer.position(being_read)
        reached = [
            (job, tp, changelog)
            for job in self._jobs.values()
            for tp, changelog in job.open.items()
            if positions[tp] >= changelog.end
        ]
        # the end of an input topic that serves as changelog is the committed offset
        unsure = [(job, tp) for job, tp, changelog in reached if not changelog.confirmed]
        asked = [tp for job, tp in unsure if tp not in job.task.source_changelogs]
        try:
            ends = self._admin.list_offsets(asked, "latest") if asked else {}
        except (TimeoutException, MissingSourceTopicException) as e:
            _log.debug("the ends of changelogs are asked for again: %s", e)
            return
        except Exception as e:
            for job in {id(job): job for job, _ in unsure}.values():
                self._fail(consumer, job, e)
            return
        for job, tp, changelog in reached:
            changelog.confirmed = True
            if ends.get(tp, 0) > changelog.end:
                _log.info("changelog %s ends at %d, not at %d as was said before", tp, ends[tp], changelog.end)
                changelog.end = ends[tp]
            if positions[tp] >= changelog.end:
                self._finish(consumer, job, tp, changelog, positions[tp])

    def _apply(self, job: _Job, tp: TopicPartition, records: list[RawRecord]) -> None:
        end = job.open[tp].end
        if records[-1][0] >= end and tp in job.task.source_changelogs:
            # of an input topic that serves as changelog, what is not committed is still to be processed
            records = [record for record in records if record[0] < end]
            if not records:
                return
        changelog, count = job.open[tp], len(records)
        changelog.position = records[-1][0] + 1
        job.task.restore(tp, records, changelog.position)
        changelog.count += count
        job.count += count
        job.task.metrics.restored += count
        job.task.metrics.to_restore = sum(log.end - log.position for log in job.open.values())
        job.deadline = time.monotonic() + self._timeout_s
        self._listener.on_batch_restored(tp, changelog.store, changelog.position - 1, count)

    def _log_progress(self) -> None:
        now = time.monotonic()
        if now - self._logged_at < _PROGRESS_S:
            return
        self._logged_at = now
        changelogs = [changelog for job in self._jobs.values() for changelog in job.open.values()]
        done = sum(changelog.count for changelog in changelogs)
        left = sum(max(0, changelog.end - changelog.position) for changelog in changelogs)
        # none are left when the last one could not be read
        took = now - min((changelog.started for changelog in changelogs), default=now)
        if took < _PROGRESS_S or not done:
            return
        rate = done / took
        _log.info(
            "Restoring %d stores of %d tasks: %d of %d records done, %d records/s, %d seconds left",
            len(changelogs),
            len(self._jobs),
            done,
            done + left,
            rate,
            left / rate,
        )

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

    def _begin_together(self, consumer: RecordConsumer, jobs: list[_Job]) -> bool:
        """Begin several restores with one round of questions; returns whether they are left to be begun singly."""
        if any(job.not_before for job in jobs):
            return True
        try:
            found = self._look_up(consumer, jobs)
        except (TimeoutException, MissingSourceTopicException):
            return True
        for job in jobs:
            self._attempt(consumer, job, lambda consumer, job: self._open_changelogs(consumer, job, found))
        return False

    def _begin(self, consumer: RecordConsumer, job: _Job) -> None:
        self._open_changelogs(consumer, job, self._look_up(consumer, [job]))

    def _look_up(self, consumer: RecordConsumer, jobs: list[_Job]) -> _Found:
        # waits for offsets in a predecessor's open transaction: only what is final may be started from
        committed = consumer.committed([tp for job in jobs for tp in job.task.partitions], _COMMITTED_WAIT_S)
        partitions = [tp for job in jobs for tp in job.task.changelogs]
        return _Found(
            committed,
            self._admin.list_offsets(partitions, "latest"),
            self._admin.list_offsets(partitions, "earliest"),
            self._admin.topic_ids(tp.topic for tp in partitions),
        )

    def _open_changelogs(self, consumer: RecordConsumer, job: _Job, found: _Found) -> None:
        task = job.task
        committed = {tp: found.committed[tp] for tp in task.partitions}
        check_origins(task, found.topic_ids)
        offsets: dict[TopicPartition, int] = {}
        opened: dict[TopicPartition, _Changelog] = {}
        for tp, store in task.changelogs.items():
            known, start, end = store.rows.body.offset(), found.starts[tp], found.ends[tp]
            if not fits(store, start, end):
                if job.doubt.lasts(time.monotonic(), fit=False):
                    raise TimeoutException(f"{tp} seems to have been truncated; its leader is asked again")
                raise TaskCorruptedException(
                    f"task {task.id}: store {store.name} reflects offset {known} of {tp}, but the log holds "
                    f"{start} to {end}: the topic was deleted or truncated. The local store is dropped and "
                    "restored from what there is.",
                    (task.id,),
                    wipe=True,
                )
            offsets[tp] = begin = start if known is None else known
            if tp in task.source_changelogs:
                # what comes after is input: the task processes it itself
                entry = committed.get(tp)
                end = begin if entry is None else min(entry.offset, end)
            opened[tp] = _Changelog(begin, end, time.monotonic(), store.name)
        consumer.incremental_assign(offsets)
        job.open, job.committed = opened, committed
        task.metrics.to_restore = sum(log.end - log.position for log in opened.values())
        for tp, changelog in opened.items():
            _log.debug("task %s: restoring %s from %d to %d", task.id, tp, changelog.position, changelog.end)
            self._listener.on_restore_start(tp, changelog.store, changelog.position, changelog.end)

    def _finish(
        self, consumer: RecordConsumer, job: _Job, tp: TopicPartition, changelog: _Changelog, position: int
    ) -> None:
        del job.open[tp]
        consumer.incremental_unassign([tp])
        if tp in job.task.source_changelogs:
            position = min(position, changelog.end)
        job.task.changelogs[tp].rows.restore([], position)
        _log.info(
            "Restored store %s partition %d: %d records in %.3f seconds",
            changelog.store,
            tp.partition,
            changelog.count,
            time.monotonic() - changelog.started,
        )
        self._listener.on_restore_end(tp, changelog.store, changelog.count)

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
        job.task.metrics.to_restore = 0
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
        self._tell_suspended([job])
        job.open.clear()


def _out_of_range(task: StreamTask, error: OffsetOutOfRangeException) -> TaskCorruptedException:
    return TaskCorruptedException(f"task {task.id}: {error}", (task.id,), wipe=True)


def _as_error(error: BaseException) -> Exception:
    return error if isinstance(error, Exception) else StreamsException(f"the restore thread was stopped: {error!r}")
