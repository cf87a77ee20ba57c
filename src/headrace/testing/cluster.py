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
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from headrace.errors import KafkaException

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

KAFKA_VERSION: Final = "4.4.0"
"""The Apache Kafka release that is started."""

_HOST: Final = "127.0.0.1"
_LEAST_JAVA: Final = 17
_STATE_FILE: Final = "cluster.json"
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


class ClusterError(KafkaException):
    """The local cluster could not be started or stopped; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What is known of a running broker.

    ``process_start`` is the operating system's start mark of the process ``pid`` (clock ticks since boot, or a date
    text where there is no ``/proc``): together they name one process for good.
    """

    pid: int
    process_start: str
    port: int
    controller_port: int
    kafka_version: str

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` for clients."""
        return f"{_HOST}:{self.port}"

    def is_alive(self) -> bool:
        """Whether that very process still runs."""
        return _process_start(self.pid) == self.process_start


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
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace"
    pom = Path(__file__).with_name("kafka-pom.xml")
    # the pom's own check sum is in the name: another set of jars is another directory
    target = cache / f"kafka-{KAFKA_VERSION}-{_short_digest(pom.read_bytes())}"
    if target.is_dir():
        return target
    maven = shutil.which("mvn")
    if maven is None:
        raise ClusterError(
            "Maven is needed to fetch Kafka's jars and there is no mvn on PATH: install it"
            " (Debian: apt-get install maven) or set HEADRACE_KAFKA_LIB to a directory that holds them"
        )
    _require_java()
    cache.mkdir(parents=True, exist_ok=True)
    log(f"fetching Apache Kafka {KAFKA_VERSION} with Maven into {target} (about 130 MB, once)")
    with tempfile.TemporaryDirectory(dir=cache, prefix=".fetching-") as scratch:
        # Maven writes beside the pom, which may be a read-only installed file
        shutil.copy(pom, Path(scratch) / "pom.xml")
        done = subprocess.run(
            [maven, "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={scratch}/lib"],
            cwd=scratch,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise ClusterError(f"Maven could not fetch Kafka's jars:\n{_tail(done.stdout)}")
        # a directory that another process completed in the meantime is as good as ours
        with contextlib.suppress(OSError):
            (Path(scratch) / "lib").rename(target)
    if not target.is_dir():
        raise ClusterError(f"Kafka's jars could not be put at {target}: is the directory writable?")
    return target


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
        self._child: subprocess.Popen[bytes] | None = None

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
        state = self._last_state()
        if self._child is not None:
            # reap our own child, which else would count as alive after its end
            self._child.poll()
        return state if state is not None and state.is_alive() else None

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
        java = _require_java()
        jars = jars_directory(self._log)
        port = self._choose_port()
        controller_port = _free_port(avoid=port)
        self.data_dir.mkdir(parents=True, exist_ok=True)
        (self.data_dir / _STATE_FILE).unlink(missing_ok=True)
        self._write_settings(port, controller_port)
        self._format(java, jars)
        child = self._launch(java, jars)
        self._child = child
        start_mark = _process_start(child.pid) or ""
        state = ClusterState(child.pid, start_mark, port, controller_port, KAFKA_VERSION)
        scratch = self.data_dir / f"{_STATE_FILE}.new"
        scratch.write_text(json.dumps(asdict(state)), encoding="utf-8")
        scratch.replace(self.data_dir / _STATE_FILE)
        try:
            self._await_ready(child, port, timeout_s)
        except BaseException:
            self.stop()
            raise
        return state

    def stop(self, timeout_s: float = 30.0) -> bool:
        """Stops the broker of this data directory, whichever process started it.

        Args:
            timeout_s: how long a clean shutdown may take before the process is killed.

        Returns:
            Whether one was running.
        """
        state = self.state()
        if state is not None:
            _end(state, timeout_s)
        if self._child is not None:
            self._child.wait()
            self._child = None
        (self.data_dir / _STATE_FILE).unlink(missing_ok=True)
        return state is not None

    def kill(self) -> None:
        """Ends the broker without a clean shutdown, as a power cut would (``kill -9``)."""
        state = self.state()
        if state is not None:
            os.kill(state.pid, signal.SIGKILL)
        if self._child is not None:
            self._child.wait()
            self._child = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _last_state(self) -> ClusterState | None:
        try:
            return ClusterState(**json.loads((self.data_dir / _STATE_FILE).read_text(encoding="utf-8")))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, TypeError) as e:
            raise ClusterError(f"{self.data_dir / _STATE_FILE} is not a state file of this version: {e}") from e

    def _choose_port(self) -> int:
        if self._port is not None:
            if not _is_free(self._port):
                raise ClusterError(
                    f"port {self._port} on {_HOST} is taken by another program:"
                    " name another port, or none to get a free one"
                )
            return self._port
        with contextlib.suppress(OSError):
            before = re.search(
                rf"^advertised\.listeners=PLAINTEXT://{_HOST}:(\d+)$",
                self._settings_file.read_text(encoding="utf-8"),
                re.MULTILINE,
            )
            if before and _is_free(int(before[1])):
                return int(before[1])
        return _free_port()

    @property
    def _settings_file(self) -> Path:
        return self.data_dir / "server.properties"

    def _write_settings(self, port: int, controller_port: int) -> None:
        rows = {
            "node.id": "1",
            "process.roles": "broker,controller",
            "listeners": f"PLAINTEXT://{_HOST}:{port},CONTROLLER://{_HOST}:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://{_HOST}:{port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@{_HOST}:{controller_port}",
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
            raise ClusterError(f"Kafka could not format {self.data_dir / 'logs'}:\n{_tail(done.stdout)}")

    def _launch(self, java: str, jars: Path) -> subprocess.Popen[bytes]:
        command = [
            *self._java_command(java, jars, heap_mb=self._heap_mb),
            f"-Xms{min(256, self._heap_mb)}m",
            "kafka.Kafka",
            str(self._settings_file),
        ]
        with self.log_file.open("wb") as out:
            # a session of its own: Ctrl-C at the terminal reaches the cluster's owner, which stops it in order
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=self.data_dir,
                start_new_session=True,
            )

    def _await_ready(self, child: subprocess.Popen[bytes], port: int, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if child.poll() is not None:
                raise ClusterError(
                    f"Kafka ended with exit code {child.returncode} before it answered; the end of {self.log_file}:\n"
                    f"{_tail(self._read_log())}"
                )
            if _STARTED_MARK in self._read_log() and _answers(port):
                return
            time.sleep(0.05)
        raise ClusterError(
            f"Kafka did not answer on port {port} within {timeout_s:.0f} s; the end of {self.log_file}:\n"
            f"{_tail(self._read_log())}"
        )

    def _read_log(self) -> str:
        return self.log_file.read_text(encoding="utf-8", errors="replace")


def _end(state: ClusterState, timeout_s: float) -> None:
    for sign, patience_s in ((signal.SIGTERM, timeout_s), (signal.SIGKILL, 10.0)):
        if not state.is_alive():
            return
        os.kill(state.pid, sign)
        deadline = time.monotonic() + patience_s
        while state.is_alive() and time.monotonic() < deadline:
            time.sleep(0.02)
    if state.is_alive():
        raise ClusterError(f"the broker (process {state.pid}) does not end, even killed")


def _process_start(pid: int) -> str | None:
    """The start mark of a living process, None when there is none (a zombie counts as none)."""
    if Path("/proc/self/stat").exists():
        try:
            # the second field is the command in parentheses, which may hold spaces and parentheses itself
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        return None if fields[0] in "ZX" else fields[19]
    shown = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.strip()
    status, _, begun = shown.partition(" ")
    return None if not shown or status.startswith("Z") else begun.strip()


def _require_java() -> str:
    java = shutil.which("java")
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        java = str(Path(home) / "bin" / "java")
    advice = f"install Java {_LEAST_JAVA} or newer (Debian: apt-get install default-jre-headless)"
    if java is None:
        raise ClusterError(f"Kafka runs on Java and there is no java on PATH: {advice}")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    if said.returncode != 0 or version is None:
        raise ClusterError(f"{java} does not run: {advice}")
    if int(version[1]) < _LEAST_JAVA:
        raise ClusterError(f"{java} is Java {version[1]}, too old for Kafka {KAFKA_VERSION}: {advice}")
    return java


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # as the broker does: a port whose old connections are still fading may be taken again
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError:
            return False
    return True


def _free_port(avoid: int | None = None) -> int:
    while True:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind((_HOST, 0))
            port = int(probe.getsockname()[1])
        if port != avoid:
            return port


def _answers(port: int) -> bool:
    """Whether a Kafka broker answers ApiVersions (key 18, version 0) there with error code 0."""
    header = (18).to_bytes(2, "big") + (0).to_bytes(2, "big") + (7).to_bytes(4, "big") + (0xFFFF).to_bytes(2, "big")
    try:
        with socket.create_connection((_HOST, port), timeout=2.0) as connection:
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


def _short_digest(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()[:8]


def _tail(text: str, lines: int = 15) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])


if __name__ == "__main__":
    # for scripts of other languages: prints the directory of Kafka's jars, fetched when needed
    print(jars_directory(lambda line: print(line, file=sys.stderr)))
