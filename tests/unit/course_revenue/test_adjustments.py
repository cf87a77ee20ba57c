from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec
import pytest
from course_revenue.adjustments import Adjustment, Skipped, read_adjustments, record, skipped
from course_revenue.settings import Settings

from headrace.errors import ConfigException

if TYPE_CHECKING:
    from pathlib import Path


def adjustment(topic: str, offset: int = 7, app: str = "app", sha256: str | None = "ab") -> Adjustment:
    return Adjustment(
        at="2026-03-01T06:30:00+00:00",
        by="anna",
        application_id=app,
        topic=topic,
        partition=1,
        offset=offset,
        reason="no JSON",
        sha256=sha256,
    )


def test_an_adjustment_is_appended_once_as_a_line_of_json(tmp_path: Path) -> None:
    file = tmp_path / "books" / "adjustments.jsonl"
    assert read_adjustments(file) == []
    assert record(file, adjustment("t"))
    assert not record(file, adjustment("t"))
    assert record(file, adjustment("t", 8))
    assert read_adjustments(file) == [adjustment("t"), adjustment("t", 8)]
    # another record at the same place, of a topic that was made anew, would be skipped without a trace
    assert record(file, adjustment("t", sha256="cd"))
    assert len(read_adjustments(file)) == 3
    assert file.read_text().splitlines()[0] == (
        '{"at":"2026-03-01T06:30:00+00:00","by":"anna","application_id":"app","topic":"t","partition":1,"offset":7,'
        '"reason":"no JSON","sha256":"ab"}'
    )


def test_a_file_changed_by_hand_is_not_read_past(tmp_path: Path) -> None:
    file = tmp_path / "adjustments.jsonl"
    record(file, adjustment("t"))
    file.write_text(file.read_text() + '{"offset": "8"}\n')
    with pytest.raises(ConfigException, match="line 2 is not an adjustment"):
        read_adjustments(file)


def test_adjustments_of_lines_count_by_place_and_those_behind_the_repartition_by_hash() -> None:
    settings = Settings()
    known = [
        adjustment(settings.lines),
        adjustment(settings.courses),
        adjustment("app-X-repartition"),
        adjustment("app-X-repartition", 8),
        adjustment(settings.lines, 9, app="other"),
    ]
    assert skipped(known, settings, "app") == Skipped({(1, 7): frozenset({"ab"})}, Counter({"ab": 2}))


@pytest.mark.parametrize("cut", [1, 20, 100])
def test_a_line_that_was_cut_off_while_it_was_written_keeps_nobody_from_going_on(tmp_path: Path, cut: int) -> None:
    """A full disk, or a kill: nothing read the file any more, and it must not be edited."""
    file = tmp_path / "adjustments.jsonl"
    assert record(file, adjustment("t"))
    assert record(file, adjustment("t", 8))
    whole = file.read_bytes()
    file.write_bytes(whole[:-cut])
    assert read_adjustments(file) == [adjustment("t"), *([adjustment("t", 8)] if cut == 1 else [])]
    assert record(file, adjustment("t", 8)) == (cut > 1)
    assert record(file, adjustment("t", 9))
    assert file.read_bytes().startswith(whole)
    assert read_adjustments(file) == [adjustment("t", offset) for offset in (7, 8, 9)]


def test_a_last_line_without_an_end_that_somebody_wrote_is_neither_passed_over_nor_cut_off(tmp_path: Path) -> None:
    """An editor that writes no line end: the adjustment was passed over, and gone with the next one."""
    file = tmp_path / "adjustments.jsonl"
    assert record(file, adjustment("t"))
    whole = file.read_bytes()
    second = msgspec.json.encode(adjustment("t", 8))
    for last in (second.replace(b":8", b':"8"'), second + b" # by hand", second[:-3] + b"}", b"[1]", b'{"reason":"a}'):
        file.write_bytes(whole + last)
        with pytest.raises(ConfigException, match="line 2 is not an adjustment"):
            record(file, adjustment("t", 9))
        assert file.read_bytes() == whole + last
    file.write_bytes(whole + second + b"  ")
    assert record(file, adjustment("t", 9))
    assert read_adjustments(file) == [adjustment("t", offset) for offset in (7, 8, 9)]


def test_a_line_that_is_passed_over_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "adjustments.jsonl"
    assert record(file, adjustment("t"))
    file.write_bytes(file.read_bytes() + b'{"at":"2026')
    assert read_adjustments(file) == [adjustment("t")]
    assert f"{file} ends in 11 bytes of a line that was cut off" in caplog.text


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigException, match=r"adjustments file .* cannot be read: Is a directory"):
        read_adjustments(tmp_path)
