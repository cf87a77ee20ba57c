"""Messages of the streams protocol there and back, in both versions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.kafka.streams_protocol import (
    Heartbeat,
    HeartbeatAnswer,
    MemberDescription,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsGroupTopologyDescriptionUpdateRequest,
    TaskSets,
    description_request,
    heartbeat_answer,
    heartbeat_request,
)
from headrace.records import HostInfo, HostPartitions, TaskId, TopicPartition
from headrace.topology import Topology
from headrace.topology.group import PROCESSOR, SINK, SOURCE, GroupNode, TopologyDescription, topology_description

MEMBER = MemberDescription("g", "one", "p-1", 1_000, (), HostInfo("here", 65_000), (("zone", "a"),), "rack-1")


def part(**fields: Any) -> SimpleNamespace:
    return SimpleNamespace(tags=None, unknown_tags=None, **fields)


def received(heartbeat: Heartbeat, version: int) -> Any:
    return StreamsGroupHeartbeatRequest.decode(
        bytes(heartbeat_request(MEMBER, heartbeat).encode(version=version)), version=version
    )


@pytest.mark.parametrize("version", [0, 1])
def test_a_joining_member_says_all_there_is(version: int) -> None:
    offsets = {TaskId(0, 1): 7, TaskId(0, 0): 5}
    got = received(Heartbeat("m", 0, tasks=TaskSets(), offsets=offsets, end_offsets={}), version)
    assert (got.group_id, got.member_id, got.member_epoch, got.instance_id) == ("g", "m", 0, "one")
    assert (got.rebalance_timeout_ms, got.process_id, got.rack_id) == (1_000, "p-1", "rack-1")
    assert (got.user_endpoint.host, got.user_endpoint.port) == ("here", 65_000)
    assert [(pair.key, pair.value) for pair in got.client_tags] == [("zone", "a")]
    assert (got.active_tasks, got.standby_tasks, got.warmup_tasks) == ([], [], [])
    if version == 0:  # brokers before 4.4 refuse them
        assert got.task_offsets is got.task_end_offsets is None
    else:
        assert [(o.subtopology_id, o.partition, o.offset) for o in got.task_offsets] == [("0", 0, 5), ("0", 1, 7)]
        assert got.task_end_offsets == []
    assert got.topology.subtopologies == []


def test_later_only_what_has_changed_is_said() -> None:
    got = received(Heartbeat("m", 3, endpoint_epoch=2), 1)
    for field in ("topology", "user_endpoint", "client_tags", "process_id", "rack_id", "active_tasks", "task_offsets"):
        assert getattr(got, field) is None
    assert (got.member_epoch, got.endpoint_information_epoch, got.rebalance_timeout_ms) == (3, 2, -1)
    owned = TaskSets(frozenset({TaskId(1, 2), TaskId(1, 0), TaskId(0, 3)}), warmup=frozenset({TaskId(0, 1)}))
    got = received(Heartbeat("m", 3, tasks=owned, shutdown=True), 1)
    assert [(t.subtopology_id, t.partitions) for t in got.active_tasks] == [("0", [3]), ("1", [0, 2])]
    assert [(t.subtopology_id, t.partitions) for t in got.warmup_tasks] == [("0", [1])]
    assert got.standby_tasks == []
    assert got.shutdown_application


@pytest.mark.parametrize("version", [0, 1])
def test_an_answer_is_read_in_both_versions(version: int) -> None:
    sent = StreamsGroupHeartbeatResponse(
        error_code=0,
        member_id="m",
        member_epoch=4,
        heartbeat_interval_ms=5_000,
        task_offset_interval_ms=60_000,
        acceptable_recovery_lag_legacy=1,
        acceptable_recovery_lag=2,
        status=[part(status_code=5, status_detail="wait")],
        active_tasks=[part(subtopology_id="0", partitions=[1, 2])],
        standby_tasks=[part(subtopology_id="1", partitions=[0])],
        warmup_tasks=[],
        topology_description_required=True,
        endpoint_information_epoch=9,
        partitions_by_user_endpoint=[
            part(
                user_endpoint=part(host="here", port=80),
                active_partitions=[part(topic="in", partitions=[1, 2])],
                standby_partitions=[],
            )
        ],
        version=version,
    )
    got = StreamsGroupHeartbeatResponse.decode(bytes(sent.encode(version=version)), version=version)
    here = HostPartitions(frozenset({TopicPartition("in", 1), TopicPartition("in", 2)}), frozenset())
    assert heartbeat_answer(got) == HeartbeatAnswer(
        0,
        "",
        4,
        5_000,
        60_000,
        2 if version else -1,
        ((5, "wait"),),
        TaskSets(frozenset({TaskId(0, 1), TaskId(0, 2)}), frozenset({TaskId(1, 0)})),
        version == 1,
        9,
        {HostInfo("here", 80): here},
    )


def test_what_is_null_in_an_answer_has_not_changed() -> None:
    sent = StreamsGroupHeartbeatResponse(member_id="m", member_epoch=4, error_code=25, error_message="who?", version=1)
    got = heartbeat_answer(StreamsGroupHeartbeatResponse.decode(bytes(sent.encode(version=1)), version=1))
    assert (got.error_code, got.error_text, got.statuses, got.tasks, got.hosts) == (25, "who?", None, None, None)


def test_a_topology_is_described_node_by_node() -> None:
    topology = Topology()
    topology.add_source("lines", "in", "in2")
    topology.add_sink("out", "output", "lines")
    topology.add_sink("chosen", lambda _key, _value, _context: "other", "lines")
    nodes = (
        GroupNode("lines", SOURCE, ("in", "in2"), None, (), ("out", "chosen")),
        GroupNode("out", SINK, (), "output", (), ()),
        GroupNode("chosen", SINK, (), None, (), ()),
    )
    described = topology_description(topology.build("app"))
    assert described == TopologyDescription((("0", nodes),), ())
    described = described._replace(global_stores=((nodes[0], GroupNode("fill", PROCESSOR, (), None, ("store",), ())),))
    message = description_request("g", "m", described).encode(version=0)
    got = StreamsGroupTopologyDescriptionUpdateRequest.decode(bytes(message), version=0).topology_description
    assert [node.name for node in got.subtopologies[0].nodes] == ["lines", "out", "chosen"]
    assert [node.sink_topic for node in got.subtopologies[0].nodes] == [None, "output", None]
    assert got.subtopologies[0].nodes[0].successors == ["out", "chosen"]
    assert (got.global_stores[0].source.name, got.global_stores[0].processor.stores) == ("lines", ["store"])
