"""The command ``course-revenue reconcile``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from course_revenue import reports
from course_revenue.options import Brokers, Config, Set, target
from course_revenue.postgres import DEFAULT_TABLE
from course_revenue.progress import open_progress
from course_revenue.reconciling import Landed, reconcile_job
from headrace.cli.common import FAILED, note, say

File = Annotated[Path | None, typer.Option(help="Write every course's row there.")]


def reconcile(
    config: Config = None,
    settings: Set = None,
    bootstrap_server: Brokers = None,
    every: Annotated[bool, typer.Option("--all", help="Print the courses that are equal, too.")] = False,
    postgres: Annotated[
        str | None, typer.Option(metavar="DSN", help="Compare with a PostgreSQL table of lines; a libpq string or URL.")
    ] = None,
    postgres_table: Annotated[str, typer.Option(metavar="[SCHEMA.]NAME", help="Its name.")] = DEFAULT_TABLE,
    csv: File = None,
    parquet: File = None,
    timeout: Annotated[
        float, typer.Option(min=1, help="Seconds to look for a moment between two commits, and of waits for brokers.")
    ] = 60.0,
) -> None:
    """Compare the totals with SQL over the lines, at one cut: exit code 1 on a difference that nothing explains.

    The job may be running. Lines that were skipped by hand are left out, by the adjustments file.
    """
    at = target(config, settings, bootstrap_server)
    landed = None if postgres is None else Landed(postgres, postgres_table)
    with open_progress("reading the input") as show:
        outcome = reconcile_job(at, timeout_s=timeout, landed=landed, tell=lambda done, total: show(done, total, ""))
    for line in reports.text_lines(outcome, every=every):
        say(line)
    note(reports.cut_line(outcome))
    for line in reports.warnings(outcome):
        note(f"warning: {line}")
    note(reports.summary(outcome))
    # what was found is said, also when a file cannot be written
    reports.write_files(outcome, csv=csv, parquet=parquet)
    if not outcome.comparison.agrees:
        raise typer.Exit(FAILED)
