"""``course-revenue rebuild``: the totals anew from the first line on, as one guided command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from course_revenue import rebuilding, reports
from course_revenue.catching_up import run_to_the_end
from course_revenue.errors import RefusedError
from course_revenue.jobs import JobProcess
from course_revenue.options import ConfigFile, DryRun, LogFile, Set, Target, Yes, as_given, propose, target
from course_revenue.reconciling import reconcile_job
from course_revenue.shadowing import Asked, build, switch_over
from course_revenue.totals import on_one_line
from headrace.cli.common import FAILED, note, say
from headrace.errors import ConfigException
from headrace.topics import TopicAdmin

FromGap = Annotated[
    bool, typer.Option("--from-gap", help="Go on though the topic has lost its first lines: totals without them.")
]

LOG_FILE: Final = Path("course-revenue-rebuild.log")
_PATIENCE_S: Final = 60.0


def rebuild(
    config: ConfigFile,
    settings: Set = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    from_gap: FromGap = False,
    no_run: Annotated[
        bool, typer.Option("--no-run", help="End after the reset: you start the instances, and reconcile.")
    ] = False,
    beside: Annotated[
        bool, typer.Option("--shadow", help="Beside the live job, under another application id, into another topic.")
    ] = False,
    switch: Annotated[
        bool, typer.Option("--switch", help="With --shadow: let the shadow, which is there, take the job's place.")
    ] = False,
    wait: Annotated[
        float, typer.Option(min=1, help="With --switch: seconds to wait for the job's instances to be stopped.")
    ] = 600.0,
    log_file: LogFile = LOG_FILE,
) -> None:
    """Make the totals anew from the first line on: reset, run an instance until it is there, reconcile.

    Refuses while instances are live, and when lines are lost that the totals have. Shows first what it will do, and
    touches this application id alone. Readers of the output topic see each total begin anew and climb. Exit code 0
    when the totals agree with the input afterwards, else 1.

    With --shadow the job goes on meanwhile, and its readers notice nothing: another application id counts everything
    into another topic, and both are compared. With --switch it takes the job's place: totals stand still for seconds.
    """
    if beside:
        asked = Asked(config, tuple(settings or ()), dry_run, yes, from_gap, wait, log_file)
        raise typer.Exit(switch_over(asked) if switch else build(asked))
    if switch:
        raise ConfigException("--switch is a part of --shadow: add it")
    at = target(config, settings, None)
    given = as_given(config, settings)
    job = rebuilding.job_of(at, given)
    admin = TopicAdmin(at.streams_config.admin_config())
    try:
        decided = rebuilding.plan(job, rebuilding.look(admin, job), from_gap=from_gap)
        code = propose(decided.lines(), decided.refusals, "Rebuild?", dry_run=dry_run, yes=yes)
        if code is not None:
            raise typer.Exit(code)
        # as it is now, not as it was before the question
        decided = rebuilding.plan(job, rebuilding.look(admin, job), from_gap=from_gap)
        if decided.refusals:
            raise RefusedError(f"nothing was changed: {'; '.join(decided.refusals)}")
        rebuilding.carry_out(admin, decided, at.streams_config)
    finally:
        admin.close()
    note(f"reset {job.application_id}")
    if no_run:
        say(f"start the instances: course-revenue run {given}")
        say(f"then compare: course-revenue reconcile {given}")
        return
    run_to_the_end(at, job, JobProcess(config, [*(settings or ()), *job.stepping()], log_file), "rebuilding")
    code = reconcile(at)
    note(f"start the instances again: course-revenue run {given}")
    raise typer.Exit(code)


def reconcile(at: Target) -> int:
    """Compares the totals with the sum over the input and says how it went; the exit code."""
    outcome = reconcile_job(at, timeout_s=_PATIENCE_S)
    comparison = outcome.comparison
    for line in reports.warnings(outcome):
        note(f"warning: {line}")
    note(reports.summary(outcome))
    for row in comparison.differing:
        say(f"{on_one_line(row.course_id)}: {row.unexplained.cents} cents from the sum over the input")
    say(
        f"the totals of {len(comparison.rows):,} courses agree with the input"
        if comparison.agrees
        else f"{len(comparison.differing):,} of {len(comparison.rows):,} courses differ: course-revenue reconcile"
    )
    return 0 if comparison.agrees else FAILED
