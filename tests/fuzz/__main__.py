"""The command line of the fuzzer."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter, deque
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fuzz import slices
from fuzz.compare import category, compare, quiet
from fuzz.coverage import Coverage
from fuzz.generate import case
from fuzz.java import ROOT, Java
from fuzz.shrink import difference, shrink
from headrace.testing.conformance import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

_AHEAD: Final = 24
"""Cases that the Java side may be ahead."""
_SHOWN: Final = 300
"""Characters of a difference."""
_MEMORY: Final = Path("/dev/shm")
"""A file system in memory, on Linux."""


class Run:
    """What a run found."""

    def __init__(self) -> None:
        self.passed = 0
        self.coverage = Coverage()
        self.failures: list[tuple[int, dict[str, Any], str]] = []
        self.skipped: Counter[str] = Counter()
        self.unusable: Counter[str] = Counter()

    def take(self, seed: int, made: dict[str, Any], wanted: dict[str, Any]) -> bool:
        """Compare one case; gives whether the two sides agree."""
        if "unusable" in wanted:
            self.unusable[wanted["unusable"]] += 1
            return False
        result = compare(made, wanted)
        if result.outcome is Outcome.SKIPPED:
            self.skipped[result.reason] += 1
            return False
        self.coverage.add(made)
        if result.outcome is Outcome.PASSED:
            self.passed += 1
        else:
            self.failures.append((seed, made, result.reason))
        return result.outcome is Outcome.PASSED

    def __str__(self) -> str:
        skipped, unusable = self.skipped.total(), self.unusable.total()
        return f"{self.passed} passed, {len(self.failures)} failed, {skipped} skipped, {unusable} unusable"


def main(argv: list[str] | None = None) -> int:
    """Run random cases on both sides; gives 1 when one differs."""
    parser = argparse.ArgumentParser(
        prog="python -m fuzz", description="Random topologies and inputs, run by the Java library and by headrace."
    )
    parser.add_argument("--seed", type=int, default=1, metavar="SEED", help="the first case's seed")
    parser.add_argument("--cases", type=int, default=500, metavar="N", help="how many")
    parser.add_argument("--shrink", type=int, default=10, metavar="N", help="differences to make small")
    parser.add_argument(
        "--keep", type=Path, default=ROOT / "build" / "fuzz", metavar="DIR", help="where those cases go"
    )
    parser.add_argument("--slice", type=int, metavar="N", help="keep N of them with their results for the tests")
    parser.add_argument("--show", action="store_true", help="print the cases and do not run them")
    options = parser.parse_args(argv)
    seeds = range(options.seed, options.seed + options.cases)
    if options.show:
        for seed in seeds:
            print(json.dumps(case(seed), ensure_ascii=False))
        return 0
    if _MEMORY.is_dir():
        # both sides make and delete thousands of databases
        os.environ.setdefault("TMPDIR", str(_MEMORY))
    console = Console(highlight=False, soft_wrap=True)
    run = Run()
    passed: list[tuple[dict[str, Any], dict[str, Any]]] = []
    with quiet(), Java() as java:
        console.print(f"seeds {seeds[0]} to {seeds[-1]}")
        for seed, made, wanted in _both(seeds, java, console, run):
            failed = len(run.failures)
            if run.take(seed, made, wanted) and options.slice:
                passed.append((made, wanted))
            if "unusable" in wanted:
                console.print(f"seed {seed} is unusable: {wanted['unusable'][:_SHOWN]}", markup=False)
            if len(run.failures) > failed:
                console.print(f"seed {seed}: {run.failures[-1][2][:_SHOWN]}", markup=False)
        _report(run, console)
        if run.failures and options.shrink:
            _shrink(run, java, console, options.shrink, options.keep)
    if options.slice:
        console.print(f"{slices.write(passed, options.slice)} cases in {slices.SLICE}")
    console.print(str(run))
    return 1 if run.failures else 0


def _both(seeds: range, java: Java, console: Console, run: Run) -> Iterator[tuple[int, dict[str, Any], dict[str, Any]]]:
    """Each seed, its case and the Java side's result, while that side works ahead."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    waiting: deque[tuple[int, dict[str, Any]]] = deque()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(seeds))
        for seed in seeds:
            waiting.append((seed, case(seed)))
            java.send(waiting[-1][1])
            if len(waiting) > _AHEAD:
                yield *waiting.popleft(), java.answer()
                progress.update(task, advance=1, description=str(run))
                if not console.is_terminal and (seed - seeds[0]) % 500 == 0:
                    console.print(f"to seed {waiting[0][0]}: {run}")
        while waiting:
            yield *waiting.popleft(), java.answer()
            progress.update(task, advance=1, description=str(run))


def _report(run: Run, console: Console) -> None:
    coverage = run.coverage
    console.print(f"\noperations ({len(coverage.operations)} kinds): how often each was compared")
    console.print("  " + ", ".join(f"{name} {n}" for name, n in sorted(coverage.operations.items())))
    console.print(f"pairs of neighbours: {len(coverage.pairs)} kinds; the most frequent")
    console.print("  " + ", ".join(f"{a} > {b} {n}" for (a, b), n in coverage.pairs.most_common(40)))
    console.print("features")
    console.print("  " + ", ".join(f"{name} {n}" for name, n in sorted(coverage.features.items())))
    for what, counted in (("skipped", run.skipped), ("unusable", run.unusable)):
        for reason, n in counted.most_common():
            console.print(f"{what} {n}: {reason[:200]}")
    kinds: dict[str, list[tuple[int, str]]] = {}
    for seed, _, reason in run.failures:
        kinds.setdefault(category(reason), []).append((seed, reason))
    for kind, found in sorted(kinds.items(), key=lambda x: -len(x[1])):
        console.print(f"\nFAILED {len(found)}: {kind}", markup=False)
        console.print(f"  seeds {', '.join(str(seed) for seed, _ in found[:20])}")


def _shrink(run: Run, java: Java, console: Console, most: int, keep: Path) -> None:
    """Writes the smallest case of each kind of difference, and the Java side's result, as files."""
    kinds: dict[str, tuple[int, dict[str, Any], str]] = {}
    for failure in run.failures:
        kinds.setdefault(category(failure[2]), failure)
    for seed, made, reason in list(kinds.values())[:most]:
        with console.status(f"shrinking the case of seed {seed}"):
            small, why = shrink(made, reason, partial(difference, java))
            save(small, f"fuzz_{seed}", java, keep)
        console.print(f"\n{keep / 'cases' / 'extra' / f'fuzz_{seed}.json'}: {why[:400]}", markup=False)
        for step in small["steps"]:
            console.print(f"  {json.dumps(step, ensure_ascii=False)}", markup=False)
        console.print(f"  {json.dumps(small['config'])} {len(small['inputs'])} inputs", markup=False)


def save(made: dict[str, Any], name: str, java: Java, keep: Path) -> None:
    """Write a case and its result below ``keep`` as they are kept in ``conformance``."""
    result = java.run(made)
    marks = {"expect_error": "error" in result, "expect_no_output": not result.get("outputs")}
    made = made | {mark: True for mark, it_is in marks.items() if it_is}
    known = {"name": f"extra/{name}", "topology": made["description"]}
    known |= {part: made[part] for part in ("steps", "topics", "config", "topology_config") if part in made}
    known |= {"describe": result["describe"], "inputs": made["inputs"]}
    for folder, content in (("cases", made), ("expected", known | result)):
        path = keep / folder / "extra" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
