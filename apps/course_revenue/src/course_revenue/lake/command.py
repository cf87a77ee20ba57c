"""``course-revenue lake`` and ``course-revenue lake totals``."""

from __future__ import annotations

import signal
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from course_revenue.options import Brokers, Config, Set, target
from course_revenue.totals import summary, total_lines
from headrace.cli.common import log_to_stderr, note, say
from headrace.errors import ConfigException

if TYPE_CHECKING:
    from types import FrameType

    from course_revenue.lake.table import LakeTable

Where = Annotated[str | None, typer.Option("--table", metavar="DIR", help="The Delta table: a directory, or a URL.")]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-option", metavar="KEY=VALUE", help="For the table's store, as delta-rs names it. Repeatable."
    ),
]

app = typer.Typer(help="Land the totals in a Delta Lake table, by merge on course_id.", add_completion=False)


@app.callback(invoke_without_command=True)
def lake(
    context: typer.Context,
    config: Config = None,
    settings: Set = None,
    bootstrap_server: Brokers = None,
    table: Where = None,
    storage_option: Options = None,
    once: Annotated[bool, typer.Option("--once", help="End at the end that the topic has now.")] = False,
    replay: Annotated[
        bool, typer.Option("--replay", help="First replace the table by what the topic has, in one commit.")
    ] = False,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two commits, at most.")] = 30.0,
    batch: Annotated[int, typer.Option(min=1, help="Courses in a commit, about at most.")] = 100_000,
    compact_every: Annotated[int, typer.Option(min=0, help="Commits between two compactions; 0 for none.")] = 200,
    retention_hours: Annotated[
        int, typer.Option(min=0, help="How far back versions can be read; a compaction deletes older files.")
    ] = 168,
    skip_undecodable: Annotated[
        bool, typer.Option("--skip-undecodable", help="Pass over records that do not decode; else it ends at one.")
    ] = False,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "warning",
) -> None:
    """Land the output topic in a Delta table until SIGTERM or Ctrl-C; goes on from the offsets in the table's own log.

    One row a course, by merge: whoever killed it may start it again. Only one at a time may write to a table.
    """
    if context.invoked_subcommand is not None:
        return
    from course_revenue.lake.landing import Landing, Pace

    log_to_stderr(log_level)
    at = target(config, settings, bootstrap_server)
    opened = _open(table, storage_option, create=True)
    over = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        over.set()

    pace = Pace(every, batch, compact_every, retention_hours)
    # as long as it only looks for brokers, a signal ends it at once
    with Landing(at, opened, pace, skip_undecodable=skip_undecodable) as landing:
        before: dict[int, Any] = {
            number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        }
        try:
            if replay:
                landing.replay()
            if not over.is_set():
                landing.follow(over.is_set, once=once)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    note(f"{opened.uri} is at version {opened.version}")


@app.command()
def totals(
    table: Where = None,
    storage_option: Options = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION|TIME", help="A version, or a time such as 2026-11-30T08:00:00Z; else the newest."
        ),
    ] = None,
) -> None:
    """Print the totals of a version of the table, tab separated, and a summary on standard error."""
    snapshot = _open(table, storage_option, create=False).snapshot(None if as_of is None else parse_as_of(as_of))
    for line in total_lines(snapshot.totals):
        say(line)
    written = snapshot.written.isoformat(timespec="milliseconds")
    note(f"version {snapshot.version} of {written}: {summary(snapshot.totals)}")


def parse_as_of(text: str) -> int | datetime:
    """A version, or a time; one without a zone is UTC.

    Raises:
        ConfigException: it is neither.
    """
    if text.isdecimal():
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigException(f"--as-of {text}: give a version, or a time such as 2026-11-30T08:00:00Z") from error
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _open(table: str | None, storage_option: list[str] | None, *, create: bool) -> LakeTable:
    if not table:
        raise ConfigException("which table? Give --table DIR")
    options: dict[str, str] = {}
    for text in storage_option or ():
        key, sign, value = text.partition("=")
        if not (sign and key):
            raise ConfigException("--storage-option: write KEY=VALUE")
        options[key] = value
    try:
        from course_revenue.lake.table import LakeTable
    except ImportError as error:
        raise ConfigException(f"the lake needs deltalake ({error}): install course-revenue[lake]") from error
    return LakeTable(table, options, create=create)
