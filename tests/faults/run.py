"""One run of the lab."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from faults.plan import draw
from faults.world import Feed, Recovery, World

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from faults.plan import Fault

_LOOK_S = 0.05


@dataclass
class Report:
    """What a run found.

    Attributes:
        seed: Of the faults.
        protocol: Of the group.
        guarantee: Of processing.
        seconds: How long faults were injected.
        lines: In the topic at the end.
        settled_s: From the last fault's end until the totals covered all lines.
        recoveries: Every fault with how long the totals took to catch up.
        problems: What must not be; empty when all holds.
    """

    seed: int
    protocol: str
    guarantee: str
    seconds: float
    lines: int = 0
    settled_s: float = 0.0
    recoveries: list[Recovery] = field(default_factory=list[Recovery])
    problems: list[str] = field(default_factory=list[str])

    def by_kind(self) -> dict[str, list[float]]:
        """Recovery times in seconds by kind of fault."""
        found: dict[str, list[float]] = {}
        for one in self.recoveries:
            found.setdefault(one.fault.kind, []).append(float("inf") if one.took_s is None else one.took_s)
        return found

    def lines_of_text(self) -> list[str]:
        """The report, a line for each kind of fault."""
        head = (
            f"{len(self.recoveries)} faults in {self.seconds:.0f} s, group.protocol={self.protocol}, "
            f"processing.guarantee={self.guarantee}, seed {self.seed}: {self.lines} lines, all in the totals "
            f"{self.settled_s:.1f} s after the last fault"
        )
        rows = [head]
        for kind, times in sorted(self.by_kind().items()):
            rows.append(
                f"  {kind:18} {len(times):4} times; caught up after {median(times):5.1f} s in the middle, "
                f"{max(times):5.1f} s at most"
            )
        return rows + [f"  PROBLEM: {problem}" for problem in self.problems]

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1, default=str), encoding="utf-8")


def run(
    directory: Path,
    *,
    seed: int,
    seconds: float,
    protocol: str = "classic",
    guarantee: str = "exactly_once_v2",
    rate: int = 400,
    settle_s: float = 120.0,
    settings: dict[str, object] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Report:
    """Inject faults for ``seconds`` while lines come in, then look at what must hold.

    Args:
        directory: For data and logs; empty or not there.
        seed: Of the faults and the lines.
        seconds: How long.
        protocol: ``group.protocol``.
        guarantee: ``processing.guarantee``.
        rate: Lines a second.
        settle_s: How soon after the last fault every line must be in the totals, in seconds.
        settings: More settings of the instances.
        say: Told what happens.
    """
    faults = draw(seed, seconds)
    report = Report(seed, protocol, guarantee, seconds)
    with World(directory, protocol, guarantee, settings=settings) as world:
        for instance in world.instances:
            instance.start()
        feed = world.feed(rate, seconds, seed)
        feed.start()
        world.watch.wait_for(rate, "the job runs", world.product.tails)
        try:
            _inject(world, faults, seconds, feed, say)
            feed.stop()
            ended = time.monotonic()
            sums = world.expected()
            # not what the feed counts: its plain producer may have written a few again when a broker died
            report.lines = sums.lines
            say(f"faults are over; {sums.lines} lines are sent, {world.watch.lines} in the totals")
            world.watch.wait_for(sums.lines, "all lines after the last fault", world.product.tails, settle_s)
            report.settled_s = time.monotonic() - ended
            world.note_recoveries()
            for instance in world.instances:
                instance.stop(120)
            report.problems += world.check_totals(sums) + world.check_stores()
        except AssertionError as e:
            report.problems.append(str(e))
        report.recoveries = world.recoveries
    return report


def _inject(world: World, faults: list[Fault], seconds: float, feed: Feed, say: Callable[[str], None]) -> None:
    began = time.monotonic()
    failed: list[BaseException] = []
    running: list[threading.Thread] = []

    def happen(fault: Fault) -> None:
        try:
            world.inject(fault, feed)
        except BaseException as e:
            failed.append(e)

    def up_to(moment_s: float) -> None:
        while time.monotonic() - began < moment_s and not failed:
            world.note_recoveries()
            world.watch.check()
            ended = world.crashed()
            assert not ended, f"{ended[0].name} ended by itself\n{ended[0].tail(80)}"
            time.sleep(_LOOK_S)
        if failed:
            raise failed[0]

    for fault in faults:
        up_to(fault.at_s)
        say(f"{fault.at_s:6.1f} s  {fault}")
        thread = threading.Thread(target=happen, args=(fault,), name=str(fault), daemon=True)
        thread.start()
        running.append(thread)
    up_to(seconds)
    for thread in running:
        # one at a time for each target: those of a slow machine's brokers may still be waiting for each other
        while thread.is_alive():
            up_to(time.monotonic() - began + _LOOK_S)
