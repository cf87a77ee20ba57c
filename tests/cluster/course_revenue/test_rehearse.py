"""A rehearsal of a promotion day, cut short, on the tests' own broker."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cluster.course_revenue.product import command

if TYPE_CHECKING:
    from cluster.course_revenue.product import Product


def test_a_day_in_seconds_keeps_the_budget_and_leaves_nothing(product: Product) -> None:
    instance = product.instance("a", session_timeout_ms=6_000)
    instance.configure()
    before = product.admin.topics().keys()
    said = command(instance, "rehearse", "--minutes", "0.3", "--rate", "60", "--courses", "40", "--directory", "days")
    assert re.search(
        r"rehearsed a promotion day in 18 s: [\d,]+ lines of 40 courses with 2 instances, 60 lines/s", said
    )
    assert re.search(r"99 % within [\d.]+ s, the last after [\d.]+ s", said)
    assert len(re.findall(r"^  1_\d \|.{60}\| at most \d", said, re.MULTILINE)) >= 1
    for fault in ("kill -9 of instance 1", "instance 2 is deployed"):
        assert re.search(
            rf"^{fault}.*: what was sent until it ran again was readable after [\d.]+ s", said, re.MULTILINE
        )
    assert "the totals of 40 courses equal the sum of the lines sent" in said
    assert "within the budget" in said.splitlines()
    left = product.admin.topics().keys() - before
    assert not [topic for topic in left if "rehearsal" in topic]
