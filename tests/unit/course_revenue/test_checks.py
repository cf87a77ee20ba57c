"""The sum over the input by SQL, and what becomes of each record of it."""

from __future__ import annotations

import csv
import hashlib
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from course_revenue import headers
from course_revenue.adjustments import Skipped
from course_revenue.checks import InputSums, Reconciliation, reconcile, sum_input
from course_revenue.formats import Format, formats
from course_revenue.headers import Place
from course_revenue.ledger import Amount, Fates, LandedCounts, Ledger
from course_revenue.model import INT64_MAX, PurchaseLine, Revenue

from headrace.topics import TopicRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

DECODE = formats(Format.JSON, {}).decode_line("in")


def line(order: str, cents: int, kind: str = "sale", course: str | None = "c1", quantity: int = 1) -> PurchaseLine:
    return PurchaseLine(
        order_id=order,
        line_id="l1",
        course_id=course,
        unit_price_cents=cents,
        quantity=quantity,
        line_type=kind,
        event_time=1,
    )


def value(*fields: Any, **more: Any) -> bytes:
    return msgspec.json.encode(line(*fields, **more))


def totals(**courses: tuple[int, int]) -> dict[str, Revenue]:
    return {course: Revenue(course, net, lines, False, 1) for course, (net, lines) in courses.items()}


def records(values: Iterable[bytes | None]) -> list[TopicRecord]:
    return [TopicRecord(0, offset, 1, None, raw, None) for offset, raw in enumerate(values)]


INPUT = [value("o1", 500), value("o2", 300, "refund"), value("o1", 500)]


def test_the_sum_counts_each_identity_once_and_repeats_apart() -> None:
    sums = sum_input(records(INPUT))
    assert sums.courses["c1"].once == (200, 2)
    assert sums.courses["c1"].repeats == (500, 1)
    assert sums.courses["c1"].every == (700, 3)
    assert sums.fates == Fates(records=3, applied=3)


@pytest.mark.parametrize(
    ("found", "verdict", "unexplained", "agrees", "equal"),
    [
        (totals(c1=(700, 3)), "duplicates", (0, 0), True, True),
        # as many lines are missing as came twice: of courses with one price each, lost ones look like that
        (totals(c1=(200, 2)), "different", (-500, -1), False, False),
        (totals(c1=(699, 3)), "different", (-1, 0), False, False),
        (totals(c1=(700, 2)), "different", (0, -1), False, False),
        ({}, "different", (-700, -3), False, False),
        (totals(c1=(700, 3), c2=(0, 1)), "duplicates", (0, 0), False, False),
    ],
)
def test_a_difference_is_explained_by_duplicates_or_by_nothing(
    found: dict[str, Revenue], verdict: str, unexplained: tuple[int, int], agrees: bool, equal: bool
) -> None:
    comparison = reconcile(sum_input(records(INPUT)), found)
    row = comparison.rows[0]
    assert (row.verdict, row.unexplained) == (verdict, unexplained)
    assert (comparison.agrees, comparison.equal) == (agrees, equal)


def test_a_line_whose_key_does_not_decode_is_undecodable_as_it_is_for_the_job() -> None:
    """Under LogAndContinue the job passed it over, and a difference was told that was none."""
    keys = (b'{"order_id":"o","line_id":"l"}', b"no json", None)
    found = [TopicRecord(0, offset, 1, key, value(f"o{offset}", 5), None) for offset, key in enumerate(keys)]
    sums = sum_input(found)
    assert sums.fates == Fates(records=3, applied=2, undecodable=1)
    assert sums.courses["c1"].every == (10, 2)


def test_broken_lines_are_counted_and_not_summed() -> None:
    broken = [
        b"no json",
        None,
        value("b1", 5, "gift"),
        value("b2", -5),
        value("b3", 5, quantity=0),
        value("b4", 5, course=None),
        value("b5", INT64_MAX, quantity=2),
    ]
    sums = sum_input(records([*INPUT, *broken]))
    assert sums.courses["c1"].every.lines == 3
    assert sums.fates == Fates(records=10, applied=3, broken=6, undecodable=1, unknown=6)


def test_sums_are_exact_beyond_what_floats_hold() -> None:
    sums = sum_input(records([value("o1", INT64_MAX), value("o2", INT64_MAX)]))
    assert sums.courses["c1"].once.cents == 2 * INT64_MAX


def test_what_was_skipped_by_hand_is_in_no_sum() -> None:
    poison = value("o1", 500)
    twice = [value("o3", 70), value("o3", 70)]
    digest = hashlib.sha256(value("o3", 70)).hexdigest()
    known = frozenset({hashlib.sha256(poison).hexdigest()})
    read = records([*INPUT[:2], poison, *twice])
    sums = sum_input(read, skipped=Skipped({(0, 2): known}, Counter({digest: 1})))
    assert (sums.courses["c1"].once, sums.courses["c1"].repeats) == ((270, 3), (0, 0))
    assert sums.fates == Fates(records=5, applied=3, skipped=2)
    # another record lies there, in a topic that was made anew: it counts
    sums = sum_input(read, skipped=Skipped({(0, 2): frozenset({"of another record"})}))
    assert sums.fates == Fates(records=5, applied=5)
    # the adjustment is written, and the job not moved yet
    with Ledger(DECODE, Skipped({(0, 2): known})) as ledger:
        ledger.add_lines(read, {0: 2})
        assert ledger.sums()[1] == Fates(records=2, applied=2)


