"""Places without a serde are errors of building; values of another type are errors that name place and types."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from unit.engine.harness import TEXT, Bench

from headrace import KafkaStreams
from headrace.api.options import Consumed, Grouped, Materialized, Named, Produced, Repartitioned
from headrace.api.processor import Processor
from headrace.api.stores import StoreType
from headrace.dsl import StreamsBuilder
from headrace.errors import StreamsException, TopologyException
from headrace.serdes import Serdes
from headrace.state.builders import Stores
from headrace.testing import TopologyTestDriver
from headrace.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headrace.dsl import KStream

IN = Consumed.with_(TEXT, TEXT)
MEMORY: Materialized[Any, Any] = Materialized.as_("rows").with_store_type(StoreType.IN_MEMORY)


def described(build: Callable[[StreamsBuilder], object]) -> Topology:
    builder = StreamsBuilder()
    build(builder)
    return builder.build()


def aggregating(builder: StreamsBuilder) -> None:
    builder.stream("in", IN).group_by_key().aggregate(list, lambda k, v, a: a, MEMORY, Named.as_("sum"))


def repartitioned(builder: StreamsBuilder) -> None:
    builder.stream("in", IN).map(lambda k, v: (v, k)).repartition(Repartitioned.as_("by-value")).to(
        "out", Produced.with_(TEXT, TEXT)
    )


def reading(builder: StreamsBuilder) -> None:
    builder.stream(["one", "two"]).for_each(lambda k, v: None)


def matching(builder: StreamsBuilder) -> None:
    builder.stream(re.compile("in-.*"), Consumed.with_(TEXT, None)).for_each(lambda k, v: None)


def writing(builder: StreamsBuilder) -> None:
    builder.stream("in", IN).map_values(lambda v: [v]).to("out", Produced.with_(TEXT, None))


def choosing(builder: StreamsBuilder) -> None:
    builder.stream("in", IN).map_values(lambda v: [v]).to(lambda k, v, context: "out", Produced.with_(TEXT, None))


def looking_up(builder: StreamsBuilder) -> None:
    builder.global_table("rates", Consumed.with_(TEXT, None))


def referring(builder: StreamsBuilder) -> None:
    mapped = builder.table("left", IN).map_values(lambda v: [v])
    result: Materialized[Any, Any] = Materialized.with_(TEXT, TEXT)
    mapped.join(
        builder.table("right", IN), lambda v, o: o, foreign_key_extractor=lambda v: v[0], materialized=result
    ).to_stream().to("out", Produced.with_(TEXT, TEXT))


PLACES: list[tuple[Callable[[StreamsBuilder], None], str]] = [
    (
        reading,
        "key of topics one, two at source KSTREAM-SOURCE-0000000000: give it with Consumed.with_, or set",
    ),
    (reading, "; no serde for the value of topics one, two at source KSTREAM-SOURCE-0000000000: give it with Consumed"),
    (
        referring,
        "inside the node KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000008: give it where the operator is made",
    ),
    (matching, "value of topics that match in-.* at source KSTREAM-SOURCE-0000000000"),
    (writing, "value for topic out at sink KSTREAM-SINK-0000000002: give it with Produced.with_, or set default.value"),
    (choosing, "value for the topics it chooses at sink KSTREAM-SINK-0000000002: give it with Produced.with_"),
    (aggregating, "value of store rows (topic app-rows-changelog) at sum: give it with Materialized.with_, or where"),
    (repartitioned, "key for topic app-by-value-repartition at sink by-value-repartition-sink: give it with Grouped."),
    (repartitioned, "key of topic app-by-value-repartition at source by-value-repartition-source: give it with Grou"),
    (looking_up, "value of topic rates at source KSTREAM-SOURCE-0000000001"),
]


@pytest.mark.parametrize(("build", "problem"), PLACES)
def test_a_place_without_a_serde_is_an_error_of_building(
    build: Callable[[StreamsBuilder], None], problem: str, tmp_path: Path
) -> None:
    settings = {"application.id": "app", "bootstrap.servers": "localhost:1", "state.dir": str(tmp_path)}
    for start in (TopologyTestDriver, KafkaStreams):
        with pytest.raises(TopologyException, match="no serde for the") as raised:
            start(described(build), settings)
        assert problem in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_the_defaults_are_for_every_place_without_a_serde() -> None:
    defaults = {"default.key.serde": TEXT, "default.value.serde": TEXT}
    for build in (aggregating, repartitioned):
        TopologyTestDriver(described(build), defaults).close()


def test_a_store_of_a_processor_without_a_serde() -> None:
    builder: Any = Stores.key_value_store_builder(Stores.in_memory_key_value_store("kept"), TEXT, None)
    topology = (
        Topology()
        .add_source("read", "in", key_deserializer=TEXT.deserializer, value_deserializer=TEXT.deserializer)
        .add_processor("keep", Processor, "read")
        .add_state_store(builder.with_logging_disabled(), "keep")
    )
    with pytest.raises(TopologyException, match=r"no serde for the value of store kept \(no changelog\) at keep: give"):
        TopologyTestDriver(topology)


def stream(builder: StreamsBuilder) -> KStream[str, str]:
    return builder.stream("in", IN)


def to_sink(builder: StreamsBuilder) -> None:
    stream(builder).map_values(len).to("out", Produced.with_(TEXT, TEXT))  # type: ignore[arg-type]


def key_to_sink(builder: StreamsBuilder) -> None:
    stream(builder).select_key(lambda k, v: 7).to("out", Produced.with_(TEXT, TEXT))  # type: ignore[arg-type]


def to_repartition_topic(builder: StreamsBuilder) -> None:
    wrong: Any = Grouped.with_(TEXT, TEXT)
    stream(builder).group_by(lambda k, v: 7, wrong).count()


def to_store(builder: StreamsBuilder) -> None:
    stream(builder).group_by_key().aggregate(
        int, lambda k, v, a: int(a) + 1, MEMORY.with_key_serde(TEXT).with_value_serde(TEXT), Named.as_("sum")
    )


def key_to_store(builder: StreamsBuilder) -> None:
    stored: Materialized[Any, Any] = MEMORY.with_key_serde(Serdes.Long()).with_value_serde(TEXT)
    stream(builder).group_by_key().reduce(lambda a, b: b, stored, Named.as_("last"))


@pytest.mark.parametrize(
    ("build", "text", "place"),
    [
        (to_sink, "The value of a record for out is a int that StringSerializer does not take", "KSTREAM-SINK"),
        (key_to_sink, "The key of a record for out is a int that StringSerializer does not take", "KSTREAM-SINK"),
        (to_repartition_topic, "-repartition is a int that StringSerializer does not take", "KSTREAM-SINK"),
        (
            to_store,
            r"value for store rows \(topic app-rows-changelog\) at sum is a int that StringSerializer does not take",
            "sum",
        ),
        (
            key_to_store,
            r"The key for store rows .* at last is a str that LongSerializer does not take: LongSer.* not a str\.",
            "last",
        ),
    ],
)
def test_a_value_of_another_type_names_place_serde_and_type(
    build: Callable[[StreamsBuilder], None], text: str, place: str
) -> None:
    bench = Bench(described(build))
    bench.add("in", ("k", "secret", 1), first_offset=9)
    with pytest.raises(StreamsException) as raised:
        bench.process()
    assert re.search(text, str(raised.value)), raised.value
    assert place in str(raised.value)
    assert "topic=in, partition=0, offset=9" in str(raised.value)
    assert "secret" not in str(raised.value)
