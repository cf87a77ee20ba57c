"""The budget report of a rehearsal, and when it fails."""

from __future__ import annotations

from course_revenue.rehearsal import Day, Fault, Played
from course_revenue.rehearse import report


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
    problems = day.problems()
    assert len(problems) == 4
    assert "only after 61.0 s: the budget is 60 s" in problems[0]
    assert "kill -9 of instance 1: not everything was readable again" in problems[1]
    assert "course-000003" in problems[2]
    assert "1 of 101 lines are in no total" in problems[3]
    assert report(day, 2)[-1].startswith("FAILED: ")
