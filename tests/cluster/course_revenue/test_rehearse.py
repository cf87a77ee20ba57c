"""A rehearsal of a promotion day, cut short, on a Kafka of its own. That on named brokers is played under ACLs."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

from headrace.testing.cluster import LocalCluster

if TYPE_CHECKING:
    from pathlib import Path


def test_a_day_in_seconds_keeps_the_budget_and_leaves_nothing(tmp_path: Path) -> None:
    day = ("rehearse", "--minutes", "0.3", "--rate", "60", "--courses", "40", "--directory", "days")
    done = subprocess.run(
        [sys.executable, "-m", "course_revenue", *day],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=tmp_path,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert re.search(r"Apache Kafka runs at 127\.0\.0\.1:\d+", said)
    assert re.search(
        r"rehearsed a promotion day in 18 s: [\d,]+ lines of 40 courses with 2 instances, 60 lines/s", said
    )
    assert re.search(r"99 % within [\d.]+ s, the last after [\d.]+ s", said)
    assert len(re.findall(r"^  1_\d \|.{60}\| at most \d", said, re.MULTILINE)) >= 1
    for fault in ("kill -9 of instance 1", "instance 2 is deployed"):
        assert re.search(
            rf"^{fault}.*: what was sent until it ran again was readable after [\d.]+ s", said, re.MULTILINE
        )
    assert "the totals of 40 courses equal the sum of the lines sent" in said
    assert "within the budget" in said.splitlines()
    assert LocalCluster(tmp_path / "days" / "cluster").state() is None
    assert [path.name for path in (tmp_path / "days").iterdir()] == ["cluster"]
