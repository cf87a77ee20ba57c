"""kafka-python's side of a classic group member: joins and heartbeats as calls of the clock.

:class:`Connection` is the product's ``GroupConnection`` with another coordinator below it, and other requests.
"""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from headrace.assignment import GroupMember
from headrace.errors import IllegalStateException
from headrace.kafka.acls import Acl
from headrace.kafka.errors import kp
from headrace.kafka.group_client import GroupConnection
from simulation.groups import Joined
from simulation.log import Refused
from simulation.network import Unreachable, answering

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headrace.kafka.group_client import GroupListener, GroupSettings
    from headrace.records import GroupIdentity, OffsetAndMetadata, TopicPartition
    from simulation.process import Process
    from simulation.world import World

_BACKOFF_S = 0.1


def as_error(answer: Exception) -> Exception:
    """kafka-python's error for what a request ended with."""
    error: Exception = kp.for_code(answer.code)() if isinstance(answer, Refused) else kp.KafkaConnectionError("lost")
    return error


class _Join:
    """The future of a join."""

    is_done = False
    exception: Exception | None = None

    def failed(self) -> bool:
        return self.exception is not None


class _Coordinator:
    """``BaseCoordinator`` with the listener of ``GroupCoordinator``."""

    def __init__(self, world: World, process: Process, listener: GroupListener, settings: GroupSettings) -> None:
        self._world = world
        self._clock = world.clock
        self._process = process
        self._listener = listener
        self._settings = settings
        self._lock = threading.RLock()
        self._generation = SimpleNamespace(generation_id=-1, member_id="")
        self._life = 0
        self.rejoin_needed = True
        self.join_in_flight = False
        self._stable = False
        self._closed = False
        self._polled = self._clock.now
        self.heartbeat = SimpleNamespace(poll=self._note_poll)

    # What GroupConnection uses.

    def poll_heartbeat(self) -> None:
        self._note_poll()

    def need_rejoin(self) -> bool:
        return self.rejoin_needed

    def request_rejoin(self) -> None:
        self.rejoin_needed = True

    def reset_generation(self, member_id: str = "") -> None:
        self._generation = SimpleNamespace(generation_id=-1, member_id=member_id)
        self._life += 1
        self._stable = False
        self.rejoin_needed = True
        self._listener.fell_out("the group no longer has this member, or its generation is over")

    def ensure_active_group_async(self) -> _Join:
        join = _Join()
        self._stable = False
        self._send_join(join)
        return join

    def _close_heartbeat(self) -> None:
        self._closed = True

    # What goes on below.

    def _note_poll(self) -> None:
        self._polled = self._clock.now

    def _later(self, step: Callable[[], None]) -> None:
        self._clock.at(_BACKOFF_S, step, self._process)

    def _send_join(self, join: _Join) -> None:
        if self._closed:
            return
        self.join_in_flight = True
        life, member_id = self._life, str(self._generation.member_id)
        topics, user_data, owned, generation = self._listener.subscription()
        metadata = (tuple(topics), tuple(sorted(owned)), generation, user_data)
        settings = self._settings

        def answered(answer: Any) -> None:
            if self._closed:
                return
            if isinstance(answer, Joined):
                self.join_in_flight = False
                if self._life != life:
                    # it left meanwhile: the group has a member now that will not be heard of again
                    self._send_join(join)
                    return
                self._generation = SimpleNamespace(generation_id=answer.generation, member_id=answer.member_id)
                self._sync(join, answer)
                return
            if isinstance(answer, Refused) and answer.code == kp.UnknownMemberIdError.errno:
                self.join_in_flight = False
                if self._life == life:
                    self.reset_generation()
            self._later(lambda: self._send_join(join))

        session_s, rebalance_s = settings.session_timeout_ms / 1000, settings.max_poll_interval_ms / 1000
        self._world.network.call(
            self._process,
            lambda reply: self._world.classic().join(member_id, metadata, session_s, rebalance_s, reply),
            answered,
        )

    def _sync(self, join: _Join, joined: Joined) -> None:
        life = self._life
        assignments: Mapping[str, Any] = {}
        if joined.members:
            assignments = self._listener.perform_assignment(
                [
                    GroupMember(name, None, topics, owned, generation, user_data)
                    for name, (topics, owned, generation, user_data) in joined.members
                ]
            )
            self._world.check_assignments(joined, assignments)

        def answered(answer: Any) -> None:
            if self._closed:
                return
            if isinstance(answer, Exception):
                if self._life == life and isinstance(answer, Refused):
                    if answer.code == kp.UnknownMemberIdError.errno:
                        self.reset_generation()
                    elif answer.code == kp.IllegalGenerationError.errno:
                        self.reset_generation(joined.member_id)
                self._later(lambda: self._send_join(join))
                return
            if self._life != life:
                self._send_join(join)
                return
            self.rejoin_needed = False
            self._stable = True
            self._listener.joined(joined.generation, answer)
            self._beat(life, joined.generation)
            join.is_done = True

        self._world.network.call(
            self._process,
            lambda reply: self._world.classic().sync(joined.member_id, joined.generation, assignments, reply),
            answered,
        )

    def _beat(self, life: int, generation: int) -> None:
        """One heartbeat after another, until the generation is another one."""

        def over() -> bool:
            return self._closed or self._life != life or self._generation.generation_id != generation

        def send() -> None:
            if over() or not self._stable:
                return
            if self._clock.now - self._polled > self._settings.max_poll_interval_ms / 1000:
                self._world.counts["max.poll.interval.ms exceeded"] += 1
                member_id = str(self._generation.member_id)
                self.reset_generation()
                self._world.network.call(
                    self._process,
                    answering(lambda: self._world.classic().leave([member_id])),
                    lambda _: None,
                )
                return
            member_id = str(self._generation.member_id)
            self._world.network.call(
                self._process,
                answering(lambda: self._world.classic().heartbeat(member_id, generation)),
                answered,
            )

        def answered(answer: Any) -> None:
            if over():
                return
            if isinstance(answer, Refused):
                if answer.code == kp.RebalanceInProgressError.errno:
                    self.rejoin_needed = True
                elif answer.code == kp.IllegalGenerationError.errno:
                    self.reset_generation(str(self._generation.member_id))
                    return
                elif answer.code == kp.UnknownMemberIdError.errno:
                    self.reset_generation()
                    return
            pause_s = self._settings.heartbeat_interval_ms / 1000
            if isinstance(answer, Unreachable) or (
                isinstance(answer, Refused) and answer.code == kp.NotCoordinatorError.errno
            ):
                pause_s = _BACKOFF_S
            self._clock.at(pause_s, send, self._process)

        self._clock.at(self._settings.heartbeat_interval_ms / 1000, send, self._process)


