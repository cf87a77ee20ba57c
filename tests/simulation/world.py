"""One run: brokers, instances, faults, and what must hold in spite of them.

The application keeps, for each key, the list of the input records it has seen, in order. So a record that is lost, or
counted twice, or counted in a state that was given up, is seen in the list.
"""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError

from headrace import Consumed, Grouped, Materialized, Produced, Serdes, StreamsBuilder
from headrace.api.stores import StoreType
from headrace.assignment import decode_assignment, decode_subscription
from headrace.config import StreamsConfig
from headrace.errors import KafkaException
from headrace.metrics import MetricsRegistry
from headrace.records import GroupIdentity, TaskId, TopicPartition
from headrace.runtime.classes import engine_settings
from headrace.runtime.client import ClientSettings, Listeners, fingerprint
from headrace.runtime.groups import group_protocol
from headrace.runtime.positions import StatePositions
from headrace.runtime.predecessors import Predecessors
from headrace.runtime.states import StreamThreadExceptionResponse
from headrace.runtime.stream_thread import StreamThread
from simulation.clock import Clock, VirtualEvent
from simulation.groups import ClassicCoordinator, GroupCoordinator, Joined
from simulation.log import PartitionLog, Refused
from simulation.network import Network
from simulation.process import Directory, Disk, Process
from simulation.streams_group import StreamsCoordinator
from simulation.transactions import TransactionCoordinator

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.engine.settings import EngineSettings
    from headrace.records import OffsetAndMetadata
    from headrace.topology.built import BuiltTopology
    from simulation.clock import Signal
    from simulation.plan import Fault, Plan

APPLICATION: Final = "app"
CHANGELOG: Final = "app-rows-changelog"
REPARTITION: Final = "app-rows-repartition"
_SETTLE_S: Final = 90.0
_LOOK_S: Final = 0.25
_LAST_STOP_S: Final = 60.0
_LATEST_REQUEST_S: Final = 10.0


class Violation(AssertionError):
    """Something that must hold does not."""


class Current:
    """The run that user code is called in."""

    world: World | None = None


def _seen(key: str, value: str, former: str) -> str:
    world = Current.world
    if world is not None:
        world.user_code()
    return f"{former},{value}" if former else value


@functools.cache
def _built(repartitioned: bool, persistent: bool) -> BuiltTopology:
    text = Serdes.String()
    builder = StreamsBuilder()
    lines = builder.stream("in", Consumed.with_(text, text))
    if repartitioned:
        grouped = lines.group_by(lambda key, _: key[0], Grouped.with_(text, text))
    else:
        grouped = lines.group_by_key(Grouped.with_(text, text))
    store = Materialized.as_("rows").with_key_serde(text).with_value_serde(text)
    store = store.with_store_type(StoreType.ROCKS_DB if persistent else StoreType.IN_MEMORY)
    grouped.aggregate(str, _seen, store).to_stream().to("out", Produced.with_(text, text))
    return builder.build().build(APPLICATION)


@functools.cache
def _config(
    streams: bool, exactly_once: bool, standbys: int, transaction_timeout_ms: int, acceptable_lag: int
) -> tuple[StreamsConfig, EngineSettings]:
    config = StreamsConfig.load(
        {
            "application.id": APPLICATION,
            "bootstrap.servers": "virtual:9092",
            "processing.guarantee": "exactly_once_v2" if exactly_once else "at_least_once",
            "group.protocol": "streams" if streams else "classic",
            **(
                {}
                if streams
                else {
                    "num.standby.replicas": standbys,
                    "session.timeout.ms": 6_000,
                    "heartbeat.interval.ms": 1_500,
                    "acceptable.recovery.lag": acceptable_lag,
                }
            ),
            "commit.interval.ms": 300,
            "poll.ms": 500,
            "max.poll.interval.ms": 12_000,
            "transaction.timeout.ms": transaction_timeout_ms,
            "repartition.purge.interval.ms": 2_000,
            "metadata.max.age.ms": 20_000,
        }
    )
    return config, engine_settings(config, lambda: 0, lambda: 0)


