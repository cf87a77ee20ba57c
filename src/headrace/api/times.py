"""Points and lengths of time, as users give them: numbers in milliseconds, or Python's own types."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

Moment: TypeAlias = int | datetime
"""A point in time: epoch milliseconds or an aware datetime."""
Span: TypeAlias = int | timedelta
"""A length of time: milliseconds or a timedelta."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def epoch_ms(moment: Moment) -> int:
    """Epoch milliseconds of a point in time.

    Raises:
        ValueError: A datetime has no time zone.
    """
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise ValueError("a timestamp given as datetime must have a time zone")
        return (moment - _EPOCH) // _MILLISECOND
    return moment


def milliseconds(span: Span) -> int:
    """Milliseconds of a length of time."""
    return span // _MILLISECOND if isinstance(span, timedelta) else span
