"""Membership by the classic group protocol, cooperative from the start.

Two threads meet here: the stream thread in ``ClassicMembership``, and kafka-python's IO thread, which answers for
joins and heartbeats, in ``_Share``. All that both touch is in ``_Share``, whose lock is only held to set fields.

What is kept apart, and why:

* ``held``: what the stream thread has been given by events so far; ``closing``: what it was asked to give up and has
  not reported closed. Both together are what the group is told we own, so nobody else is given any of it.
* ``lost``: the member fell out and the stream thread does not know yet. ``identity`` refuses until ``poll`` has
  handed out the ``Lost``, because a join that ran through meanwhile would lend its new generation to old tasks.
* The generation that a subscription's claims are of is that of our last assignment, so that a leader can tell old
  claims from new ones.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from headrace.assignment.wire import (
    LATEST_VERSION,
    LEAST_VERSION,
    AssignmentError,
    AssignmentInfo,
    MemberRequest,
    decode_assignment,
    describe_error,
)
from headrace.errors import (
    ConfigException,
    KafkaException,
    StreamsException,
    TaskMigratedException,
)
from headrace.kafka.connections import group_client_config
from headrace.kafka.errors import FencedInstanceIdException
from headrace.kafka.group_client import GroupConnection, GroupSettings
from headrace.kafka.membership import Assigned, Lost, MembershipEvent, Revoked, ShutdownRequested

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from headrace.assignment import GroupMember, MemberAssignment
    from headrace.records import GroupIdentity, OffsetAndMetadata, TaskId, TopicPartition

log = logging.getLogger(__name__)


class JoinClaims(NamedTuple):
    """What the membership knows and a subscription says.

    Attributes:
        owned: active tasks to claim as owned.
        standbys: standby and warm-up tasks that this member has.
        request: what it asks of the group.
        version: wire version to write (``assignment.wire``).
    """

    owned: frozenset[TaskId]
    standbys: frozenset[TaskId]
    request: MemberRequest
    version: int


UserData: TypeAlias = Callable[[JoinClaims], bytes]


class ClassicMembership:
    """A member of a classic group (``Membership``).

    Args:
        config: librdkafka settings; where the brokers are and the security are taken from it.
        group_id: the application id.
        client_id: shown by Kafka's tools.
        session_timeout_ms: without a heartbeat for so long, the broker drops the member.
        heartbeat_interval_ms: at most a third of the session timeout.
        max_poll_interval_ms: without ``poll`` for so long, the member leaves. Also the broker's rebalance timeout.
        group_instance_id: makes a static member, which keeps its tasks through a restart within the session timeout.
        topics: the source topics.
        subscription_userdata: user data of a join (``assignment.wire``), given what this member is to say of itself.
            Called on the IO thread: must not block.
        assignor: used when this member is the leader (``assignment.TaskAssignor``). On the IO thread too.
        former: id of a member that is known to be dead, and that this one goes on as.
        connect_timeout_ms: how long ``start`` waits for the first answer of a broker.

    Raises:
        ConfigException: heartbeat interval not below the session timeout, or security settings that do not translate.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        group_id: str,
        client_id: str,
        *,
        session_timeout_ms: int = 45_000,
        heartbeat_interval_ms: int = 3_000,
        max_poll_interval_ms: int = 300_000,
        group_instance_id: str | None = None,
        topics: Callable[[], Sequence[str]],
        subscription_userdata: UserData,
        assignor: Callable[[Sequence[GroupMember]], Mapping[str, MemberAssignment]],
        former: str | None = None,
        connect_timeout_ms: int = 30_000,
    ) -> None:
        if heartbeat_interval_ms >= session_timeout_ms:
            raise ConfigException(
                f"heartbeat.interval.ms={heartbeat_interval_ms} has to be below session.timeout.ms="
                f"{session_timeout_ms}, better a third of it"
            )
        self._client_config = {**group_client_config(config), "client_id": client_id}
        self._settings = GroupSettings(
            group_id, group_instance_id, session_timeout_ms, heartbeat_interval_ms, max_poll_interval_ms
        )
        self._connect_timeout_ms = connect_timeout_ms
        self._topics = topics
        self._userdata = subscription_userdata
        self._assignor = assignor
        self._former = former
        self._connection: GroupConnection | None = None
        self._share = self._new_share()
        self._deferred: KafkaException | None = None

    def start(self) -> None:
        """Connect (up to ``connect_timeout_ms``) and begin to join. See ``Membership.start``."""
        if self._connection is None:
            self._share = self._new_share()
            self._deferred = None
            self._connection = GroupConnection(
                self._client_config, self._settings, self._share, self._connect_timeout_ms
            )
            if self._former is not None:
                self._connection.go_on_as(self._former)
                self._former = None  # whoever left and starts again is somebody else
        self._connection.request_rejoin()
        self._connection.advance()

    def poll(self, now_ms: int) -> list[MembershipEvent]:
        """See ``Membership.poll``."""
        # heartbeats run by kafka-python's own monotonic clock
        if self._connection is None:
            return []
        reason = self._share.join_again(now_ms)
        if reason is not None:
            self.request_rejoin(reason)
        events, failure = self._share.take()
        failure = failure or self._deferred
        if failure is not None:
            if events:
                return events  # the error comes with the next call
            self._deferred = None
            raise failure
        try:
            self._connection.advance()
        except FencedInstanceIdException:
            self._share.fenced()
        except KafkaException as error:
            if not events:
                raise
            self._deferred = error
        return events

    def note_poll(self) -> None:
        """See ``Membership.note_poll``."""
        if self._connection is not None:
            self._connection.note_poll()

    def identity(self) -> GroupIdentity:
        """See ``Membership.identity``."""
        group_id = self._settings.group_id
        if self._connection is None:
            raise TaskMigratedException(f"group {group_id}: this instance is no member (not started, or it left)")
        identity = self._share.guarded(self._connection.identity)
        if identity is None or identity.generation < 0 or not identity.member_id:
            raise TaskMigratedException(
                f"group {group_id}: this member fell out of the group (session or max.poll.interval.ms ran out, or "
                "another took its place); its tasks may run elsewhere, nothing of them is committed"
            )
        return identity

    def generation_in_doubt(self) -> bool:
        """See ``Membership.generation_in_doubt``."""
        return self._connection is not None and self._connection.generation_in_doubt()

    def member_id(self) -> str | None:
        """See ``Membership.member_id``."""
        return None if self._connection is None else self._connection.identity().member_id or None

    def take_over(self, member_ids: Collection[str]) -> bool:
        """See ``Membership.take_over``."""
        return self._connection is not None and self._connection.take_over(member_ids)

    def owned(self) -> frozenset[TaskId]:
        """See ``Membership.owned``."""
        return self._share.claims()[0]

    def revoked(self, tasks: Iterable[TaskId]) -> None:
        """See ``Membership.revoked``."""
        if self._share.closed(frozenset(tasks)):
            self.request_rejoin("revoked tasks are closed")

    def request_rejoin(self, reason: str) -> None:
        """See ``Membership.request_rejoin``."""
        if self._connection is not None:
            log.info("group %s: joining again: %s", self._settings.group_id, reason)
            self._connection.request_rejoin()

    def rejoin_anew(self, reason: str) -> None:
        """See ``Membership.rejoin_anew``."""
        if self._connection is not None:
            log.info("group %s: leaving, to join anew: %s", self._settings.group_id, reason)
            self._connection.leave(reason, for_good=False)

    def shutdown_application(self) -> None:
        """See ``Membership.shutdown_application``."""
        self._share.request = MemberRequest.SHUTDOWN_APPLICATION
        self.request_rejoin("the application is to end")

    def commit_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_s: float = 60.0) -> None:
        """See ``Membership.commit_offsets``."""
        identity, connection = self.identity(), self._connection
        if offsets and connection is not None:
            connection.commit(identity, offsets, timeout_s, lambda: self._share.guarded(connection.identity))

    def leave(self, reason: str) -> bool:
        """See ``Membership.leave``."""
        # A connection is not used again: a join of the old one may still be under way on its IO thread.
        connection, self._connection = self._connection, None
        if connection is None:
            return False
        gone = connection.leave(reason, for_good=True)
        connection.close()
        return gone

    def close(self, leave_group: bool) -> bool:
        """See ``Membership.close``."""
        if leave_group:
            return self.leave("the instance is closing")
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        return False

    def _new_share(self) -> _Share:
        return _Share(self._settings, self._topics, self._userdata, self._assignor)


