"""The two group protocols behind one face: how internal topics come to be, and who is a stream thread's member."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from headrace.assignment import AssignmentSettings, Places, TaskAssignor
from headrace.config import StreamsConfig
from headrace.kafka import ClassicMembership, StreamsMembership
from headrace.runtime.changelogs import stateful_tasks
from headrace.runtime.topics import BrokerMadeTopics, TopicPreparation
from headrace.topology.group import group_topology, topology_description

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable

    from headrace.kafka import JoinClaims, Membership, TaskOffsets
    from headrace.topology.built import BuiltTopology
    from headrace.topology.copartition import Plan


class MemberParts(NamedTuple):
    """What a member takes from its stream thread. All but the first two are called on a thread of the membership's.

    Attributes:
        thread_index: number of the thread, from 1; a static member's id ends with it.
        client_id: shown by Kafka's tools.
        plan: tasks and topics of now.
        subscription: user data of a join (classic protocol).
        task_offsets: how far this process's copies of tasks are.
        end_offsets: by task with state the sum of its changelogs' ends; asks the brokers (classic protocol).
        places: in which racks topics are; asks the brokers (classic protocol).
        standby_ends: the same of standby tasks, as last seen (streams protocol).
        former: id of the member that this thread of a dead process had, if there is one.
    """

    thread_index: int
    client_id: str
    plan: Callable[[], Plan]
    subscription: Callable[[JoinClaims], bytes]
    task_offsets: TaskOffsets
    end_offsets: TaskOffsets
    places: Callable[[], Places]
    standby_ends: TaskOffsets
    former: str | None


class GroupProtocol(Protocol):
    """What ``group.protocol`` chooses."""

    @property
    def topics(self) -> TopicPreparation:
        """Plans the application and sees to its internal topics."""
        ...

    def member(self, parts: MemberParts) -> Membership:
        """A member for a stream thread, not started."""
        ...


class ClassicGroup:
    """A member of the group, its leader, assigns; clients make internal topics."""

    def __init__(self, config: StreamsConfig, built: BuiltTopology) -> None:
        self.topics = TopicPreparation(built, config.replication_factor)
        self._config = config

    def member(self, parts: MemberParts) -> Membership:
        """See :class:`GroupProtocol`."""
        return ClassicMembership(
            self._config.main_consumer_config(),
            self._config.application_id,
            parts.client_id,
            topics=lambda: sorted({topic for topics in parts.plan().source_topics.values() for topic in topics}),
            subscription_userdata=parts.subscription,
            assignor=lambda members: self._assignor(parts)(members),
            former=parts.former,
            **self._config.membership_config(parts.thread_index),
        )

    def _assignor(self, parts: MemberParts) -> TaskAssignor:
        plan = parts.plan()
        settings = assignment_settings(self._config)
        return TaskAssignor(plan.tasks, stateful_tasks(plan), parts.end_offsets, settings, parts.places)


class StreamsGroup:
    """The brokers assign and make internal topics (KIP-1071).

    Raises:
        TopologyException: The topology has what the protocol does not: patterns of topics.
    """

    def __init__(self, config: StreamsConfig, built: BuiltTopology, process_id: uuid.UUID) -> None:
        self.topics = BrokerMadeTopics(built, config.replication_factor)
        self._config = config
        self._built = built
        self._process_id = process_id
        self._topology = group_topology(built, config.replication_factor)

    def member(self, parts: MemberParts) -> Membership:
        """See :class:`GroupProtocol`."""
        config, settings = self._config, self._config.membership_config(parts.thread_index)
        return StreamsMembership(
            config.main_consumer_config(),
            config.application_id,
            parts.client_id,
            process_id=str(self._process_id),
            topology=self._topology,
            partitions=lambda task: parts.plan().tasks.get(task, ()),
            max_poll_interval_ms=settings["max_poll_interval_ms"],
            group_instance_id=settings.get("group_instance_id"),
            host=config.application_host,
            tags=config.client_tags,
            rack_id=config.rack_id,
            task_offsets=parts.task_offsets,
            task_end_offsets=parts.standby_ends,
            former=parts.former,
            describe=(lambda: topology_description(self._built))
            if config["topology.description.push.enabled"]
            else None,
        )


def assignment_settings(config: StreamsConfig) -> AssignmentSettings:
    """How a leader with this configuration places tasks."""
    keys = StreamsConfig
    return AssignmentSettings(
        standby_replicas=config[keys.NUM_STANDBY_REPLICAS_CONFIG],
        acceptable_lag=config[keys.ACCEPTABLE_RECOVERY_LAG_CONFIG],
        max_warmups=config[keys.MAX_WARMUP_REPLICAS_CONFIG],
        probing_interval_ms=config[keys.PROBING_REBALANCE_INTERVAL_MS_CONFIG],
        tags=tuple(config[keys.RACK_AWARE_ASSIGNMENT_TAGS_CONFIG]),
        warm_up=not config.sticky_assignor,
        rack_strategy=config[keys.RACK_AWARE_ASSIGNMENT_STRATEGY_CONFIG],
        traffic_cost=config[keys.RACK_AWARE_ASSIGNMENT_TRAFFIC_COST_CONFIG],
        non_overlap_cost=config[keys.RACK_AWARE_ASSIGNMENT_NON_OVERLAP_COST_CONFIG],
    )


def group_protocol(config: StreamsConfig, built: BuiltTopology, process_id: uuid.UUID) -> GroupProtocol:
    """The protocol that the configuration names."""
    return StreamsGroup(config, built, process_id) if config.streams_protocol else ClassicGroup(config, built)
