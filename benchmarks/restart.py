"""How long the tasks of a killed instance stand still when it is started again at once, for the Java job and ours.

An instance is killed with SIGKILL while lines flow into every partition, and started again. Measured is for each task
that then stands still the time from the start of the new process to its first record that a read_committed reader sees,
in the repartition topic or in the output. Sessions, heartbeats and the brokers' delays have Kafka's default lengths;
RocksDB, exactly_once_v2 with its default commit interval. The same kill with other instances beside it: ``--others``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench import BenchError, job_classpath, job_command, started, tail, work_directory

from headrace.kafka import NewTopic, TopicAdmin
from headrace.testing.cluster import LocalCluster
from headrace.topics import TopicReader, TopicWriter

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Generator, Iterator
    from pathlib import Path

PARTITIONS = 6
COURSES = 60
DELAYS = {"group.initial.rebalance.delay.ms": "3000", "group.streams.initial.rebalance.delay.ms": "3000"}
"""The brokers' own, which a local cluster sets to nothing."""
QUIET_S = 2.0
"""Nothing that a task committed before the kill is seen later than this."""
PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class Restart:
    """One kill: seconds from the new process's start to the first new record of the quickest and the slowest task."""

    job: str
    protocol: str
    others: int
    tasks: int
    quickest: float
    slowest: float


class Feed:
    """Sends lines to every partition of a topic, some in every tenth of a second, until it is stopped."""

    def __init__(self, brokers: str, topic: str) -> None:
        self._brokers, self._topic = brokers, topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        number = 0
        with TopicWriter(self._brokers, client={"linger.ms": 5}) as writer:
            while not self._stop.wait(0.1):
                for course in range(COURSES):
                    number += 1
                    line = {
                        "order_id": f"order-{number}",
                        "line_id": "1",
                        "course_id": f"course-{course}",
                        "unit_price_cents": 100,
                        "quantity": 1,
                        "line_type": "sale",
                        "event_time": time.time_ns() // 1_000_000,
                    }
                    key = json.dumps({"order_id": f"order-{number}", "line_id": "1"}).encode()
                    writer.send(self._topic, key, json.dumps(line).encode(), partition=number % PARTITIONS)
                writer.flush()

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


class Seen:
    """When the first record of each task was seen; a task is a partition of the repartition topic or of the output."""

    def __init__(self, readers: list[TopicReader]) -> None:
        self._readers = readers

    def during(self, seconds: float) -> set[tuple[str, int]]:
        """The tasks that were seen within the time."""
        until, found = time.monotonic() + seconds, set[tuple[str, int]]()
        while time.monotonic() < until:
            found |= set(self._poll())
        return found

    def first(self, tasks: set[tuple[str, int]], process: subprocess.Popen[bytes], log: Path) -> list[float]:
        """Seconds from now until each of these tasks was seen, in order."""
        began, found, left = time.monotonic(), list[float](), set(tasks)
        while left:
            new = left.intersection(self._poll())
            left -= new
            found += [time.monotonic() - began] * len(new)
            if process.poll() is not None or time.monotonic() - began > PATIENCE_S:
                raise BenchError(f"no new record of {sorted(left)}:\n{tail(log)}")
        return found

    def _poll(self) -> Iterator[tuple[str, int]]:
        for reader in self._readers:
            for record in reader.poll(0.005):
                yield reader.topic, record.partition


