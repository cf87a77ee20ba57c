"""The messages of the streams rebalance protocol (KIP-1071), between our own values and kafka-python's bytes.

Nothing here sends: ``streams_connection`` does, and ``streams_member`` decides what. A request is made without a
version, which the connection agrees with the broker: 0 from Kafka 4.1 on, 1 from 4.4 on, whose answer has other fields.

Layouts are in ``messages``. Sources: ``StreamsGroupHeartbeatRequest``, ``StreamsGroupHeartbeatResponse``,
``StreamsGroupDescribeRequest``, ``StreamsGroupTopologyDescriptionUpdateRequest`` (api keys 88, 89 and 93, 4.4).
"""

from __future__ import annotations

import types
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka.protocol.api_message import ApiMessage as UntypedApiMessage

import headrace.kafka.messages as layouts
from headrace.records import HostInfo, HostPartitions, TaskId, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headrace.topology.group import GroupNode, GroupSubtopology, GroupTopic, TopologyDescription

ApiMessage: Any = UntypedApiMessage

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2
"""A static member goes and will be back: its tasks stay its own until the session runs out."""


def _message(name: str, **methods: Any) -> Any:
    # kafka-python takes the layout by the class's name, and keeps no hold of the class itself
    return types.new_class(name, (ApiMessage,), {"load_json": layouts}, lambda body: body.update(methods))


def _encode_heartbeat(self: Any, version: int | None = None, header: bool = False, framed: bool = False) -> Any:
    if (self.API_VERSION if version is None else version) == 0:
        # the layout has them from the beginning, but brokers before 4.4 refuse whoever fills them in
        self.task_offsets = self.task_end_offsets = None
    return ApiMessage.encode(self, version, header, framed)


StreamsGroupHeartbeatRequest: Any = _message("StreamsGroupHeartbeatRequest", encode=_encode_heartbeat)
StreamsGroupHeartbeatResponse: Any = _message("StreamsGroupHeartbeatResponse")
StreamsGroupDescribeRequest: Any = _message("StreamsGroupDescribeRequest")
StreamsGroupDescribeResponse: Any = _message("StreamsGroupDescribeResponse")
StreamsGroupTopologyDescriptionUpdateRequest: Any = _message("StreamsGroupTopologyDescriptionUpdateRequest")
StreamsGroupTopologyDescriptionUpdateResponse: Any = _message("StreamsGroupTopologyDescriptionUpdateResponse")


class Status(IntEnum):
    """What the brokers say about a group, beside errors. Source: ``StreamsGroupHeartbeatResponse.Status``."""

    STALE_TOPOLOGY = 0
    """The group has a newer topology than this member."""
    MISSING_SOURCE_TOPICS = 1
    """Source topics do not exist: nobody gets tasks."""
    INCORRECTLY_PARTITIONED_TOPICS = 2
    """Joined topics differ in partitions, or an internal topic has another number than it needs."""
    MISSING_INTERNAL_TOPICS = 3
    """Internal topics are being made."""
    SHUTDOWN_APPLICATION = 4
    """A member has asked that all end."""
    ASSIGNMENT_DELAYED = 5
    """The brokers wait for more members before they assign."""
    MISSING_CLIENT_TAGS = 6
    """Standby tasks are to be spread by tags that a member does not have."""


class TaskSets(NamedTuple):
    """A member's tasks by what it does with them."""

    active: frozenset[TaskId] = frozenset()
    standby: frozenset[TaskId] = frozenset()
    warmup: frozenset[TaskId] = frozenset()

    @property
    def followed(self) -> frozenset[TaskId]:
        """Tasks whose state is only kept up."""
        return self.standby | self.warmup


class MemberDescription(NamedTuple):
    """What does not change while a member lives; said when it joins."""

    group_id: str
    instance_id: str | None
    process_id: str
    rebalance_timeout_ms: int
    topology: tuple[GroupSubtopology, ...]
    host: HostInfo | None = None
    tags: tuple[tuple[str, str], ...] = ()
    rack_id: str | None = None


