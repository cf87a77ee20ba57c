"""Looks at what waits in a left or outer join, which read no more than they must, against a walk over all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st
from unit.state.harness import World, make_world

from headrace import Serdes
from headrace.state.memory import InMemoryBody
from headrace.state.outer_join import OuterJoinStore

if TYPE_CHECKING:
    from collections.abc import Iterator

TEXT = Serdes.String()
TIMES = st.integers(0, 30) | st.sampled_from([100, 1000, 1001])
PUTS = st.tuples(st.just("put"), st.booleans(), st.sampled_from("ab"), TIMES)
DISCARDS = st.tuples(st.just("discard"), st.booleans(), st.sampled_from("ab"), TIMES)
LOOKS = st.tuples(st.just("look"), st.booleans(), st.booleans(), TIMES)
RESTS = st.tuples(st.sampled_from(["commit", "restart"]), st.none(), st.none(), st.none())

Store = OuterJoinStore[str, str, str]


def _store(world: World) -> Store:
    return OuterJoinStore(world.rows, TEXT, TEXT, TEXT, world.context)


def _walk(store: Store, time: int, left: bool, right: bool) -> int | None:
    reached: int | None = None
    for row in store.all():
        if row.timestamp >= time:
            reached = row.timestamp
            if left and right:
                break
            left, right = left or row.left, right or not row.left
    return reached


@settings(max_examples=300, deadline=None)
@given(st.lists(PUTS | PUTS | DISCARDS | LOOKS | RESTS, max_size=40))
def test_a_look_comes_as_far_as_one_over_all_rows(steps: list[tuple[str, Any, Any, Any]]) -> None:
    world = make_world(InMemoryBody())
    store = _store(world)
    for what, one, other, time in steps:
        if what == "put":
            store.put(one, other, "v", time)
        elif what == "discard":
            store.discard(one, other, time, time)
        elif what == "look":
            rows = list(store.all())
            due = list(store.before(time))
            assert due == [row for row in rows if row.timestamp < time]
            assert store.end_of_look(time, one, other) == _walk(store, time, one, other)
            for row in due:
                store.remove(row.row, time)
            store.none_before(time)
        else:
            world.commit(store)
            if what == "restart":
                store = _store(world)
                store.start()


def test_a_look_at_one_side_alone_reads_what_is_due_and_not_what_waits() -> None:
    world = make_world(InMemoryBody())
    store = _store(world)
    read = 0
    scan = world.rows.scan

    def counted(low: bytes | None, high: bytes | None, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        nonlocal read
        for row in list(scan(low, high, reverse)):
            read += 1
            yield row

    world.rows.scan = counted  # type: ignore[method-assign]
    for time in range(5000):
        store.put(True, "k", "v", time)
        if time == 2500:
            world.commit(store)
    for time in range(100):
        assert [row.timestamp for row in store.before(10 * time)] == list(range(max(0, 10 * (time - 1)), 10 * time))
        for row in list(store.before(10 * time)):
            store.remove(row.row, 5000)
        store.none_before(10 * time)
        assert store.end_of_look(10 * time, True, False) == 4999
    assert read < 3 * 1000 + 200
