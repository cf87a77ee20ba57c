"""What the membership's two threads share, without a broker."""

from __future__ import annotations

from headrace.assignment import MemberAssignment
from headrace.assignment.wire import AssignmentInfo, encode_assignment
from headrace.kafka import Assigned, Lost
from headrace.kafka.classic import _Share
from headrace.kafka.group_client import GroupSettings
from headrace.records import GroupIdentity, TaskId, TopicPartition

TASKS = frozenset({TaskId(0, 0), TaskId(0, 1)})
PARTITIONS = (TopicPartition("in", 0), TopicPartition("in", 1))
GIVEN = MemberAssignment(PARTITIONS, encode_assignment(AssignmentInfo(TASKS)))


def share() -> _Share:
    return _Share(GroupSettings("g", None, 6_000, 300, 60_000), lambda: ["in"], lambda _, __: b"", lambda _: {})


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
