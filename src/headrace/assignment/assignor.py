"""What the leader of a classic group computes: from the members' subscriptions to their assignments.

Assignments carry both the tasks and the partitions that these read, so that Kafka's own tools show them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.assignment.sticky import MemberState, assign, cooperative
from headrace.assignment.wire import (
    AssignmentError,
    AssignmentInfo,
    MemberRequest,
    SubscriptionInfo,
    UnsupportedWireVersionException,
    decode_subscription,
    encode_assignment,
)
from headrace.errors import StreamsException

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headrace.records import TaskId, TopicPartition


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


class TaskAssignor:
    """Called by the membership with all members when this one is the leader. Runs on its IO thread: does not block.

    Args:
        tasks: All tasks of the topology, with the source partitions each reads (``topology.copartition.Plan.tasks``).
    """

    def __init__(self, tasks: Mapping[TaskId, Iterable[TopicPartition]]) -> None:
        self._tasks = {task: tuple(partitions) for task, partitions in sorted(tasks.items())}

    def __call__(self, members: Sequence[GroupMember]) -> dict[str, MemberAssignment]:
        """The assignment of every member in this round; see ``sticky`` for how it is chosen."""
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
            member_id: MemberState(info.process_id, info.owned, info.stored, member.generation)
            for member_id, (member, info) in readable.items()
        }
        able = {member_id: state for member_id, state in states.items() if member_id not in refused}
        # A refused member's tasks are withheld too until it has given them up: it takes part in the second step.
        given = cooperative(assign(list(self._tasks), able), states)
        result = {
            member_id: MemberAssignment(
                tuple(sorted(tp for task in tasks for tp in self._tasks[task])),
                encode_assignment(AssignmentInfo(tasks)),
            )
            for member_id, tasks in given.items()
        }
        for member_id, error in refused.items():
            result[member_id] = MemberAssignment((), encode_assignment(AssignmentInfo(error=error)))
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
