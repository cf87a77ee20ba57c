"""The course-revenue product on a real broker, as tests drive it: topics, lines, instances in processes, a reader.

Nothing here is part of the product: lines go in by its topics, totals come out by its output topic, and an instance is
the ``course-revenue run`` command in a process of its own, with its own state directory and log file.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cluster.instances import PATIENCE_S, wait_until
from cluster.instances import Instance as AnyInstance
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its __init__ re-exports them
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from course_revenue.sample import FIRST_EVENT_TIME_MS, SampleRecord, SampleSize, sample
from kafka.admin import ConfigResource as GroupResource
from kafka.admin import ConfigResourceType, KafkaAdminClient

from headrace.state.rocksdb import RocksDBBody
from headrace.topics import TopicWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

START_MS = int(time.time() * 1000) - 3_600_000
"""Record times begin an hour ago. With times long past, the first transaction marker, which carries the brokers' time,
would make the brokers roll a changelog's segment (``segment.ms``) and compact what the tests mean to count."""

_PASSING = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE})
"""A reader goes on by itself after these."""
_MOVING = frozenset(
    {
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
    }
)
"""Brokers and clients do not know the same leader yet."""


@dataclass
class Sums:
    """The plain sum over lines: what the totals have to be, by course."""

    net_cents: Counter[str] = field(default_factory=Counter[str])
    line_count: Counter[str] = field(default_factory=Counter[str])
    last_event: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, value: bytes) -> None:
        line = json.loads(value)
        course = line["course_id"]
        sign = {"sale": 1, "refund": -1}[line["line_type"]]
        self.net_cents[course] += sign * line["unit_price_cents"] * line["quantity"]
        self.line_count[course] += 1
        self.last_event[course] = max(self.last_event.get(course, 0), line["event_time"])

    @property
    def lines(self) -> int:
        return self.line_count.total()

    def totals(self) -> dict[str, tuple[int, int, int]]:
        """By course: net cents, number of lines, greatest event time."""
        return {c: (self.net_cents[c], n, self.last_event[c]) for c, n in self.line_count.items()}


