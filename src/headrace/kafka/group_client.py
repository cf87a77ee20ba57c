"""Members of classic groups by kafka-python: its group coordinator and network client.

``BaseCoordinator`` and ``KafkaNetClient`` are half internal, so the version is pinned to one minor release and their
use stays in this file, ``coordinator_link``, ``streams_connection`` and ``group_admin``, with tests of their own
(``tests/cluster/kafka/test_group_client.py``).

Threads: ``GroupCoordinator`` runs on kafka-python's IO thread, which also runs the ``GroupListener``'s methods: they
must return at once. The methods of ``GroupConnection`` belong to the stream thread; those that wait say so.

Uses: kafka-python 3.0 ``coordinator/base.py``, ``net/compat.py``, ``net/manager.py``, ``net/selector.py``.
"""

# ruff: noqa: SLF001 - the use of half internal parts is what this file is for
# pyright: reportPrivateUsage=false

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kafka.coordinator.base import BaseCoordinator
from kafka.protocol.admin import DescribeGroupsRequest as UntypedDescribeGroups
from kafka.protocol.consumer import group as untyped_group
from kafka.protocol.consumer import metadata as untyped_metadata

from headrace.assignment import GroupMember, MemberAssignment
from headrace.errors import TaskMigratedException
from headrace.kafka.acls import Acl
from headrace.kafka.connections import STOP_TIMEOUT_MS, close_net_client
from headrace.kafka.coordinator_link import CoordinatorLink
from headrace.kafka.errors import kp, translate_group_error
from headrace.records import GroupIdentity, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

log = logging.getLogger(__name__)

# kafka-python's annotations are partial and differ from what it does; here it is taken as untyped.
LeaveGroupRequest: Any = untyped_group.LeaveGroupRequest
DescribeGroupsRequest: Any = UntypedDescribeGroups
ConsumerProtocolAssignment: Any = untyped_metadata.ConsumerProtocolAssignment
ConsumerProtocolSubscription: Any = untyped_metadata.ConsumerProtocolSubscription

PROTOCOL_NAME = "headrace"
_SUBSCRIPTION_VERSION = 2  # owned partitions and generation
_ASSIGNMENT_VERSION = 1
_COMMIT_VERSION = 8  # by topic name; version 10 wants topic ids
_DESCRIBE_VERSION = 5


class GroupSettings(NamedTuple):
    """How to be a member; the timeouts are Kafka's, in ms."""

    group_id: str
    group_instance_id: str | None
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int


class GroupListener(Protocol):
    """What the coordinator asks and tells, on the IO thread: nothing here may block, unless it says so."""

    def subscription(self) -> tuple[Sequence[str], bytes, Iterable[TopicPartition], int]:
        """Topics, user data, owned partitions and the generation they are of, for a JoinGroup."""
        ...

    def perform_assignment(self, members: Sequence[GroupMember]) -> Mapping[str, MemberAssignment]:
        """Every member's assignment; this member is the leader.

        May ask the brokers over another connection, for a few seconds: all members wait for the answer anyway.
        """
        ...

    def joined(self, generation: int, assignment: MemberAssignment) -> None:
        """A rebalance ended with this assignment."""
        ...

    def fell_out(self, reason: str) -> None:
        """The generation is over: this member is none any more, or never was one."""
        ...

    def fenced(self) -> None:
        """Another member took over this group instance id."""
        ...


