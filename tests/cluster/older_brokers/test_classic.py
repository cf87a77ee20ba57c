"""Exactly once, restores and shared tasks on brokers of 3.9: tests of the current release's, run again.

All of them run there by ``make test-older``; these are a choice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.course_revenue.test_exactly_once import (
    test_a_killed_instance_in_the_middle_of_a_transaction_leaves_nothing_behind,
    test_a_restart_changes_no_total_and_processes_nothing_again,
    test_a_restore_waits_for_the_unfinished_transaction_of_a_predecessor,
)
from cluster.course_revenue.test_instances import test_at_least_once_loses_nothing

if TYPE_CHECKING:
    from cluster.course_revenue.product import Product

__all__ = [
    "test_a_killed_instance_in_the_middle_of_a_transaction_leaves_nothing_behind",
    "test_a_restart_changes_no_total_and_processes_nothing_again",
    "test_a_restore_waits_for_the_unfinished_transaction_of_a_predecessor",
    "test_at_least_once_loses_nothing",
]


def test_the_streams_protocol_is_refused_with_a_sentence(product: Product) -> None:
    instance = product.instance("a", group_protocol="streams").start()
    assert instance.exit_code() == 1
    assert "group.protocol" in instance.log(), instance.tail()
    assert "Traceback" not in instance.log().split("ERROR", 1)[0]
