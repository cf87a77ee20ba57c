"""Heartbeats of the streams protocol over kafka-python: one loop on its IO thread, so that slow user code stops none.

``StreamsMember`` decides what is sent and what becomes of an answer; here it is sent, to the broker that coordinates
the group, which is looked up again when it has moved.
"""

# ruff: noqa: SLF001 - the use of half internal parts is what this file is for
# pyright: reportPrivateUsage=false

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from kafka.coordinator.base import BaseCoordinator
from kafka.net.wakeup_notifier import WakeupNotifier as UntypedWakeupNotifier

from headrace.errors import KafkaException, StreamsException, TaskMigratedException, UnsupportedVersionException
from headrace.kafka.acls import Acl
from headrace.kafka.connections import STOP_TIMEOUT_MS, close_net_client
from headrace.kafka.coordinator_link import CoordinatorLink
from headrace.kafka.errors import kp, translate_group_error
from headrace.kafka.streams_protocol import (
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    Heartbeat,
    description_request,
    heartbeat_answer,
    heartbeat_request,
)
from headrace.kafka.streams_refusals import UNRELEASED_INSTANCE_ID, UNSUPPORTED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.kafka.streams_member import StreamsMember
    from headrace.kafka.streams_protocol import MemberDescription
    from headrace.records import GroupIdentity
    from headrace.topology.group import TopologyDescription

log = logging.getLogger(__name__)

WakeupNotifier: Any = UntypedWakeupNotifier

_COMMIT_VERSION = 9  # by topic name; the least that streams groups take
_LOOK_UP_MS = 1_000
_ANSWER_TIMEOUT_MS = 10_000
_MOVED = frozenset({15, 16})
"""Numbers of COORDINATOR_NOT_AVAILABLE and NOT_COORDINATOR."""


class _Whereabouts(BaseCoordinator):  # type: ignore[misc]  # kafka-python is untyped
    """Knows which broker coordinates the group; nothing else of the class is used."""

    def protocol_type(self) -> str:
        raise NotImplementedError

    def group_protocols(self) -> list[tuple[str, bytes]]:
        raise NotImplementedError

    def _perform_assignment(self, leader_id: str, protocol: str, members: Any) -> dict[str, bytes]:
        raise NotImplementedError


