"""User data: layouts as documented, and clear refusals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.assignment import (
    AssignmentError,
    AssignmentInfo,
    SubscriptionInfo,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from headrace.assignment.wire import UnsupportedWireVersionException, describe_error
from headrace.errors import StreamsException
from headrace.records import TaskId

TASKS = st.frozensets(st.builds(TaskId, st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1)), max_size=20)


@given(st.binary(min_size=16, max_size=16), TASKS, TASKS, st.binary(max_size=40))
def test_a_subscription_comes_back_as_it_went(
    process_id: bytes, owned: frozenset[TaskId], stored: frozenset[TaskId], fingerprint: bytes
) -> None:
    info = SubscriptionInfo(process_id, owned, stored, fingerprint)
    assert decode_subscription(encode_subscription(info)) == info


@given(TASKS, st.sampled_from(list(AssignmentError)))
def test_an_assignment_comes_back_as_it_went(active: frozenset[TaskId], error: AssignmentError) -> None:
    info = AssignmentInfo(active, error)
    assert decode_assignment(encode_assignment(info)) == info


def test_the_layouts_are_the_documented_ones() -> None:
    subscription = SubscriptionInfo(bytes(range(16)), frozenset({TaskId(1, 2)}), frozenset(), b"fp")
    assert encode_subscription(subscription).hex(" ", -4) == (
        "00010001 00010203 04050607 08090a0b 0c0d0e0f 00026670 00000001 00000001 00000002 00000000"
    )
    assert encode_assignment(AssignmentInfo(frozenset({TaskId(0, 3)}))).hex() == (
        "000100010000000000010000000000000003"
    )


def test_a_newer_version_that_we_may_read_is_read() -> None:
    newer = SubscriptionInfo(b"p" * 16, frozenset({TaskId(0, 1)}), version=7, least_version=1)
    assert decode_subscription(encode_subscription(newer) + b"what version 7 added").owned == {TaskId(0, 1)}


def test_a_version_that_we_may_not_read_is_refused() -> None:
    newer = encode_subscription(SubscriptionInfo(b"p" * 16, version=7, least_version=3))
    with pytest.raises(UnsupportedWireVersionException, match="version 7, readable from version 3"):
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
