"""User data: layouts as documented, and clear refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.assignment import (
    AssignmentError,
    AssignmentInfo,
    MemberRequest,
    SubscriptionInfo,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from headrace.assignment.wire import UnsupportedWireVersionException, describe_error
from headrace.errors import StreamsException
from headrace.records import HostInfo, HostPartitions, TaskId, TopicPartition

TASKS = st.frozensets(st.builds(TaskId, st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1)), max_size=20)


@given(st.binary(min_size=16, max_size=16), TASKS, TASKS, st.binary(max_size=40))
def test_a_subscription_comes_back_as_it_went(
    process_id: bytes, owned: frozenset[TaskId], stored: frozenset[TaskId], fingerprint: bytes
) -> None:
    info = SubscriptionInfo(
        process_id,
        owned,
        stored,
        fingerprint,
        {task: task.partition - 2 for task in stored},
        owned - stored,
        HostInfo("höst", 70_000),
        {"zone": "a", "cluster": ""},
        MemberRequest.SHUTDOWN_APPLICATION,
        "rack-ä",
    )
    assert decode_subscription(encode_subscription(info)) == info


@given(TASKS, st.sampled_from(list(AssignmentError)))
def test_an_assignment_comes_back_as_it_went(active: frozenset[TaskId], error: AssignmentError) -> None:
    partitions = frozenset(TopicPartition(f"topic-{task.subtopology}", task.partition) for task in active)
    hosts = {
        HostInfo("a", 1): HostPartitions(partitions, frozenset()),
        HostInfo("b", 2): HostPartitions(frozenset(), partitions),
    }
    info = AssignmentInfo(active, error, active, hosts, 600_000)
    assert decode_assignment(encode_assignment(info)) == info


def test_the_layouts_are_the_documented_ones() -> None:
    task, other = TaskId(1, 2), TaskId(0, 3)
    subscription = SubscriptionInfo(
        bytes(range(16)), frozenset({task}), frozenset(), b"fp", {other: 258}, frozenset({other}), HostInfo("h", 9)
    )
    first = "0001 00010203 04050607 08090a0b 0c0d0e0f 00026670 00000001 00000001 00000002 00000000"
    added = "00000001 00000000 00000003 0000000000000102 00000001 00000000 00000003 0001 68 00000009 0000 0000"
    assert encode_subscription(replace(subscription, rack="r1")) == bytes.fromhex(f"0003 {first} {added} 0002 7231")
    assert encode_subscription(replace(subscription, version=2)) == bytes.fromhex(f"0002 {first} {added}")
    assert encode_subscription(replace(subscription, version=1)) == bytes.fromhex(f"0001 {first}")
    given = AssignmentInfo(
        frozenset({other}),
        standby=frozenset({task}),
        hosts={HostInfo("h", 9): HostPartitions(frozenset({TopicPartition("t", 3)}), frozenset())},
        probe_after_ms=5,
    )
    first = "0001 0000 00000001 00000000 00000003"
    added = (
        "00000001 00000001 00000002 00000001 0001 74 00000001 0001 68 00000009 00000001 00000000 00000003 00000000 "
        "0000000000000005"
    )
    assert encode_assignment(given) == bytes.fromhex(f"0003 {first} {added}")
    assert encode_assignment(replace(given, version=1)) == bytes.fromhex(f"0001 {first}")


@pytest.mark.parametrize("version", [1, 2])
def test_former_versions_are_read(version: int) -> None:
    owned, stored = frozenset({TaskId(1, 2)}), frozenset({TaskId(1, 3)})
    subscription = SubscriptionInfo(b"p" * 16, owned, stored, b"fp", version=version)
    assert decode_subscription(encode_subscription(subscription)) == subscription
    assignment = AssignmentInfo(owned, version=version)
    assert decode_assignment(encode_assignment(assignment)) == assignment


def test_a_newer_version_that_we_may_read_is_read() -> None:
    newer = SubscriptionInfo(b"p" * 16, frozenset({TaskId(0, 1)}), version=7, least_version=1)
    assert decode_subscription(encode_subscription(newer) + b"what version 7 added").owned == {TaskId(0, 1)}


def test_a_version_that_we_may_not_read_is_refused() -> None:
    newer = encode_subscription(SubscriptionInfo(b"p" * 16, version=7, least_version=4))
    with pytest.raises(UnsupportedWireVersionException, match="version 7, readable from version 4"):
        decode_subscription(newer)


@pytest.mark.parametrize("size", [0, 3, 4, 19, 22, 25, 33])
def test_bytes_that_end_early_are_refused(size: int) -> None:
    whole = encode_subscription(SubscriptionInfo(b"p" * 16, frozenset({TaskId(0, 1)})))
    with pytest.raises(StreamsException, match="ends early"):
        decode_subscription(whole[:size])


def test_every_error_says_what_to_do() -> None:
    for code in AssignmentError:
        if code is not AssignmentError.NONE:
            assert "unknown" not in describe_error(code)
    assert describe_error(99) == "unknown error 99"


def test_a_process_id_has_sixteen_bytes() -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        encode_subscription(SubscriptionInfo(b"short"))
