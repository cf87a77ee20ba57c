from __future__ import annotations

from collections import Counter
from itertools import count
from typing import TYPE_CHECKING

import msgspec
import pytest
from course_revenue.contract import BrokenLineError, check
from course_revenue.model import Course, PurchaseLine
from course_revenue.promotion import BOOST, Profile, Promotion, promotion

if TYPE_CHECKING:
    from course_revenue.sample import SampleRecord


def made(**parts: float) -> list[SampleRecord]:
    ticks = count(1_000)
    return list(promotion(Profile(lines=20_000, courses=200, **parts), lambda: next(ticks)))  # type: ignore[arg-type]  # all are numbers


def course_of(record: SampleRecord) -> str | None:
    return msgspec.json.decode(record.value, type=PurchaseLine).course_id


def test_two_courses_sell_at_twenty_times_their_rate_and_the_others_as_before() -> None:
    day = Promotion(Profile(courses=200), lambda: 0)
    assert day.promoted == ("course-000000", "course-000001")
    counts = [
        Counter(course_of(record) for _ in range(20_000) for record in day.line(promoted=promoted))
        for promoted in (False, True)
    ]
    morning, promoted = (counted.total() for counted in counts)
    for course in day.promoted:
        rates = [
            counted[course] / lines for counted, lines in zip(counts, (morning, promoted / day.swell), strict=True)
        ]
        assert rates[1] / rates[0] == pytest.approx(BOOST, rel=0.2)
    assert sum(counts[1][course] for course in day.promoted) > 0.45 * promoted


def test_it_has_what_such_days_bring() -> None:
    records = made()
    lines = [record for record in records if not record.is_course]
    assert len(lines) > 20_050
    assert len({record.key for record in lines}) == 20_000, "duplicates are the same line again"
    decoded = [msgspec.json.decode(record.value, type=PurchaseLine) for record in lines]
    assert 0.06 < sum(line.line_type == "refund" for line in decoded) / len(lines) < 0.10
    assert all(check(line) for line in decoded), "no line is broken unless asked for"
    row_at: dict[str, int] = {}
    titles: dict[str, set[str]] = {}
    for at, record in enumerate(records):
        if record.is_course:
            course = record.key.decode()
            row_at.setdefault(course, at)
            titles.setdefault(course, set()).add(msgspec.json.decode(record.value, type=Course).title)
    sold = {str(line.course_id) for line in decoded}
    assert sold - row_at.keys(), "courses without a row"
    first_line: dict[str, int] = {}
    for at, record in enumerate(records):
        if not record.is_course:
            first_line.setdefault(str(course_of(record)), at)
    assert any(first_line[course] < at for course, at in row_at.items() if course in first_line), "late rows"
    assert titles["course-000000"] == {"Course 0", "Course 0, renamed"}


def test_broken_lines_come_by_the_shares_that_were_asked_for() -> None:
    reasons: Counter[str] = Counter()
    lines = [record for record in made(broken=0.1, undecodable=0.05) if not record.is_course]
    for record in lines:
        try:
            check(msgspec.json.decode(record.value, type=PurchaseLine))
        except BrokenLineError as broken:
            reasons[broken.reason] += 1
        except msgspec.DecodeError:
            reasons["undecodable"] += 1
    shares = {reason: number / len(lines) for reason, number in reasons.items()}
    expected = {"unknown_line_type": 0.05, "quantity_below_one": 0.05, "undecodable": 0.05}
    assert shares == pytest.approx(expected, rel=0.2)


def test_the_same_seed_makes_the_same_day_and_another_one_another() -> None:
    assert made() == made()
    assert made() != made(seed=2)
