"""What the membership's two threads share, without a broker."""

from __future__ import annotations

from headrace.assignment import MemberAssignment, SubscriptionInfo, decode_subscription, encode_subscription
from headrace.assignment.wire import LATEST_VERSION, AssignmentError, AssignmentInfo, encode_assignment
from headrace.kafka import Assigned, JoinClaims, Lost, ShutdownRequested
from headrace.kafka.classic import _Share
from headrace.kafka.group_client import GroupSettings
from headrace.records import GroupIdentity, TaskId, TopicPartition

TASKS = frozenset({TaskId(0, 0), TaskId(0, 1)})
PARTITIONS = (TopicPartition("in", 0), TopicPartition("in", 1))
GIVEN = MemberAssignment(PARTITIONS, encode_assignment(AssignmentInfo(TASKS)))


def _write(claims: JoinClaims) -> bytes:
    return encode_subscription(
        SubscriptionInfo(b"p" * 16, claims.owned, standbys=claims.standbys, version=claims.version)
    )


def share() -> _Share:
    return _Share(GroupSettings("g", None, 6_000, 300, 60_000), lambda: ["in"], _write, lambda _: {})


def test_an_assignment_that_comes_after_the_generation_ended_gives_nothing() -> None:
    shared = share()
    shared.joined(-1, GIVEN)
    assert shared.take() == ([], None)
    assert shared.claims() == (frozenset(), frozenset(), -1)
    shared.joined(7, GIVEN)  # what was not given then is new now
    assert shared.take() == ([Assigned(TASKS, frozenset(PARTITIONS), TASKS, frozenset(), {}, 7)], None)


def test_no_identity_is_lent_between_falling_out_and_the_event_that_says_so() -> None:
    shared = share()
    shared.joined(7, GIVEN)
    shared.take()
    assert shared.guarded(lambda: GroupIdentity("g", 7, "m")) is not None
    shared.fell_out("session")
    shared.joined(8, GIVEN)
    assert shared.guarded(lambda: GroupIdentity("g", 8, "m")) is None
    events, _ = shared.take()
    assert [type(event) for event in events] == [Lost, Assigned]
    assert shared.guarded(lambda: GroupIdentity("g", 8, "m")) is not None


def told(info: AssignmentInfo) -> MemberAssignment:
    return MemberAssignment((), encode_assignment(info))


def test_standby_tasks_are_told_and_claimed() -> None:
    shared = share()
    shared.joined(7, told(AssignmentInfo(standby=TASKS)))
    assert shared.take()[0] == [Assigned(frozenset(), frozenset(), frozenset(), TASKS, {}, 7)]
    assert decode_subscription(shared.subscription()[1]).standbys == TASKS
    shared.fell_out("session")
    assert decode_subscription(shared.subscription()[1]).standbys == frozenset()


def test_a_probing_rebalance_is_asked_for_when_the_leader_said_so() -> None:
    shared = share()
    shared.joined(7, told(AssignmentInfo(probe_after_ms=60_000)))
    assert shared.join_again(1_000) is None
    assert shared.join_again(60_999) is None
    assert "probing" in (shared.join_again(61_000) or "")
    assert shared.join_again(200_000) is None
    shared.joined(8, told(AssignmentInfo(probe_after_ms=60_000)))
    assert shared.join_again(300_000) is None
    shared.joined(9, told(AssignmentInfo()))
    assert shared.join_again(400_000) is None


def test_a_member_that_the_leader_cannot_read_joins_again_with_the_leaders_version() -> None:
    shared = share()
    assert decode_subscription(shared.subscription()[1]).version == LATEST_VERSION
    shared.joined(7, told(AssignmentInfo(error=AssignmentError.VERSION_TOO_NEW, version=1)))
    assert "version 1" in (shared.join_again(0) or "")
    assert decode_subscription(shared.subscription()[1]).version == 1
    shared.joined(8, told(AssignmentInfo(TASKS)))
    assert shared.take()[1] is None
    assert decode_subscription(shared.subscription()[1]).version == LATEST_VERSION


def test_a_leader_that_reads_nothing_that_this_release_writes_ends_it() -> None:
    shared = share()
    shared.joined(7, told(AssignmentInfo(error=AssignmentError.VERSION_TOO_NEW)))
    _, failure = shared.take()
    assert "upgrade the older instances first" in str(failure)


def test_the_end_of_the_whole_application_is_an_event_and_no_error() -> None:
    shared = share()
    shared.joined(7, told(AssignmentInfo(error=AssignmentError.SHUTDOWN_REQUESTED)))
    events, failure = shared.take()
    assert [type(event) for event in events] == [ShutdownRequested]
    assert failure is None


def test_the_end_of_the_whole_application_outlives_the_generation_it_came_with() -> None:
    """A member that fell out before it had looked went on, and joined again, when all others had ended."""
    shared = share()
    shared.joined(7, GIVEN)
    shared.joined(8, told(AssignmentInfo(error=AssignmentError.SHUTDOWN_REQUESTED)))
    shared.fell_out("session")
    events, _ = shared.take()
    assert [type(event) for event in events] == [Lost, ShutdownRequested]
