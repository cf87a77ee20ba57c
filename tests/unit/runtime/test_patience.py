"""Failures without a commit between them."""

from __future__ import annotations

from headrace.runtime.patience import Patience


def test_pauses_grow_until_something_is_committed() -> None:
    patience = Patience(300.0)
    pauses = []
    for second in range(8):
        patience.failed(float(second))
        pauses.append(patience.pause_s())
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    patience.succeeded()
    patience.failed(8.0)
    assert patience.pause_s() == 0.1


def test_failures_one_after_the_other_last_from_the_first_to_the_last() -> None:
    patience = Patience(300.0)
    assert [patience.failed(at) for at in (1000.0, 1200.0, 1301.0)] == [0.0, 200.0, 301.0]
    patience.succeeded()
    assert patience.failed(1302.0) == 0.0


def test_failures_far_apart_are_two_and_not_one_that_lasts() -> None:
    """A thread that had nothing to commit for an hour between two failures ended by the second one."""
    patience = Patience(300.0)
    patience.failed(0.0)
    patience.pause_s()
    assert patience.failed(3600.0) == 0.0
    assert patience.pause_s() == 0.1


def test_without_a_limit_what_fails_again_at_once_still_counts() -> None:
    patience = Patience(0.0)
    patience.failed(0.0)
    assert patience.failed(5.0) == 5.0
