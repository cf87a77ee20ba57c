"""What is taken from kafka-python's inner parts is still there and behaves as this package counts on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import kafka
import pytest
from kafka.coordinator.base import BaseCoordinator
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from headrace.assignment import GroupMember, MemberAssignment
from headrace.errors import TaskMigratedException, TimeoutException
from headrace.kafka.connections import KafkaNetClient, NetworkSelector, _Connections
from headrace.kafka.errors import kp
from headrace.kafka.group_admin import GroupAdmin
from headrace.kafka.group_client import (
    GroupConnection,
    GroupCoordinator,
    GroupSettings,
    decode_member_assignment,
    encode_member_assignment,
)
from headrace.records import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cluster.conftest import TopicFactory


class Recorder:
    """A listener that gives each member one partition and writes down what it is told."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.seen: list[GroupMember] = []
        self.joins: list[tuple[int, MemberAssignment]] = []
        self.reasons: list[str] = []
        self.owned: frozenset[TopicPartition] = frozenset()
        self.generation = -1

    def subscription(self) -> tuple[Sequence[str], bytes, frozenset[TopicPartition], int]:
        return (self.topic,), b"user data", self.owned, self.generation

    def perform_assignment(self, members: Sequence[GroupMember]) -> Mapping[str, MemberAssignment]:
        self.seen = list(members)
        return {
            member.member_id: MemberAssignment((TopicPartition(self.topic, place),), b"for %d" % place)
            for place, member in enumerate(sorted(members))
        }

    def joined(self, generation: int, assignment: MemberAssignment) -> None:
        self.owned, self.generation = frozenset(assignment.partitions), generation
        self.joins.append((generation, assignment))

    def fell_out(self, reason: str) -> None:
        self.reasons.append(reason)

    def fenced(self) -> None:
        self.reasons.append("fenced")


def advance(connections: Sequence[GroupConnection], until: Callable[[], bool], timeout_s: float = 15) -> None:
    deadline = time.monotonic() + timeout_s
    while not until():
        assert time.monotonic() < deadline
        for connection in connections:
            connection.advance()
        time.sleep(0.005)


@pytest.fixture
def connect(
    bootstrap_servers: str, unique: Callable[[str], str], topic_factory: TopicFactory, request: pytest.FixtureRequest
) -> Callable[[], tuple[GroupConnection, Recorder]]:
    topic = topic_factory("in", 4)

    def make() -> tuple[GroupConnection, Recorder]:
        recorder = Recorder(topic)
        settings = GroupSettings(unique("group"), None, 6_000, 300, 60_000)
        made = GroupConnection({"bootstrap_servers": [bootstrap_servers], "client_id": "c"}, settings, recorder)
        request.addfinalizer(made.close)
        return made, recorder

    return make


def test_the_version_is_the_one_this_was_written_for() -> None:
    assert kafka.__version__.startswith("3.0.")


def test_every_override_overrides_something() -> None:
    for name, member in vars(GroupCoordinator).items():
        if callable(member) and name != "__init__":
            assert hasattr(BaseCoordinator, name), name


def test_an_assignment_is_kafkas_own_with_user_data() -> None:
    given = MemberAssignment((TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1)), b"ours")
    encoded = encode_member_assignment(given)
    assert encoded == (b"\0\1\0\0\0\2\0\1a\0\0\0\2\0\0\0\0\0\0\0\2\0\1b\0\0\0\1\0\0\0\1\0\0\0\4ours")
    assert decode_member_assignment(encoded) == given
    assert decode_member_assignment(b"") == MemberAssignment((), b"")


def test_a_join_runs_by_itself_and_the_leader_sees_all_subscriptions(
    connect: Callable[[], tuple[GroupConnection, Recorder]],
) -> None:
    first, told_first = connect()
    began = time.monotonic()
    first.advance()
    assert time.monotonic() - began < 1  # starting a join waits for nothing
    assert first.generation_in_doubt()
    advance([first], lambda: len(told_first.joins) == 1)
    assert not first.generation_in_doubt()
    assert first.identity().generation == told_first.joins[0][0] >= 0
    second, told_second = connect()
    advance([first, second], lambda: len(told_second.joins) == 1 and len(told_first.joins) == 2)
    by_id = {member.member_id: member for member in told_first.seen + told_second.seen}
    old = by_id[first.identity().member_id]
    assert old.owned_partitions == (TopicPartition(told_first.topic, 0),)
    assert old.generation == told_first.joins[0][0]
    assert old.user_data == b"user data"
    assert by_id[second.identity().member_id].generation == -1
    assert {told.joins[-1][1].user_data for told in (told_first, told_second)} == {b"for 0", b"for 1"}


