"""Classic group membership on a real broker: sharing, moving, falling out, and who may commit."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import pytest
from cluster.kafka.members import ALL, Member, classic_member, drive, drive_until_hosts_are_known

from headrace.errors import StreamsException, TaskMigratedException, TimeoutException
from headrace.kafka import (
    Assigned,
    ClassicMembership,
    FencedInstanceIdException,
    Lost,
    RecordConsumer,
    RecordProducer,
    Revoked,
    ShutdownRequested,
    TopicAdmin,
)
from headrace.records import GroupIdentity, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def join(join_as: Callable[..., Member]) -> Callable[..., Member]:
    return partial(join_as, classic_member)


def producer_of(bootstrap: str, transactional_id: str) -> RecordProducer:
    producer = RecordProducer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(20)
    return producer


def test_two_members_share_the_tasks_and_a_third_moves_as_few_as_it_needs(
    join: Callable[..., Member], topic: str
) -> None:
    first = join()
    drive([first], lambda: first.tasks == ALL)
    second = join()
    drive([first, second], lambda: len(first.tasks) == len(second.tasks) == 3)
    kept = {id(first): set(first.tasks), id(second): set(second.tasks)}
    revoked_before = first.count(Revoked), second.count(Revoked)
    third = join()
    drive([first, second, third], lambda: {len(m.tasks) for m in (first, second, third)} == {2})
    assert first.tasks < kept[id(first)]
    assert second.tasks < kept[id(second)]
    assert first.count(Lost) == second.count(Lost) == third.count(Lost) == 0
    for member, before in zip((first, second), revoked_before, strict=True):
        # Exactly the one task that moved was ever taken away: unaffected ones went on through both rounds.
        gone = [event.tasks for event in member.events if isinstance(event, Revoked)][before:]
        assert [len(tasks) for tasks in gone] == [1]
    assert first.partitions == {TopicPartition(topic, task.partition) for task in first.tasks}


def test_a_task_being_closed_is_given_to_nobody_else(join: Callable[..., Member]) -> None:
    first = join()
    drive([first], lambda: first.tasks == ALL)
    first.hold_revoked = True
    second = join()
    drive([first, second], lambda: bool(first.held_back) and second.count(Assigned) >= 1)
    third = join()
    drive([first, second, third], lambda: third.count(Assigned) >= 1)
    assert not second.tasks
    assert not third.tasks
    assert first.membership.owned() == ALL
    identity = first.membership.identity()  # what is being closed may still be committed
    assert identity.generation > 0
    first.hold_revoked = False
    first.tasks -= first.held_back
    first.membership.revoked(first.held_back)
    drive([first, second, third], lambda: {len(m.tasks) for m in (first, second, third)} == {2})


def test_hosts_are_known_to_every_member(join: Callable[..., Member]) -> None:
    drive_until_hosts_are_known(join)


def test_tasks_go_on_and_may_be_committed_while_others_join(
    join: Callable[..., Member], topic: str, bootstrap_servers: str, group: str
) -> None:
    first = join()
    drive([first], lambda: first.tasks == ALL)
    producer = producer_of(bootstrap_servers, f"{group}-tx")
    tp = TopicPartition(topic, 0)
    second = join()
    offset = waited = 0
    while not second.tasks:
        for member in (first, second):
            member.poll()
        first.membership.commit_offsets({TopicPartition(topic, 1): OffsetAndMetadata(offset, "")})
        if first.membership.generation_in_doubt():
            waited += 1
            continue
        offset += 1
        producer.send(topic, 5, b"k", b"v")
        producer.send_offsets({tp: OffsetAndMetadata(offset, "")}, first.membership.identity())
        producer.commit_transaction()
    assert first.count(Lost) == 0
    assert waited
    producer.close()
    admin = TopicAdmin({"bootstrap.servers": bootstrap_servers})
    assert admin.group_offsets(group)[tp].offset == offset
    admin.close()


def test_a_killed_members_tasks_move_after_its_session(join: Callable[..., Member]) -> None:
    first, second = join(), join()
    drive([first, second], lambda: len(first.tasks) == len(second.tasks) == 3)
    second.membership.close(leave_group=False)
    began = time.monotonic()
    drive([first], lambda: first.tasks == ALL)
    assert 3 < time.monotonic() - began < 12
    with pytest.raises(TaskMigratedException):
        second.membership.identity()


def test_a_leaving_members_tasks_move_at_once(join: Callable[..., Member]) -> None:
    first, second = join(), join()
    drive([first, second], lambda: len(first.tasks) == len(second.tasks) == 3)
    second.membership.leave("done")
    began = time.monotonic()
    drive([first], lambda: first.tasks == ALL)
    assert time.monotonic() - began < 4
    assert second.poll() == []


def test_a_member_that_leaves_while_it_joins_again_keeps_nobody_waiting(join: Callable[..., Member]) -> None:
    """It joined once more when its JoinGroup was refused for its leaving, and the group waited for its session."""
    first, second = join(), join()
    drive([first, second], lambda: len(first.tasks) == len(second.tasks) == 3)
    third = join()
    # held, as the second does not join
    drive([first, third], lambda: first.membership.generation_in_doubt() and third.membership.generation_in_doubt())
    drive([third], lambda: third.membership.member_id() is not None)
    first.membership.leave("done")
    began = time.monotonic()
    drive([second, third], lambda: len(second.tasks) == len(third.tasks) == 3)
    assert time.monotonic() - began < 5.0
    assert first.membership.member_id() is None


def test_a_stall_beyond_max_poll_interval_cannot_commit_and_joins_again(
    join: Callable[..., Member], topic: str, bootstrap_servers: str, group: str
) -> None:
    first = join()
    stalled = join(max_poll_interval_ms=1_500)
    drive([first, stalled], lambda: len(first.tasks) == len(stalled.tasks) == 3)
    producer = producer_of(bootstrap_servers, f"{group}-stalled")
    producer.send(topic, 0, b"k", b"v")
    old = stalled.membership.identity()
    tp = TopicPartition(topic, min(stalled.tasks).partition)
    # The stalled member's thread does not poll; its heartbeats go on until it leaves the group by itself.
    drive([first], lambda: first.tasks == ALL)
    with pytest.raises(TaskMigratedException):
        stalled.membership.identity()
    with pytest.raises(TaskMigratedException):
        stalled.membership.commit_offsets({tp: OffsetAndMetadata(1, "")})
    with pytest.raises(TaskMigratedException):
        producer.send_offsets({tp: OffsetAndMetadata(1, "")}, old)
    producer.abort_transaction()
    # Joining again gives a valid identity only after the loss was handed out.
    assert [type(event) for event in stalled.poll()] == [Lost]
    drive([first, stalled], lambda: len(first.tasks) == len(stalled.tasks) == 3)
    assert stalled.membership.identity().member_id != old.member_id
    producer.send_offsets({tp: OffsetAndMetadata(1, "")}, stalled.membership.identity())
    producer.commit_transaction()
    producer.close()


@pytest.mark.parametrize(
    ("generation", "member"), [(-1, ""), (-1, "somebody"), (4, "")], ids=["none", "no generation", "no member"]
)
def test_the_zombie_hole_is_closed_here(
    join: Callable[..., Member], topic: str, bootstrap_servers: str, group: str, generation: int, member: str
) -> None:
    first = join()
    drive([first], lambda: first.tasks == ALL)
    producer = producer_of(bootstrap_servers, f"{group}-zombie")
    producer.send(topic, 0, b"k", b"v")
    with pytest.raises(TaskMigratedException, match="without generation or id"):
        producer.send_offsets(
            {TopicPartition(topic, 0): OffsetAndMetadata(9, "")}, GroupIdentity(group, generation, member)
        )
    producer.abort_transaction()
    producer.close()


def test_a_stale_generation_cannot_commit(
    join: Callable[..., Member], topic: str, bootstrap_servers: str, group: str
) -> None:
    first = join()
    drive([first], lambda: first.tasks == ALL)
    stale = first.membership.identity()
    second = join()
    drive([first, second], lambda: len(first.tasks) == len(second.tasks) == 3)
    assert first.membership.identity().generation > stale.generation
    offsets = {TopicPartition(topic, 0): OffsetAndMetadata(3, "")}
    producer = producer_of(bootstrap_servers, f"{group}-stale")
    with pytest.raises(TaskMigratedException, match="ILLEGAL_GENERATION"):
        producer.send_offsets(offsets, stale)
    producer.abort_transaction()
    with pytest.raises(TaskMigratedException, match="UNKNOWN_MEMBER_ID"):
        producer.send_offsets(offsets, stale._replace(member_id="nobody"))
    producer.abort_transaction()
    assert isinstance(first.membership, ClassicMembership)
    assert first.membership._connection is not None
    with pytest.raises(TaskMigratedException):
        first.membership._connection.commit(stale._replace(member_id="nobody"), offsets, 10, first.membership.identity)
    first.membership.commit_offsets(offsets)  # the member itself is not harmed by the old claim
    producer.close()


def test_a_removed_member_is_told_and_joins_again(
    join: Callable[..., Member], bootstrap_servers: str, group: str
) -> None:
    first = join()
    drive([first], lambda: first.tasks == ALL)
    admin = TopicAdmin({"bootstrap.servers": bootstrap_servers})
    admin.remove_members(admin.describe_group(group), "test")
    drive([first], lambda: first.count(Lost) == 1)
    drive([first], lambda: first.tasks == ALL)
    first.membership.rejoin_anew("test")
    with pytest.raises(TaskMigratedException):
        first.membership.identity()
    drive([first], lambda: first.count(Lost) == 2 and first.tasks == ALL)
    admin.close()


def test_a_static_member_keeps_its_tasks_through_a_restart(join: Callable[..., Member]) -> None:
    first = join(group_instance_id="a")
    second = join(group_instance_id="b")
    drive([first, second], lambda: len(first.tasks) == len(second.tasks) == 3)
    before, generation = set(second.tasks), first.membership.identity().generation
    second.membership.close(leave_group=False)
    again = join(group_instance_id="b")
    drive([first, again], lambda: len(again.tasks) == 3)
    assert again.tasks == before
    assert first.count(Lost) == 0
    assert first.membership.identity().generation >= generation


@pytest.mark.parametrize("static", [None, "b"])
def test_a_killed_member_that_is_started_again_has_its_tasks_at_once(
    static: str | None, join: Callable[..., Member]
) -> None:
    first, second = join(), join(group_instance_id=static)
    drive([first, second], lambda: len(first.tasks) == len(second.tasks) == 3)
    killed = second.kill()
    began = time.monotonic()
    again = join(group_instance_id=static, former=killed)
    drive([first, again], lambda: len(again.tasks) == 3)
    assert time.monotonic() - began < 4, "a session ran out"
    assert first.count(Lost) == 0
    if static is None:
        assert again.membership.identity().member_id == killed


def test_a_member_goes_on_as_one_that_is_long_gone(join: Callable[..., Member]) -> None:
    first = join(former="a-client-79e7c2e4-1ee0-46b1-b8ab-bd6ab3ea6e2c")
    drive([first], lambda: first.tasks == ALL)


def test_a_static_member_has_its_id_back_that_another_directory_had_meanwhile(join: Callable[..., Member]) -> None:
    """It ended by FENCED_INSTANCE_ID, though nobody else lived: the id was the member's of where it last ran."""
    elsewhere = join(group_instance_id="a")
    drive([elsewhere], lambda: elsewhere.tasks == ALL)
    elsewhere.membership.close(leave_group=False)
    again = join(group_instance_id="a", former="a-79e7c2e4-1ee0-46b1-b8ab-bd6ab3ea6e2c")
    drive([again], lambda: again.tasks == ALL)


