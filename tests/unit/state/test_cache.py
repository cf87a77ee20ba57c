from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
from unit.state.harness import World, make_body, make_world, plain, timestamped

from headrace.api.engine import RecordContext
from headrace.records import TracedOffset
from headrace.serdes import JsonSerde
from headrace.state.buffer import BufferedStore
from headrace.state.cache import UNDECODED, CacheBudget, CacheEntry, RecordCache
from headrace.state.keyvalue import ValueAndTimestamp
from headrace.state.memory import InMemoryBody

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(make_body("memory", tmp_path), 1 << 20)


def entry(raw: bytes | None, timestamp: int = 0) -> CacheEntry:
    return (UNDECODED, timestamp, raw, None, "in", 0, 0)


class Sent:
    """A cache and what it sent on."""

    def __init__(self, max_bytes: int, budget: CacheBudget | None = None) -> None:
        self.budget = budget or CacheBudget(max_bytes)
        self.rows: list[tuple[bytes, bytes | None]] = []
        self.cache = RecordCache(self.budget, self.send)

    def send(self, key: bytes, entry: CacheEntry) -> None:
        self.rows.append((key, entry[2]))


def test_nothing_is_sent_or_logged_before_a_flush_and_then_only_the_last_write(world: World) -> None:
    store = timestamped(world)
    assert world.listen(store)
    for number in range(5):
        store.put("k", ValueAndTimestamp(str(number), number))
    assert world.log == []
    assert world.forwarded == []
    assert store.cache is not None
    was_dirty = store.cache.dirty
    store.flush()
    assert world.log == [(b"k", b"4", 4)]
    assert world.forwarded == [("k", "4", None, 4)]
    assert (was_dirty, store.cache.dirty) == (True, False)
    store.flush()
    assert len(world.log) == 1


def test_bytes_of_input_records_count_until_their_rows_are_sent_and_are_let_go_then() -> None:
    sent = Sent(1 << 20)
    offset = TracedOffset(7)
    offset.raw_key, offset.raw_value = b"k", b"v" * 1000
    traced: CacheEntry = (UNDECODED, 0, b"1", None, "in", 0, offset)
    sent.cache.put(b"a", entry(b"1"))
    plain_bytes = sent.budget.used_bytes
    for _ in range(2):
        sent.cache.put(b"a", traced)
        assert sent.budget.used_bytes == plain_bytes + 1001
    sent.cache.flush()
    assert sent.budget.used_bytes == plain_bytes
    assert sent.cache.entries[b"a"] == (UNDECODED, 0, b"1", None, "in", 0, 7)
    assert type(sent.cache.entries[b"a"][6]) is int
    sent.cache.put(b"a", (UNDECODED, 0, None, None, "in", 0, offset))
    sent.cache.flush()
    assert sent.budget.used_bytes == 0
    sent.cache.put(b"a", traced)
    sent.cache.clear()
    assert sent.budget.used_bytes == 0


def test_an_uncached_store_lets_the_caller_forward(tmp_path: Path) -> None:
    world = make_world(make_body("memory", tmp_path))
    store = timestamped(world)
    assert not world.listen(store)
    store.put("k", ValueAndTimestamp("v", 1))
    store.flush()
    assert world.forwarded == []


def test_rows_flush_in_the_order_of_their_last_dirtying(world: World) -> None:
    store = plain(world)
    for key in ("a", "b", "c", "a"):
        store.put(key, "v")
    store.get("b")
    store.flush()
    assert [key for key, _, _ in world.log] == [b"b", b"c", b"a"]


def test_old_values_are_those_before_the_flush_not_before_the_write(world: World) -> None:
    store = timestamped(world)
    world.listen(store)
    store.put("k", ValueAndTimestamp("1", 1))
    store.flush()
    store.put("k", ValueAndTimestamp("2", 2))
    store.put("k", ValueAndTimestamp("3", 3))
    store.flush()
    store.put("k", None)
    store.flush()
    assert world.forwarded == [("k", "1", None, 1), ("k", "3", "1", 3), ("k", None, "3", 0)]


def test_no_old_values_unless_asked_for(world: World) -> None:
    store = timestamped(world)
    world.listen(store, send_old_values=False)
    for value in "12":
        store.put("k", ValueAndTimestamp(value, 1))
        store.flush()
    assert [row[2] for row in world.forwarded] == [None, None]


