"""A client that is asked to end while it starts."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from headrace import Consumed, KafkaStreams, Serdes, State, StreamsBuilder, StreamThreadExceptionResponse
from headrace.errors import StreamsException
from headrace.metrics import MetricsRegistry
from headrace.runtime.client import Listeners
from headrace.runtime.state_updater import StateUpdater
from headrace.runtime.states import ThreadState

if TYPE_CHECKING:
    from pathlib import Path

BROKERLESS = {"application.id": "app", "bootstrap.servers": "127.0.0.1:1"}


def passing(state_dir: Path, **settings: object) -> KafkaStreams:
    """A client whose brokers are not there, which passes records on from one topic to another."""
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(Serdes.String(), Serdes.String())).to("out")
    return KafkaStreams(builder.build(), {**BROKERLESS, "state.dir": str(state_dir), **settings})


def test_a_client_that_is_closed_while_no_broker_answers_has_not_failed(tmp_path: Path) -> None:
    failures: list[Exception] = []

    def failed(error: Exception) -> StreamThreadExceptionResponse:
        failures.append(error)
        return StreamThreadExceptionResponse.SHUTDOWN_CLIENT

    streams = passing(tmp_path)
    streams.set_uncaught_exception_handler(failed)
    streams.start()
    assert streams.close(60.0)
    assert streams.state() is State.NOT_RUNNING
    assert failures == []


def test_a_state_listener_hears_of_changes_one_by_one_and_in_their_order(tmp_path: Path) -> None:
    """Of two threads whose changes came close together the later one could be told first."""
    streams = passing(tmp_path)
    heard: list[State] = []
    within, go_on = threading.Event(), threading.Event()

    def listen(new: State, old: State) -> None:
        if new is State.RUNNING:
            within.set()
            assert go_on.wait(60)
        heard.append(new)

    streams.set_state_listener(listen)

    def change(new: State) -> None:
        streams._machine.move(new)
        streams._tell()

    change(State.REBALANCING)
    other = threading.Thread(target=change, args=(State.RUNNING,))
    other.start()
    assert within.wait(60)
    change(State.REBALANCING)
    go_on.set()
    other.join(60)
    assert heard == [State.REBALANCING, State.RUNNING, State.REBALANCING]
    streams._machine.move(State.PENDING_SHUTDOWN)
    streams._finish()
    assert heard[-1] is State.NOT_RUNNING


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize(("asked", "leaves"), [(None, (True, False)), (True, (True, True)), (False, (False, False))])
def test_who_is_closed_leaves_the_group_unless_it_is_a_static_member(
    tmp_path: Path, static: bool, asked: bool | None, leaves: tuple[bool, bool]
) -> None:
    """A static member left whenever it was stopped, so that its tasks moved twice when it was only started again."""
    streams = passing(tmp_path, **({"group.instance.id": "a"} if static else {}))
    streams._machine.move(State.REBALANCING)
    assert streams.close(leave_group=asked)
    assert [thread._leave_group for thread in streams._threads] == [leaves[static]]


def test_a_state_listener_may_close_the_client_that_is_being_started(tmp_path: Path) -> None:
    """It was told under the client's lock before the first thread ran, which then was started behind the end."""
    streams = passing(tmp_path, **{"num.stream.threads": 2})
    closed: list[bool] = []

    def listen(new: State, old: State) -> None:
        if new is State.REBALANCING:
            closed.append(streams.close(60.0))

    streams.set_state_listener(listen)
    streams.start()
    assert closed == [True]
    assert streams.state() is State.NOT_RUNNING
    assert [thread.state for thread in streams._threads] == [ThreadState.DEAD] * 2
    assert not any("StreamThread" in thread.name for thread in threading.enumerate())


def test_a_thread_that_is_removed_while_it_gets_its_tasks_is_not_waited_for(tmp_path: Path) -> None:
    """The client stayed in REBALANCING for ever when the others had theirs already, as nothing changed for them."""
    streams = passing(tmp_path, **{"num.stream.threads": 2})
    streams._machine.move(State.REBALANCING)
    first, second = (thread._machine for thread in streams._threads)
    for machine in (first, second):
        machine.move(ThreadState.STARTING)
        machine.move(ThreadState.PARTITIONS_ASSIGNED)
    first.move(ThreadState.RUNNING)
    assert streams.state() is State.REBALANCING
    assert streams.remove_stream_thread() is not None
    second.move(ThreadState.PENDING_SHUTDOWN)
    second.move(ThreadState.DEAD)
    assert streams.state() is State.RUNNING
    streams.close()


def test_a_global_store_that_fails_before_any_member_joined_ends_the_client(tmp_path: Path) -> None:
    """Asked to end the whole application, it told a thread that was never started, and rebalanced for ever."""
    builder = StreamsBuilder()
    text = Consumed.with_(Serdes.String(), Serdes.String())
    builder.global_table("names", text)
    builder.stream("in", text).to("out")
    streams = KafkaStreams(builder.build(), {**BROKERLESS, "state.dir": str(tmp_path)})
    streams.set_uncaught_exception_handler(lambda _: StreamThreadExceptionResponse.SHUTDOWN_APPLICATION)
    streams._machine.move(State.REBALANCING)
    streams._global_thread_failed(StreamsException("a record that does not decode"))
    assert streams.wait(60.0)
    assert streams.state() is State.ERROR


@pytest.mark.parametrize("way_out", [SystemExit, asyncio.CancelledError, KeyboardInterrupt])
def test_who_calls_sys_exit_when_told_of_an_error_ends_the_client_and_not_only_the_thread(
    way_out: type[BaseException], tmp_path: Path
) -> None:
    """The thread was gone without having closed anything, its member lived on, and the client as well."""

    def leave(*_: object) -> Any:
        raise way_out

    streams = passing(tmp_path)
    streams.set_uncaught_exception_handler(leave)
    streams.set_state_listener(leave)
    streams._machine.move(State.REBALANCING)
    # as a stream thread does: an interrupt of the main thread is Ctrl-C, which nobody keeps from it
    with ThreadPoolExecutor(1) as thread:
        response = thread.submit(streams._answer, streams._threads[0], StreamsException("made up")).result(60)
    assert response is StreamThreadExceptionResponse.SHUTDOWN_CLIENT
    assert streams.wait(60.0)
    assert streams.state() is State.ERROR


def test_a_restore_listener_that_closes_the_client_is_not_waited_for(tmp_path: Path) -> None:
    """Its thread is the one that the stream thread waits for as it ends: both stood still for ten seconds."""
    streams = passing(tmp_path)
    nothing: Any = None
    updater = StateUpdater(
        "updater", nothing, nothing, nothing, 1_000, Listeners(), threading.Event(), MetricsRegistry(time.monotonic)
    )
    streams._threads[0]._updater = updater
    streams._machine.move(State.REBALANCING)
    closed: list[bool] = []
    updater.submit(lambda: closed.append(streams.close()))
    updater.start()
    assert streams.wait(60.0)
    updater.close(60.0)  # what was submitted is done: the client may have ended before close() came back
    assert closed == [False], "the threads go on closing"