class StreamsConnection(CoordinatorLink):
    """The connection of one member, sending from the start on whatever the member has to say.

    Args:
        client_config: kafka-python's settings (``group_client_config``).
        member: what is sent.
        connect_timeout_ms: for the first answer of a broker.
        describe: the topology's description, if the brokers may have it.

    Raises:
        TimeoutException: no broker answered in time.
        AuthorizationException: the brokers refused the connection.
    """

    def __init__(
        self,
        client_config: Mapping[str, Any],
        member: StreamsMember,
        connect_timeout_ms: int,
        describe: Callable[[], TopologyDescription] | None = None,
    ) -> None:
        group_id = member.description.group_id
        super().__init__(
            client_config,
            connect_timeout_ms,
            lambda client, version: _Whereabouts(client, group_id=group_id, api_version=version),
            _COMMIT_VERSION,
        )
        self._member = member
        self._describe = describe
        self._closing = False
        self._needs = (Acl("Read", "group", group_id),)
        self._wakeup: Any = WakeupNotifier(self._client._net)
        self._loop: Any = self._manager.call_soon(self._run)

    def wake(self) -> None:
        """The member may have something to say."""
        self._wakeup.notify()

    def leave(self, epoch: int) -> bool:
        """Tell the brokers that the member, which has left, is gone; waits up to 5 s for the answer.

        Args:
            epoch: ``LEAVE_EPOCH`` or ``STATIC_LEAVE_EPOCH``.

        Returns:
            Whether there was one.
        """
        return self._leave(self._member.description, self._member.member_id, epoch)

    def expel(self, member_id: str) -> bool:
        """Make another member leave; waits up to 5 s for the answer. Returns whether there was one."""
        # its id alone: the instance id is this member's own, if it has one
        return self._leave(self._member.description._replace(instance_id=None), member_id, LEAVE_EPOCH)

    def _leave(self, description: MemberDescription, member_id: str, epoch: int) -> bool:
        try:
            self._manager.run(self._send_as, description, Heartbeat(member_id, epoch), STOP_TIMEOUT_MS)
        except kp.KafkaError as error:
            log.warning(
                "leaving group %s as %s failed (%s); its session runs out instead",
                self._member.description.group_id,
                member_id,
                error,
            )
            return False
        return True

    def close(self) -> None:
        """Stop heartbeats and threads; the brokers notice after the session timeout unless ``leave`` went before."""
        if not self._closing:
            self._closing = True
            self._wakeup.notify()
            close_net_client(self._client)

    def _as_now(
        self,
        error: Exception,
        identity: GroupIdentity,
        newest: Callable[[], GroupIdentity | None],
        doing: str,
    ) -> GroupIdentity | None:
        """See ``CoordinatorLink``. A newer epoch may have come between asking for the identity and the commit."""
        if not isinstance(error, kp.StaleMemberEpochError):
            return super()._as_now(error, identity, newest, doing)
        now = newest()
        if now is None:
            raise TaskMigratedException(
                f"{doing} failed: {error}, and this member fell out of the group meanwhile; its tasks may run elsewhere"
            ) from error
        return now

    async def _run(self) -> None:
        member = self._member
        try:
            while not self._closing:
                now_s = time.monotonic()
                leave = member.expired(now_s)
                if leave is not None:
                    await self._send_once(leave)
                wait_s = member.wait_s(now_s)
                if wait_s is None or wait_s > 0:
                    await self._wakeup(wait_s)
                else:
                    await self._beat()
        except Exception as error:
            log.exception("group %s: heartbeats have ended", member.description.group_id)
            member.failed(
                error
                if isinstance(error, KafkaException)
                else StreamsException(f"group {member.description.group_id}: heartbeats have ended: {error!r}")
            )

    async def _beat(self) -> None:
        member = self._member
        doing = f"heartbeat of group {member.description.group_id}"
        coordinator = self._coordinator
        try:
            # in short steps: the stream thread's signs of life are looked at between them
            if not await coordinator.ensure_coordinator_ready_async(timeout_ms=_LOOK_UP_MS):
                return
        except kp.KafkaError as error:
            if not isinstance(error, kp.RetriableError):
                member.failed(translate_group_error(error, doing, self._needs))
            return
        sent = member.next_heartbeat(time.monotonic())
        if sent is None:
            return
        try:
            answer = heartbeat_answer(await self._send(sent.heartbeat, _ANSWER_TIMEOUT_MS))
        except kp.IncompatibleBrokerVersion:
            member.failed(UnsupportedVersionException(f"joining group {member.description.group_id}: {UNSUPPORTED}"))
            return
        except kp.KafkaError as error:
            log.debug("%s: %s", doing, error)
            if not isinstance(error, (kp.NodeNotReadyError, kp.ThrottlingQuotaExceededError)):
                coordinator.coordinator_dead(error)
            member.unanswered(sent, time.monotonic())
            if not isinstance(error, (kp.RetriableError, kp.KafkaTimeoutError)):
                member.failed(translate_group_error(error, doing, self._needs))
            return
        if answer.error_code == UNRELEASED_INSTANCE_ID and await self._release():
            member.unanswered(sent, time.monotonic())
            return
        if answer.error_code in _MOVED:
            coordinator.coordinator_dead(kp.for_code(answer.error_code)())
        member.answered(sent, answer, time.monotonic())
        if member.description_wanted and self._describe is not None:
            await self._send_description(self._describe())

    async def _release(self) -> bool:
        """Let go of the instance id, if it was the member of this very id that had it; whether it may be tried again.

        The brokers take a static member back only after it has said that it goes and will be back, which one that was
        killed has not.
        """
        try:
            answer = await self._send(Heartbeat(self._member.member_id, STATIC_LEAVE_EPOCH), STOP_TIMEOUT_MS)
        except kp.KafkaError as error:
            log.info("group %s: %s", self._member.description.group_id, error)
            return True
        return not answer.error_code

    async def _send(self, heartbeat: Heartbeat, timeout_ms: float) -> Any:
        return await self._send_as(self._member.description, heartbeat, timeout_ms)

    async def _send_as(self, description: MemberDescription, heartbeat: Heartbeat, timeout_ms: float) -> Any:
        return await self._ask(heartbeat_request(description, heartbeat), timeout_ms, beside=False)

    async def _send_once(self, heartbeat: Heartbeat) -> None:
        try:
            await self._send(heartbeat, STOP_TIMEOUT_MS)
        except kp.KafkaError as error:
            log.info("group %s: %s", self._member.description.group_id, error)

    async def _send_description(self, description: TopologyDescription) -> None:
        """Tell the brokers the topology's nodes. They ask again, so nothing is tried again here."""
        member = self._member
        member.description_wanted = False
        request = description_request(member.description.group_id, member.member_id, description)
        try:
            response = await self._manager.wait_for(
                self._manager.send(request, node_id=self._coordinator.coordinator_id), _ANSWER_TIMEOUT_MS
            )
        except kp.KafkaError as error:
            log.info("group %s: the topology's description was not taken: %s", member.description.group_id, error)
            return
        if response.error_code:
            log.warning(
                "group %s: the brokers did not take the topology's description: %s",
                member.description.group_id,
                response.error_message or kp.for_code(response.error_code).__name__,
            )
