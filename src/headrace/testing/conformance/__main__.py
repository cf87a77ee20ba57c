"""The command line of the conformance runner."""

from __future__ import annotations

import argparse
import logging
import sys
from collections import Counter
from pathlib import Path

from headrace.testing.conformance.runner import Outcome, case_names, run_case


def main(argv: list[str] | None = None) -> int:
    """Run all cases. Prints a line per case that did not pass, then the counts; gives 1 when one failed."""
    parser = argparse.ArgumentParser(
        prog="python -m headrace.testing.conformance", description="Compare headrace with the Java library's results."
    )
    parser.add_argument("cases", type=Path, metavar="CASES", help="directory of cases")
    parser.add_argument("expected", type=Path, metavar="EXPECTED", help="directory of the Java library's results")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases whose name contains TEXT")
    options = parser.parse_args(argv)
    for directory in (options.cases, options.expected):
        if not directory.is_dir():
            parser.error(f"{directory} is not a directory")
    counts: Counter[Outcome] = Counter()
    level = logging.root.manager.disable
    logging.disable()  # what the cases provoke on purpose is no news
    try:
        for name in case_names(options.cases, options.only):
            result = run_case(options.cases, options.expected, name)
            counts[result.outcome] += 1
            if result.outcome is not Outcome.PASSED:
                print(f"{result.outcome.name} {name}: {result.reason}".replace("\n", " "))
    finally:
        logging.disable(level)
    print(", ".join(f"{counts[outcome]} {outcome.value}" for outcome in Outcome))
    return 1 if counts[Outcome.FAILED] else 0


if __name__ == "__main__":
    sys.exit(main())
