"""The leader's function: tasks to members, their partitions for Kafka's tools, strangers refused."""

from __future__ import annotations

from headrace.assignment import (
    AssignmentError,
    AssignmentInfo,
    GroupMember,
    SubscriptionInfo,
    TaskAssignor,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from headrace.records import TaskId, TopicPartition

TASKS = {
    TaskId(1, 0): [TopicPartition("app-repartition", 0)],
    TaskId(1, 1): [TopicPartition("app-repartition", 1)],
    TaskId(0, 0): [TopicPartition("lines", 0), TopicPartition("courses", 0)],
    TaskId(0, 1): [TopicPartition("lines", 1), TopicPartition("courses", 1)],
    TaskId(0, 2): [TopicPartition("lines", 2)],
}


def lines(partitions: int) -> TaskAssignor:
    return TaskAssignor({TaskId(0, number): [TopicPartition("lines", number)] for number in range(partitions)})


def member(name: str, info: SubscriptionInfo, generation: int = -1) -> GroupMember:
    return GroupMember(name, None, ("lines",), (), generation, encode_subscription(info))


def process(number: int) -> bytes:
    return bytes([number]) * 16


def test_members_get_tasks_with_their_partitions() -> None:
    assignor = TaskAssignor(TASKS)
    result = assignor([member("a", SubscriptionInfo(process(1))), member("b", SubscriptionInfo(process(2)))])
    tasks = {name: decode_assignment(given.user_data).active for name, given in result.items()}
    assert tasks["a"] | tasks["b"] == TASKS.keys()
    assert not tasks["a"] & tasks["b"]
    for name, given in result.items():
        assert list(given.partitions) == sorted(tp for task in tasks[name] for tp in TASKS[task])


def test_a_claimed_task_that_the_topology_does_not_have_is_given_to_nobody() -> None:
    owned = frozenset({TaskId(9, 0)})
    result = lines(1)([member("a", SubscriptionInfo(process(1), owned), 4)])
    assert decode_assignment(result["a"].user_data).active == {TaskId(0, 0)}
    assert result["a"].partitions == (TopicPartition("lines", 0),)


def test_a_task_that_another_owns_is_withheld() -> None:
    assignor = lines(2)
    both = frozenset({TaskId(0, 0), TaskId(0, 1)})
    result = assignor([member("a", SubscriptionInfo(process(1), both), 4), member("b", SubscriptionInfo(process(2)))])
    assert len(decode_assignment(result["a"].user_data).active) == 1
    assert decode_assignment(result["b"].user_data) == AssignmentInfo()


def test_a_minority_topology_is_refused_and_its_tasks_withheld() -> None:
    assignor = lines(3)
    owned = frozenset({TaskId(0, 0)})
    result = assignor(
        [
            member("a", SubscriptionInfo(process(1), fingerprint=b"one"), 4),
            member("b", SubscriptionInfo(process(2), fingerprint=b"one"), 4),
            member("x", SubscriptionInfo(process(3), owned, fingerprint=b"two"), 4),
        ]
    )
    assert decode_assignment(result["x"].user_data).error == AssignmentError.TOPOLOGY_MISMATCH
    given = [decode_assignment(result[name].user_data).active for name in "ab"]
    assert given[0] | given[1] == {TaskId(0, 1), TaskId(0, 2)}


def test_the_running_topology_wins_over_a_newcomers() -> None:
    assignor = lines(1)
    result = assignor(
        [
            member("a", SubscriptionInfo(process(1), fingerprint=b"aaa"), 9),
            member("z", SubscriptionInfo(process(2), fingerprint=b"zzz")),
        ]
    )
    assert decode_assignment(result["a"].user_data).error == AssignmentError.NONE
    assert decode_assignment(result["z"].user_data).error == AssignmentError.TOPOLOGY_MISMATCH


def test_unreadable_and_too_new_members_are_told_so() -> None:
    assignor = lines(2)
    result = assignor(
        [
            member("a", SubscriptionInfo(process(1))),
            member("new", SubscriptionInfo(process(2), version=9, least_version=9)),
            GroupMember("odd", None, ("lines",), (), -1, b"\x00"),
        ]
    )
    assert decode_assignment(result["new"].user_data).error == AssignmentError.VERSION_TOO_NEW
    assert decode_assignment(result["odd"].user_data).error == AssignmentError.UNREADABLE
    assert result["a"].user_data == encode_assignment(AssignmentInfo(frozenset({TaskId(0, 0), TaskId(0, 1)})))
