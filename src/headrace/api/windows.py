"""Windows of time: their bounds, the keys that carry them, and how records are put into them.

Times are epoch milliseconds, lengths of time are milliseconds or a :class:`datetime.timedelta`. Sources:
``org.apache.kafka.streams.kstream.{Window,Windowed,TimeWindows,SlidingWindows,SessionWindows,UnlimitedWindows,
EmitStrategy}`` and ``kstream.internals.{TimeWindow,SessionWindow,UnlimitedWindow}`` (4.4).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

K = TypeVar("K")

MAX_TIMESTAMP: Final = 2**63 - 1
"""The greatest time that Kafka can write: the end of an unlimited window."""

_LEAST: Final = -(2**63)
_MILLISECOND: Final = timedelta(milliseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

Duration: TypeAlias = "int | timedelta"
"""A length of time: milliseconds or a timedelta, of which whole milliseconds count."""


def duration_ms(value: Duration, name: str) -> int:
    """A length of time in milliseconds.

    Args:
        value: Milliseconds or a timedelta.
        name: What it is, for the error.

    Raises:
        TypeError: It is neither.
        ValueError: It does not fit into 64 bits.
    """
    if isinstance(value, timedelta):
        return value // _MILLISECOND
    if type(value) is not int:
        raise TypeError(f"{name} must be an int of milliseconds or a timedelta, not {value!r}")
    if not -MAX_TIMESTAMP - 1 <= value <= MAX_TIMESTAMP:
        raise ValueError(f"{name} is {value} ms, which does not fit into 64 bits")
    return value


def wrapped(time: int) -> int:
    """A sum or difference of times as 64 bits hold it: what is too great begins again at the negative end.

    Near the greatest time the Java library computes with such numbers, and what it does with a record follows from
    them.
    """
    return time if _LEAST <= time <= MAX_TIMESTAMP else (time - _LEAST) % 2**64 + _LEAST


def _not_negative(value: int, what: str) -> None:
    if value < 0:
        raise ValueError(f"{what} must not be negative, but it is {value} ms")


@dataclass(frozen=True, slots=True)
class Window:
    """A span of time on the epoch. Two windows are equal when their class and both bounds are.

    Attributes:
        start: First millisecond.
        end: The bound above; whether it belongs to the window is a matter of the subclass.

    Raises:
        ValueError: ``start`` is negative, or ``end`` is less than ``start``.
    """

    start: int
    end: int

    def __post_init__(self) -> None:
        if self.start < 0:
            raise ValueError(f"a window must not start before 0, but this one starts at {self.start}")
        if self.end < self.start:
            raise ValueError(
                f"a window must not end before it starts, but this one goes from {self.start} to {self.end}"
            )

    def overlap(self, other: Window) -> bool:
        """Whether the two have a moment in common.

        Raises:
            ValueError: ``other`` is of another class.
        """
        raise NotImplementedError

    def _check_same(self, other: Window) -> None:
        if type(self) is not type(other):
            raise ValueError(f"a {type(self).__name__} cannot be compared with a {type(other).__name__}")


@dataclass(frozen=True, slots=True)
class TimeWindow(Window):
    """A window of fixed size. ``end`` is outside, except for sliding windows, which have both bounds inside.

    Raises:
        ValueError: ``start`` is negative, or ``end`` is not greater than it.
    """

    def __post_init__(self) -> None:
        if self.start < 0:
            raise ValueError(f"a window must not start before 0, but this one starts at {self.start}")
        if self.end <= self.start:
            raise ValueError(
                f"a time window must end after it starts, but this one goes from {self.start} to {self.end}"
            )

    def overlap(self, other: Window) -> bool:
        """See :class:`Window`."""
        self._check_same(other)
        return self.start < other.end and other.start < self.end


@dataclass(frozen=True, slots=True)
class SessionWindow(Window):
    """From the first to the last record of a session, both inside."""

    def overlap(self, other: Window) -> bool:
        """See :class:`Window`."""
        self._check_same(other)
        return self.start <= other.end and other.start <= self.end


@dataclass(frozen=True, slots=True)
class UnlimitedWindow(Window):
    """From its start on, for ever."""

    end: int = MAX_TIMESTAMP

    def overlap(self, other: Window) -> bool:
        """See :class:`Window`: always, as neither ends."""
        self._check_same(other)
        return True


@dataclass(frozen=True, slots=True)
class Windowed(Generic[K]):
    """The key of a windowed table: a record's key with the window that it fell into. Prints as ``[key@start/end]``."""

    key: K
    window: Window

    def __str__(self) -> str:
        return f"[{self.key}@{self.window.start}/{self.window.end}]"


