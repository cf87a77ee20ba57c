"""The totals as readers are meant to read them: the latest record of each course, committed ones only."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from course_revenue.model import Revenue
from headrace.serdes import JsonDeserializer, StringDeserializer
from headrace.topics import LatestByKey

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from course_revenue.formats import Formats
    from course_revenue.settings import Settings


def open_totals(
    bootstrap_servers: str,
    settings: Settings,
    *,
    client: Mapping[str, Any] | None = None,
    values: Formats | None = None,
) -> LatestByKey[str, Revenue]:
    """The output topic as a table, nothing read yet.

    Args:
        bootstrap_servers: ``host:port`` list.
        settings: the topic's name.
        client: more librdkafka settings, such as security.
        values: how totals are written; None is JSON.

    Raises:
        MissingSourceTopicException: the output topic does not exist.
    """
    value = JsonDeserializer(Revenue) if values is None else values.revenue.deserializer
    return LatestByKey(bootstrap_servers, settings.output, StringDeserializer(), value, client=client)


def money(cents: int) -> str:
    """Cents for a person: ``-1,234.05``. Exact for any size."""
    sign, cents = ("-", -cents) if cents < 0 else ("", cents)
    return f"{sign}{cents // 100:,}.{cents % 100:02d}"


def event_time(epoch_ms: int) -> str:
    """An event time in UTC, to the second; the bare number where the calendar ends."""
    try:
        return datetime.fromtimestamp(epoch_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return str(epoch_ms)


def event_time_ms(epoch_ms: int) -> str:
    """A time in UTC, to the millisecond; the bare number where the calendar ends."""
    to_the_second = event_time(epoch_ms // 1000 * 1000)
    return str(epoch_ms) if to_the_second.lstrip("-").isdecimal() else f"{to_the_second}.{epoch_ms % 1000:03d}"


def on_one_line(text: str) -> str:
    """A text of a topic for a table on a screen: tabs, line ends and what moves a cursor are escaped."""
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def total_lines(totals: Mapping[str, Revenue]) -> Iterator[str]:
    """A header and a line for each course, tab separated, sorted by course id."""
    yield "course_id\tnet_cents\tline_count\tdimension_missing\tupdated_event_time\tupdated_utc"
    for course, total in sorted(totals.items()):
        missing = str(total.dimension_missing).lower()
        course, when = on_one_line(course), event_time(total.updated_event_time)
        yield f"{course}\t{total.net_cents}\t{total.line_count}\t{missing}\t{total.updated_event_time}\t{when}"


def summary(totals: Mapping[str, Revenue]) -> str:
    """All courses on one line."""
    lines = sum(total.line_count for total in totals.values())
    net = sum(total.net_cents for total in totals.values())
    flagged = sum(total.dimension_missing for total in totals.values())
    return f"{len(totals):,} courses, {lines:,} lines, net {money(net)}, {flagged:,} without a catalog row"
