"""The records of the course-revenue topics, and the money rule.

All of them are JSON objects whose fields stand in the order given here. Unknown fields are ignored: whatever else a
producer adds to a line (such as ``learner_id``) is dropped when the line is decoded and cannot reach the repartition
topic, the store or the output.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, TypeAlias

import msgspec

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1

Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=INT64_MIN, le=INT64_MAX)]
"""A whole number of 64 bits; one outside is refused when decoding."""

SALE: Final = "sale"
REFUND: Final = "refund"

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z_-]{0,31}")


class LineKey(msgspec.Struct, frozen=True):
    """The identity of a purchase line, the key of its record."""

    order_id: str
    line_id: str


class PurchaseLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of an order, or the refund of one.

    ``unit_price_cents`` is in cents, ``event_time`` in epoch milliseconds. ``course_id`` may be absent here only so
    that the contract, which forbids it, can say so.
    """

    order_id: str
    line_id: str
    course_id: str | None = None
    unit_price_cents: Int64
    quantity: Int64
    line_type: str
    event_time: Int64


class Course(msgspec.Struct, frozen=True):
    """A row of the course catalog; the key of its record is the course id."""

    title: str
    active: bool


class LineWithCourse(msgspec.Struct, frozen=True):
    """A line and the catalog row that was found for it; ``course`` is None when there was none."""

    line: PurchaseLine
    course: Course | None


class UnknownLineTypeError(ValueError):
    """A line is neither a sale nor a refund. Never added as zero: whoever catches this stops or rejects the line."""


class Revenue(msgspec.Struct, frozen=True):
    """The total of one course after some number of lines.

    ``net_cents`` is sales minus refunds. ``dimension_missing`` says whether the line applied last found no catalog row.
    ``updated_event_time`` is the greatest event time applied so far, in epoch milliseconds.
    """

    course_id: str | None
    net_cents: Int64
    line_count: Int64
    dimension_missing: bool
    updated_event_time: Int64

    @staticmethod
    def zero() -> Revenue:
        """The total before the first line."""
        return Revenue(None, 0, 0, False, 0)

    def apply(self, course_id: str, joined: LineWithCourse) -> Revenue:
        """The total after one more line: the money rule.

        Args:
            course_id: the course, key of the line behind the repartition.
            joined: the line with its catalog row.

        Returns:
            A new total; this one is unchanged.

        Raises:
            UnknownLineTypeError: the line is neither ``sale`` nor ``refund``.
            OverflowError: the amount or the new total does not fit in signed 64 bits.
        """
        line = joined.line
        cents = amount(line)
        if line.line_type == SALE:
            net_cents = self.net_cents + cents
        elif line.line_type == REFUND:
            net_cents = self.net_cents - cents
        else:
            raise UnknownLineTypeError(
                f"unknown line_type {shown_type(line)} on order {line.order_id} line {line.line_id}"
            )
        if not INT64_MIN <= net_cents <= INT64_MAX:
            raise OverflowError(
                f"the total of course {course_id} does not fit in 64 bits"
                f" after order {line.order_id} line {line.line_id}"
            )
        event_time = line.event_time
        if self.updated_event_time > event_time:
            event_time = self.updated_event_time
        return Revenue(course_id, net_cents, self.line_count + 1, joined.course is None, event_time)


def shown_type(line: PurchaseLine) -> str:
    """The type of a line for a message: as it is when it is a name, for else it may be anything that a line has."""
    return repr(line.line_type) if _NAME.fullmatch(line.line_type) else "(not shown: no name)"


def amount(line: PurchaseLine) -> int:
    """``unit_price_cents * quantity``, in cents.

    Raises:
        OverflowError: the product does not fit in signed 64 bits.
    """
    cents = line.unit_price_cents * line.quantity
    if not INT64_MIN <= cents <= INT64_MAX:
        raise OverflowError(
            f"unit_price_cents * quantity does not fit in 64 bits on order {line.order_id} line {line.line_id}"
        )
    return cents
