"""A member of a streams group without brokers: what it says next, and what it tells its thread."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

import pytest

from headrace.errors import (
    AuthorizationException,
    KafkaException,
    MissingSourceTopicException,
    StreamsException,
    TopologyException,
    UnsupportedVersionException,
)
from headrace.kafka import Assigned, FencedInstanceIdException, Lost, Revoked, ShutdownRequested
from headrace.kafka.streams_member import StreamsMember
from headrace.kafka.streams_protocol import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    Heartbeat,
    HeartbeatAnswer,
    MemberDescription,
    Status,
    TaskSets,
)
from headrace.records import HostInfo, HostPartitions, TaskId, TopicPartition

if TYPE_CHECKING:
    from headrace.kafka import MembershipEvent

A, B, C = TaskId(0, 0), TaskId(0, 1), TaskId(1, 0)
PARTITION = {task: TopicPartition(f"in{task.subtopology}", task.partition) for task in (A, B, C)}


class World:
    """A member, the time, and the brokers' next answer."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.offsets: dict[TaskId, int] = {}
        self.ends: dict[TaskId, int] = {}
        description = MemberDescription("g", None, "p", 60_000, ())
        self.member = StreamsMember(
            description, 60.0, lambda task: [PARTITION[task]], lambda: self.offsets, lambda: self.ends
        )
        self.member.join(self.now)

    def beat(self, wait_s: float = 0.0) -> Heartbeat:
        """The heartbeat that is due after exactly that time; it gets no answer yet."""
        assert self.member.wait_s(self.now) == pytest.approx(wait_s)
        self.now += wait_s
        sent = self.member.next_heartbeat(self.now)
        assert sent is not None
        self.sent = sent
        return sent.heartbeat

    def answer(
        self,
        *active: TaskId,
        epoch: int = 1,
        followed: frozenset[TaskId] = frozenset(),
        warmup: frozenset[TaskId] = frozenset(),
        same: bool = False,
        status: Status | None = None,
        hosts: dict[HostInfo, HostPartitions] | None = None,
        lag: int = -1,
    ) -> list[MembershipEvent]:
        """Answer the last heartbeat; the events that follow."""
        tasks = None if same else TaskSets(frozenset(active), followed, warmup)
        statuses = () if status is None else ((int(status), "why"),)
        self.member.answered(
            self.sent, HeartbeatAnswer(0, "", epoch, 5_000, 60_000, lag, statuses, tasks, False, 0, hosts), self.now
        )
        return self.events()

    def refuse(self, code: int, text: str = "") -> list[MembershipEvent]:
        self.member.answered(self.sent, HeartbeatAnswer(code, text, 0, 0, 0, -1, None, None, False, 0, None), self.now)
        return self.events()

    def events(self) -> list[MembershipEvent]:
        return self.member.take(self.now)[0]

    def failure(self) -> KafkaException | None:
        return self.member.take(self.now)[1]

    def joined(self, *active: TaskId, epoch: int = 1) -> None:
        self.beat()
        self.answer(*active, epoch=epoch)
        self.beat()
        self.answer(same=True, epoch=epoch)


def tasks_of(events: list[MembershipEvent]) -> list[tuple[type, set[TaskId]]]:
    return [(type(event), set(event.tasks)) for event in events if not isinstance(event, ShutdownRequested)]


def test_what_is_given_is_acknowledged_at_once_and_then_nothing_is_said_until_the_interval() -> None:
    world = World()
    first = world.beat()
    assert (first.epoch, first.tasks) == (JOIN_EPOCH, TaskSets())
    assert world.answer(A, B, followed=frozenset({C})) == [
        Assigned(
            frozenset({A, B}),
            frozenset({PARTITION[A], PARTITION[B]}),
            frozenset({A, B}),
            frozenset({C}),
            {},
            1,
        )
    ]
    assert world.beat().tasks == TaskSets(frozenset({A, B}), frozenset({C}))
    assert world.answer(same=True) == []
    assert world.beat(5.0).tasks is None


def test_a_task_is_given_up_only_when_it_is_closed() -> None:
    world = World()
    world.joined(A, B)
    world.beat(5.0)
    assert tasks_of(world.answer(A, epoch=2)) == [(Revoked, {B}), (Assigned, set())]
    assert world.member.owned() == {A, B}
    assert world.beat(5.0).tasks is None  # as long as it takes
    world.answer(same=True, epoch=2)
    assert world.member.closed(frozenset({B}))
    assert world.beat().tasks == TaskSets(frozenset({A}))
    assert tasks_of(world.answer(A, C, epoch=3)) == [(Assigned, {C})]


