"""Options of joins, and of printing: their checks."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from headrace import Joined, JoinWindows, Printed, StreamJoined
from headrace.errors import TopologyException

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_a_window_goes_both_ways_until_one_is_changed() -> None:
    windows = JoinWindows.of_time_difference_and_grace(timedelta(seconds=1), 5)
    assert (windows.before_ms, windows.after_ms, windows.grace_ms, windows.size_ms) == (1000, 1000, 5, 2000)
    assert windows.before(0).size_ms == 1000
    assert windows.after(timedelta(milliseconds=-10)).size_ms == 990
    assert JoinWindows.of_time_difference_with_no_grace(0) == JoinWindows(0, 0, 0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: JoinWindows.of_time_difference_with_no_grace(-1),
        lambda: JoinWindows.of_time_difference_with_no_grace(5).before(-6),
        lambda: JoinWindows.of_time_difference_with_no_grace(2**62),
        lambda: JoinWindows.of_time_difference_and_grace(5, -1),
        lambda: JoinWindows.of_time_difference_with_no_grace(2**63),
        lambda: Joined.with_(grace_period=-1),
    ],
)
def test_windows_and_graces_that_are_negative_or_too_long_are_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match=r"negative|64 bits"):
        make()


def test_a_length_of_time_is_whole_milliseconds() -> None:
    with pytest.raises(TypeError, match="time_difference"):
        JoinWindows.of_time_difference_with_no_grace(1.5)  # type: ignore[arg-type]  # what is tested
    assert Joined.as_("x").with_grace_period(timedelta(seconds=2)).grace_ms == 2000


def test_names_of_joins_and_printers_are_checked() -> None:
    made: tuple[Callable[[str], Any], ...] = (
        StreamJoined.as_,
        StreamJoined.with_().with_name,
        Printed.to_sys_out().with_name,
    )
    for make in made:
        with pytest.raises(TopologyException, match="not allowed"):
            make("a b")


def test_logging_off_forgets_the_topic_settings() -> None:
    options: StreamJoined[str, str, str] = StreamJoined.as_("s").with_logging_enabled({"retention.ms": "1"})
    assert options.topic_config == {"retention.ms": "1"}
    assert options.with_logging_disabled().topic_config == {}


def test_a_file_to_print_to_is_emptied_at_once(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("old", encoding="utf-8")
    Printed.to_file(path)
    assert path.read_bytes() == b""


@pytest.mark.parametrize("path", ["", "  ", "missing/dir/lines"])
def test_a_file_that_cannot_be_written_is_refused(path: str, tmp_path: Path) -> None:
    with pytest.raises(TopologyException, match="file"):
        Printed.to_file(path if not path.strip() else tmp_path / path)
