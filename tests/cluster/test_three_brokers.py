"""Three brokers, as in production: one is lost and comes back, and each is in a rack of its own."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING, Any

import pytest
from cluster.instances import wait_until
from cluster.runtime.counting import counting, running, totals_of, write
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # its __init__ re-exports it

from headrace import State
from headrace.errors import TimeoutException
from headrace.kafka import TopicAdmin
from headrace.records import TopicPartition
from headrace.testing.cluster import LocalCluster
from headrace.testing.processes import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from confluent_kafka.admin import ClusterMetadata  # type: ignore[attr-defined]

RACKS = ("east", "north", "west")
ZONES = {"east": "one", "north": "one", "west": "two"}
PARTITIONS = 6


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, kafka_version: str | None) -> Iterator[LocalCluster]:
    """The brokers; none may be left when they are stopped."""
    directory = tmp_path_factory.mktemp("kafka")
    with LocalCluster(directory, version=kafka_version, brokers=3, heap_mb=384, racks=RACKS) as cluster:
        yield cluster
        last = cluster.state()
        assert last is not None
        assert len(last.pids) == 3
    for pid in last.pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def make(topics: list[NewTopic], brokers: str) -> None:
    """Make topics once each broker knows the others, and wait until each knows the topics: a client may ask any.

    A client that one of them tells of fewer brokers drops those it knew, with its requests to them.
    """
    servers = brokers.split(",")

    def answers() -> list[ClusterMetadata]:
        # a client of its own each time: one that knows the others may ask them instead
        return [AdminClient({"bootstrap.servers": broker}).list_topics(timeout=30) for broker in servers]

    wait_until(lambda: all(len(answer.brokers) == len(servers) for answer in answers()), "all brokers know each other")
    admin = AdminClient({"bootstrap.servers": brokers})  # with its last reference its requests end
    for made in admin.create_topics(topics).values():
        made.result(timeout=30)
    wanted = {topic.topic for topic in topics}
    wait_until(lambda: all(wanted <= answer.topics.keys() for answer in answers()), "each broker knows the topics")


def test_tasks_run_in_the_racks_of_their_partitions_and_copies_are_in_other_zones(
    cluster: LocalCluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    source, out = unique("in"), unique("out")
    # a partition has its only replica on one broker, and so in one rack
    topics = [
        NewTopic(source, PARTITIONS, replica_assignment=[[1 + number % 3] for number in range(PARTITIONS)]),
        NewTopic(out, PARTITIONS, config={"cleanup.policy": "compact"}),
    ]
    make(topics, cluster.bootstrap_servers)
    settings: dict[str, Any] = {
        "application.id": unique("app"),
        "bootstrap.servers": cluster.bootstrap_servers,
        "processing.guarantee": "exactly_once_v2",
        "commit.interval.ms": 200,
        "auto.offset.reset": "earliest",
        "heartbeat.interval.ms": 300,
        "num.standby.replicas": 1,
        "rack.aware.assignment.strategy": "min_traffic",
        "rack.aware.assignment.tags": "zone",
    }
    with ExitStack() as stack:
        clients = {
            rack: stack.enter_context(
                running(
                    counting(source, out),
                    {**settings, "client.rack": rack, "client.tag.zone": zone, "state.dir": str(tmp_path / rack)},
                )
            )
            for rack, zone in ZONES.items()
        }

        def placed() -> dict[str, tuple[set[int], set[int]]]:
            found: dict[str, tuple[set[int], set[int]]] = {}
            for rack, client in clients.items():
                (thread,) = client.metadata_for_local_threads()
                tasks = (thread.active_tasks, thread.standby_tasks)
                active, copies = ({task.task_id.partition for task in held} for held in tasks)
                found[rack] = active, copies
            return found

        def as_wanted() -> bool:
            now = placed()
            near = all(now[rack][0] == {at, at + 3} for at, rack in enumerate(RACKS))
            active = {partition: ZONES[rack] for rack, (held, _) in now.items() for partition in held}
            copies = [(partition, ZONES[rack]) for rack, (_, kept) in now.items() for partition in kept]
            apart = all(active.get(partition, zone) != zone for partition, zone in copies)
            return near and apart and sorted(partition for partition, _ in copies) == list(range(PARTITIONS))

        wait_until(as_wanted, "tasks are near their partitions, copies in the other zone", detail=placed)
        write(cluster.bootstrap_servers, source, 600)
        totals = stack.enter_context(totals_of(cluster.bootstrap_servers, out))
        wait_until(lambda: totals.total() == 600, "all lines counted", detail=placed)
        assert as_wanted(), placed()


def test_three_brokers_lose_one_and_take_it_back_and_a_topic_that_wants_all_of_them_is_waited_for(
    cluster: LocalCluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    before = cluster.state()
    assert before is not None
    assert len(before.pids) == 3
    brokers, source, strict, led = before.bootstrap_servers, unique("in"), unique("strict"), unique("led")
    admin = AdminClient({"bootstrap.servers": brokers})
    topics = [
        NewTopic(source, 2),
        NewTopic(strict, 2, config={"min.insync.replicas": "3"}),
        NewTopic(led, 1, replica_assignment=[[2, 1, 3]]),
    ]
    make(topics, brokers)
    topic = admin.list_topics(source, timeout=15).topics[source]
    assert all(len(partition.replicas) == 3 for partition in topic.partitions.values())
    settings = {
        "application.id": unique("app"),
        "bootstrap.servers": brokers,
        "processing.guarantee": "exactly_once_v2",
        "commit.interval.ms": 200,
        "auto.offset.reset": "earliest",
        "state.dir": str(tmp_path / "state"),
    }
    with (
        running(counting(source, strict), settings) as streams,
        totals_of(brokers, strict) as totals,
        closing(TopicAdmin({"bootstrap.servers": brokers})) as ours,
        ExitStack() as others,
    ):
        # each broker calls any of them the controller: for some of these it is the one that dies
        clients = [others.enter_context(closing(TopicAdmin({"bootstrap.servers": brokers}))) for _ in range(6)]
        assert all(client.partition_counts([source]) == {source: 2} for client in clients)
        of_the_dead = [TopicPartition(led, 0)]
        assert ours.list_offsets(of_the_dead, "latest") == {of_the_dead[0]: 0}
        write(brokers, source, 100)
        wait_until(lambda: totals.total() == 100, "the lines before")
        cluster.brokers[2].kill()
        left = cluster.state()
        assert left is not None
        assert set(left.brokers) == {1, 3}

        def in_sync() -> set[int]:
            parts = admin.list_topics(strict, timeout=15).topics[strict].partitions.values()
            return {len(partition.isrs) for partition in parts}

        wait_until(lambda: in_sync() == {2}, "the dead one's copies are out of sync")
        # a client that knows no more of the dead one than that it is not there has to find who leads now: restores
        # stood still until brokers' metadata aged, for 15 minutes
        assert all(client.partition_counts([source]) == {source: 2} for client in (ours, *clients))

        def found() -> object:
            with suppress(TimeoutException):
                return ours.list_offsets(of_the_dead, "latest")
            return None

        wait_until(found, "the new leader is asked")
        # two of three are enough for the other topic
        write(brokers, source, 100, 100)
        assert totals.total() == 100
        assert cluster.restart(2, 120).port == before.brokers[2].port
        wait_until(lambda: totals.total() == 200, "the lines meanwhile, once")
        wait_until(lambda: streams.state() is State.RUNNING, "it runs")
    # found again by its directory alone
    assert LocalCluster(cluster.data_dir).state() == cluster.state()
    with pytest.raises(ClusterError, match="holds a cluster of 3 brokers, not of 1"):
        LocalCluster(cluster.data_dir, brokers=1)