def test_tasks_are_not_announced_while_the_group_is_not_ready() -> None:
    world = World()
    world.beat()
    assert world.answer(status=Status.ASSIGNMENT_DELAYED) == []
    world.beat(0.5)  # the brokers assign soon: asked again long before the interval is over
    assert world.answer(same=True, status=Status.MISSING_INTERNAL_TOPICS) == []
    world.beat(5.0)
    assert tasks_of(world.answer(same=True)) == [(Assigned, set())]


def test_after_a_heartbeat_without_an_answer_everything_owned_is_said_again() -> None:
    world = World()
    world.joined(A)
    world.beat(5.0)
    world.member.unanswered(world.sent, world.now)
    assert world.beat(0.1).tasks == TaskSets(frozenset({A}))
    world.member.unanswered(world.sent, world.now)
    assert world.beat(0.2).tasks == TaskSets(frozenset({A}))
    assert world.refuse(16) == []
    world.beat(0.4)
    world.answer(same=True)
    assert world.beat(5.0).tasks is None


def test_a_fenced_member_joins_again_once_its_thread_knows() -> None:
    world = World()
    world.joined(A, B)
    world.beat(5.0)
    world.answer(A, epoch=2)
    world.beat(5.0)
    world.member.answered(world.sent, HeartbeatAnswer(110, "epoch", 0, 0, 0, -1, None, None, False, 0, None), world.now)
    assert world.member.identity() is None
    assert world.member.wait_s(world.now) is None
    assert tasks_of(world.events()) == [(Lost, {A, B})]
    again = world.beat()
    assert (again.epoch, again.tasks) == (JOIN_EPOCH, TaskSets())
    assert tasks_of(world.answer(B, epoch=7)) == [(Assigned, {B})]
    identity = world.member.identity()
    assert identity is not None
    assert identity.generation == 7


def test_a_member_whose_group_was_deleted_is_lost_and_joins_the_next_one() -> None:
    world = World()
    world.beat()
    world.answer(A)
    world.beat()
    (lost,) = world.refuse(69)
    assert isinstance(lost, Lost)
    assert lost.tasks == {A}
    assert world.beat().epoch == JOIN_EPOCH


def test_an_answer_of_an_earlier_life_means_nothing() -> None:
    world = World()
    world.joined(A)
    world.beat(5.0)
    assert world.member.leave("anew", rejoin=True)
    old = world.sent
    assert tasks_of(world.events()) == [(Lost, {A})]
    world.member.answered(
        old, HeartbeatAnswer(0, "", 9, 5_000, 60_000, -1, (), TaskSets(frozenset({B})), False, 0, None), world.now
    )
    assert world.events() == []
    assert world.member.identity() is None


def test_without_a_sign_of_life_of_its_thread_it_leaves() -> None:
    world = World()
    world.joined(A)
    world.now += 59
    assert world.member.expired(world.now) is None
    world.now += 2
    leaving = world.member.expired(world.now)
    assert leaving is not None
    assert leaving.epoch == LEAVE_EPOCH
    assert world.member.wait_s(world.now) is None
    assert tasks_of(world.events()) == [(Lost, {A})]
    assert world.beat().epoch == JOIN_EPOCH


def test_missing_source_topics_are_an_error_after_two_intervals_only() -> None:
    world = World()
    world.beat()
    world.answer(status=Status.MISSING_SOURCE_TOPICS)
    world.beat(5.0)
    world.answer(same=True, status=Status.MISSING_SOURCE_TOPICS)
    assert world.failure() is None
    world.beat(5.0)
    world.answer(same=True, status=Status.MISSING_SOURCE_TOPICS)
    failure = world.failure()
    assert isinstance(failure, MissingSourceTopicException)
    assert "why" in str(failure)
    assert world.member.wait_s(world.now) is None


def test_wrong_partition_counts_are_an_error_at_once() -> None:
    world = World()
    world.beat()
    world.answer(status=Status.INCORRECTLY_PARTITIONED_TOPICS)
    assert isinstance(world.failure(), TopologyException)


