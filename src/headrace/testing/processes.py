"""Java programs in the background, for local brokers and registries: found again, stopped, fetched by Maven.

A running program is described by a small file in its data directory, so that another process can find and stop it; the
file carries the process's start time beside its id, so that a recycled process id is never mistaken for it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from headrace.errors import KafkaException

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

HOST: Final = "127.0.0.1"
_LEAST_JAVA: Final = 17
_PORTS: Final = (20_000, 32_768)


class ClusterError(KafkaException):
    """A local broker or registry could not be started or stopped; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class RunningProcess:
    """One process for good.

    ``process_start`` is the operating system's start mark of the process ``pid`` (clock ticks since boot, or a date
    text where there is no ``/proc``).
    """

    pid: int
    process_start: str

    def is_alive(self) -> bool:
        """Whether that very process still runs."""
        return process_start(self.pid) == self.process_start


State = TypeVar("State", bound=RunningProcess)


def process_start(pid: int) -> str | None:
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


class Program(Generic[State]):
    """A program of one data directory, started by whichever process.

    Args:
        data_dir: Where its state file and log are.
        name: Their name, without suffix.
        what: What it is, for messages.
        state_class: What the state file holds.
    """

    def __init__(self, data_dir: Path, name: str, what: str, state_class: type[State]) -> None:
        self._data_dir = data_dir
        self._state_file = data_dir / f"{name}.json"
        self._what = what
        self._state_class = state_class
        self._child: subprocess.Popen[bytes] | None = None

    def state(self) -> State | None:
        """The running program; None when none runs.

        Raises:
            ClusterError: The state file is of another version.
        """
        try:
            state = self._state_class(**json.loads(self._state_file.read_text(encoding="utf-8")))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, TypeError) as e:
            raise ClusterError(f"{self._state_file} is not a state file of this version: {e}") from e
        if self._child is not None:
            # reap our own child, which else would count as alive after its end
            self._child.poll()
        if state.is_alive():
            return state
        # its first thread may be gone before the others, which hold its ports until the process ends
        self._reap()
        return None

    def launch(self, command: Sequence[str], log_file: Path, described: Callable[[int, str], State]) -> State:
        """Start it; :meth:`wait` waits until it answers.

        It has a session of its own: Ctrl-C at the terminal reaches its owner, which stops it in order.

        Args:
            command: Program and arguments.
            log_file: Takes its output.
            described: Makes the state of process id and start mark.
        """
        self._state_file.unlink(missing_ok=True)
        with log_file.open("wb") as out:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=self._data_dir,
                start_new_session=True,
            )
        self._child = child
        state = described(child.pid, process_start(child.pid) or "")
        scratch = self._state_file.with_name(f"{self._state_file.name}.new")
        scratch.write_text(json.dumps(asdict(state)), encoding="utf-8")
        scratch.replace(self._state_file)
        return state

    def wait(self, log_file: Path, ready: Callable[[str], bool], timeout_s: float) -> None:
        """Wait until what :meth:`launch` started answers.

        Args:
            log_file: Has its output.
            ready: Told its output so far; True when it answers.
            timeout_s: How long to wait, in seconds.

        Raises:
            ClusterError: It ended, or did not answer in time. Nothing is left running.
        """
        child = self._child
        if child is None:
            raise ClusterError(f"{self._what} was not started here")
        try:
            self._await_ready(child, log_file, ready, timeout_s)
        except BaseException:
            self.stop(30.0)
            raise

    def stop(self, timeout_s: float) -> bool:
        """Stop it, whichever process started it; killed after ``timeout_s``. Returns whether one was running."""
        state = self.state()
        if state is not None:
            _end(state, self._what, timeout_s)
        self._reap()
        self._state_file.unlink(missing_ok=True)
        return state is not None

    def kill(self) -> None:
        """End it without a clean shutdown, as a power cut would (``kill -9``)."""
        state = self.state()
        if state is not None:
            os.kill(state.pid, signal.SIGKILL)
        self._reap()

    def _reap(self) -> None:
        if self._child is not None:
            self._child.wait()
            self._child = None

    def _await_ready(
        self, child: subprocess.Popen[bytes], log_file: Path, ready: Callable[[str], bool], timeout_s: float
    ) -> None:
        deadline = time.monotonic() + timeout_s

        def read() -> str:
            return log_file.read_text(encoding="utf-8", errors="replace")

        while time.monotonic() < deadline:
            if child.poll() is not None:
                raise ClusterError(
                    f"{self._what} ended with exit code {child.returncode} before it answered; the end of {log_file}:\n"
                    f"{tail(read())}"
                )
            if ready(read()):
                return
            time.sleep(0.05)
        raise ClusterError(
            f"{self._what} did not answer within {timeout_s:.0f} s; the end of {log_file}:\n{tail(read())}"
        )


