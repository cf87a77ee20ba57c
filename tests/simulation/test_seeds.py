"""Exactly once, at least once, progress: in every seed's schedule. ``python -m simulation --seed N`` runs one again."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys

import pytest

from simulation.run import SEEDS


def _started(*arguments: str, hash_seed: str = "random") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "simulation", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONHASHSEED": hash_seed},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.slow
def test_everything_holds_in_every_schedule() -> None:
    shares = min(os.cpu_count() or 1, 4)
    bounds = [SEEDS * number // shares for number in range(shares + 1)]
    runs = [_started("--seed", str(first), "--count", str(end - first)) for first, end in itertools.pairwise(bounds)]
    said = [run.communicate(timeout=600)[0] for run in runs]
    assert not any(run.returncode for run in runs), "\n".join(said)
    # each of which ended balanced
    assert all(re.search(r"'probing rebalances': [1-9]", text) for text in said), "\n".join(said)


def test_a_schedule_happens_again_in_another_process() -> None:
    runs = [_started("--seed", "17", hash_seed=hash_seed) for hash_seed in ("1", "2")]
    one, other = (run.communicate(timeout=120)[0] for run in runs)
    assert one == other
    assert "all is in the totals" in one
