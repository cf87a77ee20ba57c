from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace import Consumed, Materialized, Serdes, StreamsBuilder
from headrace.api.handlers import (
    DefaultProductionExceptionHandler,
    LogAndFailExceptionHandler,
    LogAndFailProcessingExceptionHandler,
)
from headrace.api.timestamps import FailOnInvalidTimestamp
from headrace.engine.global_task import GlobalTask
from headrace.engine.settings import EngineSettings
from headrace.records import TopicPartition
from headrace.state.checkpoint import GlobalCheckpoint

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TEXT = Serdes.String()
P0, P1 = TopicPartition("names", 0), TopicPartition("names", 1)


class World:
    """A global table on disk, opened again and again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        builder = StreamsBuilder()
        builder.global_table("names", Consumed.with_(TEXT, TEXT), Materialized.as_("store"))
        built = builder.build().build("app")
        assert built.global_stores is not None
        self._stores = built.global_stores
        self.task: GlobalTask | None = None

    def open(self, topic_id: str | None = "one") -> tuple[GlobalTask, GlobalCheckpoint]:
        self.close()
        settings = EngineSettings(
            application_id="app",
            app_configs={},
            deserialization_handler=LogAndFailExceptionHandler(),
            processing_handler=LogAndFailProcessingExceptionHandler(),
            production_handler=DefaultProductionExceptionHandler(),
            timestamp_extractor=FailOnInvalidTimestamp(),
            default_key_serde=TEXT,
            default_value_serde=TEXT,
            max_task_idle_ms=0,
            buffered_records_per_partition=1000,
            uncommitted_max_bytes=1 << 20,
            system_time_ms=lambda: 0,
            steady_time_ms=lambda: 0,
        )
        self.task = GlobalTask(self._stores, settings, lambda store: self._path / store, {"names": 2})
        ids = {} if topic_id is None else {"names": topic_id}
        return self.task, GlobalCheckpoint(self._path / "checkpoint.json", self.task.stores, self._stores.topics, ids)

    def close(self) -> None:
        if self.task is not None:
            self.task.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def rows(task: GlobalTask) -> list[str]:
    return [key for key, _ in task.views["store"].all()]


def test_a_store_goes_on_from_what_was_saved(world: World) -> None:
    task, checkpoint = world.open()
    assert checkpoint.load() == {}
    task.process(P0, [(4, 1, b"a", b"x", None)])
    task.process(P1, [(0, 1, b"b", b"y", None)])
    checkpoint.save({P0: 5, P1: 1})
    task.process(P0, [(5, 1, b"later", b"x", None)])
    task, checkpoint = world.open()
    assert checkpoint.load() == {P0: 5, P1: 1}
    assert rows(task) == ["a", "b", "later"]


def test_without_a_file_or_of_another_topic_the_store_is_filled_anew(world: World, tmp_path: Path) -> None:
    task, checkpoint = world.open()
    task.process(P0, [(4, 1, b"a", b"x", None)])
    checkpoint.save({P0: 5, P1: 0})
    task, checkpoint = world.open("another")
    assert checkpoint.load() == {}
    assert rows(task) == []
    task.process(P0, [(4, 1, b"a", b"x", None)])
    (tmp_path / "checkpoint.json").write_text("{torn")
    task, checkpoint = world.open("another")
    assert checkpoint.load() == {}
    assert rows(task) == []


def test_a_store_that_lost_the_end_of_its_log_is_filled_anew(world: World, tmp_path: Path) -> None:
    task, checkpoint = world.open()
    task.process(P0, [(4, 1, b"a", b"x", None)])
    checkpoint.save({P0: 5, P1: 0})
    file = tmp_path / "checkpoint.json"
    text = file.read_text()
    assert '"count": 1' in text
    file.write_text(text.replace('"count": 1', '"count": 2'))
    task, checkpoint = world.open()
    assert checkpoint.load() == {}
    assert rows(task) == []


def test_a_topic_that_lost_its_beginning_empties_its_store(world: World) -> None:
    task, checkpoint = world.open()
    task.process(P0, [(4, 1, b"a", b"x", None)])
    checkpoint.save({P0: 5, P1: 0})
    checkpoint.forget("names")
    assert rows(task) == []


def test_a_topic_whose_id_the_answering_broker_does_not_know_yet_is_read_from_the_start(world: World) -> None:
    """The global thread, and the client with it, ended by ``KeyError: 'count'``."""
    _, checkpoint = world.open(None)
    assert checkpoint.load() == {}
