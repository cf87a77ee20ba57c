"""A real schema registry on this machine, for people and tests: Apicurio Registry with Confluent's API.

``LocalRegistry`` starts it on a free port, waits until it answers, and leaves no process behind when stopped. Its
schemas are kept in its data directory. The program comes from ``HEADRACE_REGISTRY_HOME`` (a directory with its
``…-runner.jar``), else from a cache that Maven fills once.
"""

from __future__ import annotations

import os
import tarfile
import urllib.error
import urllib.request
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
    require_java,
    run_maven,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

REGISTRY_VERSION: Final = "2.6.13.Final"
"""The Apicurio Registry release that is started."""

_NAME: Final = f"Apicurio Registry {REGISTRY_VERSION}"
_ARTIFACT: Final = f"io.apicurio:apicurio-registry-app:{REGISTRY_VERSION}:tar.gz:all"
_DEPENDENCY_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
_API: Final = "/apis/ccompat/v7"


@dataclass(frozen=True, slots=True)
class RegistryState(RunningProcess):
    """What is known of a running registry."""

    port: int
    registry_version: str

    @property
    def url(self) -> str:
        """Its address for ``schema.registry.url``."""
        return f"http://{HOST}:{self.port}{_API}"


def registry_home(log: Callable[[str], None] = lambda _: None) -> Path:
    """The directory of the registry's program, fetched by Maven when it is not there yet.

    Args:
        log: told in one line when a fetch begins.

    Returns:
        ``HEADRACE_REGISTRY_HOME`` when set, else ``headrace/apicurio-<version>`` in the user's cache directory.

    Raises:
        ClusterError: the named directory holds no program, Maven is missing, or Maven failed.
    """
    named = os.environ.get("HEADRACE_REGISTRY_HOME")
    if named:
        _runner(Path(named))
        return Path(named)

    def fetch(maven: str, scratch: Path, directory: Path) -> Path:
        log(f"fetching {_NAME} with Maven into {directory} (about 140 MB, once)")
        copy = [f"{_DEPENDENCY_PLUGIN}:copy", f"-Dartifact={_ARTIFACT}", f"-DoutputDirectory={scratch}/fetched"]
        run_maven(maven, copy, _NAME, scratch)
        program = scratch / "program"
        with tarfile.open(next((scratch / "fetched").glob("*.tar.gz"))) as archive:
            if hasattr(tarfile, "data_filter"):
                archive.extractall(program, filter="data")
            else:
                # older patch releases of Python 3.11; Maven has checked the archive's sum
                archive.extractall(program)  # noqa: S202
        return program

    return cached(
        f"apicurio-{REGISTRY_VERSION}",
        _NAME,
        fetch,
        java_program=_NAME,
        instead="set HEADRACE_REGISTRY_HOME to a directory that holds it",
    )


class LocalRegistry:
    """One schema registry.

    Used as a context manager it stops what it started::

        with LocalRegistry(tmp_path) as registry:
            run_against({"schema.registry.url": registry.url})

    Args:
        data_dir: where its schemas, log and state file live; made when missing, reused when there.
        port: the port clients connect to; None takes the port of the last start when it is free, else any free one.
        heap_mb: its maximum heap in MiB.
        log: told in single lines what takes time.
    """

    def __init__(
        self,
        data_dir: str | Path,
        *,
        port: int | None = None,
        heap_mb: int = 256,
        log: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.data_dir = Path(data_dir).absolute()
        self._port = port
        self._heap_mb = heap_mb
        self._log = log
        self._program = Program(self.data_dir, "registry", _NAME, RegistryState)

    @property
    def log_file(self) -> Path:
        """The registry's log of the last start."""
        return self.data_dir / "registry.log"

    @property
    def url(self) -> str:
        """The address of the running registry.

        Raises:
            ClusterError: no registry of this data directory is running.
        """
        state = self.state()
        if state is None:
            raise ClusterError(f"no registry is running in {self.data_dir}")
        return state.url

    def state(self) -> RegistryState | None:
        """The running registry of this data directory, started by whichever process; None when none runs."""
        return self._program.state()

    def start(self, timeout_s: float = 60.0) -> RegistryState:
        """Starts the registry and waits until it answers; one that already runs here is returned as it is.

        Args:
            timeout_s: how long it may take.

        Raises:
            ClusterError: Java or the program is missing, the port is taken, it ended early or did not answer in time.
                Nothing is left running.
        """
        running = self.state()
        if running is not None:
            if self._port not in (None, running.port):
                raise ClusterError(
                    f"a registry already runs in {self.data_dir} on port {running.port}: stop it first, or name "
                    "another data directory"
                )
            return running
        java = require_java(_NAME)
        runner = _runner(registry_home(self._log))
        self.data_dir.mkdir(parents=True, exist_ok=True)
        port = choose_port(self._port, self._port_before())
        self._port_file.write_text(str(port), encoding="utf-8")
        command = [
            java,
            f"-Xmx{self._heap_mb}m",
            "-XX:+ExitOnOutOfMemoryError",
            "-XX:-UsePerfData",
            "-XX:TieredStopAtLevel=1",
            f"-Dquarkus.http.host={HOST}",
            f"-Dquarkus.http.port={port}",
            f"-Dquarkus.datasource.jdbc.url=jdbc:h2:file:{self.data_dir / 'schemas'};WRITE_DELAY=0",
            "-Dquarkus.datasource.jdbc.initial-size=1",
            "-Dquarkus.datasource.jdbc.min-size=1",
            "-jar",
            str(runner),
        ]
        state = self._program.launch(
            command, self.log_file, lambda pid, start: RegistryState(pid, start, port, REGISTRY_VERSION)
        )
        self._program.wait(self.log_file, lambda _: _answers(port), timeout_s)
        return state

    def stop(self, timeout_s: float = 30.0) -> bool:
        """Stops the registry of this data directory, whichever process started it. Returns whether one was running."""
        return self._program.stop(timeout_s)

    def kill(self) -> None:
        """Ends the registry without a clean shutdown (``kill -9``)."""
        self._program.kill()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def _port_file(self) -> Path:
        return self.data_dir / "registry.port"

    def _port_before(self) -> int | None:
        try:
            return int(self._port_file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None


def _runner(home: Path) -> Path:
    found = sorted(home.glob("*-runner.jar"))
    if not found:
        raise ClusterError(f"{home} holds no …-runner.jar of Apicurio Registry: name a directory that has its program")
    return found[0]


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://{HOST}:{port}{_API}/subjects", timeout=2.0) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
