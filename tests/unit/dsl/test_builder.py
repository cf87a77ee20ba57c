from __future__ import annotations

from typing import Any

import pytest

from headrace.api.options import (
    Consumed,
    Grouped,
    Joined,
    Materialized,
    Produced,
    Repartitioned,
)
from headrace.api.stores import StoreType
from headrace.api.timestamps import FailOnInvalidTimestamp
from headrace.config import StreamsConfig
from headrace.dsl import KStream, KTable, StreamsBuilder
from headrace.errors import ConfigException, TopologyException
from headrace.processors.stateless import NullKeyFilter, StreamBranch
from headrace.resets import AutoOffsetReset
from headrace.serdes import Serdes
from headrace.state.builders import Stores
from headrace.topology.built import BuiltTopology, ProcessorSpec, SinkSpec, SourceSpec

JAVA_SUPPLIERS = "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$"
K, V, L = Serdes.String(), Serdes.Bytes(), Serdes.Long()


def value_of(key: Any, value: Any) -> Any:
    return value


def keep(key: Any, value: Any) -> bool:
    return True


def built(builder: StreamsBuilder, config: dict[str, Any] | None = None) -> BuiltTopology:
    return builder.build(config).build("app")


def stores(topology: BuiltTopology) -> dict[str, Any]:
    return {store.name: store for sub in topology.subtopologies for store in sub.stores}


def nodes(topology: BuiltTopology) -> dict[str, SourceSpec | ProcessorSpec | SinkSpec]:
    return {node.name: node for sub in topology.subtopologies for node in sub.nodes}


def as_in_java(part: Any) -> Any:
    """None, the configured default, where a serde only follows from the graph."""
    return None if "Inferred" in type(part).__name__ else part


def sink_serializers(
    stream: KStream[Any, Any], builder: StreamsBuilder, produced: Produced[Any, Any] | None = None
) -> Any:
    stream.to("out", produced)
    sink = next(n for n in nodes(built(builder)).values() if isinstance(n, SinkSpec) and n.topic == "out")
    return as_in_java(sink.key_serializer), as_in_java(sink.value_serializer)


SERDES: list[tuple[str, Any, Any, Any]] = [
    ("filter", lambda s: s.filter(keep), K, V),
    ("peek", lambda s: s.peek(keep), K, V),
    ("select_key", lambda s: s.select_key(value_of), None, V),
    ("map_values", lambda s: s.map_values(lambda v: v), K, None),
    ("flat_map_values", lambda s: s.flat_map_values(list), K, None),
    ("map", lambda s: s.map(lambda k, v: (k, v)), None, None),
    ("flat_map", lambda s: s.flat_map(lambda k, v: [(k, v)]), None, None),
    ("merge", lambda s: s.merge(s.filter(keep)), None, None),
    ("split", lambda s: s.split().default_branch().popitem()[1], K, V),
    ("repartition", lambda s: s.repartition(), K, V),
    ("to_table", lambda s: s.to_table().to_stream(), K, V),
    ("count", lambda s: s.group_by_key().count().to_stream(), K, L),
    ("count of a new key", lambda s: s.group_by(value_of).count().to_stream(), None, L),
    ("reduce", lambda s: s.group_by_key().reduce(value_of).to_stream(), K, V),
    ("aggregate", lambda s: s.group_by_key().aggregate(int, lambda k, v, a: a).to_stream(), K, None),
    ("join", lambda s: s.join(s.to_table(), value_of), K, None),
    ("join with serdes", lambda s: s.join(s.to_table(), value_of, Joined.with_(L, V, V)), L, None),
]


@pytest.mark.parametrize(("use", "key", "value"), [pytest.param(*row[1:], id=row[0]) for row in SERDES])
def test_serdes_that_follow_an_operation(use: Any, key: Any, value: Any) -> None:
    builder = StreamsBuilder()
    stream: KStream[Any, Any] = builder.stream("in", Consumed.with_(K, V))
    got = sink_serializers(use(stream), builder)
    # Serdes.Long() of count is an object of its own
    assert [type(x) for x in got] == [type(None if x is None else x.serializer) for x in (key, value)]


def test_produced_goes_over_the_streams_serdes() -> None:
    builder = StreamsBuilder()
    stream: KStream[Any, Any] = builder.stream("in", Consumed.with_(K, V))
    assert sink_serializers(stream, builder, Produced.with_(None, L)) == (K.serializer, L.serializer)


