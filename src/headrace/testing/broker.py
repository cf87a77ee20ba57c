"""One node of a local Apache Kafka (KRaft, broker and controller in one process), and where its jars come from.

A node formats its data directory, starts, and is described by a state file there, so that another process can find and
stop it. The jars come from ``HEADRACE_KAFKA_LIB`` (a directory), else from a cache that Maven fills once from the
``kafka-pom.xml`` beside this module. Only the standard library is used here.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.testing.processes import (
    HOST,
    ClusterError,
    Program,
    RunningProcess,
    cached,
    require_java,
    run_maven,
    run_to_end,
    short_digest,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

KAFKA_VERSION: Final = "4.4.0"
"""The Apache Kafka release that is started when no other is named."""

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

_REPLICATED: Final = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)
_IN_SYNC: Final = ("min.insync.replicas", "transaction.state.log.min.isr", "share.coordinator.state.topic.min.isr")

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


_LOG4J_1: Final = """log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{ISO8601} %-5p %c{1}: %m%n
log4j.logger.org.apache.kafka.common.config=WARN
log4j.logger.kafka.server.KafkaConfig=WARN
"""


@dataclass(frozen=True, slots=True)
class Listener:
    """One more listener for clients, beside the plain one.

    Attributes:
        name: Its name, in capitals.
        protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
        ports: By node id, the port it listens on.
        advertised: By node id, the port that clients are told, such as a proxy's; None for the same.
    """

    name: str
    ports: Mapping[int, int]
    protocol: str = "PLAINTEXT"
    advertised: Mapping[int, int] | None = None

    def told(self, node_id: int) -> int:
        """The port that clients are told."""
        return (self.advertised or self.ports)[node_id]


@dataclass(frozen=True, slots=True)
class BrokerState(RunningProcess):
    """What is known of a running node."""

    port: int
    controller_port: int
    kafka_version: str

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` for clients."""
        return f"{HOST}:{self.port}"


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """What the nodes of one cluster have in common.

    Attributes:
        cluster_id: Of the formatted directories.
        ports: By node id, the port for clients and the controller's.
        version: Of Kafka.
        heap_mb: Maximum heap of a node in MiB.
        listeners: Further ones.
        settings: Settings of every broker that override the defaults.
        racks: By node id, where it is; a node that is not in it is nowhere.
    """

    cluster_id: str
    ports: Mapping[int, tuple[int, int]]
    version: str = KAFKA_VERSION
    heap_mb: int = 768
    listeners: tuple[Listener, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict["str", "str"])
    racks: Mapping[int, str] = field(default_factory=dict["int", "str"])


def jars_directory(log: Callable[[str], None] = lambda _: None, version: str = KAFKA_VERSION) -> Path:
    """The directory with Kafka's jars, fetched by Maven when they are not there yet.

    Args:
        log: told in one line when a fetch begins.
        version: of Apache Kafka.

    Returns:
        ``HEADRACE_KAFKA_LIB`` when set and no other version is asked for, else ``headrace/kafka-<version>`` in the
        user's cache directory.

    Raises:
        ClusterError: the named directory holds no jars, Maven is missing, or Maven failed.
    """
    named = os.environ.get("HEADRACE_KAFKA_LIB")
    if named and version == KAFKA_VERSION:
        if not any(Path(named).glob("kafka_*.jar")):
            raise ClusterError(f"HEADRACE_KAFKA_LIB={named} holds no kafka_*.jar: name a directory with Kafka's jars")
        return Path(named)
    pom = Path(__file__).with_name("kafka-pom.xml")
    what = "Kafka's jars"

    def fetch(maven: str, scratch: Path, directory: Path) -> Path:
        log(f"fetching Apache Kafka {version} with Maven into {directory} (about 130 MB, once)")
        # Maven writes beside the pom, which may be a read-only installed file
        shutil.copy(pom, scratch / "pom.xml")
        arguments = [
            "dependency:copy-dependencies",
            f"-DoutputDirectory={scratch}/lib",
            f"-Dkafka.version={version}",
        ]
        run_maven(maven, arguments, what, scratch)
        return scratch / "lib"

    # the pom's own check sum is in the name: another set of jars is another directory
    return cached(
        f"kafka-{version}-{short_digest(pom.read_bytes())}",
        what,
        fetch,
        java_program=f"Kafka {version}",
        instead="set HEADRACE_KAFKA_LIB to a directory that holds them",
    )


