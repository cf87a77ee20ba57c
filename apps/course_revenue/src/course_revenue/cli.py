"""The ``course-revenue`` command: topics, load, run, totals, dashboard, reconcile; demo is all of them on this machine.

What operators need beside these is in ``operations``. Exit codes: 0 done, 1 failed or refused (for ``reconcile``: the
totals differ from the input), 2 the command line or a setting is wrong.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from course_revenue.acls import acls
from course_revenue.catching_up import run_once
from course_revenue.dashboard.command import dashboard
from course_revenue.demo import DemoOptions, run_demo
from course_revenue.formats import formats
from course_revenue.lake.command import app as lake_app
from course_revenue.loading import load
from course_revenue.operations import check, check_before_run, rejected_app, skip_record
from course_revenue.options import ASKED, Brokers, Config, ConfigFile, Set, as_given, target
from course_revenue.rebuild import rebuild
from course_revenue.rebuilding import job_of
from course_revenue.reconcile import reconcile
from course_revenue.rehearse import rehearse
from course_revenue.sample import SampleSize
from course_revenue.screen import open_screen
from course_revenue.settings import Settings, without_product_keys
from course_revenue.topics import PARTITIONS, REJECTED_RETENTION_MS, wanted_topics
from course_revenue.topology import build_topology
from course_revenue.totals import open_totals, summary, total_lines
from headrace import StreamsConfig
from headrace.cli.common import Instances, log_to_stderr, note, read_properties, run_app, run_instances, say
from headrace.errors import ConfigException, MissingSourceTopicException
from headrace.tools.service import run_until_stopped
from headrace.topics import ensure_topics

app = typer.Typer(
    name="course-revenue",
    help="A running total of purchase lines per course, exactly once.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

_ADVICE = (
    "what to do is in the runbook, by the words of this error. When a record is what stops the job, change no handler:"
    " that would pass over others without a word. course-revenue skip-record passes over the one and leaves a trace"
)

Lines = Annotated[int, typer.Option(min=1, help="Purchase lines of the sample.")]
Courses = Annotated[int, typer.Option(min=1, help="Courses of the sample.")]
Seed = Annotated[int, typer.Option(help="Another seed makes another sample.")]
Duplicates = Annotated[float, typer.Option(min=0, max=1, help="Share of lines that are sent twice.")]

app.command()(acls)
app.command()(check)
app.command()(skip_record)
app.command()(rebuild)
app.command()(load)
app.command()(dashboard)
app.command()(reconcile)
app.command()(rehearse)
app.add_typer(rejected_app, name="rejected")
app.add_typer(lake_app, name="lake")


def main() -> None:
    """The console script."""
    sys.exit(run_app(commands))


def commands() -> None:
    """The command line. One of the product's topics that is missing is told with the command that makes it.

    Raises:
        MissingSourceTopicException: see there.
    """
    ASKED.set(None)
    try:
        app()
    except MissingSourceTopicException as missing:
        product = ASKED.get()
        if product is None or missing.topic not in product.topics:
            raise
        raise MissingSourceTopicException(
            f"{missing}: course-revenue topics, with the same --config and --set, makes the product's topics"
            " (the rejected one with --set course.revenue.on.broken.line=reject)",
            topic=missing.topic,
        ) from missing


@app.command()
def topics(
    config: Config = None,
    settings: Set = None,
    bootstrap_server: Brokers = None,
    partitions: Annotated[int, typer.Option(min=1, help="Of each topic.")] = PARTITIONS,
    replication_factor: Annotated[int, typer.Option(help="Of each topic; -1 is the brokers' default.")] = -1,
    lines_retention_ms: Annotated[
        int | None, typer.Option(min=-1, help="How long lines are kept, by event time; -1 for ever (samples need it).")
    ] = None,
    rejected_retention_ms: Annotated[
        int, typer.Option(min=-1, help="How long rejected lines are kept, by event time: 30 days; -1 for ever.")
    ] = REJECTED_RETENTION_MS,
) -> None:
    """Create the product's topics where they are missing."""
    at = target(config, settings, bootstrap_server)
    wanted = wanted_topics(
        at.settings,
        partitions=partitions,
        replication_factor=replication_factor,
        lines_retention_ms=lines_retention_ms,
        rejected_retention_ms=rejected_retention_ms,
    )
    for name, made in ensure_topics(at.brokers, wanted, client=at.client).items():
        say(f"{'created' if made else 'exists'}: {name}")


@app.command()
def run(
    config: ConfigFile,
    settings: Set = None,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
    instances: Instances = 1,
    once: Annotated[
        bool, typer.Option("--once", help="End when everything is counted that is there at the start.")
    ] = False,
) -> None:
    """Check, then run the job until SIGTERM or Ctrl-C (exit code 0), or until it fails (1)."""
    log_to_stderr(log_level)
    properties = read_properties(config, settings or ())
    product = Settings.of(properties)
    streams_config = StreamsConfig.load(without_product_keys(properties))
    values = formats(product.format, properties)
    topology = build_topology(product, streams_config.values(), values=values)
    if once and instances > 1:
        raise ConfigException("--once is for one instance: leave --instances out")
    if instances > 1:
        again = ["-m", "course_revenue", "run"]
        raise typer.Exit(run_instances(again, config, settings, log_level, streams_config, instances))
    check_before_run(as_given(config, settings), product, streams_config)
    if once:
        at = target(config, settings, None)
        job = job_of(at, as_given(config, settings))
        raise typer.Exit(run_once(at, job, lambda: run_until_stopped(topology, streams_config, advice=_ADVICE)))
    raise typer.Exit(run_until_stopped(topology, streams_config, advice=_ADVICE))


@app.command()
def totals(config: Config = None, settings: Set = None, bootstrap_server: Brokers = None) -> None:
    """Print the latest total of every course from the output topic, tab separated, and a summary on standard error."""
    at = target(config, settings, bootstrap_server)
    with open_totals(at.brokers, at.settings, client=at.client, values=at.values) as table:
        table.read_to_end()
        for line in total_lines(table.values):
            say(line)
        note(summary(table.values))


@app.command()
def demo(
    directory: Annotated[Path, typer.Option(help="Where the local Kafka and the job keep their data.")] = Path(
        ".headrace"
    )
    / "demo",
    once: Annotated[
        bool, typer.Option("--once", help="End when the totals equal the sum (0), or after --timeout (1).")
    ] = False,
    anew: Annotated[bool, typer.Option("--anew", help="Forget what an earlier run left.")] = False,
    lines: Lines = 100_000,
    courses: Courses = 1_000,
    seed: Seed = 1,
    duplicates: Duplicates = 0.0,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port of the local Kafka; else any free one.")
    ] = None,
    dashboard_port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port of the dashboard; else any free one.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds from the job's start, with --once.")] = 120.0,
) -> None:
    """Local Kafka, topics, a sample, the job, its dashboard, and the totals as they move, until Ctrl-C."""
    size = SampleSize(lines=lines, courses=courses, seed=seed, duplicates=duplicates)
    options = DemoOptions(
        directory, size, once=once, anew=anew, port=port, dashboard_port=dashboard_port, timeout_s=timeout
    )
    raise typer.Exit(run_demo(options, open_screen()))
