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
        TypeError: It is something else, such as the seconds of ``time.time()``.
    """
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise ValueError("a timestamp given as datetime must have a time zone")
        return (moment - _EPOCH) // _MILLISECOND
    if not isinstance(moment, int):  # pyright: ignore[reportUnnecessaryIsInstance]  # a user's value
        raise TypeError(f"a timestamp is an int of milliseconds or a datetime, not {moment!r}")
    return moment


def milliseconds(span: Span) -> int:
    """Milliseconds of a length of time.

    Raises:
        TypeError: It is neither an int nor a timedelta.
    """
    if isinstance(span, timedelta):
        return span // _MILLISECOND
    if not isinstance(span, int):  # pyright: ignore[reportUnnecessaryIsInstance]  # a user's value
        raise TypeError(f"a length of time is an int of milliseconds or a timedelta, not {span!r}")
    return span