def test_a_row_deleted_before_it_ever_left_the_cache_is_not_heard_of(world: World) -> None:
    store = timestamped(world)
    world.listen(store, send_old_values=False)
    store.put("k", ValueAndTimestamp("v", 1))
    store.put("k", None)
    store.flush()
    assert world.log == []
    assert world.forwarded == []
    assert store.get("k") is None
    store.put("k", ValueAndTimestamp("v", 1))
    store.flush()
    store.put("k", None)
    store.flush()
    assert world.log[-1] == (b"k", None, 0)
    assert world.forwarded[-1][:2] == ("k", None)


def test_without_a_listener_such_a_delete_is_logged_all_the_same(world: World) -> None:
    store = plain(world)
    store.put("k", "v")
    store.delete("k")
    store.flush()
    assert world.log == [(b"k", None, 0)]


def test_forwarding_carries_the_context_of_the_write_and_restores_the_current_one(world: World) -> None:
    store = timestamped(world)
    seen: list[tuple[Any, ...]] = []

    def listener(key: Any, new: Any, old: Any, is_latest: bool, timestamp: int, headers: Any) -> None:
        record = world.record
        seen.append((record.topic, record.partition, record.offset, record.timestamp, record.headers, headers))

    store.set_flush_listener(listener, False)
    world.at(7, 70, topic="first")
    world.record.headers = [("h", b"1")]
    store.put("k", ValueAndTimestamp("v", 65))
    world.at(8, 80, topic="second")
    world.record.headers = None
    store.flush()
    assert seen == [("first", 0, 7, 65, [("h", b"1")], [("h", b"1")])]
    now = world.record
    assert (now.topic, now.offset, now.timestamp, now.headers) == ("second", 8, 80, None)


def test_the_context_is_restored_when_a_listener_fails(world: World) -> None:
    store = timestamped(world)

    def listener(*_: Any) -> None:
        raise RuntimeError("downstream")

    store.set_flush_listener(listener, False)
    world.at(7, 70)
    store.put("k", ValueAndTimestamp("v", 65))
    world.at(8, 80, topic="second")
    with pytest.raises(RuntimeError):
        store.flush()
    assert (world.record.topic, world.record.offset, world.record.timestamp) == ("second", 8, 80)


def test_a_plain_stores_changelog_time_is_that_of_the_write(world: World) -> None:
    store = plain(world)
    world.at(0, 100)
    store.put("k", "v")
    world.at(1, 200)
    store.flush()
    assert world.log == [(b"k", b"v", 100)]


def test_immutable_values_are_kept_and_others_decoded_anew(world: World) -> None:
    text = timestamped(world)
    text.put("k", ValueAndTimestamp("v" * 50, 1))
    one, two = text.get("k"), text.get("k")
    assert one is not None
    assert two is not None
    assert one.value is two.value
    lists = timestamped(make_world(InMemoryBody(), 1 << 20), JsonSerde(list[int]))
    lists.put("k", ValueAndTimestamp([1], 1))
    first, second = lists.get("k"), lists.get("k")
    assert first is not None
    assert second is not None
    assert first.value is not second.value


def test_reads_below_are_remembered_as_clean(world: World) -> None:
    store = timestamped(world)
    store.put("k", ValueAndTimestamp("v", 1))
    world.commit(store)
    store.drop_uncommitted()
    assert store.cache is not None
    assert store.get("k") == ("v", 1)
    assert b"k" in store.cache.entries
    assert not store.cache.dirty
    assert store.get("absent") is None
    assert b"absent" not in store.cache.entries


def test_drop_forgets_cached_writes(world: World) -> None:
    store = timestamped(world)
    store.put("k", ValueAndTimestamp("committed", 1))
    world.commit(store)
    store.put("k", ValueAndTimestamp("lost", 2))
    store.drop_uncommitted()
    assert store.get("k") == ("committed", 1)
    assert len(world.log) == 1


def test_the_least_recently_used_row_is_evicted_first() -> None:
    sent = Sent(3 * 210)
    cache = sent.cache
    for key in (b"a", b"b", b"c"):
        cache.put_clean(key, entry(b"v"))
    cache.get(b"a")
    cache.put_clean(b"d", entry(b"v"))
    assert list(cache.entries) == [b"c", b"a", b"d"]
    assert sent.rows == []