class Heartbeat(NamedTuple):
    """One request.

    Attributes:
        member_id: made by the member itself.
        epoch: the member's, or one of ``JOIN_EPOCH``, ``LEAVE_EPOCH``, ``STATIC_LEAVE_EPOCH``.
        endpoint_epoch: of the hosts it knows, -1 for none.
        tasks: what it owns; None for no change since the last request.
        offsets: sums of changelog offsets of tasks that it has state of and does not run; None for no change. Version 0
            leaves them out.
        end_offsets: the same of the changelogs' ends.
        shutdown: ask that the whole application ends.
    """

    member_id: str
    epoch: int
    endpoint_epoch: int = -1
    tasks: TaskSets | None = None
    offsets: Mapping[TaskId, int] | None = None
    end_offsets: Mapping[TaskId, int] | None = None
    shutdown: bool = False


class HeartbeatAnswer(NamedTuple):
    """One answer. None stands for no change.

    Attributes:
        error_code: Kafka's number, 0 for none; then ``error_text`` says more and the rest means nothing.
        epoch: the member's from now on.
        interval_ms: until the next heartbeat.
        offset_interval_ms: between two reports of offsets.
        acceptable_lag: records that a warm-up task may lack and still become active; -1 if the brokers do not say.
        statuses: pairs of number and text.
        tasks: what the member is to own.
        description_wanted: the brokers ask for the ``TopologyDescription``.
        endpoint_epoch: of the hosts.
        hosts: by host, the partitions of the tasks it runs and of those it follows.
    """

    error_code: int
    error_text: str
    epoch: int
    interval_ms: int
    offset_interval_ms: int
    acceptable_lag: int
    statuses: tuple[tuple[int, str], ...] | None
    tasks: TaskSets | None
    description_wanted: bool
    endpoint_epoch: int
    hosts: Mapping[HostInfo, HostPartitions] | None


class StreamsMemberView(NamedTuple):
    """A member as the brokers know it; ``tasks`` are the active ones that it has now."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    tasks: frozenset[TaskId]


class StreamsGroupView(NamedTuple):
    """A group as the brokers know it; ``topics`` are by sub-topology those that it reads."""

    members: tuple[StreamsMemberView, ...] = ()
    topics: Mapping[int, frozenset[str]] = types.MappingProxyType({})


def heartbeat_request(member: MemberDescription, heartbeat: Heartbeat) -> Any:
    """The message; a joining member's has all there is to say about it."""
    request = StreamsGroupHeartbeatRequest
    tasks = heartbeat.tasks
    fields: dict[str, Any] = {
        "group_id": member.group_id,
        "member_id": heartbeat.member_id,
        "member_epoch": heartbeat.epoch,
        "endpoint_information_epoch": heartbeat.endpoint_epoch,
        "instance_id": member.instance_id,
        "active_tasks": None if tasks is None else _task_ids(tasks.active),
        "standby_tasks": None if tasks is None else _task_ids(tasks.standby),
        "warmup_tasks": None if tasks is None else _task_ids(tasks.warmup),
        "task_offsets": _offsets(heartbeat.offsets),
        "task_end_offsets": _offsets(heartbeat.end_offsets),
        "shutdown_application": heartbeat.shutdown,
    }
    if heartbeat.epoch == JOIN_EPOCH:
        fields |= {
            "topology": request.Topology(epoch=0, subtopologies=[_subtopology(sub) for sub in member.topology]),
            "rebalance_timeout_ms": member.rebalance_timeout_ms,
            "process_id": member.process_id,
            "rack_id": member.rack_id,
            "user_endpoint": None
            if member.host is None
            else request.Endpoint(host=member.host.host, port=member.host.port),
            "client_tags": _pairs(member.tags),
        }
    return request(**fields)


def heartbeat_answer(response: Any) -> HeartbeatAnswer:
    """What a response says, of either version."""
    tasks = None
    if response.active_tasks is not None:
        tasks = TaskSets(
            _tasks(response.active_tasks), _tasks(response.standby_tasks or ()), _tasks(response.warmup_tasks or ())
        )
    statuses = hosts = None
    if response.status is not None:
        statuses = tuple((int(entry.status_code), str(entry.status_detail)) for entry in response.status)
    if response.partitions_by_user_endpoint is not None:
        hosts = {
            HostInfo(str(entry.user_endpoint.host), int(entry.user_endpoint.port)): HostPartitions(
                _partitions(entry.active_partitions), _partitions(entry.standby_partitions)
            )
            for entry in response.partitions_by_user_endpoint
        }
    return HeartbeatAnswer(
        int(response.error_code),
        str(response.error_message or ""),
        int(response.member_epoch),
        int(response.heartbeat_interval_ms),
        int(response.task_offset_interval_ms),
        int(response.acceptable_recovery_lag),
        statuses,
        tasks,
        bool(response.topology_description_required),
        int(response.endpoint_information_epoch),
        hosts,
    )


