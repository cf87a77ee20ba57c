"""Window, session and versioned stores: what the model tests leave out."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from unit.state.harness import store_context

from headrace.api.engine import RecordContext
from headrace.api.stores import KeyValueBody, WindowBytesStoreSupplier
from headrace.api.windows import MAX_TIMESTAMP, SessionWindow, TimeWindow, Windowed
from headrace.errors import IllegalStateException, TopologyException
from headrace.serdes import JsonSerde, Serdes
from headrace.state import Stores, ValueAndTimestamp, ValueTimestampHeaders
from headrace.state.cache import CacheBudget
from headrace.state.memory import InMemoryBody
from headrace.state.suppliers import WindowSupplier

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace.records import Headers, RawRecord

STRING = Serdes.String()


@dataclass
class Opened:
    store: Any
    record: RecordContext
    log: list[RawRecord]
    dropped: list[str]

    def commit(self) -> None:
        self.store.flush()
        self.store.seal()
        self.store.rows.apply(len(self.log))


def opened(builder: Any, path: Path, cache_bytes: int | None = None) -> Opened:
    record, log, dropped = RecordContext(), list[Any](), list[str]()
    record.timestamp = 0

    def write(key: bytes, value: bytes | None, timestamp: int | None, headers: Headers | None) -> None:
        log.append((len(log), timestamp or 0, key, value, headers))

    budget = None if cache_bytes is None else CacheBudget(cache_bytes)
    store = builder.build(store_context(record, write, budget, dropped.append, path / "store"))
    return Opened(store, record, log, dropped)


def window_builder(persistent: bool = True, retention: int = 100, **how: Any) -> Any:
    make = Stores.persistent_window_store if persistent else Stores.in_memory_window_store
    return Stores.window_store_builder(make("s", retention, 10, **how), STRING, STRING)


def size_of(path: Path) -> int:
    size = 0
    for file in path.rglob("*.sst"):
        # a compaction may delete it meanwhile
        with contextlib.suppress(FileNotFoundError):
            size += file.stat().st_size
    return size


def test_expired_segments_give_their_disk_space_back(tmp_path: Path) -> None:
    made = opened(window_builder(retention=60_000), tmp_path)
    minutes = 24
    for minute in range(minutes):
        for number in range(1000):
            made.store.put(f"{minute}-{number}", "v" * 500, minute * 60_000 + number)
        made.commit()
        made.store.rows.body._db.flush()
    # two minutes are visible, three segments live, half a megabyte each
    assert len(list(made.store.rows.body.scan(None, None, reverse=False))) <= 3 * 1000 + 1
    assert made.dropped == []
    # beside them a few flushed files wait for the next compaction
    deadline = time.monotonic() + 60
    while size_of(tmp_path) > minutes * 500_000 / 2:
        assert time.monotonic() < deadline, f"{size_of(tmp_path)} bytes"
        time.sleep(0.05)
    made.store.close()


def test_a_commit_does_not_wait_for_the_files_of_an_expired_segment_to_be_rewritten(tmp_path: Path) -> None:
    made = opened(window_builder(retention=60_000), tmp_path)
    body = made.store.rows.body
    for minute in range(2):
        made.store.put("k", "v" * 500, minute * 60_000)
        made.commit()
        body._db.flush()
    files = sorted(file.name for file in tmp_path.rglob("*.sst"))
    made.store.put("k", "v", 600_000)
    made.commit()
    assert len(list(body.scan(None, None, reverse=False))) == 2, "the new row, and the store's own"
    assert sorted(file.name for file in tmp_path.rglob("*.sst")) == files
    made.store.close()


def test_a_late_row_is_dropped_by_the_time_in_memory_and_by_the_segment_on_disk(tmp_path: Path) -> None:
    for persistent, dropped in ((True, 0), (False, 1)):
        made = opened(window_builder(persistent), tmp_path / str(persistent))
        made.store.put("k", "new", 200)
        made.store.put("k", "late", 100)
        assert len(made.dropped) == dropped
        assert made.store.fetch("k", 100) is None
        assert [row[3] for row in made.log] == [b"new", b"late"], "the changelog has what the store refused"
        made.store.put("k", "just in time", 101)
        assert made.store.fetch("k", 101) == "just in time"
        made.store.close()


def test_duplicates_are_not_overwritten_after_a_restart(tmp_path: Path) -> None:
    # Java's numbers begin anew, so that a record of one key and time replaces another
    builder = window_builder(retain_duplicates=True)
    first = opened(builder, tmp_path)
    first.store.put("k", "one", 5)
    first.store.put("k", "two", 5)
    first.commit()
    first.store.put("k", "lost", 5)
    first.store.rows.body.close()
    again = opened(builder, tmp_path)
    again.store.put("k", "three", 5)
    assert [value for _, value in again.store.fetch("k", 0, 10)] == ["one", "two", "three"]
    again.commit()
    again.store.close()
    restored = opened(builder, tmp_path / "other")
    restored.store.restore([*first.log[:2], *again.log], 3)
    restored.store.put("k", "four", 5)
    assert [value for _, value in restored.store.fetch("k", 0, 10)] == ["one", "two", "three", "four"]
    restored.store.close()


def test_segments_that_nothing_is_cached_of_are_not_looked_at_for_ever(tmp_path: Path) -> None:
    made = opened(window_builder(persistent=False).with_caching_enabled(), tmp_path, 2000)
    for number in range(100):
        made.store.put("k", "v", number * 100_000)
        made.commit()
    cached = made.store.cache.entries
    assert len(made.store._cached_segments.between(0, MAX_TIMESTAMP, reverse=False)) <= len(cached) + 1 < 12
    assert [key.window.start for key, _ in made.store.all()] == [
        int.from_bytes(key[-12:-4], "big") for key in sorted(cached)
    ]


def test_a_flush_listener_hears_of_windows_with_old_values(tmp_path: Path) -> None:
    supplier = Stores.in_memory_window_store("s", 100, 10)
    builder = Stores.timestamped_window_store_builder(supplier, STRING, JsonSerde(list[int])).with_caching_enabled()
    made = opened(builder, tmp_path, 1 << 20)
    heard: list[Any] = []
    listener = lambda key, new, old, is_latest, timestamp, headers: heard.append((key, new, old, timestamp))  # noqa: E731
    assert made.store.set_flush_listener(listener, True)
    value = [1]
    made.store.put("k", ValueAndTimestamp(value, 12), 10)
    value.append(99)
    made.store.put("k", None, 30)
    made.commit()
    window = Windowed("k", TimeWindow(10, 20))
    assert heard == [(window, [1], None, 12)], "a deletion of what never left the cache goes nowhere"
    made.store.put("k", ValueAndTimestamp([2], 15), 10)
    made.commit()
    made.record.timestamp = 16
    made.store.put("k", None, 10)
    made.commit()
    assert heard[1:] == [(window, [2], [1], 15), (window, None, [2], 16)]


def test_a_flushed_session_has_the_time_of_its_end(tmp_path: Path) -> None:
    builder = Stores.session_store_builder(Stores.in_memory_session_store("s", 100), STRING, STRING)
    made = opened(builder.with_caching_enabled(), tmp_path, 1 << 20)
    heard: list[Any] = []
    made.store.set_flush_listener(lambda *row: heard.append(row), False)
    made.record.timestamp = 3
    made.store.put(Windowed("k", SessionWindow(1, 9)), "v")
    made.commit()
    assert heard == [(Windowed("k", SessionWindow(1, 9)), "v", None, True, 9, None)]
    assert made.log[0][1] == 3, "the changelog record has the record's time"


def test_iterators_are_snapshots(tmp_path: Path) -> None:
    for persistent in (True, False):
        made = opened(window_builder(persistent), tmp_path / str(persistent))
        for start in range(5):
            made.store.put("k", str(start), start)
            if start == 2:
                made.commit()
        rows = made.store.fetch("k", 0, 100)
        every = made.store.all()
        made.store.put("k", "later", 5)
        made.store.put("k", None, 1)
        assert [start for start, _ in rows] == list(range(5))
        assert [key.window.start for key, _ in every] == list(range(5))
        assert [start for start, _ in made.store.fetch("k", 0, 100)] == [0, 2, 3, 4, 5]
        made.store.close()


def test_headers_are_kept_with_rows_and_their_changelog_records(tmp_path: Path) -> None:
    headers: Headers = [("h", b"1"), ("n", None)]
    supplier = Stores.persistent_timestamped_window_store_with_headers("s", 100, 10)
    windows = opened(Stores.timestamped_window_store_with_headers_builder(supplier, STRING, STRING), tmp_path / "w")
    windows.store.put("k", ValueTimestampHeaders("v", 7, headers), 10)
    windows.commit()
    assert windows.store.fetch("k", 10) == ("v", 7, headers)
    assert windows.log[0][4] == headers
    pairs = Stores.persistent_timestamped_key_value_store_with_headers("s")
    values = opened(Stores.timestamped_key_value_store_with_headers_builder(pairs, STRING, STRING), tmp_path / "k")
    values.store.put("k", ValueTimestampHeaders("v", 7, headers))
    values.commit()
    assert values.store.get("k") == ("v", 7, headers)
    assert list(values.store.all()) == [("k", ("v", 7, headers))]
    assert values.store.delete("k") == ("v", 7, headers)
    sessions = opened(
        Stores.session_store_with_headers_builder(
            Stores.persistent_session_store_with_headers("s", 100), STRING, STRING
        ),
        tmp_path / "s",
    )
    session = Windowed("k", SessionWindow(1, 5))
    sessions.store.put(session, ("v", headers))
    sessions.commit()
    assert list(sessions.store.fetch("k")) == [(session, ("v", headers))]
    restored = opened(
        Stores.session_store_with_headers_builder(
            Stores.persistent_session_store_with_headers("s", 100), STRING, STRING
        ),
        tmp_path / "r",
    )
    restored.store.restore(sessions.log, 1)
    assert restored.store.fetch_session("k", 1, 5) == ("v", headers)
    for made in (windows, values, sessions, restored):
        made.store.close()


def test_the_index_by_time_never_reaches_the_changelog(tmp_path: Path) -> None:
    from headrace.state.suppliers import WindowSupplier

    supplier = WindowSupplier("s", True, 100, 10, 60_000, time_first=True)
    made = opened(Stores.window_store_builder(supplier, STRING, STRING), tmp_path)
    for start in (30, 10, 20):
        made.store.put("k", "v", start)
        made.store.put("j", "v", start)
    made.commit()
    assert len(made.log) == 6
    assert len(list(made.store.rows.body.scan(None, b"\x80", reverse=False))) == 12
    seen = [(key.key, key.window.start) for key, _ in made.store.fetch_all(10, 20)]
    assert seen == [("j", 10), ("k", 10), ("j", 20), ("k", 20)]
    made.store.put("j", None, 10)
    made.commit()
    assert len(list(made.store.rows.body.scan(None, b"\x80", reverse=False))) == 10
    made.store.close()


class OwnBody(InMemoryBody):
    """A user's body."""