@pytest.mark.parametrize(
    ("status", "level", "match"),
    [
        (Status.STALE_TOPOLOGY, logging.WARNING, "newer topology than this instance: upgrade it"),
        (Status.MISSING_SOURCE_TOPICS, logging.WARNING, "source topics do not exist, create them"),
        (Status.INCORRECTLY_PARTITIONED_TOPICS, logging.WARNING, "do not have the partitions that the topology needs"),
        (Status.MISSING_INTERNAL_TOPICS, logging.INFO, "are making internal topics"),
        (Status.SHUTDOWN_APPLICATION, logging.WARNING, "the whole application is to end"),
        (Status.ASSIGNMENT_DELAYED, logging.INFO, "wait for more members"),
        (Status.MISSING_CLIENT_TAGS, logging.WARNING, r"by tags .* \(client\.tag\.\*\)"),
    ],
)
def test_a_status_is_logged_once_in_a_sentence(
    status: Status, level: int, match: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    world = World()
    world.joined(A)
    caplog.clear()
    for _ in range(2):
        world.answer(same=True, status=status)
    (told,) = caplog.records
    assert told.levelno == level
    assert re.fullmatch(f"group g: .*{match}.*: why", told.getMessage())


def test_a_shutdown_is_asked_for_until_it_was_heard_and_told_once() -> None:
    world = World()
    world.joined(A)
    world.member.ask_shutdown(world.now)
    assert world.beat().shutdown
    world.member.unanswered(world.sent, world.now)
    assert world.beat(0.1).shutdown
    assert world.answer(same=True, status=Status.SHUTDOWN_APPLICATION) == [ShutdownRequested("why")]
    assert not world.beat(5.0).shutdown
    assert world.answer(same=True, status=Status.SHUTDOWN_APPLICATION) == []


def test_a_change_of_hosts_is_told() -> None:
    world = World()
    world.joined(A)
    world.beat(5.0)
    hosts = {HostInfo("here", 1): HostPartitions(frozenset({PARTITION[A]}), frozenset())}
    events = world.answer(same=True, hosts=hosts)
    assert [event.hosts for event in events if isinstance(event, Assigned)] == [hosts]


def test_offsets_are_reported_by_the_brokers_interval_or_when_a_warm_up_has_caught_up() -> None:
    world = World()
    world.offsets, world.ends = {A: -2, C: 10}, {C: 1_000}
    assert (world.beat().offsets, world.sent.heartbeat.end_offsets) == ({C: 10}, {C: 1_000})
    world.answer(A, warmup=frozenset({C}), lag=100)
    assert world.beat().offsets is None  # no change
    world.answer(same=True, lag=100)
    world.offsets = {C: 500}
    assert world.beat(5.0).offsets is None
    world.answer(same=True, lag=100)
    world.offsets = {C: 901}
    assert world.beat(5.0).offsets == {C: 901}
    world.answer(same=True, lag=100)
    world.offsets = {}
    for _ in range(11):
        assert world.beat(5.0).offsets is None
        world.answer(same=True, lag=100)
    assert world.beat(5.0).offsets == {}


@pytest.mark.parametrize(
    ("code", "text", "kind", "match"),
    [
        (30, "", AuthorizationException, r"GROUP_AUTHORIZATION_FAILED: Broker: Group .* Read"),
        (35, "", UnsupportedVersionException, r"streams\.version=1"),
        (42, "Topology updates are not supported yet.", StreamsException, "runs another topology"),
        (42, "Static membership is not yet supported.", UnsupportedVersionException, r"Kafka 4\.4"),
        (69, "no", StreamsException, "another kind"),
        (81, "full", StreamsException, r"group\.streams\.max\.size"),
        (82, "fenced", FencedInstanceIdException, "Give every instance its own"),
        (111, "owned", FencedInstanceIdException, "until the group's"),
        (130, "bad", StreamsException, "do not accept the topology"),
    ],
)
def test_a_refusal_says_what_to_do(code: int, text: str, kind: type[KafkaException], match: str) -> None:
    world = World()
    world.beat()
    world.refuse(code, text)
    with pytest.raises(kind, match=match):
        raise world.failure() or AssertionError


def test_a_broker_that_fails_by_itself_is_asked_again_for_a_while() -> None:
    world = World()
    world.beat()
    world.refuse(-1)
    assert world.failure() is None
    world.now += 31
    world.member.note_poll(world.now)
    sent = world.member.next_heartbeat(world.now)
    assert sent is not None
    world.sent = sent
    world.refuse(-1)
    assert isinstance(world.failure(), StreamsException)
