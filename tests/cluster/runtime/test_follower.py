"""The stores of standby tasks, fed by real topics: ends, truncated logs, input topics that serve as changelogs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from headrace import Consumed, Materialized, StandbyUpdateListener, StreamsBuilder, TaskId, TopicPartition
from headrace.config import StreamsConfig
from headrace.engine.standby import StandbyTask
from headrace.kafka import RecordConsumer, TopicAdmin
from headrace.records import OffsetAndMetadata
from headrace.runtime.classes import engine_settings
from headrace.runtime.follower import Follower
from headrace.serdes import Serdes
from headrace.topics import NewTopic, TopicWriter, ensure_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TASK = TaskId(0, 0)


class Bench:
    """One follower with its consumer, and standby tasks of a table that is restored from its input topic or not."""

    def __init__(self, brokers: str, unique: Callable[[str], str], root: Path, *, optimized: bool) -> None:
        self.brokers, self.application = brokers, unique("app")
        self.input = unique("rows")
        self.settings = {
            "application.id": self.application,
            "bootstrap.servers": brokers,
            "topology.optimization": "all" if optimized else "none",
        }
        self._root = root
        self.changelog = TopicPartition(self.input if optimized else f"{self.application}-rows-changelog", 0)
        ensure_topics(brokers, [NewTopic(topic, 1) for topic in {self.input, self.changelog.topic}])
        self.admin = TopicAdmin({"bootstrap.servers": brokers})
        config = StreamsConfig.load(self.settings)
        restore: dict[str, Any] = config.restore_consumer_config(client_id="follower")
        self.consumer = RecordConsumer({**restore, "group.id": self.application})
        self.follower = Follower(self.admin, StandbyUpdateListener())

    def task(self) -> StandbyTask:
        text, config = Serdes.String(), StreamsConfig.load(self.settings)
        builder = StreamsBuilder()
        builder.table(self.input, Consumed.with_(text, text), Materialized.as_("rows"))
        (sub,) = builder.build(config.values()).build(self.application, {}, 0).subtopologies
        return StandbyTask(
            sub,
            TASK,
            engine_settings(config, lambda: 0, lambda: 0),
            lambda store: self._root / store,
            [TopicPartition(self.input, 0)],
        )

    def write(self, start: int, end: int) -> None:
        with TopicWriter(self.brokers) as writer:
            for number in range(start, end):
                writer.send(self.changelog.topic, f"k{number:03}".encode(), b"v", timestamp_ms=number)

    def follow(self, task: StandbyTask, until: int) -> None:
        """Read until the store is at an offset."""
        deadline = time.monotonic() + 60
        while (at := task.changelogs[self.changelog].rows.body.offset() or 0) != until:
            assert time.monotonic() < deadline, f"at {at}, not {until}"
            self.follower.advance(self.consumer, 0.05, 1000)

    def close(self) -> None:
        self.consumer.close()
        self.admin.close()


@pytest.fixture
def bench(bootstrap_servers: str, unique: Callable[[str], str], tmp_path: Path) -> Iterator[Callable[[bool], Bench]]:
    made: list[Bench] = []

    def make(optimized: bool) -> Bench:
        made.append(Bench(bootstrap_servers, unique, tmp_path, optimized=optimized))
        return made[-1]

    yield make
    for one in made:
        one.close()


def keys(task: StandbyTask) -> list[str]:
    rows: Any = task.stores["rows"]
    return [key for key, _ in rows.all()]


def test_a_store_follows_is_held_and_is_filled_anew_when_its_log_was_truncated(bench: Callable[[bool], Bench]) -> None:
    one = bench(False)
    one.write(0, 10)
    task = one.task()
    one.follower.add(task)
    one.follow(task, 10)
    assert task.ends == {one.changelog: 10}
    one.follower.hold(one.consumer)
    one.write(10, 20)
    assert one.consumer.poll(1.0, 1).records == {}, "while active tasks restore it is not read"
    one.follow(task, 20)
    assert len(keys(task)) == 20
    one.follower.remove(one.consumer, [TASK])
    assert not one.follower
    assert one.consumer.assignment() == frozenset()
    task.close()
    one.write(20, 60)
    one.admin.delete_records({one.changelog: 40})
    again = one.task()
    one.follower.add(again)
    one.follow(again, 60)
    assert keys(again) == [f"k{number:03}" for number in range(40, 60)], "nothing of what the log no longer has"
    again.close()


def test_an_input_topic_is_followed_up_to_what_is_committed(bench: Callable[[bool], Bench]) -> None:
    one = bench(True)
    one.write(0, 30)
    task = one.task()
    assert task.source_changelogs == {one.changelog}
    one.follower.add(task)
    one.admin.alter_group_offsets(one.application, {one.changelog: OffsetAndMetadata(12)})
    one.follow(task, 12)
    assert len(keys(task)) == 12
    one.admin.alter_group_offsets(one.application, {one.changelog: OffsetAndMetadata(30)})
    one.follow(task, 30)
    one.write(30, 40)
    one.admin.alter_group_offsets(one.application, {one.changelog: OffsetAndMetadata(40)})
    one.follow(task, 40)
    assert len(keys(task)) == 40
    task.close()
