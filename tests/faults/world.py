"""What the faults hit: three brokers, instances of the course-revenue job behind proxies, lines that keep coming."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from cluster.clocks import ProcessClock
from cluster.course_revenue.product import Product, Sums, recent, wait_until
from cluster.disks import FaultyDisk
from cluster.preload import together
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # its __init__ re-exports it
from course_revenue.sample import SampleSize, sample

from faults.proxy import Network
from headrace.javaorder import string_hash
from headrace.testing.broker import Listener
from headrace.testing.cluster import LocalCluster
from headrace.testing.processes import HOST, free_port
from headrace.topics import TopicWriter

if TYPE_CHECKING:
    from pathlib import Path

    from cluster.course_revenue.product import Instance, OutputWatch

    from faults.plan import Fault

PARTITIONS: Final = 6
_BROKERS: Final = (1, 2, 3)
_TOPICS: Final = {
    "lines": {"retention.ms": "-1"},
    "courses": {"cleanup.policy": "compact"},
    "output": {"cleanup.policy": "compact", "min.compaction.lag.ms": "3600000"},
    "rejected": {"retention.ms": "-1"},
}
_STATE_PARTITIONS: Final = 5
"""Partitions of the brokers' own topics for groups and transactions in a local cluster."""
_QUICK_JAVA: Final = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""A third less work for a start, and brokers start often here."""
_SLOW_S: Final = 0.2
"""What each write and sync takes on a slow disk."""
_SETTINGS: Final = {
    # streams groups have their timeouts from the brokers
    "group.streams.session.timeout.ms": "6000",
    "group.streams.heartbeat.interval.ms": "1000",
}


@dataclass
class Recovery:
    """How a fault went.

    Attributes:
        fault: Which.
        target: What was hit in fact, for broker faults.
        sent: Lines sent when it was over.
        ended: When that was, by the monotonic clock.
        took_s: From then until the totals covered those lines; None when they never did.
    """

    fault: Fault
    target: str
    sent: int
    ended: float
    took_s: float | None = None


@dataclass
class Feed:
    """Sends lines at a steady rate, whatever happens, on a thread of its own."""

    bootstrap: str
    topics: dict[str, str]
    rate: int
    seconds: float
    seed: int
    sent: int = 0
    error: Exception | None = None
    _over: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop and wait until every line has arrived."""
        self._over.set()
        self._thread.join(180)
        if self.error is not None:
            raise self.error
        assert not self._thread.is_alive(), "the lines do not arrive"

    def _run(self) -> None:
        try:
            size = SampleSize(lines=int(self.rate * self.seconds * 2) + 1_000, courses=200, seed=self.seed)
            with TopicWriter(self.bootstrap) as writer:
                began = time.monotonic()
                for record in recent(sample(size)):
                    topic = self.topics["courses" if record.is_course else "lines"]
                    writer.send(topic, record.key, record.value, timestamp_ms=record.timestamp_ms)
                    if record.is_course:
                        continue
                    self.sent += 1
                    ahead = began + self.sent / self.rate - time.monotonic()
                    if ahead > 0 and self._over.wait(ahead):
                        break
                    if self._over.is_set():
                        break
                writer.flush(180)
        except Exception as e:
            self.error = e


