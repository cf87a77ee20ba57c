"""What the leader of a classic group computes: from the members' subscriptions to their assignments.

Assignments carry both the tasks and the partitions that these read, so that Kafka's own tools show them. Every member
gets an answer that it can read: older ones pass over a message's later fields, and are given no standby tasks.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from headrace.assignment.availability import AssignmentSettings, place
from headrace.assignment.racks import Racks, racks_of
from headrace.assignment.sticky import MemberState
from headrace.assignment.wire import (
    AssignmentError,
    AssignmentInfo,
    MemberRequest,
    SubscriptionInfo,
    UnsupportedWireVersionException,
    decode_subscription,
    encode_assignment,
)
from headrace.errors import KafkaException, StreamsException
from headrace.records import HostPartitions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from headrace.assignment.availability import Placement
    from headrace.records import HostInfo, TaskId, TopicPartition

_log = logging.getLogger(__name__)

_FOLLOWS_SINCE = 2
"""From this wire version on members know of standby tasks."""


class GroupMember(NamedTuple):
    """A member's subscription as the leader sees it; ``generation`` is -1 if it never had an assignment."""

    member_id: str
    group_instance_id: str | None
    topics: tuple[str, ...]
    owned_partitions: tuple[TopicPartition, ...]
    generation: int
    user_data: bytes


class MemberAssignment(NamedTuple):
    """What one member is given."""

    partitions: tuple[TopicPartition, ...]
    user_data: bytes


class Places(NamedTuple):
    """Where the topics of an application are.

    Attributes:
        racks: By partition the racks of its replicas; empty where a broker has none.
        changelogs: By task with state its changelogs.
    """

    racks: Mapping[TopicPartition, Collection[str]]
    changelogs: Mapping[TaskId, Sequence[TopicPartition]]


