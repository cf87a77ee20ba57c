"""The command line of the fault lab."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from rich.console import Console

from faults.run import run

PAIRS = [(p, g) for p in ("classic", "streams") for g in ("exactly_once_v2", "at_least_once")]


def main() -> int:
    """Run the lab once for each pair of protocol and guarantee that is asked for; 1 when anything did not hold."""
    parser = argparse.ArgumentParser(prog="faults", description="Faults against real brokers and instances.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=15.0, help="of each pair")
    parser.add_argument("--protocol", choices=("classic", "streams"), action="append")
    parser.add_argument("--guarantee", choices=("exactly_once_v2", "at_least_once"), action="append")
    parser.add_argument("--rate", type=int, default=400, help="lines a second")
    parser.add_argument("--directory", type=Path, default=Path("build") / "faults")
    options = parser.parse_args()
    console = Console(highlight=False, soft_wrap=True)
    failed = False
    for protocol, guarantee in PAIRS:
        if protocol not in (options.protocol or [protocol]) or guarantee not in (options.guarantee or [guarantee]):
            continue
        directory = options.directory.absolute() / f"{protocol}-{guarantee}-{options.seed}"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        report = run(
            directory,
            seed=options.seed,
            seconds=60 * options.minutes,
            protocol=protocol,
            guarantee=guarantee,
            rate=options.rate,
            say=lambda text: console.print(text, style="dim", markup=False),
        )
        report.save(directory / "report.json")
        for line in report.lines_of_text():
            console.print(line, markup=False)
        if report.problems:
            failed = True
            console.print(f"logs are in {directory}; again: make faults SEED={options.seed}", markup=False)
        else:
            shutil.rmtree(directory / "cluster", ignore_errors=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