def test_a_replayed_line_counts_in_place_of_the_rejected_one() -> None:
    replay = [*headers.source_headers(Place("in", 0, 1)), (headers.REPLAYED_OFFSET, b"0")]
    read = [*records(INPUT[:2]), TopicRecord(0, 2, 1, None, INPUT[1], replay)]
    expected = Fates(records=3, applied=2, replayed=1)
    sums = sum_input(read)
    assert (sums.courses["c1"].every, sums.fates) == ((200, 2), expected)
    # in the release that rejected it the original is broken, and not counted twice
    sums = sum_input([read[0], read[1]._replace(value=value("o2", 300, "gift")), read[2]])
    assert (sums.courses["c1"].every, sums.fates) == ((200, 2), expected)


@pytest.mark.parametrize("number", [b"2147483648", b"9223372036854775808", b"9" * 5000, b"-1", b"1.0", b"\xff", b""])
@pytest.mark.parametrize("name", [headers.SOURCE_PARTITION, headers.SOURCE_OFFSET, headers.REPLAYED_OFFSET])
def test_headers_that_a_producer_has_made_up_do_not_end_the_sum(name: str, number: bytes) -> None:
    said = [*headers.source_headers(Place("in", 0, 70)), (headers.REPLAYED_OFFSET, b"0"), (name, number)]
    sums = sum_input([*records(INPUT[:1]), TopicRecord(0, 1, 1, None, INPUT[1], said)])
    assert sums.fates == Fates(records=2, applied=2)
    assert sums.courses["c1"].every.lines == 2


def test_an_empty_input_has_no_sums() -> None:
    assert sum_input([]) == InputSums({}, Fates())


def compared(ledger: Ledger, found: Mapping[str, Revenue], **options: bool) -> Reconciliation:
    return reconcile(InputSums(*ledger.sums(**options)), found)


def test_lines_in_flight_count_beside_the_totals_and_lines_behind_the_cut_do_not() -> None:
    with Ledger(DECODE) as ledger:
        ledger.add_lines(records([*INPUT, value("o9", 9)]), {0: 3})
        ledger.add_flight([line("o1", 500)])
        (row,) = (comparison := compared(ledger, totals(c1=(200, 2)))).rows
    assert (row.sql, row.topic, row.flight, row.duplicates) == ((200, 2), (200, 2), (500, 1), (500, 1))
    assert row.verdict == "duplicates"
    assert comparison.sums.fates == Fates(records=3, applied=2, in_flight=1)


def test_a_line_in_flight_that_nobody_sent_is_a_difference() -> None:
    with Ledger(DECODE) as ledger:
        ledger.add_lines(records(INPUT[:1]))
        ledger.add_flight([line("o7", 70)])
        (row,) = compared(ledger, totals(c1=(500, 1))).rows
    assert (row.verdict, row.unexplained) == ("different", (70, 1))


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (totals(c1=(500, 1)), "rejected"),
        # a fault of exactly the rejected amount: a line that was counted twice, and one that was lost
        (totals(c1=(570, 2)), "different"),
        (totals(c1=(430, 0)), "different"),
    ],
)
def test_a_line_that_lies_in_the_rejected_topic_explains_what_the_totals_lack_and_nothing_else(
    found: dict[str, Revenue], verdict: str
) -> None:
    # a later release finds nothing wrong with it
    with Ledger(DECODE) as ledger:
        ledger.add_lines(records([INPUT[0], value("o2", 70), value("o3", 5, "gift")]))
        ledger.add_rejected([(0, 1), (0, 2), (0, 1)])
        comparison = compared(ledger, found)
    (row,) = comparison.rows
    assert (row.verdict, row.rejected, comparison.agrees) == (verdict, (-70, -1), verdict == "rejected")
    assert comparison.sums.fates == Fates(records=3, applied=1, rejected=1, broken=1)


def test_a_broken_line_that_is_nowhere_is_a_difference_unless_the_rejected_topic_has_lost_some() -> None:
    for whole in (True, False):
        with Ledger(DECODE) as ledger:
            ledger.add_lines(records([INPUT[0], value("o3", 5, "gift"), b"no json"]))
            comparison = compared(ledger, totals(c1=(500, 1)), all_rejected=whole, lost_undecodable=whole)
        assert (comparison.sums.fates.lost, comparison.agrees) == ((2, False) if whole else (0, True))
        assert comparison.sums.fates.unknown == (0 if whole else 1)


def test_ctrl_c_in_the_middle_of_a_sum_is_ctrl_c() -> None:
    """DuckDB made an error of it, and ``make run`` ended with a traceback."""
    with pytest.raises(KeyboardInterrupt), Ledger(DECODE):
        raise RuntimeError("Query interrupted")


