"""A sample of purchase lines and courses, the same for the same seed.

It holds what makes the job's life hard: one hot course, refunds, lines that come before their course's catalog row, and
courses that never get one.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from course_revenue.model import REFUND, SALE, Course, LineKey, PurchaseLine

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST_EVENT_TIME_MS: Final = 1_767_225_600_000
"""2026-01-01T00:00:00Z, the event time of the first line."""

_LINE_EVERY_MS: Final = 10
_LINES_PER_ORDER: Final = 3


@dataclass(frozen=True, slots=True)
class SampleSize:
    """How much is made, and of what. Shares are between 0 and 1.

    ``late`` is the share of courses whose catalog row comes only after half of the lines; ``missing`` the share of
    those that get none; ``hot`` the share of lines that go to one course; ``duplicates`` the share of lines that are
    sent twice.
    """

    lines: int = 100_000
    courses: int = 1_000
    refunds: float = 0.10
    late: float = 0.05
    missing: float = 0.02
    hot: float = 0.20
    duplicates: float = 0.0
    seed: int = 1


class SampleRecord(NamedTuple):
    """A record to send: to the courses topic or to the lines topic."""

    is_course: bool
    key: bytes
    value: bytes
    timestamp_ms: int


def course_id(number: int) -> str:
    """The id of the sample's course ``number``, counted from 0."""
    return f"course-{number:06d}"


def sample(size: SampleSize) -> Iterator[SampleRecord]:
    """The records in the order to send them: catalog rows, half of the lines, the late rows, the other half."""
    rnd = random.Random(size.seed)
    encode = msgspec.json.Encoder().encode
    # the hot course has its catalog row from the start
    fates = [1.0, *(rnd.random() for _ in range(size.courses - 1))]
    prices = [500 + 100 * rnd.randrange(200) for _ in range(size.courses)]
    # the hot course first, then fewer and fewer lines for each
    cumulative = list(accumulate(1.0 / (rank + 1) for rank in range(size.courses)))
    ids = [course_id(number) for number in range(size.courses)]

    def row(number: int, timestamp_ms: int) -> SampleRecord:
        value = encode(Course(f"Course {number}", active=True))
        return SampleRecord(True, ids[number].encode(), value, timestamp_ms)

    for number, fate in enumerate(fates):
        if fate >= size.missing + size.late:
            yield row(number, FIRST_EVENT_TIME_MS - 1000)
    half = size.lines // 2
    for i in range(size.lines):
        event_time = FIRST_EVENT_TIME_MS + i * _LINE_EVERY_MS
        if i == half:
            for number, fate in enumerate(fates):
                if size.missing <= fate < size.missing + size.late:
                    yield row(number, event_time)
        number = 0 if rnd.random() < size.hot else rnd.choices(range(size.courses), cum_weights=cumulative)[0]
        key = LineKey(f"order-{size.seed}-{i // _LINES_PER_ORDER}", f"line-{i % _LINES_PER_ORDER + 1}")
        line = PurchaseLine(
            order_id=key.order_id,
            line_id=key.line_id,
            course_id=ids[number],
            unit_price_cents=prices[number],
            quantity=1 + rnd.randrange(3),
            line_type=REFUND if rnd.random() < size.refunds else SALE,
            event_time=event_time,
        )
        record = SampleRecord(False, encode(key), encode(line), event_time)
        yield record
        if size.duplicates and rnd.random() < size.duplicates:
            yield record
