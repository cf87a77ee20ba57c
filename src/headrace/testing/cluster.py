"""A real single-node Apache Kafka (KRaft) on this machine, for people and tests.

``LocalCluster`` formats a data directory, starts the broker on free ports, waits until it answers, and leaves no
process behind when stopped. A running broker is described by a state file in its data directory, so that another
process can find and stop it; the file carries the process's start time beside its id, so that a recycled process id
is never mistaken for the broker.

The jars come from ``HEADRACE_KAFKA_LIB`` (a directory), else from a cache that Maven fills once from the
``kafka-pom.xml`` beside this module. Only the standard library is used here.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from headrace.testing.processes import (
    HOST,
    ClusterError,
    Program,
    RunningProcess,
    cached,
    choose_port,
    free_port,
    require_java,
    run_maven,
    short_digest,
    tail,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

KAFKA_VERSION: Final = "4.4.0"
"""The Apache Kafka release that is started."""

_LOG_FILE: Final = "broker.log"
_STARTED_MARK: Final = "Kafka Server started"

_BROKER_SETTINGS: Final[Mapping[str, str]] = {
    # one node holds every replica
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    # a topic that nobody made is an error to see, not a topic with one partition
    "auto.create.topics.enable": "false",
    # the broker deletes by record timestamp: samples with old event times would vanish under a default retention
    "log.retention.ms": "-1",
    # groups form at once, and tests may lower their time-outs
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.min.heartbeat.interval.ms": "100",
    # the transaction of a killed instance is aborted soon after its time-out, not up to ten seconds later
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # little memory
    "log.cleaner.dedupe.buffer.size": "16777216",
    "log.cleaner.threads": "1",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "num.recovery.threads.per.data.dir": "1",
}

_LOG4J: Final = """<?xml version="1.0" encoding="UTF-8"?>
<Configuration status="ERROR">
  <Appenders><Console name="out"><PatternLayout pattern="%d{ISO8601} %-5p %c{1}: %m%n"/></Console></Appenders>
  <Loggers>
    <Root level="INFO"><AppenderRef ref="out"/></Root>
    <Logger name="org.apache.kafka.common.config" level="WARN"/>
    <Logger name="kafka.server.KafkaConfig" level="WARN"/>
  </Loggers>
</Configuration>
"""


@dataclass(frozen=True, slots=True)
class ClusterState(RunningProcess):
    """What is known of a running broker."""

    port: int
    controller_port: int
    kafka_version: str

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` for clients."""
        return f"{HOST}:{self.port}"


def jars_directory(log: Callable[[str], None] = lambda _: None) -> Path:
    """The directory with Kafka's jars, fetched by Maven when they are not there yet.

    Args:
        log: told in one line when a fetch begins.

    Returns:
        ``HEADRACE_KAFKA_LIB`` when set, else ``headrace/kafka-<version>`` in the user's cache directory.

    Raises:
        ClusterError: the named directory holds no jars, Maven is missing, or Maven failed.
    """
    named = os.environ.get("HEADRACE_KAFKA_LIB")
    if named:
        if not any(Path(named).glob("kafka_*.jar")):
            raise ClusterError(f"HEADRACE_KAFKA_LIB={named} holds no kafka_*.jar: name a directory with Kafka's jars")
        return Path(named)
    pom = Path(__file__).with_name("kafka-pom.xml")
    what = "Kafka's jars"

    def fetch(maven: str, scratch: Path, directory: Path) -> Path:
        log(f"fetching Apache Kafka {KAFKA_VERSION} with Maven into {directory} (about 130 MB, once)")
        # Maven writes beside the pom, which may be a read-only installed file
        shutil.copy(pom, scratch / "pom.xml")
        run_maven(maven, ["dependency:copy-dependencies", f"-DoutputDirectory={scratch}/lib"], what, scratch)
        return scratch / "lib"

    # the pom's own check sum is in the name: another set of jars is another directory
    return cached(
        f"kafka-{KAFKA_VERSION}-{short_digest(pom.read_bytes())}",
        what,
        fetch,
        java_program=f"Kafka {KAFKA_VERSION}",
        instead="set HEADRACE_KAFKA_LIB to a directory that holds them",
    )


