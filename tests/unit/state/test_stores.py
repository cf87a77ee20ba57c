from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from unit.state.harness import BODIES, World, make_body, make_world, plain, timestamped

from headrace.errors import InvalidStateStoreException
from headrace.serdes import JsonSerde, Serdes
from headrace.state.keyvalue import KeyValueStore, ValueAndTimestamp

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headrace.state.keyvalue import TimestampedKeyValueStore

CACHES = (None, 1 << 20, 1)
"""Uncached, roomy, and so small that every write is evicted at once."""


@pytest.fixture(params=[(body, cache) for body in BODIES for cache in CACHES], ids=lambda p: f"{p[0]}-{p[1]}")
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    body, cache = request.param
    made = make_world(make_body(body, tmp_path), cache)
    yield made
    made.rows.close()


@pytest.fixture
def store(world: World) -> KeyValueStore[str, str]:
    return plain(world)


@pytest.fixture
def stamped(world: World) -> TimestampedKeyValueStore[str, str]:
    return timestamped(world)


class Layers:
    """Moves what was written so far further down, so that reads have to look everywhere."""

    def __init__(self, world: World, store: Any) -> None:
        self.world, self.store = world, store

    def to_body(self) -> None:
        self.world.commit(self.store)

    def to_sealed(self) -> None:
        self.store.flush()
        self.world.rows.seal()

    def to_active(self) -> None:
        self.store.flush()


@pytest.fixture
def layers(world: World, store: KeyValueStore[str, str]) -> Layers:
    return Layers(world, store)


def test_get_put_delete(store: KeyValueStore[str, str]) -> None:
    assert store.get("a") is None
    store.put("a", "1")
    assert store.get("a") == "1"
    store.put("a", "2")
    assert store.get("a") == "2"
    assert store.delete("a") == "2"
    assert store.get("a") is None
    assert store.delete("a") is None
    store.put("a", "3")
    store.put("a", None)
    assert store.get("a") is None
    assert list(store.all()) == []


def test_put_if_absent_gives_what_was_there(store: KeyValueStore[str, str]) -> None:
    assert store.put_if_absent("a", "1") is None
    assert store.put_if_absent("a", "2") == "1"
    assert store.get("a") == "1"
    store.delete("a")
    assert store.put_if_absent("a", "3") is None
    assert store.get("a") == "3"


def test_put_all_in_order_and_with_deletes(store: KeyValueStore[str, str]) -> None:
    store.put("gone", "x")
    store.put_all([("a", "1"), ("b", "2"), ("a", "3"), ("gone", None)])
    assert list(store.all()) == [("a", "3"), ("b", "2")]


def test_no_key_is_an_error_everywhere(store: KeyValueStore[Any, Any]) -> None:
    calls: list[Callable[[], object]] = [
        lambda: store.get(None),
        lambda: store.put(None, "x"),
        lambda: store.put_if_absent(None, "x"),
        lambda: store.put_all([(None, "x")]),
        lambda: store.delete(None),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="store store: key cannot be None"):
            call()
    with pytest.raises(ValueError, match="prefix cannot be None"):
        store.prefix_scan(None, Serdes.String().serializer)


def test_rows_of_every_layer_are_read_together(store: KeyValueStore[str, str], layers: Layers) -> None:
    for key in "abcdef":
        store.put(key, "body")
    layers.to_body()
    store.put("b", "sealed")
    store.delete("c")
    store.put("g", "sealed")
    layers.to_sealed()
    store.put("d", "active")
    store.delete("e")
    store.delete("g")
    store.put("c", "active")
    layers.to_active()
    store.put("f", "cached")
    store.delete("a")
    expected = {"b": "sealed", "c": "active", "d": "active", "f": "cached"}
    assert list(store.all()) == list(expected.items())
    assert list(store.reverse_all()) == list(reversed(expected.items()))
    assert {key: store.get(key) for key in "abcdefg"} == {**dict.fromkeys("aeg"), **expected}
    assert list(store.range("b", "d")) == [("b", "sealed"), ("c", "active"), ("d", "active")]
    assert list(store.reverse_range("b", "d")) == [("d", "active"), ("c", "active"), ("b", "sealed")]
    layers.to_body()
    assert list(store.all()) == list(expected.items())