def _end(process: RunningProcess, what: str, timeout_s: float) -> None:
    for sign, patience_s in ((signal.SIGTERM, timeout_s), (signal.SIGKILL, 10.0)):
        if not process.is_alive():
            return
        os.kill(process.pid, sign)
        deadline = time.monotonic() + patience_s
        while process.is_alive() and time.monotonic() < deadline:
            time.sleep(0.02)
    if process.is_alive():
        raise ClusterError(f"{what} (process {process.pid}) does not end, even killed")


def require_java(what: str) -> str:
    """The path of a java that is new enough for ``what``.

    Raises:
        ClusterError: There is none.
    """
    java = shutil.which("java")
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        java = str(Path(home) / "bin" / "java")
    advice = f"install Java {_LEAST_JAVA} or newer (Debian: apt-get install default-jre-headless)"
    if java is None:
        raise ClusterError(f"{what} runs on Java and there is no java on PATH: {advice}")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    if said.returncode != 0 or version is None:
        raise ClusterError(f"{java} does not run: {advice}")
    if int(version[1]) < _LEAST_JAVA:
        raise ClusterError(f"{java} is Java {version[1]}, too old for {what}: {advice}")
    return java


def require_maven(what: str, instead: str) -> str:
    """The path of Maven.

    Args:
        what: What it is to fetch, for messages.
        instead: What can be done without it.

    Raises:
        ClusterError: There is none.
    """
    maven = shutil.which("mvn")
    if maven is None:
        raise ClusterError(
            f"Maven is needed to fetch {what} and there is no mvn on PATH: install it (Debian: apt-get install maven) "
            f"or {instead}"
        )
    return maven


def run_maven(maven: str, arguments: Sequence[str], what: str, working_directory: Path) -> None:
    """Have Maven fetch something.

    Args:
        maven: Its path.
        arguments: Its arguments, without those for quiet batch work.
        what: What it fetches, for messages.
        working_directory: Where it runs.

    Raises:
        ClusterError: It failed.
    """
    run_to_end([maven, "-q", "-B", *arguments], f"Maven could not fetch {what}", working_directory)


def run_to_end(command: Sequence[str], failure: str, working_directory: Path | None = None) -> None:
    """Run a program and wait for its end.

    Args:
        command: Program and arguments.
        failure: What it means that it failed; the end of its output follows.
        working_directory: Where it runs; None for here.

    Raises:
        ClusterError: Its exit code is not 0.
    """
    done = subprocess.run(
        command,
        cwd=working_directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ClusterError(f"{failure}:\n{tail(done.stdout)}")


def cached(
    target: str, what: str, fetch: Callable[[str, Path, Path], Path], *, java_program: str, instead: str
) -> Path:
    """A directory in the user's cache, filled by Maven when it is not there yet.

    Args:
        target: Its name there.
        what: What it holds, for messages.
        fetch: ``(maven, scratch, directory)``: puts what it holds into a directory below ``scratch``, and says where.
        java_program: What is to run, for messages; it needs Java.
        instead: What can be done without Maven.

    Raises:
        ClusterError: Maven or Java is missing, Maven failed, or it could not be put there.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace"
    directory = cache / target
    if directory.is_dir():
        return directory
    maven = require_maven(what, instead)
    require_java(java_program)
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=".fetching-") as scratch:
        fetched = fetch(maven, Path(scratch), directory)
        # a directory that another process completed in the meantime is as good as ours
        with contextlib.suppress(OSError):
            fetched.rename(directory)
    if not directory.is_dir():
        raise ClusterError(f"{what} could not be put at {directory}: is the directory writable?")
    return directory


def is_free(port: int) -> bool:
    """Whether a program could listen on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # as Java does: a port whose old connections are still fading may be taken again
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def free_port(avoid: Collection[int] = ()) -> int:
    """A port that no program listens on, other than those of ``avoid``.

    It is below those that systems hand out for connections: one of these could take it before its program listens, or
    while a killed broker is away.
    """
    while True:
        port = random.randrange(*_PORTS)
        if port not in avoid and is_free(port):
            return port


def choose_port(wanted: int | None, before: int | None, avoid: Collection[int] = ()) -> int:
    """``wanted``, which must be free; else the one of ``before`` when it is free, else any free one.

    Ports of ``avoid`` are taken by others that have not started yet.

    Raises:
        ClusterError: ``wanted`` is taken.
    """
    if wanted is not None:
        if not is_free(wanted):
            raise ClusterError(
                f"port {wanted} on {HOST} is taken by another program: name another port, or none to get a free one"
            )
        return wanted
    return before if before is not None and before not in avoid and is_free(before) else free_port(avoid)


def short_digest(data: bytes) -> str:
    """Eight digits that stand for content."""
    return hashlib.sha256(data).hexdigest()[:8]


def tail(text: str, lines: int = 15) -> str:
    """The last lines of a text."""
    return "\n".join(text.strip().splitlines()[-lines:])
