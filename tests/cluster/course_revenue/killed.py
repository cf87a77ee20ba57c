"""Commands of the product that are killed in front of a step: ``kill -9`` by themselves, in processes of their own.

The product has no hook for it: the process takes the place of one function by what ends it.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Final

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
        What it said until then.
    """
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, step, *arguments, "--config", str(instance.config_file)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=instance.directory,
    )
    said = done.stdout + done.stderr
    assert done.returncode == -signal.SIGKILL, said
    return said
