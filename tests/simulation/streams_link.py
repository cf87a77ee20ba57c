"""The connection of a streams group's member: the product's own, with heartbeats as calls of the clock."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError

from headrace.kafka.acls import Acl
from headrace.kafka.streams_connection import StreamsConnection
from headrace.kafka.streams_protocol import Heartbeat, MemberDescription
from simulation.log import Refused
from simulation.member import as_error
from simulation.network import Unreachable, answering

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.kafka.streams_member import StreamsMember
    from headrace.records import GroupIdentity, OffsetAndMetadata, TopicPartition
    from simulation.process import Process
    from simulation.world import World


class StreamsLink(StreamsConnection):
    """See the module."""

    def __init__(self, world: World, process: Process, member: StreamsMember) -> None:
        self._world = world
        self._clock = world.clock
        self._process = process
        self._member = member
        self._needs = (Acl("Read", "group", member.description.group_id),)
        self._closing = False
        self._beating = False
        self._turn = 0
        self._manager: Any = SimpleNamespace(run=lambda work, *arguments: work(*arguments))

    def wake(self) -> None:
        """See the base class."""
        self._turn += 1
        self._next(0.0)

    def close(self) -> None:
        """See the base class."""
        self._closing = True

    def _leave(self, description: MemberDescription, member_id: str, epoch: int) -> bool:
        try:
            self._world.network.ask(self._process, lambda: self._answer(Heartbeat(member_id, epoch)))
        except (Refused, Unreachable):
            return False
        return True

    def _commit_once(  # type: ignore[override]  # nothing is awaited here
        self, identity: GroupIdentity, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_ms: float
    ) -> None:
        entries = dict(offsets)
        try:
            self._world.network.ask(self._process, lambda: self._world.streams().commit(identity, entries))
        except (Refused, Unreachable) as e:
            raise as_error(e) from None

    def _answer(self, beat: Heartbeat) -> Any:
        return self._world.streams().heartbeat(beat, self._member.description)

    def _next(self, delay_s: float) -> None:
        turn = self._turn
        self._clock.at(delay_s, lambda: self._step(turn), self._process)

    def _step(self, turn: int) -> None:
        """What the base class does in its loop."""
        if self._closing or self._beating or turn != self._turn:
            return
        now = self._clock.now
        leave = self._member.expired(now)
        if leave is not None:
            self._world.counts["max.poll.interval.ms exceeded"] += 1
            self._world.network.call(self._process, answering(lambda: self._answer(leave)), lambda _: None)
        wait_s = self._member.wait_s(now)
        if wait_s is None:
            return
        if wait_s > 0:
            self._next(wait_s)
            return
        sent = self._member.next_heartbeat(now)
        if sent is None:
            self._next(0.1)
            return
        self._beating = True

        def answered(answer: Any) -> None:
            self._beating = False
            if isinstance(answer, Unreachable):
                self._member.unanswered(sent, self._clock.now)
            elif isinstance(answer, Refused):
                assert answer.code == KafkaError.NOT_COORDINATOR
                self._member.unanswered(sent, self._clock.now)
            else:
                self._member.answered(sent, answer, self._clock.now)
            self.wake()

        self._world.network.call(self._process, answering(lambda: self._answer(sent.heartbeat)), answered)