class Windows(Protocol):
    """Windows whose bounds follow from the record's time alone, not from other records."""

    @property
    def size_ms(self) -> int:
        """Length of each window."""
        ...

    @property
    def grace_ms(self) -> int:
        """How long after its end a window takes late records."""
        ...

    def windows_for(self, timestamp: int) -> Sequence[Window]:
        """The windows that a record of this time is in, by start."""
        ...


@dataclass(frozen=True, slots=True)
class TimeWindows:
    """Tumbling windows (one after the other) or hopping ones (overlapping), aligned to the epoch.

    A window takes records with ``start <= time < end``, and late ones until ``grace_ms`` after its end; a record that
    is later still is dropped and counted.

    Attributes:
        size_ms: Length of a window.
        advance_ms: From one window's start to the next one's; equal to the size for tumbling windows.
        grace_ms: How long after its end a window takes late records.

    Raises:
        ValueError: The size is not positive, the advance is not in ``1 … size_ms``, or the grace is negative.

    Example:
        >>> TimeWindows.of_size_with_no_grace(10).advance_by(5).windows_for(12)
        (TimeWindow(start=5, end=15), TimeWindow(start=10, end=20))
    """

    size_ms: int
    advance_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        if self.size_ms <= 0:
            raise ValueError(f"the size of windows must be greater than 0, but it is {self.size_ms} ms")
        if not 0 < self.advance_ms <= self.size_ms:
            raise ValueError(
                f"windows of {self.size_ms} ms must advance by more than 0 and at most their size, "
                f"but the advance is {self.advance_ms} ms"
            )
        _not_negative(self.grace_ms, "the grace period of windows")

    @staticmethod
    def of_size_with_no_grace(size: Duration) -> TimeWindows:
        """Tumbling windows that take no record once stream time has reached their end."""
        return TimeWindows.of_size_and_grace(size, 0)

    @staticmethod
    def of_size_and_grace(size: Duration, after_window_end: Duration) -> TimeWindows:
        """Tumbling windows that take late records for a while after their end."""
        size_ms = duration_ms(size, "size")
        return TimeWindows(size_ms, size_ms, duration_ms(after_window_end, "after_window_end"))

    def advance_by(self, advance: Duration) -> TimeWindows:
        """Hopping windows: one starts every ``advance``, which is at most the size."""
        return replace(self, advance_ms=duration_ms(advance, "advance"))

    def windows_for(self, timestamp: int) -> tuple[TimeWindow, ...]:
        """The windows that a record of this time is in, by start.

        Raises:
            ValueError: One of them would end after the greatest time.
        """
        size, advance = self.size_ms, self.advance_ms
        if timestamp > MAX_TIMESTAMP - size and timestamp // advance * advance > MAX_TIMESTAMP - size:
            raise ValueError(
                f"a window of {size} ms that takes a record at {timestamp} would end after the greatest time"
            )
        first = max(0, timestamp - size + advance) // advance * advance
        return tuple(TimeWindow(start, start + size) for start in range(first, timestamp + 1, advance))


