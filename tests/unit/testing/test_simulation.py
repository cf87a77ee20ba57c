"""Partitions, instances and rebalances in one thread: what is committed survives, nothing is lost or doubled."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from headrace import Consumed, Grouped, Materialized, Produced, Serdes, StreamsBuilder, TaskId
from headrace.errors import IllegalStateException
from headrace.testing import TopologyTestDriver

if TYPE_CHECKING:
    from headrace import Topology

KEYS = [f"k{i}" for i in range(12)]
TEXT, LONG = Serdes.String(), Serdes.Long()


def counting() -> Topology:
    """Counts by the value's first letters: through a repartition topic, with a store behind it."""
    builder = StreamsBuilder()
    (
        builder.stream("in", Consumed.with_(TEXT, TEXT))
        .select_key(lambda key, value: value)
        .group_by_key(Grouped.with_(TEXT, TEXT))
        .count(Materialized.as_("counts").with_key_serde(TEXT).with_caching_disabled())
        .to_stream()
        .to("out", Produced.with_(TEXT, LONG))
    )
    return builder.build()


class Run:
    def __init__(self, guarantee: str = "exactly_once_v2", **how: Any) -> None:
        self.driver = TopologyTestDriver(counting(), {"processing.guarantee": guarantee}, 0, **how)
        self._input = self.driver.create_input_topic("in", TEXT.serializer, TEXT.serializer)
        self._output = self.driver.create_output_topic("out", TEXT.deserializer, LONG.deserializer)
        self.piped: Counter[str] = Counter()
        self.results: list[tuple[Any, Any]] = []

    def pipe(self, *values: str) -> None:
        for value in values:
            self._input.pipe_input(value, value)
            self.piped[value] += 1

    def read(self) -> list[tuple[Any, Any]]:
        new = self._output.read_key_values_to_list()
        self.results += new
        return new

    def latest(self) -> dict[Any, Any]:
        self.read()
        return dict(self.results)


@pytest.fixture
def three() -> Any:
    run = Run(partitions=3, instances=2)
    yield run
    run.driver.close()


def test_every_partition_has_a_task_of_each_sub_topology_and_instances_share_them(three: Run) -> None:
    tasks = [three.driver.tasks_of(name) for name in three.driver.instances]
    assert [len(found) for found in tasks] == [3, 3]
    assert tasks[0] | tasks[1] == {TaskId(sub, partition) for sub in (0, 1) for partition in range(3)}


def test_records_of_one_key_meet_in_one_partition(three: Run) -> None:
    three.pipe(*KEYS, *KEYS)
    assert three.latest() == dict.fromkeys(KEYS, 2)
    used = [three.driver.get_key_value_store("counts", partition) for partition in range(3)]
    assert sorted(key for store in used if store is not None for key, _ in store.all()) == sorted(KEYS)


def test_a_store_with_several_partitions_has_to_be_asked_for_by_partition(three: Run) -> None:
    with pytest.raises(ValueError, match="counts has partitions 0, 1, 2: say which"):
        three.driver.get_state_store("counts")


def test_an_instance_that_leaves_gives_its_tasks_to_the_others(three: Run) -> None:
    three.pipe(*KEYS)
    three.driver.stop_instance("2")
    assert len(three.driver.tasks_of("1")) == 6
    three.pipe(*KEYS)
    assert three.latest() == dict.fromkeys(KEYS, 2)


def test_an_instance_that_comes_back_restores_only_what_its_directory_lacks() -> None:
    run = Run(partitions=1, instances=1)
    run.pipe(*KEYS)
    run.driver.kill_instance("1")
    run.driver.start_instance("1")
    assert run.driver.restored_records("1") == {TaskId(0, 0): 0, TaskId(1, 0): 0}
    run.driver.kill_instance("1")
    run.driver.start_instance("elsewhere")
    assert run.driver.restored_records("elsewhere") == {TaskId(0, 0): 0, TaskId(1, 0): len(KEYS)}
    run.pipe(*KEYS)
    assert run.latest() == dict.fromkeys(KEYS, 2)
    run.driver.close()


