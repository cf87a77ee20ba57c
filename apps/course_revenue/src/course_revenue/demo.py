"""The whole product on this machine, in one terminal: local Kafka, topics, sample, job, dashboard, and moving totals.

What it keeps lies below one directory: the cluster's data, the job's state and log, and a note of what was loaded. A
later run in the same directory goes on with them, or starts anew where that is asked for or the load was not
finished. Whatever it started is stopped at the end, however the end comes.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import shutil
import time
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from course_revenue import interrupts
from course_revenue.checks import InputSums, Reconciliation, reconcile, sum_input
from course_revenue.jobs import JobProcess
from course_revenue.ledger import NOTHING
from course_revenue.settings import Settings
from course_revenue.topics import load_sample, read_lines, wanted_topics
from course_revenue.totals import open_totals
from headrace.errors import KafkaException
from headrace.testing.cluster import LocalCluster
from headrace.testing.processes import HOST, choose_port
from headrace.topics import ensure_topics

if TYPE_CHECKING:
    import socket
    from collections.abc import Generator, Mapping
    from pathlib import Path

    from course_revenue.model import Revenue
    from course_revenue.sample import SampleSize
    from course_revenue.screen import Screen

APPLICATION_ID: Final = "course-revenue"
_RESUM_EVERY_S: Final = 5.0


class DemoError(KafkaException):
    """The demo cannot go on; the message says why."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What a demo does.

    ``timeout_s`` is how long, from the start of the job, a run with ``once`` waits for the totals to equal the sum.
    """

    directory: Path
    size: SampleSize
    once: bool = False
    anew: bool = False
    port: int | None = None
    dashboard_port: int | None = None
    timeout_s: float = 120.0


def run_demo(options: DemoOptions, screen: Screen) -> int:
    """Runs until the totals are equal (``once``), or until it is interrupted.

    Args:
        options: see there.
        screen: shows what happens.

    Returns:
        With ``once``: 0 when the totals equal the plain sum over the input, else 1. Without: 0 after an interrupt.

    Raises:
        DemoError: another demo uses the directory.
        KafkaException: a step failed; what was started is stopped.
    """
    directory = options.directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    with _only_one(directory), interrupts.as_ctrl_c():
        started = contextlib.ExitStack()
        started.callback(LocalCluster(directory / "cluster").stop)
        try:
            return _run(options, directory, screen, started)
        except KeyboardInterrupt:
            return 1 if options.once else 0
        finally:
            interrupts.ignore()
            started.close()
            # a terminal that was closed takes no more words
            with contextlib.suppress(OSError):
                screen.close()
                screen.say("stopped the job, the dashboard and the local Kafka")


def _run(options: DemoOptions, directory: Path, screen: Screen, started: contextlib.ExitStack) -> int:
    settings = Settings()
    note = directory / "loaded.json"
    wanted = {"sample": asdict(options.size)}
    page = started.enter_context(contextlib.closing(_Dashboard(options.dashboard_port)))
    screen.say(page.announce())
    goes_on = _decide(options, directory, note, wanted, screen)
    cluster = LocalCluster(directory / "cluster", port=options.port, log=screen.say)
    cluster.start()
    brokers = cluster.bootstrap_servers
    screen.say(f"Apache Kafka runs at {brokers}")
    config, log_file, page_log_file = (
        _configured(directory, brokers),
        directory / "job.log",
        directory / "dashboard.log",
    )
    for file in (log_file, page_log_file):
        file.unlink(missing_ok=True)
    started.enter_context(page.running(config, page_log_file))
    if not goes_on:
        ensure_topics(brokers, wanted_topics(settings, lines_retention_ms=-1))
        with screen.progress("loading purchase lines", options.size.lines) as advance:
            load_sample(brokers, settings, options.size, advance)
        note.write_text(json.dumps(wanted), encoding="utf-8")
    sums = sum_input(read_lines(brokers, settings))
    screen.say(f"{sums.lines:,} purchase lines of {len(sums.courses):,} courses are in {settings.lines}")
    job = started.enter_context(JobProcess(config, (), log_file))
    screen.say(f"the job runs with exactly_once_v2; its log: {log_file}")
    return _watch(options, settings, brokers, sums, job, screen)


def _decide(options: DemoOptions, directory: Path, note: Path, wanted: Mapping[str, object], screen: Screen) -> bool:
    """Whether to go on with what is there; what is not gone on with is removed."""
    try:
        loaded = json.loads(note.read_text(encoding="utf-8"))
    except FileNotFoundError:
        loaded = None
    if loaded == wanted and not options.anew:
        screen.say(f"going on with the sample and the totals of the last run in {directory}")
        return True
    if options.anew:
        why = "as asked"
    elif loaded is not None:
        why = "another sample is asked for"
    elif (directory / "cluster").exists():
        why = "the last run was ended before its sample was loaded"
    else:
        why = "nothing is here yet"
    screen.say(f"starting anew in {directory}: {why}")
    LocalCluster(directory / "cluster").stop()
    note.unlink(missing_ok=True)
    for part in ("cluster", "state"):
        shutil.rmtree(directory / part, ignore_errors=True)
    return False


def _watch(
    options: DemoOptions,
    settings: Settings,
    brokers: str,
    sums: InputSums,
    job: JobProcess,
    screen: Screen,
) -> int:
    deadline = time.monotonic() + options.timeout_s
    summed_at = time.monotonic()
    with open_totals(brokers, settings) as totals:
        while True:
            changed = totals.poll(0.25)
            applied = sum(total.line_count for total in totals.values.values())
            expected = sums.lines
            if applied > expected and time.monotonic() - summed_at > _RESUM_EVERY_S:
                # somebody loads more lines while this runs
                sums = sum_input(read_lines(brokers, settings))
                summed_at = time.monotonic()
                continue
            comparison = reconcile(sums, totals.values) if applied == expected else None
            equal = comparison is not None and comparison.equal
            screen.show(totals.values, [key for key, _ in changed], expected, equal)
            if equal and options.once:
                return 0
            job.check()
            if options.once and time.monotonic() > deadline:
                screen.say(_difference(totals.values, comparison or reconcile(sums, totals.values), options.timeout_s))
                return 1


def _difference(totals: Mapping[str, Revenue], comparison: Reconciliation, timeout_s: float) -> str:
    rows = [row for row in comparison.rows if row.unexplained != NOTHING]
    some = ", ".join(f"{row.course_id} by {row.unexplained.cents} cents" for row in rows[:5])
    return (
        f"the totals do not equal the sum over the input {timeout_s:.0f} s after the job's start:"
        f" {len(rows):,} of {len(comparison.rows):,} courses differ ({some}); {len(totals):,} have a total"
    )


def _configured(directory: Path, brokers: str) -> Path:
    """The properties file of the job and of the dashboard."""
    config = directory / "course-revenue.properties"
    config.write_text(
        "\n".join(
            [
                f"application.id={APPLICATION_ID}",
                f"bootstrap.servers={brokers}",
                "processing.guarantee=exactly_once_v2",
                "commit.interval.ms=1000",
                # '\' begins an escape in a properties file
                f"state.dir={directory / 'state'}".replace("\\", "\\\\"),
                "session.timeout.ms=10000",
                # the dashboard asks there
                f"headrace.http.port={choose_port(None, None)}",
                "",
            ]
        ),
        encoding="iso-8859-1",
        errors="backslashreplace",
    )
    return config


class _Dashboard:
    """The dashboard as a process; its address is known, and can be opened, before it runs: a browser waits so long.

    Args:
        port: where it is; None for any free one.

    Attributes:
        listener: a socket that listens; None where the dashboard is not installed, or once it has been handed on.
    """

    def __init__(self, port: int | None) -> None:
        self.listener: socket.socket | None = None
        if find_spec("starlette") is not None and find_spec("uvicorn") is not None:
            from course_revenue.dashboard.server import listening

            self.listener = listening(HOST, port or 0)

    def announce(self) -> str:
        """A sentence with its address."""
        if self.listener is None:
            return "no dashboard: it needs the extra, course-revenue[dashboard]"
        return f"the dashboard: http://{HOST}:{self.listener.getsockname()[1]}/"

    @contextlib.contextmanager
    def running(self, config: Path, log_file: Path) -> Generator[None]:
        """Runs it for as long as the block."""
        if self.listener is None:
            yield
            return
        descriptor = self.listener.fileno()
        command = ("dashboard", "--fd", str(descriptor))
        process = JobProcess(config, (), log_file, command=command, inherited=(descriptor,)).start()
        # with a listener left here, pages would wait for a dashboard that has ended
        self.close()
        try:
            yield
        finally:
            process.stop()

    def close(self) -> None:
        """Gives the address up, unless it was handed on."""
        if self.listener is not None:
            self.listener.close()
            self.listener = None


@contextlib.contextmanager
def _only_one(directory: Path) -> Generator[None]:
    with (directory / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DemoError(f"another run uses {directory}: stop it first, or name another --directory") from None
        yield
