"""Functions whose None deletes a row may return it: with the types given, and with that effect."""

from __future__ import annotations

from headrace import Consumed, Grouped, Materialized, Serdes, StreamsBuilder
from headrace.testing import TopologyTestDriver

TEXT = Serdes.String()
CONFIG = {"default.key.serde": TEXT, "default.value.serde": TEXT}


def plus(key: str, value: str, so_far: str) -> str | None:
    return None if value == "end" else f"{so_far}{value}"


def last(so_far: str, value: str) -> str | None:
    return None if value == "end" else value


def without(key: str, value: str, so_far: str) -> str | None:
    return so_far.replace(value, "") or None


def run(builder: StreamsBuilder, *values: str | None) -> list[str | None]:
    with TopologyTestDriver(builder.build(), CONFIG) as driver:
        topic = driver.create_input_topic("in", TEXT.serializer, TEXT.serializer)
        topic.pipe_key_value_list([("k", value) for value in values])
        return driver.create_output_topic("out", TEXT.deserializer, TEXT.deserializer).read_values_to_list()


def test_aggregates_and_reductions_of_a_stream() -> None:
    for reduce in (False, True):
        builder = StreamsBuilder()
        grouped = builder.stream("in", Consumed.with_(TEXT, TEXT)).group_by_key()
        table = grouped.reduce(last) if reduce else grouped.aggregate(str, plus)
        table.to_stream().to("out")
        assert run(builder, "a", "end", "b") == ["a", None, "b"]


def test_cogrouped_aggregates() -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed.with_(TEXT, TEXT)).group_by_key()
    grouped.cogroup(plus).aggregate(str).to_stream().to("out")
    assert run(builder, "a", "end", "b") == ["a", None, "b"]


def test_aggregates_of_a_table_and_groups_of_none() -> None:
    builder = StreamsBuilder()
    table = builder.table("in", Consumed.with_(TEXT, TEXT))
    groups = table.group_by(lambda key, value: (None if value == "none" else "all", value), Grouped.with_(TEXT, TEXT))
    groups.aggregate(str, plus, without).to_stream().to("out")
    assert run(builder, "a", "none", "b", None) == ["a", None, "b", None]


def test_values_and_joins_of_tables() -> None:
    builder = StreamsBuilder()
    table = builder.table("in", Consumed.with_(TEXT, TEXT))
    mapped = table.map_values(lambda value: None if value == "end" else value, Materialized.with_(TEXT, TEXT))
    mapped.left_join(table, lambda one, other: None if one == "hide" else one).to_stream().to("out")
    # each record changes both sides of the join
    assert run(builder, "a", "hide", "b", "end") == ["a", "a", None, None, "b", "b", None]
