"""Commands of the product that are killed in front of a step: ``kill -9`` by themselves, in processes of their own.

The product has no hook for it: the process takes the place of one function by what ends it.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cluster.instances import wait_until

from headrace.tools.service import SUPERVISOR

if TYPE_CHECKING:
    from cluster.course_revenue.product import Instance

_PROGRAM: Final = """
import importlib, os, signal, sys

module, _, names = sys.argv.pop(1).partition(":")
*owners, name = names.split(".")
owner = importlib.import_module(module)
for part in owners:
    owner = getattr(owner, part)
assert callable(getattr(owner, name))
setattr(owner, name, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))

from course_revenue.cli import main

main()
"""


def killed_before(step: str, instance: Instance, *arguments: str) -> str:
    """A command with an instance's configuration, in its directory, killed when it is about to take a step.

    Args:
        step: the function, as ``module:name`` or ``module:Class.name``.
        instance: whose configuration.
        arguments: the command.

    Returns:
        What it said until then. Instances that it had started have ended, too: they see that it is gone.
    """
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, step, *arguments, "--config", str(instance.config_file)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=instance.directory,
    ) as done:
        said, _ = done.communicate(timeout=240)
        assert done.returncode == -signal.SIGKILL, said
    wait_until(lambda: not _started_by(done.pid), "the command's instances have ended", detail=said)
    return said


def _started_by(pid: int) -> list[Path]:
    mark = f"{SUPERVISOR}={pid}".encode()
    found: list[Path] = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (process / "environ").read_bytes().split(b"\0"):
                found.append(process)
    return found
