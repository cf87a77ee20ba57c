"""What the leader of a classic group computes: from the members' subscriptions to their assignments.

Task (s, p) reads partition p of every source topic of sub-topology s that has one; sub-topology s has as many tasks
as its widest source topic has partitions (``DefaultPartitionGrouper`` in Java). Assignments carry both the partitions
(so that Kafka's own tools show them) and the tasks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.assignment.sticky import MemberState, assign, cooperative
from headrace.assignment.wire import (
    AssignmentError,
    AssignmentInfo,
    SubscriptionInfo,
    UnsupportedWireVersionException,
    decode_subscription,
    encode_assignment,
)
from headrace.errors import StreamsException
from headrace.records import TaskId, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


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
        subtopology_topics: source topics by sub-topology number (repartition topics included).
        partition_counts: a snapshot of the topics' partition counts, without topics that do not exist; called once
            per assignment, must not block.
    """

    def __init__(
        self,
        subtopology_topics: Mapping[int, Sequence[str]],
        partition_counts: Callable[[], Mapping[str, int]],
    ) -> None:
        self._topics = {number: tuple(topics) for number, topics in subtopology_topics.items()}
        self._counts = partition_counts

    def tasks(self) -> list[TaskId]:
        """All tasks of the topology, by the partition counts of now."""
        return _tasks(self._topics, self._counts())

    def partitions(self, tasks: Iterable[TaskId]) -> frozenset[TopicPartition]:
        """The source partitions that these tasks read, by the partition counts of now."""
        return _partitions(self._topics, self._counts(), tasks)

    def __call__(self, members: Sequence[GroupMember]) -> dict[str, MemberAssignment]:
        """The assignment of every member in this round; see ``sticky`` for how it is chosen."""
        counts = self._counts()
        refused: dict[str, AssignmentError] = {}
        readable: dict[str, tuple[GroupMember, SubscriptionInfo]] = {}
        for member in members:
            try:
                readable[member.member_id] = (member, decode_subscription(member.user_data))
            except UnsupportedWireVersionException:
                refused[member.member_id] = AssignmentError.VERSION_TOO_NEW
            except StreamsException:
                refused[member.member_id] = AssignmentError.UNREADABLE
        if any(topic not in counts for topics in self._topics.values() for topic in topics):
            refused |= dict.fromkeys(readable, AssignmentError.MISSING_SOURCE_TOPICS)
        else:
            refused |= _strangers(readable)
        states = {
            member_id: MemberState(info.process_id, info.owned, info.stored, member.generation)
            for member_id, (member, info) in readable.items()
        }
        able = {member_id: state for member_id, state in states.items() if member_id not in refused}
        # A refused member's tasks are withheld too until it has given them up: it takes part in the second step.
        given = cooperative(assign(_tasks(self._topics, counts), able), states)
        result = {
            member_id: MemberAssignment(
                tuple(sorted(_partitions(self._topics, counts, tasks))),
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


def _tasks(topics: Mapping[int, Sequence[str]], counts: Mapping[str, int]) -> list[TaskId]:
    return [
        TaskId(number, partition)
        for number, names in sorted(topics.items())
        for partition in range(max((counts.get(name, 0) for name in names), default=0))
    ]


def _partitions(
    topics: Mapping[int, Sequence[str]], counts: Mapping[str, int], tasks: Iterable[TaskId]
) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(name, task.partition)
        for task in tasks
        for name in topics.get(task.subtopology, ())
        if task.partition < counts.get(name, 0)
    )