def test_a_static_twin_fences_the_older_one(join: Callable[..., Member]) -> None:
    first = join(group_instance_id="a")
    drive([first], lambda: first.tasks == ALL)
    twin = join(group_instance_id="a")

    def fenced() -> bool:
        twin.poll()
        try:
            first.poll()
        except FencedInstanceIdException:
            return True
        return False

    drive([], fenced)
    assert first.count(Lost) == 1
    with pytest.raises(TaskMigratedException):
        first.membership.identity()
    drive([twin], lambda: twin.tasks == ALL)


def test_static_offsets_go_into_a_transaction(
    join: Callable[..., Member], topic: str, bootstrap_servers: str, group: str
) -> None:
    first = join(group_instance_id="a")
    drive([first], lambda: first.tasks == ALL)
    producer = producer_of(bootstrap_servers, f"{group}-static")
    tp = TopicPartition(topic, 2)
    producer.send_offsets({tp: OffsetAndMetadata(12, "x")}, first.membership.identity())
    producer.commit_transaction()
    with pytest.raises(FencedInstanceIdException):
        producer.send_offsets(
            {tp: OffsetAndMetadata(13, "x")}, first.membership.identity()._replace(member_id="a-0000")
        )
    producer.abort_transaction()
    producer.close()
    first.membership.commit_offsets({tp: OffsetAndMetadata(14, "y")})
    admin = TopicAdmin({"bootstrap.servers": bootstrap_servers})
    assert admin.group_offsets(group)[tp] == OffsetAndMetadata(14, "y")
    admin.close()


