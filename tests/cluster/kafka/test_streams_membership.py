"""Streams group membership (KIP-1071) on a real broker: sharing, moving, falling out, and who may commit."""

from __future__ import annotations

import time
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import pytest
from cluster.kafka.members import ALL, Member, classic_member, drive, drive_until_hosts_are_known, streams_member

from headrace.errors import IllegalStateException, MissingSourceTopicException, StreamsException, TaskMigratedException
from headrace.kafka import (
    Assigned,
    FencedInstanceIdException,
    Lost,
    RecordProducer,
    Revoked,
    ShutdownRequested,
    TopicAdmin,
)
from headrace.records import GroupIdentity, OffsetAndMetadata, TopicPartition
from headrace.tools.reset import ResetRequest, reset

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.conftest import TopicFactory

pytestmark = pytest.mark.streams_protocol


@pytest.fixture
def join(join_as: Callable[..., Member]) -> Callable[..., Member]:
    return partial(join_as, streams_member)


def test_members_share_the_tasks_and_those_that_stay_are_not_interrupted(
    join: Callable[..., Member], topic: str
) -> None:
    first = join()
    drive([first], lambda: first.tasks == ALL)
    second = join()
    drive([first, second], lambda: len(first.tasks) == len(second.tasks) == 3)
    assert [len(event.tasks) for event in first.events if isinstance(event, Revoked)] == [3]
    kept = {id(member): set(member.tasks) for member in (first, second)}
    third = join()
    drive([first, second, third], lambda: {len(member.tasks) for member in (first, second, third)} == {2})
    assert first.tasks < kept[id(first)]
    assert second.tasks < kept[id(second)]
    assert first.count(Lost) == second.count(Lost) == third.count(Lost) == 0
    assert first.partitions == {TopicPartition(topic, task.partition) for task in first.tasks}
    third.membership.leave("done")
    began = time.monotonic()
    drive([first, second], lambda: len(first.tasks) == len(second.tasks) == 3)
    assert time.monotonic() - began < 5  # nobody waited for the session


def test_a_task_being_closed_is_given_to_nobody_else(join: Callable[..., Member], topic: str) -> None:
    first = join()
    drive([first], lambda: first.tasks == ALL)
    first.hold_revoked = True
    second = join()
    drive([first, second], lambda: bool(first.held_back) and second.count(Assigned) >= 1)
    assert not second.tasks
    assert first.membership.owned() == ALL
    identity = first.membership.identity()  # what is being closed may still be committed
    assert identity.generation > 0
    first.membership.commit_offsets({TopicPartition(topic, 5): OffsetAndMetadata(1, "")})
    first.hold_revoked = False
    first.tasks -= first.held_back
    first.membership.revoked(first.held_back)
    drive([first, second], lambda: len(first.tasks) == len(second.tasks) == 3)


def test_offsets_are_committed_as_a_member_in_both_guarantees(
    join: Callable[..., Member], topic: str, bootstrap_servers: str, group: str
) -> None:
    first = join()
    drive([first], lambda: first.tasks == ALL)
    producer = RecordProducer({"bootstrap.servers": bootstrap_servers, "transactional.id": f"{group}-tx"})
    producer.init_transactions(20)
    one, two = TopicPartition(topic, 0), TopicPartition(topic, 1)
    second = join()
    offset = 0
    while len(second.tasks) < 3:
        for member in (first, second):
            member.poll()
        offset += 1
        first.membership.commit_offsets({two: OffsetAndMetadata(offset, "two")})
        producer.send(topic, 5, b"k", b"v")
        producer.send_offsets({one: OffsetAndMetadata(offset, "one")}, first.membership.identity())
        producer.commit_transaction()
    assert first.count(Lost) == 0
    with closing(TopicAdmin({"bootstrap.servers": bootstrap_servers})) as admin:
        offsets = admin.group_offsets(group)
    assert (offsets[one], offsets[two]) == (OffsetAndMetadata(offset, "one"), OffsetAndMetadata(offset, "two"))
    stale = GroupIdentity(group, first.membership.identity().generation, "somebody else")
    with pytest.raises(TaskMigratedException):
        producer.send_offsets({one: OffsetAndMetadata(0, "")}, stale)
    producer.close()


