"""The Java job and ours side by side: the same broker, the same loaded topic, runs in turn, one finish line for both.

A run has an application id, an output topic and a state directory of its own. It is over when a read_committed reader
(the Java program ``Watch``) has seen all lines in the totals; ``Watch`` then compares the totals with the truth that
the loader wrote down. Both jobs run with exactly_once_v2, a commit interval of 1 s, RocksDB, one instance, one
thread, and the default cache size.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.testing.cluster import LocalCluster

if TYPE_CHECKING:
    from collections.abc import Generator

    from _typeshed import DataclassInstance

ROOT = Path(__file__).resolve().parent.parent
STREAMS = {
    "processing.guarantee": "exactly_once_v2",
    "commit.interval.ms": "1000",
    "num.stream.threads": "1",
    "num.standby.replicas": "0",
}


@dataclass(frozen=True, slots=True)
class Result:
    """One run. Rates are lines per second; memory is the job's peak resident set in MiB."""

    job: str
    from_first_record: float
    from_process_start: float
    cpu_s: float
    peak_mib: float
    output_records: int
    verify: str


class BenchError(RuntimeError):
    """A run failed; the message holds the end of its log."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What every run shares."""

    brokers: str
    work: Path
    classpath: str
    java: str
    lines: int
    lines_topic: str
    courses_topic: str
    expect: Path
    timeout_s: int

    def load(self, courses: int) -> None:
        """Fills the topics once; the true totals go to ``expect``."""
        self._java(
            "Loader",
            f"bootstrap={self.brokers}",
            f"topic.lines={self.lines_topic}",
            f"topic.courses={self.courses_topic}",
            f"n={self.lines}",
            f"courses={courses}",
            f"expect={self.expect}",
        )

    def run(self, job: str, number: int) -> Result:
        """One run of ``java`` or ``headrace``."""
        name = f"bench-{job}-{number}-{time.time_ns() // 1_000_000}"
        state = self.work / f"{name}-state"
        watch_log, job_log = self.work / f"{name}-watch.log", self.work / f"{name}.log"
        watch = [
            *(self.java, "-Xmx512m", "-XX:+UseSerialGC", "-cp", self.classpath, "Watch"),
            *(f"bootstrap={self.brokers}", f"topic={name}", f"n={self.lines}"),
            *(f"timeout={self.timeout_s}", f"expect={self.expect}"),
        ]
        with started(watch, watch_log) as watching:
            until(lambda: marker(watch_log, "READY") is not None, watching, watch_log)
            began = time.time_ns() // 1_000_000
            with started(self._command(job, name, state), job_log) as working:
                until(lambda: watching.poll() is not None, working, job_log)
                cpu_s, peak_mib = usage(working.pid)
            if watching.returncode != 0:
                raise BenchError(f"{job} did not finish:\n{tail(watch_log)}\n{tail(job_log)}")
        shutil.rmtree(state, ignore_errors=True)
        done, first = int(marker(watch_log, "DONE") or 0), int(marker(job_log, "FIRST_RECORD") or 0)
        return Result(
            job=job,
            from_first_record=self.lines * 1000 / (done - first),
            from_process_start=self.lines * 1000 / (done - began),
            cpu_s=cpu_s,
            peak_mib=peak_mib,
            output_records=int((marker(watch_log, "OUTPUT_RECORDS") or "0").split()[0]),
            verify=marker(watch_log, "VERIFY") or "not verified",
        )

    def _command(self, job: str, name: str, state: Path) -> list[str]:
        settings = {
            **STREAMS,
            "bootstrap.servers": self.brokers,
            "application.id": name,
            "state.dir": str(state),
            "auto.offset.reset": "earliest",
        }
        return job_command(job, self.java, self.classpath, settings, self.lines_topic, self.courses_topic, name)

    def _java(self, program: str, *arguments: str) -> None:
        subprocess.run([self.java, "-Xmx1g", "-cp", self.classpath, program, *arguments], check=True)


def job_command(
    job: str, java: str, classpath: str, settings: dict[str, str], lines: str, courses: str, output: str
) -> list[str]:
    """What starts the job ``java`` or ``headrace`` on these topics."""
    if job == "java":
        topics = {"job.lines": lines, "job.courses": courses, "job.output": output}
        start = [java, "-Xmx1g", "-cp", classpath, "CourseRevenueJob"]
    else:
        prefix = "course.revenue.topic"
        topics = {f"{prefix}.lines": lines, f"{prefix}.courses": courses, f"{prefix}.output": output}
        start = [sys.executable, str(ROOT / "benchmarks" / "job.py")]
    return [*start, *(f"{key}={value}" for key, value in {**settings, **topics}.items())]


