"""A group's committed offsets, and the coordinator of the classic protocol.

Source of what is answered when: ``ClassicGroup`` and ``GroupMetadataManager`` of the brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import KafkaError

from simulation.log import Refused

if TYPE_CHECKING:
    from headrace.assignment import MemberAssignment
    from headrace.records import GroupIdentity, OffsetAndMetadata, TopicPartition
    from simulation.clock import Clock

Reply = Callable[[Any], None]
"""Takes an answer, or a ``Refused``."""

_INITIAL_DELAY_S = 0.1


class Joined(NamedTuple):
    """The answer to a JoinGroup; ``members`` has the metadata of all, for the leader only."""

    generation: int
    member_id: str
    members: Sequence[tuple[str, Any]]


@dataclass(slots=True)
class _Member:
    session_s: float
    rebalance_s: float
    metadata: Any
    seen: float
    join: Reply | None = None
    sync: Reply | None = None
    assignment: MemberAssignment | None = None


class GroupCoordinator:
    """Committed offsets; who may commit is up to the protocol."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.generation = 0
        self.offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        self.pending: dict[int, dict[TopicPartition, OffsetAndMetadata]] = {}
        """Offsets in transactions that have not ended, by producer id."""
        self.on_commit: Callable[[GroupIdentity, Mapping[TopicPartition, OffsetAndMetadata]], None] = lambda *_: None

    @property
    def member_ids(self) -> Collection[str]:
        """Those the group has now."""
        raise NotImplementedError

    def check_member(
        self, identity: GroupIdentity, partitions: Collection[TopicPartition], *, transactional: bool
    ) -> None:
        """Whether a member may commit offsets; raises if not."""
        raise NotImplementedError

    def leave(self, member_ids: Sequence[str]) -> None:
        """Members go."""
        raise NotImplementedError

    def refresh(self) -> None:
        """Another broker has taken over: sessions begin anew, and what was being waited for is refused."""
        raise NotImplementedError

    def check_commit(
        self, identity: GroupIdentity, offsets: Mapping[TopicPartition, OffsetAndMetadata], *, transactional: bool
    ) -> None:
        """Whether this member, or nobody in particular, may commit; raises if not."""
        if identity.generation >= 0 or identity.member_id:
            if identity.member_id not in self.member_ids:
                raise Refused(KafkaError.UNKNOWN_MEMBER_ID)
            self.check_member(identity, offsets, transactional=transactional)
        elif not transactional and self.member_ids:
            raise Refused(KafkaError.UNKNOWN_MEMBER_ID)
        self.on_commit(identity, offsets)

    def commit(self, identity: GroupIdentity, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit offsets outside of a transaction."""
        self.check_commit(identity, offsets, transactional=False)
        self.offsets.update(offsets)

    def fetch(self, partitions: Sequence[TopicPartition], *, stable: bool) -> dict[TopicPartition, OffsetAndMetadata]:
        """Committed offsets, those that exist."""
        if stable and any(tp in offsets for offsets in self.pending.values() for tp in partitions):
            raise Refused(KafkaError.UNSTABLE_OFFSET_COMMIT)
        return {tp: self.offsets[tp] for tp in partitions if tp in self.offsets}

    def end_transaction(self, producer_id: int, commit: bool) -> None:
        """The marker of a transaction is here."""
        offsets = self.pending.pop(producer_id, {})
        if commit:
            self.offsets.update(offsets)


class ClassicCoordinator(GroupCoordinator):
    """The classic protocol. See the module."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.state = "Empty"
        """Empty, Preparing, Completing, Stable."""
        self.members: dict[str, _Member] = {}
        self._leader = ""
        self._round = 0
        self._names = 0

    @property
    def member_ids(self) -> Collection[str]:
        """See the base class."""
        return self.members.keys()

    def check_member(
        self, identity: GroupIdentity, partitions: Collection[TopicPartition], *, transactional: bool
    ) -> None:
        """See the base class."""
        if identity.generation != self.generation:
            raise Refused(KafkaError.ILLEGAL_GENERATION)
        self.members[identity.member_id].seen = self._clock.now
        if not transactional and self.state == "Completing":
            raise Refused(KafkaError.REBALANCE_IN_PROGRESS)

    def join(self, member_id: str, metadata: Any, session_s: float, rebalance_s: float, reply: Reply) -> None:
        """A JoinGroup; the answer comes when all have joined."""
        if not member_id:
            self._names += 1
            member_id = f"member-{self._names:03}"
            self.members[member_id] = _Member(session_s, rebalance_s, metadata, self._clock.now)
            self._watch(member_id)
            fresh = True
        elif member_id not in self.members:
            reply(Refused(KafkaError.UNKNOWN_MEMBER_ID))
            return
        else:
            fresh = False
        member = self.members[member_id]
        member.seen = self._clock.now
        changed = fresh or member.metadata != metadata
        if self.state == "Stable" and not changed and member_id != self._leader:
            reply(Joined(self.generation, member_id, ()))
            return
        if self.state == "Completing" and not changed:
            reply(Joined(self.generation, member_id, self._all() if member_id == self._leader else ()))
            return
        member.metadata = metadata
        member.join = reply
        if self.state != "Preparing":
            self._prepare()
        self._complete_if_all()

    def sync(self, member_id: str, generation: int, assignments: Mapping[str, MemberAssignment], reply: Reply) -> None:
        """A SyncGroup; the answer comes when the leader has sent the assignments."""
        member = self.members.get(member_id)
        if member is None:
            reply(Refused(KafkaError.UNKNOWN_MEMBER_ID))
        elif generation != self.generation:
            reply(Refused(KafkaError.ILLEGAL_GENERATION))
        elif self.state in ("Empty", "Preparing"):
            reply(Refused(KafkaError.REBALANCE_IN_PROGRESS))
        elif self.state == "Stable":
            member.seen = self._clock.now
            reply(member.assignment)
        else:
            member.seen = self._clock.now
            member.sync = reply
            if member_id == self._leader:
                self.state = "Stable"
                for name, other in self.members.items():
                    other.assignment = assignments.get(name)
                    other.seen = self._clock.now
                    if other.sync is not None:
                        other.sync(other.assignment)
                        other.sync = None

    def heartbeat(self, member_id: str, generation: int) -> None:
        """A member is alive."""
        member = self.members.get(member_id)
        if member is None:
            raise Refused(KafkaError.UNKNOWN_MEMBER_ID)
        if generation != self.generation:
            raise Refused(KafkaError.ILLEGAL_GENERATION)
        member.seen = self._clock.now
        if self.state == "Preparing":
            raise Refused(KafkaError.REBALANCE_IN_PROGRESS)

    def leave(self, member_ids: Sequence[str]) -> None:
        """Members go."""
        for member_id in member_ids:
            if member_id in self.members:
                self._remove(member_id)

    def refresh(self) -> None:
        """Another broker has taken over: sessions begin anew, and what was being waited for is refused."""
        for member in self.members.values():
            member.seen = self._clock.now
            for reply in (member.join, member.sync):
                if reply is not None:
                    reply(Refused(KafkaError.NOT_COORDINATOR))
            member.join = member.sync = None
        if self.state == "Completing":
            self._prepare()

    def _all(self) -> list[tuple[str, Any]]:
        return [(name, member.metadata) for name, member in self.members.items()]

    def _remove(self, member_id: str) -> None:
        member = self.members.pop(member_id)
        for reply in (member.join, member.sync):
            if reply is not None:
                reply(Refused(KafkaError.UNKNOWN_MEMBER_ID))
        if self.state != "Preparing":
            self._prepare()
        self._complete_if_all()

    def _watch(self, member_id: str) -> None:
        def look() -> None:
            member = self.members.get(member_id)
            if member is None:
                return
            left = member.seen + member.session_s - self._clock.now
            if member.join is not None or member.sync is not None:
                left = max(left, member.session_s / 2)
            if left <= 0:
                self._remove(member_id)
            else:
                self._clock.at(left + 0.001, look)

        self._clock.at(self.members[member_id].session_s + 0.001, look)

    def _prepare(self) -> None:
        first = self.state == "Empty"
        for member in self.members.values():
            if member.sync is not None:
                member.sync(Refused(KafkaError.REBALANCE_IN_PROGRESS))
                member.sync = None
        self.state = "Preparing"
        self._round += 1
        number = self._round
        wait_s = max((member.rebalance_s for member in self.members.values()), default=0.0)

        def over() -> None:
            if self._round == number and self.state == "Preparing":
                self._complete()

        self._clock.at(_INITIAL_DELAY_S if first else wait_s, over)

    def _complete_if_all(self) -> None:
        first = self.generation == 0
        if self.state == "Preparing" and not first and all(one.join is not None for one in self.members.values()):
            self._complete()

    def _complete(self) -> None:
        for name in [name for name, member in self.members.items() if member.join is None]:
            del self.members[name]
        self.generation += 1
        if not self.members:
            self.state = "Empty"
            return
        self.state = "Completing"
        if self._leader not in self.members:
            self._leader = next(iter(self.members))
        for name, member in self.members.items():
            reply, member.join = member.join, None
            member.seen = self._clock.now
            member.assignment = None
            assert reply is not None
            reply(Joined(self.generation, name, self._all() if name == self._leader else ()))