def test_a_repartition_topic_has_the_given_key_serde_only() -> None:
    builder = StreamsBuilder()
    stream: KStream[Any, Any] = builder.stream("in", Consumed.with_(K, V))
    again = stream.repartition(Repartitioned.as_("r").with_number_of_partitions(3))
    assert again.at.key_serde is K
    source = nodes(built(builder))["r-repartition-source"]
    assert isinstance(source, SourceSpec)
    assert as_in_java(source.key_deserializer) is None
    assert source.value_deserializer is V.deserializer
    assert isinstance(source.timestamp_extractor, FailOnInvalidTimestamp), "whatever extractor is configured"


def test_group_by_key_with_options_does_not_inherit() -> None:
    builder = StreamsBuilder()
    stream: KStream[Any, Any] = builder.stream("in", Consumed.with_(K, V))
    stream.group_by_key(Grouped.with_(None, V)).reduce(value_of, Materialized.as_("st"))
    (store,) = stores(built(builder)).values()
    assert as_in_java(store.key_serde) is None
    assert store.value_serde is V


def test_a_table_keeps_rows_only_when_they_are_needed() -> None:
    builder = StreamsBuilder()
    builder.table("plain").to_stream().to("o")
    named = builder.table("named", materialized=Materialized.as_("rows"))
    looked_up = builder.table("looked-up", Consumed.with_(K, V))
    assert named.queryable_store_name() == "rows"
    assert looked_up.queryable_store_name() is None
    before = stores(built(builder))
    assert list(before) == ["rows"]
    stream: KStream[Any, Any] = builder.stream("in")
    stream.join(looked_up, value_of)
    after = stores(built(builder))
    assert sorted(after) == ["looked-up-STATE-STORE-0000000007", "rows"]
    assert after["looked-up-STATE-STORE-0000000007"].key_serde is K


def test_what_a_materialized_says_reaches_the_store() -> None:
    builder = StreamsBuilder()
    stream: KStream[Any, Any] = builder.stream("in")
    grouped = stream.group_by_key()
    grouped.count(Materialized.as_("a"))
    grouped.count(Materialized.as_("b").with_caching_disabled().with_logging_enabled({"segment.ms": "5"}))
    grouped.count(Materialized.as_("c").with_logging_disabled().with_store_type(StoreType.IN_MEMORY))
    grouped.count(Materialized.as_(Stores.persistent_key_value_store("d")))
    grouped.count(Materialized.as_(Stores.persistent_timestamped_key_value_store("e")))
    grouped.count(Materialized.as_(Stores.in_memory_key_value_store("f")))
    found = stores(built(builder))
    told = {n: (s.caching, s.logging, s.supplier.persistent, s.supplier.timestamped) for n, s in found.items()}
    assert told == {
        "a": (True, True, True, True),
        "b": (False, True, True, True),
        "c": (True, False, False, True),
        "d": (True, True, True, False),
        "e": (True, True, True, True),
        "f": (True, True, False, False),
    }
    assert found["b"].log_config == {"segment.ms": "5"}


@pytest.mark.parametrize(
    ("config", "persistent"),
    [
        ({}, True),
        ({"default.dsl.store": "in_memory"}, False),
        (
            {"dsl.store.suppliers.class": JAVA_SUPPLIERS + "InMemoryDslStoreSuppliers"},
            False,
        ),
        (
            {"dsl.store.suppliers.class": "headrace.state:RocksDBDslStoreSuppliers", "default.dsl.store": "in_memory"},
            True,
        ),
    ],
)
def test_the_configuration_chooses_the_body_of_stores(config: dict[str, Any], persistent: bool) -> None:
    for at_construction in (True, False):
        builder = StreamsBuilder(config if at_construction else None)
        builder.stream("in").group_by_key().count()
        (store,) = stores(built(builder, None if at_construction else config)).values()
        assert store.supplier.persistent is persistent


@pytest.mark.parametrize("config", [{"default.dsl.store": "disk"}, {"dsl.store.suppliers.class": "com.example.Mine"}])
def test_an_unknown_body_of_stores_is_refused(config: dict[str, str]) -> None:
    ((key, value),) = config.items()
    with pytest.raises(ConfigException, match=f"{key}[=:].*{value}"):
        StreamsBuilder(config).build()


