"""What is asked and done about groups from outside, by kafka-python's admin client.

Half internal parts of it are used, as ``group_client`` says.
"""

# ruff: noqa: SLF001 - the use of half internal parts is what this file is for
# pyright: reportPrivateUsage=false

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from kafka import KafkaAdminClient as UntypedAdminClient
from kafka import admin as untyped_admin
from kafka import structs as untyped_structs
from kafka.protocol.consumer import group as untyped_group

from headrace.errors import TimeoutException
from headrace.kafka.acls import Acl
from headrace.kafka.connections import close_net_client, group_client_config, net_client
from headrace.kafka.coordinator_link import RETRY_PAUSE_S
from headrace.kafka.errors import kp, translate_group_error
from headrace.kafka.group_client import partitions_by_topic
from headrace.kafka.streams_protocol import (
    LEAVE_EPOCH,
    Heartbeat,
    MemberDescription,
    StreamsGroupView,
    group_request,
    group_view,
    heartbeat_request,
)
from headrace.records import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# kafka-python's annotations are partial and differ from what it does; here it is taken as untyped.
_admin: Any = untyped_admin
KafkaAdminClient: Any = UntypedAdminClient
MemberToRemove: Any = _admin.MemberToRemove
ClientPartition: Any = untyped_structs.TopicPartition
ClientOffsetAndMetadata: Any = untyped_structs.OffsetAndMetadata
OffsetFetchRequest: Any = untyped_group.OffsetFetchRequest

_FETCH_VERSION = 8  # several groups, by topic name
_ANSWER_TIMEOUT_MS = 5_000