class LocalCluster:
    """One Apache Kafka node, broker and controller in one process.

    Used as a context manager it stops what it started::

        with LocalCluster(tmp_path) as cluster:
            run_against(cluster.bootstrap_servers)

    Args:
        data_dir: where logs, settings and the state file live; made when missing, reused when there.
        port: the port clients connect to; None takes the port of the last start when it is free, else any free one.
        heap_mb: the broker's maximum heap in MiB.
        settings: broker settings that override the defaults of this module.
        log: told in single lines what takes time.
    """

    def __init__(
        self,
        data_dir: str | Path,
        *,
        port: int | None = None,
        heap_mb: int = 768,
        settings: Mapping[str, str] | None = None,
        log: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.data_dir = Path(data_dir).absolute()
        self._port = port
        self._heap_mb = heap_mb
        self._settings = dict(settings or {})
        self._log = log
        self._program = Program(self.data_dir, "cluster", "Kafka", ClusterState)

    @property
    def log_file(self) -> Path:
        """The broker's log of the last start."""
        return self.data_dir / _LOG_FILE

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of the running broker.

        Raises:
            ClusterError: no broker of this data directory is running.
        """
        state = self.state()
        if state is None:
            raise ClusterError(f"no cluster is running in {self.data_dir}")
        return state.bootstrap_servers

    def state(self) -> ClusterState | None:
        """The running broker of this data directory, started by whichever process; None when none runs."""
        return self._program.state()

    def start(self, timeout_s: float = 60.0) -> ClusterState:
        """Starts the broker and waits until it answers; a broker that already runs here is returned as it is.

        Args:
            timeout_s: how long the broker may take.

        Raises:
            ClusterError: Java or the jars are missing, the port is taken, the broker ended early or did not answer in
                time. Nothing is left running.
        """
        running = self.state()
        if running is not None:
            if self._port not in (None, running.port):
                raise ClusterError(
                    f"a cluster already runs in {self.data_dir} on port {running.port}: stop it first, or name another"
                    " data directory"
                )
            return running
        java = require_java(f"Kafka {KAFKA_VERSION}")
        jars = jars_directory(self._log)
        port = choose_port(self._port, self._port_before())
        controller_port = free_port(avoid=port)
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self._write_settings(port, controller_port)
        self._format(java, jars)
        command = [
            *self._java_command(java, jars, heap_mb=self._heap_mb),
            f"-Xms{min(256, self._heap_mb)}m",
            "kafka.Kafka",
            str(self._settings_file),
        ]
        return self._program.start(
            command,
            self.log_file,
            lambda pid, start: ClusterState(pid, start, port, controller_port, KAFKA_VERSION),
            lambda output: _STARTED_MARK in output and _answers(port),
            timeout_s,
        )

    def stop(self, timeout_s: float = 30.0) -> bool:
        """Stops the broker of this data directory, whichever process started it.

        Args:
            timeout_s: how long a clean shutdown may take before the process is killed.

        Returns:
            Whether one was running.
        """
        return self._program.stop(timeout_s)

    def kill(self) -> None:
        """Ends the broker without a clean shutdown, as a power cut would (``kill -9``)."""
        self._program.kill()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _port_before(self) -> int | None:
        with contextlib.suppress(OSError):
            before = re.search(
                rf"^advertised\.listeners=PLAINTEXT://{HOST}:(\d+)$",
                self._settings_file.read_text(encoding="utf-8"),
                re.MULTILINE,
            )
            return int(before[1]) if before else None
        return None

    @property
    def _settings_file(self) -> Path:
        return self.data_dir / "server.properties"

    def _write_settings(self, port: int, controller_port: int) -> None:
        rows = {
            "node.id": "1",
            "process.roles": "broker,controller",
            "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@{HOST}:{controller_port}",
            "log.dirs": str(self.data_dir / "logs"),
            **_BROKER_SETTINGS,
            **self._settings,
        }
        text = "".join(f"{key}={value}\n" for key, value in rows.items())
        self._settings_file.write_text(text, encoding="utf-8")
        (self.data_dir / "log4j2.xml").write_text(_LOG4J, encoding="utf-8")

    def _java_command(self, java: str, jars: Path, *, heap_mb: int) -> list[str]:
        return [
            java,
            f"-Xmx{heap_mb}m",
            "-XX:+ExitOnOutOfMemoryError",
            "-XX:-UsePerfData",
            "-Djava.awt.headless=true",
            f"-Dlog4j2.configurationFile={self.data_dir / 'log4j2.xml'}",
            "-cp",
            f"{jars}/*",
        ]

    def _format(self, java: str, jars: Path) -> None:
        if (self.data_dir / "logs" / "meta.properties").exists():
            return
        # a cluster id must not begin with '-', which base64's URL alphabet has
        cluster_id = "h" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
        done = subprocess.run(
            [
                *self._java_command(java, jars, heap_mb=128),
                "-XX:TieredStopAtLevel=1",
                "kafka.tools.StorageTool",
                "format",
                "--cluster-id",
                cluster_id,
                "--config",
                str(self._settings_file),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise ClusterError(f"Kafka could not format {self.data_dir / 'logs'}:\n{tail(done.stdout)}")


def _answers(port: int) -> bool:
    """Whether a Kafka broker answers ApiVersions (key 18, version 0) there with error code 0."""
    header = (18).to_bytes(2, "big") + (0).to_bytes(2, "big") + (7).to_bytes(4, "big") + (0xFFFF).to_bytes(2, "big")
    try:
        with socket.create_connection((HOST, port), timeout=2.0) as connection:
            connection.sendall(len(header).to_bytes(4, "big") + header)
            answer = b""
            while len(answer) < 10:
                part = connection.recv(64)
                if not part:
                    return False
                answer += part
    except OSError:
        return False
    return answer[4:10] == (7).to_bytes(4, "big") + b"\x00\x00"


if __name__ == "__main__":
    # for scripts of other languages: prints the directory of Kafka's jars, fetched when needed
    print(jars_directory(lambda line: print(line, file=sys.stderr)))
