"""A day with a promotion, as the job meets it: the same for the same seed, but for the times.

A steady morning, in which the courses sell more or less; then two of them sell at twenty times their rate, and the
others as before; then it is over. Meanwhile what such days bring: refunds, lines that a producer sends twice, courses
that sell before their catalog row is there, one whose title changes in the midst of it. Broken records only when asked
for, because they stop a job that does not reject them.
"""

from __future__ import annotations

import random
from bisect import bisect
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import msgspec

from course_revenue.model import REFUND, SALE, Course, LineKey, PurchaseLine
from course_revenue.sample import SampleRecord, course_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROMOTED: Final = 2
"""How many courses are promoted: the first ones by their numbers."""
BOOST: Final = 20
"""How many times its rate a promoted course sells."""
DUPLICATES: Final = 0.01
"""The share of lines that are sent twice."""

_MORNING, _EVENING = 0.3, 0.9
_LINES_PER_ORDER: Final = 3
_UNKNOWN_TYPE: Final = "gift"
_TORN: Final = 20


@dataclass(frozen=True, slots=True)
class Profile:
    """What a promotion is made of. Shares are between 0 and 1.

    ``late`` is the share of courses, never the promoted ones, whose catalog row comes in the midst of the promotion,
    ``missing`` of those that get none. ``duplicates`` is the share of lines that are sent twice, ``broken`` of those
    that break the contract (an unknown type and a negative quantity in turn), ``undecodable`` of those that are no
    whole JSON.
    """

    lines: int = 100_000
    courses: int = 1_000
    refunds: float = 0.08
    late: float = 0.05
    missing: float = 0.02
    duplicates: float = DUPLICATES
    broken: float = 0.0
    undecodable: float = 0.0
    seed: int = 1


class Promotion:
    """Makes the records one after another. Used by one thread.

    Args:
        profile: what they are made of.
        now_ms: the event time of the record that is made, in epoch ms.
    """

    def __init__(self, profile: Profile, now_ms: Callable[[], int]) -> None:
        self._profile, self._now_ms = profile, now_ms
        self._random = rnd = random.Random(profile.seed)
        self._encode = msgspec.json.Encoder().encode
        self._ids = [course_id(number) for number in range(profile.courses)]
        self._prices = [500 + 100 * rnd.randrange(200) for _ in self._ids]
        fates = [1.0 if number < PROMOTED else rnd.random() for number in range(profile.courses)]
        missing, late = profile.missing, profile.missing + profile.late
        self._known = [number for number, fate in enumerate(fates) if fate >= late]
        self._late = [number for number, fate in enumerate(fates) if missing <= fate < late]
        # the first course sells a few times what one in the middle does
        weights = [1.0 / (number + 10) for number in range(profile.courses)]
        promoted = [weight * BOOST if number < PROMOTED else weight for number, weight in enumerate(weights)]
        self._steady, self._promoted = list(accumulate(weights)), list(accumulate(promoted))
        self._made = 0
        self._broken = 0

    @property
    def swell(self) -> float:
        """How many times the lines of the morning all courses together sell during the promotion."""
        return self._promoted[-1] / self._steady[-1]

    @property
    def promoted(self) -> tuple[str, ...]:
        """The ids of the promoted courses."""
        return tuple(self._ids[:PROMOTED])

    def opening(self) -> Iterator[SampleRecord]:
        """The catalog in the morning."""
        return (self._row(number, f"Course {number}") for number in self._known)

    def midst(self) -> Iterator[SampleRecord]:
        """What the catalog brings in the midst of the promotion: the late rows, and another title."""
        yield from (self._row(number, f"Course {number}") for number in self._late)
        yield self._row(0, "Course 0, renamed")

    def line(self, *, promoted: bool) -> Iterator[SampleRecord]:
        """The next line, as often as it is sent."""
        rnd, profile = self._random, self._profile
        cumulative = self._promoted if promoted else self._steady
        number = bisect(cumulative, rnd.random() * cumulative[-1], 0, len(cumulative) - 1)
        order, of_order = divmod(self._made, _LINES_PER_ORDER)
        self._made += 1
        now_ms = self._now_ms()
        key = LineKey(f"promotion-{profile.seed}-{order}", f"line-{of_order + 1}")
        line = PurchaseLine(
            order_id=key.order_id,
            line_id=key.line_id,
            course_id=self._ids[number],
            unit_price_cents=self._prices[number],
            quantity=1 + rnd.randrange(3),
            line_type=REFUND if rnd.random() < profile.refunds else SALE,
            event_time=now_ms,
        )
        fate = rnd.random()
        value = self._encode(self._break(line) if fate < profile.broken else line)
        if profile.broken <= fate < profile.broken + profile.undecodable:
            value = value[:_TORN]
        record = SampleRecord(False, self._encode(key), value, now_ms)
        yield record
        if rnd.random() < profile.duplicates:
            yield record

    def _break(self, line: PurchaseLine) -> PurchaseLine:
        self._broken += 1
        if self._broken % 2:
            return msgspec.structs.replace(line, line_type=_UNKNOWN_TYPE)
        return msgspec.structs.replace(line, quantity=-line.quantity)

    def _row(self, number: int, title: str) -> SampleRecord:
        return SampleRecord(True, self._ids[number].encode(), self._encode(Course(title, active=True)), self._now_ms())


def promotion(profile: Profile, now_ms: Callable[[], int]) -> Iterator[SampleRecord]:
    """The records of the whole day in the order to send them; ``now_ms`` as in :class:`Promotion`."""
    day = Promotion(profile, now_ms)
    yield from day.opening()
    morning, evening = int(profile.lines * _MORNING), int(profile.lines * _EVENING)
    midst = (morning + evening) // 2
    for number in range(profile.lines):
        if number == midst:
            yield from day.midst()
        yield from day.line(promoted=morning <= number < evening)