def test_bounds_are_inclusive_and_may_be_open(store: KeyValueStore[str, str], layers: Layers) -> None:
    for key in ("a", "b", "bb", "c"):
        store.put(key, key)
    for _ in range(2):
        assert [k for k, _ in store.range("b", "bb")] == ["b", "bb"]
        assert [k for k, _ in store.range(None, "b")] == ["a", "b"]
        assert [k for k, _ in store.range("bb", None)] == ["bb", "c"]
        assert [k for k, _ in store.reverse_range(None, "bb")] == ["bb", "b", "a"]
        assert [k for k, _ in store.reverse_range("az", None)] == ["c", "bb", "b"]
        assert list(store.range("c", "a")) == []
        assert list(store.reverse_range("c", "a")) == []
        assert list(store.range("ba", "ba")) == []
        layers.to_body()


def test_keys_are_ordered_as_unsigned_bytes(world: World) -> None:
    store = KeyValueStore(world.rows, Serdes.Bytes(), Serdes.Bytes(), world.context, caching=world.budget is not None)
    keys = [b"", b"\x00", b"\x00\x00", b"\x01", b"\x7f", b"\x80", b"\x80\x00", b"\xff", b"\xff\x00", b"\xff\xff"]
    for number, key in enumerate(reversed(keys)):
        store.put(key, b"v")
        if number == 4:
            world.commit(store)
    assert [key for key, _ in store.all()] == keys
    assert [key for key, _ in store.reverse_all()] == keys[::-1]
    assert [key for key, _ in store.range(b"\x7f", b"\xff")] == [b"\x7f", b"\x80", b"\x80\x00", b"\xff"]


def test_prefix_scan(world: World) -> None:
    store = KeyValueStore(world.rows, Serdes.Bytes(), Serdes.Bytes(), world.context, caching=world.budget is not None)
    serializer = Serdes.Bytes().serializer
    keys = [b"a", b"a\x00", b"a\xff", b"a\xff\xff", b"b", b"\xff", b"\xff\x01", b"\xff\xff"]
    for number, key in enumerate(keys):
        store.put(key, b"v")
        if number % 3 == 0:
            world.commit(store)
    store.delete(b"a\x00")

    def found(prefix: bytes) -> list[bytes]:
        return [key for key, _ in store.prefix_scan(prefix, serializer)]

    assert found(b"a") == [b"a", b"a\xff", b"a\xff\xff"]
    assert found(b"a\xff") == [b"a\xff", b"a\xff\xff"]
    assert found(b"\xff") == [b"\xff", b"\xff\x01", b"\xff\xff"]
    assert found(b"") == [b"a", b"a\xff", b"a\xff\xff", b"b", b"\xff", b"\xff\x01", b"\xff\xff"]
    assert found(b"c") == []


def test_prefix_whose_last_byte_cannot_grow_does_not_reach_the_next_key(tmp_path: Path) -> None:
    world = make_world(make_body("memory", tmp_path))
    for key in (b"a\xff", b"b", b"b\x00"):
        world.rows.put(key, b"v", b"v", 0)
    assert [key for key, _ in world.rows.prefix(b"a\xff")] == [b"a\xff"]
    assert [key for key, _ in world.rows.prefix(b"a")] == [b"a\xff"]


def test_iterators_do_not_see_later_writes(store: KeyValueStore[str, str], layers: Layers) -> None:
    for key in "ace":
        store.put(key, "old")
    layers.to_body()
    store.put("g", "old")
    rows, backwards = store.all(), store.reverse_all()
    assert next(rows) == ("a", "old")
    store.put("c", "new")
    store.put("b", "new")
    store.delete("e")
    store.delete("g")
    layers.to_body()
    store.put("g", "newer")
    assert list(rows) == [("c", "old"), ("e", "old"), ("g", "old")]
    assert list(backwards) == [("g", "old"), ("e", "old"), ("c", "old"), ("a", "old")]


