"""A standby task has what the active one committed, becomes it without opening anything anew, and the way back."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from unit.engine.harness import Bench, Lists

from headrace import (
    BufferConfig,
    Consumed,
    Materialized,
    Produced,
    Serdes,
    Stores,
    StoreType,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from headrace.engine.standby import StandbyTask
from headrace.errors import InvalidStateStoreException
from headrace.records import TaskId, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headrace import KStream, Topology
    from headrace.records import RawRecord

TEXT = Serdes.String()
WINDOW = TimeWindows.of_size_and_grace(timedelta(milliseconds=10), timedelta(milliseconds=5))


def topology(build: Callable[[KStream[str, str]], Any]) -> Topology:
    builder = StreamsBuilder()
    build(builder.stream("in", Consumed.with_(TEXT, TEXT)))
    return builder.build()


def in_memory(records: KStream[str, str]) -> None:
    store = Materialized.as_(Stores.in_memory_key_value_store("s"))
    records.group_by_key().count(store).to_stream().map_values(str).to("out", Produced.with_(TEXT, TEXT))


def forgetful(records: KStream[str, str]) -> None:
    store = Materialized.as_(Stores.lru_map("s", 2))
    records.group_by_key().count(store).to_stream().map_values(str).to("out", Produced.with_(TEXT, TEXT))


def on_disk(records: KStream[str, str]) -> None:
    records.group_by_key().count(Materialized.as_("s")).to_stream().map_values(str).to("out")


def windowed(records: KStream[str, str]) -> None:
    store = Materialized.as_("s").with_store_type(StoreType.IN_MEMORY)
    counted = records.group_by_key().windowed_by(WINDOW).count(store).to_stream()
    counted.map(lambda window, count: (f"{window.key}@{window.window.start}", str(count))).to("out")


def suppressed(records: KStream[str, str]) -> None:
    store = Materialized.as_("s").with_store_type(StoreType.IN_MEMORY)
    final = (
        records.group_by_key()
        .windowed_by(WINDOW)
        .count(store)
        .suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
    )
    final.to_stream().map(lambda window, count: (f"{window.key}@{window.window.start}", str(count))).to("out")


def follow(task: StandbyTask, written: Lists) -> None:
    by_partition: dict[TopicPartition, list[RawRecord]] = defaultdict(list)
    for (topic, partition, key, value, timestamp), headers in zip(
        written.changelog, written.changelog_headers, strict=True
    ):
        records = by_partition[TopicPartition(topic, partition)]
        records.append((len(records), timestamp or 0, key, value, headers))
    for partition, records in by_partition.items():
        task.restore(partition, records, len(records))


@pytest.mark.parametrize("build", [in_memory, forgetful, on_disk, windowed, suppressed])
def test_a_copy_goes_on_as_the_active_task_would_have(
    build: Callable[[KStream[str, str]], None], tmp_path: Path
) -> None:
    topology_ = topology(build)
    first = Bench(topology_, tmp_path / "first")
    first.add("in", ("a", "1", 1), ("b", "2", 2), ("a", "3", 14), ("c", "4", 15))
    first.process()
    committed = first.task.prepare_commit(lambda partition: None)
    first.task.post_commit({})
    (sub,) = first.built.subtopologies
    copy = StandbyTask(
        sub, TaskId(0, 0), first.settings, lambda store: tmp_path / "copy" / store, [TopicPartition("in", 0)]
    )
    follow(copy, first.collector)
    store = next(iter(copy.stores.values()))
    second = Bench(topology_, tmp_path / "nothing", run=False, bodies=copy.detach())
    assert not (tmp_path / "nothing").exists(), "nothing is opened anew"
    assert not store.is_open
    second.task.resume_from(committed)
    second.task.state = first.task.state
    second.task._bound.initialize()
    for bench in (first, second):
        bench.collector.sent.clear()
        bench.add("in", ("a", "5", 16), ("d", "6", 17), ("b", "7", 28), ("a", "8", 60), first_offset=4)
        bench.process()
        bench.commit()
    assert second.collector.sent == first.collector.sent != []
    third = StandbyTask(
        sub,
        TaskId(0, 0),
        first.settings,
        lambda store: tmp_path / "nothing" / store,
        [TopicPartition("in", 0)],
        second.task.recycle(),
    )
    rows = {name: list(store.rows.body.scan(None, None, reverse=False)) for name, store in third.stores.items()}
    assert rows == {
        name: list(store.rows.body.scan(None, None, reverse=False)) for name, store in first.task.stores.items()
    }
    third.close()


def test_what_was_not_committed_stays_out_of_the_copy() -> None:
    bench = Bench(topology(in_memory))
    bench.add("in", ("a", "1", 1))
    bench.process()
    store: Any = bench.task.stores["s"]
    bodies = bench.task.recycle()
    with pytest.raises(InvalidStateStoreException):
        store.get("a")
    assert list(bodies["s"].scan(None, None, reverse=False)) == []
