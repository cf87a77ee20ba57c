from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace.api.processor import Processor
from headrace.errors import TopologyException
from headrace.resets import AutoOffsetReset
from headrace.state.builders import Stores
from headrace.topology import Topology
from headrace.topology.built import ProcessorSpec, SinkSpec, SourceSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.api.record import Record
    from headrace.state.builders import StoreBuilder


class Forward(Processor[Any, Any, Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record)


def store(name: str) -> StoreBuilder[str, str]:
    return Stores.key_value_store_builder(Stores.in_memory_key_value_store(name), None, None)


def source_and_processor() -> Topology:
    return Topology().add_source("src", "in").add_processor("proc", Forward, "src")


BROKEN: dict[str, tuple[Callable[[Topology], object], str]] = {
    "name taken": (lambda t: t.add_source("proc", "other"), "proc is already added"),
    "topic taken": (lambda t: t.add_source("other", "in"), "topic in .* already been registered by another source"),
    "no topic": (lambda t: t.add_source("other"), "at least one topic"),
    "no parent": (lambda t: t.add_processor("p", Forward), "at least one parent"),
    "unknown parent": (lambda t: t.add_processor("p", Forward, "nobody"), "nobody of p is not added yet"),
    "own parent": (lambda t: t.add_sink("p", "out", "p"), "p cannot be a predecessor of itself"),
    "sink as parent": (
        lambda t: t.add_sink("snk", "out", "src").add_processor("p", Forward, "snk"),
        "sink snk cannot be a parent of p",
    ),
    "another store of the name": (
        lambda t: t.add_state_store(store("s")).add_state_store(store("s")),
        "different StateStore .* name s",
    ),
    "store for a source": (lambda t: t.add_state_store(store("s"), "src"), "s cannot be connected to src"),
    "store for nobody": (lambda t: t.add_state_store(store("s"), "nobody"), "nobody is not added yet"),
    "unknown store": (lambda t: t.connect_processor_and_state_stores("proc", "s"), "StateStore s is not added yet"),
    "no store": (lambda t: t.connect_processor_and_state_stores("proc"), "no store was named"),
}


def test_nodes_may_have_any_name_as_in_java() -> None:
    assert "Source: with spaces (topics: [t])" in Topology().add_source("with spaces", "t").describe()


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_wrong_is_named(what: str) -> None:
    build, message = BROKEN[what]
    with pytest.raises(TopologyException, match=message):
        build(source_and_processor())


def test_a_supplier_must_make_new_processors() -> None:
    one = Forward()
    with pytest.raises(TopologyException, match="processor p gave the same object twice"):
        source_and_processor().add_processor("p", lambda: one, "src")


def test_a_builder_may_be_added_again() -> None:
    builder = store("s")
    topology = source_and_processor().add_state_store(builder, "proc").add_state_store(builder)
    assert topology.state_store_names == ("s",)


def test_nodes_that_share_a_store_run_in_one_task() -> None:
    topology = (
        Topology()
        .add_source("a", "ta", offset_reset=AutoOffsetReset.LATEST)
        .add_source("b", "tb")
        .add_source("c", "tc")
        .add_processor("pa", Forward, "a")
        .add_processor("pc", Forward, "c")
        .add_sink("snk", "out", "b", "pa")
        .add_state_store(store("s"), "pa", "pc")
        .add_source("d", "td")
    )
    first, second = topology.build("app").subtopologies
    assert [node.name for node in first.nodes] == ["a", "b", "c", "pa", "pc", "snk"]
    assert [node.name for node in second.nodes] == ["d"]
    assert first.children == {"a": ("pa",), "b": ("snk",), "c": ("pc",), "pa": ("snk",), "pc": (), "snk": ()}
    assert [s.name for s in first.stores] == ["s"]
    assert first.source_topics == {"ta", "tb", "tc"}
    assert first.sink_topics == {"out"}
    assert dict(first.store_changelogs) == {"s": "app-s-changelog"}
    source = first.nodes[0]
    assert isinstance(source, SourceSpec)
    assert source.offset_reset == AutoOffsetReset.LATEST
    processor = first.nodes[3]
    assert isinstance(processor, ProcessorSpec)
    assert processor.stores == ("s",)


def test_internal_topics_get_the_application_id_and_settings_in_order() -> None:
    topology = Topology().add_source("src", "in")
    topology.add_repartition_topic("r", 4)
    logged = store("s").with_logging_enabled({"retention.ms": "5", "segment.ms": "6"})
    topology.add_sink("snk", "r", "src").add_source("src2", "r").add_processor("p", Forward, "src2")
    topology.add_state_store(logged, "p")
    built = topology.build("app", {"segment.ms": "1", "retention.bytes": "2"})
    upper, lower = built.subtopologies
    sink = upper.nodes[1]
    assert isinstance(sink, SinkSpec)
    assert sink.topic == "app-r"
    assert upper.sink_topics == {"app-r"} == lower.source_topics
    (repartition,) = lower.repartition_topics.values()
    assert (repartition.name, repartition.partitions, repartition.partitions_enforced) == ("app-r", 4, True)
    assert repartition.config["retention.ms"] == "-1"
    (changelog,) = lower.changelog_topics.values()
    assert dict(changelog.config) == {
        "cleanup.policy": "compact",
        "message.timestamp.type": "CreateTime",
        "retention.bytes": "2",
        "retention.ms": "5",
        "segment.ms": "6",
    }
    assert "topic: r)" in built.description, "describe() knows no application"


@pytest.mark.parametrize(
    ("application_id", "name", "fault"),
    [("app", "s" * 236, "has 250 characters"), ("my app", "s", "not allowed"), ("a/b", "s", "not allowed")],
)
def test_an_internal_topic_that_brokers_would_refuse_is_refused_when_built(
    application_id: str, name: str, fault: str
) -> None:
    stored = source_and_processor().add_state_store(store(name), "proc")
    with pytest.raises(TopologyException, match=rf"'{application_id}-s+-changelog'.*{fault}.*another application.id"):
        stored.build(application_id)
    parted = Topology().add_source("src", "in")
    parted.add_repartition_topic(name, None)
    parted.add_sink("snk", name, "src").add_source("again", name)
    with pytest.raises(TopologyException, match=r"another application\.id"):
        parted.build(application_id + "y" * 14)


def test_builders_may_be_given_as_a_set() -> None:
    one, other = store("s"), store("t").with_logging_enabled({"segment.ms": "6"})

    class Supplier:
        def __call__(self) -> Forward:
            return Forward()

        def stores(self) -> set[StoreBuilder[str, str]]:
            return {one, other}

    topology = Topology().add_source("src", "in").add_processor("proc", Supplier(), "src")
    assert set(topology.state_store_names) == {"s", "t"}


def test_a_store_without_logging_has_no_changelog() -> None:
    topology = source_and_processor().add_state_store(store("s").with_logging_disabled(), "proc")
    (sub,) = topology.build("app").subtopologies
    assert [s.name for s in sub.stores] == ["s"]
    assert not sub.changelog_topics
    assert not sub.store_changelogs


def test_copartition_groups_with_a_topic_in_common_become_one() -> None:
    topology = Topology()
    for name in "abc":
        topology.add_source(name, f"t{name}")
    topology.copartition_sources(["a", "b"])
    topology.copartition_sources(["b", "c"])
    assert topology.build("app").copartition_groups == (frozenset({"ta", "tb", "tc"}),)


def test_enforced_partition_counts_of_joined_topics_must_agree() -> None:
    topology = Topology().add_source("src", "in")
    for name, count in {"r1": 3, "r2": 4}.items():
        topology.add_repartition_topic(name, count)
        topology.add_sink(f"{name}-sink", name, "src").add_source(f"{name}-source", name)
    topology.copartition_sources(["r1-source", "r2-source"])
    with pytest.raises(TopologyException, match=r"'r1' with 3, 'r2' with 4"):
        topology.validate_copartition()