class Instance:
    """One instance of the application, run after run."""

    def __init__(self, world: World, number: int) -> None:
        self._world = world
        self.number = number
        self.name = f"i{number}"
        self.disk = Disk(self.name, number)
        self.process: Process | None = None
        self.threads: list[StreamThread] = []
        self.busy_until = 0.0

    def start(self) -> None:
        """Begin a new process."""
        world, plan = self._world, self._world.plan
        process = self.process = Process(self.name, self.disk, world.clock)
        directory: Any = Directory(process)
        config, engine = _config(
            plan.streams, plan.exactly_once, plan.standbys, plan.transaction_timeout_ms, plan.acceptable_lag
        )
        built = _built(plan.repartitioned, plan.persistent)
        shared = ClientSettings(
            application_id=APPLICATION,
            client_id=self.name,
            process_id=directory.process_id,
            config=config,
            engine=replace(engine, system_time_ms=world.wall_ms, steady_time_ms=world.steady_ms),
            fingerprint=fingerprint(built),
            group=group_protocol(config, built, directory.process_id),
            directory=directory,
            exactly_once=plan.exactly_once,
            commit_interval_ms=config["commit.interval.ms"],
            poll_ms=config["poll.ms"],
            task_timeout_ms=config["task.timeout.ms"],
            max_poll_interval_ms=config.max_poll_interval_ms,
            repartition_purge_interval_ms=config["repartition.purge.interval.ms"],
            metadata_max_age_ms=config["metadata.max.age.ms"],
            cache_bytes_per_thread=1 << 20 if plan.cached else 0,
            default_reset_policy=config.auto_offset_reset,
            positions=StatePositions(directory),
            listeners=Listeners(),
            predecessors=Predecessors(directory, plan.threads),
            metrics=MetricsRegistry(lambda: world.clock.now),
            paused=VirtualEvent(world.clock),  # type: ignore[arg-type]  # as an event of the product's threads
        )
        world.clock.owner = process
        self.threads = [
            StreamThread(
                index,
                shared,
                lambda thread, new, old: None,
                lambda thread, error: world.thread_failed(process, error),
                lambda thread: None,
                lambda: None,
                dict,
            )
            for index in range(1, plan.threads + 1)
        ]
        for thread in self.threads:
            thread.start()
        world.clock.owner = None

    def kill(self) -> None:
        """End the process at once."""
        if self.process is not None:
            self.process.kill()
            self.process = None

    def stop(self) -> None:
        """Ask it to end; it may take a while."""
        for thread in self.threads:
            thread.shutdown(leave_group=True)

    @property
    def alive(self) -> bool:
        """Whether its threads run."""
        return self.process is not None and any(thread._thread.is_alive() for thread in self.threads)


