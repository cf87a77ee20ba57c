"""Streams groups and brokers that restart, or that do not have the protocol."""

from __future__ import annotations

import subprocess
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from cluster.conftest import STREAMS_GROUPS
from cluster.kafka.members import drive, streams_member

from headrace.errors import UnsupportedVersionException
from headrace.kafka import Lost, NewTopic, TopicAdmin
from headrace.records import OffsetAndMetadata, TaskId, TopicPartition
from headrace.testing.broker import jars_directory
from headrace.testing.cluster import LocalCluster

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.streams_protocol

SETTINGS = {**STREAMS_GROUPS, "group.streams.session.timeout.ms": "45000"}
"""The session has to be longer than a broker takes to start."""
ALL = {TaskId(0, partition) for partition in range(2)}


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
