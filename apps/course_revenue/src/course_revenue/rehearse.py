"""``course-revenue rehearse``: a promotion day in minutes, on a Kafka of its own, and whether it kept the budget."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from course_revenue import interrupts
from course_revenue.jobs import JobProcess
from course_revenue.options import Brokers, Config, Set, Target, target
from course_revenue.progress import open_progress
from course_revenue.promotion import BOOST
from course_revenue.rehearsal import BUDGET_S, REHEARSAL, Day, Played, play, rehearsal_id
from course_revenue.topics import PARTITIONS, wanted_topics
from headrace.cli.common import FAILED, note, say
from headrace.config.own_keys import HTTP_PORT
from headrace.errors import TimeoutException
from headrace.testing.cluster import LocalCluster
from headrace.tools.supervisor import own_settings
from headrace.topics import TopicAdmin, ensure_topics

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

_PLOT_WIDTH: Final = 60
_BARS: Final = " ▁▂▃▄▅▆▇█"
_BARS_ASCII: Final = " .:-=+*#@"
_START_S: Final = 120.0
_RUNNING: Final = "state RUNNING"


def rehearse(
    config: Config = None,
    settings: Set = None,
    bootstrap_server: Brokers = None,
    minutes: Annotated[float, typer.Option(min=0.1, help="How long the day takes.")] = 5.0,
    rate: Annotated[float, typer.Option(min=1, help="Lines a second in the morning.")] = 200.0,
    courses: Annotated[int, typer.Option(min=3, help="Courses.")] = 200,
    instances: Annotated[int, typer.Option(min=2, help="Instances of the job.")] = 2,
    seed: Annotated[int, typer.Option(help="Another seed makes other lines.")] = 1,
    directory: Annotated[Path, typer.Option(help="Where the local Kafka and the instances keep their data.")] = Path(
        ".headrace"
    )
    / "rehearsal",
) -> None:
    """Play a day with a promotion, a killed instance and a deployment, and print the budget report.

    On a Kafka of its own, unless brokers are named: there it makes topics and an application id of its own, and deletes
    them at the end. Nothing of the job of --config is touched; its settings are what is rehearsed. Exit code 0 when
    every total was readable within a minute and all are right in the end, else 1.
    """
    day = Day(60 * minutes, rate, courses, PARTITIONS, seed)
    given = list(settings or ())
    with interrupts.as_ctrl_c(), _brokers(config, given, bootstrap_server, directory.absolute()) as at:
        names = f"{REHEARSAL}-{uuid.uuid4().hex[:8]}"
        own = [*given, *_own_names(at, names), f"state.dir={directory.absolute() / names}"]
        played = _rehearse(target(config, own, None), config, own, day, instances, directory.absolute(), names)
    for line in report(played, instances, ascii_only=not _can_draw()):
        say(line)
    if played.problems():
        raise typer.Exit(FAILED)


def _own_names(at: Target, names: str) -> list[str]:
    topics = {"lines": "lines", "courses": "courses", "output": "totals", "rejected": "rejected"}
    return [
        f"bootstrap.servers={at.brokers}",
        f"application.id={rehearsal_id(names)}",
        *(f"course.revenue.topic.{key}={names}.{name}" for key, name in topics.items()),
        # any free one for each: the job of --config may have its port on this machine
        *([f"{HTTP_PORT}=0"] if HTTP_PORT in at.properties else []),
    ]


@contextlib.contextmanager
def _brokers(
    config: Path | None, settings: list[str], bootstrap_server: str | None, directory: Path
) -> Generator[Target]:
    """The brokers that are named, or those of a cluster of its own, which is stopped at the end."""
    given = config is not None and bootstrap_server is None
    if given or bootstrap_server is not None:
        yield target(config, settings, bootstrap_server)
        return
    # what an earlier day left there is of no use
    LocalCluster(directory / "cluster").stop()
    shutil.rmtree(directory / "cluster", ignore_errors=True)
    with LocalCluster(directory / "cluster", settings=_LOCAL_BROKERS, log=note) as cluster:
        note(f"Apache Kafka runs at {cluster.bootstrap_servers}")
        settings[:0] = _LOCAL_JOB
        yield target(None, settings, cluster.bootstrap_servers)


_LOCAL_BROKERS: Final = {"group.streams.session.timeout.ms": "10000", "group.streams.heartbeat.interval.ms": "1000"}
_LOCAL_JOB: Final = (
    "processing.guarantee=exactly_once_v2",
    "commit.interval.ms=1000",
    "num.standby.replicas=1",
    "session.timeout.ms=10000",
)
"""The product's configuration, but for a session that suits a day of minutes."""