@dataclass(frozen=True, slots=True)
class SlidingWindows:
    """Windows that records open: one that ends with each record, one that starts just after each.

    Both bounds are inside: two records are in one window when their times differ by at most ``time_difference_ms``.

    Attributes:
        time_difference_ms: Greatest difference of two times in one window; its end minus its start.
        grace_ms: How long after its end a window takes late records.

    Raises:
        ValueError: One of them is negative.
    """

    time_difference_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        _not_negative(self.time_difference_ms, "the time difference of sliding windows")
        _not_negative(self.grace_ms, "the grace period of sliding windows")

    @staticmethod
    def of_time_difference_with_no_grace(time_difference: Duration) -> SlidingWindows:
        """Windows that take no record once stream time has passed their end."""
        return SlidingWindows.of_time_difference_and_grace(time_difference, 0)

    @staticmethod
    def of_time_difference_and_grace(time_difference: Duration, after_window_end: Duration) -> SlidingWindows:
        """Windows that take late records for a while after their end."""
        return SlidingWindows(
            duration_ms(time_difference, "time_difference"), duration_ms(after_window_end, "after_window_end")
        )


@dataclass(frozen=True, slots=True)
class SessionWindows:
    """Sessions of activity: records of a key are in one session while no two neighbours are further apart than a gap.

    A record may join sessions that were apart: they become one.

    Attributes:
        gap_ms: Greatest distance of two neighbouring records in a session.
        grace_ms: How long after its end a session takes late records.

    Raises:
        ValueError: One of them is negative.
    """

    gap_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        _not_negative(self.gap_ms, "the inactivity gap of sessions")
        _not_negative(self.grace_ms, "the grace period of sessions")

    @staticmethod
    def of_inactivity_gap_with_no_grace(inactivity_gap: Duration) -> SessionWindows:
        """Sessions that take no record once stream time has passed their end by more than the gap."""
        return SessionWindows.of_inactivity_gap_and_grace(inactivity_gap, 0)

    @staticmethod
    def of_inactivity_gap_and_grace(inactivity_gap: Duration, after_window_end: Duration) -> SessionWindows:
        """Sessions that take late records for a while after their end."""
        return SessionWindows(
            duration_ms(inactivity_gap, "inactivity_gap"), duration_ms(after_window_end, "after_window_end")
        )


@dataclass(frozen=True, slots=True)
class UnlimitedWindows:
    """One window that never ends. Records before its start are in none and are left out silently.

    Attributes:
        start_ms: Where it starts (epoch ms).

    Raises:
        ValueError: The start is negative.
    """

    start_ms: int = 0

    def __post_init__(self) -> None:
        if self.start_ms < 0:
            raise ValueError(f"the start of unlimited windows must not be negative, but it is {self.start_ms}")

    @staticmethod
    def of() -> UnlimitedWindows:
        """The window from the epoch on."""
        return UnlimitedWindows()

    def start_on(self, start: int | datetime) -> UnlimitedWindows:
        """The window from a moment on: epoch milliseconds or an aware datetime."""
        if isinstance(start, datetime):
            if start.tzinfo is None:
                raise ValueError(f"start is {start}, which has no time zone: it says no moment")
            start = (start - _EPOCH) // _MILLISECOND
        return UnlimitedWindows(duration_ms(start, "start"))

    @property
    def size_ms(self) -> int:
        """Longer than anything."""
        return MAX_TIMESTAMP

    @property
    def grace_ms(self) -> int:
        """None: nothing is late for a window that does not end."""
        return 0

    def windows_for(self, timestamp: int) -> tuple[UnlimitedWindow, ...]:
        """The window, or nothing for a time before its start."""
        return (UnlimitedWindow(self.start_ms),) if timestamp >= self.start_ms else ()


class EmitStrategy(Enum):
    """When a windowed aggregation gives its results (KIP-825)."""

    ON_WINDOW_UPDATE = "on_window_update"
    """At every update of a window (the default)."""
    ON_WINDOW_CLOSE = "on_window_close"
    """Once for each window, when stream time has passed its end and its grace period."""

    @staticmethod
    def on_window_update() -> EmitStrategy:
        """At every update of a window."""
        return EmitStrategy.ON_WINDOW_UPDATE

    @staticmethod
    def on_window_close() -> EmitStrategy:
        """Once for each window, when it takes no more records."""
        return EmitStrategy.ON_WINDOW_CLOSE
