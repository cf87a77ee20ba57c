"""The wall clock of an instance jumps by hours, ahead and back."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

from cluster.clocks import ProcessClock
from cluster.instances import Instance, wait_until
from cluster.runtime.counting import totals_of, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

IMPORTS = {"PYTHONPATH": os.pathsep.join(sys.path)}
"""The instances' application is among the tests."""
RUN = ("-m", "headrace", "run", "cluster.runtime.clock_app:build")


def test_a_clock_that_jumps_moves_wall_clock_punctuation_and_nothing_else(
    app: dict[str, Any], bootstrap_servers: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    del app["state.dir"]
    settings = app | {"test.input": unique("in"), "test.output": unique("out"), "heartbeat.interval.ms": "500"}
    clock = ProcessClock(tmp_path / "clock")
    jumping = Instance("jumping", tmp_path, RUN, settings, IMPORTS | clock.environment)
    steady = Instance("steady", tmp_path, RUN, settings, IMPORTS)
    both = (jumping, steady)
    sent = 0

    def more(what: str) -> None:
        nonlocal sent
        write(bootstrap_servers, unique("in"), 500, sent)
        sent += 500
        wait_until(lambda: totals.total() == sent, what, detail=lambda: f"{jumping.tail()}\n{steady.tail()}")

    def punctuated(times: int, hours: float) -> None:
        jumping.wait_log("punctuates at", times)
        ahead_ms = int(jumping.find(r"punctuates at (\d+)")[-1][1]) - 1_000 * time.time()
        assert 3_600_000 * hours - 120_000 < ahead_ms <= 3_600_000 * hours

    try:
        with totals_of(bootstrap_servers, unique("out")) as totals:
            for one in both:
                one.start()
            wait_until(lambda: [len(one.tasks()) for one in both] == [1, 1], "each has a task")
            more("before")
            # of the hours that are missed one counts, as in Java
            clock.set(3.5)
            punctuated(1, 3.5)
            more("the clock is ahead")
            clock.set(-5)
            more("the clock is behind")
            clock.set(3.75)
            more("the clock is ahead again, with nothing due")
            assert len(jumping.find("punctuates at")) == 1
            # the hours are still those from the start on
            clock.set(4.25)
            punctuated(2, 4.25)
            more("the next hour")
            for one in both:
                assert one.running
                assert [len(one.find(text)) for text in ("lost its membership", "tasks migrated")] == [0, 0], one.tail()
                assert one.starts_of("0_0") + one.starts_of("0_1") <= 2, one.tail()
            assert not steady.find("punctuates at")
            for one in both:
                one.stop()
    finally:
        for one in both:
            one.end()