def test_everything_can_be_deleted_while_iterating(store: KeyValueStore[str, str], layers: Layers) -> None:
    for number in range(20):
        store.put(f"{number:02}", "v")
        if number == 10:
            layers.to_body()
    seen = []
    for key, _ in store.all():
        seen.append(key)
        store.delete(key)
    assert seen == [f"{number:02}" for number in range(20)]
    assert list(store.all()) == []


def test_closed_store_refuses_everything(store: KeyValueStore[str, str], world: World) -> None:
    store.put("a", "1")
    was_open = store.is_open
    store.close()
    store.close()
    assert (was_open, store.is_open) == (True, False)
    calls: list[Callable[[], object]] = [
        lambda: store.get("a"),
        lambda: store.put("a", "2"),
        lambda: store.put_all([("a", "2")]),
        lambda: store.put_if_absent("a", "2"),
        lambda: store.delete("a"),
        store.all,
        store.reverse_all,
        lambda: store.range("a", "b"),
        lambda: store.prefix_scan("a", Serdes.String().serializer),
        store.approximate_num_entries,
    ]
    for call in calls:
        with pytest.raises(InvalidStateStoreException, match="store store is closed"):
            call()
    if world.budget is not None:
        assert world.budget.used_bytes == 0


def test_timestamped_store_keeps_times(stamped: TimestampedKeyValueStore[str, str], world: World) -> None:
    for there in (None, ("2", 20)):
        stamped.put("a", ValueAndTimestamp("1", 10))
        assert stamped.get("a") == ("1", 10)
        assert stamped.put_if_absent("a", ValueAndTimestamp("9", 99)) == ("1", 10)
        assert stamped.put_if_absent("b", ValueAndTimestamp("2", 20)) == there
        stamped.put_all([("c", ValueAndTimestamp("3", 30)), ("d", ValueAndTimestamp("4", 40)), ("d", None)])
        rows = [("a", ("1", 10)), ("b", ("2", 20)), ("c", ("3", 30))]
        assert list(stamped.all()) == rows
        assert list(stamped.reverse_all()) == rows[::-1]
        assert list(stamped.range("b", None)) == rows[1:]
        assert list(stamped.reverse_range(None, "b")) == rows[1::-1]
        assert list(stamped.prefix_scan("b", Serdes.String().serializer)) == rows[1:2]
        world.commit(stamped)
    assert stamped.delete("a") == ("1", 10)
    assert stamped.delete("a") is None
    assert stamped.get("a") is None
    with pytest.raises(ValueError, match="key cannot be None"):
        stamped.get(None)  # type: ignore[arg-type]
    assert isinstance(next(stamped.all())[1], ValueAndTimestamp)


def test_timestamps_of_any_sign_survive_the_body(stamped: TimestampedKeyValueStore[str, str], world: World) -> None:
    times = [0, 1, -1, (1 << 63) - 1, -(1 << 63)]
    for number, time in enumerate(times):
        stamped.put(str(number), ValueAndTimestamp("v", time))
    world.commit(stamped)
    if world.budget is not None:
        stamped.drop_uncommitted()
    assert [row[1].timestamp for row in stamped.all()] == times


def test_stored_and_logged_forms_of_a_timestamped_row(tmp_path: Path) -> None:
    world = make_world(make_body("memory", tmp_path))
    stamped = timestamped(world)
    stamped.put("k", ValueAndTimestamp("v", 258))
    assert world.rows.get(b"k") == b"\x00\x00\x00\x00\x00\x00\x01\x02v"
    assert world.log == [(b"k", b"v", 258)]
    stored = world.rows.get(b"k")
    stamped.drop_uncommitted()
    stamped.restore([(0, 258, b"k", b"v", None), (1, 258, b"gone", b"v", None), (2, 259, b"gone", None, None)], 3)
    assert list(world.rows.scan(None, None)) == [(b"k", stored)]
    assert world.rows.body.offset() == 3