class GroupAdmin:
    """Group questions that librdkafka's admin client has no answer to. Each call waits.

    Args:
        client_config: kafka-python's settings (``group_client_config``).
        timeout_ms: for the first connection and each request.
    """

    def __init__(self, client_config: Mapping[str, Any], timeout_ms: int) -> None:
        settings = {**client_config, "request_timeout_ms": timeout_ms, "bootstrap_timeout_ms": timeout_ms}
        made: list[Any] = []

        def client(**configs: Any) -> Any:
            made.append(net_client(**configs))
            return made[0]

        try:
            self._admin: Any = KafkaAdminClient(**settings, kafka_client=client)
        except Exception as error:
            for failed in made:
                close_net_client(failed)  # it has left its IO thread running
            raise translate_group_error(
                error, f"connecting to {', '.join(client_config['bootstrap_servers'])}"
            ) from error

    def groups(self) -> dict[str, tuple[str, str]]:
        """Every group's ``(type, state)`` as the brokers name them, such as ``("streams", "Stable")``."""
        try:
            found = self._admin.list_groups()
        except Exception as error:
            raise translate_group_error(error, "listing groups", (Acl("Describe", "cluster"),)) from error
        return {
            group["group_id"]: (str(group.get("group_type") or "classic").lower(), str(group.get("group_state") or ""))
            for group in found
        }

    def transactions(self) -> dict[str, str]:
        """By transactional id, the state as the brokers name it; those that the principal may not see are left out."""
        doing = "listing transactions"
        try:
            found = self._admin.list_transactions()
        except Exception as error:
            raise translate_group_error(error, doing) from error
        return {
            listing.transactional_id: str(listing.state.value) for listings in found.values() for listing in listings
        }

    def remove_members(self, group_id: str, members: Iterable[tuple[str, str | None]], reason: str) -> None:
        """Make these ``(member id, group instance id)`` of a classic group leave."""
        doing = f"removing members of group {group_id}"
        leaving = [
            MemberToRemove(
                member_id=None if instance_id is not None else member_id,
                group_instance_id=instance_id,
                reason=reason,
            )
            for member_id, instance_id in members
        ]
        try:
            outcome = self._admin.remove_group_members(group_id, leaving)
        except Exception as error:
            raise translate_group_error(error, doing, (Acl("Read", "group", group_id),)) from error
        for name, error_type in outcome.items():
            if error_type not in (kp.NoError, kp.UnknownMemberIdError):
                raise translate_group_error(error_type(), f"{doing} ({name})")

    def streams_group(self, group_id: str) -> StreamsGroupView:
        """A streams group's members and what its sub-topologies read; empty when there is no such group."""
        doing = f"describing group {group_id}"
        try:
            response = self._admin._manager.run(self._of_coordinator, group_id, group_request(group_id))
            view, code = group_view(response)
            if kp.for_code(code) is not kp.GroupIdNotFoundError:
                _raise_for(code, group_id)
        except Exception as error:
            raise translate_group_error(error, doing, (Acl("Describe", "group", group_id),)) from error
        return view

    def expel(self, group_id: str, member_ids: Iterable[str]) -> None:
        """Make these members of a streams group leave: says goodbye in their names."""
        doing = f"removing members of group {group_id}"
        about = MemberDescription(group_id, None, "", -1, ())
        for member_id in member_ids:
            request = heartbeat_request(about, Heartbeat(member_id, LEAVE_EPOCH))
            try:
                response = self._admin._manager.run(self._of_coordinator, group_id, request)
                if kp.for_code(response.error_code) is not kp.UnknownMemberIdError:
                    _raise_for(response.error_code, response.error_message or member_id)
            except Exception as error:
                raise translate_group_error(error, doing, (Acl("Read", "group", group_id),)) from error

    async def _of_coordinator(self, group_id: str, request: Any) -> Any:
        coordinators = await self._admin._find_coordinator_ids([group_id])
        return await self._admin._manager.send(request, node_id=coordinators[group_id])

    def offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None, *, stable: bool, timeout_s: float
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Committed offsets with their metadata, those that exist; of all partitions for None.

        Not by confluent_kafka: it reads metadata as text ended by a zero byte, which no other client writes, and
        returns whatever memory follows.

        Args:
            group_id: whose.
            partitions: which.
            stable: wait for unfinished transactions that hold offsets of these partitions.
            timeout_s: in all.
        """
        doing = f"reading the committed offsets of group {group_id}"
        by_topic = None if partitions is None else partitions_by_topic(partitions)
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                found = self._admin._manager.run(self._fetch_in_time, group_id, by_topic, stable)
            except kp.KafkaError as error:
                if not isinstance(error, (kp.RetriableError, kp.UnstableOffsetCommitError)):
                    raise translate_group_error(error, doing, _reading_offsets(group_id, by_topic or ())) from error
                if isinstance(error, (kp.NotCoordinatorError, kp.CoordinatorNotAvailableError)):
                    self._admin._manager.cluster._coordinators.clear()  # else the old one is asked again and again
                if time.monotonic() + RETRY_PAUSE_S >= deadline:
                    raise TimeoutException(
                        f"{doing}: not known within {timeout_s} s: {error}. It may be tried again"
                    ) from error
                time.sleep(RETRY_PAUSE_S)
            else:
                return dict(found)

    async def _fetch_in_time(
        self, group_id: str, by_topic: Mapping[str, list[int]] | None, stable: bool
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        # a request to a broker that went away may never come to an end by itself
        manager = self._admin._manager
        found: dict[TopicPartition, OffsetAndMetadata] = await manager.wait_for(
            manager.call_soon(self._fetch_offsets, group_id, by_topic, stable), _ANSWER_TIMEOUT_MS
        )
        return found

    async def _fetch_offsets(
        self, group_id: str, by_topic: Mapping[str, list[int]] | None, stable: bool
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        group_type = OffsetFetchRequest.OffsetFetchRequestGroup
        topic_type = group_type.OffsetFetchRequestTopics
        topics = (
            None
            if by_topic is None
            else [topic_type(name=topic, partition_indexes=partitions) for topic, partitions in by_topic.items()]
        )
        request = OffsetFetchRequest(
            groups=[group_type(group_id=group_id, topics=topics)],
            require_stable=stable,
            min_version=_FETCH_VERSION,
            max_version=_FETCH_VERSION,
        )
        response = await self._of_coordinator(group_id, request)
        result: dict[TopicPartition, OffsetAndMetadata] = {}
        for group in response.groups:
            _raise_for(group.error_code, group_id)
            for topic in group.topics:
                for partition in topic.partitions:
                    tp = TopicPartition(topic.name, partition.partition_index)
                    _raise_for(partition.error_code, str(tp))
                    if partition.committed_offset >= 0:
                        result[tp] = OffsetAndMetadata(partition.committed_offset, partition.metadata or "")
        return result

    def set_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, str | None]:
        """Commit for a group without members; Kafka's error name by partition, None where it went well."""
        wanted = {
            ClientPartition(*tp): ClientOffsetAndMetadata(entry.offset, entry.metadata, -1)
            for tp, entry in offsets.items()
        }
        try:
            outcome = self._admin.alter_group_offsets(group_id, wanted)
        except Exception as error:
            needs = (Acl("Read", "group", group_id), *(Acl("Read", "topic", tp.topic) for tp in offsets))
            raise translate_group_error(error, f"setting the offsets of group {group_id}", needs) from error
        return _error_names(outcome)

    def delete_group(self, group_id: str) -> None:
        """Delete a group that has no members; one that does not exist is no error."""
        doing, needs = f"deleting group {group_id}", (Acl("Delete", "group", group_id),)
        try:
            outcome = self._admin.delete_groups([group_id])
        except Exception as error:
            raise translate_group_error(error, doing, needs) from error
        said = outcome.get(group_id, "OK")  # the name of an error
        if said not in ("OK", kp.GroupIdNotFoundError.__name__):
            raise translate_group_error(getattr(kp, said)(), doing, needs)

    def close(self) -> None:
        """Free the connections."""
        # not by its own close(): that touches connections which the IO thread is at, and waits for it without an end
        close_net_client(self._admin._client)
        self._admin._metrics.close()


