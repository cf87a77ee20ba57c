from __future__ import annotations

import msgspec
from course_revenue.model import Course, PurchaseLine
from course_revenue.sample import SampleSize, sample


def test_the_sample_has_everything_that_is_hard() -> None:
    records = list(sample(SampleSize(lines=20_000, courses=200)))
    lines = [msgspec.json.decode(r.value, type=PurchaseLine) for r in records if not r.is_course]
    rows = {r.key.decode(): msgspec.json.decode(r.value, type=Course) for r in records if r.is_course}
    assert len(lines) == 20_000
    assert 0.08 < sum(line.line_type == "refund" for line in lines) / len(lines) < 0.12
    counts: dict[str | None, int] = {}
    for line in lines:
        counts[line.course_id] = counts.get(line.course_id, 0) + 1
    assert max(counts.values()) > 0.2 * len(lines)
    assert set(counts) - set(rows)
    first_line: dict[str | None, int] = {}
    row_at: dict[str, int] = {}
    for at, record in enumerate(records):
        if record.is_course:
            row_at[record.key.decode()] = at
        else:
            first_line.setdefault(msgspec.json.decode(record.value, type=PurchaseLine).course_id, at)
    assert any(course in row_at and at < row_at[course] for course, at in first_line.items() if course)


def test_the_same_seed_makes_the_same_sample_and_another_one_another() -> None:
    size = SampleSize(lines=300, courses=20, duplicates=0.1)
    assert list(sample(size)) == list(sample(size))
    assert list(sample(size)) != list(sample(SampleSize(lines=300, courses=20, duplicates=0.1, seed=2)))


def test_duplicates_are_the_same_line_twice() -> None:
    records = [r for r in sample(SampleSize(lines=1_000, courses=20, duplicates=0.1)) if not r.is_course]
    assert len(records) > 1_050
    assert len({r.key for r in records}) == 1_000
