"""An instance of a command's own, run until it has counted everything that is there.

Records that the job was moved past by hand stop that instance, too; each is passed again, by the adjustments file.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from course_revenue.errors import JobFailedError, RefusedError
from course_revenue.following import LOOK_S, JobOffsets, catch_up
from course_revenue.headers import Place
from course_revenue.progress import open_progress
from course_revenue.skipping import SkipRequest, skip
from headrace.cli.common import FAILED, note

if TYPE_CHECKING:
    from collections.abc import Callable

    from course_revenue.adjustments import Adjustment
    from course_revenue.following import Standing
    from course_revenue.jobs import JobProcess
    from course_revenue.options import Target
    from course_revenue.rebuilding import Job

log = logging.getLogger(__name__)


def run_to_the_end(
    at: Target, job: Job, instance: JobProcess, what: str, meanwhile: Callable[[Callable[[], None]], None] | None = None
) -> None:
    """Runs an instance until it has counted all there is, and stops it. Records that were skipped are passed again.

    Args:
        at: the brokers.
        job: what the instance runs.
        instance: not started yet; ends before this returns.
        what: is done, for the progress.
        meanwhile: done once it has caught up; what comes meanwhile is counted, too. It is given a check to call, which
            raises when the instance ends by itself.

    Raises:
        JobFailedError: it ended by itself.
    """
    with JobOffsets(at.brokers, job.watched, at.client) as offsets, instance:
        check = passing_again(at, job, instance)

        def there() -> None:
            with open_progress(f"{what} {job.application_id}") as show:
                catch_up(offsets, showing(show), check)

        there()
        if meanwhile is not None:
            meanwhile(check)
        # for what came during the first time
        there()


def run_once(at: Target, job: Job, run: Callable[[], int]) -> int:
    """Runs an instance in this process until it has counted all there is, and has it stopped by SIGTERM.

    Args:
        at: the brokers.
        job: what the instance runs.
        run: runs it until a signal comes; gives the exit code. Called on this thread, the main one.

    Returns:
        The exit code of ``run``; 1 when nobody could say whether everything is counted.
    """
    failures: list[Exception] = []

    def watch() -> None:
        try:
            with JobOffsets(at.brokers, job.watched, at.client) as offsets:
                catch_up(offsets, lambda _: None, lambda: None)
        except Exception as error:
            failures.append(error)
            log.exception("how far the job is cannot be told")
        # before the instance takes signals, one would end this process at once
        while signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            time.sleep(LOOK_S)
        if not failures:
            log.info("everything that was there is counted: ending")
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="once", daemon=True).start()
    code = run()
    return code or (FAILED if failures else 0)


def showing(show: Callable[[int, int, str], None]) -> Callable[[Standing], None]:
    """Shows how far a job is."""
    return lambda now: show(
        now.read, now.read + now.behind, f"lag {now.behind:,} lines and {now.inside:,} repartitioned"
    )


def passing_again(at: Target, job: Job, instance: JobProcess) -> Callable[[], None]:
    """What looks after an instance: when a record has stopped it that was skipped before, it is passed again."""

    def check() -> None:
        try:
            instance.check()
        except JobFailedError:
            passed = [one for one in job.adjustments if _skipped_again(at, job, one)]
            if not passed:
                raise
            for one in passed:
                note(f"passed {one.topic}-{one.partition}@{one.offset} again: {one.reason}")
            instance.start()

    return check


def _skipped_again(at: Target, job: Job, one: Adjustment) -> bool:
    place = Place(at.settings.lines, one.partition, one.offset)
    request = SkipRequest(job.application_id, place, one.reason, "rebuild", {place.topic}, again=one)
    try:
        skip(at.brokers, request, Path(at.settings.adjustments), client=at.client)
    except RefusedError:
        return False
    return True
