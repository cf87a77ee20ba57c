"""Instances of applications in processes of their own, as tests start, watch, stop and kill them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

PATIENCE_S = 120.0
"""How long a condition may take on a slow machine that others share; a right product needs a fraction of it."""


def wait_until(condition: Callable[[], object], what: str, timeout_s: float = PATIENCE_S, detail: object = "") -> None:
    """Poll a condition until it holds.

    Args:
        condition: asked again and again.
        what: what is waited for, for the failure's message.
        timeout_s: when it fails, in seconds.
        detail: put into the message; called for it where it can be.
    """
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:.0f} s: {what}\n{detail() if callable(detail) else detail}")
        time.sleep(0.02)


class Instance:
    """One instance in a process of its own; it can be started again with the same state directory.

    Args:
        name: its name, and that of its directory.
        directory: where that directory is made.
        arguments: the interpreter's; ``--config`` and a properties file follow.
        config: its settings.
        environment: more of it than this process has.
    """

    def __init__(
        self,
        name: str,
        directory: Path,
        arguments: Sequence[str],
        config: Mapping[str, object],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.directory = directory / name
        self.arguments = tuple(arguments)
        self.config = {"state.dir": str(self.directory / "state"), **config}
        self.environment = dict(environment or {})
        self.starts = 0
        self._process: subprocess.Popen[bytes] | None = None
        self.directory.mkdir(parents=True, exist_ok=True)

    @property
    def state_dir(self) -> Path:
        return self.directory / "state"

    @property
    def config_file(self) -> Path:
        """The properties that it was started with last."""
        return self.directory / "app.properties"

    @property
    def log_file(self) -> Path:
        return self.directory / f"run-{self.starts}.log"

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} was not started"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def crashed(self) -> bool:
        """Whether it ended by itself, neither in good order nor by a kill."""
        return self._process is not None and self._process.poll() not in (None, 0, -signal.SIGKILL)

    def start(self, **settings: object) -> Self:
        """Start it, with more settings from now on (``_`` for ``.`` in their names)."""
        assert not self.running, f"{self.name} runs already"
        self.config.update({key.replace("_", "."): value for key, value in settings.items()})
        self.starts += 1
        self.configure()
        with self.log_file.open("wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, *self.arguments, "--config", str(self.config_file)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1", **self.environment},
            )
        return self

    def configure(self) -> None:
        """Write its configuration: what ``start`` does first."""
        text = "".join(f"{key}={value}\n" for key, value in self.config.items())
        self.config_file.write_text(text, encoding="utf-8")

    def kill(self) -> None:
        """``kill -9``."""
        assert self._process is not None
        assert self._process.poll() is None, f"{self.name} had ended by itself:\n{self.tail()}"
        self._process.kill()
        self._process.wait(30)

    def signal(self, number: int) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def stop(self, timeout_s: float = 60.0) -> None:
        """SIGTERM; it must end in good order."""
        assert self._process is not None
        # before that the interpreter may still be starting, and ends at once
        self.wait_log(r"state REBALANCING")
        assert self._process.poll() is None, f"{self.name} had ended by itself:\n{self.tail()}"
        self._process.send_signal(signal.SIGTERM)
        code = self.exit_code(timeout_s)
        assert code == 0, f"{self.name} ended with exit code {code} after SIGTERM:\n{self.tail()}"

    def exit_code(self, timeout_s: float = PATIENCE_S) -> int:
        """Wait for its end."""
        assert self._process is not None
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            # faulthandler writes where every thread is
            self._process.send_signal(signal.SIGABRT)
            self._process.wait(30)
            raise AssertionError(f"{self.name} did not end within {timeout_s:.0f} s:\n{self.tail(200)}") from None

    def end(self) -> None:
        """Kill it if it still runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(30)

    def log(self) -> str:
        """What it logged since its last start."""
        return self.log_file.read_text(encoding="utf-8", errors="replace") if self.starts else ""

    def tail(self, lines: int = 40) -> str:
        shown = "\n".join(self.log().splitlines()[-lines:])
        return f"--- {self.name}, start {self.starts}, end of {self.log_file}:\n{shown}"

    def stacks(self) -> None:
        """Have it write what each of its threads is doing, if it is running the application."""
        if self._process is not None and self._process.poll() is None and self.find("state REBALANCING"):
            self._process.send_signal(signal.SIGQUIT)
            time.sleep(1)  # it may be frozen, too: nothing can be waited for

    def find(self, pattern: str) -> list[re.Match[str]]:
        """Every match of a pattern in the log since the last start."""
        return list(re.finditer(pattern, self.log()))

    def wait_log(self, pattern: str, count: int = 1, timeout_s: float = PATIENCE_S) -> None:
        """Wait until the log of this start matches ``count`` times; it must not end before."""
        wait_until(
            lambda: len(self.find(pattern)) >= count or not self.running,
            f"{self.name} logs {pattern!r}",
            timeout_s,
            self.tail,
        )
        assert len(self.find(pattern)) >= count, f"{self.name} ended without logging {pattern!r}:\n{self.tail()}"

    def tasks(self) -> set[str]:
        """The tasks it runs now, by its log."""
        held: set[str] = set()
        for line in self.log().splitlines():
            if match := re.search(r": task (\d+_\d+) runs", line):
                held.add(match[1])
            elif match := re.search(r"revoked tasks \[(.*)\]", line):
                held -= set(match[1].split(", "))
            elif "lost its membership" in line or "tasks migrated" in line:
                held.clear()
        return held

    def starts_of(self, task: str) -> int:
        """How often a task began to run here since the last start."""
        return len(self.find(rf": task {task} runs"))