class Broker:
    """One node, started by whichever process.

    Args:
        data_dir: where logs, settings and the state file live; made when missing, reused when there.
        node_id: its number in the cluster, from 1.
    """

    def __init__(self, data_dir: Path, node_id: int) -> None:
        self.data_dir = data_dir
        self.node_id = node_id
        self._program = Program(data_dir, "cluster", "Kafka", BrokerState)

    @property
    def log_file(self) -> Path:
        """The node's log of the last start."""
        return self.data_dir / _LOG_FILE

    def state(self) -> BrokerState | None:
        """The running node of this data directory; None when none runs."""
        return self._program.state()

    def cluster_id(self) -> str | None:
        """The cluster that the directory was formatted for."""
        return _first(self.data_dir / "logs" / "meta.properties", r"^cluster\.id=(.+)$")

    def ports_before(self) -> tuple[int, int] | None:
        """The port for clients and the controller's of the last start."""
        port = _first(self._settings_file, rf"^advertised\.listeners=PLAINTEXT://{HOST}:(\d+)")
        controller = _first(self._settings_file, rf"^listeners=.*CONTROLLER://{HOST}:(\d+)")
        return None if port is None or controller is None else (int(port), int(controller))

    def version_before(self) -> str | None:
        """The release of the last start."""
        return _first(self._settings_file, r"^# Apache Kafka (\S+)$")

    def launch(self, plan: ClusterPlan, log: Callable[[str], None] = lambda _: None) -> BrokerState:
        """Start it without waiting for its answer; see :meth:`wait`.

        Raises:
            ClusterError: Java or the jars are missing, or its directory could not be formatted.
        """
        java = require_java(f"Kafka {plan.version}")
        jars = jars_directory(log, plan.version)
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self._write_settings(plan)
        self._format(java, jars, plan)
        command = [
            *self._java_command(java, jars, plan.heap_mb),
            f"-Xms{min(256, plan.heap_mb)}m",
            "kafka.Kafka",
            str(self._settings_file),
        ]
        port, controller_port = plan.ports[self.node_id]
        return self._program.launch(
            command, self.log_file, lambda pid, start: BrokerState(pid, start, port, controller_port, plan.version)
        )

    def wait(self, state: BrokerState, timeout_s: float) -> None:
        """Wait until it answers.

        Raises:
            ClusterError: It ended early, or did not answer in time. It is not left running.
        """
        self._program.wait(self.log_file, lambda output: _STARTED_MARK in output and _answers(state.port), timeout_s)

    def stop(self, timeout_s: float = 30.0) -> bool:
        """Stop it; killed after ``timeout_s`` seconds. Returns whether it was running."""
        return self._program.stop(timeout_s)

    def kill(self) -> None:
        """End it without a clean shutdown, as a power cut would (``kill -9``)."""
        self._program.kill()

    def pause(self) -> None:
        """Freeze it (SIGSTOP): its connections stay, it answers nothing."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a frozen one go on (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        state = self.state()
        if state is None:
            raise ClusterError(f"no broker is running in {self.data_dir}")
        os.kill(state.pid, number)

    @property
    def _settings_file(self) -> Path:
        return self.data_dir / "server.properties"

    def _write_settings(self, plan: ClusterPlan) -> None:
        port, controller_port = plan.ports[self.node_id]
        nodes = len(plan.ports)
        further = plan.listeners
        names = ["PLAINTEXT", *(one.name for one in further)]
        bound = [port, *(one.ports[self.node_id] for one in further)]
        told = [port, *(one.told(self.node_id) for one in further)]
        listeners = [f"{name}://{HOST}:{number}" for name, number in zip(names, bound, strict=True)]
        protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **{one.name: one.protocol for one in further}}
        rows = {
            "node.id": str(self.node_id),
            "process.roles": "broker,controller",
            "listeners": ",".join([*listeners, f"CONTROLLER://{HOST}:{controller_port}"]),
            "advertised.listeners": ",".join(
                f"{name}://{HOST}:{number}" for name, number in zip(names, told, strict=True)
            ),
            "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in protocols.items()),
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(
                f"{node}@{HOST}:{controller}" for node, (_, controller) in plan.ports.items()
            ),
            "log.dirs": str(self.data_dir / "logs"),
            **_BROKER_SETTINGS,
            **dict.fromkeys(_REPLICATED, str(min(nodes, 3))),
            **dict.fromkeys(_IN_SYNC, str(2 if nodes > 2 else 1)),
            **({"broker.rack": plan.racks[self.node_id]} if self.node_id in plan.racks else {}),
            **plan.settings,
        }
        text = "".join(f"{key}={value}\n" for key, value in rows.items())
        self._settings_file.write_text(f"# Apache Kafka {plan.version}\n{text}", encoding="utf-8")
        (self.data_dir / "log4j2.xml").write_text(_LOG4J, encoding="utf-8")
        (self.data_dir / "log4j.properties").write_text(_LOG4J_1, encoding="utf-8")

    def _java_command(self, java: str, jars: Path, heap_mb: int) -> list[str]:
        return [
            java,
            f"-Xmx{heap_mb}m",
            "-XX:+ExitOnOutOfMemoryError",
            "-XX:-UsePerfData",
            "-Djava.awt.headless=true",
            f"-Dlog4j2.configurationFile={self.data_dir / 'log4j2.xml'}",
            # releases before 4.0 log by the first log4j
            f"-Dlog4j.configuration=file:{self.data_dir / 'log4j.properties'}",
            "-cp",
            f"{jars}/*",
        ]

    def _format(self, java: str, jars: Path, plan: ClusterPlan) -> None:
        if self.cluster_id() is not None:
            return
        run_to_end(
            [
                *self._java_command(java, jars, 128),
                "-XX:TieredStopAtLevel=1",
                "kafka.tools.StorageTool",
                "format",
                "--cluster-id",
                plan.cluster_id,
                "--config",
                str(self._settings_file),
            ],
            f"Kafka could not format {self.data_dir / 'logs'}",
        )


def _first(file: Path, pattern: str) -> str | None:
    with contextlib.suppress(OSError):
        found = re.search(pattern, file.read_text(encoding="utf-8"), re.MULTILINE)
        return found[1] if found else None
    return None


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