class Connection(GroupConnection):
    """See the module."""

    def __init__(self, world: World, process: Process, settings: GroupSettings, listener: GroupListener) -> None:
        self._world = world
        self._process = process
        self._settings = settings
        self._join: Any = None
        self._join_again = False
        self._former = None
        self._needs = (Acl("Read", "group", settings.group_id),)
        self._closed = False
        self._coordinator: Any = _Coordinator(world, process, listener, settings)
        self._manager: Any = SimpleNamespace(
            run=lambda work, *arguments: work(*arguments), call_soon=lambda work, *arguments: work(*arguments)
        )

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._coordinator._close_heartbeat()

    def _asked(self, work: Callable[[], Any]) -> Any:
        try:
            return self._world.network.ask(self._process, work)
        except (Refused, Unreachable) as e:
            raise as_error(e) from None

    def _commit_once(  # type: ignore[override]  # nothing is awaited here
        self, identity: GroupIdentity, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_ms: float
    ) -> None:
        entries = dict(offsets)
        self._asked(lambda: self._world.classic().commit(identity, entries))

    def _leave_once(self, identity: GroupIdentity, reason: str) -> None:  # type: ignore[override]  # as above
        self._asked(lambda: self._world.classic().leave([identity.member_id]))

    def _take_over_once(self, newcomer: GroupIdentity, member_ids: frozenset[str]) -> bool:  # type: ignore[override]
        there: set[str] = set(self._asked(lambda: list(self._world.classic().member_ids)))
        if newcomer.member_id not in there:
            return False
        gone = sorted(member_ids & there)
        if gone:
            self._asked(lambda: self._world.classic().leave(gone))
        return True

    def _leave_members(self, members: Sequence[tuple[str, str | None]], reason: str) -> Any:
        raise IllegalStateException("members leave by other requests here")
