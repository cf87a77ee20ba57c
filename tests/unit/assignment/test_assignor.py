"""The leader's function: tasks to members, their partitions for Kafka's tools, strangers refused."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from headrace.assignment import (
    RUNNING_OFFSET,
    AssignmentError,
    AssignmentInfo,
    AssignmentSettings,
    GroupMember,
    MemberRequest,
    Places,
    SubscriptionInfo,
    TaskAssignor,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from headrace.assignment.wire import LATEST_VERSION
from headrace.errors import TimeoutException
from headrace.records import HostInfo, TaskId, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

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


def test_one_members_request_ends_all() -> None:
    ends = SubscriptionInfo(process(1), request=MemberRequest.SHUTDOWN_APPLICATION)
    result = lines(2)([member("a", ends), member("b", SubscriptionInfo(process(2)))])
    assert {decode_assignment(given.user_data).error for given in result.values()} == {
        AssignmentError.SHUTDOWN_REQUESTED
    }


def read_as_the_release_before_did(data: bytes) -> tuple[int, int, int, list[tuple[int, int]]]:
    version, least, error = struct.unpack(">hhh", data[:6])
    (count,) = struct.unpack(">i", data[6:10])
    return version, least, error, sorted(struct.iter_unpack(">ii", data[10 : 10 + 8 * count]))


def test_members_of_two_releases_form_one_group() -> None:
    tasks = frozenset(TASKS)
    assignor = TaskAssignor(
        TASKS, tasks, lambda: dict.fromkeys(tasks, 10**6), AssignmentSettings(standby_replicas=1, probing_interval_ms=7)
    )
    running = frozenset({TaskId(0, 0), TaskId(0, 1), TaskId(0, 2)})
    older = SubscriptionInfo(process(1), running, running, version=1)
    newer = SubscriptionInfo(process(2), tasks - running, offsets=dict.fromkeys(tasks - running, RUNNING_OFFSET))
    third = SubscriptionInfo(process(3), host=HostInfo("h", 1), tags={"zone": "a"})
    result = assignor([member("old", older, 3), member("new", newer, 3), member("third", third)])
    version, least, error, given = read_as_the_release_before_did(result["old"].user_data)
    assert (version, least, error) == (LATEST_VERSION, 1, 0)
    old, new, last = (decode_assignment(result[name].user_data) for name in ("old", "new", "third"))
    assert set(given) == set(old.active)
    assert old.standby == frozenset()
    assert new.active == tasks - running
    assert new.standby | last.standby == tasks, "every task has a copy, and those that move to the third begin to"
    assert last.hosts.keys() == {HostInfo("h", 1)}
    assert [info.probe_after_ms for info in (old, new, last)] == [-1, 7, -1]


def in_racks(places: Callable[[], Places], *racks: str) -> list[frozenset[TaskId]]:
    """What members in these racks are given when nobody runs anything yet."""
    assignor = TaskAssignor(SUB0, (), dict, AssignmentSettings(rack_strategy="min_traffic"), places)
    result = assignor(
        [member(f"m{number}", SubscriptionInfo(process(number), rack=rack)) for number, rack in enumerate(racks)]
    )
    return [decode_assignment(result[f"m{number}"].user_data).active for number in range(len(racks))]


SUB0 = {TaskId(0, number): [TopicPartition("lines", number)] for number in range(4)}
CROSSED = {TopicPartition("lines", number): frozenset({"ba"[number % 2]}) for number in range(4)}


def test_tasks_run_in_the_racks_of_their_partitions() -> None:
    at_home = in_racks(lambda: Places(CROSSED, {}), "a", "b")
    assert at_home == [{TaskId(0, 1), TaskId(0, 3)}, {TaskId(0, 0), TaskId(0, 2)}]


def test_racks_that_are_not_known_do_not_count(caplog: pytest.LogCaptureFixture) -> None:
    def no_answer() -> Places:
        raise TimeoutException("no answer")

    without = [{TaskId(0, 0), TaskId(0, 2)}, {TaskId(0, 1), TaskId(0, 3)}]
    assert in_racks(no_answer, "a", "b") == without
    assert "no answer" in caplog.text
    assert in_racks(lambda: Places(CROSSED, {}), "a", "") == without
    assert "client.rack" in caplog.text
    assert in_racks(lambda: Places(CROSSED | {TopicPartition("lines", 2): frozenset()}, {}), "a", "b") == without
    assert "hold lines-2" in caplog.text


def test_ends_that_the_brokers_do_not_tell_leave_tasks_where_they_run() -> None:
    def ends() -> dict[TaskId, int]:
        raise TimeoutException("no answer")

    tasks = frozenset(TASKS)
    all_of_them = SubscriptionInfo(process(1), tasks, tasks, offsets=dict.fromkeys(tasks, RUNNING_OFFSET))
    result = TaskAssignor(TASKS, tasks, ends)([member("a", all_of_them, 3), member("b", SubscriptionInfo(process(2)))])
    assert decode_assignment(result["a"].user_data).active == tasks
    assert len(decode_assignment(result["b"].user_data).standby) == 2