class OutputWatch:
    """A ``read_committed`` reader of the output topic on a thread of its own, and what it must never see.

    Per course the line count must not fall, and one line count must not come with two totals: either would mean that
    an uncommitted or doubled total was visible. ``anew`` forgets what was seen, for a job that starts over. Not looked
    at without ``exactly_once``.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int, *, exactly_once: bool = True) -> None:
        self.topic = topic
        self._exactly_once = exactly_once
        self.crashed: Callable[[], bool] = lambda: False
        self.totals: dict[str, dict[str, Any]] = {}
        self.values: list[bytes] = []
        self.violations: list[str] = []
        self._lines: dict[str, int] = {}
        self._sum = 0
        self._error: Exception | None = None
        self._over = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"watch-{topic}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
                "auto.offset.reset": "error",
            }
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        self._thread = threading.Thread(target=self._run, name=f"watch-{topic}", daemon=True)
        self._thread.start()

    @property
    def lines(self) -> int:
        """How many lines the visible totals cover."""
        return self._sum

    def anew(self) -> None:
        self._lines = {}
        self.totals = {}
        self.values = []
        self._sum = 0

    def latest(self) -> dict[str, tuple[int, int, int]]:
        """By course: net cents, number of lines, greatest event time."""
        return {
            course: (total["net_cents"], total["line_count"], total["updated_event_time"])
            for course, total in dict(self.totals).items()
        }

    def wait_for(self, lines: int, what: str, detail: object = "", timeout_s: float = PATIENCE_S) -> None:
        """Wait until the visible totals cover ``lines`` lines."""
        wait_until(
            lambda: self._sum >= lines or self._error is not None or self.violations or self.crashed(),
            f"{what}: {lines} lines in the totals of {self.topic}",
            timeout_s,
            lambda: f"there are {self._sum}\n{detail() if callable(detail) else detail}",
        )
        self.check()
        assert self._sum >= lines, f"{what}: an instance ended by itself\n{detail() if callable(detail) else detail}"

    def check(self) -> None:
        if self._error is not None:
            raise self._error
        assert not self.violations, self.violations[:10]

    def close(self) -> None:
        self._over.set()
        self._thread.join(30)
        self._consumer.close()

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                message = self._consumer.poll(0.1)
                if message is None:
                    continue
                error = message.error()
                if error is not None and (error.retriable() or error.code() in _PASSING):
                    continue
                if error is not None:
                    raise KafkaException(error)
                value = message.value()
                assert value is not None
                self._take(value, f"{message.topic()}-{message.partition()}@{message.offset()}")
        except Exception as e:
            self._error = e

    def _take(self, value: bytes, where: str) -> None:
        total = json.loads(value)
        course, count = total["course_id"], total["line_count"]
        before = self.totals.get(course) if self._exactly_once else None
        if before is not None and count < before["line_count"]:
            self.violations.append(f"{where}: line_count of {course} falls from {before['line_count']} to {count}")
        elif before is not None and count == before["line_count"] and total["net_cents"] != before["net_cents"]:
            self.violations.append(f"{where}: two totals of {course} at line {count}: {before} and {total}")
        self.totals[course] = total
        self.values.append(value)
        self._sum += count - self._lines.get(course, 0)
        self._lines[course] = count


class Instance(AnyInstance):
    """One instance of the product."""

    def __init__(self, name: str, directory: Path, config: Mapping[str, object]) -> None:
        super().__init__(name, directory, ("-m", "course_revenue", "run"), config)

    def restored(self, store: str = "course-revenue") -> dict[int, int]:
        """By partition, how many changelog records were read for a store since the last start."""
        counts: Counter[int] = Counter()
        for match in self.find(rf"Restored store {store} partition (\d+): (\d+) records"):
            counts[int(match[1])] += int(match[2])
        return dict(counts)

    def stores(self, store: str = "course-revenue") -> Iterator[tuple[int, int | None, dict[bytes, bytes]]]:
        """What its disk has of a store while it does not run: partition, next changelog offset, rows; of each task."""
        application = self.state_dir / str(self.config["application.id"])
        for path in application.glob(f"*_*/rocksdb/{store}"):
            body = RocksDBBody(path)
            try:
                rows = dict(body.scan(None, None, False))
                yield int(path.parent.parent.name.partition("_")[2]), body.offset(), rows
            finally:
                body.close()


def command(
    instance: Instance, *arguments: str, code: int = 0, timeout_s: float = 240.0, configured: bool = True
) -> str:
    """A command of the product with an instance's configuration, in its directory; returns what it said.

    The configuration is there once the instance was started. A few commands take none.
    """
    config = ("--config", str(instance.config_file)) if configured else ()
    done = subprocess.run(
        [sys.executable, "-m", "course_revenue", *arguments, *config],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        cwd=instance.directory,
    )
    said = done.stdout + done.stderr
    assert done.returncode == code, said
    assert "secret" not in said
    return said


class Product:
    """One application id with its topics, its instances, and what was sent to it. A context manager."""

    def __init__(
        self, bootstrap: str, directory: Path, application_id: str, topics: Mapping[str, str], partitions: int
    ) -> None:
        self.bootstrap = bootstrap
        self.directory = directory
        self.application_id = application_id
        self.topics = dict(topics)
        self.partitions = partitions
        self.sums = Sums()
        self.instances: list[Instance] = []
        self.watches: list[OutputWatch] = []
        self.admin = Admin(bootstrap)

    def config(self, **settings: object) -> dict[str, object]:
        """Settings of an instance; more of them with ``_`` for ``.`` in their names."""
        return {
            "application.id": self.application_id,
            "bootstrap.servers": self.bootstrap,
            "processing.guarantee": "exactly_once_v2",
            "commit.interval.ms": 200,
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": 1000,
            "session.timeout.ms": 6000,
            **{f"course.revenue.topic.{key}": name for key, name in self.topics.items()},
            **{key.replace("_", "."): value for key, value in settings.items()},
        }

    def instance(self, name: str, **settings: object) -> Instance:
        """An instance that is not started yet."""
        made = Instance(f"{self.application_id}-{name}", self.directory, self.config(**settings))
        self.instances.append(made)
        return made

    def watch(self, *, exactly_once: bool = True) -> OutputWatch:
        made = OutputWatch(self.bootstrap, self.topics["output"], self.partitions, exactly_once=exactly_once)
        made.crashed = lambda: any(instance.crashed for instance in self.instances)
        self.watches.append(made)
        return made

    def send(self, records: Iterable[SampleRecord], timeout_s: float = 60.0) -> int:
        """Send records, wait until they arrived, and add the lines among them to the sums; returns how many lines."""
        before = self.sums.lines
        with TopicWriter(self.bootstrap) as writer:
            for record in records:
                topic = self.topics["courses" if record.is_course else "lines"]
                writer.send(topic, record.key, record.value, timestamp_ms=record.timestamp_ms)
                if not record.is_course:
                    self.sums.add(record.value)
            writer.flush(timeout_s)
        return self.sums.lines - before

    def load(self, lines: int, courses: int = 50, seed: int = 1, **shares: float) -> int:
        """Send a sample."""
        return self.send(recent(sample(SampleSize(lines=lines, courses=courses, seed=seed, **shares))))

    def send_raw(self, value: bytes | None, key: bytes = b'{"order_id":"x","line_id":"y"}', **options: Any) -> None:
        """Send one record to the lines topic as it is; it is not counted in the sums."""
        with TopicWriter(self.bootstrap) as writer:
            writer.send(self.topics["lines"], key, value, **options)

    def internal(self, name: str) -> str:
        return f"{self.application_id}-{name}"

    @property
    def changelog(self) -> str:
        return self.internal("course-revenue-changelog")

    def tails(self) -> str:
        """The end of every log, and what every thread is doing."""
        for instance in self.instances:
            instance.stacks()
        return "\n".join(instance.tail(250) for instance in self.instances)

    def close(self) -> None:
        for instance in self.instances:
            instance.end()
        for watch in self.watches:
            watch.close()
        self.admin.delete_topics([name for name in self.admin.topics() if name.startswith(f"{self.application_id}-")])


@dataclass(frozen=True)
class Stored:
    """A record as it lies in a topic."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    def content(self) -> tuple[object, ...]:
        """All but the offset, in which transaction markers count."""
        return (self.partition, self.timestamp, self.key, self.value, self.headers)