class LazyGroupAdmin:
    """A :class:`GroupAdmin` that is connected when it is first needed. Asked by one thread at a time.

    Args:
        config: librdkafka settings (dotted names).
        timeout_ms: for the first connection and each request.
    """

    def __init__(self, config: Mapping[str, Any], timeout_ms: int) -> None:
        self._config = config
        self._timeout_ms = timeout_ms
        self._guard = threading.Lock()
        self._admin: GroupAdmin | None = None

    def admin(self) -> GroupAdmin:
        """The connected one."""
        with self._guard:
            if self._admin is None:
                self._admin = GroupAdmin(group_client_config(self._config), self._timeout_ms)
            return self._admin

    def offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None, *, stable: bool, timeout_s: float
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """See :meth:`GroupAdmin.offsets`; the call after one without an answer connects anew."""
        try:
            return self.admin().offsets(group_id, partitions, stable=stable, timeout_s=timeout_s)
        except TimeoutException as error:
            if not isinstance(error.__cause__, kp.UnstableOffsetCommitError):
                self.close()  # perhaps the brokers it was connected to are gone
            raise

    def close(self) -> None:
        """Free the connections; what is asked later connects anew."""
        with self._guard:
            admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()


def _reading_offsets(group_id: str, topics: Iterable[str]) -> tuple[Acl, ...]:
    return (Acl("Describe", "group", group_id), *(Acl("Describe", "topic", topic) for topic in topics))


def _error_names(outcome: Mapping[Any, Any]) -> dict[TopicPartition, str | None]:
    return {
        TopicPartition(tp.topic, tp.partition): None if error_type is kp.NoError else str(error_type.message)
        for tp, error_type in outcome.items()
    }


def _raise_for(code: int, what: str) -> None:
    error_type = kp.for_code(code)
    if error_type is not kp.NoError:
        raise error_type(what)