def group_request(group_id: str) -> Any:
    """The message that asks about a group."""
    return StreamsGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False)


def group_view(response: Any) -> tuple[StreamsGroupView, int]:
    """What a response says about the group asked for, and Kafka's number of an error, 0 for none."""
    (group,) = response.groups
    subtopologies = (group.topology.subtopologies if group.topology is not None else None) or ()
    return StreamsGroupView(
        tuple(
            StreamsMemberView(
                str(member.member_id),
                member.instance_id or None,
                str(member.client_id),
                str(member.client_host),
                _tasks(member.assignment.active_tasks),
            )
            for member in group.members
        ),
        {
            int(sub.subtopology_id): frozenset(
                (*map(str, sub.source_topics), *(str(topic.name) for topic in sub.repartition_source_topics))
            )
            for sub in subtopologies
        },
    ), int(group.error_code)


def description_request(group_id: str, member_id: str, description: TopologyDescription) -> Any:
    """The message that carries a topology's nodes."""
    request = StreamsGroupTopologyDescriptionUpdateRequest
    return request(
        group_id=group_id,
        member_id=member_id,
        topology_epoch=0,
        topology_description=request.TopologyDescription(
            subtopologies=[
                _Fields(subtopology_id=number, nodes=[_node(node) for node in nodes])
                for number, nodes in description.subtopologies
            ],
            global_stores=[
                _Fields(source=_node(source), processor=_node(processor))
                for source, processor in description.global_stores
            ],
        ),
    )


class _Fields:
    """Named fields of a part of a message: kafka-python encodes whatever has the attributes."""

    tags = None
    unknown_tags = None

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


def _subtopology(sub: GroupSubtopology) -> _Fields:
    return _Fields(
        subtopology_id=sub.id,
        source_topics=sub.source_topics,
        source_topic_regex=(),
        state_changelog_topics=[_topic(topic) for topic in sub.changelog_topics],
        repartition_sink_topics=sub.repartition_sink_topics,
        repartition_source_topics=[_topic(topic) for topic in sub.repartition_source_topics],
        copartition_groups=[
            _Fields(
                source_topics=group.source_topics,
                source_topic_regex=(),
                repartition_source_topics=group.repartition_source_topics,
            )
            for group in sub.copartition_groups
        ],
    )


def _topic(topic: GroupTopic) -> _Fields:
    return _Fields(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=_pairs(topic.configs),
    )


def _node(node: GroupNode) -> _Fields:
    return _Fields(
        name=node.name,
        node_type=node.kind,
        source_topics=node.source_topics,
        sink_topic=node.sink_topic,
        stores=node.stores,
        successors=node.successors,
    )


def _pairs(pairs: Iterable[tuple[str, str]]) -> list[_Fields]:
    return [_Fields(key=key, value=value) for key, value in pairs]


def _task_ids(tasks: Iterable[TaskId]) -> list[_Fields]:
    by_subtopology: dict[int, list[int]] = {}
    for task in sorted(tasks):
        by_subtopology.setdefault(task.subtopology, []).append(task.partition)
    return [_Fields(subtopology_id=str(number), partitions=partitions) for number, partitions in by_subtopology.items()]


def _offsets(offsets: Mapping[TaskId, int] | None) -> list[_Fields] | None:
    if offsets is None:
        return None
    return [
        _Fields(subtopology_id=str(task.subtopology), partition=task.partition, offset=offset)
        for task, offset in sorted(offsets.items())
    ]


def _tasks(entries: Sequence[Any]) -> frozenset[TaskId]:
    return frozenset(TaskId(int(entry.subtopology_id), number) for entry in entries for number in entry.partitions)


def _partitions(entries: Sequence[Any]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(str(entry.topic), number) for entry in entries for number in entry.partitions)
