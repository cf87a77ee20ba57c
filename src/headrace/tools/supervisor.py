"""Several instances of an application as processes of one: started, started again, stopped together.

Python's interpreter lock lets one process use one core; the group spreads the tasks over as many processes as run.
What flows: each instance is the same command with a state directory of its own, and its output is passed on line by
line with the instance's name in front. One that fails is started again after a pause that grows while it goes on
failing; one that says its configuration is wrong ends all of them, for the next start would say the same; so does one
that was told that the whole application is to end, which must not come back by itself. One HTTP port answers for all
(:mod:`headrace.tools.instances`).
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from headrace.http import HttpServer
from headrace.tools.instances import InstancesOverview
from headrace.tools.service import SHUT_DOWN, SUPERVISOR, stopping_signals

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from types import FrameType

    from headrace.config import StreamsConfig
    from headrace.tools.instances import SharedPort

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0
_STEADY_S = 60.0
"""One that ran for so long before it failed is started again after the first, short pause."""
_LOOK_S = 0.1
_STOP_S = 45.0
_FOR_ALL: Mapping[int, str] = {
    2: "its configuration is wrong",
    SHUT_DOWN: "the whole application is to end",
}
"""Exit codes by which an instance ends all of them, and why none is started again."""
_NOT_SHARED = (*(f"{prefix}group.instance.id" for prefix in ("", "consumer.", "main.consumer.")), "client.id")
"""Settings that are one instance's alone, by every name that they may be given under."""


@dataclass(slots=True)
class _Instance:
    name: str
    command: Sequence[str]
    socket: Path | None = None
    starts: int = 0
    process: subprocess.Popen[str] | None = None
    reader: threading.Thread | None = None
    started: float = 0.0
    due: float = 0.0
    pause_s: float = _FIRST_PAUSE_S

    def start(self, write: Callable[[str], None]) -> None:
        self.started = time.monotonic()
        self.starts += 1
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, "PYTHONUNBUFFERED": "1", SUPERVISOR: str(os.getpid())},
        )
        assert self.process.stdout is not None
        self.reader = threading.Thread(
            target=_pass_on, args=(self.process.stdout, self.name, write), name=self.name, daemon=True
        )
        self.reader.start()
        log.info("%s: started, process %d", self.name, self.process.pid)

    def ended(self) -> int | None:
        """Its exit code, once, when it has ended."""
        code = None if self.process is None else self.process.poll()
        if code is not None:
            self.process = None
            if self.reader is not None:
                self.reader.join(5.0)
        return code


def supervise(
    command: Callable[[int], Sequence[str]],
    instances: int,
    write: Callable[[str], None] | None = None,
    port: SharedPort | None = None,
) -> int:
    """Run instances until SIGTERM, SIGINT or SIGHUP. Called from the main thread: it takes these signals meanwhile.

    SIGQUIT is passed on: each instance writes what its threads are doing.

    Args:
        command: Program and arguments of instance ``k``, from 1; each needs a state directory of its own.
        instances: How many, at least 1.
        write: Takes each line of the instances' output; standard error by default.
        port: Answers for all of them, each of which answers at its socket; None for no port.

    Returns:
        0 after a stop that all instances did in order, or when all ended so by themselves; 2 when one found its
        configuration wrong; 3 when the whole application is to end (:data:`headrace.tools.service.SHUT_DOWN`); 1
        otherwise.

    Raises:
        ConfigException: Nothing can listen at the port.
    """
    everyone = [
        _Instance(f"instance-{k}", command(k), None if port is None else port.socket(k))
        for k in range(1, instances + 1)
    ]
    server = None if port is None else HttpServer(InstancesOverview(everyone), port.address)
    signals: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        signals.append(number)

    def ask(number: int, _frame: FrameType | None) -> None:
        for one in everyone:
            if (process := one.process) is not None:
                process.send_signal(number)

    before = {number: signal.signal(number, stop) for number in stopping_signals()}
    before[signal.SIGQUIT] = signal.signal(signal.SIGQUIT, ask)
    try:
        code = _watch(everyone, write or _to_stderr, lambda: bool(signals))
        for number in signals[:1]:
            log.info("%s: stopping %d instances", signal.Signals(number).name, instances)
        return max(code, _stop(everyone))
    finally:
        if server is not None:
            server.close()
        for number, handler in before.items():
            signal.signal(number, handler)


def _watch(everyone: list[_Instance], write: Callable[[str], None], over: Callable[[], bool]) -> int:
    waiting = list(everyone)
    running: list[_Instance] = []
    while (waiting or running) and not over():
        now = time.monotonic()
        for one in [one for one in waiting if one.due <= now]:
            one.start(write)
            waiting.remove(one)
            running.append(one)
        for one in list(running):
            code = one.ended()
            if code is None:
                continue
            running.remove(one)
            if code == 0:
                log.info("%s: ended", one.name)
            elif code in _FOR_ALL:
                log.error("%s: %s, so no instance is started again", one.name, _FOR_ALL[code])
                return code
            else:
                waiting.append(_again(one, code))
        time.sleep(_LOOK_S)
    return 0


def _again(one: _Instance, code: int) -> _Instance:
    now = time.monotonic()
    pause = _FIRST_PAUSE_S if now - one.started >= _STEADY_S else one.pause_s
    what = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    log.error("%s: ended by %s, starts again in %.0f s", one.name, what, pause)
    one.due, one.pause_s = now + pause, min(2 * pause, _LONGEST_PAUSE_S)
    return one


def _stop(everyone: list[_Instance]) -> int:
    living = [one for one in everyone if one.process is not None]
    for one in living:
        assert one.process is not None
        one.process.terminate()
    deadline = time.monotonic() + _STOP_S
    worst = 0
    for one in living:
        assert one.process is not None
        try:
            code = one.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            log.error("%s: did not end within %.0f s and is killed", one.name, _STOP_S)
            one.process.kill()
            code = one.process.wait()
        # one that was still starting has joined nothing yet, and ends by the signal itself
        worst = max(worst, int(code not in (0, -signal.SIGTERM)))
        if one.reader is not None:
            one.reader.join(5.0)
    return worst


def _pass_on(output: IO[str], name: str, write: Callable[[str], None]) -> None:
    with output:
        for line in output:
            write(f"[{name}] {line.rstrip()}\n")


def _to_stderr(line: str) -> None:
    sys.stderr.write(line)
    sys.stderr.flush()


def own_settings(config: StreamsConfig, k: int) -> list[str]:
    """``key=value`` of what instance ``k`` may not share with the others: state directory, static id, client id."""
    own = [f"state.dir={config.state_dir / f'instance-{k}'}"]
    for key in _NOT_SHARED:
        value = config.values().get(key)
        if value:
            own.append(f"{key}={value}-{k}")
    return own


__all__ = ["own_settings", "supervise"]
