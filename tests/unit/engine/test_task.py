from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from unit.engine.harness import DEFAULTS, TEXT, Bench, Lists

from headrace.api.options import Consumed, Materialized
from headrace.api.processor import Processor
from headrace.api.stores import StoreType
from headrace.dsl import StreamsBuilder
from headrace.engine.offsets import decode_metadata, encode_metadata
from headrace.engine.settings import EngineSettings
from headrace.engine.task import TRANSITIONS, StreamTask, TaskState
from headrace.errors import IllegalStateException, StreamsException, TaskMigratedException
from headrace.records import OffsetAndMetadata, TaskId, TopicPartition
from headrace.serdes import Serdes
from headrace.state.builders import Stores
from headrace.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.api.record import Record
    from headrace.api.timestamps import ConsumerRecord

IN_MEMORY = Materialized.as_("counts").with_value_serde(Serdes.Long()).with_store_type(StoreType.IN_MEMORY)


def passing(*topics: str, consumed: Consumed[Any, Any] | None = None) -> Topology:
    builder = StreamsBuilder()
    builder.stream(topics, consumed).to("out")
    return builder.build()


def counting() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count(IN_MEMORY).to_stream().map_values(str).to("out")
    return builder.build()


# order of records


def test_the_partition_with_the_oldest_head_goes_first() -> None:
    bench = Bench(passing("a", "b", "c"))
    bench.add_values("b", ("b2", 2), ("b9", 9))
    bench.add_values("a", ("a5", 5), ("a1", 1), ("a7", 7))
    bench.add_values("c", ("c6", 6), ("c6'", 6))
    assert bench.process() == 7
    assert bench.collector.values() == ["b2", "a5", "a1", "c6", "c6'", "a7", "b9"]
    assert bench.task.stream_time_ms == 9


def test_the_limit_is_for_all_partitions_together() -> None:
    bench = Bench(passing("a", "b"))
    bench.add_values("a", ("a1", 1), ("a3", 3))
    bench.add_values("b", ("b2", 2), ("b4", 4))
    assert [bench.process(3), bench.process(3), bench.process(3)] == [3, 1, 0]
    assert bench.collector.values() == ["a1", "b2", "a3", "b4"]


def test_records_that_come_later_take_their_place_by_time() -> None:
    bench = Bench(passing("a", "b"))
    bench.add_values("a", ("a1", 1), ("a5", 5))
    bench.process(1)
    bench.add_values("b", ("b3", 3))
    bench.add_values("a", ("a6", 6))
    bench.process()
    assert bench.collector.values() == ["a1", "b3", "a5", "a6"]


def test_equal_times_take_turns_record_by_record_in_the_driver() -> None:
    bench = Bench(passing("a", "b"))
    bench.add_values("a", ("a1", 5), ("a2", 5))
    bench.add_values("b", ("b1", 5), ("b2", 5))
    while bench.process(1):
        pass
    assert bench.collector.values() == ["a1", "b1", "a2", "b2"]


class ByValue:
    def extract(self, record: ConsumerRecord, partition_time: int) -> int:
        return int(record.value)


def test_an_extractors_times_choose_the_partition() -> None:
    bench = Bench(passing("a", "b"), timestamp_extractor=ByValue())
    bench.add_values("a", ("30", 1), ("40", 2))
    bench.add_values("b", ("10", 9), ("35", 9))
    bench.process()
    assert bench.collector.values() == ["10", "30", "35", "40"]
    assert [sent[4] for sent in bench.collector.sent] == [10, 30, 35, 40]


def test_a_partition_whose_records_all_drop_counts_as_empty() -> None:
    bench = Bench(passing("a", "b"), timestamp_extractor=ByValue(), max_task_idle_ms=0)
    bench.lagging.add(TopicPartition("a", 0))
    bench.add_values("a", ("-5", 1))
    bench.add_values("b", ("10", 9))
    assert bench.process() == 1, "what dropped has left its queue: there is something to commit"
    assert bench.process() == 0, "more of a is on its way, and may be older than what b has"
    assert bench.collector.values() == []
    bench.add_values("a", ("3", 1))
    bench.lagging.clear()
    assert bench.process() == 2
    assert bench.collector.values() == ["3", "10"]


