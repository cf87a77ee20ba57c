"""The ``headrace`` command: a module is a group of commands; it parses, calls a function elsewhere, and prints.

Exit codes: 0 done, 1 failed or refused, 2 the command line or a setting is wrong, 3 (``run``) another instance has
asked that the whole application ends. Without a terminal the output is plain lines.
"""

from __future__ import annotations

import sys


def main() -> None:
    """The console script."""
    from headrace.cli.app import app
    from headrace.cli.common import run_app

    sys.exit(run_app(app))
