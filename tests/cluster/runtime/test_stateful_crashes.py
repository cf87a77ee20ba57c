"""Windows, sessions, joins and tables under exactly-once, through ``kill -9`` at random moments."""

from __future__ import annotations

import os
import random
import shutil
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cluster.instances import Instance, wait_until
from cluster.runtime.stateful_app import GRACE_MS, INPUTS, OUTPUTS, SETTINGS, TICK, Model, Seen, topic
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.partitioning import partition_for_key
from headrace.state.rocksdb import RocksDBBody
from headrace.topics import TopicWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cluster.conftest import TopicFactory

TESTS = Path(__file__).parents[2]
PARTITIONS = 2
ROUNDS = 4
PER_ROUND = {"clicks": 400, "pairs": 300, "lefts": 120, "rights": 120, "orders": 200, "products": 60}
STEP_MS = {"clicks": 250, "pairs": 700, "lefts": 2_000, "rights": 2_000, "orders": 500, "products": 1_500}
KEYS = {"clicks": 8, "pairs": 6, "lefts": 10, "rights": 10, "orders": 40, "products": 12}
TABLE_KEYS = {"orders": "o", "products": "p"}
NOW_MS = int(time.time() * 1000)
START_MS = NOW_MS - 12 * 3_600_000


class Inputs:
    """Random input, by topic in the order of its times but for what may be late."""

    def __init__(self, mark: str, brokers: str, rng: random.Random) -> None:
        self.model = Model()
        self._mark = mark
        self._brokers = brokers
        self._rng = rng
        self._sent = dict.fromkeys(INPUTS, 0)

    def send_round(self) -> None:
        rng = self._rng
        with TopicWriter(self._brokers) as writer:
            for name in INPUTS:
                for _ in range(PER_ROUND[name]):
                    number = self._sent[name] = self._sent[name] + 1
                    timestamp = START_MS + number * STEP_MS[name] - rng.randrange(GRACE_MS)
                    key = f"{TABLE_KEYS.get(name, '')}{rng.randrange(KEYS[name])}"
                    value = self._value(name, number)
                    self.model.add(name, key, value, timestamp)
                    raw = None if value is None else value.encode()
                    writer.send(topic(name, self._mark), key.encode(), raw, timestamp_ms=timestamp)

    def _value(self, name: str, number: int) -> str | None:
        rng = self._rng
        if name in ("orders", "products") and rng.random() < 0.2:
            return None
        if name == "clicks":
            return str(rng.randrange(100))
        if name == "orders":
            return f"p{rng.randrange(KEYS['products'])}:{rng.randrange(1000)}"
        return f"{rng.choice('LR') if name == 'pairs' else name[0]}{number}"

    def send_ticks(self) -> None:
        """Records that close all windows, one for each partition of each topic with windows."""
        keys = {partition_for_key(key.encode(), PARTITIONS): key for key in (f"{TICK}{i}" for i in range(50))}
        with TopicWriter(self._brokers) as writer:
            for name, value in (("clicks", b"1"), ("pairs", b"L0"), ("lefts", b"l0")):
                for key in keys.values():
                    writer.send(topic(name, self._mark), key.encode(), value, timestamp_ms=NOW_MS)