def test_a_left_join_below_lets_null_keys_through_the_repartition() -> None:
    builder = StreamsBuilder()
    stream: KStream[Any, Any] = builder.stream("in")
    table: KTable[Any, Any] = builder.table("t")
    for name, rekeyed in (("l", stream.select_key(value_of)), ("i", stream.select_key(value_of))):
        again = rekeyed.repartition(Repartitioned.as_(name)).filter(keep)
        if name == "l":
            again.left_join(table, value_of)
        else:
            again.join(table, value_of)
    found = nodes(built(builder))
    relaxed = {n: s.operator for n, s in found.items() if isinstance(s, ProcessorSpec) and n.endswith("-filter")}
    assert relaxed == {"l-repartition-filter": NullKeyFilter(True), "i-repartition-filter": NullKeyFilter(False)}


def test_one_topic_read_twice_has_one_source() -> None:
    builder = StreamsBuilder()
    builder.stream(["a", "b"]).to("o1")
    builder.stream(["b", "a"]).to("o2")
    topology = built(builder)
    assert [n for n, s in nodes(topology).items() if isinstance(s, SourceSpec)] == ["KSTREAM-SOURCE-0000000000"]
    assert topology.subtopologies[0].children["KSTREAM-SOURCE-0000000000"] == (
        "KSTREAM-SINK-0000000001",
        "KSTREAM-SINK-0000000003",
    )


def test_sources_that_overlap_or_disagree_are_refused() -> None:
    builder = StreamsBuilder()
    builder.stream(["a", "b"])
    builder.stream("a")
    with pytest.raises(TopologyException, match="overlapping"):
        builder.build()
    builder = StreamsBuilder()
    builder.stream("a", Consumed.with_(offset_reset=AutoOffsetReset.EARLIEST))
    builder.stream("a")
    with pytest.raises(TopologyException, match="offset reset"):
        builder.build()
    builder = StreamsBuilder()
    builder.stream("a")
    builder.table("a")
    with pytest.raises(TopologyException, match="already been registered"):
        builder.build()


def test_a_builder_goes_on_after_build() -> None:
    builder = StreamsBuilder()
    stream: KStream[Any, Any] = builder.stream("in")
    builder.stream("in").to("second")
    branches = stream.split()
    first = builder.build().describe()
    assert builder.build().describe() == first
    branches.branch(keep).no_default_branch()
    topology = built(builder)
    assert topology.description != first
    split = nodes(topology)["KSTREAM-BRANCH-0000000003"]
    assert isinstance(split, ProcessorSpec)
    assert split.operator == StreamBranch((keep,), ("KSTREAM-BRANCH-00000000031",))


def test_a_store_that_a_processor_names_must_be_there() -> None:
    from headrace.api.processor import Processor

    builder = StreamsBuilder()
    builder.stream("in").process(Processor[Any, Any, Any, Any], "nope")
    with pytest.raises(TopologyException, match="StateStore nope is not added yet"):
        builder.build()


def test_joined_repartitions_with_different_counts_are_refused() -> None:
    builder = StreamsBuilder()
    left: KStream[Any, Any] = builder.stream("a")
    right: KStream[Any, Any] = builder.stream("b")
    table = right.repartition(Repartitioned.as_("y").with_number_of_partitions(4)).to_table()
    left.repartition(Repartitioned.as_("x").with_number_of_partitions(3)).join(table, value_of)
    with pytest.raises(TopologyException, match=r"'x-repartition' with 3, 'y-repartition' with 4"):
        builder.build()


def test_options_refuse_what_contradicts() -> None:
    with pytest.raises(TopologyException, match="supplier and a store type"):
        Materialized.as_(Stores.persistent_key_value_store("s")).with_store_type(StoreType.IN_MEMORY)
    with pytest.raises(TopologyException, match="at least one partition"):
        Repartitioned.as_("r").with_number_of_partitions(0)
    with pytest.raises(TopologyException, match="at least one topic"):
        StreamsBuilder().stream([])


def test_settings_may_be_a_streams_config() -> None:
    config = StreamsConfig(
        {"application.id": "app", "bootstrap.servers": "localhost:9092", "topology.optimization": "all"}
    )
    builder = StreamsBuilder(config)
    builder.table("users", materialized=Materialized.as_("users"))
    (sub,) = builder.build(config).build("app").subtopologies
    assert sub.source_changelogs == {"users"}