def job_classpath() -> str:
    """The class path of the Java job, compiled if need be."""
    script = str(ROOT / "interop" / "java" / "classpath.sh")
    return subprocess.run([script, "job"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


@contextmanager
def started(command: list[str], log: Path) -> Generator[subprocess.Popen[bytes]]:
    """A process that is ended, in order if it lets itself be, when the block is left."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def until(condition: object, process: subprocess.Popen[bytes], log: Path) -> None:
    """Waits for a condition for as long as a process lives."""
    assert callable(condition)
    while not condition():
        if process.poll() is not None and not condition():
            raise BenchError(f"a process ended early with exit code {process.returncode}:\n{tail(log)}")
        time.sleep(0.05)


def marker(log: Path, word: str) -> str | None:
    """What follows the first line that begins with ``word``."""
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith(word + " "):
            return line[len(word) + 1 :]
    return None


def tail(log: Path) -> str:
    """The end of a log."""
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-25:])


def usage(pid: int) -> tuple[float, float]:
    """CPU seconds and peak resident MiB of a living process."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    peak_kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
    return ticks / os.sysconf("SC_CLK_TCK"), peak_kib / 1024


def report(results: list[Result]) -> None:
    """The table and the ratios."""
    for measure, unit in (
        ("from_first_record", "lines/s from the first record"),
        ("from_process_start", "lines/s from process start"),
        ("cpu_s", "CPU seconds"),
        ("peak_mib", "peak MiB"),
    ):
        values = {job: [getattr(r, measure) for r in results if r.job == job] for job in ("java", "headrace")}
        for job, seen in values.items():
            if seen:
                low, middle, high = min(seen), statistics.median(seen), max(seen)
                print(f"{unit:32} {job:9} min {low:>12,.1f}  median {middle:>12,.1f}  max {high:>12,.1f}")
        # runs in turn: the n-th of one has the n-th of the other as its neighbour in time
        ratios = [ours / theirs for ours, theirs in zip(values["headrace"], values["java"], strict=False)]
        if ratios:
            print(
                f"{'':32} {'ratio':9} min {min(ratios):>12.2f}  median {statistics.median(ratios):>12.2f}"
                f"  max {max(ratios):>12.2f}"
            )


@contextmanager
def work_directory(name: str, *, keep: bool) -> Generator[Path]:
    """A directory for the data and logs of a benchmark; removed at the end, or kept and named."""
    work = Path(tempfile.mkdtemp(prefix=f"headrace-{name}-"))
    try:
        yield work
    finally:
        if keep:
            print(f"kept: {work}")
        else:
            shutil.rmtree(work, ignore_errors=True)


def print_row(result: DataclassInstance) -> None:
    """A run's figures, as a line of JSON."""
    print(json.dumps({key: round(v, 2) if isinstance(v, float) else v for key, v in asdict(result).items()}))


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3, help="of each job, in turn")
    parser.add_argument("--courses", type=int, default=1_000)
    parser.add_argument("--only", choices=["java", "headrace"], help="one of the two")
    parser.add_argument("--java", default="java", help="the java that runs the Java job")
    parser.add_argument("--bootstrap", help="a running broker; else a local one is started")
    parser.add_argument("--timeout", type=int, default=600, help="seconds for one run")
    parser.add_argument("--keep", action="store_true", help="keep the work directory with all logs")
    options = parser.parse_args()

    version = subprocess.run(
        [options.java, "-version"], capture_output=True, text=True, check=True
    ).stderr.splitlines()[0]
    python = sys.version.split()[0]
    print(f"JDK of the Java job: {version}; Python {python}; {os.cpu_count()} cores; {options.lines:,} lines")
    classpath = job_classpath()
    tag = f"bench-{time.time_ns() // 1_000_000}"
    results: list[Result] = []
    try:
        with work_directory("bench", keep=options.keep) as work, ExitStack() as ending:
            brokers = options.bootstrap
            if not brokers:
                cluster = ending.enter_context(LocalCluster(work / "cluster", heap_mb=1024, log=print))
                brokers = cluster.bootstrap_servers
            bench = Bench(
                brokers=str(brokers),
                work=work,
                classpath=classpath,
                java=options.java,
                lines=options.lines,
                lines_topic=f"{tag}.purchase_line",
                courses_topic=f"{tag}.courses",
                expect=work / "expect.tsv",
                timeout_s=options.timeout,
            )
            bench.load(options.courses)
            jobs = [options.only] if options.only else ["java", "headrace"]
            for number in range(1, options.runs + 1):
                for job in jobs:
                    results.append(bench.run(job, number))
                    print_row(results[-1])
        report(results)
    except BenchError as failed:
        print(f"bench: {failed}", file=sys.stderr)
        return 1
    return 0 if all(result.verify.startswith("ok") for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