def test_a_killed_members_tasks_move_after_the_groups_session(join: Callable[..., Member]) -> None:
    first, second = join(), join()
    drive([first, second], lambda: len(first.tasks) == len(second.tasks) == 3)
    second.membership.close(leave_group=False)
    began = time.monotonic()
    drive([first], lambda: first.tasks == ALL)
    assert 3 < time.monotonic() - began < 12
    with pytest.raises(TaskMigratedException):
        second.membership.identity()


def test_a_member_that_nobody_polls_leaves_by_itself_and_comes_back(join: Callable[..., Member], topic: str) -> None:
    first, second = join(max_poll_interval_ms=1_500), join()
    drive([first, second], lambda: len(first.tasks) == len(second.tasks) == 3)
    drive([second], lambda: second.tasks == ALL)
    with pytest.raises(TaskMigratedException):
        first.membership.identity()
    with pytest.raises(TaskMigratedException):
        first.membership.commit_offsets({TopicPartition(topic, 0): OffsetAndMetadata(1, "")})
    had = first.tasks.copy()
    first.poll()
    assert next(event.tasks for event in first.events if isinstance(event, Lost)) == had
    drive([first, second], lambda: len(first.tasks) == len(second.tasks) == 3)


def test_joining_anew_gives_everything_up_first(join: Callable[..., Member]) -> None:
    first = join()
    drive([first], lambda: first.tasks == ALL)
    epoch = first.membership.identity().generation
    first.membership.rejoin_anew("the producer was fenced")
    with pytest.raises(TaskMigratedException):
        first.membership.identity()
    first.poll()
    assert first.count(Lost) == 1
    drive([first], lambda: first.tasks == ALL)
    assert first.membership.identity().generation > epoch


def test_a_static_member_keeps_its_tasks_while_it_is_away(join: Callable[..., Member]) -> None:
    first, second = join(group_instance_id="one"), join(group_instance_id="two")
    drive([first, second], lambda: len(first.tasks) == len(second.tasks) == 3)
    had = set(second.tasks)
    second.membership.close(leave_group=False)
    again = join(group_instance_id="two")
    drive([first, again], lambda: again.tasks == had)
    assert first.count(Revoked) <= 1
    twin = join(group_instance_id="two")
    with pytest.raises(FencedInstanceIdException, match=r"group\.instance\.id=two"):
        drive([first, again, twin], lambda: False)


@pytest.mark.parametrize("static", [None, "two"])
def test_a_killed_member_that_is_started_again_has_its_tasks_at_once(
    static: str | None, join: Callable[..., Member]
) -> None:
    first, second = join(), join(process_id="p", group_instance_id=static)
    drive([first, second], lambda: len(first.tasks) == len(second.tasks) == 3)
    had, seen = set(second.tasks), len(first.events)
    killed = second.kill()
    began = time.monotonic()
    again = join(process_id="p", group_instance_id=static, former=killed)
    drive([first, again], lambda: again.tasks == had)
    assert time.monotonic() - began < 4, "a session ran out"
    assert again.membership.identity().member_id == killed
    assert first.events[seen:] == [], "to the others nothing has happened"
    if static is not None:
        twin = join(group_instance_id=static, process_id="p")
        with pytest.raises(FencedInstanceIdException, match=r"group\.instance\.id=two"):
            drive([first, again, twin], lambda: False)


def test_a_member_goes_on_as_one_that_is_long_gone(join: Callable[..., Member]) -> None:
    first = join(former="EZ2W3ufRRbmpiCTTcs2FKA")
    drive([first], lambda: first.tasks == ALL)


def test_all_members_hear_that_the_application_is_to_end(join: Callable[..., Member]) -> None:
    first, second = join(), join()
    drive([first, second], lambda: len(first.tasks) == len(second.tasks) == 3)
    first.membership.shutdown_application()
    drive([first, second], lambda: first.count(ShutdownRequested) == second.count(ShutdownRequested) == 1)


def test_hosts_are_known_to_every_member(join: Callable[..., Member]) -> None:
    drive_until_hosts_are_known(join)


