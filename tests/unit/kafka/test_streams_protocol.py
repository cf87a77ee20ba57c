"""Messages of the streams protocol there and back, in both versions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.kafka.streams_protocol import (
    Heartbeat,
    HeartbeatAnswer,
    MemberDescription,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupView,
    StreamsMemberView,
    TaskSets,
    description_request,
    group_request,
    group_view,
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


def test_a_group_is_described_by_its_members_and_what_its_sub_topologies_read() -> None:
    asked = StreamsGroupDescribeRequest.decode(bytes(group_request("g").encode(version=0)), version=0)
    assert (asked.group_ids, asked.include_authorized_operations) == (["g"], False)
    tasks = part(
        active_tasks=[part(subtopology_id="1", partitions=[0, 2])],
        standby_tasks=[part(subtopology_id="1", partitions=[1])],
        warmup_tasks=[],
    )
    member = part(
        member_id="m", member_epoch=3, instance_id="one", rack_id=None, client_id="c", client_host="/h",
        topology_epoch=0, process_id="p", user_endpoint=None, client_tags=[part(key="zone", value="a")],
        task_offsets=[part(subtopology_id="1", partition=1, offset=5)], task_end_offsets=[], assignment=tasks,
        target_assignment=tasks, is_classic=False,
    )  # fmt: skip
    repartition = part(name="g-r", partitions=4, replication_factor=0, topic_configs=[])
    sub = part(
        subtopology_id="1", source_topics=["in"], repartition_sink_topics=["x"], state_changelog_topics=[repartition],
        repartition_source_topics=[repartition],
    )  # fmt: skip
    group = part(
        error_code=0, error_message=None, group_id="g", group_state="Stable", group_epoch=2, assignment_epoch=2,
        topology=part(epoch=0, subtopologies=[sub]), members=[member], authorized_operations=-(2**31),
    )  # fmt: skip

    def told(group: Any) -> tuple[StreamsGroupView, int]:
        sent = StreamsGroupDescribeResponse(throttle_time_ms=0, groups=[group])
        return group_view(StreamsGroupDescribeResponse.decode(bytes(sent.encode(version=0)), version=0))

    known = StreamsMemberView("m", "one", "c", "/h", frozenset({TaskId(1, 0), TaskId(1, 2)}))
    assert told(group) == (StreamsGroupView((known,), {1: frozenset({"in", "g-r"})}), 0)
    group.error_code, group.topology, group.members = 69, None, []
    assert told(group) == (StreamsGroupView((), {}), 69)
