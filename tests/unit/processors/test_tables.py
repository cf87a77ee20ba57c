"""Operators of tables: what goes wrong easily, and values that users change in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace import (
    Consumed,
    Grouped,
    JsonSerde,
    Materialized,
    Named,
    Produced,
    Serdes,
    Stores,
    StreamsBuilder,
    TableJoined,
    ValueTransformerWithKey,
)
from headrace.api.handlers import LogAndContinueProcessingExceptionHandler
from headrace.api.serde import Deserializer
from headrace.errors import FailedProcessingException, StreamsException, TopologyException
from headrace.partitioning import partition_for_key
from headrace.testing import TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace import KTable
    from headrace.api.processor import TransformerContext

TEXT, LONG = Serdes.String(), Serdes.Long()
ANY: Any = JsonSerde()
CONFIG = {"default.key.serde": TEXT, "default.value.serde": TEXT}
TEXTS = Consumed.with_(TEXT, TEXT)
OBJECTS = Consumed.with_(TEXT, ANY)
UNCACHED = Materialized.with_(TEXT, ANY).with_caching_disabled()


class App:
    """A driver that pipes and reads by topic; values of ``out`` are JSON."""

    def __init__(self, builder: StreamsBuilder, config: dict[str, Any] | None = None, **options: Any) -> None:
        config = {**CONFIG, **(config or {})}
        self.driver = TopologyTestDriver(builder.build(config), config, 0, **options)

    def pipe(self, topic: str, *rows: tuple[Any, ...], serde: Any = TEXT) -> None:
        handle = self.driver.create_input_topic(topic, TEXT.serializer, serde.serializer)
        for row in rows:
            handle.pipe_input(*row)

    def read(self, serde: Any = TEXT) -> list[tuple[Any, Any]]:
        return self.driver.create_output_topic("out", TEXT.deserializer, serde.deserializer).read_key_values_to_list()


@pytest.fixture
def run() -> Iterator[Callable[..., App]]:
    made: list[App] = []

    def make(builder: StreamsBuilder, config: dict[str, Any] | None = None, **options: Any) -> App:
        made.append(App(builder, config, **options))
        return made[-1]

    yield make
    for app in made:
        app.driver.close()


def _total(total: dict[str, Any], value: dict[str, Any], sign: int) -> dict[str, Any]:
    total["sum"] = total.get("sum", 0) + sign * value["n"]  # in place
    total.setdefault("seen", []).append(value["n"])
    return total


@pytest.mark.parametrize("cached", [True, False])
def test_an_aggregate_changed_in_place_leaves_the_old_one_alone(run: Callable[..., App], cached: bool) -> None:
    builder = StreamsBuilder()
    rows = builder.table("rows", OBJECTS)
    store = Materialized.as_("totals").with_value_serde(ANY)
    totals = rows.group_by(lambda key, value: (value["of"], value), Grouped.with_(TEXT, ANY)).aggregate(
        dict,
        lambda key, value, total: _total(total, value, 1),
        lambda key, value, total: _total(total, value, -1),
        store if cached else store.with_caching_disabled(),
    )
    # whoever groups the totals gets old and new ones: all old ones must be taken out again
    by_sum = totals.group_by(lambda key, total: (str(total["sum"]), key), Grouped.with_(TEXT, TEXT))
    by_sum.count().to_stream().to("out", Produced.with_(TEXT, LONG))
    app = run(builder)
    app.pipe("rows", ("a", {"of": "x", "n": 1}), ("b", {"of": "x", "n": 2}), ("a", {"of": "x", "n": 5}), serde=ANY)
    last = dict(app.read(LONG))
    assert {key: count for key, count in last.items() if count} == {"7": 1}


def test_the_rows_that_a_joiner_changes_in_place_are_its_own(run: Callable[..., App]) -> None:
    builder = StreamsBuilder()
    left = builder.table("left", OBJECTS, UNCACHED)
    right = builder.table("right", OBJECTS, UNCACHED)

    def put_into_right(one: Any, other: Any) -> Any:
        other["left"] = one["n"]
        return other

    joined = left.join(right, put_into_right)
    grouped = joined.group_by(lambda key, value: (str(value["left"]), "1"), Grouped.with_(TEXT, TEXT))
    grouped.count().to_stream().to("out", Produced.with_(TEXT, LONG))
    app = run(builder)
    app.pipe("right", ("a", {"n": 0}), serde=ANY)
    app.pipe("left", ("a", {"n": 1}), ("a", {"n": 2}), ("a", {"n": 3}), serde=ANY)
    assert {key: count for key, count in app.read(LONG) if count} == {"1": 1, "2": 1, "3": 1}
    assert dict(app.read(LONG)) == {}
    view = app.driver.get_all_state_stores()
    assert view["right-STATE-STORE-0000000003"].get("a").value == {"n": 0}


class _Describing(ValueTransformerWithKey[str, str, str]):
    """Says what its context says of the row."""

    closed = 0

    def init(self, context: TransformerContext) -> None:
        self._context = context

    def transform(self, key: str, value: str | None) -> str | None:
        context = self._context
        at = context.record_metadata()
        where = "nowhere" if at is None else f"{at.topic}/{at.offset}"
        return None if value is None else f"{value}@{context.timestamp()} {where} {context.headers()}"

    def close(self) -> None:
        type(self).closed += 1


def test_a_transformer_knows_the_record_and_outside_of_one_the_row(run: Callable[..., App]) -> None:
    builder = StreamsBuilder()
    table = builder.table("in", TEXTS).transform_values(_Describing)
    table.to_stream().to("out")
    builder.stream("ask", TEXTS).join(table, lambda value, row: row).to("out")
    app = run(builder)
    driver_in = app.driver.create_input_topic("in", TEXT.serializer, TEXT.serializer)
    driver_in.pipe_input("k", "v", 5, [("h", b"1")])
    app.pipe("ask", ("k", "?", 99))
    assert app.read() == [("k", "v@5 in/0 [('h', b'1')]"), ("k", "v@5 nowhere []")]
    _Describing.closed = 0
    app.driver.close()
    assert _Describing.closed == 2  # the table's own, and the one of who looks its rows up


def test_a_transformer_that_is_not_new_is_refused() -> None:
    one = _Describing()
    with pytest.raises(TopologyException, match="gave the same object twice"):
        StreamsBuilder().table("in", TEXTS).transform_values(lambda: one)


def test_a_failing_function_names_its_operator(run: Callable[..., App]) -> None:
    builder = StreamsBuilder()
    builder.table("in", TEXTS).map_values(lambda value: int(value), named=Named.as_("to-number")).to_stream().to("out")
    app = run(builder)
    with pytest.raises(StreamsException) as caught:
        app.pipe("in", ("k", "seven"))
    error: BaseException | None = caught.value
    while error is not None and not isinstance(error, FailedProcessingException):
        error = error.__cause__
    assert error is not None
    assert "processor=to-number, topic=in, partition=0, offset=0" in str(error)
    assert isinstance(error.__cause__, ValueError)


def test_group_by_needs_a_pair(run: Callable[..., App]) -> None:
    builder = StreamsBuilder()
    wrong: Any = lambda key, value: value  # noqa: E731  # a user's mistake
    builder.table("in", TEXTS).group_by(wrong).count().to_stream().to("out", Produced.with_(TEXT, LONG))
    with pytest.raises(StreamsException, match="group_by's function must give a"):
        run(builder).pipe("in", ("k", "v"))


def _orders_and_customers(how: TableJoined[str, str] | None, consumed: Consumed[str, str] = TEXTS) -> StreamsBuilder:
    builder = StreamsBuilder()
    orders: KTable[str, str] = builder.table("orders", consumed)
    customers: KTable[str, str] = builder.table("customers", TEXTS)
    orders.left_join(
        customers, lambda order, customer: f"{order}/{customer}", foreign_key_extractor=lambda o: o[0], table_joined=how
    ).to_stream().to("out")
    return builder


class _Fixed:
    def __init__(self, *partitions: int) -> None:
        self._partitions = frozenset(partitions)

    def partitions(self, topic: str, key: Any, value: Any, num_partitions: int) -> frozenset[int] | None:
        assert value is None
        return self._partitions


@pytest.mark.parametrize("off", [0, 1])
def test_partitioners_of_a_foreign_key_join_decide_where_its_records_go(run: Callable[..., App], off: int) -> None:
    order_lies, customer_lies = partition_for_key(b"1", 3), partition_for_key(b"c", 3)
    how = TableJoined.with_(_Fixed(order_lies), _Fixed((customer_lies + off) % 3)).with_name("fk")
    app = run(_orders_and_customers(how), partitions=3)
    app.pipe("customers", ("c", "Carl"))
    app.pipe("orders", ("1", "c1"))
    assert app.read() == [("1", "c1/None" if off else "c1/Carl")]


def test_a_partitioner_of_a_foreign_key_join_must_give_one_partition(run: Callable[..., App]) -> None:
    app = run(_orders_and_customers(TableJoined.as_("fk").with_other_partitioner(_Fixed(0, 1))))
    with pytest.raises(StreamsException, match=r"must give one partition, not \[0, 1\]"):
        app.pipe("orders", ("1", "c1"))


class BreakingReader(Deserializer[str]):
    """Reads text, but no longer every key of a subscription."""

    unreadable = b""

    def deserialize(self, topic: str, data: bytes | None) -> str | None:
        if topic.endswith("-pk") and data == self.unreadable:
            raise ValueError("unreadable")
        return None if data is None else data.decode()


def test_subscriptions_of_a_right_row_are_answered_one_by_one(run: Callable[..., App]) -> None:
    reader = BreakingReader()
    keys = Consumed.with_(Serdes.from_(TEXT.serializer, reader), TEXT)
    handler = {"processing.exception.handler": LogAndContinueProcessingExceptionHandler()}
    app = run(_orders_and_customers(TableJoined.as_("fk"), keys), handler)
    app.pipe("orders", *((str(number), "c") for number in range(4)))
    app.read()
    reader.unreadable = b"2"
    app.pipe("customers", ("c", "Carl"))
    assert app.read() == [("0", "c/Carl"), ("1", "c/Carl")], "as in Java, those before the one that failed"


def test_names_of_a_foreign_key_join_are_checked_with_their_endings() -> None:
    with pytest.raises(TopologyException, match=r"has 26\d characters"):
        _orders_and_customers(TableJoined.as_("x" * 240))


def test_a_table_without_name_keeps_rows_only_when_they_are_needed() -> None:
    builder = StreamsBuilder()
    table = builder.table("in", TEXTS)
    mapped = table.map_values(str.upper)
    assert builder.build().state_store_names == ()
    assert mapped.queryable_store_name() is None
    mapped.group_by(lambda key, value: (value, key)).count(Materialized.as_("counts"))
    assert set(builder.build().state_store_names) == {"in-STATE-STORE-0000000000", "counts"}


def test_a_topology_may_be_built_twice_with_other_optimizations() -> None:
    builder = StreamsBuilder()
    by_value = builder.stream("in", TEXTS).select_key(lambda key, value: value)
    by_value.group_by_key().count(Materialized.as_("one"))
    by_value.group_by_key().count(Materialized.as_("two"))
    plain = builder.build({"topology.optimization": "none"}).build("app")
    merged = builder.build({"topology.optimization": "all"}).build("app")
    assert [sorted(sub.repartition_topics) for sub in plain.subtopologies] == [
        [], ["app-one-repartition"], ["app-two-repartition"],
    ]  # fmt: skip
    assert [sorted(sub.repartition_topics) for sub in merged.subtopologies] == [[], ["app-one-repartition"]]
    assert builder.build().build("app").description == plain.description


def test_unnamed_resources_are_all_in_the_refusal() -> None:
    builder = StreamsBuilder({"ensure.explicit.internal.resource.naming": True})
    builder.stream("in", TEXTS).group_by(lambda key, value: value).count()
    with pytest.raises(TopologyException) as caught:
        builder.build()
    for name in ("KSTREAM-AGGREGATE-STATE-STORE-0000000002", "-0000000002-changelog", "-0000000002-repartition"):
        assert name in str(caught.value)


def test_a_versioned_table_joins_each_record_with_the_row_of_its_time(run: Callable[..., App]) -> None:
    builder = StreamsBuilder()
    prices = builder.table(
        "prices", TEXTS, Materialized.as_(Stores.persistent_versioned_key_value_store("prices", 1000))
    )
    builder.stream("orders", TEXTS).join(prices, lambda order, price: f"{order} at {price}").to("out")
    app = run(builder)
    app.pipe("prices", ("a", "10", 100), ("a", "12", 200))
    app.pipe("orders", ("a", "early", 150), ("a", "late", 250), ("a", "before", 50))
    assert app.read() == [("a", "early at 10"), ("a", "late at 12")]
