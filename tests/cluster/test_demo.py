"""`make run` without make: the demo from nothing, again, and interrupted."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.request
from typing import TYPE_CHECKING

import pytest

from headrace.testing.cluster import LocalCluster

if TYPE_CHECKING:
    from pathlib import Path

EQUAL = "the totals equal a plain sum over the input"
OUT_OF_TIME = """
from pathlib import Path
from course_revenue.demo import DemoOptions, run_demo
from course_revenue.sample import SampleSize
from course_revenue.screen import open_screen

size = SampleSize(lines=3000, courses=50, seed=2)
raise SystemExit(run_demo(DemoOptions(Path({directory!r}), size, once=True, timeout_s=0.0), open_screen()))
"""


def demo(directory: Path, *arguments: str) -> list[str]:
    size = ("--lines", "3000", "--courses", "50")
    return [sys.executable, "-m", "course_revenue", "demo", "--directory", str(directory), *size, *arguments]


def finished(command: list[str], code: int = 0) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def test_from_nothing_then_anew_out_of_time_then_on_and_nothing_is_left_running(tmp_path: Path) -> None:
    first = finished(demo(tmp_path, "--once"))
    assert first.startswith("the dashboard: http://127.0.0.1:")
    assert "starting anew" in first
    assert "loading purchase lines: 3,000 of 3,000" in first
    assert EQUAL in first
    assert "\x1b" not in first
    assert LocalCluster(tmp_path / "cluster").state() is None
    # nothing can be equal as soon as the job is started
    late = finished([sys.executable, "-c", OUT_OF_TIME.format(directory=str(tmp_path))], code=1)
    assert "starting anew" in late
    assert "another sample is asked for" in late
    assert "the totals do not equal the sum over the input 0 s after the job's start" in late
    assert EQUAL not in late
    assert LocalCluster(tmp_path / "cluster").state() is None
    again = finished(demo(tmp_path, "--once", "--seed", "2"))
    assert "going on with the sample and the totals of the last run" in again
    assert EQUAL in again
    assert LocalCluster(tmp_path / "cluster").state() is None


def test_an_interrupt_stops_everything_and_a_second_demo_in_the_directory_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "out.log"
    with log.open("wb") as out:
        # tests that run in the background inherit that Ctrl-C is ignored
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            process = subprocess.Popen(demo(tmp_path), stdout=out, stderr=subprocess.STDOUT)
        finally:
            signal.signal(signal.SIGINT, before)
    try:
        deadline = time.monotonic() + 120
        while EQUAL not in log.read_text(encoding="utf-8"):
            assert process.poll() is None, log.read_text(encoding="utf-8")
            assert time.monotonic() < deadline, log.read_text(encoding="utf-8")
            time.sleep(0.1)
        finished(demo(tmp_path, "--once"), code=1)
        page = log.read_text(encoding="utf-8").splitlines()[0].removeprefix("the dashboard: ")
        while True:
            with urllib.request.urlopen(f"{page}status", timeout=60) as answer:
                told = json.load(answer)
            if told["sums"]["lines"] == "3000" and told["job"]["answers"]:
                break
            assert time.monotonic() < deadline, told
            time.sleep(0.1)
        assert told["source"]["state"] == "live"
        process.send_signal(signal.SIGINT)
        assert process.wait(90) == 0
    finally:
        process.kill()
        process.wait()
        LocalCluster(tmp_path / "cluster").stop()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(page, timeout=60)
    assert "stopped the job, the dashboard and the local Kafka" in log.read_text(encoding="utf-8")
