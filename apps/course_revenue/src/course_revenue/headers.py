"""Headers that the product adds to records. Their values are UTF-8 text, numbers in decimal.

A rejected record has the producer's own headers, and behind them why it was rejected and where it lies in the input.
A replayed record in the input topic has the producer's own, where it lay when it was rejected, and where in the
rejected topic it was taken from. A mark in the rejected topic says that the totals were begun anew: what lies before
it in its partition was rejected by a job that is no more. Of a name that stands several times the last one counts,
unless it says otherwise.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from course_revenue.model import INT64_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.topics import TopicRecord

PREFIX: Final = "course-revenue."

REASON: Final = "course-revenue.reason"
SOURCE_TOPIC: Final = "course-revenue.source.topic"
SOURCE_PARTITION: Final = "course-revenue.source.partition"
SOURCE_OFFSET: Final = "course-revenue.source.offset"
REPLAYED_PARTITION: Final = "course-revenue.replayed.partition"
REPLAYED_OFFSET: Final = "course-revenue.replayed.offset"
REPLAYED_BY: Final = "course-revenue.replayed.by"
REBUILT: Final = "course-revenue.rebuilt"
"""The application id whose totals were begun anew."""
REBUILT_WITHOUT: Final = "course-revenue.rebuilt.without"
"""Beside it: TOPIC-PARTITION@OFFSET, where the input began then, of a partition without its first lines. Repeatable."""

_MAX_PARTITION: Final = 2**31 - 1
_LONGEST: Final = len(str(INT64_MAX))
_WRITTEN: Final = re.compile(r"(.+)-(\d{1,10})@(\d{1,19})", re.ASCII)


class Place(NamedTuple):
    """Where a record lies."""

    topic: str
    partition: int
    offset: int

    @classmethod
    def of(cls, text: str) -> Place | None:
        """What was written by ``str``; None when it is something else."""
        found = _WRITTEN.fullmatch(text)
        return None if found is None else cls(found[1], int(found[2]), int(found[3]))

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset}"


def source_headers(place: Place) -> list[tuple[str, bytes | None]]:
    """Headers that say where a record lies in the input."""
    return [
        (SOURCE_TOPIC, place.topic.encode()),
        (SOURCE_PARTITION, str(place.partition).encode()),
        (SOURCE_OFFSET, str(place.offset).encode()),
    ]


def producers_own(headers: Iterable[tuple[str, bytes | None]] | None) -> list[tuple[str, bytes | None]]:
    """The headers without those of the product."""
    return [header for header in headers or () if not header[0].startswith(PREFIX)]


def text(record: TopicRecord, name: str) -> str | None:
    """The last value of a header; None where there is none."""
    found = [value for key, value in record.headers or () if key == name and value is not None]
    return found[-1].decode(errors="replace") if found else None


def places(record: TopicRecord, name: str) -> list[Place]:
    """All values of a header that are places."""
    found = [Place.of(value.decode(errors="replace")) for key, value in record.headers or () if key == name and value]
    return [place for place in found if place is not None]


def number(record: TopicRecord, name: str) -> int | None:
    """The last value of a header as a number of an offset; None where there is none, or nothing that may be one."""
    found = text(record, name)
    if found is None or not found.isdecimal() or len(found) > _LONGEST:
        return None
    value = int(found)
    return value if value <= INT64_MAX else None


def source(record: TopicRecord) -> Place | None:
    """Where a rejected or replayed record lay in the input; None where its headers do not say."""
    topic = text(record, SOURCE_TOPIC)
    partition, offset = number(record, SOURCE_PARTITION), number(record, SOURCE_OFFSET)
    if topic is None or partition is None or offset is None or partition > _MAX_PARTITION:
        return None
    return Place(topic, partition, offset)