# waiting for other partitions


def test_idle_minus_one_never_waits() -> None:
    bench = Bench(passing("a", "b"), max_task_idle_ms=-1)
    bench.lagging.add(TopicPartition("b", 0))
    bench.add_values("a", ("a", 1))
    assert not bench.task.must_wait()
    assert bench.process() == 1


def test_idle_zero_waits_for_what_the_brokers_have() -> None:
    bench = Bench(passing("a", "b"), max_task_idle_ms=0)
    bench.lagging.add(TopicPartition("b", 0))
    bench.add_values("a", ("a1", 1), ("a5", 5))
    assert bench.process() == 0
    assert bench.task.must_wait()
    bench.add_values("b", ("b3", 3))
    assert bench.process() == 2, "after b's record it is b that is awaited again"
    bench.lagging.clear()
    assert not bench.task.must_wait()
    assert bench.process() == 1
    assert bench.collector.values() == ["a1", "b3", "a5"]


def test_positive_idle_waits_that_long_for_records_to_come() -> None:
    bench = Bench(passing("a", "b"), max_task_idle_ms=100)
    bench.add_values("a", ("a", 1), ("a", 2))
    assert bench.process() == 0
    bench.now += 99
    assert bench.process() == 0
    assert bench.task.must_wait()
    bench.now += 1
    assert not bench.task.must_wait()
    assert bench.process(1) == 1
    assert bench.process(1) == 1, "it has waited enough: it does not wait again for each record"
    bench.add_values("a", ("a", 4))
    assert bench.process() == 1
    bench.add_values("b", ("b", 5))
    assert bench.process() == 0, "a had records since, so the wait for it begins anew"
    bench.now += 100
    assert bench.process() == 1


def test_a_task_says_what_has_come_and_since_when_it_is_idle() -> None:
    bench = Bench(passing("a", "b"), max_task_idle_ms=100)
    a, b = bench.tp("a"), bench.tp("b")
    assert bench.task.end_offsets() == {a: -1, b: -1}
    bench.add_values("a", ("a", 1), ("a", 2))
    assert bench.task.end_offsets() == {a: 1, b: -1}
    bench.process()
    since = [bench.task.idling_since]
    bench.now += 100
    since.append(bench.task.idling_since)
    assert bench.process() == 2
    since.append(bench.task.idling_since)
    bench.now += 5
    bench.task.idle()
    since.append(bench.task.idling_since)
    now = bench.now
    assert since == [now - 105, now - 105, None, now], "it waits for records of b; it is busy; it has none at all"


def test_a_wait_begins_only_once_a_partition_is_caught_up() -> None:
    bench = Bench(passing("a", "b"), max_task_idle_ms=100)
    bench.lagging.add(TopicPartition("b", 0))
    bench.add_values("a", ("a", 1))
    bench.process()
    bench.now += 1000
    assert bench.process() == 0
    bench.lagging.clear()
    assert bench.process() == 0
    bench.now += 100
    assert bench.process() == 1


def test_a_wait_begins_anew_when_more_turns_out_to_be_on_its_way() -> None:
    bench = Bench(passing("a", "b"), max_task_idle_ms=100)
    b = TopicPartition("b", 0)
    bench.add_values("a", ("a", 1))
    assert bench.process() == 0
    bench.now += 90
    bench.lagging.add(b)
    assert bench.process() == 0
    bench.lagging.clear()
    assert bench.process() == 0
    bench.now += 90
    assert bench.process() == 0
    bench.now += 10
    assert bench.process() == 1


def test_several_partitions_are_waited_for_side_by_side() -> None:
    # the second one's wait began only when the first one's was over: twice max.task.idle.ms
    bench = Bench(passing("a", "b", "c"), max_task_idle_ms=100)
    bench.add_values("a", ("a", 1))
    assert bench.process() == 0
    bench.now += 100
    assert bench.process() == 1


