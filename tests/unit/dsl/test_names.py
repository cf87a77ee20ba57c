"""Which numbers an operation takes: names downstream, and with them topics and stores, depend on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace.api.options import Branched, Consumed, Grouped, Joined, Materialized, Named, Produced, Repartitioned
from headrace.api.processor import FixedKeyProcessor, Processor
from headrace.dsl import KStream, StreamsBuilder
from headrace.errors import TopologyException
from headrace.topology.built import ProcessorSpec, SinkSpec, SourceSpec

if TYPE_CHECKING:
    from collections.abc import Callable

Stream = KStream[Any, Any]
N = Named.as_("n")


def built(builder: StreamsBuilder) -> Any:
    return builder.build().build("app")


def names(builder: StreamsBuilder) -> list[str]:
    return [node.name for sub in built(builder).subtopologies for node in sub.nodes]


def number_after(use: Callable[[Stream], object]) -> int:
    """How many numbers ``use`` takes of a stream whose source took number 0."""
    builder = StreamsBuilder()
    stream: Stream = builder.stream("in")
    use(stream)
    builder.stream("probe").filter(lambda k, v: True)
    probe = next(name for name in reversed(names(builder)) if name.startswith("KSTREAM-FILTER-"))
    return int(probe[-10:]) - 2


def keep(key: Any, value: Any) -> bool:
    return True


def pair(key: Any, value: Any) -> tuple[Any, Any]:
    return key, value


def value_of(key: Any, value: Any) -> Any:
    return value


BURNT: list[tuple[str, int, Callable[[Stream], object]]] = [
    ("filter", 1, lambda s: s.filter(keep)),
    ("filter named", 1, lambda s: s.filter(keep, N)),
    ("map", 1, lambda s: s.map(pair)),
    ("flat_map", 1, lambda s: s.flat_map(lambda k, v: [(k, v)])),
    ("select_key named", 1, lambda s: s.select_key(value_of, N)),
    ("peek", 1, lambda s: s.peek(keep)),
    ("for_each", 1, lambda s: s.for_each(keep)),
    ("to", 1, lambda s: s.to("out")),
    ("to named", 1, lambda s: s.to("out", Produced.as_("n"))),
    ("process", 1, lambda s: s.process(Processor)),
    ("process named", 0, lambda s: s.process(Processor, named=N)),
    ("process_values", 1, lambda s: s.process_values(FixedKeyProcessor)),
    ("process_values named", 0, lambda s: s.process_values(FixedKeyProcessor, named=N)),
    ("group_by_key", 0, lambda s: s.group_by_key()),
    ("group_by", 1, lambda s: s.group_by(value_of)),
    ("split, two branches, default", 4, lambda s: s.split().branch(keep).branch(keep).default_branch()),
    ("split named", 2, lambda s: s.split(N).branch(keep, Branched.as_("x")).no_default_branch()),
    ("repartition", 4, lambda s: s.repartition()),
    ("repartition named", 3, lambda s: s.repartition(Repartitioned.as_("n"))),
    ("to_table", 2, lambda s: s.to_table()),
    ("to_table, store named", 1, lambda s: s.to_table(materialized=Materialized.as_("st"))),
    ("to_table after a new key", 1 + 2 + 3, lambda s: s.select_key(value_of).to_table()),
    ("count", 2, lambda s: s.group_by_key().count()),
    ("count named", 2, lambda s: s.group_by_key().count(named=N)),
    ("count, store named", 1, lambda s: s.group_by_key().count(Materialized.as_("st"))),
    ("count, store unnamed", 3, lambda s: s.group_by_key().count(Materialized())),
    ("reduce, store unnamed", 2, lambda s: s.group_by_key().reduce(value_of, Materialized())),
    ("reduce after a new key", 1 + 2 + 3, lambda s: s.group_by(value_of).reduce(value_of)),
    ("to_stream", 2 + 1, lambda s: s.to_table().to_stream()),
    ("to_stream with mapper", 2 + 2, lambda s: s.to_table().to_stream(value_of)),
    ("join", 2 + 1, lambda s: s.join(s.to_table(), value_of)),
    ("join after a new key", 2 + 1 + 3 + 1, lambda s: s.select_key(value_of).left_join(s.to_table(), value_of)),
]


@pytest.mark.parametrize(("numbers", "use"), [pytest.param(n, use, id=what) for what, n, use in BURNT])
def test_numbers_taken(numbers: int, use: Callable[[Stream], object]) -> None:
    assert number_after(use) == numbers


def test_table_takes_three_numbers_and_names_its_source_after_itself() -> None:
    builder = StreamsBuilder()
    builder.table("t")
    builder.table("u", Consumed.as_("courses"))
    builder.stream("in")
    assert names(builder) == [
        "KSTREAM-SOURCE-0000000001",
        "KTABLE-SOURCE-0000000002",
        "courses-source",
        "courses",
        "KSTREAM-SOURCE-0000000006",
    ]


def repartition_topics(builder: StreamsBuilder) -> list[str]:
    return [topic for sub in built(builder).subtopologies for topic in sub.repartition_topics]


def test_repartition_topics_are_named_after_the_grouping_else_the_store() -> None:
    builder = StreamsBuilder()
    stream: Stream = builder.stream("in")
    stream.group_by(value_of).count(Materialized.as_("counts"))
    stream.group_by(value_of, Grouped.as_("grp")).count(Materialized.as_("other"))
    stream.group_by(value_of).count()
    assert repartition_topics(builder) == [
        "app-counts-repartition",
        "app-grp-repartition",
        "app-KSTREAM-AGGREGATE-STATE-STORE-0000000012-repartition",
    ]
    found = names(builder)
    assert "grp" in found, "the key-select node has the grouping's name too"
    assert {"counts-repartition-filter", "counts-repartition-sink", "counts-repartition-source"} <= set(found)


def test_a_join_repartitions_under_its_name_else_that_of_the_node_before() -> None:
    builder = StreamsBuilder()
    stream: Stream = builder.stream("in")
    table = builder.table("t", materialized=Materialized.as_("rows"))
    rekeyed = stream.select_key(value_of)
    rekeyed.join(table, value_of)
    rekeyed.join(table, value_of, Joined.as_("enrich"))
    assert repartition_topics(builder) == [
        "app-KSTREAM-KEY-SELECT-0000000003-repartition",
        "app-enrich-repartition",
    ]


def test_aggregations_of_one_named_grouping_share_its_topic() -> None:
    builder = StreamsBuilder()
    stream: Stream = builder.stream("in")
    grouped = stream.group_by(value_of, Grouped.as_("grp"))
    grouped.count()
    grouped.reduce(value_of)
    assert repartition_topics(builder) == ["app-grp-repartition"]


def test_two_groupings_of_one_name_clash() -> None:
    builder = StreamsBuilder()
    stream: Stream = builder.stream("in")
    stream.select_key(value_of).group_by_key(Grouped.as_("g")).count()
    stream.select_key(value_of).group_by_key(Grouped.as_("g")).count()
    with pytest.raises(TopologyException, match="g-repartition-filter is already added"):
        builder.build()


def test_branch_names() -> None:
    stream: Stream = StreamsBuilder().stream("in")
    unnamed = stream.split().branch(keep).branch(keep, Branched.as_("-x")).default_branch()
    assert list(unnamed) == ["KSTREAM-BRANCH-00000000011", "KSTREAM-BRANCH-0000000001-x", "KSTREAM-BRANCH-00000000010"]
    named = stream.split(Named.as_("sp-")).branch(keep).no_default_branch()
    assert list(named) == ["sp-1"]


def test_branches_handed_on_are_not_in_the_map() -> None:
    stream: Stream = StreamsBuilder().stream("in")
    taken: list[Stream] = []
    branches = (
        stream.split(Named.as_("s-"))
        .branch(keep, Branched.with_consumer(taken.append, "a"))
        .branch(keep, Branched.with_function(lambda s: s.filter(keep), "b"))
        .branch(keep, Branched.with_function(lambda s: None, "c"))
        .default_branch(Branched.as_("d"))
    )
    assert list(branches) == ["s-b", "s-d"]
    assert branches["s-b"].at.name.startswith("KSTREAM-FILTER-")
    assert [s.at.name for s in taken] == ["s-a"]


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "ü", "x" * 250])
def test_illegal_names_are_refused_at_once(name: str) -> None:
    stream: Stream = StreamsBuilder().stream("in")
    for use in (
        lambda: stream.filter(keep, Named.as_(name)),
        lambda: Materialized.as_(name),
        lambda: Grouped.as_(name),
        lambda: Consumed.as_(name),
        lambda: Produced.as_(name),
        lambda: Joined.as_(name),
        lambda: Repartitioned.as_(name),
        lambda: Branched.as_(name),
    ):
        with pytest.raises(TopologyException):
            use()


def test_specs_are_of_the_kinds_they_should_be() -> None:
    builder = StreamsBuilder()
    builder.stream("in").filter(keep).to("out")
    (sub,) = built(builder).subtopologies
    assert [type(node) for node in sub.nodes] == [SourceSpec, ProcessorSpec, SinkSpec]