class OwnSupplier(WindowBytesStoreSupplier):
    """A user's supplier."""

    name, persistent = "mine", False
    retention_ms, window_size_ms, segment_interval_ms = 50, 10, 20

    def open(self, path: Path) -> KeyValueBody:
        return OwnBody()


class LooksCounted(InMemoryBody):
    """Says how many rows scans gave."""

    scanned = 0

    def scan(self, low: bytes | None, high: bytes | None, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        rows = list(super().scan(low, high, reverse))
        self.scanned += len(rows)
        return iter(rows)


@dataclass(frozen=True)
class CountedSupplier(WindowSupplier):
    def open(self, path: Path) -> KeyValueBody:
        return LooksCounted()


def test_windows_in_memory_that_have_closed_are_found_without_a_look_at_those_that_have_not(tmp_path: Path) -> None:
    supplier = CountedSupplier("s", False, 100_000, 10, 60_000, time_first=True)
    made = opened(Stores.window_store_builder(supplier, STRING, STRING), tmp_path)
    for number in range(1000):
        made.store.put(f"{number % 10}", "v", number * 10)
    made.commit()
    body = made.store.rows.body
    body.scanned = 0
    closed = [row[:2] for row in made.store.fetch_all_pairs(5000, 5010)]
    assert closed == [("0", 5000), ("1", 5010)]
    assert body.scanned == 2


def test_a_store_goes_back_to_the_last_commit_and_closes_without_a_look_at_its_rows(tmp_path: Path) -> None:
    supplier = CountedSupplier("s", False, 50_000, 10, 20_000)
    made = opened(Stores.window_store_builder(supplier, STRING, STRING), tmp_path)
    for start in range(0, 100_000, 1000):
        made.store.put("k", "v", start)
    made.commit()
    made.store.put("k", "lost", 200_000)
    made.store.seal()
    body = made.store.rows.body
    body.scanned = 0
    made.store.drop_uncommitted()
    assert body.scanned == 0
    assert [key.window.start for key, _ in made.store.all()] == list(range(50_000, 100_000, 1000))
    made.store.put("k", "v", 200_000)
    made.commit()
    assert len(list(body.scan(None, None, reverse=False))) == 2, "the new row, and the store's own"
    made.store.close()


def test_a_supplier_of_ones_own_brings_its_body(tmp_path: Path) -> None:
    made = opened(Stores.window_store_builder(OwnSupplier(), STRING, STRING), tmp_path)
    made.store.put("k", "v", 5)
    made.commit()
    assert isinstance(made.store.rows.body, OwnBody)
    assert made.store.name == "mine"
    assert made.store.fetch("k", 5) == "v"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Stores.persistent_window_store("s", -1, 0), "retention must not be negative"),
        (lambda: Stores.persistent_window_store("s", 10, -1), "window_size must not be negative"),
        (lambda: Stores.in_memory_window_store("s", 9, 10), "less than the window size"),
        (lambda: Stores.in_memory_session_store("s", -1), "retention must not be negative"),
        (lambda: Stores.persistent_versioned_key_value_store("s", -1), "history_retention must not be negative"),
        (lambda: Stores.persistent_versioned_key_value_store("s", 10, 0), "segment_interval must be at least 1 ms"),
        (lambda: Stores.lru_map("s", -1), "max_entries must not be negative"),
    ],
)
def test_lengths_of_time_are_checked(make: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()


def test_names_are_checked() -> None:
    with pytest.raises(TopologyException):
        Stores.persistent_session_store("a b", 10)


@pytest.mark.parametrize(
    ("history", "interval"),
    [(0, 2000), (60_000, 20_000), (60_001, 20_000), (300_000, 60_000), (3_600_000, 300_000), (86_400_000, 3_600_000)],
)
def test_segments_of_versioned_stores(history: int, interval: int) -> None:
    assert Stores.persistent_versioned_key_value_store("s", history).segment_interval_ms == interval


def test_versioned_stores_are_never_cached_and_stores_of_duplicates_neither(
    caplog: pytest.LogCaptureFixture,
) -> None:
    versioned = Stores.versioned_key_value_store_builder(
        Stores.persistent_versioned_key_value_store("v", 10), STRING, STRING
    )
    with pytest.raises(IllegalStateException, match="not cached"):
        versioned.with_caching_enabled()
    assert not window_builder(retain_duplicates=True).with_caching_enabled().caching
    assert "keeps duplicates" in caplog.text


def test_changelog_settings_follow_from_retention() -> None:
    assert window_builder(retention=100).changelog_times(5) == {"retention.ms": "105"}
    assert window_builder(retention=2**63 - 1).changelog_times(5) == {"retention.ms": str(2**63 - 1)}
    versioned = Stores.versioned_key_value_store_builder(
        Stores.persistent_versioned_key_value_store("v", 10), STRING, STRING
    )
    assert versioned.changelog_times(5) == {"min.compaction.lag.ms": "86400010"}
    sessions = Stores.session_store_builder(Stores.in_memory_session_store("s", 7), STRING, STRING)
    assert (sessions.cleanup_policy, sessions.changelog_times(1)) == ("compact,delete", {"retention.ms": "8"})


def test_a_window_cannot_begin_before_the_epoch(tmp_path: Path) -> None:
    made = opened(window_builder(False), tmp_path)
    with pytest.raises(ValueError, match="before 0"):
        made.store.put("k", "v", -1)
    assert made.store.fetch("k", -1) is None
    assert list(made.store.fetch("k", -10, -1)) == []
    assert made.log == []
