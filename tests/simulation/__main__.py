"""``python -m simulation --seed N``: one schedule again, with what happened; or many, with those that fail."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter

from simulation.plan import draw
from simulation.run import run
from simulation.world import World


class _AtVirtualTime(logging.Formatter):
    """The time of a line is the world's."""

    def __init__(self, world: World) -> None:
        super().__init__("%(levelname).1s %(name)s: %(message)s")
        self._world = world

    def format(self, record: logging.LogRecord) -> str:
        record.exc_info = None if record.levelno < logging.ERROR else record.exc_info
        return f"{self._world.elapsed_s:8.3f}  {super().format(record)}"


def main() -> int:
    """1 when anything did not hold."""
    parser = argparse.ArgumentParser(prog="simulation", description="Seeded schedules of the real runtime.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1, help="so many seeds from --seed on")
    parser.add_argument("--logs", action="store_true", help="the product's own log, at virtual times")
    options = parser.parse_args()
    failed: list[int] = []
    counts: Counter[str] = Counter()
    began = time.monotonic()
    for seed in range(options.seed, options.seed + options.count):
        world = World(draw(seed))
        if options.logs:
            handler = logging.StreamHandler(sys.stdout)
            handler.setFormatter(_AtVirtualTime(world))
            logging.basicConfig(level=logging.DEBUG, handlers=[handler], force=True)
        problem: BaseException | None = None
        try:
            run(world, logs=options.logs)
        except Exception as e:
            problem = e
            failed.append(seed)
        counts.update(world.counts)
        if options.count == 1:
            print(world.plan, *world.trace, sep="\n")
            print(f"{world.elapsed_s:.6f} s, {dict(sorted({**world.counts, **world.network.counts}.items()))}")
        if problem is not None:
            print(f"seed {seed}: {problem!r}")
    if options.count > 1:
        took = time.monotonic() - began
        print(f"{options.count} schedules in {took:.1f} s, {len(failed)} failed: {failed}")
        print(dict(sorted(counts.items())))
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