class TaskAssignor:
    """Called by the membership with all members when this one is the leader, on its IO thread.

    Args:
        tasks: All tasks of the topology, with the source partitions each reads (``topology.copartition.Plan.tasks``).
        stateful: Those with state that a changelog keeps.
        end_offsets: By task the sum of its changelogs' ends. Asked only where several processes share tasks with
            state; may take a few seconds, and raise.
        settings: How tasks are placed.
        places: Where topics are; asked only where a strategy for racks is set and processes are in several.
    """

    def __init__(
        self,
        tasks: Mapping[TaskId, Iterable[TopicPartition]],
        stateful: Collection[TaskId] = (),
        end_offsets: Callable[[], Mapping[TaskId, int]] = dict,
        settings: AssignmentSettings = AssignmentSettings(),  # noqa: B008  # frozen
        places: Callable[[], Places] | None = None,
    ) -> None:
        self._tasks = {task: tuple(partitions) for task, partitions in sorted(tasks.items())}
        self._stateful = frozenset(stateful)
        self._end_offsets = end_offsets
        self._settings = settings
        self._places = places

    def __call__(self, members: Sequence[GroupMember]) -> dict[str, MemberAssignment]:
        """The assignment of every member in this round; see ``availability`` and ``sticky`` for how it is chosen."""
        refused: dict[str, AssignmentError] = {}
        readable: dict[str, tuple[GroupMember, SubscriptionInfo]] = {}
        for member in members:
            try:
                readable[member.member_id] = (member, decode_subscription(member.user_data))
            except UnsupportedWireVersionException:
                refused[member.member_id] = AssignmentError.VERSION_TOO_NEW
            except StreamsException:
                refused[member.member_id] = AssignmentError.UNREADABLE
        if any(info.request == MemberRequest.SHUTDOWN_APPLICATION for _, info in readable.values()):
            end = encode_assignment(AssignmentInfo(error=AssignmentError.SHUTDOWN_REQUESTED))
            return {member.member_id: MemberAssignment((), end) for member in members}
        refused |= _strangers(readable)
        states = {
            member_id: MemberState(
                info.process_id,
                info.owned,
                info.stored,
                member.generation,
                info.standbys,
                info.offsets,
                info.tags,
                info.version >= _FOLLOWS_SINCE,
                info.rack,
            )
            for member_id, (member, info) in readable.items()
        }
        able = {member_id: state for member_id, state in states.items() if member_id not in refused}
        # A refused member's tasks are withheld too until it has given them up: it takes part in the second step.
        placed = place(self._tasks, self._stateful, able, states, self._ends(able), self._settings, self._racks(able))
        hosts = self._hosts({member_id: readable[member_id][1].host for member_id in able}, placed)
        prober = min((member_id for member_id, state in able.items() if state.follows), default=None)
        result = {
            member_id: MemberAssignment(
                tuple(sorted(tp for task in tasks for tp in self._tasks[task])),
                encode_assignment(
                    AssignmentInfo(
                        tasks,
                        standby=placed.standby[member_id],
                        hosts=hosts,
                        probe_after_ms=self._settings.probing_interval_ms
                        if placed.unsettled and member_id == prober
                        else -1,
                    )
                ),
            )
            for member_id, tasks in placed.handed_out.items()
        }
        for member_id, error in refused.items():
            result[member_id] = MemberAssignment((), encode_assignment(AssignmentInfo(error=error)))
        _log.info(
            "Assigned %d tasks to %d members, %d standby tasks%s",
            sum(len(tasks) for tasks in placed.handed_out.values()),
            len(able),
            sum(len(tasks) for tasks in placed.standby.values()),
            "; some wait for their state elsewhere" if placed.unsettled else "",
        )
        return result

    def _ends(self, members: Mapping[str, MemberState]) -> Mapping[TaskId, int] | None:
        if not self._stateful or len({state.process_id for state in members.values()}) < 2:
            return {}
        try:
            return self._end_offsets()
        except KafkaException as e:
            _log.warning("Tasks are placed without knowing who is how far with their state: %s", e)
            return None

    def _racks(self, members: Mapping[str, MemberState]) -> Racks | None:
        if self._places is None or self._settings.rack_strategy == "none":
            return None
        processes = racks_of(members)
        if processes is None:
            _log.warning("Racks do not count when tasks are placed: not every instance has one (client.rack)")
            return None
        if len(set(processes.values())) < 2:
            return None
        try:
            places = self._places()
        except KafkaException as e:
            _log.warning("Tasks are placed without regard to racks: %s", e)
            return None
        homeless = sorted(
            str(tp)
            for tps in (*self._tasks.values(), *places.changelogs.values())
            for tp in tps
            if not places.racks.get(tp)
        )
        if homeless:
            _log.warning(
                "Racks do not count when tasks are placed: brokers have none (broker.rack) that hold %s, …", homeless[0]
            )
            return None
        return Racks(processes, places.racks, self._tasks, places.changelogs)

    def _hosts(self, hosts: Mapping[str, HostInfo | None], placed: Placement) -> dict[HostInfo, HostPartitions]:
        result: dict[HostInfo, HostPartitions] = {}
        for member_id, host in hosts.items():
            if host is not None:
                active, standby = result.get(host, HostPartitions(frozenset(), frozenset()))
                result[host] = HostPartitions(
                    active.union(*(self._tasks[task] for task in placed.active[member_id])),
                    standby.union(*(self._tasks[task] for task in placed.standby[member_id])),
                )
        return result


def _strangers(readable: Mapping[str, tuple[GroupMember, SubscriptionInfo]]) -> dict[str, AssignmentError]:
    """Members whose topology is not that of the majority (of the oldest generation's, then the smallest, on a tie)."""
    votes: dict[bytes, int] = {}
    for _, info in readable.values():
        if info.fingerprint:
            votes[info.fingerprint] = votes.get(info.fingerprint, 0) + 1
    if len(votes) < 2:  # one topology, or none named: nobody to tell apart
        return {}
    running = {
        info.fingerprint: max(other.generation for other, i in readable.values() if i.fingerprint == info.fingerprint)
        for _, info in readable.values()
        if info.fingerprint
    }
    chosen = max(votes, key=lambda fingerprint: (votes[fingerprint], running[fingerprint], fingerprint))
    return {
        member_id: AssignmentError.TOPOLOGY_MISMATCH
        for member_id, (_, info) in readable.items()
        if info.fingerprint and info.fingerprint != chosen
    }
