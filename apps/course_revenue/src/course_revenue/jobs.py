"""Instances of the job, and the dashboard, as processes of this one's: started, stopped, killed, output in a file.

One ends with whoever started it, even when that one is killed. Ctrl-C in the terminal does not reach it:
whoever started it stops it in order.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Final, Self

from course_revenue.errors import JobFailedError
from headrace.tools.service import SUPERVISOR

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

_STOP_S: Final = 45.0
_TAIL_LINES: Final = 15


class JobProcess:
    """One instance: ``course-revenue run`` in a process of its own. As a context manager it is stopped at the end.

    Args:
        config: the properties file.
        settings: ``key=value`` texts that win over the file.
        log_file: where its output goes, behind what is there.
        command: another command of ``course-revenue`` that goes on until it is stopped, with its options.
        inherited: file descriptors that it gets.
    """

    def __init__(
        self,
        config: Path,
        settings: Sequence[str],
        log_file: Path,
        *,
        command: Sequence[str] = ("run",),
        inherited: Sequence[int] = (),
    ) -> None:
        given = [part for setting in settings for part in ("--set", setting)]
        self._command = [sys.executable, "-m", "course_revenue", *command, "--config", str(config), *given]
        self._inherited = tuple(inherited)
        self.log_file = log_file
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start it; again, when it has ended."""
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONUNBUFFERED": "1", SUPERVISOR: str(os.getpid())},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=self._inherited,
            )
        return self

    @property
    def pid(self) -> int | None:
        """The process id; None when it does not run."""
        process = self._process
        return None if process is None or process.poll() is not None else process.pid

    def check(self) -> None:
        """Look whether it runs still.

        Raises:
            JobFailedError: it has ended by itself; the message has the end of its log.
        """
        code = None if self._process is None else self._process.poll()
        if code is not None:
            raise JobFailedError(f"the job ended with exit code {code}; the end of {self.log_file}:\n{self.tail()}")

    def stop(self) -> None:
        """SIGTERM, and wait; one that does not end in time is killed. Does nothing when it does not run."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def kill(self) -> None:
        """``kill -9``."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def tail(self) -> str:
        """The last lines of its log."""
        text = self.log_file.read_text(encoding="utf-8", errors="replace") if self.log_file.exists() else ""
        return "\n".join(text.strip().splitlines()[-_TAIL_LINES:])

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
