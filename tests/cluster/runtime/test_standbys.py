"""Copies of state on other instances: they follow, take over without a restore, and move tasks only when ready."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from cluster.conftest import PROTOCOLS
from cluster.course_revenue.product import Admin
from cluster.instances import wait_until
from cluster.runtime.counting import counting

from headrace import KafkaStreams, StandbyUpdateListener, State, StateRestoreListener, Stores, SuspendReason, TaskId
from headrace.kafka import TopicAdmin
from headrace.partitioning import partition_for_key
from headrace.serdes import LongDeserializer, StringDeserializer
from headrace.topics import LatestByKey, NewTopic, TopicWriter, ensure_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headrace import TopicPartition

PARTITIONS = 2
KEYS = 500
RECORDS = 5_000


class App:
    """An application: its topics, and what is common to its instances."""

    def __init__(self, brokers: str, unique: Callable[[str], str], root: Path) -> None:
        self.brokers = brokers
        self.source, self.out, self.root = unique("in"), unique("out"), root
        ensure_topics(brokers, [NewTopic(self.source, PARTITIONS), NewTopic(self.out, PARTITIONS)])
        self.settings: dict[str, Any] = {
            "application.id": unique("app"),
            "bootstrap.servers": brokers,
            "processing.guarantee": "exactly_once_v2",
            "commit.interval.ms": 100,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 300,
        }
        self.written = 0
        self.seen: dict[int, float] = {}
        """By partition of the output, when its first record since the last clearing was seen."""
        self._totals: dict[str, int] = {}
        self._reader = LatestByKey(brokers, self.out, StringDeserializer(), LongDeserializer())

    def write(self, count: int) -> None:
        now = int(time.time() * 1000)
        with TopicWriter(self.brokers) as writer:
            for i in range(self.written, self.written + count):
                writer.send(self.source, f"k{i % KEYS}".encode(), b"v", timestamp_ms=now)
        self.written += count

    def await_all(self) -> None:
        """Wait until every record is counted; a count that is too great is an error."""

        def total() -> int:
            for key, value in self._reader.poll(0.1):
                self._totals[str(key)] = value or 0
                self.seen.setdefault(partition_for_key(str(key).encode(), PARTITIONS), time.time())
            return sum(self._totals.values())

        wait_until(lambda: total() >= self.written, f"{self.written} records counted")
        assert total() == self.written

    def close(self) -> None:
        self._reader.close()


@pytest.fixture
def app(bootstrap_servers: str, unique: Callable[[str], str], tmp_path: Path) -> Iterator[App]:
    app = App(bootstrap_servers, unique, tmp_path)
    yield app
    app.close()


class Instance(StateRestoreListener, StandbyUpdateListener):
    """A client in this process that counts what is restored, and what its copies take in."""

    def __init__(self, app: App, name: str, settings: dict[str, Any], *, in_memory: bool) -> None:
        self.directory = app.root / name
        self.restored = 0
        self.promoted: list[int] = []
        store = Stores.in_memory_key_value_store("counts") if in_memory else None
        config = app.settings | {"state.dir": str(self.directory)} | settings
        self.streams = KafkaStreams(counting(app.source, app.out, store=store), config)
        self.streams.set_global_state_restore_listener(self)
        self.streams.set_standby_update_listener(self)
        self.streams.start()

    def on_batch_restored(
        self, topic_partition: TopicPartition, store_name: str, batch_end_offset: int, num_restored: int
    ) -> None:
        self.restored += num_restored

    def on_update_suspended(
        self,
        topic_partition: TopicPartition,
        store_name: str,
        store_offset: int,
        current_end_offset: int,
        reason: SuspendReason,
    ) -> None:
        if reason is SuspendReason.PROMOTED:
            self.promoted.append(topic_partition.partition)

    @property
    def active(self) -> set[int]:
        """Partitions of the tasks that it runs, once they all run."""
        (thread,) = self.streams.metadata_for_local_threads()
        return {task.task_id.partition for task in thread.active_tasks} if thread.thread_state == "RUNNING" else set()

    @property
    def copies(self) -> set[int]:
        """Partitions of its standby tasks that are at the end of their changelogs."""
        (thread,) = self.streams.metadata_for_local_threads()
        lags = self.streams.all_local_store_partition_lags().get("counts", {})
        ready = {partition for partition, lag in lags.items() if lag.offset_lag == 0}
        return {task.task_id.partition for task in thread.standby_tasks} & ready


@contextmanager
def instances(app: App, settings: dict[str, Any], *, in_memory: bool = False) -> Iterator[Callable[[str], Instance]]:
    with ExitStack() as stack:

        def start(name: str) -> Instance:
            instance = Instance(app, name, settings, in_memory=in_memory)
            stack.callback(instance.streams.close, 60.0)
            return instance

        yield start


@pytest.mark.parametrize("in_memory", [False, True], ids=["on disk", "in memory"])
def test_a_copy_takes_over_without_a_restore_and_the_former_owner_becomes_the_copy(app: App, in_memory: bool) -> None:
    app.write(RECORDS)
    with instances(app, {"num.standby.replicas": 1}, in_memory=in_memory) as start:
        first = start("first")
        app.await_all()
        second = start("second")
        # within the acceptable lag one of the two tasks moves at once, and each instance follows the other's
        wait_until(lambda: len(first.active) == len(second.active) == 1, "each has a task")
        wait_until(lambda: first.copies == second.active and second.copies == first.active, "each follows the other")
        moved = set(second.active)
        app.write(RECORDS)
        app.await_all()
        wait_until(lambda: first.copies == moved and second.copies == first.active, "copies are at the end")
        before, promoted = second.restored, len(second.promoted)
        assert first.streams.close(60.0)
        app.write(RECORDS)
        app.await_all()
        assert len(second.promoted) == promoted + 1
        assert second.restored == before, "its copy was complete"


def test_a_task_moves_once_the_new_instance_is_caught_up(app: App) -> None:
    app.write(RECORDS)
    with instances(app, {"acceptable.recovery.lag": 0}) as start:
        first = start("first")
        app.await_all()
        second = start("second")
        wait_until(lambda: second.copies, "a task is warmed up")
        assert first.active == {0, 1}
        assert second.streams.state() is State.RUNNING
        # tasks are placed anew when somebody joins, or after probing.rebalance.interval.ms, which is a minute at least
        third = start("third")
        wait_until(lambda: second.active, "the task has moved")
        assert second.restored == 0
        app.write(RECORDS)
        app.await_all()
        wait_until(lambda: third.streams.state() is State.RUNNING, "the third instance runs")
        # an instance that comes back without its state is given nothing before it has caught up again
        (mine,) = second.active
        assert second.streams.close(60.0)
        shutil.rmtree(second.directory)
        wait_until(lambda: first.active | third.active == {0, 1}, "the others run its task")
        again = start("second")
        wait_until(lambda: again.streams.state() is State.RUNNING, "it is back")
        assert not again.active
        app.write(RECORDS)
        app.await_all()
        assert TaskId(0, mine) in {
            task.task_id
            for instance in (first, third)
            for thread in instance.streams.metadata_for_local_threads()
            for task in thread.active_tasks
        }


class Process:
    """An instance as a process of its own, and what it said."""

    def __init__(self, app: App, name: str) -> None:
        settings = app.settings | {
            "in": app.source,
            "out": app.out,
            "state.dir": str(app.root / name),
            "num.standby.replicas": 1,
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "cluster.runtime.standby_app", json.dumps(settings)],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self.said: list[dict[str, Any]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.append(json.loads(line))

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in list(self.said) if event["event"] == kind]

    def followed(self) -> set[int]:
        """Partitions of the tasks that it follows, as far as it has taken in anything."""
        followed: set[int] = set()
        for event in list(self.said):
            if event["event"] == "followed":
                followed.add(event["partition"])
            elif event["event"] in ("PROMOTED", "MIGRATED"):
                followed.discard(event["partition"])
        return followed

    def assigned(self, partition: int) -> float:
        """When it was last given a new active task."""
        given = re.compile(rf"assignment of generation .*, of which new .*\b0_{partition}\b")
        times: list[float] = [event["at"] for event in self.events("log") if given.search(event["text"])]
        return times[-1]

    def running(self) -> bool:
        states = self.events("state")
        return bool(states) and states[-1]["state"] == "RUNNING"

    def end(self, how: signal.Signals) -> None:
        self._process.send_signal(how)
        self._process.wait(60)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_after_kill_9_copies_take_over_without_a_restore_and_the_group_shows_who_runs_what(
    app: App, protocol: str
) -> None:
    app.settings["group.protocol"] = protocol
    if protocol == "streams":
        Admin(app.brokers).configure_group(app.settings["application.id"], streams_num_standby_replicas=1)
    app.write(RECORDS)
    one, other = Process(app, "one"), Process(app, "other")
    try:
        app.await_all()
        wait_until(lambda: one.events("restored") and other.events("restored"), "each has a task")
        wait_until(lambda: one.running() and other.running(), "both run")
        app.write(RECORDS)
        app.await_all()
        wait_until(lambda: one.followed() and other.followed(), "each follows the other's task")
        admin = TopicAdmin({"bootstrap.servers": app.brokers})
        shown = admin.describe_group(app.settings["application.id"])
        admin.close()
        assert sorted(tp.partition for member in shown.members for tp in member.partitions) == [0, 1]
        (taken,) = other.followed()
        one.end(signal.SIGKILL)
        # all that was committed has been seen: what comes now is new
        app.seen.clear()
        app.write(RECORDS)
        app.await_all()
        (promoted,) = [event for event in other.events("PROMOTED") if event["partition"] == taken]
        (restored,) = [event for event in other.events("restored") if event["at"] >= promoted["at"]]
        assert restored["count"] <= KEYS // 10, "of some thousand changelog records"
        took_s = app.seen[taken] - other.assigned(taken)
        print(f"{protocol}: first new output {took_s:.2f} s after the rebalance's end")
        # less than a second, on a machine that does nothing else
        assert took_s < 2.5
    finally:
        for process in (one, other):
            process.end(signal.SIGTERM)
