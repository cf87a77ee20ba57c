from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from unit.state.harness import BODIES, World, make_body, make_world

from headrace.state.body import prefix_end

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=BODIES)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    made = make_world(make_body(request.param, tmp_path))
    yield made
    made.rows.close()


def put(world: World, key: bytes, value: bytes | None) -> None:
    world.rows.put(key, value, value, 0)


def test_the_body_has_nothing_that_was_not_applied(world: World) -> None:
    rows = world.rows
    put(world, b"a", b"1")
    assert rows.body.get(b"a") is None
    rows.seal()
    assert rows.body.get(b"a") is None
    assert rows.get(b"a") == b"1"
    rows.apply(1)
    assert rows.body.get(b"a") == b"1"
    assert rows.body.offset() == 1


def test_apply_writes_what_was_sealed_and_nothing_after_it(world: World) -> None:
    rows = world.rows
    put(world, b"a", b"sealed")
    put(world, b"b", b"sealed")
    rows.seal()
    put(world, b"b", b"active")
    put(world, b"c", b"active")
    rows.apply(2)
    assert [rows.body.get(key) for key in (b"a", b"b", b"c")] == [b"sealed", b"sealed", None]
    assert list(rows.scan(None, None)) == [(b"a", b"sealed"), (b"b", b"active"), (b"c", b"active")]
    rows.apply(None)
    assert rows.body.get(b"c") is None


def test_a_second_seal_before_the_outcome_adds_to_the_first(world: World) -> None:
    rows = world.rows
    put(world, b"a", b"1")
    put(world, b"b", b"1")
    rows.seal()
    put(world, b"b", b"2")
    rows.seal()
    rows.apply(3)
    assert (rows.body.get(b"a"), rows.body.get(b"b")) == (b"1", b"2")


def test_drop_forgets_both_generations(world: World) -> None:
    rows = world.rows
    put(world, b"a", b"committed")
    world.commit()
    put(world, b"a", None)
    rows.seal()
    put(world, b"b", b"1")
    rows.drop()
    assert list(rows.scan(None, None)) == [(b"a", b"committed")]
    assert rows.uncommitted_bytes == 0
    rows.seal()
    rows.apply(9)
    assert rows.get(b"a") == b"committed"


def test_tombstones_hide_what_lies_below(world: World) -> None:
    rows = world.rows
    put(world, b"a", b"body")
    put(world, b"b", b"body")
    world.commit()
    put(world, b"a", None)
    assert rows.get(b"a") is None
    rows.seal()
    assert rows.get(b"a") is None
    assert list(rows.scan(None, None)) == [(b"b", b"body")]
    put(world, b"a", b"again")
    assert rows.get(b"a") == b"again"
    put(world, b"a", None)
    assert rows.get(b"a") is None
    world.commit()
    assert rows.body.get(b"a") is None


def test_an_offset_that_is_not_past_the_bodys_own_stays_out(world: World) -> None:
    rows = world.rows
    rows.restore([(b"a", b"1")], 100)
    put(world, b"b", b"2")
    rows.seal()
    rows.apply(7)
    assert rows.body.offset() == 100
    assert rows.body.get(b"b") == b"2"
    rows.apply(101)
    assert rows.body.offset() == 101


def test_memory_of_waiting_writes_is_counted_and_given_back(world: World) -> None:
    rows = world.rows
    put(world, b"key", b"x" * 100)
    once = rows.uncommitted_bytes
    assert once >= 103
    put(world, b"key", b"y" * 150)
    assert rows.uncommitted_bytes == once + 50
    put(world, b"key", None)
    assert rows.uncommitted_bytes == once - 100
    put(world, b"key", b"z" * 100)
    rows.seal()
    assert rows.uncommitted_bytes == once
    put(world, b"key", b"z" * 100)
    assert rows.uncommitted_bytes == 2 * once
    rows.apply(1)
    assert rows.uncommitted_bytes == once
    rows.seal()
    rows.apply(2)
    assert rows.uncommitted_bytes == 0


def test_a_failing_changelog_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    world = make_world(make_body("memory", tmp_path))

    def broken(key: bytes, value: bytes | None, timestamp: int | None, headers: object) -> None:
        raise OSError("queue full")

    world.rows.log = broken
    with pytest.raises(OSError, match="queue full"):
        put(world, b"a", b"1")
    assert world.rows.get(b"a") is None


@pytest.mark.parametrize(
    ("prefix", "end"),
    [(b"a", b"b"), (b"a\xff", b"b"), (b"a\xff\xff", b"b"), (b"\x00", b"\x01"), (b"\xff", None), (b"", None)],
)
def test_prefix_end(prefix: bytes, end: bytes | None) -> None:
    assert prefix_end(prefix) == end
