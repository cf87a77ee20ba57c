"""Each operator briefly, through the driver, with the rules of Java that are easily got wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace.api.options import Branched, Consumed, Grouped, Joined, Materialized, Named, Produced, Repartitioned
from headrace.api.stores import StoreType
from headrace.dsl import StreamsBuilder
from headrace.errors import FailedProcessingException, StreamsException
from headrace.serdes import JsonSerde, Serdes
from headrace.state.builders import Stores
from headrace.testing.driver import TestRecord, TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.dsl import KStream

TEXT, LONG = Serdes.String(), Serdes.Long()
CONFIG = {"default.key.serde": TEXT, "default.value.serde": TEXT}
UNCACHED = {**CONFIG, "statestore.cache.max.bytes": 0}


class App:
    """A driver with text topics by name."""

    def __init__(self, builder: StreamsBuilder, config: dict[str, Any] | None = None) -> None:
        self.driver = TopologyTestDriver(builder.build(), config or CONFIG, initial_wall_clock_ms=0)

    def pipe(self, topic: str, *rows: tuple[Any, ...]) -> None:
        """``(key, value)`` or ``(key, value, timestamp)``."""
        handle = self.driver.create_input_topic(topic, TEXT.serializer, TEXT.serializer)
        for row in rows:
            handle.pipe_input(*row)

    def read(self, topic: str = "out", value: Any = TEXT) -> list[tuple[Any, ...]]:
        handle = self.driver.create_output_topic(topic, TEXT.deserializer, value.deserializer)
        return [(r.key, r.value, r.timestamp) for r in handle.read_records_to_list()]

    def dropped(self) -> int:
        return sum(self.driver.dropped_records().values())


@pytest.fixture
def run() -> Iterator[Callable[..., App]]:
    made: list[App] = []

    def start(builder: StreamsBuilder, config: dict[str, Any] | None = None) -> App:
        made.append(App(builder, config))
        return made[-1]

    yield start
    for app in made:
        app.driver.close()


Run = "Callable[..., App]"

STATELESS: dict[str, tuple[Callable[[Any], Any], list[tuple[Any, Any]]]] = {
    "filter": (lambda s: s.filter(lambda k, v: v == "b"), [("k", "b")]),
    "filter truthy": (lambda s: s.filter(lambda k, v: [v] if v == "b" else []), [("k", "b")]),
    "filter_not": (lambda s: s.filter_not(lambda k, v: v == "b"), [("k", "a"), (None, None)]),
    "map": (lambda s: s.map(lambda k, v: (v, k)), [("a", "k"), ("b", "k"), (None, None)]),
    "map_values": (lambda s: s.map_values(lambda v: f"<{v}>"), [("k", "<a>"), ("k", "<b>"), (None, "<None>")]),
    "map_values with key": (
        lambda s: s.map_values(lambda k, v: f"{k}{v}", with_key=True),
        [("k", "ka"), ("k", "kb"), (None, "NoneNone")],
    ),
    "select_key": (lambda s: s.select_key(lambda k, v: v), [("a", "a"), ("b", "b"), (None, None)]),
    "flat_map": (
        lambda s: s.flat_map(lambda k, v: [(v, "1"), (k, "2")] if v == "a" else []),
        [("a", "1"), ("k", "2")],
    ),
    "flat_map_values": (
        lambda s: s.flat_map_values(lambda v: () if v is None else (v, v)),
        [("k", "a"), ("k", "a"), ("k", "b"), ("k", "b")],
    ),
    "flat_map_values with key": (
        lambda s: s.flat_map_values(lambda k, v: [k], with_key=True),
        [("k", "k"), ("k", "k"), (None, None)],
    ),
    "peek": (lambda s: s.peek(lambda k, v: 1), [("k", "a"), ("k", "b"), (None, None)]),
}


@pytest.mark.parametrize("name", STATELESS)
def test_operators_without_state(name: str, run: Any) -> None:
    operate, expected = STATELESS[name]
    builder = StreamsBuilder()
    operate(builder.stream("in")).to("out")
    app = run(builder)
    app.pipe("in", ("k", "a", 7), ("k", "b", 7), (None, None, 7))
    assert app.read() == [(key, value, 7) for key, value in expected]
    assert app.dropped() == 0


def test_headers_and_times_pass_every_stateless_operator(run: Any) -> None:
    builder = StreamsBuilder()
    (
        builder.stream("in")
        .filter(lambda k, v: True)
        .map(lambda k, v: (k, v))
        .flat_map_values(lambda v: [v])
        .repartition(Repartitioned.as_("r"))
        .to("out")
    )
    app = run(builder)
    source = app.driver.create_input_topic("in", TEXT.serializer, TEXT.serializer)
    source.pipe_record(TestRecord("k", "v", 5, [("h", b"1"), ("h", None)]))
    out = app.driver.create_output_topic("out", TEXT.deserializer, TEXT.deserializer)
    assert out.read_record() == TestRecord("k", "v", 5, [("h", b"1"), ("h", None)])


def test_for_each_ends_there(run: Any) -> None:
    seen: list[Any] = []
    builder = StreamsBuilder()
    builder.stream("in").for_each(lambda k, v: seen.append((k, v)))
    app = run(builder)
    app.pipe("in", ("k", "a"), (None, None))
    assert seen == [("k", "a"), (None, None)]
    assert app.driver.produced_topic_names() == frozenset()


def test_a_flat_map_that_fails_in_the_middle_forwards_nothing(run: Any) -> None:
    def half(key: Any, value: Any) -> Any:
        yield key, "first"
        raise ValueError("second")

    builder = StreamsBuilder()
    builder.stream("in").flat_map(half).to("out")
    app = run(builder, {**CONFIG, "processing.exception.handler": "headrace:LogAndContinueProcessingExceptionHandler"})
    app.pipe("in", ("k", "v"))
    assert app.read() == []
    assert app.dropped() == 1


@pytest.mark.parametrize("result", [["k", "v"], ("k",), ("k", "v", "w"), "kv", None])
def test_map_gives_a_pair_or_fails(result: Any, run: Any) -> None:
    builder = StreamsBuilder()
    builder.stream("in").map(lambda k, v: result).to("out")
    app = run(builder)
    with pytest.raises(FailedProcessingException, match=r"map's function must give a \(key, value\) tuple"):
        app.pipe("in", ("k", "v"))


def test_a_record_goes_to_the_first_branch_that_takes_it(run: Any) -> None:
    builder = StreamsBuilder()
    asked: list[str] = []

    def starts(letter: str) -> Callable[[Any, Any], bool]:
        def predicate(key: Any, value: Any) -> bool:
            asked.append(letter)
            return bool(value.startswith(letter))

        return predicate

    branches: Any = (
        builder.stream("in")
        .split(Named.as_("sp-"))
        .branch(starts("a"), Branched.as_("a"))
        .branch(starts("ab"))
        .branch(starts("b"), Branched.with_consumer(lambda s: s.to("consumed")))
        .branch(starts("c"), Branched.with_function(lambda s: s.map_values(str.upper), "c"))
        .branch(starts("d"), Branched.with_function(lambda s: None, "d"))
        .default_branch()
    )
    assert list(branches) == ["sp-a", "sp-2", "sp-c", "sp-0"]
    for name, stream in branches.items():
        stream.to(name)
    app = run(builder)
    app.pipe("in", ("k", "abc"), ("k", "b"), ("k", "c"), ("k", "d"), ("k", "e"))
    assert [v for _, v, _ in app.read("sp-a")] == ["abc"]
    assert app.read("sp-2") == []
    assert [v for _, v, _ in app.read("consumed")] == ["b"]
    assert [v for _, v, _ in app.read("sp-c")] == ["C"]
    assert [v for _, v, _ in app.read("sp-0")] == ["e"]
    assert asked[0] == "a"
    assert asked[1] != "ab"  # the first that holds ends the asking


def test_without_a_default_branch_the_rest_is_gone_and_not_counted(run: Any) -> None:
    builder = StreamsBuilder()
    branches: Any = builder.stream("in").split().branch(lambda k, v: v == "a").no_default_branch()
    for stream in branches.values():
        stream.to("out")
    app = run(builder)
    app.pipe("in", ("k", "a"), ("k", "b"))
    assert len(app.read()) == 1
    assert app.dropped() == 0


def test_merge_keeps_the_order_of_arrival(run: Any) -> None:
    builder = StreamsBuilder()
    one: Any = builder.stream("one")
    two: Any = builder.stream("two")
    one.merge(two).to("out")
    app = run(builder)
    app.pipe("one", ("k", "1"))
    app.pipe("two", ("k", "2"))
    app.pipe("one", ("k", "3"))
    assert [v for _, v, _ in app.read()] == ["1", "2", "3"]


def test_children_get_a_record_in_the_order_in_which_they_were_added(run: Any) -> None:
    order: list[str] = []
    builder = StreamsBuilder()
    stream: Any = builder.stream("in")
    for name in ("c", "a", "b"):
        stream.for_each(lambda k, v, name=name: order.append(name))
    app = run(builder)
    app.pipe("in", ("k", "v"), ("k", "v"))
    assert order == ["c", "a", "b"] * 2


def test_a_stream_of_several_topics(run: Any) -> None:
    builder = StreamsBuilder()
    builder.stream(["one", "two"]).to("out")
    app = run(builder)
    app.pipe("two", ("k", "2"))
    app.pipe("one", ("k", "1"))
    assert [v for _, v, _ in app.read()] == ["2", "1"]


def test_repartition_goes_through_its_topic_without_records_that_have_no_key(run: Any) -> None:
    builder = StreamsBuilder()
    builder.stream("in").select_key(lambda k, v: v if v != "none" else None).repartition(Repartitioned.as_("r")).to(
        "out"
    )
    app = run(builder)
    app.pipe("in", ("k", "a", 5), ("k", "none", 6))
    assert app.read("topology-test-driver-r-repartition") == [("a", "a", 5)]
    assert app.read() == [("a", "a", 5)]
    assert app.dropped() == 0, "Java does not count them either"


def counted(stream: KStream[Any, Any], **how: Any) -> Any:
    return stream.group_by_key().count(Materialized.as_("rows").with_value_serde(LONG), **how)


@pytest.mark.parametrize("config", [CONFIG, UNCACHED], ids=["cached", "uncached"])
def test_count(config: dict[str, Any], run: Any) -> None:
    builder = StreamsBuilder()
    counted(builder.stream("in")).to_stream().to("out", Produced.with_(TEXT, LONG))
    app = run(builder, config)
    app.pipe("in", ("a", "x", 5), ("b", "x", 9), ("a", "x", 3), (None, "x", 1), ("a", None, 1))
    assert app.read(value=LONG) == [("a", 1, 5), ("b", 1, 9), ("a", 2, 5)]
    assert app.dropped() == 2
    changelog = app.read("topology-test-driver-rows-changelog", LONG)
    assert changelog == [("a", 1, 5), ("b", 1, 9), ("a", 2, 5)]


@pytest.mark.parametrize("config", [CONFIG, UNCACHED], ids=["cached", "uncached"])
def test_reduce_begins_with_the_first_value_and_none_deletes(config: dict[str, Any], run: Any) -> None:
    builder = StreamsBuilder()
    calls: list[tuple[str, str]] = []

    def reducer(old: str, new: str) -> Any:
        calls.append((old, new))
        return None if new == "stop" else old + new

    builder.stream("in").group_by_key().reduce(reducer, Materialized.as_("rows")).to_stream().to("out")
    app = run(builder, config)
    app.pipe("in", ("a", "1", 5), ("a", "2", 9), ("a", "stop", 3), ("a", "4", 1), (None, "x", 1), ("a", None, 1))
    assert [row[:2] for row in app.read()] == [("a", "1"), ("a", "12"), ("a", None), ("a", "4")]
    assert calls == [("1", "2"), ("12", "stop")]
    assert app.dropped() == 2
    assert app.read("topology-test-driver-rows-changelog") == [
        ("a", "1", 5),
        ("a", "12", 9),
        ("a", None, 3),
        ("a", "4", 1),
    ]


@pytest.mark.parametrize("config", [CONFIG, UNCACHED], ids=["cached", "uncached"])
def test_an_aggregator_may_change_its_aggregate_in_place(config: dict[str, Any], run: Any) -> None:
    serde: JsonSerde[list[str]] = JsonSerde(list[str])

    def add(key: str, value: str, aggregate: list[str]) -> list[str]:
        aggregate.append(value)
        if value == "bad":
            raise ValueError("after the change")
        return aggregate

    builder = StreamsBuilder()
    stream: Any = builder.stream("in")
    table = stream.group_by_key().aggregate(list, add, Materialized.as_("rows").with_value_serde(serde))
    table.to_stream().to("out", Produced.with_(TEXT, serde))
    app = run(builder, {**config, "processing.exception.handler": "headrace:LogAndContinueProcessingExceptionHandler"})
    app.pipe("in", ("a", "1"), ("a", "2"), ("a", "bad"), ("a", "3"), ("b", "x"))
    assert [row[:2] for row in app.read(value=serde)] == [
        ("a", ["1"]),
        ("a", ["1", "2"]),
        ("a", ["1", "2", "3"]),
        ("b", ["x"]),
    ]
    store: Any = app.driver.get_key_value_store("rows")
    assert store.get("a") == ["1", "2", "3"]


def test_an_aggregate_of_none_deletes_the_row_and_begins_anew(run: Any) -> None:
    builder = StreamsBuilder()

    def join(key: str, value: str, aggregate: str) -> Any:
        return None if value == "x" else aggregate + value

    table: Any = builder.stream("in").group_by_key().aggregate(lambda: "0", join, Materialized.as_("rows"))
    table.to_stream().to("out")
    app = run(builder, UNCACHED)
    app.pipe("in", ("a", "1", 5), ("a", "x", 6), ("a", "x", 7), ("a", "2", 8), ("a", "x", 3))
    assert app.read() == [("a", "01", 5), ("a", None, 6), ("a", None, 7), ("a", "02", 8), ("a", None, 8)]
    logged = app.read("topology-test-driver-rows-changelog")
    assert [row[2] for row in logged if row[1] is None] == [6, 7, 3], "a tombstone has the time of its record"


def test_grouping_by_another_key_goes_through_a_topic(run: Any) -> None:
    builder = StreamsBuilder()
    grouped: Any = builder.stream("in").group_by(lambda k, v: v, Grouped.as_("by-value"))
    grouped.count(Materialized.as_("rows").with_value_serde(LONG)).to_stream().to("out", Produced.with_(TEXT, LONG))
    app = run(builder)
    app.pipe("in", ("1", "a"), ("2", "b"), ("3", "a"))
    assert [row[:2] for row in app.read(value=LONG)] == [("a", 1), ("b", 1), ("a", 2)]
    assert "topology-test-driver-by-value-repartition" in app.driver.produced_topic_names()


@pytest.mark.parametrize("config", [CONFIG, UNCACHED], ids=["cached", "uncached"])
def test_a_table_keeps_the_latest_row_even_an_older_one(config: dict[str, Any], run: Any) -> None:
    builder = StreamsBuilder()
    builder.table("in", materialized=Materialized.as_("rows")).to_stream().to("out")
    app = run(builder, config)
    app.pipe("in", ("a", "1", 10), ("a", "older", 5), ("b", "x", 1), ("b", None, 2), (None, "x", 3))
    assert app.read() == [("a", "1", 10), ("a", "older", 5), ("b", "x", 1), ("b", None, 2)]
    assert app.dropped() == 1
    store: Any = app.driver.get_timestamped_key_value_store("rows")
    assert list(store.all()) == [("a", ("older", 5))]


def test_a_delete_of_a_row_that_never_was(run: Any) -> None:
    for config, expected in ((CONFIG, []), (UNCACHED, [("a", None, 1)])):
        builder = StreamsBuilder()
        builder.table("in", materialized=Materialized.as_("rows")).to_stream().to("out")
        app = run(builder, config)
        app.pipe("in", ("a", None, 1))
        assert app.read() == expected


def test_a_table_that_nobody_looks_up_has_no_store_and_forwards_all(run: Any) -> None:
    builder = StreamsBuilder()
    builder.table("in").to_stream().to("out")
    app = run(builder)
    app.pipe("in", ("a", "1"), ("a", None), (None, "x"))
    assert [row[:2] for row in app.read()] == [("a", "1"), ("a", None)]
    assert app.driver.get_all_state_stores() == {}
    assert app.dropped() == 1


def test_to_table_upserts_and_drops_records_without_a_key(run: Any) -> None:
    builder = StreamsBuilder()
    builder.stream("in").to_table(Materialized.as_("rows")).to_stream(lambda k, v: f"{k}!").to("out")
    app = run(builder)
    app.pipe("in", ("a", "1"), (None, "x"), ("a", None))
    assert [row[:2] for row in app.read()] == [("a!", "1"), ("a!", None)]
    assert app.dropped() == 1


def joined(left: bool, **how: Any) -> StreamsBuilder:
    builder = StreamsBuilder()
    table: Any = builder.table("table")
    stream: Any = builder.stream("in")
    join = stream.left_join if left else stream.join
    join(table, lambda value, row: f"{value}+{row}", **how).to("out")
    return builder


def test_a_join_looks_up_and_the_table_alone_makes_no_results(run: Any) -> None:
    app = run(joined(left=False))
    app.pipe("in", ("a", "early", 1))
    app.pipe("table", ("a", "row", 90))
    app.pipe("in", ("a", "1", 50), ("b", "1", 50), (None, "x", 50), ("a", None, 50))
    app.pipe("table", ("a", None, 95))
    app.pipe("in", ("a", "2", 51))
    assert app.read() == [("a", "1+row", 50)], "the time is the stream record's"
    assert app.dropped() == 2


def test_a_left_join_passes_what_finds_nothing(run: Any) -> None:
    app = run(joined(left=True))
    app.pipe("table", ("a", "row", 1))
    app.pipe("in", ("a", "1", 5), ("b", "2", 5), (None, "3", 5), ("a", None, 5), (None, None, 5))
    assert app.read() == [("a", "1+row", 5), ("b", "2+None", 5), (None, "3+None", 5)]
    assert app.dropped() == 2


def test_a_joiner_with_the_key(run: Any) -> None:
    builder = StreamsBuilder()
    table: Any = builder.table("table")
    stream: Any = builder.stream("in")
    stream.join(table, lambda k, v, row: f"{k}:{v}:{row}", with_key=True).to("out")
    app = run(builder)
    app.pipe("table", ("a", "row"))
    app.pipe("in", ("a", "1"))
    assert [row[1] for row in app.read()] == ["a:1:row"]


def test_a_left_join_behind_a_repartition_keeps_records_without_a_key(run: Any) -> None:
    builder = StreamsBuilder()
    table: Any = builder.table("table")
    stream: Any = builder.stream("in")
    stream.select_key(lambda k, v: None).left_join(table, lambda v, row: f"{v}+{row}", Joined.as_("j")).to("out")
    app = run(builder)
    app.pipe("in", ("a", "1"))
    assert [row[:2] for row in app.read()] == [(None, "1+None")]


def test_a_joined_row_changed_in_place_stays_as_it_was(run: Any) -> None:
    serde: JsonSerde[list[int]] = JsonSerde(list[int])

    def joiner(value: str, row: list[int]) -> str:
        row.append(99)
        return f"{value}{row}"

    builder = StreamsBuilder()
    stream: Any = builder.stream("in")
    stream.join(builder.table("table", Consumed.with_(TEXT, serde)), joiner).to("out")
    app = run(builder)
    app.driver.create_input_topic("table", TEXT.serializer, serde.serializer).pipe_input("a", [1])
    app.pipe("in", ("a", "x"), ("a", "y"))
    assert [row[1] for row in app.read()] == ["x[1, 99]", "y[1, 99]"]


def test_a_table_over_a_plain_supplier_forgets_times(run: Any) -> None:
    builder = StreamsBuilder()
    plain = Stores.persistent_key_value_store("rows")
    table: Any = builder.stream("in").group_by_key().count(Materialized.as_(plain).with_value_serde(LONG))
    table.to_stream().to("out", Produced.with_(TEXT, LONG))
    app = run(builder, UNCACHED)
    app.pipe("in", ("a", "x", 50), ("a", "x", 3))
    assert app.read(value=LONG) == [("a", 1, 50), ("a", 2, 3)], (
        "the old row's time is not known, so the record's counts"
    )


def test_an_in_memory_table(run: Any) -> None:
    builder = StreamsBuilder()
    rows: Materialized[Any, Any] = Materialized.as_("rows").with_store_type(StoreType.IN_MEMORY)
    builder.table("in", materialized=rows)
    app = run(builder)
    app.pipe("in", ("b", "2"), ("a", "1"))
    assert not app.driver.get_state_store("rows").persistent
    assert list(app.driver.get_key_value_store("rows").all()) == [("a", "1"), ("b", "2")]


def test_a_store_without_logging_has_no_changelog(run: Any) -> None:
    builder = StreamsBuilder()
    builder.table("in", materialized=Materialized.as_("rows").with_logging_disabled())
    app = run(builder)
    app.pipe("in", ("a", "1"))
    assert app.driver.produced_topic_names() == frozenset()
    assert app.driver.get_key_value_store("rows").get("a") == "1"


def test_a_serde_that_does_not_fit_names_the_sink(run: Any) -> None:
    builder = StreamsBuilder()
    builder.stream("in").map_values(lambda v: 5).to("out")
    app = run(builder)
    with pytest.raises(
        StreamsException,
        match=r"for out is a int that StringSerializer does not take .*KSTREAM-SINK-0000000002",
    ):
        app.pipe("in", ("a", "1"))