def test_evicting_a_dirty_row_sends_every_dirty_row() -> None:
    sent = Sent(3 * 210)
    for key in (b"a", b"b", b"c", b"a"):
        sent.cache.put(key, entry(b"v"))
    sent.cache.put(b"d", entry(b"v"))
    assert [key for key, _ in sent.rows] == [b"b", b"c", b"a", b"d"]
    assert not sent.cache.dirty
    assert list(sent.cache.entries) == [b"c", b"a", b"d"]


def test_a_row_larger_than_the_budget_goes_straight_through() -> None:
    sent = Sent(100)
    sent.cache.put(b"a", entry(b"v" * 1000))
    assert sent.rows == [(b"a", b"v" * 1000)]
    assert not sent.cache.entries
    assert sent.budget.used_bytes == 0


def test_caches_share_one_budget_and_each_evicts_its_own() -> None:
    budget = CacheBudget(4 * 210)
    one, two = Sent(0, budget), Sent(0, budget)
    for key in (b"a", b"b", b"c"):
        one.cache.put(key, entry(b"v"))
    two.cache.put(b"x", entry(b"v"))
    two.cache.put(b"y", entry(b"v"))
    assert one.rows == []
    assert [key for key, _ in two.rows] == [b"x", b"y"]
    assert list(two.cache.entries) == [b"y"]
    one.cache.clear()
    assert budget.used_bytes == 210 - 8
    two.cache.clear()
    assert budget.used_bytes == 0


def test_flushed_tombstones_leave_the_cache() -> None:
    sent = Sent(1 << 20)
    sent.cache.put(b"a", entry(None))
    sent.cache.flush()
    assert sent.rows == [(b"a", None)]
    assert not sent.cache.entries
    assert sent.budget.used_bytes == 0


def make_listening_store(budget: CacheBudget) -> tuple[Any, RecordContext, list[Any]]:
    """A store whose flushed rows go to ``handle[0]``, which may use the store."""
    record, log = RecordContext(), list[Any]()
    rows = BufferedStore("s", InMemoryBody(), lambda key, value, timestamp, headers: log.append((key, value)))
    store = plain(World(rows, record, [], budget))
    return store, record, log


def test_a_row_written_anew_while_it_is_sent_is_not_lost() -> None:
    # evicted while its own flush wrote it again: the entry went, and the write with it
    sent: list[tuple[bytes, bytes | None]] = []
    budget = CacheBudget(300)

    def send(key: bytes, entry_: CacheEntry) -> None:
        sent.append((key, entry_[2]))
        if entry_[2] == b"first":
            cache.put(key, entry(b"second"))

    cache = RecordCache(budget, send)
    cache.put(b"a", entry(b"first"))
    cache.put(b"b", entry(b"x"))
    cache.flush()
    assert dict(sent) == {b"a": b"second", b"b": b"x"}
    assert sent.index((b"a", b"first")) < sent.index((b"a", b"second"))


def test_rows_evicted_while_a_flush_is_under_way_are_not_lost() -> None:
    # they looked clean once the flush had begun, so an eviction from within threw them away unsent
    sent: list[tuple[bytes, bytes | None]] = []
    budget = CacheBudget(3 * 210)

    def send(key: bytes, entry_: CacheEntry) -> None:
        sent.append((key, entry_[2]))
        if key == b"a":
            for other in (b"x", b"y", b"z"):
                cache.put_clean(other, entry(b"read"))

    cache = RecordCache(budget, send)
    for key in (b"a", b"b", b"c"):
        cache.put(key, entry(b"v"))
    cache.flush()
    assert sorted(sent) == [(b"a", b"v"), (b"b", b"v"), (b"c", b"v")]
    assert not cache.dirty
    assert budget.used_bytes == sum(200 + len(key) + len(row[2] or b"") for key, row in cache.entries.items())


def test_rows_that_come_and_go_after_a_scan_leave_nothing_behind() -> None:
    sent = Sent(1000)
    sent.cache.between(None, None)
    body = InMemoryBody()
    body.scan(None, None, reverse=False)
    keys = [number.to_bytes(8, "big") for number in range(5000)]
    held = [sys.getrefcount(key) for key in keys]
    for key in keys:
        sent.cache.put_clean(key, entry(b"row"))
        body.write([(key, b"row")], None)
        body.write([(key, None)], None)
    now = [sys.getrefcount(key) for key in keys]
    assert sum(after > before for before, after in zip(held, now, strict=True)) < 2000
    body.write([(b"a", b"1"), (b"b", b"2")], None)
    assert list(body.scan(None, None, reverse=True)) == [(b"b", b"2"), (b"a", b"1")]
