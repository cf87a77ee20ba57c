"""Windows: their checks, and which ones a record is in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from headrace import (
    Record,
    SessionWindow,
    SessionWindows,
    SlidingWindows,
    TimeWindow,
    TimeWindows,
    UnlimitedWindow,
    UnlimitedWindows,
    Window,
    Windowed,
)
from headrace.api.windows import MAX_TIMESTAMP, wrapped


def _starts(windows: TimeWindows, timestamp: int) -> list[int]:
    return [window.start for window in windows.windows_for(timestamp)]


def test_a_tumbling_window_ends_where_the_next_begins() -> None:
    windows = TimeWindows.of_size_with_no_grace(10)
    assert windows.windows_for(9) == (TimeWindow(0, 10),)
    assert windows.windows_for(10) == (TimeWindow(10, 20),)


def test_hopping_windows_never_start_before_the_epoch() -> None:
    windows = TimeWindows.of_size_and_grace(12, 3).advance_by(5)
    assert [_starts(windows, t) for t in (0, 5, 11, 12, 14)] == [[0], [0, 5], [0, 5, 10], [5, 10], [5, 10]]


def test_a_timedelta_says_the_same_as_milliseconds() -> None:
    assert TimeWindows.of_size_and_grace(timedelta(seconds=1), timedelta(microseconds=2999)) == TimeWindows(
        1000, 1000, 2
    )
    assert SlidingWindows.of_time_difference_with_no_grace(timedelta(minutes=1)) == SlidingWindows(60_000, 0)
    assert SessionWindows.of_inactivity_gap_and_grace(5, timedelta(0)) == SessionWindows(5, 0)


def test_an_unlimited_window_starts_at_a_moment() -> None:
    windows = UnlimitedWindows.of().start_on(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))
    assert windows.windows_for(999) == ()
    assert windows.windows_for(1000) == (UnlimitedWindow(1000),)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: TimeWindows.of_size_with_no_grace(0), "0 ms"),
        (lambda: TimeWindows.of_size_and_grace(10, -1), "-1 ms"),
        (lambda: TimeWindows.of_size_with_no_grace(10).advance_by(11), "11 ms"),
        (lambda: TimeWindows.of_size_with_no_grace(10).advance_by(0), "0 ms"),
        (lambda: TimeWindows.of_size_with_no_grace(2**63), "64 bits"),
        (lambda: SlidingWindows.of_time_difference_with_no_grace(-2), "-2 ms"),
        (lambda: SlidingWindows.of_time_difference_and_grace(2, -3), "-3 ms"),
        (lambda: SessionWindows.of_inactivity_gap_with_no_grace(-1), "-1 ms"),
        (lambda: SessionWindows.of_inactivity_gap_and_grace(1, -1), "-1 ms"),
        (lambda: UnlimitedWindows.of().start_on(-5), "-5"),
        (lambda: UnlimitedWindows.of().start_on(datetime(2020, 1, 1)), "time zone"),  # noqa: DTZ001  # the mistake
        (lambda: TimeWindow(5, 5), "5 to 5"),
        (lambda: TimeWindow(-1, 5), "-1"),
        (lambda: SessionWindow(6, 5), "6 to 5"),
        (lambda: TimeWindows.of_size_with_no_grace(10).windows_for(2**63 - 1), str(2**63 - 1)),
        (lambda: TimeWindows.of_size_with_no_grace(10).advance_by(3).windows_for(2**63 - 8), str(2**63 - 8)),
        (lambda: Record("k", "v", 2**63), "64 bits"),
        (lambda: Record("k", "v", -1), "negative"),
    ],
)
def test_an_error_names_the_value(make: object, said: str) -> None:
    assert callable(make)
    with pytest.raises(ValueError, match=said):
        make()


@pytest.mark.parametrize("value", [1.5, None, "1", True])
def test_a_length_of_time_is_a_number_or_a_timedelta(value: object) -> None:
    with pytest.raises(TypeError, match="size"):
        TimeWindows.of_size_with_no_grace(value)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # the mistake


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        (TimeWindow(0, 10), TimeWindow(10, 20), False),
        (TimeWindow(0, 10), TimeWindow(9, 20), True),
        (SessionWindow(0, 10), SessionWindow(10, 20), True),
        (SessionWindow(0, 10), SessionWindow(11, 20), False),
        (UnlimitedWindow(0), UnlimitedWindow(100), True),
    ],
)
def test_overlap(one: Window, other: Window, together: bool) -> None:
    assert one.overlap(other) is together
    assert other.overlap(one) is together


def test_windows_of_different_kinds_are_never_equal() -> None:
    assert len({TimeWindow(0, 1), SessionWindow(0, 1)}) == 2
    with pytest.raises(ValueError, match="TimeWindow cannot be compared with a SessionWindow"):
        TimeWindow(0, 1).overlap(SessionWindow(0, 1))


def test_a_windowed_key_is_a_key() -> None:
    rows = {Windowed("a", TimeWindow(0, 10)): 1}
    assert rows[Windowed("a", TimeWindow(0, 10))] == 1
    assert Windowed("a", TimeWindow(0, 11)) not in rows
    assert str(Windowed("a", TimeWindow(0, 10))) == "[a@0/10]"


def test_the_last_windows_before_the_greatest_time() -> None:
    # 2**63 - 1 is 7 more than a multiple of 10
    assert _starts(TimeWindows.of_size_with_no_grace(10), MAX_TIMESTAMP - 8) == [MAX_TIMESTAMP - 17]
    assert _starts(TimeWindows.of_size_with_no_grace(10).advance_by(5), MAX_TIMESTAMP - 13) == [
        MAX_TIMESTAMP - 22,
        MAX_TIMESTAMP - 17,
    ]


@pytest.mark.parametrize(
    ("time", "held"),
    [
        (5, 5),
        (-1, -1),
        (MAX_TIMESTAMP, MAX_TIMESTAMP),
        (MAX_TIMESTAMP + 1, -(2**63)),
        (-(2**63), -(2**63)),
        (-(2**63) - 1, MAX_TIMESTAMP),
        (3 * MAX_TIMESTAMP, 2**63 - 3),
    ],
)
def test_a_sum_of_times_in_64_bits(time: int, held: int) -> None:
    assert wrapped(time) == held