class Reader:
    """Reads all outputs, committed records only."""

    def __init__(self, mark: str, brokers: str) -> None:
        self.seen = Seen()
        self._names = {topic(name, mark): name for name in OUTPUTS}
        self._consumer = Consumer(
            {
                "bootstrap.servers": brokers,
                "group.id": f"reader-{mark}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
            }
        )
        self._consumer.assign([TopicPartition(name, number, 0) for name in self._names for number in range(PARTITIONS)])

    def poll(self) -> int:
        """Take in what has come; returns how many records there were so far."""
        for message in self._consumer.consume(1000, 0.05):
            assert message.error() is None, message.error()
            self.seen.add(self._names[message.topic() or ""], [(message.key(), message.value())])
        return self.seen.records

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def seeded(request: pytest.FixtureRequest) -> random.Random:
    seed = int(os.environ.get("HEADRACE_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"random choices by seed {seed}; again: HEADRACE_TEST_SEED={seed} pytest '{request.node.nodeid}'")
    return random.Random(seed)


@pytest.fixture
def make_instance(
    bootstrap_servers: str, unique: Callable[[str], str], tmp_path: Path
) -> Iterator[Callable[[str], Instance]]:
    made: list[Instance] = []
    config = {
        "application.id": unique("app"),
        "bootstrap.servers": bootstrap_servers,
        "processing.guarantee": "exactly_once_v2",
        "auto.offset.reset": "earliest",
        "commit.interval.ms": 100,
        "transaction.timeout.ms": 5_000,
        "session.timeout.ms": 3_000,
        "heartbeat.interval.ms": 500,
        "test.mark": unique("x"),
        **SETTINGS,
    }
    run = f"import sys; sys.path.insert(0, {str(TESTS)!r}); from headrace.cli import main; main()"
    arguments = ("-c", run, "run", "cluster.runtime.stateful_app:build")

    def make(name: str) -> Instance:
        made.append(Instance(name, tmp_path, arguments, config))
        return made[-1]

    yield make
    for instance in made:
        instance.end()
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    internal = [name for name in admin.list_topics(timeout=30).topics if name.startswith(f"{unique('app')}-")]
    for future in admin.delete_topics(internal, operation_timeout=30).values():
        future.result(timeout=40)


def rows_of(instance: Instance) -> dict[str, dict[bytes, bytes]]:
    """By task and store, the rows of an instance that has ended."""
    return {
        f"{path.parent.parent.name} {path.name}": dict(RocksDBBody(path).scan(None, None, False))
        for path in sorted(instance.state_dir.glob("*/*/rocksdb/*"))
    }


def test_stateful_operators_killed_at_random_moments_give_what_plain_python_does(
    bootstrap_servers: str,
    unique: Callable[[str], str],
    topic_factory: TopicFactory,
    make_instance: Callable[[str], Instance],
    seeded: random.Random,
) -> None:
    mark = unique("x")
    for name in (*INPUTS, *OUTPUTS):
        topic_factory(topic(name, mark), PARTITIONS, exact=True)
    inputs, reader = Inputs(mark, bootstrap_servers, seeded), Reader(mark, bootstrap_servers)
    one, two = make_instance("one").start(), make_instance("two")

    def tails() -> str:
        return "\n".join(instance.tail() for instance in (one, two) if instance.starts)

    def has_read(records: int) -> bool:
        return reader.poll() >= records

    def see(condition: Callable[[], bool], what: str) -> None:
        wait_until(lambda: condition() or one.crashed or two.crashed, what, detail=tails)
        assert condition(), f"an instance ended by itself\n{tails()}"

    for number in range(ROUNDS):
        inputs.send_round()
        wanted = reader.poll() + seeded.randrange(1, 300)
        see(partial(has_read, wanted), f"results in round {number}")
        time.sleep(seeded.random() * 0.2)  # the random moment itself; nothing is awaited by it
        running = [instance for instance in (one, two) if instance.running]
        for victim in seeded.sample(running, seeded.randrange(1, len(running) + 1)):
            victim.kill()
            if seeded.random() < 0.4:
                shutil.rmtree(victim.state_dir, ignore_errors=True)  # it may not have come that far
        for instance in seeded.choice(([one], [two], [one, two])):
            if not instance.running:
                instance.start()
    if not one.running:
        one.start()
    if two.running:
        two.stop()
    inputs.send_ticks()
    looked_at, differences = -1, dict[str, object]()

    def is_complete() -> bool:
        nonlocal looked_at, differences
        if reader.poll() != looked_at:
            looked_at, differences = reader.seen.records, reader.seen.differences(inputs.model)
        return not differences

    wait_until(lambda: is_complete() or one.crashed, "all results", detail=lambda: f"{differences}\n{tails()}")
    assert not differences, tails()
    one.stop()
    restored = make_instance("restored").start()
    restored.wait_log("state RUNNING")
    restored.stop()
    # a store is what its changelog says, whatever happened on the way
    kept, again = rows_of(one), rows_of(restored)
    assert kept.keys() == again.keys()
    assert sum(map(len, kept.values())) > 1_000
    assert [name for name, rows in kept.items() if rows != again[name]] == []
    reader.poll()
    assert reader.seen.differences(inputs.model) == {}
    reader.close()