class GroupCoordinator(BaseCoordinator):  # type: ignore[misc]  # kafka-python is untyped
    """kafka-python's classic group member, with every decision handed to a listener."""

    def __init__(self, client: Any, listener: GroupListener, **settings: Any) -> None:
        super().__init__(client, **settings)  # pyright: ignore[reportUnknownMemberType]  # untyped base
        self._listener = listener
        self.join_in_flight = False
        """A JoinGroup is sent and not answered: the brokers may have a newer generation than this member knows."""
        self.joins_no_more = False
        """It is about to leave for good."""
        self._refused: BaseException | None = None

    def need_rejoin(self) -> bool:
        """Whether to join; also asked after each attempt that was refused.

        Whoever leaves has the JoinGroup that is under way refused. Another one would make a member that nobody is, and
        that the brokers have all others wait for until its session has run out.
        """
        base: Any = super()
        return not self.joins_no_more and bool(base.need_rejoin())

    def protocol_type(self) -> str:
        """``consumer``, so that Kafka's tools read our subscriptions and assignments."""
        return "consumer"

    def group_protocols(self) -> list[tuple[str, bytes]]:
        """Our one protocol with the standard consumer subscription; called for each JoinGroup."""
        self.join_in_flight = True
        topics, user_data, owned, generation = self._listener.subscription()
        by_topic = partitions_by_topic(owned)
        subscription = ConsumerProtocolSubscription(
            version=_SUBSCRIPTION_VERSION,
            topics=sorted(topics),
            user_data=user_data,
            owned_partitions=[
                ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=partitions)
                for topic, partitions in by_topic.items()
            ],
            generation_id=generation,
        )
        return [(PROTOCOL_NAME, subscription.encode())]

    def _process_join_group_response(self, response: Any, send_time: float) -> Any:
        base: Any = super()
        result: Any = base._process_join_group_response(response, send_time)
        self.join_in_flight = False
        return result

    def _perform_assignment(self, leader_id: str, protocol: str, members: Sequence[Any]) -> dict[str, bytes]:
        subscriptions = [_group_member(member) for member in members]
        assignments = self._listener.perform_assignment(subscriptions)
        return {member_id: encode_member_assignment(assignment) for member_id, assignment in assignments.items()}

    async def _on_join_complete_async(
        self, generation: int, member_id: str, protocol: str, member_assignment_bytes: bytes
    ) -> None:
        self._listener.joined(generation, decode_member_assignment(member_assignment_bytes))

    def reset_generation(self, member_id: str = "") -> None:
        """Every way of falling out of the group passes here, whichever thread or response found it."""
        super().reset_generation(member_id)
        self._listener.fell_out("the group no longer has this member, or its generation is over")

    def _handle_heartbeat_response(self, response: Any, send_time: float) -> None:
        try:
            base: Any = super()
            base._handle_heartbeat_response(response, send_time)
        except kp.FencedInstanceIdError:
            # The base class only stops the heartbeats and would go on as a stable member.
            self._listener.fenced()
            raise
        except kp.GroupAuthorizationFailedError as error:
            # The base class would go on asking, ten times a second.
            self._refused = error
            raise

    def poll_heartbeat(self) -> None:
        """Raise what ends heartbeats, also that the group may not be read any more."""
        if self._refused is not None:
            raise self._refused
        base: Any = super()
        base.poll_heartbeat()


