"""A stream thread: its member of the group, its tasks, and the loop that drives them.

One round of the loop, :meth:`StreamThread._round`: membership events, then records from the consumer into the tasks'
queues, then restored tasks taken over, then every task processed for a bounded time, then a commit when one is due.

What happens when …

* *an assignment comes*: new tasks are made and go to the state updater; tasks kept go on meanwhile. One that was a
  standby task here goes on with its open stores, and so does the other way round a revoked one that becomes a standby.
* *tasks are revoked*: all tasks commit together, the revoked ones close, then the membership tells the group.
* *the member is lost, or fenced* (:class:`TaskMigratedException`): what was sent is given up, every task closes without
  committing, the member joins again. Standby tasks, which nobody minds, go on.
* *a transaction cannot commit, or nobody knows whether it did* (:class:`TransactionAbortableException`,
  :class:`TaskCorruptedException`): the same for the tasks, but the membership stays: after a pause that grows they are
  made again and restore their delta.
* *anything else is raised*: the tasks close without committing and the uncaught exception handler decides.

Invariants:

* Stores are written after the commit and never before, so a crash leaves them behind the changelog, never ahead.
* Records are taken from the consumer only while few wait: a slow topology must not gather its whole input in memory.
* Between two looks at the clock a task processes as many records as took about :data:`_SLICE_S` the last time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from contextlib import ExitStack
from typing import TYPE_CHECKING

from headrace.api.engine import NEVER
from headrace.api.metadata import TaskMetadata, ThreadMetadata
from headrace.assignment import SubscriptionInfo, encode_subscription
from headrace.engine.task import StreamTask, TaskState
from headrace.errors import (
    KafkaException,
    LockException,
    MissingSourceTopicException,
    OffsetOutOfRangeException,
    RecordRefusedException,
    StreamsException,
    TaskCorruptedException,
    TaskMigratedException,
    TimeoutException,
    TransactionAbortableException,
)
from headrace.kafka import (
    Assigned,
    Lost,
    RecordConsumer,
    Revoked,
    ShutdownRequested,
    TopicAdmin,
)
from headrace.resets import AutoOffsetReset
from headrace.runtime.changelogs import end_sums, places
from headrace.runtime.client import reset_policies
from headrace.runtime.committer import Committer, end_transaction
from headrace.runtime.groups import MemberParts
from headrace.runtime.standbys import StandbyTasks
from headrace.runtime.state_updater import StateUpdater
from headrace.runtime.states import (
    THREAD_TRANSITIONS,
    StateMachine,
    StreamThreadExceptionResponse,
    ThreadState,
)
from headrace.runtime.thread_metrics import ThreadMeters
from headrace.runtime.topic_watch import TopicWatch
from headrace.state.cache import CacheBudget

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from headrace.engine.standby import StandbyTask
    from headrace.kafka import JoinClaims, Membership, MembershipEvent
    from headrace.records import HostInfo, HostPartitions, TaskId, TopicPartition
    from headrace.runtime.client import ClientSettings
    from headrace.runtime.state_updater import Restored
    from headrace.topology.built import SubTopology
    from headrace.topology.copartition import Plan

_log = logging.getLogger(__name__)

_POLL_RECORDS = 5_000
_SLICE_S = 0.01
_SETTLING_S = 0.02
"""Longest wait for records while the group, or a restore, may hand over tasks at any time."""
_LARGEST_SLICE = 4_096
_CLOSE_UPDATER_S = 10.0
TELL_S = 30.0
"""How long the group may take to tell all instances that they are to end; a thread that has failed stays in it for so
long."""
_TELL_PAUSE_S = 0.05
_COMMITTED_WAIT_S = 1.0
_EVENT_NAMES: Mapping[type, str] = {Assigned: "assigned", Revoked: "revoked", Lost: "lost"}
_ADMIN_TIMEOUT_MS = 10_000
"""Short enough that a stop is not kept waiting by brokers that do not answer."""


class StreamThread:
    """See the module. Made and started by :class:`headrace.KafkaStreams`.

    Args:
        index: Number of the thread in its client, from 1.
        shared: What all threads of the client share.
        on_state: Called on every change of state, on this thread.
        on_error: Called with the fatal error, on this thread, when its loop has ended by one; says what is to follow.
        on_replace: Called on this thread when that was to replace it, and it has freed all it had.
        on_shutdown: Called on this thread when an instance has asked that the whole application ends.
        global_stores: The stores that every processor may read by name; complete when the thread is started.
    """

    _plan: Plan
    _subtopologies: dict[int, SubTopology]
    _reset_policies: dict[str, AutoOffsetReset]
    _admin: TopicAdmin
    _consumer: RecordConsumer
    _updater: StateUpdater
    _standbys: StandbyTasks
    _membership: Membership
    _committer: Committer

    def __init__(
        self,
        index: int,
        shared: ClientSettings,
        on_state: Callable[[StreamThread, ThreadState, ThreadState], None],
        on_error: Callable[[StreamThread, Exception], StreamThreadExceptionResponse],
        on_replace: Callable[[StreamThread], None],
        on_shutdown: Callable[[], None],
        global_stores: Callable[[], Mapping[str, object]],
    ) -> None:
        self.index = index
        self.name = f"{shared.client_id}-StreamThread-{index}"
        self._shared = shared
        self._on_error = on_error
        self._on_replace = on_replace
        self._on_shutdown = on_shutdown
        self._machine = StateMachine(
            f"stream thread {self.name}",
            ThreadState.CREATED,
            THREAD_TRANSITIONS,
            lambda new, old: on_state(self, new, old),
        )
        self.meters = ThreadMeters(
            shared.metrics,
            self.name,
            str(shared.process_id),
            lambda: self.state,
            time.time_ns() // 1_000_000,
            self._blocked_s,
            lambda: self._budget.used_bytes,
        )
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._stop = threading.Event()
        self._leave_group = True
        self._application_is_to_end = False
        self._budget = CacheBudget(shared.cache_bytes_per_thread)
        self._tasks: dict[TaskId, StreamTask] = {}
        self._running: dict[TaskId, StreamTask] = {}
        self._by_partition: dict[TopicPartition, StreamTask] = {}
        self._waiting_for_directory: set[TaskId] = set()
        self._again: set[TaskId] = set()
        self._again_at = 0.0
        self._paused: set[TopicPartition] = set()
        self._events: deque[MembershipEvent] = deque()
        self._clean = False
        self._slice = 64
        self._waited_s = 0.0
        self._turn = 0
        self._counts: dict[str, int] = {}
        self._changed_topic: str | None = None
        self._topics_changed = False
        self._global_stores = global_stores
        self._last_purge = time.monotonic()
        self._last_look = float("-inf")
        self._watch = TopicWatch()
        self._purge_due = False
        self.hosts: Mapping[HostInfo, HostPartitions] = {}
        """What every instance with an ``application.server`` has, as of the last assignment."""
        self._standby_ids: frozenset[TaskId] = frozenset()
        self._cleanup = ExitStack()

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

    def shutdown_application(self) -> None:
        """Have this thread's member ask every instance of the application to end."""
        self._application_is_to_end = True

    def resize_cache(self, max_bytes: int) -> None:
        """Give its record caches so many bytes; they shrink as they are next written to."""
        self._budget.max_bytes = max_bytes

    def join(self, timeout_s: float | None) -> bool:
        """Wait for the end; returns whether it came."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def is_current(self) -> bool:
        """Whether this is the thread that asks, or its updater is, which calls the listeners of restores."""
        updater: StateUpdater | None = getattr(self, "_updater", None)
        return threading.current_thread() is self._thread or (updater is not None and updater.is_current())

    def task_drops(self) -> dict[TaskId, dict[str, int]]:
        """Dropped records by reason of every task this thread has now."""
        return {task_id: dict(task.metrics.dropped) for task_id, task in list(self._tasks.items())}

    def standby_tasks(self) -> list[StandbyTask]:
        """The standby tasks that follow their changelogs; may be asked by any thread."""
        standbys: StandbyTasks | None = getattr(self, "_standbys", None)
        return [] if standbys is None else [task for _, task in sorted(dict(standbys.tasks).items())]

    def metadata(self) -> ThreadMetadata:
        """What this thread has; may be asked by any thread."""
        active = frozenset(
            TaskMetadata(
                task.id,
                task.partitions,
                dict.fromkeys(task.partitions, -1)
                | {tp: entry.offset for tp, entry in dict(task.committed_offsets()).items()},
                task.end_offsets(),
                task.idling_since,
            )
            for task in list(self._tasks.values())
        )
        standby = frozenset(
            TaskMetadata(task_id, frozenset(self._plan.tasks.get(task_id, ()))) for task_id in self._standby_ids
        )
        return ThreadMetadata(
            self.name,
            self.state.value,
            active,
            standby,
            f"{self.name}-consumer",
            f"{self.name}-restore-consumer",
            frozenset({f"{self.name}-producer"}),
            f"{self._shared.client_id}-admin",
        )

    def _run(self) -> None:
        error: Exception | None = None
        response = StreamThreadExceptionResponse.SHUTDOWN_CLIENT
        try:
            try:
                self._open()
                while not self._stop.is_set():
                    self._round_and_recover()
                self._machine.try_move(ThreadState.PENDING_SHUTDOWN)
                self._commit_last()
            except TimeoutException as e:
                if self._stop.is_set():
                    # nothing is tried again for a thread that is to end; what is not committed is done again
                    _log.warning("%s: ends although the brokers do not answer: %s", self.name, e)
                else:
                    error = e
            except BaseException as e:
                error = self._as_error(e)
            if error is not None:
                # asked while it is still a member of the group, which the answer may need
                response = self._failed(error)
            self._machine.try_move(ThreadState.PENDING_SHUTDOWN)
            # whatever is open closes, each in spite of the others
            self._cleanup.close()
        except BaseException as e:
            if error is None:
                error = self._as_error(e)
                response = self._failed(error)
            else:
                _log.warning("stream thread %s did not close in good order: %s", self.name, e)
        self._machine.try_move(ThreadState.DEAD)
        self.meters.close()
        if response is StreamThreadExceptionResponse.REPLACE_THREAD:
            self._on_replace(self)

    def _as_error(self, error: BaseException) -> Exception:
        # sys.exit, a cancelled coroutine: neither may end the thread without closing what it has
        return error if isinstance(error, Exception) else StreamsException(f"{self.name} was stopped: {error!r}")

    def _failed(self, error: Exception) -> StreamThreadExceptionResponse:
        _log.error("stream thread %s ends: %s", self.name, error, exc_info=error)
        response = self._on_error(self, error)
        if response is StreamThreadExceptionResponse.SHUTDOWN_APPLICATION:
            self._end_application()
        return response

    def _end_application(self) -> None:
        """Stay in the group until its leader has told every member to end, this one among them."""
        membership: Membership | None = getattr(self, "_membership", None)
        if membership is None:
            _log.warning("%s: the other instances are not told to end: it never joined the group", self.name)
            return
        deadline = time.monotonic() + TELL_S
        try:
            membership.shutdown_application()
            while time.monotonic() < deadline:
                for event in membership.poll(_steady_ms()):
                    if isinstance(event, ShutdownRequested):
                        return
                    if isinstance(event, Revoked):
                        self._remove_from_updater(event.tasks)
                        for task_id in event.tasks:
                            self._close_task(task_id)
                        membership.revoked(event.tasks)
                time.sleep(_TELL_PAUSE_S)
        except KafkaException as e:
            _log.warning("%s: the other instances could not be told to end: %s", self.name, e)
            return
        _log.warning("%s: the other instances could not be told to end within %.0f s", self.name, TELL_S)

    def _open(self) -> None:
        shared, config, later = self._shared, self._shared.config, self._cleanup.callback
        _log.info("%s: connecting to %s", self.name, ", ".join(config.bootstrap_servers))
        self._admin = admin = TopicAdmin(config.admin_config(client_id=f"{shared.client_id}-admin"), _ADMIN_TIMEOUT_MS)
        later(admin.close)
        self._take_plan(self._prepared(admin))
        self._membership = shared.group.member(
            MemberParts(
                self.index,
                f"{self.name}-consumer",
                lambda: self._plan,
                self._subscription,
                shared.positions,
                lambda: end_sums(self._admin, self._plan, shared.application_id),
                lambda: places(self._admin, self._plan),
                shared.positions.end_sums,
                shared.predecessors.of(self.index),
            )
        )
        later(self._close_membership)
        self._committer = committer = Committer(
            self.name,
            self.index,
            shared,
            self._membership,
            self._partition_count,
            lambda topics: topics - self._admin.partition_counts(topics).keys(),
            lambda: self._admin.check_transactions(),
            self._stop,
        )
        # the group is left once the transaction has ended, so that nobody who takes over has to wait for it
        later(lambda: committer.close(self._clean))
        self._consumer = RecordConsumer(config.main_consumer_config(client_id=f"{self.name}-consumer"))
        later(self._consumer.close)
        restore = config.restore_consumer_config(client_id=f"{self.name}-restore-consumer")
        self._updater = StateUpdater(
            f"{shared.client_id}-StateUpdater-{self.index}",
            lambda: RecordConsumer({**restore, "group.id": shared.application_id}),
            admin,
            self._reset_policy,
            shared.task_timeout_ms,
            shared.listeners,
            shared.paused,
            shared.metrics,
        )
        self._standbys = StandbyTasks(
            self.name, shared, self, self._updater, lambda: self._plan, self._membership.note_poll
        )
        later(self._standbys.close)
        later(self._close_tasks)
        later(lambda: self._updater.close(_CLOSE_UPDATER_S))
        self._updater.start()
        committer.retried("joining the group", self._membership.start)
        # while the group makes up its mind
        if shared.exactly_once:
            shared.predecessors.end_transactions(lambda index: end_transaction(shared, index))
        self._consumer.learn(topic for topics in self._plan.source_topics.values() for topic in topics)

    def _close_membership(self) -> None:
        # else the next process has to go on as the member that this one leaves behind
        if self._membership.close(self._leave_group):
            self._shared.predecessors.left(self.index)

    def _prepared(self, admin: TopicAdmin) -> Plan:
        deadline = time.monotonic() + self._shared.task_timeout_ms / 1000
        while True:
            try:
                return self._shared.group.topics.prepare(admin)
            except TimeoutException as e:
                if time.monotonic() >= deadline or self._stop.is_set():
                    raise
                brokers = ", ".join(self._shared.config.bootstrap_servers)
                _log.warning("%s: the brokers at %s do not answer, trying again: %s", self.name, brokers, e)
                self._stop.wait(0.5)

    def _take_plan(self, found: Plan) -> None:
        self._plan = found
        self._counts = dict(found.partition_counts)
        self._subtopologies = {sub.id: sub for sub in found.built.subtopologies}
        self._reset_policies = reset_policies(found.built)

    def _refresh_topics(self) -> None:
        """Follow what the patterns of sources match now: tasks that get or lose partitions are made again."""
        former, found = self._plan, self._shared.group.topics.refresh(self._admin)
        if found.tasks == former.tasks:
            self._topics_changed = False
            return
        changed = {task_id for task_id in self._tasks if found.tasks.get(task_id) != former.tasks.get(task_id)}
        _log.info("%s: topics of its patterns have changed; tasks made again: %s", self.name, _names(changed))
        if self._running:
            self._commit()
        self._remove_from_updater(changed)
        for task_id in changed:
            self._close_task(task_id)
        self._take_plan(found)
        self._topics_changed = False
        self._again |= {task_id for task_id in changed if task_id in found.tasks}
        self._again_at = time.monotonic()
        self._machine.try_move(ThreadState.PARTITIONS_ASSIGNED)
        self._membership.request_rejoin("topics of its patterns have changed")

    def _subscription(self, claims: JoinClaims) -> bytes:
        shared = self._shared
        return encode_subscription(
            SubscriptionInfo(
                shared.process_id.bytes,
                claims.owned,
                frozenset(shared.directory.task_ids()),
                shared.fingerprint,
                shared.positions(),
                claims.standbys,
                shared.config.application_host,
                shared.config.client_tags,
                claims.request,
                shared.config.rack_id or "",
                claims.version,
            )
        )

    def _partition_count(self, topic: str) -> int:
        count = self._counts.get(topic)
        if count is None:
            found = self._admin.partition_counts([topic])
            if topic not in found:
                raise StreamsException(f"sink topic {topic} does not exist: create it")
            count = self._counts[topic] = found[topic]
        return count

    def _round_and_recover(self) -> None:
        try:
            self._round()
        except TaskMigratedException as e:
            _log.warning("%s: tasks migrated, joining anew: %s", self.name, e)
            # they are of a membership that is over; what it had comes back as lost. That all shall end holds as before
            self._events = deque(event for event in self._events if isinstance(event, ShutdownRequested))
            self._watch_anew()
            self._abandon(e)
            self._membership.rejoin_anew(str(e))
        except TaskCorruptedException as e:
            self._revive(e, e.task_ids if e.wipe else ())
        except TransactionAbortableException as e:
            self._revive(e, ())
        except RecordRefusedException as e:
            if self._committer.careful:
                raise
            self._committer.careful = True
            self._revive(e, ())

    def _round(self) -> None:
        if self.meters.begins_round(time.monotonic()):
            self._look_at_tasks()
        if self._application_is_to_end:
            self._application_is_to_end = False
            self._membership.shutdown_application()
        self._events.extend(self._membership.poll(_steady_ms()))
        self._shared.predecessors.watch(self.index, self._membership)
        while self._events:
            # it leaves the queue once it is done: after a failed commit revoked tasks still have to be given up
            self._handle(self._events[0])
            self._events.popleft()
        self._start_waiting_tasks()
        self._take_restored()
        self._poll()
        if not self._shared.paused.is_set():
            self._process()
        self._committer.serve()
        if self._committer.wait() <= 0:
            self._commit()
        self._purge()
        self._look_after_topics()

    def _poll(self) -> None:
        waiting = {task.id for task in self._running.values() if task.must_wait()}
        ready = sum(task.buffered for task in self._running.values() if task.id not in waiting)
        self._flow_control(bool(waiting))
        paused = self._shared.paused.is_set()
        if ready >= _POLL_RECORDS and not waiting:
            if paused:
                self._stop.wait(self._shared.poll_ms / 1000)
            return
        began = time.monotonic()
        # what is there is taken at once; only when nothing is there the thread waits, and then for a first record only
        batch = self._consumer.poll(0.0, _POLL_RECORDS)
        if (paused or not ready) and not batch.records:
            self._consumer_errors(batch.errors)
            punctuation = NEVER if paused else self._until_punctuation()
            patience = NEVER if self.state is ThreadState.RUNNING else _SETTLING_S
            longest = min(self._shared.poll_ms / 1000, patience, self._until_commit(), punctuation)
            waits = time.monotonic()
            batch = self._consumer.poll(longest, 1)
            self._waited_s += time.monotonic() - waits
        now = time.monotonic()
        self.meters.polled(now, now - began, sum(map(len, batch.records.values())))
        self._consumer_errors(batch.errors)
        for tp, records in batch.records.items():
            task = self._by_partition.get(tp)
            if task is not None:
                task.add_records(tp, records)

    def _blocked_s(self) -> float:
        committer: Committer | None = getattr(self, "_committer", None)
        return self._waited_s + (0.0 if committer is None else committer.blocked_s)

    def _look_at_tasks(self) -> None:
        self.meters.look(
            time.monotonic(),
            self._consumer.position(self._by_partition),
            lambda tp: self._consumer.watermarks(tp, cached=True)[1],
        )

    def _until_commit(self) -> float:
        # with nothing to commit it may be late: a short commit.interval.ms would keep an idle thread busy
        anything = self._committer.in_transaction or any(task.has_uncommitted for task in self._running.values())
        return self._committer.wait() if anything else NEVER

    def _until_punctuation(self) -> float:
        due = min((task.next_wall_clock() for task in self._running.values()), default=NEVER)
        return max(0.0, (due - self._shared.engine.system_time_ms()) / 1000)

    def _flow_control(self, somebody_waits: bool) -> None:
        """While a task waits for a partition the others go on being fetched too: those with enough are paused."""
        if not somebody_waits and not self._paused:
            return
        limit = self._shared.engine.buffered_records_per_partition
        pause: list[TopicPartition] = []
        resume: list[TopicPartition] = []
        for task in self._running.values():
            for partition, queue in task.queues.items():
                if partition in self._paused:
                    if queue.size <= limit:
                        resume.append(partition)
                elif somebody_waits and queue.size > limit:
                    pause.append(partition)
        if pause:
            self._consumer.pause(pause)
            self._paused.update(pause)
        if resume:
            self._consumer.resume(resume)
            self._paused.difference_update(resume)

    def _consumer_errors(self, errors: Iterable[tuple[TopicPartition | None, Exception]]) -> None:
        for tp, error in errors:
            if tp is not None and tp not in self._by_partition:
                continue
            if isinstance(error, TimeoutException):
                _log.warning("%s: %s", self.name, error)
                continue
            if isinstance(error, OffsetOutOfRangeException):
                self._migrated_or_gone(error)
            raise error

    def _migrated_or_gone(self, error: OffsetOutOfRangeException) -> None:
        """Raise :class:`TaskMigratedException` if others read on from a later offset, and had the rest deleted."""
        tp = error.partition
        found = self._committer.retried(
            "looking at committed offsets", lambda: self._consumer.committed((tp,), _COMMITTED_WAIT_S)
        )[tp]
        if found is not None and found.offset > error.committed:
            raise TaskMigratedException(
                f"{tp} is read elsewhere: offset {found.offset} is committed, this thread was at {error.committed}"
            ) from error
        # jumping over the gap would lose records without anybody being told
        _log.error("%s: %s", self.name, error)

    def _process(self) -> None:
        clock = time.monotonic
        now = clock()
        deadline = now + min(max(self._committer.due_in(), 0.0), self._shared.max_poll_interval_ms / 2000)
        progress = True
        while progress:
            progress = False
            for task in self._in_turn():
                self._turn += 1
                if task.buffered:
                    done = task.process(self._slice)
                    progress = progress or done > 0
                    before, now = now, clock()
                    self._adapt(done, now - before)
                    if done:
                        self.meters.ran(task, now, now - before, done)
                else:
                    task.idle()
                task.punctuate_wall_clock()
                if task.wants_commit():
                    self._commit()
                if now >= deadline:
                    return

    def _in_turn(self) -> list[StreamTask]:
        # where the last round ended this one begins, so that slow tasks starve nobody
        tasks = list(self._running.values())
        first = self._turn % len(tasks) if tasks else 0
        return tasks[first:] + tasks[:first]

    def _adapt(self, done: int, took_s: float) -> None:
        if took_s > 2 * _SLICE_S:
            self._slice = max(1, self._slice // 2)
        elif done == self._slice and took_s < _SLICE_S:
            self._slice = min(2 * self._slice, _LARGEST_SLICE)

    def _handle(self, event: MembershipEvent) -> None:
        began = time.monotonic()
        self._follow(event)
        kind = _EVENT_NAMES.get(type(event))
        if kind is not None:
            now = time.monotonic()
            self.meters.rebalanced[kind].record(now, 1000 * (now - began))
        self._settle()

    def _follow(self, event: MembershipEvent) -> None:
        if isinstance(event, Assigned):
            _log.info(
                "%s: assignment of generation %d: tasks %s, of which new %s",
                self.name,
                event.generation,
                _names(event.all_tasks),
                _names(event.tasks),
            )
            self._machine.try_move(ThreadState.PARTITIONS_ASSIGNED)
            if self._shared.group.topics.has_patterns:
                # the leader may have found topics that this member has not seen yet
                self._committer.retried("looking for topics", self._refresh_topics)
            if event.all_tasks or event.standbys:
                self._committer.retried(
                    "looking at internal topics",
                    lambda: self._shared.group.topics.confirm(self._admin, self._plan),
                )
            self.hosts = event.hosts
            self._standby_ids = event.standbys
            self._standbys.set(event.standbys, event.all_tasks)
            self._start_tasks(event.all_tasks - self._again)
            self._standbys.serve()
        elif isinstance(event, Revoked):
            _log.info("%s: revoked tasks %s", self.name, _names(event.tasks))
            self._machine.try_move(ThreadState.PARTITIONS_REVOKED)
            self._hand_over(event.tasks, self._next_standbys())
        elif isinstance(event, ShutdownRequested):
            _log.warning("%s: %s", self.name, event.reason)
            self._on_shutdown()
        else:
            self._lost(event)

    def _next_standbys(self) -> frozenset[TaskId]:
        """The standby tasks of the assignment that comes with a revocation: such tasks keep their stores open."""
        for event in self._events:
            if isinstance(event, Assigned):
                return event.standbys
        return frozenset()

    def _lost(self, event: Lost) -> None:
        _log.warning("%s: lost its membership: %s", self.name, event.reason)
        self._machine.try_move(ThreadState.PARTITIONS_REVOKED)
        self._watch_anew()
        self._abandon(None)

    def _start_waiting_tasks(self) -> None:
        self._standbys.serve()
        if self._waiting_for_directory:
            self._start_tasks(set(self._waiting_for_directory))
        if self._again and time.monotonic() >= self._again_at:
            again, self._again = self._again, set()
            self._start_tasks(again & self._membership.owned())
            self._settle()

    def _start_tasks(self, task_ids: Iterable[TaskId]) -> None:
        shared = self._shared
        for task_id in sorted(task_ids):
            if task_id in self._tasks:
                continue
            partitions = self._plan.tasks.get(task_id)
            if partitions is None and self._shared.group.topics.has_patterns:
                # its topic was deleted since; the next assignment is without it
                continue
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
                    self._subtopologies[task_id.subtopology],
                    task_id,
                    shared.engine,
                    self._committer.collector,
                    self._budget,
                    lambda store, task_id=task_id: shared.directory.store_path(task_id, store),  # type: ignore[misc]  # bound at once
                    self._consumer.is_caught_up,
                    partitions,
                    self._global_stores(),
                    self._standbys.take(task_id),
                )
            except BaseException:
                shared.directory.release(task_id, self)
                raise
            self._tasks[task_id] = task
            self.meters.created(task, time.monotonic())
            task.transition(TaskState.RESTORING)
            self._shared.positions.opened(task)
            self._updater.add(task)

    def _take_restored(self) -> None:
        for restored in self._updater.drain():
            self._run_task(restored)
        self._settle()

    def _run_task(self, restored: Restored) -> None:
        task = restored.task
        if self._tasks.get(task.id) is not task:
            return
        task.resume_from(restored.committed)
        task.complete_restoration()
        self._running[task.id] = task
        self._purge_due = True  # what its former owner committed last may not be deleted yet
        self._shared.positions.running(task)
        for partition in task.partitions:
            self._by_partition[partition] = task
        self._consumer.incremental_assign(restored.positions)
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
            and not self._again
            and len(self._running) == len(self._tasks)
        ):
            self._machine.try_move(ThreadState.RUNNING)

    def _commit(self) -> None:
        began = time.monotonic()
        known = self._consumer.position(self._by_partition)
        if self._committer.commit(list(self._running.values()), known.get):
            self._purge_due = True
            now = time.monotonic()
            self.meters.committed(now, now - began, self._running, time.time_ns() // 1_000_000)
        self._shared.positions.save()

    def _purge(self) -> None:
        """Delete committed records of repartition topics; also those of a last commit, after which nothing comes."""
        now = time.monotonic()
        if not self._purge_due or now - self._last_purge < self._shared.repartition_purge_interval_ms / 1000:
            return
        self._last_purge = now
        self._purge_due = False
        offsets = {
            tp: entry.offset
            for task in self._running.values()
            for tp, entry in task.committed_offsets().items()
            if tp.topic in self._plan.repartition_topics
        }
        if offsets:
            self._updater.submit(lambda: self._delete_records(offsets))

    def _delete_records(self, offsets: Mapping[TopicPartition, int]) -> None:
        try:
            self._admin.delete_records(offsets)
        except (TimeoutException, MissingSourceTopicException):
            # no leader answers now; a missing permission is looked at again after the next commit
            self._purge_due = True
            raise

    def _look_after_topics(self) -> None:
        """Look at the topics, at once and then now and then.

        Raises:
            StreamsException: A source topic was deleted, or made anew: the thread would go on in the new one where it
                was in the former, and pass over what lies before. Or partitions were added to it: their records would
                be read by nobody.
        """
        if self._changed_topic is not None:
            raise StreamsException(self._changed_topic)
        if self._topics_changed:
            self._committer.retried("looking for topics", self._refresh_topics)
        now = time.monotonic()
        if now - self._last_look < self._shared.metadata_max_age_ms / 1000:
            return
        self._last_look = now
        plan, watch = self._plan, self._watch
        self._updater.submit(lambda: self._look(plan, watch))

    def _look(self, plan: Plan, watch: TopicWatch) -> None:
        sources = {topic for topics in plan.source_topics.values() for topic in topics}
        counts = self._admin.partition_counts(sources | self._counts.keys())
        # partitioners of sinks are told of partitions that were added
        self._counts.update(counts)
        patterns = self._shared.group.topics.has_patterns
        if patterns:
            found = self._shared.group.topics.found(self._admin)
            self._topics_changed |= any(sub.source_topics != plan.source_topics[sub.id] for sub in found.subtopologies)
        told = watch.look(
            {topic: plan.partition_counts[topic] for topic in sources},
            () if patterns else sources - plan.repartition_topics.keys(),
            counts,
            self._admin.topic_ids(sources),
        )
        if watch is self._watch:
            self._changed_topic = told

    def _watch_anew(self) -> None:
        """What comes next begins at what is committed, for the topics of then, as after a forced reset."""
        self._watch, self._last_look = TopicWatch(), float("-inf")

    def _hand_over(self, task_ids: Iterable[TaskId], standbys: frozenset[TaskId]) -> None:
        leaving = set(task_ids)
        self._waiting_for_directory -= leaving
        self._again -= leaving
        self._remove_from_updater(leaving)
        failure: StreamsException | None = None
        if leaving & self._running.keys():
            try:
                self._commit()
            except (TaskCorruptedException, TransactionAbortableException) as e:
                # the next owners start from what is committed; the tasks that stay are revived by the caller
                failure = e
        for task_id in leaving:
            self._close_task(task_id, keep=task_id in standbys)
        self._membership.revoked(leaving)
        if failure is not None:
            raise failure

    def _remove_from_updater(self, task_ids: Collection[TaskId]) -> None:
        restoring = [task_id for task_id in task_ids if task_id in self._tasks and task_id not in self._running]
        if restoring:
            self._updater.remove(restoring, self._shared.task_timeout_ms / 1000, self._membership.note_poll)

    def _abandon(self, error: Exception | None) -> None:
        """Close all tasks without committing, and give up what they sent."""
        self._waiting_for_directory.clear()
        self._again.clear()
        self._remove_from_updater(list(self._tasks))
        for task_id in list(self._tasks):
            self._close_task(task_id)
        self._standbys.drop_kept()
        self._committer.give_up(error)

    def _revive(self, error: StreamsException, wipe: Iterable[TaskId]) -> None:
        pause_s = self._committer.pause_after(error)
        _log.warning("%s: tasks start again in %.1f s: %s", self.name, pause_s, error)
        again = set(self._tasks) | self._waiting_for_directory | self._again
        self._abandon(error)
        for task_id in wipe:
            self._shared.directory.remove_task(task_id)
        self._again, self._again_at = again, time.monotonic() + pause_s
        self._machine.try_move(ThreadState.PARTITIONS_ASSIGNED)

    def _close_task(self, task_id: TaskId, *, keep: bool = False) -> None:
        """Close a task; with ``keep`` its stores stay open for the standby task that takes its place."""
        task = self._tasks.pop(task_id, None)
        if task is None:
            return
        self.meters.closed(task, time.monotonic())
        try:
            if self._running.pop(task_id, None) is not None:
                gone = [tp for tp in task.partitions if self._by_partition.pop(tp, None) is not None]
                self._paused.difference_update(gone)
                self._consumer.incremental_unassign(gone)
        finally:
            self._shared.positions.closed(task)
            if keep:
                self._standbys.keep(task_id, task.recycle())
            else:
                self._close_stores(task)

    def _close_stores(self, task: StreamTask) -> None:
        try:
            task.close()
        except BaseException as e:
            # its records are committed or dropped by now; only a processor's close() can fail here
            _log.warning("%s: task %s did not close in good order: %r", self.name, task.id, e)
        finally:
            self._shared.directory.release(task.id, self)

    def _commit_last(self) -> None:
        try:
            self._commit()
            self._clean = True
        except (
            TaskMigratedException,
            TaskCorruptedException,
            TransactionAbortableException,
            RecordRefusedException,
        ) as e:
            # others go on from the last commit, or this instance does at its next start
            _log.warning("%s: the last commit failed: %s", self.name, e)

    def _close_tasks(self) -> None:
        for task_id in list(self._tasks):
            self._close_task(task_id)

    def _reset_policy(self, partition: TopicPartition) -> AutoOffsetReset:
        if partition.topic in self._plan.repartition_topics:
            return AutoOffsetReset.EARLIEST
        return self._reset_policies.get(partition.topic) or self._shared.default_reset_policy


def _names(tasks: Iterable[TaskId]) -> str:
    return "[" + ", ".join(map(str, sorted(tasks))) + "]"


def _steady_ms() -> int:
    return int(1000 * time.monotonic())


__all__ = ["TELL_S", "StreamThread"]
