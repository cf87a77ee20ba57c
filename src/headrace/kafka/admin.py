"""Topics, offsets and groups. Every call waits for its answer and has a deadline."""

from __future__ import annotations

import concurrent.futures
import logging
import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaError, TopicCollection
from confluent_kafka import KafkaException as ClientException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka import admin as untyped_admin

from headrace.errors import (
    AuthorizationException,
    MissingSourceTopicException,
    StreamsException,
    TimeoutException,
)
from headrace.kafka.acls import Acl
from headrace.kafka.connections import Bootstrap, data_client_config
from headrace.kafka.errors import (
    UNREACHED,
    ClosedClient,
    refuses_entry,
    translate,
    translate_code,
    translate_config_error,
)
from headrace.kafka.group_admin import LazyGroupAdmin
from headrace.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.records import OffsetAndMetadata

T = TypeVar("T")

log = logging.getLogger(__name__)

_api: Any = untyped_admin  # declares neither its re-exports nor its futures' results

GroupType = Literal["classic", "consumer", "streams", "share"]
"""What manages a group: the classic protocol, KIP-848, KIP-1071, KIP-932."""

_TRANSACTION_LOG = "__transaction_state"
_TRANSACTION_COPIES = "transaction.state.log.replication.factor"
_PROPAGATION_PAUSE_S = 0.02
_EVENTS_EVERY_S = 0.1
_FIRST_PATIENCE_S = 1.0
_TELL_AFTER_S = 3.0
_GRACE_S = 5.0  # added to the client's own deadline, which then names the cause


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; ``replication_factor`` -1 is the brokers' default."""

    name: str
    partitions: int
    replication_factor: int = -1
    config: Mapping[str, str] = field(default_factory=dict[str, str])


class TopicSetting(NamedTuple):
    """A config of a topic; ``own`` when it was set on the topic itself."""

    value: str
    own: bool


@dataclass(frozen=True, slots=True)
class GroupMemberDescription:
    """A member of a group as the brokers know it; ``partitions`` are its source partitions."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group as the brokers know it.

    Attributes:
        type: what manages it, None when the group does not exist (or only as committed offsets on an old broker).
        state: the brokers' word, such as ``Stable``, ``Empty``, ``PreparingRebalance``, ``Dead``.
        members: of a classic, consumer or streams group; always empty for a share group, see ``active``.
    """

    group_id: str
    type: GroupType | None
    state: str
    members: tuple[GroupMemberDescription, ...]

    @property
    def active(self) -> bool:
        """Whether the group has members."""
        return bool(self.members) or (self.type is not None and self.state not in ("Empty", "Dead", ""))


