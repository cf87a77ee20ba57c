"""Membership by the streams rebalance protocol (KIP-1071): the brokers assign tasks and make internal topics.

Two threads meet here: the stream thread in ``StreamsMembership``, and kafka-python's IO thread, which sends heartbeats
(``streams_connection``). What both touch is in ``streams_member``.

A rebalance is a talk between the brokers and each member alone: an answer says what the member is to own, it gives up
what is not in it, and says so with the next heartbeat. There is no JoinGroup that holds anybody up, and no leader.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from headrace.errors import TaskMigratedException
from headrace.kafka.connections import group_client_config
from headrace.kafka.streams_connection import StreamsConnection
from headrace.kafka.streams_member import StreamsMember
from headrace.kafka.streams_protocol import LEAVE_EPOCH, STATIC_LEAVE_EPOCH, MemberDescription

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from headrace.kafka.membership import MembershipEvent, TaskOffsets
    from headrace.records import GroupIdentity, HostInfo, OffsetAndMetadata, TaskId, TopicPartition
    from headrace.topology.group import GroupSubtopology, TopologyDescription

log = logging.getLogger(__name__)


def _no_offsets() -> Mapping[TaskId, int]:
    return {}


class StreamsMembership:
    """A member of a streams group (``Membership``).

    How long a session lasts and how often heartbeats are sent is the group's own setting, which the brokers tell.

    Args:
        config: librdkafka settings; where the brokers are and the security are taken from it.
        group_id: the application id.
        client_id: shown by Kafka's tools.
        process_id: of the instance; its threads' members have the same.
        topology: what the members of the group must agree on.
        partitions: source partitions of a task. Called on the IO thread: must not block.
        max_poll_interval_ms: without ``poll`` for so long, the member leaves. Also how long the brokers wait for
            revoked tasks to be closed.
        group_instance_id: makes a static member, whose tasks wait for it when it is closed without leaving. Needs
            brokers of 4.4.
        host: where this instance can be reached (``application.server``).
        tags: of this instance (``client.tag.*``).
        rack_id: of this instance (``client.rack``).
        task_offsets: how far this process's copies of tasks are. On the IO thread too, as the next two.
        task_end_offsets: how far their changelogs are.
        describe: the nodes of the topology, if the brokers may show them.
        former: id of a member that is known to be dead, and that this one goes on as, with its tasks.
        connect_timeout_ms: how long ``start`` waits for the first answer of a broker.

    Raises:
        ConfigException: security settings that do not translate.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        group_id: str,
        client_id: str,
        *,
        process_id: str,
        topology: tuple[GroupSubtopology, ...],
        partitions: Callable[[TaskId], Iterable[TopicPartition]],
        max_poll_interval_ms: int = 300_000,
        group_instance_id: str | None = None,
        host: HostInfo | None = None,
        tags: Mapping[str, str] | None = None,
        rack_id: str | None = None,
        task_offsets: TaskOffsets = _no_offsets,
        task_end_offsets: TaskOffsets = _no_offsets,
        describe: Callable[[], TopologyDescription] | None = None,
        former: str | None = None,
        connect_timeout_ms: int = 30_000,
    ) -> None:
        self._client_config = {**group_client_config(config), "client_id": client_id}
        self._description = MemberDescription(
            group_id,
            group_instance_id,
            process_id,
            max_poll_interval_ms,
            topology,
            host,
            tuple(sorted((tags or {}).items())),
            rack_id,
        )
        self._partitions = partitions
        self._task_offsets = task_offsets
        self._task_end_offsets = task_end_offsets
        self._describe = describe
        self._connect_timeout_ms = connect_timeout_ms
        self._connection: StreamsConnection | None = None
        self._former = former
        self._member = self._new_member()

    def start(self) -> None:
        """Connect (up to ``connect_timeout_ms``) and begin to join. See ``Membership.start``."""
        if self._connection is None:
            self._member = self._new_member()
            self._connection = StreamsConnection(
                self._client_config, self._member, self._connect_timeout_ms, self._describe
            )
            self._former = None  # whoever left and starts again is somebody else
        self._member.join(time.monotonic())
        self._connection.wake()

    def poll(self, now_ms: int) -> list[MembershipEvent]:
        """See ``Membership.poll``."""
        del now_ms  # heartbeats run by a monotonic clock
        if self._connection is None:
            return []
        events, failure, joins = self._member.take(time.monotonic())
        if joins:
            self._connection.wake()
        if failure is not None and not events:
            raise failure
        return events  # an error comes with the next call

    def note_poll(self) -> None:
        """See ``Membership.note_poll``."""
        self._member.note_poll(time.monotonic())

    def identity(self) -> GroupIdentity:
        """See ``Membership.identity``."""
        identity = self._member.identity() if self._connection is not None else None
        if identity is None:
            raise TaskMigratedException(
                f"group {self._description.group_id}: this instance is no member now (not joined, it left, or it fell "
                "out: session or max.poll.interval.ms ran out); its tasks may run elsewhere, nothing of them is "
                "committed"
            )
        return identity

    def generation_in_doubt(self) -> bool:
        """See ``Membership.generation_in_doubt``. Here it lasts as long as one heartbeat is on its way."""
        return self._connection is not None and self._member.in_doubt()

    def member_id(self) -> str | None:
        """See ``Membership.member_id``."""
        return None if self._connection is None else self._member.member_id

    def take_over(self, member_ids: Collection[str]) -> bool:
        """See ``Membership.take_over``."""
        connection = self._connection
        if connection is None or self._member.identity() is None:
            return False
        done = all(connection.expel(member_id) for member_id in member_ids)
        self._member.hurry(time.monotonic())
        connection.wake()
        return done

    def owned(self) -> frozenset[TaskId]:
        """See ``Membership.owned``."""
        return self._member.owned()

    def revoked(self, tasks: Iterable[TaskId]) -> None:
        """See ``Membership.revoked``."""
        if self._member.closed(frozenset(tasks)) and self._connection is not None:
            self._connection.wake()

    def request_rejoin(self, reason: str) -> None:
        """See ``Membership.request_rejoin``. There is no rebalance to start: the brokers are asked sooner."""
        if self._connection is not None:
            log.info("group %s: heartbeat now: %s", self._description.group_id, reason)
            self._member.hurry(time.monotonic())
            self._connection.wake()

    def rejoin_anew(self, reason: str) -> None:
        """See ``Membership.rejoin_anew``."""
        if self._connection is not None:
            log.info("group %s: leaving, to join anew: %s", self._description.group_id, reason)
            self._leave(self._connection, reason, LEAVE_EPOCH, rejoin=True)

    def shutdown_application(self) -> None:
        """See ``Membership.shutdown_application``."""
        self._member.ask_shutdown(time.monotonic())
        if self._connection is not None:
            self._connection.wake()

    def commit_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_s: float = 60.0) -> None:
        """See ``Membership.commit_offsets``."""
        identity, connection = self.identity(), self._connection
        if offsets and connection is not None:
            connection.commit(identity, offsets, timeout_s, self._member.identity)

    def leave(self, reason: str) -> bool:
        """See ``Membership.leave``."""
        connection, self._connection = self._connection, None
        if connection is None:
            return False
        gone = self._leave(connection, reason, LEAVE_EPOCH, rejoin=False)
        connection.close()
        return gone

    def close(self, leave_group: bool) -> bool:
        """See ``Membership.close``. A static member that stays says that it goes, and its tasks wait for it."""
        if leave_group:
            return self.leave("the instance is closing")
        connection, self._connection = self._connection, None
        if connection is None:
            return False
        if self._description.instance_id is not None:
            self._leave(connection, "the instance is closing", STATIC_LEAVE_EPOCH, rejoin=False)
        connection.close()
        return False

    def _leave(self, connection: StreamsConnection, reason: str, epoch: int, *, rejoin: bool) -> bool:
        gone = not self._member.leave(reason, rejoin=rejoin) or connection.leave(epoch)
        connection.wake()
        return gone

    def _new_member(self) -> StreamsMember:
        return StreamsMember(
            self._description,
            self._description.rebalance_timeout_ms / 1000,
            self._partitions,
            self._task_offsets,
            self._task_end_offsets,
            self._former,
        )