class _Share:
    """What the two threads share, and the listener of one connection (``group_client.GroupListener``)."""

    def __init__(
        self,
        settings: GroupSettings,
        topics: Callable[[], Sequence[str]],
        userdata: UserData,
        assignor: Callable[[Sequence[GroupMember]], Mapping[str, MemberAssignment]],
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._userdata = userdata
        self._assignor = assignor
        self._lock = threading.Lock()
        self._events: list[MembershipEvent] = []
        self._failure: KafkaException | None = None  # final: this connection is of no more use
        self._lost = False
        self.request = MemberRequest.NONE
        self._version = LATEST_VERSION
        self._join_again: str | None = None
        self._probe_after_ms: int | None = None  # told by the leader, and not yet a time
        self._probe_at_ms: int | None = None
        self._standbys: frozenset[TaskId] = frozenset()
        self._generation = -1  # of the last assignment; -1 while there is none
        self._held: frozenset[TaskId] = frozenset()
        self._held_partitions: frozenset[TopicPartition] = frozenset()
        self._closing: frozenset[TaskId] = frozenset()
        self._closing_partitions: frozenset[TopicPartition] = frozenset()

    # The stream thread's side.

    def take(self) -> tuple[list[MembershipEvent], KafkaException | None]:
        """The events since the last call, and the final failure if there is one."""
        with self._lock:
            events, self._events = self._events, []
            self._lost = False
            return events, self._failure

    def guarded(self, identity: Callable[[], GroupIdentity]) -> GroupIdentity | None:
        """The identity if tasks may be committed under it, else None."""
        newest = identity()
        with self._lock:
            if self._generation < 0 or self._lost or self._failure is not None:
                return None
        # Read before the check: a member that fell out between the two is refused, and one that also joined again
        # since then would be refused by the brokers, for the identity is the old one.
        return newest

    def claims(self) -> tuple[frozenset[TaskId], frozenset[TopicPartition], int]:
        """The tasks and partitions this member owns, and of which generation that is."""
        with self._lock:
            return self._held | self._closing, self._held_partitions | self._closing_partitions, self._generation

    def closed(self, tasks: frozenset[TaskId]) -> bool:
        """Take these off what is being closed; True if they were the last."""
        with self._lock:
            if not self._closing:
                return False
            self._closing -= tasks
            if self._closing:
                return False
            self._closing_partitions = frozenset()
            return True

    def join_again(self, now_ms: int) -> str | None:
        """Why a rebalance has to be asked for now, or None."""
        with self._lock:
            reason, self._join_again = self._join_again, None
            if self._probe_after_ms is not None:
                self._probe_at_ms = now_ms + self._probe_after_ms if self._probe_after_ms >= 0 else None
                self._probe_after_ms = None
            if self._probe_at_ms is not None and now_ms >= self._probe_at_ms:
                self._probe_at_ms = None
                reason = "tasks may have caught up (probing rebalance)"
            return reason

    # The IO thread's side.

    def subscription(self) -> tuple[Sequence[str], bytes, frozenset[TopicPartition], int]:
        """See ``GroupListener``."""
        tasks, partitions, generation = self.claims()
        claims = JoinClaims(tasks, self._standbys, self.request, self._version)
        return self._topics(), self._userdata(claims), partitions, generation

    def perform_assignment(self, members: Sequence[GroupMember]) -> Mapping[str, MemberAssignment]:
        """See ``GroupListener``."""
        return self._assignor(members)

    def joined(self, generation: int, assignment: MemberAssignment) -> None:
        """See ``GroupListener``."""
        if generation < 0:
            return  # the member left, or fell out, after the assignment was sent and before it came here
        try:
            info = decode_assignment(assignment.user_data)
        except StreamsException as error:
            self._fail(error)
            return
        if self._probes_version(info):
            return
        if info.error == AssignmentError.SHUTDOWN_REQUESTED:
            with self._lock:
                self._events.append(ShutdownRequested(describe_error(info.error)))
            return
        if info.error != AssignmentError.NONE:
            self._fail(StreamsException(f"group {self._settings.group_id}: no tasks: {describe_error(info.error)}"))
            return
        partitions = frozenset(assignment.partitions)
        with self._lock:
            gone, added = self._held - info.active, info.active - self._held
            gone_partitions = self._held_partitions - partitions
            added_partitions = partitions - self._held_partitions
            self._generation = generation
            self._held, self._held_partitions = info.active, partitions
            self._standbys = info.standby
            self._probe_after_ms, self._probe_at_ms = info.probe_after_ms, None
            if gone:
                self._closing |= gone
                self._closing_partitions |= gone_partitions
                self._events.append(Revoked(gone, gone_partitions))
            self._events.append(Assigned(added, added_partitions, info.active, info.standby, info.hosts, generation))

    def _probes_version(self, info: AssignmentInfo) -> bool:
        """Whether the leader is an older one whose version we can write: then join again with that."""
        with self._lock:
            if info.error == AssignmentError.VERSION_TOO_NEW and LEAST_VERSION <= info.version < self._version:
                self._join_again = f"the leader reads version {info.version} of user data, not {self._version}"
                self._version = info.version
                return True
            if info.error == AssignmentError.NONE:
                self._version = min(info.version, LATEST_VERSION)
            return False

    def fell_out(self, reason: str) -> None:
        """See ``GroupListener``."""
        with self._lock:
            if self._generation < 0:
                return
            # Events not handed out yet never will be. Those of this membership are covered by what is held; an older
            # Lost among them is of an earlier one, whose tasks the stream thread may still run.
            earlier = [event for event in self._events if isinstance(event, Lost)]
            shutdown = [event for event in self._events if isinstance(event, ShutdownRequested)]
            tasks = self._held.union(self._closing, *(event.tasks for event in earlier))
            partitions = self._held_partitions.union(self._closing_partitions, *(event.partitions for event in earlier))
            self._generation = -1
            self._held = self._closing = self._standbys = frozenset()
            self._probe_after_ms = self._probe_at_ms = None
            self._held_partitions = self._closing_partitions = frozenset()
            self._lost = True
            self._events = [Lost(tasks, partitions, reason), *shutdown]

    def fenced(self) -> None:
        """See ``GroupListener``."""
        self.fell_out("another member took over this group.instance.id")
        self._fail(
            FencedInstanceIdException(
                f"group {self._settings.group_id}: another member uses group.instance.id="
                f"{self._settings.group_instance_id}; give every instance its own"
            )
        )

    def _fail(self, failure: KafkaException) -> None:
        with self._lock:
            if self._failure is None:
                self._failure = failure
