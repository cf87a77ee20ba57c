"""Streams groups and brokers that restart, or that do not have the protocol."""

from __future__ import annotations

import subprocess
import zipfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cluster.conftest import STREAMS_GROUPS
from cluster.instances import wait_until
from cluster.kafka.members import drive, streams_member
from cluster.runtime.counting import counting, running

from headrace import State
from headrace.errors import UnsupportedVersionException
from headrace.kafka import Lost, NewTopic, TopicAdmin
from headrace.records import OffsetAndMetadata, TaskId, TopicPartition
from headrace.testing.broker import jars_directory
from headrace.testing.cluster import LocalCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.streams_protocol

SETTINGS = {**STREAMS_GROUPS, "group.streams.session.timeout.ms": "45000"}
"""The session has to be longer than a broker takes to start."""
ALL = {TaskId(0, partition) for partition in range(2)}
PLUGIN = Path(__file__).with_name("TopologyFile.java")


def test_members_outlive_a_broker_and_need_its_feature(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, settings=SETTINGS, log=print) as cluster:
        bootstrap = cluster.bootstrap_servers
        with closing(TopicAdmin({"bootstrap.servers": bootstrap})) as admin:
            admin.create_topics([NewTopic("lines", 2, 1, {})])
        member = streams_member(bootstrap, "app", "lines")
        member.membership.start()
        drive([member], lambda: member.tasks == ALL)
        epoch = member.membership.identity().generation
        cluster.stop()
        cluster.start()
        member.membership.commit_offsets({TopicPartition("lines", 0): OffsetAndMetadata(1, "")})
        assert member.membership.identity().generation == epoch
        drive([member], lambda: not member.membership.generation_in_doubt())
        assert member.count(Lost) == 0
        member.membership.close(leave_group=True)

        jars, tool = f"{jars_directory()}/*", "org.apache.kafka.tools.FeatureCommand"
        lower = ("--bootstrap-server", bootstrap, "downgrade", "--feature", "streams.version=0")
        subprocess.run(["java", "-XX:TieredStopAtLevel=1", "-cp", jars, tool, *lower], check=True, timeout=120)
        late = streams_member(bootstrap, "other", "lines")
        late.membership.start()
        with pytest.raises(UnsupportedVersionException, match=r"do not have the streams group.*streams\.version=1"):
            drive([late], lambda: False)
        late.membership.close(leave_group=True)


@pytest.fixture
def described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Path]]:
    """A broker that asks for topologies, and the directory where it puts what it is told, a file for each group."""
    jars, told, classes = (tmp_path / name for name in ("jars", "told", "classes"))
    for directory in (jars, told):
        directory.mkdir()
    for jar in jars_directory().glob("*.jar"):
        (jars / jar.name).symlink_to(jar)
    subprocess.run(["javac", "-cp", f"{jars}/*", "-d", str(classes), str(PLUGIN)], check=True, timeout=120)
    with zipfile.ZipFile(jars / "plugin.jar", "w") as plugin:
        for file in classes.iterdir():
            plugin.write(file, file.name)
    monkeypatch.setenv("HEADRACE_KAFKA_LIB", str(jars))
    settings = {
        **STREAMS_GROUPS,
        "group.streams.topology.description.plugin.class": PLUGIN.stem,
        "topology.file.directory": str(told),
    }
    with LocalCluster(tmp_path / "kafka", settings=settings, log=print) as cluster:
        yield cluster.bootstrap_servers, told


def test_brokers_that_ask_are_told_the_topology(described: tuple[str, Path], tmp_path: Path) -> None:
    bootstrap, told = described
    with closing(TopicAdmin({"bootstrap.servers": bootstrap})) as admin:
        admin.create_topics([NewTopic("in", 2, 1, {}), NewTopic("out", 2, 1, {})])
    settings = {
        "application.id": "app",
        "bootstrap.servers": bootstrap,
        "group.protocol": "streams",
        "state.dir": str(tmp_path / "state"),
    }
    topology = counting("in", "out")
    with running(topology, {**settings, "application.id": "silent", "topology.description.push.enabled": False}) as one:
        wait_until(lambda: one.state() is State.RUNNING, "the one that is not to tell runs")
        with running(topology, settings):
            wait_until((told / "app").exists, "the broker is told the topology")
    assert [file.name for file in told.iterdir()] == ["app"]
    # as Kafka's own classes show it
    assert (told / "app").read_text() == (
        "StreamsGroupTopologyDescription[subtopologies=[Subtopology[id=0, nodes=["
        "Source[name=KSTREAM-SOURCE-0000000000, topics=[in], successors=[KSTREAM-MAPVALUES-0000000001]], "
        "Processor[name=KSTREAM-MAPVALUES-0000000001, stores=[], successors=[KSTREAM-AGGREGATE-0000000002]], "
        "Processor[name=KSTREAM-AGGREGATE-0000000002, stores=[counts], successors=[KTABLE-TOSTREAM-0000000003]], "
        "Processor[name=KTABLE-TOSTREAM-0000000003, stores=[], successors=[KSTREAM-SINK-0000000004]], "
        "Sink[name=KSTREAM-SINK-0000000004, topic=Optional[out], successors=[]]]]], globalStores=[]]"
    )
