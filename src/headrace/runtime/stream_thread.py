"""A stream thread: its member of the group, its tasks, its one producer, and the loop that drives them.

One round of the loop, :meth:`StreamThread._round`: membership events, then records from the consumer into the tasks'
queues, then restored tasks taken over, then every task processed for a bounded time, then a commit when one is due.

What happens when …

* *an assignment comes*: new tasks are made and go to the state updater; tasks kept go on meanwhile.
* *tasks are revoked*: all tasks commit together, the revoked ones close, then the membership tells the group.
* *the member is lost, or fenced* (:class:`TaskMigratedException`): the transaction is aborted, every task closes
  without committing, a fenced producer is made anew, the member joins again.
* *a transaction cannot commit, or its outcome stays unknown* (:class:`TaskCorruptedException`): the same for the tasks,
  but the membership stays: they are made again and restore their delta.
* *anything else is raised*: the tasks close without committing and the uncaught exception handler decides.

Invariants:

* All tasks of the thread commit in one transaction; the identity it carries is the group's newest valid one.
* A task's senders belong to the producer it was made with: a new producer means new tasks.
* Stores are written after the commit and never before, so a crash leaves them behind the changelog, never ahead.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, TypeVar

from headrace.api.handlers import ErrorHandlerContext, ProducerRecord, Result
from headrace.assignment import SubscriptionInfo, TaskAssignor, encode_subscription
from headrace.engine.task import StreamTask, TaskState
from headrace.errors import (
    KafkaException,
    LockException,
    OffsetOutOfRangeException,
    StreamsException,
    TaskCorruptedException,
    TaskMigratedException,
    TimeoutException,
)
from headrace.kafka import (
    Assigned,
    ClassicMembership,
    CommitOutcomeUnknownException,
    Lost,
    RecordConsumer,
    RecordProducer,
    Revoked,
    SendFailedException,
    TopicAdmin,
    TransactionAbortableException,
)
from headrace.records import TaskId
from headrace.runtime.collector import ProducerCollector
from headrace.runtime.state_updater import StateUpdater
from headrace.runtime.states import THREAD_TRANSITIONS, StateMachine, ThreadState
from headrace.state.cache import CacheBudget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from headrace.kafka import MembershipEvent
    from headrace.records import OffsetAndMetadata, TopicPartition
    from headrace.runtime.client import ClientSettings
    from headrace.runtime.state_updater import Restored

P = TypeVar("P")

_log = logging.getLogger(__name__)

_POLL_RECORDS = 5_000
_SLICE_RECORDS = 2_000
"""Records a task processes before the clock is looked at."""
_DOUBT_PAUSE_S = 0.02
_EXACT_METADATA_S = 5.0
_RETRY_S = 10.0
"""How long one attempt of a broker call in a commit may take before the membership is shown a sign of life."""


class StreamThread:
    """See the module. Made and started by :class:`headrace.KafkaStreams`.

    Args:
        index: Number of the thread in its client, from 1.
        shared: What all threads of the client share.
        on_state: Called on every change of state, on this thread.
        on_error: Called with the fatal error, on this thread, when its loop has ended by one.
    """

    def __init__(
        self,
        index: int,
        shared: ClientSettings,
        on_state: Callable[[StreamThread, ThreadState, ThreadState], None],
        on_error: Callable[[StreamThread, Exception], None],
    ) -> None:
        self.index = index
        self.name = f"{shared.client_id}-StreamThread-{index}"
        self._shared = shared
        self._on_error = on_error
        self._machine = StateMachine(
            f"stream thread {self.name}",
            ThreadState.CREATED,
            THREAD_TRANSITIONS,
            lambda new, old: on_state(self, new, old),
        )
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._stop = threading.Event()
        self._leave_group = True
        self._budget = CacheBudget(shared.cache_bytes_per_thread)
        self._tasks: dict[TaskId, StreamTask] = {}
        self._running: dict[TaskId, StreamTask] = {}
        self._by_partition: dict[TopicPartition, StreamTask] = {}
        self._waiting_for_directory: set[TaskId] = set()
        self._paused: set[TopicPartition] = set()
        self._events: deque[MembershipEvent] = deque()
        self._last_commit = 0.0
        self._last_purge = 0.0
        self._admin: TopicAdmin | None = None
        self._consumer: RecordConsumer | None = None
        self._producer: RecordProducer | None = None
        self._updater: StateUpdater | None = None
        self._membership: ClassicMembership | None = None
        transaction_s = shared.config.transaction_timeout_ms / 1000
        spare_s = transaction_s - shared.commit_interval_ms / 1000
        self._longest_doubt_s = min(transaction_s / 4, spare_s / 2) if shared.exactly_once else 0.0
        self.commits = 0
        """Number of commits so far."""
        self.dropped_sends = 0
        """Records that the brokers refused and the production handler let go."""
        self._failing_since: float | None = None

    @property
    def state(self) -> ThreadState:
        """The thread's state."""
        return self._machine.state

    def start(self) -> None:
        """Start the thread."""
        self._machine.move(ThreadState.STARTING)
        self._thread.start()

    def shutdown(self, leave_group: bool) -> None:
        """Ask the thread to commit, close its tasks and end."""
        self._leave_group = leave_group
        self._stop.set()

    def join(self, timeout_s: float | None) -> bool:
        """Wait for the end; returns whether it came."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def is_current(self) -> bool:
        """Whether this is the thread that asks."""
        return threading.current_thread() is self._thread

    def task_metrics(self) -> dict[TaskId, dict[str, int]]:
        """Totals by metric name of every task this thread has now."""
        return {task_id: task.metrics.snapshot() for task_id, task in list(self._tasks.items())}

    def _run(self) -> None:
        error: Exception | None = None
        opened = False
        try:
            self._open()
            opened = True
            while not self._stop.is_set():
                self._round_and_recover()
        except Exception as e:
            error = e
        except BaseException as e:
            error = StreamsException(f"stream thread {self.name} was stopped: {e!r}")
        self._machine.try_move(ThreadState.PENDING_SHUTDOWN)
        try:
            if opened:
                self._close(clean=error is None)
            else:
                self._release()
        except Exception as e:
            error = error or e
        if error is not None:
            _log.error("stream thread %s ends: %s", self.name, error, exc_info=error)
        self._machine.try_move(ThreadState.DEAD)
        if error is not None:
            self._on_error(self, error)

    def _open(self) -> None:
        shared = self._shared
        self._admin = admin = TopicAdmin(shared.config.admin_config())
        self._plan = found = self._retried("preparing topics", lambda: shared.topics.prepare(admin))
        self._counts = dict(found.partition_counts)
        self._make_producer()
        self._consumer = RecordConsumer(shared.config.main_consumer_config())
        self._updater = StateUpdater(
            f"{shared.client_id}-StateUpdater-{self.index}",
            lambda: RecordConsumer({**shared.config.restore_consumer_config(), "group.id": shared.application_id}),
            admin,
            self._reset_policy,
            shared.task_timeout_ms,
        )
        self._updater.start()
        assignor = TaskAssignor(
            {number: sorted(topics) for number, topics in found.source_topics.items()}, lambda: self._counts
        )
        self._membership = ClassicMembership(
            shared.config.main_consumer_config(),
            shared.application_id,
            f"{self.name}-consumer",
            topics=sorted({topic for topics in found.source_topics.values() for topic in topics}),
            subscription_userdata=self._subscription,
            assignor=assignor,
            **shared.membership_options(self.index),
        )
        self._membership.start()
        self._last_commit = self._last_purge = time.monotonic()

    def _subscription(self, owned: frozenset[TaskId]) -> bytes:
        stored = frozenset(self._shared.directory.task_ids())
        return encode_subscription(
            SubscriptionInfo(self._shared.process_id.bytes, owned, stored, self._shared.fingerprint)
        )

    def _make_producer(self) -> None:
        shared = self._shared
        transactional_id = f"{shared.application_id}-{shared.process_id}-{self.index}" if shared.exactly_once else None
        producer = RecordProducer(shared.config.producer_config(transactional_id))
        self._producer = producer
        if transactional_id is not None:
            # fences a predecessor of this process and ends what it left open, which others may be waiting for
            self._retried("initialising transactions", lambda: producer.init_transactions(_RETRY_S))
        self._collector = ProducerCollector(producer, self._partition_count)

    def _partition_count(self, topic: str) -> int:
        count = self._counts.get(topic)
        if count is None:
            found = self._need(self._admin).partition_counts([topic])
            if topic not in found:
                raise StreamsException(f"sink topic {topic} does not exist: create it")
            count = self._counts[topic] = found[topic]
        return count

    def _round_and_recover(self) -> None:
        try:
            self._round()
        except TaskMigratedException as e:
            _log.warning("%s: tasks migrated, joining anew: %s", self.name, e)
            # they are of a membership that is over; what it had comes back as lost
            self._events.clear()
            self._abandon(list(self._tasks), e)
            self._membership_of().rejoin_anew(str(e))
        except TaskCorruptedException as e:
            _log.warning("%s: %s", self.name, e)
            self._revive(e)

    def _round(self) -> None:
        membership, consumer = self._membership_of(), self._need(self._consumer)
        self._events.extend(membership.poll(time.time_ns() // 1_000_000))
        while self._events:
            # it leaves the queue once it is done: after a failed commit revoked tasks still have to be given up
            self._handle(self._events[0])
            self._events.popleft()
        if self._waiting_for_directory:
            self._start_tasks(set(self._waiting_for_directory))
        self._take_restored()
        busy = any(task.buffered and not task.must_wait() for task in self._running.values())
        # what is there is taken at once; only when nothing is there the thread waits, and then for a first record only
        batch = consumer.poll(0.0, _POLL_RECORDS)
        if not busy and not batch.records:
            self._consumer_errors(batch.errors)
            batch = consumer.poll(min(self._shared.poll_ms / 1000, self._commit_wait()), 1)
        self._consumer_errors(batch.errors)
        for tp, records in batch.records.items():
            task = self._by_partition.get(tp)
            if task is not None:
                task.add_records(tp, records)
        self._process()
        self._flow_control()
        self._need(self._producer).poll(0.0)
        self._check_sends()
        if self._commit_wait() <= 0:
            self._commit()

    def _handle(self, event: MembershipEvent) -> None:
        if isinstance(event, Assigned):
            _log.info(
                "%s: assignment of generation %d: tasks %s, of which new %s",
                self.name,
                event.generation,
                _names(event.all_tasks),
                _names(event.tasks),
            )
            self._machine.try_move(ThreadState.PARTITIONS_ASSIGNED)
            self._start_tasks(event.tasks)
        elif isinstance(event, Revoked):
            _log.info("%s: revoked tasks %s", self.name, _names(event.tasks))
            self._machine.try_move(ThreadState.PARTITIONS_REVOKED)
            self._give_up(event.tasks)
        else:
            self._lost(event)
        self._settle()

    def _lost(self, event: Lost) -> None:
        _log.warning("%s: lost its membership: %s", self.name, event.reason)
        self._machine.try_move(ThreadState.PARTITIONS_REVOKED)
        self._abandon(list(self._tasks), None)

    def _start_tasks(self, task_ids: Iterable[TaskId]) -> None:
        shared = self._shared
        updater, consumer = self._need(self._updater), self._need(self._consumer)
        for task_id in sorted(task_ids):
            if task_id in self._tasks:
                continue
            partitions = self._plan.tasks.get(task_id)
            if partitions is None:
                raise StreamsException(
                    f"The group gave task {task_id}, which this topology does not have: other instances run another "
                    "version of the application. Stop them, or use another application.id.",
                    task_id,
                )
            try:
                shared.directory.acquire(task_id, self)
            except LockException as e:
                # a sibling thread is still closing it
                _log.debug("%s", e)
                self._waiting_for_directory.add(task_id)
                continue
            self._waiting_for_directory.discard(task_id)
            try:
                task = StreamTask(
                    shared.subtopologies[task_id.subtopology],
                    task_id,
                    shared.engine,
                    self._collector,
                    self._budget,
                    lambda store, task_id=task_id: shared.directory.store_path(task_id, store),  # type: ignore[misc]  # bound at once
                    consumer.is_caught_up,
                    partitions,
                )
            except BaseException:
                shared.directory.release(task_id, self)
                raise
            self._tasks[task_id] = task
            task.transition(TaskState.RESTORING)
            updater.add(task)

    def _take_restored(self) -> None:
        for restored in self._need(self._updater).drain():
            self._run_task(restored)
        self._settle()

    def _run_task(self, restored: Restored) -> None:
        task = restored.task
        if self._tasks.get(task.id) is not task:
            return
        task.resume_from(restored.committed)
        task.transition(TaskState.RUNNING)
        self._running[task.id] = task
        for partition in task.partitions:
            self._by_partition[partition] = task
        self._need(self._consumer).incremental_assign(restored.positions)
        _log.info(
            "%s: task %s runs, from %s; %d records restored",
            self.name,
            task.id,
            ", ".join(f"{tp}@{offset}" for tp, offset in sorted(restored.positions.items())),
            restored.restored_records,
        )

    def _settle(self) -> None:
        if (
            self.state is ThreadState.PARTITIONS_ASSIGNED
            and not self._waiting_for_directory
            and len(self._running) == len(self._tasks)
        ):
            self._machine.try_move(ThreadState.RUNNING)

    def _process(self) -> None:
        deadline = time.monotonic() + min(max(self._commit_due_in(), 0.0), self._shared.max_poll_interval_ms / 2000)
        progress = True
        while progress:
            progress = False
            for task in list(self._running.values()):
                if task.buffered and task.process(_SLICE_RECORDS):
                    progress = True
                if task.wants_commit():
                    self._commit()
            if time.monotonic() >= deadline:
                return

    def _flow_control(self) -> None:
        limit = self._shared.engine.buffered_records_per_partition
        consumer = self._need(self._consumer)
        pause: list[TopicPartition] = []
        resume: list[TopicPartition] = []
        for task in self._running.values():
            if len(task.queues) < 2:
                continue
            for partition, queue in task.queues.items():
                full = queue.size > limit and task.must_wait()
                if full and partition not in self._paused:
                    pause.append(partition)
                elif partition in self._paused and queue.size <= limit:
                    resume.append(partition)
        if pause:
            consumer.pause(pause)
            self._paused.update(pause)
        if resume:
            consumer.resume(resume)
            self._paused.difference_update(resume)

    def _consumer_errors(self, errors: Iterable[tuple[TopicPartition | None, Exception]]) -> None:
        for tp, error in errors:
            if tp is not None and tp not in self._by_partition:
                continue
            if isinstance(error, TimeoutException):
                _log.warning("%s: %s", self.name, error)
                continue
            if isinstance(error, OffsetOutOfRangeException):
                # jumping over the gap would lose records without anybody being told
                _log.error("%s: %d records cannot be read any more: %s", self.name, error.gap, error)
            raise error

    def _check_sends(self) -> None:
        producer = self._need(self._producer)
        try:
            producer.check()
        except SendFailedException as e:
            self._send_failed(e)

    def _may_skip(self, failure: SendFailedException) -> bool:
        """Ask the production handler about a refused record; only without transactions can one go on."""
        if self._shared.exactly_once or failure.topic in self._plan.changelog_topics:
            return False
        context = ErrorHandlerContext(None, -1, -1, None, f"sink of {failure.topic}", TaskId(-1, -1), -1)
        record = ProducerRecord(failure.topic, failure.partition, None, None, -1, None)
        return self._shared.engine.production_handler.handle_error(context, record, failure).result is Result.RESUME

    def _send_failed(self, error: SendFailedException) -> None:
        failures = self._need(self._producer).take_failures() or [error]
        for failure in failures:
            if isinstance(failure, TaskMigratedException):
                raise failure
        refused = [f for f in failures if isinstance(f, SendFailedException) and not self._may_skip(f)]
        if not refused:
            self.dropped_sends += len(failures)
            _log.warning("%s: %d refused records are skipped, the first: %s", self.name, len(failures), error)
            return
        error = refused[0]
        raise StreamsException(
            f"{error}. Nothing of the transaction it belonged to is committed."
            if self._shared.exactly_once
            else f"{error}. Nothing since the last commit is committed."
        ) from error

    def _commit_due_in(self) -> float:
        return self._last_commit + self._shared.commit_interval_ms / 1000 - time.monotonic()

    def _commit_wait(self) -> float:
        """Seconds until a commit should be made; 0 when it should be now.

        While a JoinGroup is unanswered the brokers may have a newer generation than this member, and a transaction
        with the old one fails: all tasks would start again. So a commit that is due waits a little for the answer.
        """
        due = self._commit_due_in()
        if due > 0:
            return due
        if -due < self._longest_doubt_s and self._membership_of().generation_in_doubt():
            return _DOUBT_PAUSE_S
        return 0.0

    def _commit(self) -> None:
        """Commit all running tasks together; see the module for what its errors mean."""
        started = self._last_commit = time.monotonic()
        tasks = list(self._running.values())
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        consumer, producer = self._need(self._consumer), self._need(self._producer)
        position = self._position(consumer)
        for task in tasks:
            offsets |= task.prepare_commit(position)
        if self._shared.exactly_once:
            if offsets or producer.in_transaction:
                self._commit_transaction(producer, offsets)
        else:
            self._flush(producer)
            if offsets:
                self._retried(
                    "committing offsets", lambda: self._membership_of().commit_offsets(offsets, timeout_s=_RETRY_S)
                )
        acked = producer.acked_offsets()
        for task in tasks:
            task.post_commit(acked)
        self.commits += 1
        self._failing_since = None
        _log.debug("%s: committed %d offsets in %.1f ms", self.name, len(offsets), 1e3 * (time.monotonic() - started))
        self._purge()

    def _commit_exact_metadata(self, task_ids: Iterable[TaskId]) -> None:
        """Before tasks are handed on, commit their offsets once more in the member's own name.

        confluent-kafka ends the metadata of transactional offsets with a zero byte, which a Java successor does not
        read. The offsets are the ones just committed, so this changes nothing else and may fail.
        """
        if not self._shared.exactly_once:
            return
        offsets = {
            tp: entry
            for task_id in task_ids
            if (task := self._running.get(task_id)) is not None
            for tp, entry in task.committed_offsets().items()
        }
        if not offsets:
            return
        try:
            self._membership_of().commit_offsets(offsets, timeout_s=_EXACT_METADATA_S)
        except KafkaException as e:
            _log.info("%s: metadata of committed offsets stays as it is: %s", self.name, e)

    def _position(self, consumer: RecordConsumer) -> Callable[[TopicPartition], int | None]:
        known = consumer.position(self._by_partition)
        return known.get

    def _commit_transaction(
        self, producer: RecordProducer, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        try:
            self._flush(producer)
            # asked even when there are no offsets, which the brokers would check it by
            identity = self._membership_of().identity()
            if offsets:
                self._retried("adding offsets", lambda: producer.send_offsets(offsets, identity, _RETRY_S))
            self._retried("committing", lambda: producer.commit_transaction(_RETRY_S))
        except CommitOutcomeUnknownException as e:
            raise TaskCorruptedException(
                f"the outcome of a commit is unknown, so the tasks restart from what the brokers hold: {e}", self._tasks
            ) from e
        except TransactionAbortableException as e:
            failures = [failure for failure in producer.take_failures() if isinstance(failure, SendFailedException)]
            if failures:
                self._send_failed(failures[0])
            raise TaskCorruptedException(f"a transaction cannot commit: {e}", self._tasks) from e
        except SendFailedException as e:
            self._send_failed(e)

    def _flush(self, producer: RecordProducer) -> None:
        while True:
            try:
                self._retried("flushing", lambda: producer.flush(_RETRY_S))
                return
            except SendFailedException as e:
                # returns when every refused record may be skipped; the flush is then done again
                self._send_failed(e)

    def _purge(self) -> None:
        now = time.monotonic()
        if now - self._last_purge < self._shared.repartition_purge_interval_ms / 1000:
            return
        self._last_purge = now
        offsets = {
            tp: entry.offset
            for task in self._running.values()
            for tp, entry in task.committed_offsets().items()
            if tp.topic in self._plan.repartition_topics
        }
        if offsets:
            admin = self._need(self._admin)
            self._need(self._updater).submit(lambda: admin.delete_records(offsets))

    def _give_up(self, task_ids: Iterable[TaskId]) -> None:
        leaving = set(task_ids)
        self._waiting_for_directory -= leaving
        self._need(self._updater).remove([task_id for task_id in leaving if task_id not in self._running])
        corrupted: TaskCorruptedException | None = None
        if any(task_id in self._running for task_id in leaving):
            try:
                self._commit()
                self._commit_exact_metadata(leaving)
            except TaskCorruptedException as e:
                # the next owners start from what is committed; the tasks that stay are revived by the caller
                corrupted = e
        for task_id in leaving:
            self._close_task(task_id)
        self._membership_of().revoked(leaving)
        if corrupted is not None:
            raise corrupted

    def _abandon(self, task_ids: Iterable[TaskId], error: Exception | None) -> None:
        """Close tasks without committing; the transaction they wrote to is aborted."""
        task_ids = list(task_ids)
        self._waiting_for_directory.clear()
        self._need(self._updater).remove(task_id for task_id in task_ids if task_id not in self._running)
        for task_id in task_ids:
            self._close_task(task_id)
        self._reset_producer(error)

    def _reset_producer(self, error: Exception | None) -> None:
        producer = self._need(self._producer)
        if not self._shared.exactly_once:
            producer.take_failures()
            return
        try:
            if not isinstance(error, TaskMigratedException) and not isinstance(
                getattr(error, "__cause__", None), CommitOutcomeUnknownException
            ):
                producer.abort_transaction(_RETRY_S)
                return
        except KafkaException as e:
            _log.info("%s: the transaction could not be aborted, a new producer ends it: %s", self.name, e)
        producer.close()
        self._make_producer()

    def _revive(self, error: TaskCorruptedException) -> None:
        now = time.monotonic()
        self._failing_since = self._failing_since or now
        if now - self._failing_since > self._shared.task_timeout_ms / 1000:
            raise StreamsException(
                f"{self.name}: no commit has succeeded for {now - self._failing_since:.0f} s (task.timeout.ms): {error}"
            ) from error
        again = set(self._tasks)
        self._abandon(again, error)
        if error.wipe:
            for task_id in error.task_ids:
                self._shared.directory.remove_task(task_id)
        self._machine.try_move(ThreadState.PARTITIONS_ASSIGNED)
        self._start_tasks(again & self._membership_of().owned())

    def _close_task(self, task_id: TaskId) -> None:
        task = self._tasks.pop(task_id, None)
        if task is None:
            return
        if self._running.pop(task_id, None) is not None:
            gone = [tp for tp in task.partitions if self._by_partition.pop(tp, None) is not None]
            self._paused.difference_update(gone)
            self._need(self._consumer).incremental_unassign(gone)
        try:
            task.close()
        except Exception as e:
            # its records are committed or dropped by now; only a processor's close() can fail here
            _log.warning("%s: task %s did not close in good order: %s", self.name, task_id, e)
        finally:
            self._shared.directory.release(task_id, self)

    def _close(self, clean: bool) -> None:
        first: Exception | None = None
        if clean:
            try:
                self._commit()
                self._commit_exact_metadata(self._running)
            except Exception as e:
                _log.warning("%s: the last commit failed: %s", self.name, e)
                if not isinstance(e, (TaskMigratedException, TaskCorruptedException)):
                    first = e
                clean = False
        try:
            self._need(self._updater).close()
        except Exception as e:
            first = first or e
        for task_id in list(self._tasks):
            self._close_task(task_id)
        producer = self._need(self._producer)
        if not clean:
            try:
                producer.abort_transaction(_RETRY_S)
            except KafkaException as e:
                _log.info("%s: the last transaction was not aborted: %s", self.name, e)
        self._release()
        if first is not None:
            raise first

    def _release(self) -> None:
        if self._updater is not None:
            self._updater.close()
        if self._membership is not None:
            self._membership.close(self._leave_group)
        if self._consumer is not None:
            self._consumer.close()
        if self._producer is not None:
            self._producer.close()
        if self._admin is not None:
            self._admin.close()

    def _retried(self, what: str, call: Callable[[], P]) -> P:
        """``call`` until it does not time out, for up to ``task.timeout.ms``; the membership stays alive meanwhile."""
        deadline = time.monotonic() + self._shared.task_timeout_ms / 1000
        while True:
            try:
                return call()
            except TimeoutException as e:
                if time.monotonic() >= deadline or self._stop.is_set():
                    raise
                _log.warning("%s: %s: %s; trying again", self.name, what, e)
                if self._membership is not None:
                    self._membership.note_poll()

    def _reset_policy(self, partition: TopicPartition) -> str:
        if partition.topic in self._plan.repartition_topics:
            return "earliest"
        return self._shared.reset_policies.get(partition.topic) or self._shared.default_reset_policy

    def _membership_of(self) -> ClassicMembership:
        return self._need(self._membership)

    @staticmethod
    def _need(part: P | None) -> P:
        assert part is not None, "the thread is not open"
        return part


def _names(tasks: Iterable[TaskId]) -> str:
    return "[" + ", ".join(map(str, sorted(tasks))) + "]"


__all__ = ["StreamThread"]