@dataclass(frozen=True, slots=True)
class RestartBench:
    """What every run shares."""

    brokers: str
    work: Path
    classpath: str
    java: str
    admin: TopicAdmin

    def run(self, job: str, protocol: str, others: int, number: int) -> Restart:
        """One kill of an instance of ``java`` or ``headrace``."""
        application = f"restart-{job}-{protocol}-{others}-{number}"
        lines, courses, output = (f"{application}.{name}" for name in ("lines", "courses", "output"))
        compact = {"cleanup.policy": "compact"}
        self.admin.create_topics(
            [
                NewTopic(lines, PARTITIONS, 1, {}),
                NewTopic(courses, PARTITIONS, 1, compact),
                NewTopic(output, PARTITIONS, 1, compact),
            ]
        )

        def command(name: str) -> list[str]:
            settings = {
                "bootstrap.servers": self.brokers,
                "application.id": application,
                "state.dir": str(self.work / f"{application}-{name}"),
                "processing.guarantee": "exactly_once_v2",
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
            }
            return job_command(job, self.java, self.classpath, settings, lines, courses, output)

        with ExitStack() as stack:
            stack.enter_context(Feed(self.brokers, lines))
            for other in range(others):
                stack.enter_context(started(command(f"other-{other}"), self.work / f"{application}-other-{other}.log"))
            log = self.work / f"{application}.log"
            with killed(command("victim"), log) as victim:
                repartition = self._repartition_topic(application, victim, log)
                readers = [stack.enter_context(TopicReader(self.brokers, topic)) for topic in (repartition, output)]
                seen = Seen(readers)
                everything = {(topic, number) for topic in (repartition, output) for number in range(PARTITIONS)}
                seen.first(everything, victim, log)
                # the other instances have their share, too, and everybody has settled
                seen.during(20.0 if others else 5.0)
            seen.during(QUIET_S)
            still = everything - seen.during(QUIET_S)
            if not still:
                raise BenchError(f"the killed instance had no task:\n{tail(log)}")
            again = self.work / f"{application}-again.log"
            with killed(command("victim"), again) as process:
                took = seen.first(still, process, again)
        return Restart(job, protocol, others, len(still), min(took), max(took))

    def _repartition_topic(self, application: str, process: subprocess.Popen[bytes], log: Path) -> str:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            for topic in self.admin.list_topics():
                if topic.startswith(f"{application}-") and topic.endswith("-repartition"):
                    return topic
            if process.poll() is not None or time.monotonic() > deadline:
                raise BenchError(f"the instance does not run:\n{tail(log)}")
            time.sleep(0.1)


@contextmanager
def killed(command: list[str], log: Path) -> Generator[subprocess.Popen[bytes]]:
    """A process that is killed when the block is left."""
    with started(command, log) as process:
        yield process
        process.kill()
        process.wait()


def report(results: list[Restart]) -> None:
    """The table."""
    for job, protocol, others in dict.fromkeys((r.job, r.protocol, r.others) for r in results):
        alike = [r.slowest for r in results if (r.job, r.protocol, r.others) == (job, protocol, others)]
        print(
            f"{'seconds until every task goes on':34} {job:9} {protocol:8} {others} others"
            f"  min {min(alike):6.2f}  median {statistics.median(alike):6.2f}  max {max(alike):6.2f}"
        )


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="of each job, in turn")
    parser.add_argument("--others", type=int, default=0, help="instances that live beside the killed one")
    parser.add_argument("--protocol", choices=["classic", "streams"], help="one of the two")
    parser.add_argument("--only", choices=["java", "headrace"], help="one of the two")
    parser.add_argument("--java", default="java", help="the java that runs the Java job")
    parser.add_argument("--keep", action="store_true", help="keep the work directory with all logs")
    options = parser.parse_args()

    results: list[Restart] = []
    try:
        with (
            work_directory("restart", keep=options.keep) as work,
            LocalCluster(work / "cluster", heap_mb=1024, settings=DELAYS, log=print) as cluster,
        ):
            admin = TopicAdmin({"bootstrap.servers": cluster.bootstrap_servers})
            classpath = "" if options.only == "headrace" else job_classpath()
            bench = RestartBench(cluster.bootstrap_servers, work, classpath, options.java, admin)
            for number in range(1, options.runs + 1):
                for protocol in [options.protocol] if options.protocol else ["classic", "streams"]:
                    for job in [options.only] if options.only else ["java", "headrace"]:
                        results.append(bench.run(job, protocol, options.others, number))
                        print(results[-1], flush=True)
            admin.close()
        report(results)
    except BenchError as failed:
        print(f"restart: {failed}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