# offsets


def test_only_offsets_that_moved_are_committed() -> None:
    bench = Bench(passing("a", "b"))
    assert bench.commit() == {}
    bench.add_values("a", ("x", 1), ("x", 2))
    bench.process()
    assert bench.offsets() == {"a": 2}
    assert bench.offsets() == {"a": 2}, "a commit that failed is prepared again"
    bench.task.post_commit({})
    assert bench.offsets() == {}
    assert bench.task.committed_offsets() == {TopicPartition("a", 0): OffsetAndMetadata(2, encode_metadata(2))}


def test_with_records_waiting_the_offset_is_that_of_the_oldest() -> None:
    bench = Bench(passing("a"))
    bench.add("a", ("k", "x", 1), first_offset=10)
    bench.add("a", ("k", "y", 2), first_offset=15)
    assert bench.offsets({"a": 16}) == {}, "nothing was processed, so nothing moved"
    bench.process(1)
    assert bench.offsets({"a": 16}) == {"a": 15}, "a transaction marker lay between"


def test_with_nothing_waiting_the_offset_is_past_the_markers() -> None:
    bench = Bench(passing("a", "b"))
    bench.add("a", ("k", "x", 1), first_offset=10)
    bench.process()
    assert bench.offsets({"a": 13, "b": 7}) == {"a": 13, "b": 7}
    assert bench.offsets({"a": 5}) == {"a": 11}, "a position that lags behind is no way back"
    assert bench.offsets() == {"a": 11}


def test_an_unread_partition_at_its_very_beginning_commits_nothing() -> None:
    bench = Bench(passing("a"))
    assert bench.offsets({"a": 0}) == {}


def test_dropped_and_undecodable_records_move_the_offset() -> None:
    from headrace.api.handlers import LogAndContinueExceptionHandler

    builder = StreamsBuilder()
    builder.stream("a", Consumed.with_(TEXT, Serdes.Long())).group_by_key().count(IN_MEMORY)
    bench = Bench(builder.build(), deserialization_handler=LogAndContinueExceptionHandler())
    bench.add("a", ("k", b"short", 1), (None, bytes(8), 2), ("k", None, 3))
    assert bench.process() == 3
    assert bench.offsets() == {"a": 3}
    assert bench.task.metrics.dropped == {"deserialization error": 1, "null key": 1, "null value": 1}


def test_the_partition_time_is_committed_and_taken_over() -> None:
    bench = Bench(passing("a", "b"))
    bench.add_values("a", ("x", 500), ("x", 400))
    bench.process()
    (entry,) = bench.task.prepare_commit(lambda partition: None).values()
    assert decode_metadata(entry.metadata)[0] == 500
    again = Bench(passing("a", "b"))
    a, b = TopicPartition("a", 0), TopicPartition("b", 0)
    again.task.resume_from({a: entry, b: None, TopicPartition("other", 0): entry})
    assert again.task.stream_time_ms == 500
    assert again.task.queues[a].partition_time == 500
    assert again.task.queues[b].partition_time == -1
    again.add("a", ("k", "y", 450), first_offset=2)
    again.process()
    assert again.task.queues[a].partition_time == 500
    assert again.offsets() == {"a": 3}


def test_a_resumed_offset_is_not_committed_again() -> None:
    bench = Bench(passing("a"))
    bench.task.resume_from({TopicPartition("a", 0): OffsetAndMetadata(7)})
    assert bench.offsets({"a": 7}) == {}
    assert bench.offsets({"a": 8}) == {"a": 8}


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("AgAAAYvP5WgF", 1700000000005),
        ("AQAAAYvP5WgF", 1700000000005),
        ("Av//////////", -1),
        ("", -1),
        (None, -1),
        ("some text", -1),
        ("AwAAAYvP5WgF", -1),
        ("AgAA", -1),
        ("AgAAAYvP5WgFAAAAAQAAAAFhAAAAAAAAAAE=", 1700000000005),
    ],
)
def test_metadata_of_java_is_read(text: str | None, time: int) -> None:
    assert decode_metadata(text)[0] == time


