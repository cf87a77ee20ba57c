"""Processes that stop before each commit to a Delta table, where a test lets them go on, or kills them in the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from cluster.instances import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Sequence

_SOURCE: Final = Path(__file__).with_name("held_commits.c")


def compiled(directory: Path) -> Path:
    """The library that stops a process, to be loaded before all others."""
    library = directory / "held_commits.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O", "-o", str(library), str(_SOURCE), "-ldl"], check=True)
    return library


class HeldWriter:
    """A process that writes to a table, and is killed at the end of the ``with`` statement.

    Args:
        command: what runs.
        library: see ``compiled``.
        table: the table's directory.
    """

    def __init__(self, command: Sequence[str], library: Path, table: Path) -> None:
        self._log = table / "_delta_log"
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "LD_PRELOAD": str(library)},
        )

    def before(self, operation: str) -> None:
        """Let it go on until it is about to commit this operation, in Delta's words such as ``MERGE``."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            while os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOHANG) is None:
                assert self._process.poll() is None, f"it ended before {operation}:\n{self._said()}"
                assert time.monotonic() < deadline, f"it does not come to {operation}"
                time.sleep(0.005)
            # what was killed before has left its entry there
            entry = max(self._log.glob("*.json#*"), key=lambda file: file.stat().st_mtime_ns)
            actions = [json.loads(line) for line in entry.read_text("utf-8").splitlines()]
            if operation in {action["commitInfo"]["operation"] for action in actions if "commitInfo" in action}:
                return
            self._process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """``kill -9``."""
        self._process.kill()
        code = self._process.wait(PATIENCE_S)
        self._said()
        assert kind is not None or code == -signal.SIGKILL

    def _said(self) -> str:
        assert self._process.stdout is not None
        with self._process.stdout as out:
            return out.read()
