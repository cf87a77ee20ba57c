"""Points and lengths of time, as users give them: numbers in milliseconds, or Python's own types."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from operator import index
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
        ValueError: A datetime has no time zone, or it is more than 64 bits hold.
        TypeError: It is something else, such as the seconds of ``time.time()``.
    """
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise ValueError("a timestamp given as datetime must have a time zone")
        return (moment - _EPOCH) // _MILLISECOND
    if not isinstance(moment, int):  # pyright: ignore[reportUnnecessaryIsInstance]  # a user's value
        raise TypeError(f"a timestamp is an int of milliseconds or a datetime, not {moment!r}")
    return _of_64_bits(moment, "a timestamp")


def milliseconds(span: Span) -> int:
    """Milliseconds of a length of time.

    Raises:
        TypeError: It is neither an int nor a timedelta.
        ValueError: It is more than 64 bits hold.
    """
    if isinstance(span, timedelta):
        return span // _MILLISECOND
    if not isinstance(span, int):  # pyright: ignore[reportUnnecessaryIsInstance]  # a user's value
        raise TypeError(f"a length of time is an int of milliseconds or a timedelta, not {span!r}")
    return _of_64_bits(span, "a length of time")


def whole_ms(timestamp: int, what: str) -> int:
    """A timestamp that a program gave for a record or a row, as a plain int.

    Args:
        timestamp: Epoch milliseconds. Whatever is a whole number may stand for an int.
        what: Whose time it is, for the error.

    Raises:
        TypeError: It is something else, such as the product of ``time.time()``.
        ValueError: It is more than 64 bits hold.
    """
    try:
        whole = index(timestamp)
    except TypeError:
        raise TypeError(f"{what}: a timestamp is an int of milliseconds, not {timestamp!r}") from None
    return _of_64_bits(whole, f"{what}: a timestamp")


def _of_64_bits(number: int, what: str) -> int:
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(f"{what} must not be greater than 64 bits hold, but is {number}")
    return number