class World:
    """See the module."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.clock = Clock(plan.seed)
        self.counts: Counter[str] = Counter()
        self.trace: list[str] = []
        self.partition_counts: dict[str, int] = {"in": plan.partitions, "out": plan.partitions}
        self.network = Network(self.clock, 0.0)
        self.group = self._make_group()
        self.transactions = TransactionCoordinator(self.clock, self.log, self.group, plan.slow_markers)
        self.group.on_commit = self._note_commit
        self.batches: dict[tuple[int, int, TopicPartition, int], int] = {}
        self.watchers: dict[TopicPartition, list[Signal]] = {}
        self.instances = [Instance(self, number) for number in range(plan.instances)]
        self.latest: dict[str, list[str]] = {}
        self.ever: dict[str, set[str]] = {}
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._read: dict[TopicPartition, int] = {}
        self._committers: dict[tuple[int, TopicPartition], str] = {}
        self._moving_until = self._over_at = 0.0
        self._calm = self._unsettled = False
        self._stalls: dict[str, float] = {}
        self._sent: dict[str, list[str]] = {}
        self._began = self.clock.now

    # What the virtual clients use.

    def log(self, tp: TopicPartition) -> PartitionLog:
        """A partition's log."""
        found = self._logs.get(tp)
        if found is None:
            assert tp.partition < self.partition_counts[tp.topic], tp
            found = self._logs[tp] = PartitionLog(tp, self._changed)
        return found

    def _make_group(self) -> GroupCoordinator:
        plan = self.plan
        if not plan.streams:
            return ClassicCoordinator(self.clock)
        found = {"in": plan.partitions, CHANGELOG: plan.partitions}
        if plan.repartitioned:
            found[REPARTITION] = plan.partitions
        self.partition_counts.update(found)
        last = int(plan.repartitioned)
        tasks = {TaskId(0, number): [TopicPartition("in", number)] for number in range(plan.partitions)}
        if last:
            tasks |= {TaskId(1, number): [TopicPartition(REPARTITION, number)] for number in range(plan.partitions)}
        followed = [task for task in tasks if task.subtopology == last] if plan.standbys else []
        return StreamsCoordinator(self.clock, tasks, followed, plan.strict_epochs, self._check_given)

    def _reachable(self) -> GroupCoordinator:
        if self._moving_until > self.clock.now:
            raise Refused(KafkaError.NOT_COORDINATOR)
        return self.group

    def classic(self) -> ClassicCoordinator:
        """The group's coordinator, if there is one now."""
        group = self._reachable()
        assert isinstance(group, ClassicCoordinator)
        return group

    def streams(self) -> StreamsCoordinator:
        """The group's coordinator, if there is one now."""
        group = self._reachable()
        assert isinstance(group, StreamsCoordinator)
        return group

    def wall_ms(self) -> int:
        """The wall clock, in epoch ms."""
        return int((self.clock.now + self.clock.wall_offset_s) * 1000)

    def steady_ms(self) -> int:
        """A clock that never jumps, in ms."""
        return int(self.clock.now * 1000)

    def user_code(self) -> None:
        """The application's function is called."""
        owner: Any = self.clock.current.owner
        if owner is None:
            return
        length_s = self._stalls.pop(owner.name, 0.0)
        if length_s:
            self.note(f"user code of {owner.name} stalls for {length_s:.2f} s")
            self.clock.sleep(length_s)
        elif self.clock.random.random() < 0.05:
            self.clock.sleep(self.clock.random.uniform(0.0, 0.2))

    def thread_failed(self, process: Process, error: Exception) -> StreamThreadExceptionResponse:
        """A stream thread ends by an error."""
        if not process.dead and not isinstance(error, KafkaException):
            self.clock.fail(error)  # of the world's own, which lacks something
        elif not process.dead:
            self.clock.fail(Violation(f"a thread of {process.name} ended by itself: {error!r}"))
        return StreamThreadExceptionResponse.SHUTDOWN_CLIENT

    def note(self, text: str) -> None:
        """Something that happened."""
        self.trace.append(f"{self.elapsed_s:8.3f}  {text}")

    @property
    def elapsed_s(self) -> float:
        """Virtual seconds since the start."""
        return self.clock.now - self._began

    # What happens.

    def run(self) -> None:
        """Everything, to the end; raises a :class:`Violation` when something does not hold."""
        clock, plan = self.clock, self.plan
        Current.world = self
        self.network.loss = plan.loss
        try:
            for at_s, number, key in plan.inputs:
                clock.at(at_s, lambda number=number, key=key: self._send(number, key))  # type: ignore[misc]
            for fault in plan.faults:
                clock.at(fault.at_s, lambda fault=fault: self._inject(fault))  # type: ignore[misc]
            for instance in self.instances:
                clock.at(clock.random.uniform(0.0, 0.5), instance.start)
            clock.sleep(max(plan.inputs[-1][0], plan.faults[-1].at_s) + 0.01)
            while self._over_at > clock.now:
                clock.sleep(self._over_at - clock.now)
            self._calm = True
            self.note("the last fault is over")
            self._settle()
            self._stop_all()
            self._check_stores()
        finally:
            self._end()

    def _send(self, number: int, key: str) -> None:
        log = self.log(TopicPartition("in", number))
        value = f"{number}.{log.end}"
        log.append([(key.encode(), value.encode(), self.wall_ms(), None)])
        self._sent.setdefault(key[0] if self.plan.repartitioned else key, []).append(value)

    def _inject(self, fault: Fault) -> None:
        process = self.instances[fault.instance].process
        if fault.requests is None or process is None:
            self._hit(fault)
        else:
            process.armed.append((fault.requests, lambda: self._hit(replace(fault, requests=None))))

    def _hit(self, fault: Fault) -> None:
        clock, instance = self.clock, self.instances[fault.instance]
        process = instance.process
        if self._calm:
            return
        if fault.kind == "outage":
            self.network.outage_until = clock.now + fault.length_s
        elif fault.kind == "move":
            self._moving_until = clock.now + fault.length_s
            self.group.refresh()
        elif fault.kind == "clock":
            clock.wall_offset_s += fault.length_s
        elif process is None or instance.busy_until > clock.now:
            return
        elif fault.kind == "freeze":
            process.frozen_until = clock.now + fault.length_s
        elif fault.kind == "stall":
            self._stalls[instance.name] = fault.length_s
        elif fault.kind in ("kill", "wipe"):
            instance.kill()
            if fault.kind == "wipe":
                instance.disk = Disk(instance.name, instance.number + 100 * self.counts["wipe"] + 100)
            instance.busy_until = clock.now + fault.length_s
            clock.at(fault.length_s, instance.start)
        else:
            if fault.kind != "stop":
                process.cut_until = clock.now + fault.length_s
            if fault.kind != "cut":
                instance.busy_until = clock.now + _LAST_STOP_S
                instance.stop()
                self._restart_when_stopped(instance, fault.length_s)
        self.counts[fault.kind] += 1
        self.note(str(fault))
        self._over_at = max(self._over_at, clock.now + max(fault.length_s, 0.0))

    def _restart_when_stopped(self, instance: Instance, pause_s: float) -> None:
        def look() -> None:
            if instance.alive:
                self.clock.at(0.1, look)
            else:
                instance.process = None
                instance.busy_until = self.clock.now + pause_s
                self.clock.at(pause_s, instance.start)

        look()

    def _settle(self) -> None:
        deadline = self.clock.now + _SETTLE_S
        while not self._all_seen() or self._behind():
            if self.clock.now > deadline:
                missing = {key: self._missing(key) for key in self._sent if self._missing(key)}
                raise Violation(
                    f"{_SETTLE_S:.0f} s after the last fault there is no total of {missing}; {self._behind()}"
                )
            self.clock.sleep(_LOOK_S)
            self._check_owners()
        self.note("all is in the totals")

    def _missing(self, key: str) -> list[str]:
        # at least once, a producer that is no owner any more may write an old total behind the newest
        found = self.ever if self._disordered() else self.latest
        return sorted(set(self._sent[key]) - set(found.get(key, ())))

    def _disordered(self) -> bool:
        return any(log.disordered for log in self._logs.values())

    def _all_seen(self) -> bool:
        return not any(self._missing(key) for key in self._sent)

    def _stop_all(self) -> None:
        deadline = self.clock.now + _LAST_STOP_S
        while any(instance.busy_until > self.clock.now or not instance.alive for instance in self.instances):
            if self.clock.now > deadline:
                raise Violation("an instance that was stopped does not end")
            self.clock.sleep(_LOOK_S)
        self.clock.sleep(2.0)
        # a request of a dead process may have come late and begun a transaction that nobody ends before its time
        deadline = self.clock.now + self.plan.transaction_timeout_ms / 1000 + _LATEST_REQUEST_S
        while self.transactions.unfinished:
            if self.clock.now > deadline:
                raise Violation("a transaction does not end")
            self.clock.sleep(_LOOK_S)
        self._wait_for_balance()
        self._check_live_stores()
        deadline = self.clock.now + _LAST_STOP_S
        for instance in self.instances:
            instance.stop()
        while any(instance.alive for instance in self.instances):
            if self.clock.now > deadline:
                raise Violation("an instance that was stopped does not end")
            self.clock.sleep(_LOOK_S)
        self.clock.sleep(3.0)
        if self.plan.exactly_once and self.transactions.unfinished:
            raise Violation("a transaction is left open by instances that ended in good order")
        if behind := self._behind():
            raise Violation(behind)

    def _wait_for_balance(self) -> None:
        """No task waits for its state elsewhere, and no member has two tasks more than another."""
        deadline = self.clock.now + _SETTLE_S
        while not self.plan.streams and (unbalanced := self._unbalanced()):
            if self.clock.now > deadline:
                raise Violation(f"{_SETTLE_S:.0f} s after everything was in the totals {unbalanced}")
            self.clock.sleep(_LOOK_S)

    def _unbalanced(self) -> str:
        if self._unsettled:
            return "tasks wait for their state elsewhere"
        running = {thread.name: len(thread._running) for instance in self.instances for thread in instance.threads}
        return f"tasks run on {running}" if max(running.values()) - min(running.values()) > 1 else ""

    def _end(self) -> None:
        """Let every strand come to its end."""
        for instance in self.instances:
            instance.kill()
        failure, self.clock.failure = self.clock.failure, None
        self.clock.events = 0
        try:
            self.clock.sleep(0.0)
        finally:
            Current.world = None
        if failure is not None:
            raise failure

    # What must hold.

    def check_assignments(self, joined: Joined, assignments: Mapping[str, Any]) -> None:
        """No task is given twice, nor while a member of the group says that it has it."""
        claims = {name: decode_subscription(metadata[3]).owned for name, metadata in joined.members if metadata[2] >= 0}
        given: dict[TaskId, str] = {}
        infos = {name: decode_assignment(assignment.user_data) for name, assignment in assignments.items()}
        self._unsettled = any(info.probe_after_ms >= 0 for info in infos.values())
        for name, info in infos.items():
            for task in info.active:
                if task in given:
                    raise Violation(f"task {task} is given to {given[task]} and {name} in {joined.generation}")
                given[task] = name
                rivals = [other for other, owned in claims.items() if other != name and task in owned]
                newest = max((self._claimed(joined, other) for other in rivals), default=-1)
                if rivals and newest >= self._claimed(joined, name) and task not in claims.get(name, ()):
                    raise Violation(f"task {task} is given to {name}, but {rivals} have it")

    @staticmethod
    def _claimed(joined: Joined, name: str) -> int:
        return next(int(metadata[2]) for other, metadata in joined.members if other == name)

    def _note_commit(self, identity: GroupIdentity, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.counts["commits"] += 1
        for tp in offsets:
            former = self._committers.setdefault((identity.generation, tp), identity.member_id)
            if former != identity.member_id:
                raise Violation(
                    f"{tp} is committed by {former} and by {identity.member_id} in generation {identity.generation}"
                )

    @staticmethod
    def _check_given(name: str, task: TaskId, rivals: Sequence[str]) -> None:
        if rivals:
            raise Violation(f"task {task} is given to {name}, but {rivals} have not given it up")

    def _check_owners(self) -> None:
        """No task runs on two members that the group has, and that own it."""
        running: dict[TaskId, str] = {}
        for instance in self.instances:
            if instance.process is None:
                continue
            for thread in instance.threads:
                membership = getattr(thread, "_membership", None)
                if membership is None or membership.member_id() not in self.group.member_ids:
                    continue
                for task_id in thread._running.keys() & membership.owned():
                    if task_id in running:
                        raise Violation(f"task {task_id} runs on {running[task_id]} and {thread.name}")
                    running[task_id] = thread.name

    def _changed(self, log: PartitionLog) -> None:
        for signal in self.watchers.get(log.partition, ()):
            self.clock.notify(signal, self.clock.random.uniform(0.0005, 0.01))
        if log.partition.topic != "out":
            return
        records, position = log.read(self._read.get(log.partition, 0), 1_000, committed=True)
        self._read[log.partition] = position
        for _, _, key, value, _ in records:
            assert key is not None
            assert value is not None
            self._see(key.decode(), value.decode().split(","))

    def _see(self, key: str, found: list[str]) -> None:
        former = self.latest.get(key, [])
        if self.plan.exactly_once:
            if len(set(found)) < len(found):
                raise Violation(f"{key}: an input record is counted twice: {found}")
            if found[: len(former)] != former or len(found) <= len(former):
                raise Violation(f"{key}: {found} after {former}")
            if unknown := set(found) - set(self._sent[key]):
                raise Violation(f"{key}: {unknown} were never sent")
        self.latest[key] = found
        self.ever.setdefault(key, set()).update(found)

    def _behind(self) -> str:
        """Whether what is committed is not the end of the input."""
        for number in range(self.plan.partitions):
            tp = TopicPartition("in", number)
            entry = self.group.offsets.get(tp)
            if self.log(tp).end != (0 if entry is None else entry.offset):
                return f"{tp} ends at {self.log(tp).end}, committed is {entry}"
        return ""

    def _replay(self, number: int, begin: int, end: int | None, rows: dict[bytes, bytes]) -> dict[bytes, bytes]:
        log = self.log(TopicPartition(CHANGELOG, number))
        records, _ = log.read(begin, 1_000_000, committed=self.plan.exactly_once)
        for offset, timestamp, key, value, _ in records:
            assert key is not None
            if end is not None and offset >= end:
                break
            if value is None:
                rows.pop(key, None)
            else:
                rows[key] = timestamp.to_bytes(8, "big") + value
        return rows

    def _check_rows(self, where: str, number: int, body: Any, *, torn: bool) -> None:
        if self._disordered():
            return
        rows, offset = dict(body.scan(None, None, False)), body.offset() or 0
        if not torn and rows != self._replay(number, 0, offset, {}):
            raise Violation(f"{where} is not a replay of its changelog up to offset {offset}")
        if self._replay(number, offset, None, dict(rows)) != self._replay(number, 0, None, {}):
            raise Violation(f"{where}: a restore from offset {offset} would not end where the changelog does")

    def _check_live_stores(self) -> None:
        for instance in self.instances:
            for thread in instance.threads:
                for task_id, task in thread._running.items():
                    for store in task.changelogs.values():
                        where = f"the store of task {task_id} on {instance.name}"
                        self._check_rows(where, task_id.partition, store.rows.body, torn=False)

    def _check_stores(self) -> None:
        for instance in self.instances:
            for place, body in instance.disk.bodies.items():
                where = f"the store of task {place[0]} on the disk of {instance.name}"
                self._check_rows(where, place[0].partition, body, torn=place in instance.disk.torn)
