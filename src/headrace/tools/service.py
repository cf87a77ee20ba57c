"""One instance of an application as a process: runs until it is told to stop, or fails."""

from __future__ import annotations

import faulthandler
import gc
import logging
import os
import signal
import threading
from typing import TYPE_CHECKING

from headrace.runtime.states import State, StreamThreadExceptionResponse
from headrace.runtime.streams import KafkaStreams

if TYPE_CHECKING:
    from types import FrameType

    from headrace.config import StreamsConfig
    from headrace.topology import Topology

log = logging.getLogger(__name__)

SUPERVISOR = "HEADRACE_SUPERVISOR"
"""Environment variable with the process id of who started this instance: it ends in order when that one is gone."""

SHUT_DOWN = 3
"""Exit code of an instance that another one has asked to end, as all of the application: it is to stay down."""

_CLOSE_TIMEOUT_S = 30.0
_COLLECT_AFTER = 50_000
"""New objects after which Python looks for cycles among them. A batch is of 10,000 records, three objects or more each,
and none of them ever in a cycle: the default (700 in 3.11) looks through all of each batch again and again, and through
the whole process with every few (a third of a restore's time)."""
_LOOK_S = 0.2
"""How often the main thread looks for a signal: one that another thread took does not wake it."""


def stopping_signals() -> list[signal.Signals]:
    """The signals that stop a process in order; SIGHUP is none of them where it is ignored, as under ``nohup``."""
    hangup = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGTERM, signal.SIGINT, *hangup]


def run_until_stopped(topology: Topology, config: StreamsConfig, *, advice: str = "") -> int:
    """Runs an application in this process until SIGTERM, SIGINT or SIGHUP, or until a thread of it fails.

    Called from the main thread: it takes these signals for as long as it runs (:func:`stopping_signals`). SIGQUIT has
    it write to standard error what each thread is doing, as the Java virtual machine does. Meanwhile Python looks for
    cycles after 50,000 new objects at the earliest (:func:`gc.set_threshold`).

    Args:
        topology: what to run.
        config: its configuration.
        advice: logged after the error when the application fails: what to do about it where it is run.

    Returns:
        0 after a stop that was asked for and done in order; 1 when the application failed (its error is logged), or did
        not close in time; :data:`SHUT_DOWN` when another instance has asked that every instance of it ends
        (``SHUTDOWN_APPLICATION``).
    """
    over = threading.Event()
    failures: list[BaseException] = []
    signals: list[int] = []
    streams = KafkaStreams(topology, config)

    def failed(error: BaseException) -> StreamThreadExceptionResponse:
        failures.append(error)
        # the stream thread has logged where it came from
        log.error("the application stops: %s: %s", type(error).__name__, error)
        if advice:
            log.error("%s", advice)
        return StreamThreadExceptionResponse.SHUTDOWN_CLIENT

    def moved(new: State, old: State) -> None:
        log.info("state %s (was %s)", new.name, old.name)
        if new in (State.PENDING_ERROR, State.ERROR, State.NOT_RUNNING):
            over.set()

    def stop(number: int, _frame: FrameType | None) -> None:
        # no lock is taken here: the thread that is interrupted may hold it
        signals.append(number)

    faulthandler.register(signal.SIGQUIT)
    before = {number: signal.signal(number, stop) for number in stopping_signals()}
    thresholds = gc.get_threshold()
    if 0 < thresholds[0] < _COLLECT_AFTER:
        gc.set_threshold(_COLLECT_AFTER, *thresholds[1:])
    try:
        streams.set_uncaught_exception_handler(failed)
        streams.set_state_listener(moved)
        try:
            streams.start()
            while not signals and not _orphaned() and not over.wait(_LOOK_S):
                pass
            for number in signals:
                log.info("%s: stopping", signal.Signals(number).name)
            if _orphaned():
                log.warning("the process that started this one is gone: stopping")
            # without an error of its own it was told to by the group
            told = not failures and streams.state() in (State.PENDING_ERROR, State.ERROR)
        finally:
            closed = streams.close(_CLOSE_TIMEOUT_S)
        if told:
            log.error(
                "another instance has asked that the whole application ends. Its log says why; start no instance again "
                "before that is seen to"
            )
            return SHUT_DOWN
        if not closed:
            log.error("the application did not close within %.0f s", _CLOSE_TIMEOUT_S)
        return 0 if closed and not failures else 1
    finally:
        gc.set_threshold(*thresholds)
        faulthandler.unregister(signal.SIGQUIT)
        for number, handler in before.items():
            signal.signal(number, handler)


def _orphaned() -> bool:
    supervisor = os.environ.get(SUPERVISOR, "")
    return supervisor.isdecimal() and os.getppid() != int(supervisor)