def test_the_brokers_make_internal_topics_before_they_assign(
    join: Callable[..., Member], bootstrap_servers: str, group: str
) -> None:
    first = join(store="counts")
    drive([first], lambda: first.tasks == ALL)
    with closing(TopicAdmin({"bootstrap.servers": bootstrap_servers})) as admin:
        changelog = f"{group}-counts-changelog"
        assert admin.partition_counts([changelog]) == {changelog: 6}
        assert admin.topic_configs([changelog])[changelog]["cleanup.policy"] == "compact"
        admin.delete_topics([changelog])


def test_another_topology_is_refused_with_what_to_do(join: Callable[..., Member]) -> None:
    first = join()
    drive([first], lambda: first.tasks == ALL)
    second = join(store="counts")
    with pytest.raises(StreamsException, match="runs another topology than this instance"):
        drive([first, second], lambda: False)
    drive([first], lambda: first.tasks == ALL)


def test_after_a_reset_a_group_takes_another_topology(
    join: Callable[..., Member], bootstrap_servers: str, group: str, topic: str
) -> None:
    first = join()
    drive([first], lambda: first.tasks == ALL)
    first.membership.commit_offsets({TopicPartition(topic, 3): OffsetAndMetadata(1, "m")})
    first.membership.leave("reset")
    with closing(TopicAdmin({"bootstrap.servers": bootstrap_servers})) as admin:
        reset(admin, ResetRequest(group, (topic,)))
        assert admin.group_offsets(group)[TopicPartition(topic, 3)].offset == 0
    second = join(store="counts")
    drive([second], lambda: second.tasks == ALL)


def test_a_reset_by_force_removes_members_that_nobody_stopped(
    join: Callable[..., Member], bootstrap_servers: str, group: str, topic: str
) -> None:
    first, second = join(), join(group_instance_id="two")
    drive([first, second], lambda: len(first.tasks) == len(second.tasks) == 3)
    with closing(TopicAdmin({"bootstrap.servers": bootstrap_servers})) as admin:
        members = {member.member_id: member for member in admin.describe_group(group).members}
        assert members[first.membership.identity().member_id].partitions == first.partitions
        assert members[second.membership.identity().member_id].partitions == second.partitions
        assert {member.group_instance_id for member in members.values()} == {None, "two"}
        with pytest.raises(IllegalStateException, match="has active members"):
            reset(admin, ResetRequest(group, (topic,)))
        plan = reset(admin, ResetRequest(group, (topic,), force=True))
        assert plan.lines()[0] == f"remove the members of group {group}"
        assert admin.describe_group(group).type == "classic"  # offsets alone, and nobody's topology
        assert {entry.offset for entry in admin.group_offsets(group).values()} == {0}
    # whoever still lives hears of it, and is a new member of the group made anew, which gives the first one everything
    # until the other one has heard
    drive([first, second], lambda: first.count(Lost) == second.count(Lost) == 1, exclusive=False)
    drive([first, second], lambda: len(first.tasks) == len(second.tasks) == 3)


def test_a_missing_source_topic_is_named_after_two_heartbeats(
    bootstrap_servers: str, group: str, topic: str, topic_factory: TopicFactory
) -> None:
    gone = topic_factory("gone", 2)
    member = streams_member(bootstrap_servers, group, gone)
    with closing(TopicAdmin({"bootstrap.servers": bootstrap_servers})) as admin:
        admin.delete_topics([gone])
        while gone in admin.list_topics():
            time.sleep(0.02)
    member.membership.start()
    with pytest.raises(MissingSourceTopicException, match=gone):
        drive([member], lambda: False)
    member.membership.close(leave_group=True)


def test_classic_and_streams_members_do_not_meet_in_one_group(
    join: Callable[..., Member], bootstrap_servers: str, group: str, topic: str
) -> None:
    classic = classic_member(bootstrap_servers, group, topic)
    classic.membership.start()
    drive([classic], lambda: classic.tasks == ALL)
    with pytest.raises(StreamsException, match="of another kind"):
        drive([join()], lambda: False)
    classic.membership.close(leave_group=True)
