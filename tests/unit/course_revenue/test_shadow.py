"""What a shadow is called, and the file that it leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from course_revenue.model import Revenue
from course_revenue.options import target
from course_revenue.rebuilding import job_of
from course_revenue.shadow import shadow_of, what_differs, write_config

if TYPE_CHECKING:
    from pathlib import Path

COMMON = "bootstrap.servers=k:9092\nprocessing.guarantee=exactly_once_v2\n"


def config(directory: Path, text: str) -> Path:
    file = directory / "app.properties"
    file.write_text(text, "utf-8")
    return file


@pytest.mark.parametrize(
    ("application_id", "becomes", "suffix"),
    [("course-revenue", "course-revenue-v2", "v2"), ("course-revenue-v9", "course-revenue-v10", "v10")],
)
def test_names_follow_from_the_jobs(tmp_path: Path, application_id: str, becomes: str, suffix: str) -> None:
    made = shadow_of(config(tmp_path, f"application.id={application_id}\n{COMMON}"), ())
    assert made.application_id == becomes
    assert made.beside.settings.output == f"commerce.course_revenue.{suffix}"
    assert made.beside.settings.lines == made.live.settings.lines
    assert made.own_topics() == [f"commerce.course_revenue.{suffix}"]
    assert {made.live.application_id, made.live.settings.output} == {application_id, "commerce.course_revenue"}


def test_a_job_that_rejects_has_a_rejected_topic_in_its_shadow_and_what_it_may_not_share_is_not_shared(
    tmp_path: Path,
) -> None:
    text = "course.revenue.on.broken.line=reject\nheadrace.http.port=8080\ngroup.instance.id=one\n"
    made = shadow_of(config(tmp_path, f"application.id=a\n{COMMON}{text}"), ("commit.interval.ms=500",))
    assert made.own_topics() == ["commerce.course_revenue.v2", "commerce.course_revenue.rejected.v2"]
    given = made.beside.properties
    assert (given["headrace.http.port"], given["group.instance.id"], given["commit.interval.ms"]) == (
        "0",
        "a-v2",
        "500",
    )


def test_the_file_differs_in_the_id_alone(tmp_path: Path) -> None:
    file = config(tmp_path, f"# application.id=old\n  application.id : a\n{COMMON}\nlast=1")
    new = write_config(shadow_of(file, ()), file)
    assert new == tmp_path / "app-v2.properties"
    assert new.read_text("utf-8") == f"# application.id=old\napplication.id=a-v2\n{COMMON}\nlast=1"
    assert write_config(shadow_of(config(tmp_path, COMMON), ("application.id=a",)), file) is None


def test_the_file_may_be_read_by_nobody_who_may_not_read_the_old_one(tmp_path: Path) -> None:
    """A file with a password that only its owner may read had a copy for everybody."""
    file = config(tmp_path, f"application.id=a\n{COMMON}")
    for mode in (0o600, 0o640):
        file.chmod(mode)
        new = write_config(shadow_of(file, ()), file)
        assert new is not None
        assert new.stat().st_mode & 0o777 == mode


@pytest.mark.parametrize("dedupe", ["off", "line-key"])
def test_a_rebuild_forgets_the_lines_that_were_remembered_also_while_none_are(tmp_path: Path, dedupe: str) -> None:
    """Turned off, rebuilt, turned on: lines of the former life would be left out of the new one's totals."""
    file = config(tmp_path, f"application.id=a\n{COMMON}course.revenue.dedupe={dedupe}\n")
    internal = job_of(target(file, None, None), "--config app.properties").request.internal_topics
    assert internal is not None
    assert "a-course-revenue-lines-changelog" in internal


def test_totals_that_differ_in_a_flag_or_a_time_alone_are_said_to() -> None:
    before = {
        "same": Revenue("same", 100, 1, False, 5),
        "flag": Revenue("flag", 100, 1, True, 5),
        "time": Revenue("time", 100, 1, False, 5),
        "more": Revenue("more", 100, 1, False, 5),
        "gone": Revenue("gone", 100, 1, False, 5),
    }
    wanted = {
        "same": Revenue("same", 100, 1, False, 5),
        "flag": Revenue("flag", 100, 1, False, 5),
        "time": Revenue("time", 100, 1, False, 6),
        "more": Revenue("more", 200, 2, False, 6),
        "new": Revenue("new", 1, 1, False, 1),
    }
    differing, put = what_differs(before, wanted)
    assert differing == {name: wanted.get(name) for name in ("flag", "gone", "more", "new", "time")}
    assert str(put) == (
        "5 totals that differed (2 in cents or lines, 1 in dimension_missing, 3 in updated_event_time,"
        " 1 of courses that have no line: removed)"
    )
    assert str(what_differs(wanted, wanted)[1]) == "0 totals that differed"
