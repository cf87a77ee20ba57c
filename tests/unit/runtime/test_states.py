from __future__ import annotations

import itertools
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from headrace.errors import IllegalStateException
from headrace.runtime.states import CLIENT_TRANSITIONS, THREAD_TRANSITIONS, State, StateMachine, ThreadState

if TYPE_CHECKING:
    from collections.abc import Mapping
    from enum import Enum

TABLES: list[tuple[type[Enum], Mapping[Any, frozenset[Any]]]] = [
    (State, CLIENT_TRANSITIONS),
    (ThreadState, THREAD_TRANSITIONS),
]
EDGES = [
    pytest.param(table, old, new, id=f"{kind.__name__}: {old.name} {new.name}")
    for kind, table in TABLES
    for old, new in itertools.product(kind, kind)
]


def machine(table: Mapping[Any, frozenset[Any]], initial: Any) -> tuple[StateMachine[Any], list[tuple[Any, Any]]]:
    changes: list[tuple[Any, Any]] = []
    return StateMachine("it", initial, table, lambda new, old: changes.append((new, old))), changes


@pytest.mark.parametrize(("table", "old", "new"), EDGES)
def test_every_edge(table: Mapping[Any, frozenset[Any]], old: Any, new: Any) -> None:
    moving, changes = machine(table, old)
    if new in table[old]:
        moving.move(new)
        assert moving.state is new
        # staying where it is is no change
        assert changes == ([] if new is old else [(new, old)])
    else:
        assert not moving.try_move(new)
        with pytest.raises(IllegalStateException, match=f"it cannot go from {old.value} to {new.value}"):
            moving.move(new)
        assert moving.state is old
        assert changes == []


@pytest.mark.parametrize(("kind", "table"), TABLES)
def test_tables_know_every_state_and_every_state_can_be_reached(kind: Any, table: Any) -> None:
    assert set(table) == set(kind)
    reached, waiting = set(), [next(iter(kind))]
    while waiting:
        state = waiting.pop()
        if state not in reached:
            reached.add(state)
            waiting += table[state]
    assert reached == set(kind)


def test_ends_are_ends() -> None:
    assert {state for state in State if not CLIENT_TRANSITIONS[state]} == {State.NOT_RUNNING, State.ERROR}
    assert {state for state in ThreadState if not THREAD_TRANSITIONS[state]} == {ThreadState.DEAD}
    for state in ThreadState:
        if state not in (ThreadState.DEAD, ThreadState.PENDING_SHUTDOWN):
            assert ThreadState.PENDING_SHUTDOWN in THREAD_TRANSITIONS[state], "a thread can be stopped from anywhere"


def test_the_clients_table_is_javas() -> None:
    assert {old.name: {new.name for new in CLIENT_TRANSITIONS[old]} for old in State} == {
        "CREATED": {"REBALANCING", "PENDING_SHUTDOWN"},
        "REBALANCING": {"RUNNING", "PENDING_SHUTDOWN", "PENDING_ERROR"},
        "RUNNING": {"REBALANCING", "RUNNING", "PENDING_SHUTDOWN", "PENDING_ERROR"},
        "PENDING_SHUTDOWN": {"NOT_RUNNING"},
        "NOT_RUNNING": set(),
        "PENDING_ERROR": {"ERROR"},
        "ERROR": set(),
    }


def test_wait_for_a_state_that_is_there_or_comes_or_does_not() -> None:
    moving, _ = machine(CLIENT_TRANSITIONS, State.CREATED)
    assert moving.wait_for(frozenset({State.CREATED, State.ERROR}), 0)
    assert not moving.wait_for(frozenset({State.RUNNING}), 0.01)
    found: list[bool] = []
    waiter = threading.Thread(
        target=lambda: found.append(moving.wait_for(frozenset({State.RUNNING}), None)), daemon=True
    )
    waiter.start()
    deadline = time.monotonic() + 5
    while not moving._changed._waiters:  # type: ignore[attr-defined]  # whether somebody waits by now
        assert time.monotonic() < deadline
    moving.move(State.REBALANCING)
    moving.move(State.RUNNING)
    waiter.join(5)
    assert found == [True]


def test_a_listener_sees_the_new_state_and_may_move_on() -> None:
    states: list[Any] = []

    def listener(new: State, old: State) -> None:
        states.append((new, moving.state))
        if new is State.PENDING_ERROR:
            moving.move(State.ERROR)

    moving = StateMachine("it", State.REBALANCING, CLIENT_TRANSITIONS, listener)
    moving.move(State.PENDING_ERROR)
    assert moving.state is State.ERROR
    assert states == [(State.PENDING_ERROR, State.PENDING_ERROR), (State.ERROR, State.ERROR)]