def _rehearse(
    at: Target, config: Path | None, settings: Sequence[str], day: Day, count: int, directory: Path, names: str
) -> Played:
    ensure_topics(at.brokers, wanted_topics(at.settings, lines_retention_ms=-1), client=at.client)
    own = directory / names
    own.mkdir(parents=True, exist_ok=True)
    if config is None:
        config = own / "rehearsal.properties"
        config.touch()
    jobs = [
        JobProcess(config, [*settings, *own_settings(at.streams_config, number)], own / f"instance-{number}.log")
        for number in range(1, count + 1)
    ]
    try:
        with contextlib.ExitStack() as running:
            for job in jobs:
                running.enter_context(job)
            running.callback(interrupts.ignore)
            _await_running(jobs)
            with open_progress("rehearsing, in seconds", rated=False) as show:
                played = play(
                    at.brokers,
                    at.settings,
                    day,
                    jobs,
                    lambda done, doing: show(int(done), int(day.length_s), doing),
                    client=at.client,
                    values=at.values,
                )
    finally:
        _delete(at)
    # kept when it failed: the instances' logs are there
    shutil.rmtree(own, ignore_errors=True)
    return played


def _await_running(jobs: Sequence[JobProcess]) -> None:
    deadline = time.monotonic() + _START_S
    while not all(_RUNNING in job.log_file.read_text(encoding="utf-8", errors="replace") for job in jobs):
        for job in jobs:
            job.check()
        if time.monotonic() > deadline:
            raise TimeoutException(
                f"the instances do not run after {_START_S:.0f} s; the end of the log:\n{jobs[0].tail()}"
            )
        time.sleep(0.2)


def _delete(at: Target) -> None:
    """The topics and the group of the rehearsal."""
    settings, application_id = at.settings, at.application_id
    own = {settings.lines, settings.courses, settings.output, settings.rejected}
    admin = TopicAdmin(at.streams_config.admin_config())
    try:
        admin.delete_topics(
            topic for topic in admin.list_topics() if topic in own or topic.startswith(f"{application_id}-")
        )
        if not admin.describe_group(application_id).active:
            admin.delete_group(application_id)
    finally:
        admin.close()


def _can_draw() -> bool:
    try:
        _BARS.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def report(played: Played, instances: int, *, ascii_only: bool = False) -> list[str]:
    """The budget report."""
    problems = played.problems()
    out = [
        *_what(played, instances),
        "lag of the hot tasks over the day, in lines that were sent and not readable yet:",
    ]
    for partition, courses in sorted(played.hot.items()):
        lags = [(at_s, lag[partition]) for at_s, lag in played.lags]
        worst = max((lag for _, lag in lags), default=0)
        out.append(
            f"  1_{partition} |{_plot(lags, worst, ascii_only=ascii_only)}| at most {worst:,} ({', '.join(courses)})"
        )
    out.append(f"       {_marks(played)}")
    out += [f"  {letter} at {at_s:,.0f} s: {what}" for at_s, letter, what in played.events]
    for fault in played.faults:
        took = "never" if fault.took_s is None else f"after {fault.took_s:.1f} s"
        out.append(f"{fault.what}: what was sent until it ran again was readable {took}")
    if not played.differing:
        out.append(f"the totals of {played.courses:,} courses equal the sum of the lines sent")
    return [*out, *(f"FAILED: {problem}" for problem in problems), *(() if problems else ("within the budget",))]


def _what(played: Played, instances: int) -> list[str]:
    day = played.day
    hot = " and ".join(course for courses in played.hot.values() for course in courses)
    played_what = (
        f"rehearsed a promotion day in {day.length_s:,.0f} s: {played.lines:,} lines of {played.courses:,} courses with"
        f" {instances} instances, {day.rate:,.0f} lines/s in the morning, {day.rate * played.swell:,.0f} lines/s while"
        f" {hot} sold at {BOOST} times their rate"
    )
    freshness = (
        "freshness, from a line's event time until its total was readable: half of the lines within"
        f" {played.quantile_s(0.5):.1f} s, 99 % within {played.quantile_s(0.99):.1f} s, the last after"
        f" {played.worst_s:.1f} s{_when(played)}; the budget is {BUDGET_S:.0f} s"
    )
    return [played_what, freshness]


def _when(played: Played) -> str:
    worst = max(played.delays_s, key=lambda seen: seen[1], default=None)
    return "" if worst is None else f" (at {worst[0]:,.0f} s)"


def _plot(series: Sequence[tuple[float, int]], worst: int, *, ascii_only: bool) -> str:
    """The greatest value of each part of the time, as bars."""
    bars = _BARS_ASCII if ascii_only else _BARS
    columns = [0] * _PLOT_WIDTH
    where = _columns([at_s for at_s, _ in series], _end(series))
    for (_, value), column in zip(series, where, strict=True):
        columns[column] = max(columns[column], value)
    return "".join(bars[-(-value * (len(bars) - 1) // worst) if worst else 0] for value in columns)


def _end(series: Sequence[tuple[float, Mapping[int, int] | int]]) -> float:
    return series[-1][0] if series else 1.0


def _columns(times: Sequence[float], end_s: float) -> list[int]:
    return [min(_PLOT_WIDTH - 1, int(at_s / end_s * _PLOT_WIDTH)) for at_s in times]


def _marks(played: Played) -> str:
    marks = [" "] * _PLOT_WIDTH
    events = played.events
    for (_, letter, _), column in zip(
        events, _columns([at_s for at_s, _, _ in events], _end(played.lags)), strict=True
    ):
        marks[column] = letter
    return "".join(marks).rstrip()
