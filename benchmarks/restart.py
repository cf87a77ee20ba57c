"""How long the tasks of a killed instance stand still when it is started again at once, for the Java job and ours.

An instance is killed with SIGKILL while lines flow into every partition, and started again. Measured is for each task
that then stands still the time from the start of the new process to its first record that a read_committed reader sees,
in the repartition topic or in the output. Sessions, heartbeats and the brokers' delays have Kafka's default lengths;
RocksDB, exactly_once_v2 with its default commit interval. The same kill with other instances beside it: ``--others``.

``--takeover`` kills one of two instances of ours that keep standby tasks for one another, and starts nothing: measured
is for each of its tasks the time from the first assignment that the other one logs after the kill, which is the
rebalance's end, to the task's first new record. Sessions are 15 s then, longer than a transaction.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from bench import BenchError, job_classpath, job_command, started, tail, work_directory

from headrace.kafka import NewTopic, TopicAdmin
from headrace.testing.cluster import LocalCluster
from headrace.topics import TopicReader, TopicWriter

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path

JOBS = ("java", "headrace")
PARTITIONS = 6
COURSES = 60
SESSION_MS = 15_000
"""Of a takeover: longer than the transaction of the dead, which its successors have to wait for."""
DELAYS = {"group.initial.rebalance.delay.ms": "3000", "group.streams.initial.rebalance.delay.ms": "3000"}
"""The brokers' own, which a local cluster sets to nothing."""
STANDBYS = {"group.streams.num.standby.replicas": "1", "group.streams.session.timeout.ms": str(SESSION_MS)}
"""Of the brokers, under the streams protocol."""
LOG_TIME = "%Y-%m-%d %H:%M:%S,%f"
ASSIGNED = re.compile(r"^(\S+ \S+) .*: assignment of generation ", re.MULTILINE)
QUIET_S = 2.0
"""Nothing that a task committed before the kill is seen later than this."""
PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class Restart:
    """One kill: seconds until the quickest and the slowest task went on."""

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
        """One kill of an instance of ``java`` or ``headrace``, which is started again."""
        trial = Trial(self, f"restart-{job}-{protocol}-{others}-{number}", job, {"group.protocol": protocol})
        with ExitStack() as stack:
            for other in range(others):
                stack.enter_context(started(trial.command(f"other-{other}"), trial.log(f"other-{other}")))
            seen, still = trial.kill(stack, settle_s=20.0 if others else 5.0)
            with killed(trial.command("victim"), trial.log("again")) as process:
                took = seen.first(still, process, trial.log("again"))
        return Restart(job, protocol, others, len(still), min(took), max(took))

    def take_over(self, protocol: str, number: int) -> Restart:
        """One kill of an instance of ours; another one has copies of its state."""
        settings = {"group.protocol": protocol}
        if protocol == "classic":
            settings |= {"num.standby.replicas": "1", "session.timeout.ms": str(SESSION_MS)}
        trial = Trial(self, f"takeover-{protocol}-{number}", "headrace", settings)
        with ExitStack() as stack:
            log = trial.log("survivor")
            survivor = stack.enter_context(started(trial.command("survivor"), log))
            before = 0

            def about_to_kill() -> None:
                nonlocal before
                before = len(ASSIGNED.findall(log.read_text()))

            seen, still = trial.kill(stack, settle_s=20.0, about_to_kill=about_to_kill)
            began = time.time()
            took = seen.first(still, survivor, log)
            end = datetime.strptime(ASSIGNED.findall(log.read_text())[before], LOG_TIME).timestamp()  # noqa: DTZ007
        # what was seen earlier are the survivor's own tasks: the open transaction of the dead had hidden their records
        moved = [began + seconds - end for seconds in took if began + seconds > end]
        return Restart("headrace", protocol, 1, len(moved), min(moved), max(moved))