def test_a_commit_passes_a_held_join(connect: Callable[[], tuple[GroupConnection, Recorder]]) -> None:
    first, told = connect()
    advance([first], lambda: len(told.joins) == 1)
    second, told_second = connect()
    advance([first, second], lambda: bool(told_second.joins) and len(told.joins) == 2)
    third, told_third = connect()
    # The third one's JoinGroup, and then the first one's, are held: the second does not join.
    advance([first, third], lambda: len(told.joins) == 2 and first.generation_in_doubt())
    began = time.monotonic()
    first.commit(first.identity(), {TopicPartition(told.topic, 0): OffsetAndMetadata(1, "m")}, 10, first.identity)
    assert time.monotonic() - began < 2
    assert first.generation_in_doubt()
    advance([first, second, third], lambda: bool(told_third.joins) and len(told.joins) == 3)


def test_a_member_that_fell_out_and_joined_anew_does_not_commit_what_it_read_before(
    connect: Callable[[], tuple[GroupConnection, Recorder]], bootstrap_servers: str
) -> None:
    first, told = connect()
    advance([first], lambda: len(told.joins) == 1)
    old, tp = first.identity(), TopicPartition(told.topic, 0)
    first._coordinator.reset_generation(old.member_id)  # as an ILLEGAL_GENERATION does, which leaves the member id
    advance([first], lambda: len(told.joins) == 2)
    assert first.identity().member_id == old.member_id
    with pytest.raises(TaskMigratedException, match="fell out"):
        first.commit(old, {tp: OffsetAndMetadata(1, "")}, 10, lambda: None if told.reasons else first.identity())
    groups = GroupAdmin({"bootstrap_servers": [bootstrap_servers]}, 10_000)
    assert groups.offsets(old.group_id, [tp], stable=False, timeout_s=10) == {}
    groups.close()


def test_leaving_ends_the_generation(connect: Callable[[], tuple[GroupConnection, Recorder]]) -> None:
    first, told = connect()
    advance([first], lambda: len(told.joins) == 1)
    old = first.identity()
    first.leave("test", for_good=True)
    assert first.identity().generation == -1
    assert told.reasons
    with pytest.raises(TaskMigratedException):
        first.commit(old, {TopicPartition(told.topic, 0): OffsetAndMetadata(1, "")}, 10, first.identity)


def test_nobody_there_is_a_timeout(unique: Callable[[str], str]) -> None:
    settings = GroupSettings(unique("group"), None, 6_000, 300, 60_000)
    began = time.monotonic()
    with pytest.raises(TimeoutException):
        GroupConnection({"bootstrap_servers": ["127.0.0.1:1"]}, settings, Recorder("t"), connect_timeout_ms=500)
    assert time.monotonic() - began < 5


class JustInTime(_Connections):
    """A first contact that succeeds at the very moment at which a wait for it runs out."""

    async def wait_for(self, future: Any, timeout_ms: float | None) -> Any:
        base: Any = super()
        found = await base.wait_for(future, None if future is self._bootstrap_future else timeout_ms)
        if future is self._bootstrap_future:
            raise kp.KafkaTimeoutError("just too late")
        return found


def test_a_first_contact_that_succeeds_as_the_wait_for_it_runs_out_has_succeeded(bootstrap_servers: str) -> None:
    """It was a timeout of 100 ms, whatever the limit, on machines that were slow."""
    configs = {"bootstrap_servers": [bootstrap_servers]}
    net = NetworkSelector(**configs)
    connections: Any = JustInTime(net, **configs)
    client = KafkaNetClient(net, connections, **configs)
    net.start()
    try:
        connections.bootstrap(30_000)
    finally:
        net.stop(timeout_ms=5_000)
        client.close()


def test_a_subscription_of_a_newer_version_is_still_read() -> None:
    newer = ConsumerProtocolSubscription(version=3, topics=["t"], user_data=b"u", generation_id=5, rack_id="r")
    assert ConsumerProtocolSubscription.decode(newer.encode()).generation_id == 5
