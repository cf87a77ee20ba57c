"""How the totals of the job compare with the plain sum over the input, course by course.

The sum is made by SQL (``ledger``), by another way than the job's: it shares with the job only the shape of a line.
A difference is a list of parts, each with its reason; what no part accounts for is a true difference.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from course_revenue.formats import Format, formats
from course_revenue.ledger import NOTHING, Amount, CourseSum, Fates, LandedCounts, LandedSum, Ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from course_revenue.adjustments import Skipped
    from course_revenue.model import PurchaseLine, Revenue
    from headrace.topics import TopicRecord

EQUAL, DIFFERENT = "equal", "different"


class InputSums(NamedTuple):
    """The sums by course and what became of the records; ``landed`` are those of a table that is compared instead."""

    courses: Mapping[str, CourseSum]
    fates: Fates
    landed: Mapping[str, LandedSum] | None = None
    landed_counts: LandedCounts | None = None

    @property
    def lines(self) -> int:
        """How many lines the job is to count."""
        return sum(course.every.lines for course in self.courses.values())


@dataclass(frozen=True, slots=True)
class Explanation:
    """How one course's total compares. ``difference`` is total and lines in flight, minus SQL.

    Attributes:
        sql: each line's identity once.
        topic: the latest total.
        flight: lines in the repartition topic.
        duplicates: the part of the difference that lines which come again make.
        tail: the part that lines make which a table does not have yet.
        rejected: the part that lines make which lie in the rejected topic: not above nothing for sales.
        verdict: ``equal``; the parts that make the difference, joined by ``+``; or ``different``.
        landed: more about the lines of a table.
    """

    course_id: str
    sql: Amount
    topic: Amount
    flight: Amount
    duplicates: Amount
    tail: Amount
    rejected: Amount
    verdict: str
    landed: LandedSum = field(default_factory=LandedSum)

    @property
    def difference(self) -> Amount:
        """Topic and flight minus SQL."""
        return self.topic.plus(self.flight).minus(self.sql)

    @property
    def unexplained(self) -> Amount:
        """What no part accounts for."""
        return self.difference.minus(self.duplicates).minus(self.tail).minus(self.rejected)


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The comparison of all courses of either side."""

    rows: tuple[Explanation, ...]
    sums: InputSums

    @property
    def differing(self) -> tuple[Explanation, ...]:
        """Courses with a difference that nothing explains."""
        return tuple(row for row in self.rows if row.verdict == DIFFERENT)

    @property
    def agrees(self) -> bool:
        """Whether every difference is explained, and every record accounted for."""
        return not self.differing and not self.sums.fates.lost

    @property
    def equal(self) -> bool:
        """Whether every total equals the sum over all lines that the job is to count."""
        return all(row.verdict in (EQUAL, "duplicates") for row in self.rows)


def sum_input(
    records: Iterable[TopicRecord],
    decode: Callable[[TopicRecord], PurchaseLine | None] | None = None,
    skipped: Skipped | None = None,
) -> InputSums:
    """The sums over a whole input, for a job that counts every line.

    Args:
        records: of the lines topic.
        decode: gives a record's line, see ``Formats.decode_line``; None reads JSON.
        skipped: what the job was moved past by hand.
    """
    with Ledger(decode or formats(Format.JSON, {}).decode_line("the lines topic"), skipped) as ledger:
        ledger.add_lines(records)
        return InputSums(*ledger.sums(all_rejected=False))


def reconcile(sums: InputSums, totals: Mapping[str, Revenue]) -> Reconciliation:
    """Compares the sums with the job's totals, course by course, sorted by course id.

    Lines that the job has rejected, and that keep today's contract, are in no total: the rejected topic says which.
    """
    courses = sorted({*sums.courses, *(sums.landed or ()), *totals})
    return Reconciliation(tuple(_explain(course, sums, totals.get(course)) for course in courses), sums)


def _explain(course: str, sums: InputSums, total: Revenue | None) -> Explanation:
    given = sums.courses.get(course, CourseSum())
    landed = LandedSum(given.once, waiting=given.waiting)
    if sums.landed is not None:
        landed = sums.landed.get(course, LandedSum())
    topic = NOTHING if total is None else Amount(total.net_cents, total.line_count)
    difference = topic.plus(given.flight).minus(landed.once)
    # repeats are counted or left out as the settings say, never as it fits
    repeats = given.repeats.minus(given.left_out)
    refused = NOTHING.minus(landed.waiting)
    parts = {"tail": landed.tail, "duplicates": repeats, "rejected": refused}
    verdict = DIFFERENT
    if difference == landed.tail.plus(repeats).plus(refused):
        verdict = "+".join(name for name, amount in parts.items() if amount != NOTHING) or EQUAL
    return Explanation(course, landed.once, topic, given.flight, repeats, landed.tail, refused, verdict, landed)