class Trial:
    """One application on topics of its own, with lines coming in."""

    def __init__(self, bench: RestartBench, application: str, job: str, settings: dict[str, str]) -> None:
        self._bench, self._application, self._job, self._settings = bench, application, job, settings
        self._lines, self._courses, self._output = (f"{application}.{name}" for name in ("lines", "courses", "output"))
        compact = {"cleanup.policy": "compact"}
        bench.admin.create_topics(
            [
                NewTopic(self._lines, PARTITIONS, 1, {}),
                NewTopic(self._courses, PARTITIONS, 1, compact),
                NewTopic(self._output, PARTITIONS, 1, compact),
            ]
        )

    def log(self, name: str) -> Path:
        """The log of an instance."""
        return self._bench.work / f"{self._application}-{name}.log"

    def command(self, name: str) -> list[str]:
        """What starts the instance."""
        settings = {
            "bootstrap.servers": self._bench.brokers,
            "application.id": self._application,
            "state.dir": str(self._bench.work / f"{self._application}-{name}"),
            "processing.guarantee": "exactly_once_v2",
            "auto.offset.reset": "earliest",
            **self._settings,
        }
        bench = self._bench
        return job_command(self._job, bench.java, bench.classpath, settings, self._lines, self._courses, self._output)

    def kill(
        self, stack: ExitStack, settle_s: float, about_to_kill: Callable[[], None] = lambda: None
    ) -> tuple[Seen, set[tuple[str, int]]]:
        """Start an instance, let everybody settle, kill it; returns the tasks that stand still then."""
        stack.enter_context(Feed(self._bench.brokers, self._lines))
        log = self.log("victim")
        with killed(self.command("victim"), log) as victim:
            topics = (self._repartition_topic(victim, log), self._output)
            seen = Seen([stack.enter_context(TopicReader(self._bench.brokers, topic)) for topic in topics])
            everything = {(topic, number) for topic in topics for number in range(PARTITIONS)}
            seen.first(everything, victim, log)
            seen.during(settle_s)
            about_to_kill()
        seen.during(QUIET_S)
        still = everything - seen.during(QUIET_S)
        if not still:
            raise BenchError(f"the killed instance had no task:\n{tail(log)}")
        return seen, still

    def _repartition_topic(self, process: subprocess.Popen[bytes], log: Path) -> str:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            for topic in self._bench.admin.list_topics():
                if topic.startswith(f"{self._application}-") and topic.endswith("-repartition"):
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


def report(what: str, results: list[Restart]) -> None:
    """The table."""
    for job, protocol, others in dict.fromkeys((r.job, r.protocol, r.others) for r in results):
        alike = [r.slowest for r in results if (r.job, r.protocol, r.others) == (job, protocol, others)]
        print(
            f"{what:52} {job:9} {protocol:8} {others} others"
            f"  min {min(alike):6.2f}  median {statistics.median(alike):6.2f}  max {max(alike):6.2f}"
        )


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="of each job, in turn")
    parser.add_argument("--others", type=int, default=0, help="instances that live beside the killed one")
    parser.add_argument("--takeover", action="store_true", help="of standby tasks, instead of a restart")
    parser.add_argument("--protocol", choices=["classic", "streams"], help="one of the two")
    parser.add_argument("--only", choices=["java", "headrace"], help="one of the two")
    parser.add_argument("--java", default="java", help="the java that runs the Java job")
    parser.add_argument("--keep", action="store_true", help="keep the work directory with all logs")
    options = parser.parse_args()

    results: list[Restart] = []
    settings = DELAYS | STANDBYS if options.takeover else DELAYS
    try:
        with (
            work_directory("restart", keep=options.keep) as work,
            LocalCluster(work / "cluster", heap_mb=1024, settings=settings, log=print) as cluster,
        ):
            admin = TopicAdmin({"bootstrap.servers": cluster.bootstrap_servers})
            classpath = "" if options.takeover or options.only == "headrace" else job_classpath()
            bench = RestartBench(cluster.bootstrap_servers, work, classpath, options.java, admin)
            for number in range(1, options.runs + 1):
                for protocol in [options.protocol] if options.protocol else ["classic", "streams"]:
                    for job in ["headrace"] if options.takeover else [options.only] if options.only else JOBS:
                        results.append(
                            bench.take_over(protocol, number)
                            if options.takeover
                            else bench.run(job, protocol, options.others, number)
                        )
                        print(results[-1], flush=True)
            admin.close()
        since = "the rebalance's end" if options.takeover else "the new process's start"
        report(f"seconds from {since} until every task goes on", results)
    except BenchError as failed:
        print(f"restart: {failed}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
