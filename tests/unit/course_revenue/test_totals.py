"""The totals as text for people."""

from __future__ import annotations

from course_revenue.checks import reconcile, sum_input
from course_revenue.cut import Cut, JobTopics
from course_revenue.model import INT64_MIN, Revenue
from course_revenue.reconciling import Outcome
from course_revenue.reports import summary, text_lines
from course_revenue.totals import money, total_lines

FORGED = "a\nalgebra\t999999\t1\tfalse\t0\t\x1b[2J"
"""A course id that would be two rows of a table, and empty a terminal."""


def test_a_course_id_makes_no_rows_of_its_own() -> None:
    totals = {FORGED: Revenue(FORGED, 5, 1, False, 0)}
    assert list(total_lines(totals))[1:] == [
        "a\\nalgebra\\t999999\\t1\\tfalse\\t0\\t\\x1b[2J\t5\t1\tfalse\t0\t1970-01-01 00:00:00"
    ]
    topics = JobTopics("app", "lines", "inside", "output", "rejected", exactly_once=True)
    outcome = Outcome(topics, Cut({0: 0}), reconcile(sum_input([]), totals), {}, {})
    _, *rows = text_lines(outcome, every=True)
    assert [row.split("\t")[0] for row in rows] == ["a\\nalgebra\\t999999\\t1\\tfalse\\t0\\t\\x1b[2J"]
    assert "\n" not in summary(outcome)


def test_amounts_are_exact_for_any_size() -> None:
    assert [money(cents) for cents in (0, -5, 123_405, INT64_MIN)] == [
        "0.00",
        "-0.05",
        "1,234.05",
        "-92,233,720,368,547,758.08",
    ]