class TopicAdmin:
    """An administrator.

    What concerns topics and offsets may be asked by several threads at once; what concerns groups (``*_group*``,
    ``remove_members``, ``transactions``) and ``close`` by one thread at a time.

    Args:
        config: librdkafka settings (dotted names); ``bootstrap.servers`` is required.
        timeout_ms: of each call, in ms.

    Raises:
        ConfigException: a setting is unknown or not allowed.
    """

    def __init__(self, config: Mapping[str, Any], timeout_ms: int = 60_000) -> None:
        self._bootstrap = Bootstrap(config)
        try:
            self._client: Any = _api.AdminClient(
                data_client_config({**config, "error_cb": self._on_client_error}), logger=log
            )
        except ClientException as error:
            raise translate_config_error(error, "admin client") from error
        self._config = dict(config)
        self._timeout_ms = timeout_ms
        self._timeout_s = timeout_ms / 1000
        self._groups = LazyGroupAdmin(self._config, timeout_ms)
        self._refusal: KafkaError | None = None

    def partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        """The number of partitions of each topic; topics that do not exist are absent.

        Raises:
            TimeoutException: no answer in time.
            AuthorizationException: Describe on a topic is missing.
        """
        return {name: len(found.partitions) for name, found in self._described(topics).items()}

    def partition_racks(self, topics: Iterable[str]) -> dict[TopicPartition, frozenset[str]]:
        """The racks of each partition's replicas, none of a partition with a replica on a broker that has no rack.

        Raises:
            TimeoutException: no answer in time.
            AuthorizationException: Describe on a topic is missing.
        """
        result: dict[TopicPartition, frozenset[str]] = {}
        for name, found in self._described(topics).items():
            for partition in found.partitions:
                racks = [node.rack for node in partition.replicas]
                result[TopicPartition(name, partition.id)] = frozenset(racks) if all(racks) else frozenset()
        return result

    def _described(self, topics: Iterable[str]) -> dict[str, Any]:
        names = sorted(set(topics))
        if not names:
            return {}
        self._find_controller()
        futures: dict[str, concurrent.futures.Future[Any]] = self._client.describe_topics(
            TopicCollection(names), request_timeout=self._timeout_s
        )
        found: dict[str, Any] = {}
        for name, future in futures.items():
            try:
                found[name] = self._result(future, f"describing topic {name}", (Acl("Describe", "topic", name),))
            except _Missing:
                continue
        return found

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """The id of each topic, which a topic of the same name made later does not share; absent topics are left out.

        Raises:
            TimeoutException: no answer in time.
            AuthorizationException: Describe on a topic is missing.
        """
        return {name: str(found.topic_id) for name, found in self._described(topics).items()}

    def list_topics(self) -> frozenset[str]:
        """The names of all topics that this principal may see, internal ones included."""
        deadline, patience_s = time.monotonic() + self._timeout_s, _FIRST_PATIENCE_S
        while True:
            left_s = deadline - time.monotonic()
            try:
                return frozenset(self._client.list_topics(timeout=min(patience_s, left_s)).topics)
            except ClientException as error:
                # the call itself would not end before its time is up when the brokers do not let us in
                self._check_entry("listing topics")
                if patience_s >= left_s:
                    raise translate(error, "listing topics") from error
            patience_s *= 2

    def create_topics(self, topics: Iterable[NewTopic]) -> frozenset[str]:
        """Create topics and wait until the brokers know them.

        Returns:
            Names of those that existed already (their partitions and configs are not compared).

        Raises:
            TimeoutException, AuthorizationException, StreamsException: the first that failed otherwise.
        """
        wanted = [
            _api.NewTopic(topic.name, topic.partitions, topic.replication_factor, config=dict(topic.config))
            for topic in topics
        ]
        if not wanted:
            return frozenset()
        self._find_controller()
        futures: dict[str, concurrent.futures.Future[Any]] = self._client.create_topics(
            wanted, request_timeout=self._timeout_s, operation_timeout=self._timeout_s
        )
        existed: set[str] = set()
        for name, future in futures.items():
            try:
                needs = (Acl("Create", "topic", name),)
                self._result(future, f"creating topic {name}", needs, KafkaError.TOPIC_ALREADY_EXISTS)
            except _Missing:
                existed.add(name)
        self._await_topics(frozenset(futures))
        return frozenset(existed)

    def _await_topics(self, names: frozenset[str]) -> None:
        """Wait until describing finds the topics: the brokers answer a creation before all of them know of it."""
        deadline = time.monotonic() + self._timeout_s
        while missing := names - self.partition_counts(names).keys():
            if time.monotonic() > deadline:
                raise TimeoutException(f"created topics are not known to the brokers yet: {', '.join(sorted(missing))}")
            time.sleep(_PROPAGATION_PAUSE_S)

    def delete_topics(self, topics: Iterable[str]) -> frozenset[str]:
        """Delete topics; returns the names of those that did not exist."""
        names = sorted(set(topics))
        if not names:
            return frozenset()
        self._find_controller()
        futures: dict[str, concurrent.futures.Future[Any]] = self._client.delete_topics(
            names, request_timeout=self._timeout_s, operation_timeout=self._timeout_s
        )
        absent: set[str] = set()
        for name, future in futures.items():
            try:
                self._result(future, f"deleting topic {name}", (Acl("Delete", "topic", name),))
            except _Missing:
                absent.add(name)
        return frozenset(absent)

    def check_transactions(self) -> None:
        """See whether the brokers can have transactions; a client that asks them for one only hears: not yet.

        Nothing is said when that cannot be known: no answer in time, or no permission to see the brokers' settings.

        Raises:
            StreamsException: the log of transactions cannot be made: there are fewer brokers than it needs copies.
        """
        try:
            if self.partition_counts([_TRANSACTION_LOG]):
                return
            nodes = self._find_controller()
            broker = _api.ConfigResource(_api.ResourceType.BROKER, str(nodes.controller.id))
            (future,) = self._client.describe_configs([broker], request_timeout=self._timeout_s).values()
            needed = int(self._result(future, "reading the brokers' settings", ())[_TRANSACTION_COPIES].value)
        except (AuthorizationException, TimeoutException) as error:
            log.debug("whether the brokers can have transactions is not known: %s", error)
            return
        count = len(nodes.nodes)
        if count < needed:
            raise StreamsException(
                f"processing.guarantee=exactly_once_v2 needs transactions, which these brokers cannot have: their log, "
                f"topic {_TRANSACTION_LOG}, shall have {needed} copies ({_TRANSACTION_COPIES}), and brokers there are "
                f"{count}. Start more of them; or set {_TRANSACTION_COPIES}={count} and, on few brokers, "
                "transaction.state.log.min.isr=1, and restart them; or set processing.guarantee=at_least_once"
            )

    def topic_configs(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        """The configs set on the topics themselves (dynamic ones, not defaults); absent topics are left out."""
        return {
            topic: {name: setting.value for name, setting in settings.items() if setting.own}
            for topic, settings in self.topic_settings(topics).items()
        }

    def replication_factors(self, topics: Iterable[str]) -> dict[str, int]:
        """The least number of replicas that a partition of each topic has; absent topics are left out."""
        return {
            name: min(len(partition.replicas) for partition in found.partitions)
            for name, found in self._described(topics).items()
        }

    def topic_settings(self, topics: Iterable[str]) -> dict[str, dict[str, TopicSetting]]:
        """The configs that hold for the topics, defaults of the brokers included; absent topics are left out."""
        names = sorted(set(topics))
        if not names:
            return {}
        self._find_controller()
        futures: dict[Any, concurrent.futures.Future[Any]] = self._client.describe_configs(
            [_api.ConfigResource(_api.ResourceType.TOPIC, name) for name in names], request_timeout=self._timeout_s
        )
        result: dict[str, dict[str, TopicSetting]] = {}
        for resource, future in futures.items():
            try:
                needs = (Acl("DescribeConfigs", "topic", resource.name),)
                entries = self._result(future, f"describing the configs of topic {resource.name}", needs)
            except _Missing:
                continue
            own = _api.ConfigSource.DYNAMIC_TOPIC_CONFIG.value
            result[resource.name] = {
                name: TopicSetting(entry.value, entry.source == own)
                for name, entry in entries.items()
                if entry.value is not None
            }
        return result

    def delete_records(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete the records before these offsets; returns the new log starts. Partitions gone by now are left out."""
        if not offsets:
            return {}
        futures: dict[ClientPartition, concurrent.futures.Future[Any]] = self._client.delete_records(
            [ClientPartition(tp.topic, tp.partition, offset) for tp, offset in offsets.items()],
            request_timeout=self._timeout_s,
            operation_timeout=self._timeout_s,
        )
        result: dict[TopicPartition, int] = {}
        for entry, future in futures.items():
            tp = TopicPartition(entry.topic, entry.partition)
            try:
                needs = (Acl("Delete", "topic", tp.topic),)
                doing = f"deleting records of {tp} before {offsets[tp]}"
                result[tp] = int(self._result(future, doing, needs).low_watermark)
            except _Missing:
                continue
            except (TimeoutException, MissingSourceTopicException):
                self._look_for_brokers("deleting records", self._timeout_s)
                raise
        return result

    def list_offsets(
        self,
        partitions: Iterable[TopicPartition],
        spec: Literal["earliest", "latest"] | int,
        *,
        read_committed: bool = False,
    ) -> dict[TopicPartition, int]:
        """Offsets of partitions.

        Args:
            partitions: all must exist.
            spec: the log start, the log end, or a timestamp in ms (the first record at or after it, -1 if none).
            read_committed: the log end is then the last stable offset; False gives the high watermark, which is what
                a restore has to reach.

        Raises:
            TimeoutException: no answer in time, or one without an offset: about a partition whose leader just changed
                the client may give neither offset nor error.
            MissingSourceTopicException: a topic does not exist.
        """
        asked = list(partitions)
        if not asked:
            return {}
        if spec == "earliest":
            wanted = _api.OffsetSpec.earliest()
        elif spec == "latest":
            wanted = _api.OffsetSpec.latest()
        else:
            wanted = _api.OffsetSpec.for_timestamp(spec)
        futures: dict[ClientPartition, concurrent.futures.Future[Any]] = self._client.list_offsets(
            {ClientPartition(tp.topic, tp.partition): wanted for tp in asked},
            isolation_level=IsolationLevel.READ_COMMITTED if read_committed else IsolationLevel.READ_UNCOMMITTED,
            request_timeout=self._timeout_s,
        )
        result: dict[TopicPartition, int] = {}
        try:
            for entry, future in futures.items():
                tp = TopicPartition(entry.topic, entry.partition)
                needs = (Acl("Describe", "topic", tp.topic),)
                offset = result[tp] = int(self._result(future, f"reading the offsets of {tp}", needs, None).offset)
                if offset < 0 and (offset == OFFSET_INVALID or spec in ("earliest", "latest")):
                    raise TimeoutException(f"reading the offsets of {tp}: the brokers gave none")
        except (TimeoutException, MissingSourceTopicException) as error:
            known = self._look_for_brokers("reading offsets", self._timeout_s)
            if isinstance(error, MissingSourceTopicException) and known.issuperset(tp.topic for tp in asked):
                raise TimeoutException(f"reading offsets: no leader is known of {asked[0].topic} yet") from error
            raise
        return result

    def committed(self, group_id: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The committed offsets of a group, those inside unfinished transactions not counted; -1001 for none.

        Raises:
            TimeoutException: no answer in time.
        """
        # not by confluent_kafka: an answer that another broker coordinates the group ends the process (a null pointer)
        asked = list(partitions)
        if not asked:
            return {}
        found = self._groups.offsets(group_id, asked, stable=False, timeout_s=self._timeout_s)
        return {tp: found[tp].offset if tp in found else OFFSET_INVALID for tp in asked}

    def list_groups(self) -> dict[str, GroupType]:
        """Every group with what manages it."""
        return {group_id: _group_type(kind) for group_id, (kind, _) in self._groups.admin().groups().items()}

    def describe_group(self, group_id: str) -> GroupDescription:
        """A group's type, state and members; type None and state ``Dead`` when there is none of that id."""
        kind, state = self._groups.admin().groups().get(group_id, (None, "Dead"))
        if kind is None:
            return GroupDescription(group_id, None, state, ())
        if kind == "streams":
            return GroupDescription(group_id, _group_type(kind), state, self._streams_members(group_id))
        if kind not in ("classic", "consumer"):
            return GroupDescription(group_id, _group_type(kind), state, ())
        futures: dict[str, concurrent.futures.Future[Any]] = self._client.describe_consumer_groups(
            [group_id], request_timeout=self._timeout_s
        )
        needs = (Acl("Describe", "group", group_id),)
        found = self._result(futures[group_id], f"describing group {group_id}", needs, None)
        members = tuple(
            GroupMemberDescription(
                member.member_id,
                member.group_instance_id or None,
                member.client_id,
                member.host,
                frozenset(TopicPartition(tp.topic, tp.partition) for tp in member.assignment.topic_partitions),
            )
            for member in found.members
        )
        return GroupDescription(group_id, _group_type(kind), state, members)

    def _streams_members(self, group_id: str) -> tuple[GroupMemberDescription, ...]:
        members, topics = self._groups.admin().streams_group(group_id)
        counts = self.partition_counts(topic for names in topics.values() for topic in names) if members else {}
        return tuple(
            GroupMemberDescription(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.host,
                frozenset(
                    TopicPartition(topic, task.partition)
                    for task in member.tasks
                    for topic in topics.get(task.subtopology, ())
                    if task.partition < counts.get(topic, 0)
                ),
            )
            for member in members
        )

    def group_offsets(self, group_id: str, *, stable: bool = False) -> dict[TopicPartition, OffsetAndMetadata]:
        """All committed offsets of a group; ``stable`` waits for unfinished transactions that hold some.

        Raises:
            TimeoutException: no answer in time, or such a transaction stays open.
        """
        return self._groups.offsets(group_id, None, stable=stable, timeout_s=self._timeout_s)

    def transactions(self, prefix: str = "") -> dict[str, str]:
        """The state of each transaction whose id begins with ``prefix``, as every coordinator has it now.

        A state is the brokers' word: ``PrepareCommit`` and ``PrepareAbort`` are decided, with markers yet to be
        written; ``CompleteCommit``, ``CompleteAbort`` and ``Empty`` have none to write; ``Ongoing`` is open. Ids that
        the principal may not describe are left out, as are those long unused, which the brokers forget.

        Raises:
            TimeoutException: no answer in time, or a coordinator is being moved.
        """
        found = self._groups.admin().transactions()
        return {name: state for name, state in found.items() if name.startswith(prefix)}

    def alter_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Set committed offsets of a group without members.

        Raises:
            StreamsException: the group has members, or a partition does not exist.
        """
        if not offsets:
            return
        for tp, error in self._groups.admin().set_offsets(group_id, offsets).items():
            if error is not None:
                raise StreamsException(f"setting the offset of group {group_id} for {tp} failed: {error}")

    def delete_group(self, group_id: str) -> None:
        """Delete a group without members, its committed offsets too. One that does not exist is no error.

        Raises:
            StreamsException: the group has members.
        """
        self._groups.admin().delete_group(group_id)

    def remove_members(self, group: GroupDescription, reason: str) -> None:
        """Make the members of a classic or streams group leave; those gone by now are no error.

        Args:
            group: as described.
            reason: for the brokers' log (classic protocol).

        Raises:
            StreamsException: the group is of another type, or a member cannot be removed.
        """
        match group.type:
            case "classic":
                leaving = [(member.member_id, member.group_instance_id) for member in group.members]
                self._groups.admin().remove_members(group.group_id, leaving, reason)
            case "streams":
                self._groups.admin().expel(group.group_id, [member.member_id for member in group.members])
            case _:
                raise StreamsException(f"group {group.group_id} is of type {group.type}: its members cannot be removed")

    def close(self) -> None:
        """Free the connections. Calling it again does nothing."""
        self._client = ClosedClient("admin client")  # that of before is freed with its last reference
        self._groups.close()

    def _result(
        self,
        future: concurrent.futures.Future[T],
        doing: str,
        needs: Iterable[Acl],
        missing: int | None = KafkaError.UNKNOWN_TOPIC_OR_PART,
    ) -> T:
        deadline = time.monotonic() + self._timeout_s + _GRACE_S
        try:
            while True:
                try:
                    return future.result(_EVENTS_EVERY_S)
                except concurrent.futures.TimeoutError as error:
                    # brokers that do not let us in are told by an event: the client would try until the time is up
                    self._check_entry(doing)
                    if time.monotonic() >= deadline:
                        raise TimeoutException(f"{doing}: no answer within {self._timeout_s} s. {UNREACHED}") from error
        except ClientException as error:
            if missing is not None and error.args[0].code() == missing:
                raise _Missing from error
            self._check_entry(doing)
            raise translate(error, doing, needs) from error

    def _find_controller(self) -> Any:
        """Have the client know a controller that answers; returns the brokers that one knows.

        What is asked of topics and their configs goes to the controller. The client waits for the one it remembers, for
        ever, and does not look for another when that broker is away. Each answer names one, which it remembers then;
        brokers name any of those that they take for alive. So it is asked until the one that is named has answered.
        """
        doing = "asking the controller"
        began, patience_s = time.monotonic(), _FIRST_PATIENCE_S
        deadline, tell_at = began + self._timeout_s, began + _TELL_AFTER_S
        asked, answered = -1, set[int]()
        while True:
            left_s = max(deadline - time.monotonic(), _EVENTS_EVERY_S)
            try:
                future = self._client.describe_cluster(request_timeout=min(patience_s, left_s))
                nodes = self._result(future, doing, ())
                if nodes.controller is None:
                    raise TimeoutException(f"{doing}: the brokers name none yet")
            except TimeoutException as error:
                asked, left_s = -1, deadline - time.monotonic()
                if left_s <= _EVENTS_EVERY_S:
                    raise
                if time.monotonic() >= tell_at:
                    tell_at = math.inf
                    log.error("%s", error)  # whoever waits, for a minute or so, would not know for what
                self._look_for_brokers(doing, min(patience_s, left_s))
                time.sleep(_PROPAGATION_PAUSE_S)
                patience_s *= 2
                continue
            answered.add(asked)
            asked = nodes.controller.id
            if asked in answered:
                return nodes

    def _look_for_brokers(self, doing: str, timeout_s: float) -> frozenset[str]:
        """Have the client look leaders and controller up again; returns the topics there are, none when nobody answers.

        It asks the leader it remembers, for ever; and while that broker is away it only says that it knows no leader,
        as it does of a topic that does not exist, also when the broker is back and another one leads.

        Raises:
            AuthorizationException: the brokers refused the connection.
        """
        try:
            return frozenset(self._client.list_topics(timeout=timeout_s).topics)
        except ClientException:
            self._check_entry(doing)
            return frozenset()

    def _check_entry(self, doing: str) -> None:
        """Serve the client's events; raise if one says that the brokers refused the connection."""
        self._client.poll(0)
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            raise translate(refusal, doing)

    def _on_client_error(self, error: KafkaError) -> None:
        if refuses_entry(error):
            self._refusal = error
        else:
            self._bootstrap.on_error(self._client, error)
            log.warning("admin client: %s: %s", error.name(), error.str())


class _Missing(Exception):  # never leaves this module
    """The thing asked about does not exist (or, for a creation, exists)."""


def _group_type(kind: str) -> GroupType:
    match kind:
        case "classic" | "consumer" | "streams" | "share":
            return kind
        case _:
            raise translate_code(KafkaError.UNSUPPORTED_VERSION, "UNSUPPORTED_VERSION", kind, "reading a group's type")