def test_metadata_is_written_as_java_writes_it() -> None:
    assert encode_metadata(1700000000005) == "AgAAAYvP5WgF"
    assert encode_metadata(-1) == "Av//////////"
    for time in (-1, 0, 1, 1 << 62):
        assert decode_metadata(encode_metadata(time)) == (time, {})


# commits and stores


def test_a_commit_flushes_seals_and_applies_with_the_changelogs_offset() -> None:
    bench = Bench(counting(), cache_bytes=1 << 20)
    bench.add_values("in", ("x", 1), ("x", 2))
    bench.process()
    assert bench.collector.sent == []
    assert bench.collector.changelog == []
    bench.offsets()
    assert bench.collector.values() == ["2"]
    assert bench.collector.changelog == [("app-counts-changelog", 0, b"k", (2).to_bytes(8, "big"), 2)]
    rows = bench.task.stores["counts"].rows
    assert rows.body.get(b"k") is None
    bench.task.post_commit({TopicPartition("app-counts-changelog", 0): 41})
    assert rows.body.get(b"k") == (2).to_bytes(8, "big") + (2).to_bytes(8, "big")
    assert rows.body.offset() == 42


def test_writes_after_prepare_wait_for_the_next_commit() -> None:
    bench = Bench(counting())
    bench.add_values("in", ("x", 1))
    bench.process()
    bench.offsets()
    bench.add("in", ("other", "x", 2))
    bench.process()
    bench.task.post_commit({})
    rows = bench.task.stores["counts"].rows
    assert rows.body.get(b"k") is not None
    assert rows.body.get(b"other") is None
    assert rows.get(b"other") is not None


def test_a_store_without_a_changelog_is_written_too() -> None:
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count(IN_MEMORY.with_logging_disabled())
    bench = Bench(builder.build())
    bench.add_values("in", ("x", 1))
    bench.process()
    bench.commit()
    assert bench.collector.changelog == []
    assert bench.task.changelogs == {}
    assert bench.task.stores["counts"].rows.body.get(b"k") is not None


def test_flushing_one_cache_may_fill_the_next() -> None:
    builder = StreamsBuilder()
    (
        builder.stream("in")
        .group_by_key()
        .count(Materialized.as_("first").with_value_serde(Serdes.Long()).with_store_type(StoreType.IN_MEMORY))
        .to_stream()
        .map_values(str)
        .to_table(Materialized.as_("a-second").with_store_type(StoreType.IN_MEMORY))
        .to_stream()
        .to("out")
    )
    bench = Bench(builder.build(), cache_bytes=1 << 20)
    bench.add_values("in", ("x", 1), ("x", 2))
    bench.process()
    bench.commit()
    assert bench.collector.values() == ["2"]
    assert not any(store.cache is not None and store.cache.dirty for store in bench.task.stores.values())


def test_an_input_topic_that_a_task_has_no_partition_of_is_not_restored_from() -> None:
    builder = StreamsBuilder()
    rows = builder.table("rows", materialized=Materialized.as_("rows").with_store_type(StoreType.IN_MEMORY))
    rows.to_stream().merge(builder.stream("more")).to("out")
    (sub,) = builder.build({"topology.optimization": "all"}).build("app").subtopologies
    settings = EngineSettings("app", {}, system_time_ms=lambda: 0, steady_time_ms=lambda: 0, **DEFAULTS)
    restored: list[frozenset[TopicPartition]] = []
    for number in (0, 1):
        partitions = [TopicPartition(topic, number) for topic in ("more", "rows")[: 2 - number]]
        task = StreamTask(sub, TaskId(0, number), settings, Lists(), None, Path, lambda _: True, partitions)
        restored.append(frozenset(task.changelogs))
        task.post_commit({})
    assert restored == [{TopicPartition("rows", 0)}, frozenset()]