def test_plain_body_has_no_times_in_its_rows(world: World) -> None:
    store = timestamped(world, plain_body=True)
    store.put("a", ValueAndTimestamp("1", 10))
    store.put("b", ValueAndTimestamp("2", 20))
    store.flush()
    # while a row is in the cache its time is known, below it is not
    known = world.budget is not None and world.budget.max_bytes > 1
    assert world.rows.get(b"a") == b"1"
    assert list(store.all()) == [("a", ("1", 10 if known else -1)), ("b", ("2", 20 if known else -1))]
    assert store.get("a") == ("1", 10 if known else -1)
    world.commit(store)
    store.drop_uncommitted()
    assert store.get("a") == ("1", -1)
    assert world.log == [(b"a", b"1", 10), (b"b", b"2", 20)]
    store.restore([(0, 10, b"a", b"3", None)], 1)
    assert world.rows.get(b"a") == b"3"


def test_values_changed_in_place_do_not_reach_the_store(world: World) -> None:
    serde: JsonSerde[list[int]] = JsonSerde(list[int])
    assert not serde.immutable
    store = timestamped(world, serde)
    value = [1]
    store.put("k", ValueAndTimestamp(value, 1))
    value.append(2)
    first = store.get("k")
    assert first is not None
    assert first.value == [1]
    first.value.append(3)
    second = store.get("k")
    assert second == ([1], 1)
    ((_, third),) = store.all()
    third.value.append(4)
    world.commit(store)
    assert store.get("k") == ([1], 1)
    read = store.get_pair("k")
    assert read is not None
    read[0].append(5)
    again = store.get_pair("k")
    assert again is not None
    assert again[0] == [1]


def test_values_changed_in_place_do_not_reach_a_plain_store(world: World) -> None:
    store = plain(world, JsonSerde(dict[str, int]))
    value = {"a": 1}
    store.put("k", value)
    value["a"] = 2
    read = store.get("k")
    assert read == {"a": 1}
    read["a"] = 3
    assert store.get("k") == {"a": 1}
    for _, row in store.all():
        row["a"] = 4
    assert store.get("k") == {"a": 1}


def test_approximate_count_grows_with_rows_and_is_exact_once_committed(world: World) -> None:
    store = plain(world)
    assert store.approximate_num_entries() == 0
    for key in "abc":
        store.put(key, "v")
    assert store.approximate_num_entries() >= 3
    world.commit(store)
    if not store.persistent:
        assert store.approximate_num_entries() == 3
    else:
        assert store.approximate_num_entries() >= 3


@pytest.mark.parametrize("body", BODIES)
def test_one_changelog_record_per_write_without_a_cache(body: str, tmp_path: Path) -> None:
    world = make_world(make_body(body, tmp_path))
    store = plain(world)
    world.at(0, 100)
    store.put("a", "1")
    world.at(1, 50)
    store.put("a", "2")
    store.put_if_absent("a", "3")
    store.put_if_absent("b", "4")
    world.at(2, 200)
    store.delete("nothing")
    store.put_all([("c", "5"), ("c", "6")])
    assert world.log == [
        (b"a", b"1", 100),
        (b"a", b"2", 50),
        (b"b", b"4", 50),
        (b"nothing", None, 200),
        (b"c", b"5", 200),
        (b"c", b"6", 200),
    ]
    world.commit(store)
    assert len(world.log) == 6, "a commit logs nothing"
    world.rows.close()


def test_delete_of_a_timestamped_row_is_logged_with_the_time_of_the_record_in_work(tmp_path: Path) -> None:
    world = make_world(make_body("memory", tmp_path))
    store = timestamped(world)
    store.put("a", ValueAndTimestamp("1", 500))
    world.at(1, 70)
    store.delete("a")
    assert world.log[-1] == (b"a", None, 70)