class GroupConnection(CoordinatorLink):
    """A coordinator with its network client and IO thread, as the stream thread uses it.

    Args:
        client_config: kafka-python's settings (``group_client_config``).
        settings: of the group.
        listener: see there.
        connect_timeout_ms: for the first answer of a broker.

    Raises:
        TimeoutException: no broker answered in time.
        AuthorizationException: the brokers refused the connection.
    """

    def __init__(
        self,
        client_config: Mapping[str, Any],
        settings: GroupSettings,
        listener: GroupListener,
        connect_timeout_ms: int = 30_000,
    ) -> None:
        super().__init__(
            client_config,
            connect_timeout_ms,
            lambda client, version: GroupCoordinator(client, listener, **settings._asdict(), api_version=version),
            _COMMIT_VERSION,
        )
        self._settings = settings
        self._needs = (Acl("Read", "group", settings.group_id),)
        self._join: Any = None
        self._join_again = False
        self._former: str | None = None
        self._closed = False

    def go_on_as(self, member_id: str) -> None:
        """Join as the member of this id, whose process is dead; as a new one if the brokers know it no longer so."""
        self._former = member_id
        self._coordinator.reset_generation(member_id)

    def advance(self) -> None:
        """Start a join if one is needed; raise what a finished one or the heartbeats failed with. Never waits."""
        doing = f"joining group {self._settings.group_id}"
        join = self._join
        if join is not None and join.is_done:
            self._join = None
            self._coordinator.join_in_flight = False
            if self._join_again:
                self._join_again = False
                self._coordinator.request_rejoin()
            if not join.failed():
                self._former = None
            elif self._former is not None and isinstance(join.exception, kp.FencedInstanceIdError):
                # its instance id was another member's since, of where it last ran: whoever comes new has it back
                self._former = None
                self._coordinator.reset_generation()
            elif not isinstance(join.exception, kp.RetriableError):
                raise translate_group_error(join.exception, doing, self._needs) from join.exception
        try:
            self._coordinator.poll_heartbeat()
        except Exception as error:
            raise translate_group_error(error, f"heartbeat of group {self._settings.group_id}", self._needs) from error
        if self._join is None and self._coordinator.need_rejoin():
            # Set here and not only on the IO thread, so that the caller's next commit already sees it.
            self._coordinator.join_in_flight = True
            self._join = self._manager.call_soon(self._coordinator.ensure_active_group_async)

    def note_poll(self) -> None:
        """The stream thread is alive."""
        self._coordinator.heartbeat.poll()

    def request_rejoin(self) -> None:
        """Join again at the next ``advance``; if a join is under way, once more after it."""
        # that one does not say what has changed since it was sent, and the base class forgets the wish when it ends
        self._join_again = self._join is not None
        self._coordinator.request_rejoin()

    def generation_in_doubt(self) -> bool:
        """A JoinGroup is sent and not answered."""
        return bool(self._coordinator.join_in_flight)

    def identity(self) -> GroupIdentity:
        """The newest generation and member id, valid or not."""
        with self._coordinator._lock:
            generation = self._coordinator._generation
            return GroupIdentity(
                self._settings.group_id,
                int(generation.generation_id),
                str(generation.member_id),
                self._settings.group_instance_id,
            )

    def _as_now(
        self,
        error: Exception,
        identity: GroupIdentity,
        newest: Callable[[], GroupIdentity | None],
        doing: str,
    ) -> GroupIdentity | None:
        """See ``CoordinatorLink``. A rebalance is waited out, with the generation asked for anew each time.

        ``REBALANCE_IN_PROGRESS`` comes between JoinGroup and SyncGroup, ``ILLEGAL_GENERATION`` when the answer to our
        JoinGroup is still on its way.
        """
        if not isinstance(error, (kp.RebalanceInProgressError, kp.IllegalGenerationError)):
            return super()._as_now(error, identity, newest, doing)
        now = newest()
        if now is None:
            raise TaskMigratedException(
                f"{doing} failed: {error}, and this member fell out of the group meanwhile; its tasks may run "
                "elsewhere, nothing of them is committed"
            ) from error
        rebalance = now.member_id == identity.member_id and (
            now.generation > identity.generation
            or self.generation_in_doubt()
            or isinstance(error, kp.RebalanceInProgressError)
        )
        if not rebalance:
            return super()._as_now(error, identity, newest, doing)
        return now if now.generation >= 0 else identity

    def _refused(self, error: Exception, identity: GroupIdentity) -> None:
        if isinstance(error, (kp.UnknownMemberIdError, kp.IllegalGenerationError)):
            self._reset_if_still(identity, keep_id=isinstance(error, kp.IllegalGenerationError))

    def take_over(self, member_ids: Collection[str]) -> bool:
        """See ``Membership.take_over``; waits for the brokers' answers, a few seconds at most."""
        newcomer = self.identity()
        if not newcomer.member_id:
            return False
        try:
            return bool(self._manager.run(self._take_over_once, newcomer, frozenset(member_ids)))
        except kp.KafkaError as error:
            again = isinstance(error, (kp.RetriableError, kp.KafkaTimeoutError))
            log.log(
                logging.DEBUG if again else logging.WARNING,
                "group %s: members of a dead process stay until their sessions run out: %s",
                newcomer.group_id,
                error,
            )
            return not again

    def leave(self, reason: str, *, for_good: bool) -> bool:
        """Leave the group, static or not; waits up to 5 s for the answer, and ends the generation either way.

        Returns whether the brokers have no such member now.

        Args:
            reason: Told to the brokers.
            for_good: Not to join again.
        """
        self._coordinator.joins_no_more = for_good
        identity, gone = self.identity(), True
        if identity.member_id:
            try:
                self._manager.run(self._leave_once, identity, reason)
            except (kp.UnknownMemberIdError, kp.FencedInstanceIdError):
                log.debug("group %s: %s was gone already", identity.group_id, identity.member_id)
            except kp.KafkaError as error:
                gone = False
                log.warning(
                    "leaving group %s as %s failed (%s); its session runs out instead",
                    identity.group_id,
                    identity.member_id,
                    error,
                )
        with self._coordinator._lock:
            # else a join under way was refused, and goes on as a member with an id of its own by now
            if self.identity().member_id == identity.member_id:
                self._coordinator.reset_generation()
        return gone

    def close(self) -> None:
        """Stop heartbeats and threads; the broker notices after the session timeout unless ``leave`` went before."""
        if self._closed:
            return
        self._closed = True
        self._coordinator._close_heartbeat()
        close_net_client(self._client)

    def _reset_if_still(self, identity: GroupIdentity, *, keep_id: bool) -> None:
        """Fall out of the group, unless a join brought another generation in the meantime."""
        with self._coordinator._lock:
            if self.identity() == identity:
                self._coordinator.reset_generation(identity.member_id if keep_id else "")

    async def _leave_once(self, identity: GroupIdentity, reason: str) -> None:
        await self._leave_members([(identity.member_id, identity.group_instance_id)], reason)

    async def _take_over_once(self, newcomer: GroupIdentity, member_ids: frozenset[str]) -> bool:
        response = await self._ask(
            DescribeGroupsRequest(groups=[newcomer.group_id], max_version=_DESCRIBE_VERSION), STOP_TIMEOUT_MS
        )
        there = {str(member.member_id) for group in response.groups for member in group.members}
        if newcomer.member_id not in there:
            return False
        gone = sorted(member_ids & there)
        if gone:
            log.info("group %s: %s left by a dead process of this directory", newcomer.group_id, ", ".join(gone))
            await self._leave_members([(member_id, None) for member_id in gone], "its process is dead")
        return True

    async def _leave_members(self, members: Sequence[tuple[str, str | None]], reason: str) -> None:
        group_id = self._settings.group_id
        request = LeaveGroupRequest(
            group_id=group_id,
            member_id=members[0][0],
            members=[
                LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id=instance, reason=reason[:255])
                for member_id, instance in members
            ],
        )
        response = await self._ask(request, STOP_TIMEOUT_MS)
        for code in (response.error_code, *(member.error_code for member in response.members or ())):
            error_type = kp.for_code(code)
            if error_type is not kp.NoError:
                raise error_type(members[0][0])


