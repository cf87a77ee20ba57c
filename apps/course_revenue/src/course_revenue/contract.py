"""What makes a purchase line broken.

The rules run before the line's key is chosen: behind the repartition the source offset is already committed and the
producer's bytes are gone. In ``fail`` mode they are part of the key selector, so that the topology is the same as
without them; in ``reject`` mode a processor of its own sends the untouched record aside.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from course_revenue.model import INT64_MAX, INT64_MIN, REFUND, SALE, shown_type

if TYPE_CHECKING:
    from course_revenue.model import LineKey, PurchaseLine


class OnBrokenLine(Enum):
    """What is done with a line that breaks the contract (``course.revenue.on.broken.line``)."""

    FAIL = "fail"
    """The instance stops, naming the record; nothing past it is committed."""
    REJECT = "reject"
    """The record goes to the rejected topic, bytes untouched, and the job goes on."""


class BrokenLineError(ValueError):
    """A line breaks the contract. ``reason`` is the rule's short name, also the header of a rejected record."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason


NO_COURSE: Final = "missing_course_id"
UNKNOWN_TYPE: Final = "unknown_line_type"
NEGATIVE_PRICE: Final = "negative_unit_price"
BAD_QUANTITY: Final = "quantity_below_one"
OVERFLOW: Final = "amount_overflow"
NO_VALUE: Final = "no_value"
REASONS: Final = frozenset({NO_COURSE, UNKNOWN_TYPE, NEGATIVE_PRICE, BAD_QUANTITY, OVERFLOW, NO_VALUE})
"""Of all rules."""


def check(line: PurchaseLine | None) -> str:
    """The course of a line that keeps the contract.

    Args:
        line: the decoded value of a record; None where it had no value.

    Returns:
        The line's ``course_id``: the new key.

    Raises:
        BrokenLineError: the first rule that the line breaks. The message names the line by its ids; of its content it
            has at most the type, see ``model.shown_type``.
    """
    if line is None:
        raise BrokenLineError(NO_VALUE, "the record has no value")
    course_id = line.course_id
    if course_id is None:
        raise BrokenLineError(NO_COURSE, f"{_name(line)} has no course_id")
    if line.line_type not in (SALE, REFUND):
        raise BrokenLineError(
            UNKNOWN_TYPE, f"{_name(line)} has line_type {shown_type(line)}; allowed are sale and refund"
        )
    if line.unit_price_cents < 0:
        raise BrokenLineError(NEGATIVE_PRICE, f"{_name(line)} has a negative unit_price_cents")
    if line.quantity < 1:
        raise BrokenLineError(BAD_QUANTITY, f"{_name(line)} has a quantity below one")
    if not INT64_MIN <= line.unit_price_cents * line.quantity <= INT64_MAX:
        raise BrokenLineError(OVERFLOW, f"{_name(line)}: unit_price_cents * quantity does not fit in 64 bits")
    return course_id


def select_course(_key: LineKey | None, line: PurchaseLine | None) -> str:
    """The key selector of the job in ``fail`` mode.

    Raises:
        BrokenLineError: the line breaks the contract.
    """
    return check(line)


def _name(line: PurchaseLine) -> str:
    return f"order {line.order_id} line {line.line_id}"
