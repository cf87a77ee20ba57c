"""A minute of the fault lab, always the same: ``make faults`` draws longer ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from faults.plan import BROKER_FAULTS, INSTANCE_FAULTS, draw
from faults.run import run

if TYPE_CHECKING:
    from pathlib import Path

SEED = 16_377
"""Most kinds of faults, both coordinators and a removed directory among them; the last one is over some seconds before
the end."""
SECONDS = 60.0
SETTLE_S = 60.0
"""How soon after the last fault every line is in the totals: 3 to 15 s on an idle machine."""


def test_a_seed_always_draws_the_same_faults_and_long_runs_draw_every_kind() -> None:
    assert draw(SEED, SECONDS) == draw(SEED, SECONDS)
    assert draw(SEED, SECONDS) != draw(SEED + 1, SECONDS)
    assert {fault.kind for fault in draw(1, 3_600)} == {*INSTANCE_FAULTS, *BROKER_FAULTS}


def test_no_fault_of_a_minute_loses_or_doubles_a_line(tmp_path: Path) -> None:
    report = run(tmp_path, seed=SEED, seconds=SECONDS, protocol="streams", rate=200, settle_s=SETTLE_S, say=print)
    print("\n".join(report.lines_of_text()))
    assert report.problems == []
    assert len(report.recoveries) == len(draw(SEED, SECONDS))
    assert all(one.took_s is not None for one in report.recoveries)
