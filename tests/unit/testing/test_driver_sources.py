"""Global tables, sources by pattern, sinks that choose topics and read-only stores in the driver."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from headrace import (
    AutoOffsetReset,
    Consumed,
    GlobalKTable,
    KStream,
    Materialized,
    Processor,
    Produced,
    PunctuationType,
    Record,
    RecordContext,
    Serdes,
    Stores,
    StreamsBuilder,
    Topology,
)
from headrace.errors import FailedProcessingException, IllegalStateException, StreamsException, TopologyException
from headrace.testing import TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace import ProcessorContext

TEXT = Serdes.String()
SETTINGS = {"default.key.serde": TEXT, "default.value.serde": TEXT}
AS_TEXT = Consumed.with_(TEXT, TEXT)


def pipe(driver: TopologyTestDriver, topic: str, *pairs: tuple[str | None, str | None], at: int = 1) -> None:
    into = driver.create_input_topic(topic, TEXT.serializer, TEXT.serializer)
    for key, value in pairs:
        into.pipe_input(key, value, at)


def read(driver: TopologyTestDriver, topic: str) -> list[str | None]:
    return driver.create_output_topic(topic, TEXT.deserializer, TEXT.deserializer).read_values_to_list()


def looking_up() -> Topology:
    builder = StreamsBuilder()
    names: GlobalKTable[str, str] = builder.global_table("names", AS_TEXT, Materialized.as_("names-store"))
    stream: KStream[str, str] = builder.stream("in", AS_TEXT)
    stream.left_join(names, lambda key, value: value, lambda value, name: f"{value}={name}").to("out")
    return builder.build()


def test_a_global_table_is_whole_in_every_partition_and_instance() -> None:
    with TopologyTestDriver(looking_up(), SETTINGS, partitions=3, instances=2) as driver:
        pipe(driver, "names", *((f"n{i}", f"v{i}") for i in range(9)))
        pipe(driver, "in", *((f"k{i}", f"n{i}") for i in range(9)))
        assert sorted(map(str, read(driver, "out"))) == [f"n{i}=v{i}" for i in range(9)]
        driver.start_instance("late")
        driver.kill_instance("1")
        driver.kill_instance("2")
        pipe(driver, "in", ("k", "n8"))
        assert read(driver, "out") == ["n8=v8"]
        assert len(list(driver.get_all_state_stores()["names-store"].all())) == 9


def test_processors_may_read_a_global_store_and_not_write_it() -> None:
    class Meddling(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            store = self.context.get_state_store("names-store")
            row = store.get(record.value)
            self.context.forward(record.with_value(f"{row.value}/{len(list(store.all()))}"))
            if record.key == "write":
                store.put(record.key, None)

    builder = StreamsBuilder()
    builder.global_table("names", AS_TEXT, Materialized.as_("names-store"))
    builder.stream("in", AS_TEXT).process(Meddling).to("out")
    with TopologyTestDriver(builder.build(), SETTINGS) as driver:
        pipe(driver, "names", ("x", "1"), ("y", "2"))
        pipe(driver, "in", ("k", "y"))
        assert read(driver, "out") == ["2/2"]
        with pytest.raises(FailedProcessingException, match="read only"):
            pipe(driver, "in", ("write", "x"))


class Filling(Processor[str, str, str, str]):
    def init(self, context: ProcessorContext[str, str]) -> None:
        super().init(context)
        self._store = context.get_state_store("store")

    def process(self, record: Record[str, str]) -> None:
        if record.value == "bad":
            raise ValueError("the user's own words")
        if record.value == "tick":
            self.context.schedule(1, PunctuationType.STREAM_TIME, lambda time: None)
        self._store.put(record.key, record.value)


def filled(value: str) -> None:
    builder = StreamsBuilder()
    store = Stores.key_value_store_builder(Stores.in_memory_key_value_store("store"), TEXT, TEXT)
    builder.add_global_store(store, "global", AS_TEXT, Filling)
    with TopologyTestDriver(builder.build(), SETTINGS) as driver:
        pipe(driver, "global", ("a", "1"), ("b", value))
        assert dict(driver.get_state_store("store").all()) == {"a": "1", "b": value}


def test_a_global_store_fails_loudly_and_cannot_schedule() -> None:
    filled("2")
    with pytest.raises(StreamsException, match="own words"):
        filled("bad")
    with pytest.raises(StreamsException, match="cannot schedule"):
        filled("tick")


def test_a_pattern_reads_topics_as_they_come() -> None:
    builder = StreamsBuilder()
    builder.stream(re.compile("in-.*"), AS_TEXT).to("out")
    topology = builder.build()
    assert "(topics: in-.*)" in topology.describe()
    with TopologyTestDriver(topology, SETTINGS) as driver:
        pipe(driver, "in-a", ("k", "1"))
        pipe(driver, "in-b", ("k", "2"))
        with pytest.raises(IllegalStateException, match="Unknown topic: other"):
            pipe(driver, "other", ("k", "3"))
        assert read(driver, "out") == ["1", "2"]


def test_a_pattern_makes_more_tasks_as_topics_come() -> None:
    builder = StreamsBuilder()
    stream: KStream[str, str] = builder.stream(re.compile("in-.*"), AS_TEXT)
    stream.group_by_key().count(Materialized.as_("counts")).to_stream().to("out", Produced.with_(TEXT, Serdes.Long()))
    partitions = {"in-a": 1, "in-b": 1}
    with TopologyTestDriver(builder.build(), SETTINGS, partitions=partitions, instances=2) as driver:
        assert not driver.tasks_of("1") | driver.tasks_of("2")
        pipe(driver, "in-a", ("k", "1"))
        assert len(driver.tasks_of("1") | driver.tasks_of("2")) == 1
        pipe(driver, "in-b", ("k", "2"))
        out = driver.create_output_topic("out", TEXT.deserializer, Serdes.Long().deserializer)
        assert out.read_values_to_list() == [1, 2]


@pytest.mark.parametrize(
    ("first", "second"),
    [(re.compile("a.*"), "ab"), ("ab", re.compile("a.*"))],
    ids=["pattern first", "name first"],
)
def test_a_topic_has_one_source(first: Any, second: Any) -> None:
    with pytest.raises(TopologyException, match="ab"):
        Topology().add_source("one", first).add_source("two", second)


def test_two_patterns_must_not_match_one_topic() -> None:
    topology = Topology().add_source("one", re.compile("a.*")).add_source("two", re.compile(".*b"))
    built = topology.build("app")
    assert [spec.topics for sub in built.with_topics(["ax", "xb"]).subtopologies for spec in sub.nodes] == [  # type: ignore[union-attr]
        ("ax",),
        ("xb",),
    ]
    with pytest.raises(TopologyException, match="the topic ab matches"):
        built.with_topics(["ab"])


def test_the_topic_of_each_record_may_depend_on_where_it_came_from() -> None:
    def choose(key: str, value: str, context: RecordContext) -> str:
        return f"{value}-{context.topic}-{context.timestamp}"

    builder = StreamsBuilder()
    builder.stream(["one", "two"], AS_TEXT).to(choose)
    with TopologyTestDriver(builder.build(), SETTINGS) as driver:
        pipe(driver, "one", ("k", "x"))
        pipe(driver, "two", ("k", "x"), at=7)
        assert driver.produced_topic_names() == {"x-one-1", "x-two-7"}


class Multicast:
    def partitions(self, topic: str, key: str, value: str, num_partitions: int) -> Iterable[int] | None:
        return {"all": frozenset(range(num_partitions)), "none": frozenset[int](), "default": None}[value]


def test_a_partitioner_may_choose_all_none_or_leave_it() -> None:
    builder = StreamsBuilder()
    how = Produced.with_(TEXT, TEXT, Multicast())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    builder.stream("in", AS_TEXT).to(lambda key, value, context: "out", how)
    with TopologyTestDriver(builder.build(), SETTINGS, partitions=3) as driver:
        pipe(driver, "in", ("k", "all"), ("k", "none"), ("k", "default"))
        assert read(driver, "out") == ["all", "all", "all", "default"]
        assert driver.dropped_records() == {"partitioner chose no partition": 1}


def test_a_read_only_store_is_restored_from_its_topic_up_to_what_is_committed() -> None:
    class Reading(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            self.context.forward(record.with_value(str(self.context.get_state_store("store").get(record.key))))

    topology = Topology()
    store = Stores.key_value_store_builder(Stores.in_memory_key_value_store("store"), TEXT, TEXT)
    topology.add_read_only_state_store(store, "filling", "rows", "fill", Filling)
    topology.add_source("asking", "in").add_processor("read", Reading, "asking").add_sink("sink", "out", "read")
    topology.connect_processor_and_state_stores("read", "store")
    (sub,) = topology.build("app").subtopologies
    assert (set(sub.source_changelogs), dict(sub.store_changelogs)) == ({"rows"}, {"store": "rows"})
    with TopologyTestDriver(topology, SETTINGS, partitions=2, instances=1) as driver:
        pipe(driver, "rows", ("a", "1"), ("b", "2"), ("c", "3"), ("a", None))
        driver.start_instance("other")
        driver.kill_instance("1")
        pipe(driver, "in", ("a", "?"), ("b", "?"), ("c", "?"))
        assert sorted(map(str, read(driver, "out"))) == ["2", "3", "None"]
        assert sum(driver.restored_records("other").values()) == 4
        assert "app-store-changelog" not in driver.produced_topic_names()


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (AutoOffsetReset.EARLIEST, ["old", "young", "new"]),
        (AutoOffsetReset.LATEST, ["new"]),
        (AutoOffsetReset.by_duration(timedelta(minutes=1)), ["young", "new"]),
        (AutoOffsetReset("by_duration:PT24H"), ["old", "young", "new"]),
        (AutoOffsetReset("by_duration:PT1S"), ["new"]),
    ],
    ids=lambda x: getattr(x, "value", ""),
)
def test_where_a_source_begins(policy: AutoOffsetReset, expected: list[str]) -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, TEXT, offset_reset=policy)).to("out")
    with TopologyTestDriver(builder.build(), SETTINGS, 100_000, partitions=1, instances=0) as driver:
        pipe(driver, "in", ("k", "old"), at=30_000)
        pipe(driver, "in", ("k", "young"), at=50_000)
        driver.start_instance("1")
        pipe(driver, "in", ("k", "new"), at=100_000)
        assert read(driver, "out") == expected


@pytest.mark.parametrize("text", ["soon", "by_duration:", "by_duration:PT", "by_duration:-PT1H", "by_duration:1h"])
def test_texts_that_are_no_reset_policy(text: str) -> None:
    with pytest.raises(ValueError, match=r"policy|duration"):
        AutoOffsetReset(text)


@pytest.mark.parametrize("age", [timedelta(0), timedelta(days=7), timedelta(hours=1, milliseconds=5), timedelta(1, 1)])
def test_durations_survive_their_text(age: timedelta) -> None:
    assert AutoOffsetReset(AutoOffsetReset.by_duration(age).value).age == age
    with pytest.raises(ValueError, match="negative"):
        AutoOffsetReset.by_duration(-age - timedelta(1))
