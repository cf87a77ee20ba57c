"""A member that goes on as one whose process is dead, while no broker answers yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.errors import TimeoutException
from headrace.kafka import ClassicMembership, StreamsMembership

if TYPE_CHECKING:
    from collections.abc import Callable

    Member = ClassicMembership | StreamsMembership

NOBODY = {"bootstrap.servers": "127.0.0.1:1"}
FORMER = "the-dead-one"


def classic() -> Member:
    return ClassicMembership(
        NOBODY,
        "app",
        "client",
        topics=list,
        subscription_userdata=lambda _: b"",
        assignor=lambda _: {},
        former=FORMER,
        connect_timeout_ms=200,
    )


def streams() -> Member:
    return StreamsMembership(
        NOBODY,
        "app",
        "client",
        process_id="p",
        topology=(),
        partitions=lambda _: (),
        former=FORMER,
        connect_timeout_ms=200,
    )


@pytest.mark.parametrize("make", [classic, streams])
def test_its_place_is_taken_by_the_attempt_that_reaches_a_broker(make: Callable[[], Member]) -> None:
    """After a first attempt without an answer the dead member was left alone, and the group waited for its session."""
    membership = make()
    for _ in range(2):
        with pytest.raises(TimeoutException):
            membership.start()
        assert membership._former == FORMER
    assert not membership.close(leave_group=True), "the brokers have not heard that anybody is gone"