def encode_member_assignment(assignment: MemberAssignment) -> bytes:
    """Kafka's standard consumer assignment with our user data."""
    return bytes(
        ConsumerProtocolAssignment(
            version=_ASSIGNMENT_VERSION,
            assigned_partitions=[
                ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=partitions)
                for topic, partitions in partitions_by_topic(assignment.partitions).items()
            ],
            user_data=assignment.user_data,
        ).encode()
    )


def decode_member_assignment(data: bytes) -> MemberAssignment:
    """The assignment of these bytes; none at all for no bytes (a member unknown to its leader)."""
    if not data:
        return MemberAssignment((), b"")
    found = ConsumerProtocolAssignment.decode(data)
    return MemberAssignment(
        tuple(TopicPartition(tp.topic, tp.partition) for tp in found.partitions()), bytes(found.user_data or b"")
    )


def _group_member(member: Any) -> GroupMember:
    found = ConsumerProtocolSubscription.decode(bytes(member.metadata))
    owned = tuple(
        TopicPartition(entry.topic, partition)
        for entry in found.owned_partitions or ()
        for partition in entry.partitions
    )
    generation = found.generation_id
    return GroupMember(
        str(member.member_id),
        member.group_instance_id,
        tuple(found.topics),
        owned,
        -1 if generation is None else int(generation),
        bytes(found.user_data or b""),
    )


def partitions_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The numbers of the partitions, in order, by their topics in order."""
    result: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        result.setdefault(topic, []).append(partition)
    return result
