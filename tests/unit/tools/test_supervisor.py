"""Several processes as one: small scripts in the instances' place."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from headrace import StreamsConfig
from headrace.tools import supervisor
from headrace.tools.supervisor import (
    _Instance,  # pyright: ignore[reportPrivateUsage]  # a stub of one, for the test of pauses
    _watch,  # pyright: ignore[reportPrivateUsage]  # without signals
    own_settings,
    supervise,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STEADY = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); print('ready'); signal.pause()"


def script(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def when(condition: Callable[[], bool]) -> None:
    """Send this process SIGTERM once a condition holds."""

    def wait() -> None:
        deadline = time.monotonic() + 60
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


def test_one_that_fails_starts_again_and_a_stop_ends_all_in_order(tmp_path: Path) -> None:
    mark = tmp_path / "failed"
    fails_once = (
        f"import pathlib, sys; mark = pathlib.Path({str(mark)!r})\n"
        "if not mark.exists(): mark.touch(); sys.exit('boom')\n" + STEADY
    )
    lines: list[str] = []
    when(lambda: sum("ready" in line for line in lines) == 2)
    assert supervise(lambda k: script(STEADY if k == 1 else fails_once), 2, lines.append) == 0
    assert sorted(lines) == ["[instance-1] ready\n", "[instance-2] boom\n", "[instance-2] ready\n"]


def test_a_stop_that_meets_one_before_it_listens_to_signals_is_in_order() -> None:
    lines: list[str] = []
    when(lambda: sum("up" in line for line in lines) == 2)
    starting = "import signal; print('up', flush=True); signal.pause()"
    assert supervise(lambda k: script(STEADY.replace("ready", "up") if k == 1 else starting), 2, lines.append) == 0


def test_who_is_asked_what_it_is_doing_has_each_instance_say_so_and_goes_on() -> None:
    telling = f"import faulthandler, signal; faulthandler.register(signal.SIGQUIT); {STEADY}"
    lines: list[str] = []

    def ready() -> bool:
        return sum("ready" in line for line in lines) == 2

    def asked() -> bool:
        if ready():
            os.kill(os.getpid(), signal.SIGQUIT)
        return sum("most recent call first" in line for line in lines) >= 2

    when(asked)
    assert supervise(lambda _: script(telling), 2, lines.append) == 0
    assert {line.split()[0] for line in lines if "most recent call first" in line} == {"[instance-1]", "[instance-2]"}


def test_a_wrong_configuration_ends_all_of_them() -> None:
    lines: list[str] = []
    assert supervise(lambda k: script(STEADY if k == 1 else "raise SystemExit(2)"), 2, lines.append) == 2


def test_an_application_that_is_to_end_as_a_whole_is_not_started_again() -> None:
    """The instances that another one had asked to end came back after a second."""
    lines: list[str] = []
    ended = "print('told'); raise SystemExit(3)"
    assert supervise(lambda k: script(STEADY if k == 1 else ended), 2, lines.append) == 3
    assert lines.count("[instance-2] told\n") == 1


def test_all_that_end_by_themselves_in_good_order_are_not_started_again() -> None:
    lines: list[str] = []
    assert supervise(lambda _: script("print('done')"), 2, lines.append) == 0
    assert sorted(lines) == ["[instance-1] done\n", "[instance-2] done\n"]


def test_who_was_started_to_outlive_its_terminal_does(tmp_path: Path) -> None:
    """Under ``nohup`` the end of the session ended the instances all the same."""
    runs = tmp_path / "runs"
    child = (
        "import os, signal\n"
        f"with open({str(runs)!r}, 'a+') as out:\n"
        "    out.write('x')\n"
        "    first = out.tell() == 1\n"
        "if first:\n"
        "    os.kill(os.getppid(), signal.SIGHUP)\n"
        "    raise SystemExit(1)\n"
    )
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert supervise(lambda _: script(child), 1, lambda _: None) == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert runs.read_text() == "xx", "the instance was started again"


@pytest.mark.parametrize("prefix", ["", "consumer.", "main.consumer."])
def test_instances_share_no_directory_and_no_static_id(tmp_path: Path, prefix: str) -> None:
    """Under a name with a prefix they did, and ended each other for ever."""
    config = StreamsConfig.load(
        {
            "application.id": "app",
            "bootstrap.servers": "localhost:9092",
            "state.dir": str(tmp_path),
            f"{prefix}group.instance.id": "static",
        }
    )
    assert own_settings(config, 2) == [f"state.dir={tmp_path / 'instance-2'}", f"{prefix}group.instance.id=static-2"]


def test_instances_end_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    child = (
        "import os, pathlib, time\n"
        "from headrace.tools.service import _orphaned\n"
        f"with open({str(pids)!r}, 'a') as out: out.write(f'{{os.getpid()}}\\n')\n"
        "while not _orphaned(): time.sleep(0.02)\n"
    )
    parent = (
        "import sys\nfrom headrace.tools.supervisor import supervise\n"
        f"supervise(lambda k: [sys.executable, '-c', {child!r}], 2)"
    )
    with subprocess.Popen(script(parent)) as process:
        deadline = time.monotonic() + 60
        while not (pids.exists() and len(pids.read_text().split()) == 2):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.kill()
        process.wait()
    for pid in map(int, pids.read_text().split()):
        while True:
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                break
            assert time.monotonic() < deadline, f"process {pid} goes on"
            time.sleep(0.02)


class Clock:
    """Time that passes while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Failing(_Instance):
    """In a process's place: each start fails after the time that is its turn."""

    def __init__(self, clock: Clock, runs_s: list[float]) -> None:
        super().__init__("failing", ())
        self._clock, self._runs_s = clock, runs_s
        self.pauses_s: list[float] = []
        self._ended = 0.0

    def start(self, write: Callable[[str], None]) -> None:
        self.started = self._clock.now
        if self.starts:
            self.pauses_s.append(self.started - self._ended)
        self.starts += 1

    def ended(self) -> int | None:
        if self._clock.now - self.started < self._runs_s[self.starts - 1]:
            return None
        self._ended = self._clock.now
        return 1


def test_the_pause_grows_while_one_goes_on_failing_and_is_short_again_after_a_steady_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr(supervisor, "time", clock)
    at_once, nearly_steady, steady = 0.5, 55.0, 65.0
    failing = Failing(clock, [*[at_once] * 7, nearly_steady, steady, at_once, at_once])
    _watch([failing], lambda _: None, lambda: len(failing.pauses_s) == 10)
    assert failing.pauses_s == pytest.approx([1, 2, 4, 8, 16, 30, 30, 30, 1, 2], abs=0.25)
