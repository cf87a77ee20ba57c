"""The leader's function: tasks from partition counts, partitions for Kafka's tools, strangers refused."""

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

TOPICS = {0: ["lines", "courses"], 1: ["app-repartition"]}
COUNTS = {"lines": 3, "courses": 2, "app-repartition": 2}


def member(name: str, info: SubscriptionInfo, generation: int = -1) -> GroupMember:
    return GroupMember(name, None, ("lines",), (), generation, encode_subscription(info))


def process(number: int) -> bytes:
    return bytes([number]) * 16


def test_tasks_and_their_partitions() -> None:
    assignor = TaskAssignor(TOPICS, lambda: COUNTS)
    assert assignor.tasks() == [TaskId(0, 0), TaskId(0, 1), TaskId(0, 2), TaskId(1, 0), TaskId(1, 1)]
    # The narrower source has no partition 2: that task reads the wider one alone.
    assert assignor.partitions([TaskId(0, 2), TaskId(1, 1)]) == {
        TopicPartition("lines", 2),
        TopicPartition("app-repartition", 1),
    }


def test_members_get_tasks_with_their_partitions() -> None:
    assignor = TaskAssignor(TOPICS, lambda: COUNTS)
    result = assignor([member("a", SubscriptionInfo(process(1))), member("b", SubscriptionInfo(process(2)))])
    tasks = {name: decode_assignment(given.user_data).active for name, given in result.items()}
    assert sorted(tasks["a"] | tasks["b"]) == assignor.tasks()
    for name, given in result.items():
        assert frozenset(given.partitions) == assignor.partitions(tasks[name])


def test_a_task_that_another_owns_is_withheld() -> None:
    assignor = TaskAssignor({0: ["lines"]}, lambda: {"lines": 2})
    both = frozenset({TaskId(0, 0), TaskId(0, 1)})
    result = assignor([member("a", SubscriptionInfo(process(1), both), 4), member("b", SubscriptionInfo(process(2)))])
    assert len(decode_assignment(result["a"].user_data).active) == 1
    assert decode_assignment(result["b"].user_data) == AssignmentInfo()


def test_a_missing_source_topic_gives_nobody_tasks() -> None:
    assignor = TaskAssignor(TOPICS, lambda: {"lines": 3, "courses": 2})
    result = assignor([member("a", SubscriptionInfo(process(1)))])
    assert decode_assignment(result["a"].user_data).error == AssignmentError.MISSING_SOURCE_TOPICS


def test_a_minority_topology_is_refused_and_its_tasks_withheld() -> None:
    assignor = TaskAssignor({0: ["lines"]}, lambda: {"lines": 3})
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
    assignor = TaskAssignor({0: ["lines"]}, lambda: {"lines": 1})
    result = assignor(
        [
            member("a", SubscriptionInfo(process(1), fingerprint=b"aaa"), 9),
            member("z", SubscriptionInfo(process(2), fingerprint=b"zzz")),
        ]
    )
    assert decode_assignment(result["a"].user_data).error == AssignmentError.NONE
    assert decode_assignment(result["z"].user_data).error == AssignmentError.TOPOLOGY_MISMATCH


def test_unreadable_and_too_new_members_are_told_so() -> None:
    assignor = TaskAssignor({0: ["lines"]}, lambda: {"lines": 2})
    result = assignor(
        [
            member("a", SubscriptionInfo(process(1))),
            member("new", SubscriptionInfo(process(2), version=9, least_version=9)),
            GroupMember("odd", None, ("lines",), (), -1, b"\x00"),
        ]
    )
    assert decode_assignment(result["new"].user_data).error == AssignmentError.VERSION_TOO_NEW
    assert decode_assignment(result["odd"].user_data).error == AssignmentError.UNREADABLE
    assert result["a"].user_data == encode_assignment(AssignmentInfo(frozenset(assignor.tasks())))