def test_repeats_that_the_job_leaves_out_are_found_as_it_finds_them() -> None:
    retention_ms = 100

    def at(offset: int, time: int, course: str, order: str = "o1") -> TopicRecord:
        return TopicRecord(0, offset, time, None, value(order, 10, course=course), None)

    read = [
        at(0, 1_000, "c1"),
        at(1, 1_100, "c1"),  # a repeat
        at(2, 1_150, "c1"),  # too late for a repeat: counted, and remembered
        at(3, 1_250, "c1"),  # a repeat of that one
        at(4, 1_000, "c2"),  # another course, of another partition
        at(5, 1_000, "c1", "o2"),
        at(6, 1_000, "c1", "o2"),  # a repeat, and under way
    ]
    with Ledger(DECODE) as ledger:
        ledger.add_lines(read)
        ledger.add_flight([line("o2", 10)])
        ledger.leave_out_repeats(retention_ms, 3)
        comparison = compared(ledger, totals(c1=(30, 3), c2=(10, 1)))
    first, second = comparison.rows
    assert (first.sql, first.duplicates, first.flight, first.verdict) == ((20, 2), (10, 1), (0, 0), "duplicates")
    assert (second.sql, second.duplicates, second.verdict) == ((0, 0), (10, 1), "duplicates")
    assert comparison.sums.fates == Fates(records=7, applied=4, deduped=3)


def test_a_table_of_lines_is_told_apart_into_tail_duplicates_and_differences(tmp_path: Path) -> None:
    sent = [
        value("o1", 100),
        value("o1", 100),  # a duplicate of the topic
        value("o2", 200, course="c2"),
        value("o3", 300, course="c3"),  # never landed, though later ones did
        value("o4", 400, course="c4"),  # landed with another price
        value("o5", 500),
        value("o6", 600),  # not landed yet
    ]
    behind = TopicRecord(1, 0, 1, None, value("o7", 700), None)
    rows = [
        ("o1", "l1", "c1", "100", "1", "sale"),
        ("o1", "l1", "c1", "100", "1", "sale"),  # landed twice
        ("o2", "l1", "c2", "200", "1", "sale"),
        ("o4", "l1", "c4", "401", "1", "sale"),
        ("o5", "l1", "c1", "500", "1", "sale"),
        ("o7", "l1", "c1", "700", "1", "sale"),  # it lies behind the cut
        ("o8", "l1", "c5", "800", "1", "sale"),  # nobody sent it
        ("o9", "l1", "c1", "9.5", "1", "sale"),
        ("", "l1", 'c"1', "9", "1", "gift\n"),
    ]
    file = tmp_path / "landed.csv"
    with file.open("w", newline="") as out:
        csv.writer(out).writerows(rows)
    with Ledger(DECODE) as ledger:
        ledger.add_lines([*records(sent), behind], {0: 7, 1: 0})
        ledger.add_landed(file)
        sums = InputSums(*ledger.sums(), *ledger.landed())
    found = totals(c1=(1_300, 4), c2=(200, 1), c3=(300, 1), c4=(400, 1))
    by_course = {row.course_id: row for row in reconcile(sums, found).rows}
    c1 = by_course["c1"]
    assert (c1.sql, c1.tail, c1.duplicates, c1.verdict) == ((600, 2), (600, 1), (100, 1), "tail+duplicates")
    assert by_course["c2"].verdict == "equal"
    assert {course: (row.unexplained, row.verdict) for course, row in by_course.items() if course > "c2"} == {
        "c3": ((300, 1), "different"),
        "c4": ((-1, 0), "different"),
        "c5": ((-800, -1), "different"),
    }
    assert [by_course[f"c{n}"].landed[3:] for n in (3, 4, 5)] == [(1, 0, 0), (0, 0, 1), (0, 1, 0)]
    assert sums.landed_counts == LandedCounts(rows=9, broken=2, repeats=1, ahead=1)


@pytest.mark.parametrize("other", ["99", "101"])
def test_of_two_rows_of_a_line_that_say_different_things_the_one_that_fits_is_not_picked(
    tmp_path: Path, other: str
) -> None:
    """A table with a line twice, at two prices, was equal when the cheaper one was what was sent."""
    file = tmp_path / "landed.csv"
    with file.open("w", newline="") as out:
        csv.writer(out).writerows([("o1", "l1", "c1", price, "1", "sale") for price in ("100", other)])
    with Ledger(DECODE) as ledger:
        ledger.add_lines(records([value("o1", 100)]))
        ledger.add_landed(file)
        sums = InputSums(*ledger.sums(), *ledger.landed())
    (row,) = reconcile(sums, totals(c1=(100, 1))).rows
    assert (row.verdict, row.unexplained, row.landed.changed) == ("different", (100 - int(other), 0), 1)
    assert sums.landed_counts == LandedCounts(rows=2, broken=0, repeats=1, ahead=0)


def test_amounts() -> None:
    assert Amount(5, 2).plus(Amount(1, 1)).minus(Amount(2, 0)) == (4, 3)
