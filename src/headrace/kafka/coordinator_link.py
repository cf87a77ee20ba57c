"""A connection to the broker that coordinates a group, of whichever protocol: finding it, committing, closing.

What both kinds of members need of kafka-python's half internal parts. ``group_client`` says how these are handled.
"""

# ruff: noqa: SLF001 - the use of half internal parts is what this file is for
# pyright: reportPrivateUsage=false

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from kafka.protocol.consumer import group as untyped_group

from headrace.errors import TimeoutException
from headrace.kafka.acls import Acl
from headrace.kafka.connections import close_net_client, net_client
from headrace.kafka.errors import kp, translate_group_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.records import GroupIdentity, OffsetAndMetadata, TopicPartition

OffsetCommitRequest: Any = untyped_group.OffsetCommitRequest

RETRY_PAUSE_S = 0.05


class CoordinatorLink:
    """A network client with its IO thread, and the coordinator that lives on it.

    Args:
        client_config: kafka-python's settings (``group_client_config``).
        connect_timeout_ms: for the first answer of a broker.
        coordinator: makes the ``BaseCoordinator``, given the client and the brokers' version.
        commit_version: of OffsetCommit, the newest that names topics and that the protocol takes.

    Raises:
        TimeoutException: no broker answered in time.
        AuthorizationException: the brokers refused the connection.
    """

    def __init__(
        self,
        client_config: Mapping[str, Any],
        connect_timeout_ms: int,
        coordinator: Callable[[Any, Any], Any],
        commit_version: int,
    ) -> None:
        self._commit_version = commit_version
        self._client: Any = net_client(**client_config)
        self._manager: Any = self._client._manager
        self._client._net.start()
        try:
            self._manager.bootstrap(connect_timeout_ms)
            self._coordinator: Any = coordinator(self._client, self._manager.broker_version)
        except Exception as error:
            close_net_client(self._client)
            raise translate_group_error(
                error, f"connecting to {', '.join(client_config['bootstrap_servers'])}"
            ) from error

    def commit(
        self,
        identity: GroupIdentity,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        timeout_s: float,
        newest: Callable[[], GroupIdentity | None],
    ) -> None:
        """Commit offsets as ``identity``; waits for the answer.

        A moving coordinator is looked up again, and a rebalance is waited out where the protocol has it (``_as_now``).

        Args:
            identity: under which the offsets were read.
            offsets: what to commit.
            timeout_s: how long to wait for such things; a slow broker's answer is waited for a few seconds more.
            newest: the identity of now, or None when the member fell out since: a generation it may have joined
                meanwhile is not the one that these offsets are of.

        Raises:
            TaskMigratedException, TimeoutException, AuthorizationException, StreamsException: see ``Membership``.
        """
        deadline = time.monotonic() + timeout_s
        doing = f"committing offsets of group {identity.group_id} (generation {identity.generation})"
        while True:
            left_ms = max((deadline - time.monotonic()) * 1000, 1)
            try:
                self._manager.run(self._commit_once, identity, offsets, left_ms)
            except kp.KafkaError as error:
                again = self._as_now(error, identity, newest, doing)
                if again is None:
                    self._refused(error, identity)
                    raise translate_group_error(error, doing, _committing(identity.group_id, offsets)) from error
                if time.monotonic() + RETRY_PAUSE_S >= deadline:
                    raise TimeoutException(
                        f"{doing}: no outcome within {timeout_s} s: {error}. It may be tried again"
                    ) from error
                identity = again
                time.sleep(RETRY_PAUSE_S)
            else:
                return

    def _as_now(
        self,
        error: Exception,
        identity: GroupIdentity,
        newest: Callable[[], GroupIdentity | None],
        doing: str,
    ) -> GroupIdentity | None:
        """As whom to commit again after this error; None if that makes no sense."""
        del newest, doing
        return identity if isinstance(error, kp.RetriableError) else None

    def _refused(self, error: Exception, identity: GroupIdentity) -> None:
        """The brokers do not take commits of this identity."""

    def _free_node(self) -> int:
        """The coordinator's broker, over the connection that is not the coordinator's own.

        Brokers answer the requests of one connection in order, and hold a JoinGroup until every member has joined: what
        is sent after it on the same connection waits as long. kafka-python gives the coordinator's own a made-up node.
        """
        node = int(str(self._coordinator.coordinator_id).removeprefix("coordinator-"))
        if self._manager.cluster.broker_metadata(node) is None:
            self._manager.cluster.request_update()
            raise kp.CoordinatorNotAvailableError(node)
        return node

    async def _ask(self, request: Any, timeout_ms: float, *, beside: bool = True) -> Any:
        """The coordinator's answer, once it is known who that is.

        Args:
            request: what to send.
            timeout_ms: of the look-up, and of the answer.
            beside: not over the coordinator's own connection, on which a JoinGroup may be waiting.
        """
        coordinator = self._coordinator
        if not await coordinator.ensure_coordinator_ready_async(timeout_ms=timeout_ms):
            raise kp.CoordinatorNotAvailableError
        node = self._free_node() if beside else coordinator.coordinator_id
        return await self._manager.wait_for(self._manager.send(request, node_id=node), timeout_ms)

    async def _commit_once(
        self, identity: GroupIdentity, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_ms: float
    ) -> None:
        topic_type = OffsetCommitRequest.OffsetCommitRequestTopic
        partition_type = topic_type.OffsetCommitRequestPartition
        by_topic: dict[str, list[Any]] = {}
        for tp, entry in offsets.items():
            by_topic.setdefault(tp.topic, []).append(
                partition_type(
                    partition_index=tp.partition,
                    committed_offset=entry.offset,
                    committed_leader_epoch=-1,
                    committed_metadata=entry.metadata,
                )
            )
        request = OffsetCommitRequest(
            max_version=self._commit_version,
            group_id=identity.group_id,
            generation_id_or_member_epoch=identity.generation,
            member_id=identity.member_id,
            group_instance_id=identity.group_instance_id,
            topics=[topic_type(name=topic, partitions=partitions) for topic, partitions in by_topic.items()],
        )
        response = await self._ask(request, timeout_ms)
        for topic, partitions in response.topics:
            for partition, code in partitions:
                error_type = kp.for_code(code)
                if error_type is kp.NoError:
                    continue
                if error_type in (kp.NotCoordinatorError, kp.CoordinatorNotAvailableError):
                    self._coordinator.coordinator_dead(error_type())
                raise error_type(f"{topic}-{partition}")


def _committing(group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> tuple[Acl, ...]:
    topics = sorted({tp.topic for tp in offsets})
    return (Acl("Read", "group", group_id), *(Acl("Read", "topic", topic) for topic in topics))