class World:
    """Everything of one run. A context manager.

    Args:
        directory: For data, state and logs.
        protocol: ``classic`` or ``streams``.
        guarantee: ``exactly_once_v2`` or ``at_least_once``.
        instances: How many.
        settings: More settings of every instance.
    """

    def __init__(
        self,
        directory: Path,
        protocol: str,
        guarantee: str,
        instances: int = 3,
        settings: dict[str, object] | None = None,
    ) -> None:
        self.directory = directory
        self.exactly_once = guarantee == "exactly_once_v2"
        self._protocol = protocol
        self._guarantee = guarantee
        self._settings = dict(settings or {})
        self._count = instances
        self.recoveries: list[Recovery] = []
        self._guard = threading.Lock()
        self._one_broker = threading.Lock()
        self._no_space: set[int] = set()
        self._one_at_a_time = [threading.Lock() for _ in range(instances)]
        self._over = threading.Event()
        self._disks = [FaultyDisk(self._tools(f"i{n}") / "disk") for n in range(instances)]
        self._clocks = [ProcessClock(self._tools(f"i{n}") / "clock") for n in range(instances)]
        self._brokers_disk = FaultyDisk(self._tools("brokers") / "disk")

    def _tools(self, name: str) -> Path:
        directory = self.directory / "tools" / name
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def __enter__(self) -> Self:
        taken: list[int] = []

        def port() -> int:
            taken.append(free_port(taken))
            return taken[-1]

        listeners = [
            Listener(f"VIA{n}", {b: port() for b in _BROKERS}, advertised={b: port() for b in _BROKERS})
            for n in range(self._count)
        ]
        self.cluster = LocalCluster(
            self.directory / "cluster", brokers=3, heap_mb=448, settings=_SETTINGS, listeners=listeners
        )
        routes = {n: {one.told(b): one.ports[b] for b in _BROKERS} for n, one in enumerate(listeners)}
        self.network = Network(routes)
        # brokers take their environment from this process
        environment = self._brokers_disk.environment | _QUICK_JAVA
        self._before = {name: os.environ.get(name) for name in environment}
        os.environ.update(environment)
        try:
            self.network.__enter__()
            self.cluster.start(120)
            self._make(listeners)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all that runs."""
        self._over.set()
        if hasattr(self, "product"):
            for instance in self.product.instances:
                instance.end()
            for watch in self.product.watches:
                watch.close()
        self.cluster.kill()
        self.network.__exit__()
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    def _make(self, listeners: list[Listener]) -> None:
        bootstrap = self.cluster.bootstrap_servers
        self.product = product = Product(
            bootstrap, self.directory, "course-revenue", {key: f"faults.{key}" for key in _TOPICS}, PARTITIONS
        )
        product.admin.create_topics(
            [NewTopic(product.topics[key], PARTITIONS, 3, config=config) for key, config in _TOPICS.items()]
        )
        wait_until(lambda: set(product.topics.values()) <= product.admin.topics().keys(), "the brokers know the topics")
        for number, listener in enumerate(listeners):
            via = ",".join(f"{HOST}:{listener.told(b)}" for b in _BROKERS)
            instance = product.instance(
                f"i{number}",
                bootstrap_servers=via,
                processing_guarantee=self._guarantee,
                group_protocol=self._protocol,
                **self._settings,
            )
            instance.environment |= together(self._disks[number].environment, self._clocks[number].environment)
        self.watch: OutputWatch = product.watch(exactly_once=self.exactly_once)

    @property
    def instances(self) -> list[Instance]:
        """The instances, running or not."""
        return self.product.instances

    def crashed(self) -> list[Instance]:
        """Those that ended by themselves, with space on their disks."""
        return [one for number, one in enumerate(self.instances) if one.crashed and number not in self._no_space]

    def feed(self, rate: int, seconds: float, seed: int) -> Feed:
        """A feed, not yet started."""
        return Feed(self.product.bootstrap, self.product.topics, rate, seconds, seed)

    def inject(self, fault: Fault, feed: Feed) -> None:
        """Make a fault happen and undo it; returns when it is over."""
        target = str(fault.target)
        # an end may have taken longer than planned: the next fault of the same target waits for it
        if isinstance(fault.target, int):
            with self._one_at_a_time[fault.target]:
                self._hit_instance(fault, fault.target)
        else:
            with self._one_broker:
                target = self._hit_broker(fault)
        with self._guard:
            self.recoveries.append(Recovery(fault, target, feed.sent, time.monotonic()))

    def note_recoveries(self) -> None:
        """See which faults the totals have got over."""
        now, lines = time.monotonic(), self.watch.lines
        with self._guard:
            for one in self.recoveries:
                if one.took_s is None and lines >= one.sent:
                    one.took_s = now - one.ended

    def _hit_instance(self, fault: Fault, number: int) -> None:
        instance, network, rest = self.instances[number], self.network, fault.duration_s
        if fault.kind == "kill instance":
            instance.kill()
            if fault.wiped:
                shutil.rmtree(instance.state_dir, ignore_errors=True)
            self._over.wait(rest)
            instance.start()
        elif fault.kind == "stop instance":
            instance.stop()
            self._over.wait(rest)
            instance.start()
        elif fault.kind == "freeze instance":
            instance.signal(signal.SIGSTOP)
            self._over.wait(rest)
            instance.signal(signal.SIGCONT)
        elif fault.kind == "reset connections":
            network.reset(number)
        elif fault.kind == "slow disk":
            self._disks[number].slow(instance.state_dir, _SLOW_S)
            self._over.wait(rest)
            self._disks[number].mend()
        elif fault.kind == "full disk":
            self._fill(number, rest)
        elif fault.kind == "jump clock":
            self._clocks[number].set(fault.hours)
            self._over.wait(rest)
            self._clocks[number].set(0)
        else:
            if fault.kind == "cut network":
                network.cut(number)
            elif fault.kind == "silent network":
                network.silence(number)
            else:
                network.slow(number, 0.1)
            self._over.wait(rest)
            network.heal(number)

    def _fill(self, number: int, rest: float) -> None:
        instance, disk = self.instances[number], self._disks[number]
        self._no_space.add(number)
        disk.fill(instance.state_dir)
        self._over.wait(rest)
        if instance.running:
            # it had nothing to write, or is on its way out
            instance.kill()
        else:
            assert instance.find("No space left on device"), instance.tail(80)
        disk.mend()
        instance.start()
        self._no_space.discard(number)

    def _hit_broker(self, fault: Fault) -> str:
        node = self._coordinator(str(fault.target))
        broker = self.cluster.brokers[node]
        if fault.kind == "freeze broker":
            broker.pause()
            self._over.wait(fault.duration_s)
            broker.resume()
        elif fault.kind == "slow broker disk":
            self._brokers_disk.slow(broker.data_dir, _SLOW_S)
            self._over.wait(fault.duration_s)
            self._brokers_disk.mend()
        else:
            if fault.kind == "kill broker":
                broker.kill()
            else:
                broker.stop()
            self._over.wait(fault.duration_s)
            self.cluster.restart(node, 120)
        return f"{fault.target}: broker {node}"

    def _coordinator(self, which: str) -> int:
        """The broker's number. Java's rule: the leader of the partition that the hash of the id chooses."""
        named = self.product.application_id
        topic = {"group coordinator": "__consumer_offsets"}.get(which)
        if which == "transaction coordinator" and self.exactly_once:
            topic, named = "__transaction_state", self._transactional_id()
        leader = -1 if topic is None else self.product.admin.leader(topic, abs(string_hash(named)) % _STATE_PARTITIONS)
        return leader if leader in _BROKERS else 1 + len(self.recoveries) % len(_BROKERS)

    def _transactional_id(self) -> str:
        group = self.product.application_id
        for instance in self.instances:
            described = instance.state_dir / group / "kafka-streams-process-metadata"
            if described.exists():
                return f"{group}-{json.loads(described.read_text(encoding='utf-8'))['processId']}-1"
        return group

    def expected(self) -> Sums:
        """The sum over what lies in the topic of lines."""
        sums = Sums()
        for record in self.product.admin.read(self.product.topics["lines"]):
            assert record.value is not None
            sums.add(record.value)
        return sums

    def check_totals(self, sums: Sums) -> list[str]:
        """What is wrong with the totals that a reader has seen."""
        latest, wanted = self.watch.latest(), sums.totals()
        problems = list(self.watch.violations)
        for course, (net, count, event) in wanted.items():
            found = latest.get(course)
            if found is None:
                problems.append(f"{course} has no total")
            elif self.exactly_once and found != (net, count, event):
                problems.append(f"{course}: net, lines, event time are {found}, not {(net, count, event)}")
            elif found[1] < count:
                problems.append(f"{course}: {found[1]} lines are fewer than the {count} that were sent")
        return problems + [f"{course} was never sent" for course in latest.keys() - wanted.keys()]

    def check_stores(self) -> list[str]:
        """Whether the stores of the stopped instances equal a replay of the changelog."""
        product = self.product
        replays: dict[int, dict[bytes, bytes]] = {n: {} for n in range(PARTITIONS)}
        ends: dict[int, int] = dict.fromkeys(range(PARTITIONS), 0)
        isolation = "read_committed" if self.exactly_once else "read_uncommitted"
        for record in product.admin.read(product.changelog, isolation):
            assert record.key is not None
            ends[record.partition] = record.offset + 1
            if record.value is None:
                replays[record.partition].pop(record.key, None)
            else:
                replays[record.partition][record.key] = record.timestamp.to_bytes(8, "big") + record.value
        problems: list[str] = []
        current: Counter[int] = Counter()
        for instance in self.instances:
            for partition, offset, rows in instance.stores():
                if offset is None or offset < ends[partition]:
                    continue  # it left this task to another instance, and is behind
                current[partition] += 1
                replay = replays[partition]
                wrong = sum(1 for key in rows.keys() | replay.keys() if rows.get(key) != replay.get(key))
                if wrong:
                    problems.append(f"{instance.name}: {wrong} rows differ from a replay of partition {partition}")
        missing = [n for n, end in ends.items() if end and not current[n]]
        return problems + [f"no store is at the end of changelog partition {n}" for n in missing]
