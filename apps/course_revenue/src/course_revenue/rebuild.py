"""``course-revenue rebuild``: the totals anew from the first line on, as one guided command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from course_revenue import rebuilding, reports
from course_revenue.errors import JobFailedError, RefusedError
from course_revenue.following import JobOffsets, catch_up
from course_revenue.headers import Place
from course_revenue.jobs import JobProcess
from course_revenue.options import ConfigFile, DryRun, LogFile, Set, Target, Yes, target
from course_revenue.progress import open_progress
from course_revenue.reconciling import reconcile_job
from course_revenue.skipping import SkipRequest, skip
from headrace.cli.common import FAILED, note, say
from headrace.topics import TopicAdmin

if TYPE_CHECKING:
    from collections.abc import Callable

    from course_revenue.following import Standing

FromGap = Annotated[
    bool, typer.Option("--from-gap", help="Go on though the topic has lost its first lines: totals without them.")
]

LOG_FILE = Path("course-revenue-rebuild.log")
_PATIENCE_S = 60.0


def rebuild(
    config: ConfigFile,
    settings: Set = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    from_gap: FromGap = False,
    no_run: Annotated[
        bool, typer.Option("--no-run", help="End after the reset: you start the instances, and reconcile.")
    ] = False,
    log_file: LogFile = LOG_FILE,
) -> None:
    """Make the totals anew from the first line on: reset, run an instance until it is there, reconcile.

    Refuses while instances are live, and when lines are lost that the totals have. Shows first what it will do, and
    touches this application id alone. Readers of the output topic see each total begin anew and climb. Exit code 0
    when the totals agree with the input afterwards, else 1.
    """
    at = target(config, settings, None)
    job = rebuilding.job_of(at, config)
    admin = TopicAdmin(at.streams_config.admin_config())
    try:
        decided = rebuilding.plan(job, rebuilding.look(admin, job), from_gap=from_gap)
        for line in decided.lines():
            say(line)
        if dry_run:
            note("dry run: nothing was changed")
            raise typer.Exit(FAILED if decided.refusals else 0)
        if decided.refusals:
            raise RefusedError(f"nothing was changed: {len(decided.refusals)} reasons above")
        confirm("Rebuild?", yes=yes)
        # as it is now, not as it was before the question
        decided = rebuilding.plan(job, rebuilding.look(admin, job), from_gap=from_gap)
        if decided.refusals:
            raise RefusedError(f"nothing was changed: {'; '.join(decided.refusals)}")
        rebuilding.carry_out(admin, decided, at.streams_config)
    finally:
        admin.close()
    note(f"reset {job.application_id}")
    if no_run:
        say(f"start the instances: course-revenue run --config {config}")
        say(f"then compare: course-revenue reconcile --config {config}")
        return
    run_to_the_end(at, job, JobProcess(config, [*(settings or ()), *job.stepping()], log_file))
    code = reconcile(at)
    note(f"start the instances again: course-revenue run --config {config}")
    raise typer.Exit(code)


def confirm(question: str, *, yes: bool) -> None:
    """Asks, unless the answer was given.

    Raises:
        RefusedError: nobody can be asked.
        Abort: the answer is no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise RefusedError("nothing was changed: nobody is at a terminal to be asked, so add --yes")
    typer.confirm(question, abort=True)


def run_to_the_end(at: Target, job: rebuilding.Job, instance: JobProcess) -> None:
    """Runs an instance until it has counted all there is, and stops it. Records that were skipped are passed again.

    Raises:
        JobFailedError: it ended by itself.
    """
    with (
        JobOffsets(at.brokers, job.watched, at.client) as offsets,
        instance,
        open_progress(f"rebuilding {job.application_id}") as show,
    ):
        check = passing_again(at, job, instance)
        # the second time is for what came during the first
        for _ in range(2):
            catch_up(offsets, showing(show), check)


def showing(show: Callable[[int, int, str], None]) -> Callable[[Standing], None]:
    """Shows how far a job is."""
    return lambda now: show(
        now.read, now.read + now.behind, f"lag {now.behind:,} lines and {now.inside:,} repartitioned"
    )


def passing_again(at: Target, job: rebuilding.Job, instance: JobProcess) -> Callable[[], None]:
    """What looks after an instance: when a record has stopped it that was skipped before, it is passed again."""

    def check() -> None:
        try:
            instance.check()
        except JobFailedError:
            passed = [one for one in job.adjustments if _skipped_again(at, job, one.partition, one.offset, one.reason)]
            if not passed:
                raise
            for one in passed:
                note(f"passed {one.topic}-{one.partition}@{one.offset} again: {one.reason}")
            instance.start()

    return check


def _skipped_again(at: Target, job: rebuilding.Job, partition: int, offset: int, reason: str) -> bool:
    place = Place(at.settings.lines, partition, offset)
    request = SkipRequest(job.application_id, place, reason, "rebuild", {place.topic})
    try:
        skip(at.brokers, request, Path(at.settings.adjustments), client=at.client)
    except RefusedError:
        return False
    return True


def reconcile(at: Target) -> int:
    """Compares the totals with the sum over the input and says how it went; the exit code."""
    outcome = reconcile_job(at, timeout_s=_PATIENCE_S)
    comparison = outcome.comparison
    for line in reports.warnings(outcome):
        note(f"warning: {line}")
    note(reports.summary(outcome))
    for row in comparison.differing:
        say(f"{row.course_id}: {row.unexplained.cents} cents from the sum over the input")
    say(
        f"the totals of {len(comparison.rows):,} courses agree with the input"
        if comparison.agrees
        else f"{len(comparison.differing):,} of {len(comparison.rows):,} courses differ: course-revenue reconcile"
    )
    return 0 if comparison.agrees else FAILED
