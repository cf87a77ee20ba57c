"""What an instance does with a record decides whether it is skipped."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

import pytest
from course_revenue import skipping
from course_revenue.errors import RefusedError
from course_revenue.headers import Place
from course_revenue.skipping import SkipRequest, bring_before

from headrace.records import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

REQUEST = SkipRequest("app", Place("in", 0, 100), "torn", "anna", {"in"})
AT: Any = SimpleNamespace(streams_config=SimpleNamespace(admin_config=dict))


class Job:
    """Its offset after each look, by run; None is the run's end."""

    def __init__(self, *runs: list[int]) -> None:
        self._runs = [iter([*run, None]) for run in runs]
        self._now: Any = iter(())
        self._offset = 50
        self.pid: int | None = None
        self.started = self.stopped_alive = 0

    def __enter__(self) -> Self:
        self.started += 1
        self._now, self.pid = self._runs[self.started - 1], 1
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped_alive += self.pid is not None
        self.pid = None

    def look(self, _group: str) -> dict[TopicPartition, OffsetAndMetadata]:
        offset = next(self._now, None)
        if offset is None:
            self.pid = None
        else:
            self._offset = offset
        return {TopicPartition("in", 0): OffsetAndMetadata(self._offset, "")}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[[Job], None]:
    def bring(job: Any) -> None:
        monkeypatch.setattr(skipping, "TopicAdmin", lambda _: SimpleNamespace(group_offsets=job.look, close=int))
        monkeypatch.setattr(skipping, "_LOOK_S", 0)
        bring_before(job, REQUEST, AT)

    return bring


def test_a_record_that_the_job_gets_past_after_a_while_is_not_skipped(run: Callable[[Job], None]) -> None:
    """It was taken for one that stops the job as soon as the job stood before it: it may not have been read yet."""
    job = Job([60, 80, 100, 100, 101])
    with pytest.raises(RefusedError, match="does not stop the job"):
        run(job)
    assert job.started == 1


def test_the_job_has_ended_by_the_record_itself(run: Callable[[Job], None]) -> None:
    job = Job([60, 80, 100, 100])
    run(job)
    assert (job.started, job.stopped_alive) == (1, 0)


def test_other_records_may_end_it_before_as_long_as_it_comes_nearer(run: Callable[[Job], None]) -> None:
    job = Job([60], [70, 70], [100])
    run(job)
    assert (job.started, job.stopped_alive) == (3, 0)
    stuck = Job([60], [60], [100])
    run(stuck)
    assert stuck.started == 2