def test_drop_uncommitted_goes_back_to_the_last_commit() -> None:
    bench = Bench(counting(), cache_bytes=1 << 20)
    bench.add_values("in", ("x", 1))
    bench.process()
    bench.commit()
    bench.add_values("in", ("x", 2), ("x", 3))
    bench.process(1)
    bench.task.drop_uncommitted()
    assert bench.task.buffered == 0
    counts: Any = bench.task.stores["counts"]
    assert counts.get("k") == (1, 1)
    assert bench.offsets({"in": 1}) == {}, "what was processed and dropped is not committed"
    bench.add("in", ("k", "x", 2), first_offset=1)
    bench.process()
    bench.commit()
    assert counts.get("k") == (2, 2)


def test_memory_for_uncommitted_writes_asks_for_a_commit() -> None:
    bench = Bench(counting(), uncommitted_max_bytes=400)
    bench.add("in", *((str(number), "x", 1) for number in range(10)))
    assert not bench.task.wants_commit()
    bench.process(1)
    assert not bench.task.wants_commit()
    bench.process(9)
    assert bench.task.wants_commit()
    bench.commit()
    assert not bench.task.wants_commit()


def test_a_limit_of_minus_one_is_none() -> None:
    # it was taken for a limit that every write is past: a commit after each round
    bench = Bench(counting(), uncommitted_max_bytes=-1)
    bench.add_values("in", ("x", 1))
    bench.process()
    assert not bench.task.wants_commit()