class Admin:
    """What tests ask the brokers, by the client libraries alone."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._client: Any = AdminClient({"bootstrap.servers": bootstrap})

    def topics(self) -> dict[str, int]:
        """Number of partitions by name."""
        found = self._client.list_topics(timeout=30).topics
        return {name: len(topic.partitions) for name, topic in found.items()}

    def delete_topics(self, names: Iterable[str]) -> None:
        wanted = list(names)
        if wanted:
            for future in self._client.delete_topics(wanted, operation_timeout=30).values():
                future.result(timeout=40)

    def create_topics(self, wanted: Sequence[NewTopic]) -> None:
        for future in self._client.create_topics(wanted, operation_timeout=30).values():
            future.result(timeout=40)

    def set_topic_config(self, topic: str, **config: str) -> None:
        """Set configs of a topic (``_`` for ``.`` in their names)."""
        entries = [
            ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for name, value in config.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        for future in self._client.incremental_alter_configs([resource]).values():
            future.result(timeout=30)

    def add_partitions(self, topic: str, count: int) -> None:
        """Give a topic more partitions: so many in all."""
        for future in self._client.create_partitions([NewPartitions(topic, count)]).values():
            future.result(timeout=30)

    def leader(self, topic: str, partition: int) -> int:
        """The node that leads a partition, -1 when none does."""
        found = self._client.list_topics(topic, timeout=30).topics[topic].partitions
        return int(found[partition].leader) if partition in found else -1

    def topic_config(self, topic: str) -> dict[str, str]:
        """What was set on the topic itself."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        entries = self._client.describe_configs([resource])[resource].result(timeout=30)
        return {name: entry.value for name, entry in entries.items() if entry.source == 1}

    def offsets(self, topic: str, which: str = "latest", isolation: str = "read_uncommitted") -> dict[int, int]:
        """The log's starts or ends by partition; ``read_committed`` ends before the first unfinished transaction."""
        level = IsolationLevel[isolation.upper()]
        kind: Any = OffsetSpec
        spec = kind.latest() if which == "latest" else kind.earliest()
        deadline = time.monotonic() + PATIENCE_S
        while True:
            # which also has the client look for leaders
            wanted = {TopicPartition(topic, number): spec for number in range(self.topics()[topic])}
            found = self._client.list_offsets(wanted, isolation_level=level, request_timeout=30)
            try:
                return {tp.partition: future.result(timeout=40).offset for tp, future in found.items()}
            except KafkaException as e:
                if e.args[0].code() not in _MOVING or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def committed(self, group: str) -> dict[tuple[str, int], tuple[int, str]]:
        """By topic and partition, the committed offset and its metadata."""
        # by another client: confluent-kafka 2.16 hands out metadata texts that run on past their ends
        client: Any = KafkaAdminClient(bootstrap_servers=self._bootstrap)
        try:
            found = client.list_group_offsets(group)[group]
        finally:
            client.close()
        return {(tp.topic, tp.partition): (at.offset, at.metadata or "") for tp, at in found.items() if at.offset >= 0}

    def configure_group(self, group: str, **settings: object) -> None:
        """Set a group's own settings (``_`` for ``.`` in their names)."""
        client: Any = KafkaAdminClient(bootstrap_servers=self._bootstrap)
        resource: Any = GroupResource
        values = {key.replace("_", "."): str(value) for key, value in settings.items()}
        try:
            client.alter_configs([resource(ConfigResourceType.GROUP, group, values)])
        finally:
            client.close()

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        done = self._client.delete_records([TopicPartition(topic, partition, before)])
        for future in done.values():
            future.result(timeout=30)

    def members(self, group: str) -> dict[str, set[tuple[str, int]]]:
        """By member id, its partitions."""
        found = self._client.describe_consumer_groups([group])[group].result(timeout=30)
        return {
            member.member_id: {(tp.topic, tp.partition) for tp in member.assignment.topic_partitions}
            for member in found.members
        }

    def group_state(self, group: str) -> str:
        """The brokers' word for the state of a group of either protocol."""
        client: Any = KafkaAdminClient(bootstrap_servers=self._bootstrap)
        try:
            return next(
                (str(listed["group_state"]) for listed in client.list_groups() if listed["group_id"] == group), ""
            )
        finally:
            client.close()

    def read(self, topic: str, isolation: str = "read_committed", timeout_s: float = 60.0) -> list[Stored]:
        """Everything in a topic up to the end there is now, by partition and offset."""
        starts, ends = self.offsets(topic, "earliest"), self.offsets(topic)
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": f"read-{topic}",
                "enable.auto.commit": False,
                "isolation.level": isolation,
                "fetch.wait.max.ms": 50,
            }
        )
        records: list[Stored] = []
        try:
            consumer.assign([TopicPartition(topic, number, offset) for number, offset in starts.items()])
            positions = dict(starts)
            deadline = time.monotonic() + timeout_s
            while any(positions[number] < end for number, end in ends.items()):
                assert time.monotonic() < deadline, f"reading {topic}: at {positions} of {ends} after {timeout_s} s"
                for message in consumer.consume(5000, 0.1):
                    if message.error() is not None:
                        raise KafkaException(message.error())
                    records.append(
                        Stored(
                            message.partition() or 0,
                            message.offset() or 0,
                            message.timestamp()[1],
                            message.key(),
                            message.value(),
                            tuple(message.headers() or ()),  # type: ignore[arg-type]  # bytes
                        )
                    )
                for tp in consumer.position([TopicPartition(topic, number) for number in ends]):
                    positions[tp.partition] = max(tp.offset, positions[tp.partition])
        finally:
            consumer.close()
        return sorted(records, key=lambda record: (record.partition, record.offset))


