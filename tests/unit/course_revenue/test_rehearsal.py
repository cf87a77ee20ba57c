"""The budget report of a rehearsal, and when it fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest
from course_revenue.formats import Format, formats
from course_revenue.model import PurchaseLine, Revenue
from course_revenue.rehearsal import Day, Fault, Feed, Played, _Reader
from course_revenue.rehearse import report
from course_revenue.settings import Dedupe, Settings

if TYPE_CHECKING:
    from headrace.topics import TopicWriter


def played() -> Played:
    day = Day(length_s=120.0, rate=100.0, courses=5, partitions=6)
    return Played(
        day,
        hot={1: ["course-000000"], 4: ["course-000001"]},
        swell=2.0,
        lines=100,
        courses=5,
        delays_s=[(float(at), 0.5) for at in range(98)] + [(98.0, 1.5), (99.0, 9.0)],
        lags=[(float(at), {1: 8 * (at == 60), 4: 0}) for at in range(121)],
        events=[(24.0, "P", "the promotion begins"), (54.0, "K", "kill -9 of instance 1")],
        faults=[Fault("kill -9 of instance 1", 54.0, {"course-000000": 3}, 11.0)],
    )


def test_the_report_of_a_day_that_kept_the_budget() -> None:
    lines = report(played(), 2)
    text = "\n".join(lines)
    assert (
        "half of the lines within 0.5 s, 99 % within 9.0 s, the last after 9.0 s (at 99 s); the budget is 60 s" in text
    )
    (hot,) = [line for line in lines if line.startswith("  1_1 |")]
    assert hot == "  1_1 |" + " " * 30 + "█" + " " * 29 + "| at most 8 (course-000000)"
    marks = lines[lines.index(hot) + 2]
    assert (marks.index("P"), marks.index("K")) == (len("  1_1 |") + 12, len("  1_1 |") + 27)
    assert "kill -9 of instance 1: what was sent until it ran again was readable after 11.0 s" in lines
    assert lines[-1] == "within the budget"
    assert "#" not in text
    assert "@" in "\n".join(report(played(), 2, ascii_only=True))


def test_what_makes_it_fail() -> None:
    day = played()
    day.delays_s[-1] = (99.0, 61.0)
    day.faults[0].took_s = None
    day.differing = ("course-000003",)
    day.lines = 101
    day.fallen = {"course-000004"}
    day.left_out = ("instance 2 is deployed",)
    problems = day.problems()
    assert len(problems) == 6
    assert "only after 61.0 s: the budget is 60 s" in problems[0]
    assert "kill -9 of instance 1: not everything was readable again" in problems[1]
    assert problems[2] == "instance 2 is deployed: not done before the day was over"
    assert problems[3] == "readers saw the totals of 1 courses fall back: course-000004"
    assert "course-000003" in problems[4]
    assert "1 of 101 lines are in no total" in problems[5]
    assert report(day, 2)[-1].startswith("FAILED: ")


class Sent:
    """Where a feed sends to."""

    def __init__(self) -> None:
        self.lines = 0

    def send(self, topic: str, *_: object, **__: object) -> None:
        self.lines += topic == Settings().lines

    def flush(self) -> None:
        """All have arrived."""


@pytest.mark.parametrize("dedupe", Dedupe)
def test_what_a_job_that_dedupes_leaves_out_is_not_missed(dedupe: Dedupe) -> None:
    """Every rehearsal with course.revenue.dedupe=line-key failed."""
    feed, sent = Feed("k:9092", Settings(dedupe=dedupe), Day(0.3, 5_000.0, 5, 6), {}, formats(Format.JSON, {})), Sent()
    feed._send(cast("TopicWriter", sent))
    noted = sum(feed.counts().values())
    assert noted > 500
    assert (sent.lines > noted) is (dedupe is Dedupe.LINE_KEY)


def line(number: int) -> PurchaseLine:
    return PurchaseLine(
        order_id=f"o{number}",
        line_id="l",
        course_id="course-000001",
        unit_price_cents=100,
        quantity=1,
        line_type="sale",
        event_time=1,
    )


def a_total(lines: int) -> list[tuple[str, Revenue | None]]:
    return [("course-000001", Revenue("course-000001", 100 * lines, lines, False, 1))]


def test_a_total_that_falls_and_climbs_back_is_told_though_it_is_right_in_the_end() -> None:
    day = played()
    feed = Feed("k:9092", Settings(), day.day, {}, formats(Format.JSON, {}))
    for number in range(3):
        feed.note(line(number))
    reader = _Reader(feed, day)
    for lines in (1, 3):
        reader.take(a_total(lines), 1.0)
    assert day.fallen == set()
    for lines in (1, 3):
        reader.take(a_total(lines), 2.0)
    assert day.fallen == {"course-000001"}
    assert reader.has_all()
