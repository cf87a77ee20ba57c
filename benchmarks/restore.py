"""How long the Java job and ours take to restore their state from one and the same changelog.

The changelog topic of the store ``course-revenue`` is filled with so many keys, and each run begins with an empty state
directory: it is over when the instance is RUNNING, which both reach when all is restored. One application id, one
instance, one thread, RocksDB, exactly_once_v2; runs in turn.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench import (
    STREAMS,
    BenchError,
    job_classpath,
    job_command,
    print_row,
    started,
    tail,
    until,
    usage,
    work_directory,
)

from headrace.kafka import NewTopic, TopicAdmin
from headrace.testing.cluster import LocalCluster
from headrace.topics import TopicWriter

if TYPE_CHECKING:
    from pathlib import Path

PARTITIONS = 6
RUNNING = {"java": "STATE RUNNING ", "headrace": "REBALANCING to RUNNING"}
"""What a job prints when all its state is there."""


@dataclass(frozen=True, slots=True)
class Restore:
    """One run: seconds from the start of the process until all state was there, and what it cost."""

    job: str
    seconds: float
    keys_per_s: float
    cpu_s: float
    peak_mib: float


@dataclass(frozen=True, slots=True)
class RestoreBench:
    """What every run shares."""

    brokers: str
    work: Path
    classpath: str
    java: str
    application_id: str
    keys: int
    admin: TopicAdmin

    def fill(self) -> None:
        """Make the topics, and write every key once to the changelog."""
        changelog = f"{self.application_id}-course-revenue-changelog"
        compact = {"cleanup.policy": "compact"}
        self.admin.create_topics(
            [
                NewTopic(self._topic("lines"), PARTITIONS, 1, {}),
                NewTopic(self._topic("courses"), PARTITIONS, 1, compact),
                NewTopic(self._topic("output"), PARTITIONS, 1, compact),
                NewTopic(changelog, PARTITIONS, 1, compact),
            ]
        )
        with TopicWriter(self.brokers) as writer:
            for number in range(self.keys):
                total = {
                    "course_id": f"course-{number:07}",
                    "title": f"Course {number}",
                    "net_cents": number * 137,
                    "line_count": number % 97,
                    "updated_event_time": 1_700_000_000_000 + number,
                    "dimension_missing": False,
                }
                writer.send(
                    changelog,
                    f"course-{number:07}".encode(),
                    json.dumps(total).encode(),
                    timestamp_ms=1_700_000_000_000 + number,
                )

    def run(self, job: str, number: int) -> Restore:
        """One run of ``java`` or ``headrace``."""
        log, state = self.work / f"{job}-{number}.log", self.work / f"{job}-{number}-state"
        settings = {
            **STREAMS,
            "bootstrap.servers": self.brokers,
            "application.id": self.application_id,
            "state.dir": str(state),
            # a Java instance does not leave the group when it closes: the next run waits for its session's end
            "session.timeout.ms": "6000",
        }
        topics = (self._topic("lines"), self._topic("courses"), self._topic("output"))
        command = job_command(job, self.java, self.classpath, settings, *topics)
        began = time.monotonic()
        with started(command, log) as working:
            until(lambda: RUNNING[job] in log.read_text(encoding="utf-8", errors="replace"), working, log)
            seconds = time.monotonic() - began
            cpu_s, peak_mib = usage(working.pid)
        size = sum(path.stat().st_size for path in state.rglob("*") if path.is_file())
        if size < self.keys:
            raise BenchError(f"{job} has restored nothing:\n{tail(log)}")
        shutil.rmtree(state)
        while self.admin.describe_group(self.application_id).active:
            time.sleep(0.2)
        return Restore(job, seconds, self.keys / seconds, cpu_s, peak_mib)

    def _topic(self, name: str) -> str:
        return f"{self.application_id}.{name}"


def report(results: list[Restore]) -> None:
    """The table and the ratios of runs that were neighbours in time."""
    for job in RUNNING:
        seen = [result.seconds for result in results if result.job == job]
        if seen:
            print(f"{'seconds to restore':32} {job:9} min {min(seen):.2f}  median {statistics.median(seen):.2f}")
    ours, theirs = ([r.seconds for r in results if r.job == job] for job in ("headrace", "java"))
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=False)]
    if ratios:
        print(f"{'':32} {'ratio':9} min {min(ratios):.2f}  median {statistics.median(ratios):.2f}")


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3, help="of each job, in turn")
    parser.add_argument("--only", choices=["java", "headrace"], help="one of the two")
    parser.add_argument("--java", default="java", help="the java that runs the Java job")
    parser.add_argument("--keep", action="store_true", help="keep the work directory with all logs")
    options = parser.parse_args()

    results: list[Restore] = []
    try:
        with (
            work_directory("restore", keep=options.keep) as work,
            LocalCluster(work / "cluster", heap_mb=1024, log=print) as cluster,
        ):
            brokers = cluster.bootstrap_servers
            bench = RestoreBench(
                brokers,
                work,
                job_classpath(),
                options.java,
                f"restore-{time.time_ns() // 1_000_000}",
                options.keys,
                TopicAdmin({"bootstrap.servers": brokers}),
            )
            bench.fill()
            for number in range(1, options.runs + 1):
                for job in [options.only] if options.only else ["java", "headrace"]:
                    results.append(bench.run(job, number))
                    print_row(results[-1])
            bench.admin.close()
        report(results)
    except BenchError as failed:
        print(f"restore: {failed}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