def recent(records: Iterable[SampleRecord]) -> Iterator[SampleRecord]:
    """A sample's records with record times from ``START_MS`` on; the event times in their values stay."""
    for record in records:
        yield record._replace(timestamp_ms=record.timestamp_ms - FIRST_EVENT_TIME_MS + START_MS)


def lines(count: int, course: str, *, start: int = 0, price: int = 100) -> Iterator[SampleRecord]:
    """Sales of one course, 10 ms apart."""
    for number in range(start, start + count):
        line = {
            "order_id": f"{course}-order-{number}",
            "line_id": "line-1",
            "course_id": course,
            "unit_price_cents": price,
            "quantity": 1,
            "line_type": "sale",
            "event_time": START_MS + number * 10,
        }
        key = {"order_id": line["order_id"], "line_id": line["line_id"]}
        yield SampleRecord(False, encode(key), encode(line), START_MS + number * 10)


def encode(value: object) -> bytes:
    """Compact JSON."""
    return json.dumps(value, separators=(",", ":")).encode()


__all__ = [
    "PATIENCE_S",
    "START_MS",
    "Admin",
    "Instance",
    "OutputWatch",
    "Product",
    "Stored",
    "Sums",
    "command",
    "encode",
    "lines",
    "recent",
    "wait_until",
]
