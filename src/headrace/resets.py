"""Where to begin reading a partition for which nothing is committed (KIP-1106)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import ClassVar, Final

_PREFIX: Final = "by_duration:"
_DURATION: Final = re.compile(
    r"(?P<sign>[+-]?)P(?:(?P<days>[+-]?\d+)D)?"
    r"(?:T(?=[+-]?\d)(?:(?P<hours>[+-]?\d+)H)?(?:(?P<minutes>[+-]?\d+)M)?(?:(?P<seconds>[+-]?\d+(?:[.,]\d{0,9})?)S)?)?",
    re.IGNORECASE,
)


def iso_duration(text: str) -> timedelta:
    """The ISO-8601 duration of ``PnDTnHnMn.nS``, to the microsecond; any part may be left out or negative.

    Source: ``java.time.Duration.parse``.

    Raises:
        ValueError: The text has another form.
    """
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()[1:]):
        raise ValueError(f"'{text}' is not an ISO-8601 duration such as PT1H30M or P7D")
    sign, days, hours, minutes, seconds = found.groups(default="0")
    exact = Decimal(seconds.replace(",", "."))
    span = timedelta(days=int(days), hours=int(hours), minutes=int(minutes), microseconds=int(exact * 1_000_000))
    return -span if sign == "-" else span


@dataclass(frozen=True, slots=True)
class AutoOffsetReset:
    """A reset policy: one of the constants, or :meth:`by_duration`.

    Attributes:
        value: As in ``auto.offset.reset``: ``earliest``, ``latest``, ``none``, or ``by_duration:`` with an ISO-8601
            duration (``by_duration:PT1H30M``).
    """

    value: str

    EARLIEST: ClassVar[AutoOffsetReset]
    """The oldest record there is."""
    LATEST: ClassVar[AutoOffsetReset]
    """Only what is written from now on."""
    NONE: ClassVar[AutoOffsetReset]
    """Stop with an error."""

    def __post_init__(self) -> None:
        if self.value not in {"earliest", "latest", "none"}:
            _ = self.age

    @staticmethod
    def by_duration(age: timedelta) -> AutoOffsetReset:
        """Records written within the last ``age``, at the moment of the reset: by their timestamps.

        Raises:
            ValueError: ``age`` is negative.
        """
        if age < timedelta(0):
            raise ValueError(f"a reset by duration looks back, its duration must not be negative: {age}")
        seconds = age // timedelta(seconds=1) % 86_400
        fraction = f".{age.microseconds:06d}".rstrip("0") if age.microseconds else ""
        return AutoOffsetReset(f"{_PREFIX}P{age.days}DT{seconds}{fraction}S")

    @property
    def age(self) -> timedelta | None:
        """How far :meth:`by_duration` looks back; None for the other policies.

        Raises:
            ValueError: The text is no policy.
        """
        if not self.value.startswith(_PREFIX):
            if self.value in {"earliest", "latest", "none"}:
                return None
            raise ValueError(f"'{self.value}' is no reset policy: earliest, latest, none or by_duration:<ISO duration>")
        age = iso_duration(self.value.removeprefix(_PREFIX))
        if age < timedelta(0):
            raise ValueError(f"'{self.value}': a reset by duration looks back, its duration must not be negative")
        return age


AutoOffsetReset.EARLIEST = AutoOffsetReset("earliest")
AutoOffsetReset.LATEST = AutoOffsetReset("latest")
AutoOffsetReset.NONE = AutoOffsetReset("none")
