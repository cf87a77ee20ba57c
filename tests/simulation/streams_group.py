"""The coordinator of a streams group (KIP-1071): who is to own what, and how each member gets there.

Each member talks with the group alone. A task is taken from its owner first; when the owner says that it has closed it,
it goes to the next one. Source: ``CurrentAssignmentBuilder`` (streams) and ``GroupMetadataManager`` of the brokers. How
tasks are spread is not the brokers' way but the product's own; standby tasks go to another process.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError

from headrace.assignment import MemberState, assign
from headrace.kafka.streams_protocol import JOIN_EPOCH, HeartbeatAnswer, TaskSets
from simulation.groups import GroupCoordinator
from simulation.log import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from headrace.kafka.streams_protocol import Heartbeat, MemberDescription
    from headrace.records import GroupIdentity, TaskId, TopicPartition
    from simulation.clock import Clock

_SESSION_S = 6.0
_INTERVAL_MS = 1_500
_NOTHING = TaskSets()


@dataclass(slots=True)
class _Member:
    process_id: str
    rebalance_s: float
    seen: float
    epoch: int = 0
    former_epoch: int = 0
    owned: TaskSets = _NOTHING
    assigned: TaskSets = _NOTHING
    revoking: TaskSets = _NOTHING
    told: TaskSets | None = None
    given: dict[TaskId, int] = field(default_factory=dict["TaskId", int])
    """The epoch at which each active task came."""


def _minus(one: TaskSets, other: TaskSets) -> TaskSets:
    return TaskSets(*(mine - theirs for mine, theirs in zip(one, other, strict=True)))


def _both(one: TaskSets, other: TaskSets) -> TaskSets:
    return TaskSets(*(mine & theirs for mine, theirs in zip(one, other, strict=True)))


def _all(sets: TaskSets) -> frozenset[TaskId]:
    return sets.active | sets.standby | sets.warmup


class StreamsCoordinator(GroupCoordinator):
    """See the module.

    Args:
        clock: Of the world.
        tasks: All, with the partitions they read.
        followed: Those of which there is a standby task.
        strict: Offsets are taken under the newest epoch only.
        check: Told of every task that is given to a member, while these members have it.
    """

    def __init__(
        self,
        clock: Clock,
        tasks: Mapping[TaskId, Collection[TopicPartition]],
        followed: Collection[TaskId],
        strict: bool,
        check: Callable[[str, TaskId, Sequence[str]], None],
    ) -> None:
        super().__init__(clock)
        self._tasks = {tp: task for task, partitions in tasks.items() for tp in partitions}
        self._all_tasks = sorted(tasks)
        self._followed = sorted(followed)
        self._strict = strict
        self._check = check
        self._members: dict[str, _Member] = {}
        self._target: dict[str, TaskSets] = {}

    @property
    def member_ids(self) -> Collection[str]:
        """See the base class."""
        return self._members.keys()

    def check_member(
        self, identity: GroupIdentity, partitions: Collection[TopicPartition], *, transactional: bool
    ) -> None:
        """See the base class."""
        member, epoch = self._members[identity.member_id], identity.generation
        if epoch == member.epoch:
            return
        if self._strict or epoch > member.epoch:
            raise Refused(KafkaError.STALE_MEMBER_EPOCH)
        mine = member.assigned.active | member.revoking.active
        for tp in partitions:
            task = self._tasks[tp]
            if task not in mine or epoch < member.given.get(task, epoch + 1):
                raise Refused(KafkaError.STALE_MEMBER_EPOCH)

    def leave(self, member_ids: Sequence[str]) -> None:
        """See the base class."""
        for member_id in member_ids:
            if self._members.pop(member_id, None) is not None:
                self._change()

    def refresh(self) -> None:
        """See the base class."""
        for member in self._members.values():
            member.seen = self._clock.now

    def heartbeat(self, beat: Heartbeat, description: MemberDescription) -> HeartbeatAnswer:
        """The answer to a heartbeat."""
        if beat.epoch < JOIN_EPOCH:
            self.leave([beat.member_id])
            return self._answer(beat.epoch, None)
        member = self._members.get(beat.member_id)
        if member is None:
            if beat.epoch != JOIN_EPOCH:
                return self._refusal(KafkaError.UNKNOWN_MEMBER_ID)
            rebalance_s = description.rebalance_timeout_ms / 1000
            member = self._members[beat.member_id] = _Member(description.process_id, rebalance_s, self._clock.now)
            self._watch(beat.member_id, member)
            self._change()
        elif beat.epoch not in (JOIN_EPOCH, member.epoch):
            known = beat.tasks is not None and not _all(_minus(beat.tasks, member.assigned))
            if beat.epoch != member.former_epoch or not known:
                return self._refusal(KafkaError.FENCED_MEMBER_EPOCH)
        member.seen = self._clock.now
        if beat.tasks is not None:
            member.owned = beat.tasks
        self._reconcile(beat.member_id, member)
        wanted = beat.tasks is not None or beat.epoch == JOIN_EPOCH or member.told != member.assigned
        if wanted:
            member.told = member.assigned
        return self._answer(member.epoch, member.assigned if wanted else None)

    @staticmethod
    def _answer(epoch: int, tasks: TaskSets | None) -> HeartbeatAnswer:
        return HeartbeatAnswer(0, "", epoch, _INTERVAL_MS, 60_000, -1, (), tasks, False, -1, None)

    @staticmethod
    def _refusal(code: int) -> HeartbeatAnswer:
        return HeartbeatAnswer(code, "simulated", 0, 0, 0, -1, None, None, False, -1, None)

    def _watch(self, member_id: str, member: _Member) -> None:
        def look() -> None:
            if self._members.get(member_id) is not member:
                return
            left = member.seen + _SESSION_S - self._clock.now
            if left <= 0:
                self.leave([member_id])
            else:
                self._clock.at(left + 0.001, look)

        self._clock.at(_SESSION_S + 0.001, look)

    def _change(self) -> None:
        """A new group epoch with a new target."""
        self.generation += 1
        states = {
            name: MemberState(bytes.fromhex(member.process_id.replace("-", "")), member.assigned.active)
            for name, member in self._members.items()
        }
        active = assign(self._all_tasks, states)
        standby: dict[str, set[TaskId]] = {name: set() for name in self._members}
        for task in self._followed:
            runs = next((name for name, tasks in active.items() if task in tasks), None)
            if runs is None:
                continue
            process = self._members[runs].process_id
            others = [name for name, member in self._members.items() if member.process_id != process]
            if others:
                copies = self._members
                chosen = min(
                    others, key=lambda name: (task not in copies[name].assigned.standby, len(standby[name]), name)
                )
                standby[chosen].add(task)
        self._target = {name: TaskSets(active[name], frozenset(standby[name])) for name in self._members}

    def _reconcile(self, member_id: str, member: _Member) -> None:
        if _all(_both(member.owned, member.revoking)):
            return
        member.revoking = _NOTHING
        target = self._target[member_id]
        gone = _minus(member.assigned, target)
        if _all(gone):
            member.assigned = _both(member.assigned, target)
            held = _both(gone, member.owned)
            if _all(held):
                member.revoking = held
                self._expect(member_id, member)
                return
        self._advance(member)
        new = _minus(target, member.assigned)
        others = [other for name, other in self._members.items() if name != member_id]
        # a role that has changed is given up first, and a process has one copy of a task
        free = TaskSets(
            frozenset(
                task
                for task in new.active
                if not any(task in one.assigned.active | one.revoking.active for one in others)
                and not self._here(member, task, others)
            ),
            frozenset(task for task in new.standby if not self._here(member, task, others)),
        )
        for task in sorted(free.active):
            rivals = [name for name, other in self._members.items() if name != member_id and task in other.owned.active]
            self._check(member_id, task, rivals)
            member.given[task] = member.epoch
        member.assigned = TaskSets(member.assigned.active | free.active, member.assigned.standby | free.standby)

    def _advance(self, member: _Member) -> None:
        if member.epoch != self.generation:
            member.former_epoch, member.epoch = member.epoch, self.generation

    @staticmethod
    def _here(member: _Member, task: TaskId, others: Sequence[_Member]) -> bool:
        """Whether another member of the process has the task in any way."""
        return any(
            task in _all(other.assigned) | _all(other.revoking)
            for other in others
            if other.process_id == member.process_id
        )

    def _expect(self, member_id: str, member: _Member) -> None:
        """Tasks that are not given up in time cost the member its place."""
        revoking = member.revoking

        def over() -> None:
            if self._members.get(member_id) is member and member.revoking is revoking:
                self.leave([member_id])

        self._clock.at(member.rebalance_s, over)