class Committing(Processor[Any, Any, Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        if record.value == "commit":
            self.context.commit()
        self.context.forward(record)


def test_a_requested_commit_ends_the_run_and_is_answered_once() -> None:
    topology = Topology().add_source("s", "in").add_processor("p", Committing, "s").add_sink("k", "out", "p")
    bench = Bench(topology)
    bench.add_values("in", ("a", 1), ("commit", 2), ("b", 3))
    assert bench.process() == 2
    assert bench.task.wants_commit()
    assert bench.commit() == {"in": 2}
    assert not bench.task.wants_commit()
    assert bench.process() == 1


def test_counters_of_a_task() -> None:
    bench = Bench(counting())
    bench.add("in", ("k", "x", 1), (None, "x", 2))
    bench.process()
    assert (bench.task.metrics.processed, bench.task.metrics.dropped) == (2, {"null key": 1})


def test_a_task_reads_and_writes_its_own_partition() -> None:
    bench = Bench(counting(), task_id=TaskId(0, 4))
    assert bench.task.partitions == {TopicPartition("in", 4)}
    bench.add_values("in", ("x", 1))
    bench.process()
    assert bench.collector.changelog[0][:2] == ("app-counts-changelog", 4)
    assert set(bench.task.changelogs) == {TopicPartition("app-counts-changelog", 4)}


# life cycle

PATHS = {
    TaskState.CREATED: (),
    TaskState.RESTORING: (TaskState.RESTORING,),
    TaskState.RUNNING: (TaskState.RESTORING, TaskState.RUNNING),
    TaskState.SUSPENDED: (TaskState.RESTORING, TaskState.SUSPENDED),
    TaskState.CLOSED: (TaskState.CLOSED,),
}


@pytest.mark.parametrize(("old", "new"), list(itertools.product(TaskState, TaskState)), ids=lambda s: s.value)
def test_every_edge_of_the_life_cycle(old: TaskState, new: TaskState) -> None:
    bench = Bench(passing("in"), run=False)
    for state in PATHS[old]:
        bench.task.transition(state)
    if new in TRANSITIONS[old]:
        bench.task.transition(new)
        assert bench.task.state is new
    else:
        with pytest.raises(IllegalStateException, match=f"task 0_0 cannot go from {old.value} to {new.value}"):
            bench.task.transition(new)
        assert bench.task.state is old


def test_the_life_cycle_is_javas() -> None:
    names = {old.value: {new.value for new in TRANSITIONS[old]} for old in TaskState}
    assert names == {
        "CREATED": {"RESTORING", "CLOSED"},
        "RESTORING": {"RUNNING", "SUSPENDED", "CLOSED"},
        "RUNNING": {"SUSPENDED", "RESTORING", "CLOSED"},
        "SUSPENDED": {"RESTORING", "CLOSED"},
        "CLOSED": set(),
    }


@pytest.mark.parametrize("old", [state for state in TaskState if TaskState.CLOSED in TRANSITIONS[state]])
def test_close_from_everywhere_and_twice(old: TaskState) -> None:
    bench = Bench(counting(), run=False)
    for state in PATHS[old]:
        bench.task.transition(state)
    bench.task.close()
    bench.task.close()
    assert bench.task.state is TaskState.CLOSED
    assert not bench.task.stores["counts"].is_open


class Fragile(Processor[Any, Any, Any, Any]):
    closed: list[str] = []  # noqa: RUF012  # what the test looks at

    def process(self, record: Record[Any, Any]) -> None: ...

    def close(self) -> None:
        self.closed.append(str(self.context.task_id))
        raise OSError("disk on fire")


def test_a_failing_close_names_its_processor_and_closes_the_rest() -> None:
    Fragile.closed.clear()
    store = Stores.key_value_store_builder(Stores.in_memory_key_value_store("s"), TEXT, TEXT)
    topology = (
        Topology()
        .add_source("src", "in")
        .add_processor("one", Fragile, "src")
        .add_processor("two", Fragile, "src")
        .add_state_store(store, "one")
    )
    bench = Bench(topology)
    with pytest.raises(StreamsException, match=r"failed to close processor (one|two): disk on fire") as caught:
        bench.task.close()
    assert isinstance(caught.value.__cause__, OSError)
    assert Fragile.closed == ["0_0", "0_0"]
    assert not bench.task.stores["s"].is_open
    bench.task.close()


class Unready(Fragile):
    def init(self, context: Any) -> None:
        raise KeyError("setting")


def test_a_failing_init_names_its_processor_and_lets_go_of_the_stores(tmp_path: Any) -> None:
    store = Stores.key_value_store_builder(Stores.persistent_key_value_store("s"), TEXT, TEXT)

    def topology(supplier: Callable[[], Processor[Any, Any, Any, Any]]) -> Topology:
        return Topology().add_source("src", "in").add_processor("one", supplier, "src").add_state_store(store, "one")

    unready = Bench(topology(Unready), tmp_path, run=False)
    unready.task.transition(TaskState.RESTORING)
    with pytest.raises(StreamsException, match="failed to initialize processor one"):
        unready.task.complete_restoration()
    unready.task.close()
    bench = Bench(topology(Committing), tmp_path)
    bench.task.close()


def test_init_sees_the_restored_store(tmp_path: Any) -> None:
    store = Stores.key_value_store_builder(Stores.persistent_key_value_store("s"), TEXT, TEXT)
    seen: list[Any] = []

    class Indexing(Processor[Any, Any, Any, Any]):
        def init(self, context: Any) -> None:
            super().init(context)
            seen.append(list(context.get_state_store("s").all()))

    topology = Topology().add_source("src", "in").add_processor("one", Indexing, "src").add_state_store(store, "one")
    bench = Bench(topology, tmp_path, run=False)
    bench.task.transition(TaskState.RESTORING)
    assert seen == []
    bench.task.stores["s"].rows.restore([(b"k", b"v")], 1)
    bench.task.complete_restoration()
    assert seen == [[("k", "v")]]
    bench.task.close()


def test_errors_about_the_threads_standing_pass_through_as_they_are() -> None:
    lists = Lists()
    bench = Bench(passing("in"), collector=lists)
    lists.refuse["out"] = TaskMigratedException("fenced")
    bench.add_values("in", ("x", 1))
    with pytest.raises(TaskMigratedException, match="fenced"):
        bench.process()
    with pytest.raises(TaskMigratedException):
        bench.offsets()
    with pytest.raises(TaskMigratedException):
        bench.process()
    assert bench.task.buffered == 1