def test_what_is_not_committed_is_seen_by_nobody_and_lost_with_the_instance() -> None:
    run = Run(partitions=1, commit_every_record=False)
    run.pipe("a")
    assert run.read() == []
    run.driver.kill_instance("1")
    run.driver.start_instance("1")
    run.driver.commit()
    run.driver.commit()
    assert run.read() == [("a", 1)]
    run.driver.close()


def test_a_crash_between_the_commit_and_the_store_counts_once() -> None:
    run = Run(partitions=1, commit_every_record=False)
    run.pipe("a", "a")
    run.driver.commit()
    run.driver.kill_instance("1", during_commit=True)
    run.driver.start_instance("1")
    assert run.driver.restored_records("1")[TaskId(1, 0)] == 2
    run.pipe("a")
    run.driver.commit()
    run.driver.commit()
    assert run.read() == [("a", 1), ("a", 2), ("a", 3)]
    run.driver.close()


def test_at_least_once_shows_records_at_once_and_repeats_them_after_a_crash() -> None:
    run = Run("at_least_once", partitions=1, commit_every_record=False)
    run.pipe("a")
    assert run.read() == [("a", 1)]
    run.driver.kill_instance("1")
    run.driver.start_instance("1")
    assert ("a", 2) in run.read(), "the record is read again, and its first count was in the changelog"
    run.driver.close()


@pytest.mark.parametrize("seed", range(12))
def test_random_faults_lose_and_double_nothing(seed: int) -> None:
    chance = random.Random(seed)
    run = Run(partitions=chance.randint(1, 4), instances=chance.randint(1, 3), commit_every_record=False, seed=seed)
    driver, names = run.driver, ["1", "2", "3", "4"]
    for _ in range(60):
        match chance.choice(["pipe", "pipe", "pipe", "commit", "kill", "kill in commit", "stop", "start"]):
            case "pipe":
                run.pipe(*chance.choices(KEYS, k=5))
            case "commit":
                driver.commit()
            case "start":
                idle = [name for name in names if name not in driver.instances]
                if idle:
                    driver.start_instance(chance.choice(idle))
            case how if driver.instances:
                name = chance.choice(driver.instances)
                if how == "stop":
                    driver.stop_instance(name)
                else:
                    driver.kill_instance(name, during_commit=how == "kill in commit")
            case _:
                pass
    if not driver.instances:
        driver.start_instance("1")
    driver.commit()
    driver.commit()
    run.read()
    seen: dict[str, list[int]] = {}
    for key, count in run.results:
        seen.setdefault(key, []).append(count)
    # every count of every key once and in order, through all crashes
    assert seen == {key: list(range(1, count + 1)) for key, count in run.piped.items() if count}, f"seed {seed}"
    driver.close()


def test_instances_need_partitions() -> None:
    with pytest.raises(ValueError, match="need partitions"):
        TopologyTestDriver(counting(), instances=2)
    with TopologyTestDriver(counting()) as driver, pytest.raises(IllegalStateException, match="give it partitions"):
        driver.kill_instance("1")


def test_partition_counts_by_topic_must_fit() -> None:
    with pytest.raises(ValueError, match="at least one partition"):
        TopologyTestDriver(counting(), partitions=0)
    with TopologyTestDriver(counting(), partitions={"in": 5}) as driver:
        assert {task.partition for task in driver.tasks_of("1") if task.subtopology == 0} == set(range(5))


def test_an_unknown_instance_is_named() -> None:
    with TopologyTestDriver(counting(), partitions=1) as driver:
        with pytest.raises(IllegalStateException, match="no instance 7 runs; there are 1"):
            driver.stop_instance("7")
        with pytest.raises(IllegalStateException, match="1 runs already"):
            driver.start_instance("1")
