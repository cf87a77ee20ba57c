"""Serdes that follow from the graph count where nothing is configured, and nowhere else."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from headrace.api.options import Consumed, Joined, Materialized, Produced, Repartitioned
from headrace.dsl import StreamsBuilder
from headrace.dsl.inference import returned
from headrace.errors import TopologyException
from headrace.serdes import Serde, Serdes
from headrace.testing import TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Callable
    from decimal import Decimal  # only for type checkers, on purpose

TEXT, NUMBER = Serdes.String(), Serdes.Long()
IN = Consumed.with_(TEXT, TEXT)


def word(key: str, value: str) -> str:
    return value.split()[0]


def length(value: str) -> int:
    return len(value)


def half(value: int) -> float | None:
    return value / 2


def known_elsewhere(value: str) -> Decimal:
    raise NotImplementedError


class Namer:
    def __call__(self, value: str) -> str:
        return value


@pytest.mark.parametrize(
    ("function", "serde"),
    [
        (str, "StringSerde"),
        (int, "LongSerde"),
        (float, "DoubleSerde"),
        (bool, "BooleanSerde"),
        (bytes, "BytesSerde"),
        (uuid.UUID, "UUIDSerde"),
        (length, "LongSerde"),
        (half, "DoubleSerde"),
        (list, None),
        (len, None),
        (str.upper, None),
        (known_elsewhere, None),
        (lambda v: v, None),
        (Namer(), None),
    ],
)
def test_what_a_function_returns(function: Callable[..., Any], serde: str | None) -> None:
    found = returned(function)
    assert (None if found is None else type(found).__name__) == serde


def run(
    build: Callable[[StreamsBuilder], object],
    *records: tuple[str, str],
    key: Serde[Any],
    value: Serde[Any],
    **config: Any,
) -> list[tuple[Any, Any]]:
    builder = StreamsBuilder()
    build(builder)
    settings = {name.replace("_", "."): given for name, given in config.items()}
    with TopologyTestDriver(builder.build(), settings) as driver:
        topic = driver.create_input_topic("in", TEXT.serializer, TEXT.serializer)
        for record in records:
            topic.pipe_input(*record)
        return driver.create_output_topic("out", key.deserializer, value.deserializer).read_key_values_to_list()


def test_kept_serdes_reach_the_sink() -> None:
    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", IN).filter(lambda k, v: True).peek(lambda k, v: None)
        stream.split().default_branch()
        stream.to("out")

    assert run(build, ("k", "v"), key=TEXT, value=TEXT) == [("k", "v")]


def test_annotated_functions_and_what_they_are_grouped_by() -> None:
    def build(builder: StreamsBuilder) -> None:
        counts = builder.stream("in", IN).select_key(word).group_by_key().count()
        counts.to_stream().map_values(half).to("out")

    records = [("k", "a b"), ("k", "a c"), ("k", "b")]
    assert run(build, *records, key=TEXT, value=Serdes.Double()) == [("a", 0.5), ("a", 1.0), ("b", 0.5)]


def test_a_class_as_a_function() -> None:
    def build(builder: StreamsBuilder) -> None:
        builder.stream("in", IN).map_values(int).to("out")

    assert run(build, ("k", "7"), key=TEXT, value=NUMBER) == [("k", 7)]


def test_a_merge_keeps_what_its_streams_agree_on() -> None:
    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", Consumed.with_(Serdes.String(), Serdes.String()))
        other = builder.stream("other", Consumed.with_(Serdes.String(), Serdes.String()))
        stream.merge(other).repartition(Repartitioned.as_("both")).to("out")

    assert run(build, ("k", "v"), key=TEXT, value=TEXT) == [("k", "v")]


def test_a_merge_of_different_types_is_not_known() -> None:
    builder = StreamsBuilder()
    numbers: Any = builder.stream("numbers", Consumed.with_(TEXT, NUMBER))
    builder.stream("in", IN).merge(numbers).to("out")
    with pytest.raises(TopologyException, match="no serde for the value for topic out at sink KSTREAM-SINK"):
        TopologyTestDriver(builder.build())


def test_stores_of_tables_and_aggregates() -> None:
    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", IN)
        table = stream.map_values(length).to_table(materialized=Materialized.as_("lengths"))
        total = stream.group_by_key().aggregate(int, lambda k, v, total: total + len(v))
        total.join(table, lambda total, last: total * 100 + last).to_stream().map_values(int).to("out")

    assert run(build, ("k", "abc"), ("k", "de"), key=TEXT, value=NUMBER)[-1] == ("k", 502)


def test_joins_keep_the_key() -> None:
    def joined(left: str, right: str) -> str:
        return left + right

    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", IN)
        stream.join(stream.to_table(), joined, Joined.with_(TEXT, TEXT)).to("out")

    assert run(build, ("k", "a"), key=TEXT, value=TEXT) == [("k", "aa")]


def test_a_configured_default_goes_first_as_in_java() -> None:
    def build(builder: StreamsBuilder) -> None:
        builder.stream("in", IN).map_values(length).to("out")

    assert run(build, ("k", "abc"), key=TEXT, value=Serdes.Integer(), default_value_serde=Serdes.Integer()) == [
        ("k", 3)
    ]
    # the configured one is taken even where it does not fit, and says so
    with pytest.raises(Exception, match="for out is a int that StringSerializer does not take"):
        run(build, ("k", "abc"), key=TEXT, value=TEXT, default_value_serde=TEXT)


def test_a_default_counts_for_stores_too() -> None:
    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream("in", Consumed.with_(TEXT, TEXT)).map_values(length)
        stream.to_table(materialized=Materialized.as_("lengths"))

    builder = StreamsBuilder()
    build(builder)
    with TopologyTestDriver(
        builder.build(), {"application.id": "a", "default.key.serde": TEXT, "default.value.serde": Serdes.Integer()}
    ) as driver:
        driver.create_input_topic("in", TEXT.serializer, TEXT.serializer).pipe_input("k", "abc")
        written = driver.read_raw("a-lengths-changelog")
        assert written is not None
        assert written.value == b"\x00\x00\x00\x03"


def test_what_is_given_goes_first() -> None:
    def build(builder: StreamsBuilder) -> None:
        builder.stream("in", IN).map_values(length).to("out", Produced.with_(TEXT, Serdes.Integer()))

    assert run(build, ("k", "abc"), key=TEXT, value=Serdes.Integer()) == [("k", 3)]
