from __future__ import annotations

import pytest

from headrace.errors import MissingSourceTopicException, TopologyException
from headrace.processors.stateless import PassThrough
from headrace.records import TaskId, TopicPartition
from headrace.state.builders import StoreBuilder, Stores
from headrace.topology import Topology
from headrace.topology.copartition import plan


def add_repartition(topology: Topology, name: str, parent: str, partitions: int | None = None) -> str:
    topology.add_repartition_topic(name, partitions)
    topology.add_sink(f"{name}-sink", name, parent).add_source(f"{name}-source", name)
    return f"{name}-source"


def test_tasks_and_changelogs_follow_the_largest_source() -> None:
    topology = Topology().add_source("a", "ta").add_source("b", "tb").add_sink("out", "o", "a", "b")
    made = plan(topology.build("app"), {"ta": 1, "tb": 3, "unrelated": 9})
    assert made.tasks == {
        TaskId(0, 0): (TopicPartition("ta", 0), TopicPartition("tb", 0)),
        TaskId(0, 1): (TopicPartition("tb", 1),),
        TaskId(0, 2): (TopicPartition("tb", 2),),
    }
    assert made.source_topics == {0: {"ta", "tb"}}
    assert made.partition_counts == {"ta": 1, "tb": 3}


def test_changelogs_have_one_partition_for_each_task() -> None:
    builder: StoreBuilder[str, str] = Stores.key_value_store_builder(Stores.in_memory_key_value_store("s"), None, None)
    topology = Topology().add_source("a", "ta").add_operator("p", PassThrough(), ["a"]).add_state_store(builder, "p")
    made = plan(topology.build("app"), {"ta": 6})
    assert made.changelog_topics["app-s-changelog"].partitions == 6
    assert made.partition_counts["app-s-changelog"] == 6


def test_repartition_topics_take_the_greatest_count_above_them_through_others_too() -> None:
    topology = Topology().add_source("a", "ta").add_source("b", "tb")
    first = add_repartition(topology, "r1", "a")
    topology.add_sink("more", "r1", "b")
    second = add_repartition(topology, "r2", first)
    add_repartition(topology, "r3", second, partitions=2)
    made = plan(topology.build("app"), {"ta": 4, "tb": 7})
    assert {name: topic.partitions for name, topic in made.repartition_topics.items()} == {
        "app-r1": 7,
        "app-r2": 7,
        "app-r3": 2,
    }
    assert len(made.tasks) == 4 + 7 + 7 + 7 + 2


def test_a_joined_repartition_topic_takes_the_count_of_the_other_side() -> None:
    topology = Topology().add_source("a", "ta").add_source("b", "tb")
    source = add_repartition(topology, "r", "a")
    topology.add_sink("join", "o", source, "b")
    topology.copartition_sources([source, "b"])
    made = plan(topology.build("app"), {"ta": 8, "tb": 5})
    assert made.repartition_topics["app-r"].partitions == 5


def test_joined_topics_that_differ_are_both_named_with_their_counts() -> None:
    topology = Topology().add_source("a", "ta").add_source("b", "tb").add_sink("join", "o", "a", "b")
    topology.copartition_sources(["a", "b"])
    with pytest.raises(TopologyException, match=r"'ta' has 3 partitions and 'tb' has 4"):
        plan(topology.build("app"), {"ta": 3, "tb": 4})


def test_an_enforced_count_must_agree_with_the_other_side() -> None:
    topology = Topology().add_source("a", "ta").add_source("b", "tb")
    source = add_repartition(topology, "r", "a", partitions=2)
    topology.copartition_sources([source, "b"])
    with pytest.raises(TopologyException, match=r"'tb' has 4 partitions and 'app-r' has 2"):
        plan(topology.build("app"), {"ta": 3, "tb": 4})


def test_joined_repartition_topics_follow_an_enforced_one_or_the_greatest() -> None:
    for enforced, expected in ((None, 6), (2, 2)):
        topology = Topology().add_source("a", "ta").add_source("b", "tb")
        sources = [add_repartition(topology, "r1", "a"), add_repartition(topology, "r2", "b", partitions=enforced)]
        topology.copartition_sources(sources)
        made = plan(topology.build("app"), {"ta": 3, "tb": 6})
        assert made.partition_counts["app-r1"] == made.partition_counts["app-r2"] == expected


def test_all_missing_topics_are_named() -> None:
    topology = Topology().add_source("a", "ta").add_source("b", "tb", "tc")
    with pytest.raises(MissingSourceTopicException, match="ta, tc"):
        plan(topology.build("app"), {"tb": 1})


def test_counts_that_depend_on_each_other_only() -> None:
    topology = Topology()
    topology.add_repartition_topic("r", None)
    topology.add_source("src", "r").add_sink("snk", "r", "src")
    with pytest.raises(TopologyException, match="depend on each other only: app-r"):
        plan(topology.build("app"), {})