def test_another_topology_under_the_same_id_is_refused_with_a_sentence(join: Callable[..., Member]) -> None:
    first = join(fingerprint=b"one")
    drive([first], lambda: first.tasks == ALL)
    stranger = join(fingerprint=b"two")

    def refused() -> bool:
        first.poll()
        try:
            stranger.poll()
        except StreamsException as error:
            said.append(str(error))
        return bool(said)

    said: list[str] = []
    drive([], refused)
    assert "same topology" in said[0]
    assert first.tasks == ALL


@pytest.mark.parametrize("metadata", ["", "y", "AgAAAYvP5WgF", "A" * 200, "é"])
def test_offset_metadata_comes_back_whole_however_it_was_committed(
    join: Callable[..., Member], topic: str, bootstrap_servers: str, group: str, metadata: str
) -> None:
    # The data client takes metadata for text ended by a zero byte: it writes one too many and reads past others' ends.
    first = join()
    drive([first], lambda: first.tasks == ALL)
    by_transaction, by_member = TopicPartition(topic, 0), TopicPartition(topic, 1)
    producer = producer_of(bootstrap_servers, f"{group}-metadata")
    producer.send_offsets({by_transaction: OffsetAndMetadata(4, metadata)}, first.membership.identity())
    consumer = RecordConsumer({"bootstrap.servers": bootstrap_servers, "group.id": group})
    with pytest.raises(TimeoutException):  # an offset in an unfinished transaction is not told, old or new
        consumer.committed([by_transaction], 0.3)
    producer.commit_transaction()
    first.membership.commit_offsets({by_member: OffsetAndMetadata(5, metadata)})
    expected = {by_transaction: OffsetAndMetadata(4, metadata), by_member: OffsetAndMetadata(5, metadata)}
    nothing = TopicPartition(topic, 2)
    assert consumer.committed([*expected, nothing], 10) == expected | {nothing: None}
    admin = TopicAdmin({"bootstrap.servers": bootstrap_servers})
    assert admin.group_offsets(group) == expected
    admin.close()
    consumer.close()
    producer.close()


def test_members_of_two_releases_share_tasks_and_end_together(join: Callable[..., Member]) -> None:
    older = join(version=1)
    newer = join()
    drive([older, newer], lambda: len(older.tasks) == len(newer.tasks) == 3)
    newer.membership.shutdown_application()
    drive([older, newer], lambda: bool(older.count(ShutdownRequested) and newer.count(ShutdownRequested)))
