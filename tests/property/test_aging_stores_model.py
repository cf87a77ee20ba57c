"""Window, session and versioned stores against plain dicts, through writes, reads, expiry, commits, crashes, restores.

As in ``test_store_model`` there is what is visible and what is committed. Beside rows the model keeps the greatest time
written (observed stream time), by which rows expire. What a cache shows longer than the store below would is left out
of the comparison: it depends on when rows were evicted.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from unit.state.harness import store_context

from headrace.api.engine import RecordContext
from headrace.api.windows import MAX_TIMESTAMP, SessionWindow, Windowed
from headrace.serdes import JsonSerde, Serdes
from headrace.state.builders import (
    SessionStoreBuilder,
    TimestampedWindowStoreBuilder,
    TimestampedWindowStoreWithHeadersBuilder,
    VersionedKeyValueStoreBuilder,
    WindowStoreBuilder,
)
from headrace.state.cache import CacheBudget
from headrace.state.suppliers import SessionSupplier, VersionedSupplier, WindowSupplier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.records import Headers, RawRecord
    from headrace.state.builders import StoreBuilder

RETENTION, INTERVAL = 50, 20
KEYS = st.sampled_from([b"", b"a", b"a\x00", b"a\x00\x00\x00\x00", b"ab", b"b", b"\xff"])
BOUNDS = st.none() | KEYS
TIMES = st.integers(0, 24).map(lambda number: number * 5)
FEW_KEYS = st.sampled_from([b"a", b"a\x00\x00"])
FEW_TIMES = st.integers(0, 8).map(lambda number: number * 11)
FROM = st.just(0) | TIMES
LENGTHS = st.integers(0, 6).map(lambda number: number * 5)
VALUES = st.none() | st.lists(st.integers(0, 3), max_size=2)


@dataclass
class Model:
    """Rows and observed stream time."""

    rows: dict[Any, Any] = field(default_factory=lambda: dict[Any, Any]())
    observed: int = -1
    ends: set[tuple[bytes, int]] = field(default_factory=set[tuple[bytes, int]])
    """Of versioned stores: where keys were given an end."""

    def copy(self) -> Model:
        return Model(dict(self.rows), self.observed, set(self.ends))


class AgingMachine(RuleBasedStateMachine):
    """Opens, commits and loses a store; subclasses write and read it."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="headrace-aging-"))
        self.record = RecordContext()
        self.visible, self.committed = Model(), Model()
        self.sealed: Model | None = None
        self.log: list[RawRecord] = []
        self.log_committed = self.log_sealed = 0
        self.dropped: list[str] = []
        self.store: Any = None
        self.builder: StoreBuilder[Any, Any]
        self.cache_bytes: int | None = None

    def make(self) -> None:
        budget = None if self.cache_bytes is None else CacheBudget(self.cache_bytes)
        context = store_context(self.record, self._write_log, budget, self.dropped.append, self.directory / "store")
        self.store = self.builder.build(context)

    @property
    def persistent(self) -> bool:
        return self.builder.supplier.persistent

    @property
    def oldest(self) -> int:
        return max(0, self.visible.observed - RETENTION + 1)

    def _write_log(self, key: bytes, value: bytes | None, timestamp: int | None, headers: Headers | None) -> None:
        assert timestamp is not None
        self.log.append((len(self.log), timestamp, key, value, headers))

    def at(self, timestamp: int) -> None:
        self.record.timestamp = timestamp

    def keeps(self, time: int) -> bool:
        """Follow a write's time; returns whether the store keeps the row."""
        model = self.visible
        model.observed = max(model.observed, time)
        if self.persistent:
            return time // INTERVAL >= max(0, model.observed - RETENTION) // INTERVAL
        return time > model.observed - RETENTION

    def shown(self, found: Iterable[Any], time: Callable[[Any], int]) -> list[Any]:
        """What was found, without what only a cache still has."""
        rows = list(found)
        fresh = [row for row in rows if time(row) >= self.oldest]
        assert self.cache_bytes is not None or fresh == rows, "an expired row was shown"
        return fresh

    @rule()
    def flush(self) -> None:
        self.store.flush()

    @precondition(lambda self: self.sealed is None)
    @rule()
    def seal(self) -> None:
        self.store.flush()
        self.store.seal()
        self.sealed, self.log_sealed = self.visible.copy(), len(self.log)

    @precondition(lambda self: self.sealed is None)
    @rule()
    def commit(self) -> None:
        self.seal()
        self.apply()

    @precondition(lambda self: self.sealed is not None)
    @rule()
    def apply(self) -> None:
        self.store.rows.apply(self.log_sealed)
        assert self.sealed is not None
        self.committed, self.log_committed, self.sealed = self.sealed, self.log_sealed, None
        self.check_body()

    @rule()
    def drop(self) -> None:
        self.store.drop_uncommitted()
        self._lose()

    @rule(after_commit=st.booleans(), halves=st.booleans())
    def crash(self, after_commit: bool, halves: bool) -> None:
        if after_commit:
            self.store.flush()
            self.store.seal()
            self.committed, self.log_committed = self.visible.copy(), len(self.log)
        self._lose()
        self.store.rows.body.close()
        self.make()
        start = self.store.rows.body.offset() or 0
        assert start <= self.log_committed
        records = self.log[start : self.log_committed]
        middle = len(records) // 2 if halves else len(records)
        for part, end in ((records[:middle], start + middle), (records[middle:], self.log_committed)):
            self.store.restore(part, end)
        self.check_body()
        self.check_rows()

    def check_rows(self) -> None:
        """Everything that is visible."""
        raise NotImplementedError

    def _lose(self) -> None:
        self.visible, self.sealed = self.committed.copy(), None
        del self.log[self.log_committed :]

    def check_body(self) -> None:
        """Segments that have gone are gone from the body too."""
        first = max(0, self.committed.observed - RETENTION) // INTERVAL
        rows = self.store.rows.body.scan(None, first.to_bytes(8, "big"), reverse=False)
        assert list(rows) == []

    def teardown(self) -> None:
        if self.store is not None:
            self.store.close()
        shutil.rmtree(self.directory, ignore_errors=True)


class WindowMachine(AgingMachine):
    @property
    def oldest(self) -> int:
        longer = self.time_first and self.persistent
        return max(0, self.visible.observed - RETENTION + (0 if longer else 1))

    KINDS = (WindowStoreBuilder, TimestampedWindowStoreBuilder, TimestampedWindowStoreWithHeadersBuilder)

    @initialize(
        kind=st.sampled_from(KINDS),
        persistent=st.booleans(),
        time_first=st.booleans(),
        cache=st.sampled_from((None, 1 << 20, 700)),
    )
    def open(self, kind: Any, persistent: bool, time_first: bool, cache: int | None) -> None:
        supplier = WindowSupplier(
            "s", persistent, RETENTION, 10, INTERVAL, timestamped=kind is not WindowStoreBuilder, time_first=time_first
        )
        self.builder = kind(supplier, Serdes.Bytes(), JsonSerde(list[int]), caching=cache is not None)
        self.cache_bytes = cache
        self.time_first, self.by_time = time_first, time_first or not persistent
        self.make()

    @rule(writes=st.lists(st.tuples(KEYS, TIMES, VALUES, TIMES), min_size=1, max_size=12), commit=st.booleans())
    def puts(self, writes: list[tuple[bytes, int, list[int] | None, int]], commit: bool) -> None:
        for write in writes:
            self.put(*write)
        if commit and self.sealed is None:
            self.commit()

    def put(self, key: bytes, start: int, value: list[int] | None, timestamp: int) -> None:
        self.at(timestamp)
        dropped = len(self.dropped)
        self.store.put_pair(key, value, start, timestamp, None)
        if self.keeps(start):
            self.visible.rows[key, start] = None if value is None else list(value)
        elif self.cache_bytes is None:
            assert len(self.dropped) == dropped + 1
        if value is not None:
            value.append(9)

    def _rows(self, low: bytes | None, high: bytes | None, first: int, last: int) -> list[Any]:
        first = max(first, self.oldest)
        found = [
            (key, start, value)
            for (key, start), value in self.visible.rows.items()
            if value is not None
            and first <= start <= last
            and (low is None or key >= low)
            and (high is None or key <= high)
        ]
        if self.by_time:
            return sorted(found, key=lambda row: (row[1], row[0]))
        return sorted(found, key=lambda row: (row[1] // INTERVAL, row[0] + row[1].to_bytes(8, "big")))

    @rule(key=KEYS, start=TIMES)
    def get(self, key: bytes, start: int) -> None:
        if start >= self.oldest:
            row = self.store.get_pair(key, start)
            assert (None if row is None else row[0]) == self.visible.rows.get((key, start))
        elif self.cache_bytes is None:
            assert self.store.get_pair(key, start) is None

    @rule(key=KEYS, first=FROM, last=TIMES)
    def of_a_key(self, key: bytes, first: int, last: int) -> None:
        wanted = [row[1:] for row in self._rows(key, key, first, last)]
        rows = [row[:2] for row in self.store.fetch_pairs(key, first, last)]
        assert self.shown(rows, lambda row: row[0]) == wanted
        public = [start for start, _ in self.store.fetch(key, first, last)]
        assert self.shown(public, lambda start: start) == [start for start, _ in wanted]
        backward = [start for start, _ in self.store.backward_fetch(key, first, last)]
        assert self.shown(backward, lambda start: start) == [start for start, _ in reversed(wanted)]

    @rule(low=BOUNDS, high=BOUNDS, first=FROM, last=TIMES)
    def of_keys(self, low: bytes | None, high: bytes | None, first: int, last: int) -> None:
        empty = low is not None and high is not None and low > high
        wanted = [] if empty else [row[:2] for row in self._rows(low, high, first, last)]
        args = (low, high, first, last)
        for found, rows in (
            (self.store.fetch_range(*args), wanted),
            (self.store.backward_fetch_range(*args), wanted[::-1]),
        ):
            seen = [(key.key, key.window.start) for key, _ in found]
            assert self.shown(seen, lambda row: row[1]) == rows

    def check_rows(self) -> None:
        self._check_time(0, MAX_TIMESTAMP)

    @rule(first=FROM, last=TIMES)
    def in_time(self, first: int, last: int) -> None:
        self._check_time(first, last)

    def _check_time(self, first: int, last: int) -> None:
        wanted = self._rows(None, None, first, last)
        rows = [(key, start, value) for key, start, value, *_ in self.store.fetch_all_pairs(first, last)]
        assert self.shown(rows, lambda row: row[1]) == wanted
        backward = [(key.key, key.window.start) for key, _ in self.store.backward_fetch_all(first, last)]
        assert self.shown(backward, lambda row: row[1]) == [row[:2] for row in reversed(wanted)]


class SessionMachine(AgingMachine):
    @initialize(persistent=st.booleans(), time_first=st.booleans(), cache=st.sampled_from((None, 1 << 20, 700)))
    def open(self, persistent: bool, time_first: bool, cache: int | None) -> None:
        supplier = SessionSupplier("s", persistent, RETENTION, INTERVAL, time_first=time_first)
        self.builder = SessionStoreBuilder(supplier, Serdes.Bytes(), JsonSerde(list[int]), caching=cache is not None)
        self.cache_bytes, self.time_first = cache, time_first
        self.make()

    @rule(
        writes=st.lists(st.tuples(KEYS, TIMES, LENGTHS, VALUES, TIMES), min_size=1, max_size=12), commit=st.booleans()
    )
    def puts(self, writes: list[tuple[bytes, int, int, list[int] | None, int]], commit: bool) -> None:
        for write in writes:
            self.put(*write)
        if commit and self.sealed is None:
            self.commit()

    def put(self, key: bytes, start: int, length: int, value: list[int] | None, timestamp: int) -> None:
        self.at(timestamp)
        self.store.put(Windowed(key, SessionWindow(start, start + length)), value)
        if self.keeps(start + length):
            self.visible.rows[key, start, start + length] = None if value is None else list(value)

    def _order(self, row: Any) -> Any:
        (key, start, end), _ = row
        if not self.persistent:
            return end, key, -start
        return end // INTERVAL, key + end.to_bytes(8, "big") + start.to_bytes(8, "big")

    def _rows(self, keep: Callable[[bytes, int, int], bool]) -> list[Any]:
        rows = self.visible.rows.items()
        found = [row for row in rows if row[1] is not None and row[0][2] >= self.oldest and keep(*row[0])]
        return sorted(found, key=self._order)

    def _seen(self, found: Iterable[Any]) -> list[Any]:
        rows = [((key.key, key.window.start, key.window.end), value) for key, value in found]
        return self.shown(rows, lambda row: row[0][2])

    @rule(key=KEYS, earliest_end=FROM, latest_start=TIMES)
    def of_a_key(self, key: bytes, earliest_end: int, latest_start: int) -> None:
        wanted = self._rows(lambda k, start, end: k == key and end >= earliest_end and start <= latest_start)
        args = (key, earliest_end, latest_start)
        assert self._seen(self.store.find_sessions(*args)) == wanted
        assert self._seen(self.store.backward_find_sessions(*args)) == wanted[::-1]
        pairs = [((key, start, end), value) for start, end, value, *_ in self.store.find_pairs(*args)]
        assert self.shown(pairs, lambda row: row[0][2]) == wanted

    @rule(low=BOUNDS, high=BOUNDS, earliest_end=FROM, latest_start=TIMES)
    def of_keys(self, low: bytes | None, high: bytes | None, earliest_end: int, latest_start: int) -> None:
        wanted = self._rows(
            lambda key, start, end: (
                (low is None or key >= low)
                and (high is None or key <= high)
                and end >= earliest_end
                and start <= latest_start
            )
        )
        args = (low, high, earliest_end, latest_start)
        assert self._seen(self.store.find_sessions_range(*args)) == wanted
        assert self._seen(self.store.backward_find_sessions_range(*args)) == wanted[::-1]

    @rule(key=KEYS)
    def single_sessions(self, key: bytes) -> None:
        for (owner, start, end), value in self.visible.rows.items():
            if owner == key and end >= self.oldest:
                assert self.store.fetch_session(key, start, end) == value

    def check_rows(self) -> None:
        self._check_time(0, MAX_TIMESTAMP)

    @rule(first=FROM, last=TIMES)
    def in_time(self, first: int, last: int) -> None:
        self._check_time(first, last)

    def _check_time(self, first: int, last: int) -> None:
        wanted = self._rows(lambda key, start, end: first <= end <= last)
        found = [
            ((key.key, key.window.start, key.window.end), value)
            for key, value in self.store.find_all_sessions(first, last)
        ]
        if self.time_first and self.persistent:
            # the index goes on showing what has expired while its segment is there
            wanted.sort(key=lambda row: (row[0][2], row[0][1], row[0][0]))
            found = [row for row in found if row[0][2] >= self.oldest]
        assert self.shown(found, lambda row: row[0][2]) == wanted


class VersionedMachine(AgingMachine):
    """The model's rows are, by key, the value from each timestamp on (None: no value)."""

    @initialize()
    def open(self) -> None:
        supplier = VersionedSupplier("s", RETENTION, INTERVAL)
        self.builder = VersionedKeyValueStoreBuilder(supplier, Serdes.Bytes(), JsonSerde(list[int]))
        self.make()

    @rule(writes=st.lists(st.tuples(FEW_KEYS, FEW_TIMES, VALUES), min_size=1, max_size=12), commit=st.booleans())
    def puts(self, writes: list[tuple[bytes, int, list[int] | None]], commit: bool) -> None:
        for write in writes:
            self.put(*write)
        if commit and self.sealed is None:
            self.commit()

    def put(self, key: bytes, timestamp: int, value: list[int] | None) -> None:
        self.at(timestamp)
        model = self.visible
        if value is None and not self._forgets(key, timestamp):
            return
        returned = self.store.put(key, value, timestamp)
        if timestamp < model.observed - RETENTION:
            assert returned == self.store.NOT_PUT
            return
        model.observed = max(model.observed, timestamp)
        later = [time for owner, time in model.rows if owner == key and time > timestamp]
        assert returned == min(later, default=self.store.VALID_TO_UNDEFINED)
        self._set(key, timestamp, None if value is None else list(value))
        if value is not None:
            value.append(9)

    def _before(self, key: bytes, timestamp: int) -> list[Any]:
        """The versions before a time, when the one at it is the latest; else nothing."""
        times = sorted(time for owner, time in self.visible.rows if owner == key)
        if not times or times[-1] != timestamp or self.visible.rows[key, timestamp] is None:
            return []
        return [(time, self.visible.rows[key, time]) for time in times[:-1]] or [None]

    def _forgets(self, key: bytes, timestamp: int) -> bool:
        """Whether the model knows what a deletion at this time does: not of the latest after a gap."""
        before = self._before(key, timestamp)
        return not before or before == [None] or before[-1][1] is not None

    def _set(self, key: bytes, timestamp: int, value: Any) -> None:
        model = self.visible
        if value is None and self._before(key, timestamp) == [None] and (key, timestamp) not in model.ends:
            # the only version, deleted at its own time, leaves no trace
            del model.rows[key, timestamp]
        else:
            model.rows[key, timestamp] = value
            if value is None:
                # stays below whatever is put there later: deleted again, that leaves this
                model.ends.add((key, timestamp))

    def _as_of(self, key: bytes, timestamp: int) -> Any:
        versions = sorted((time, value) for (owner, time), value in self.visible.rows.items() if owner == key)
        valid = [(time, value) for time, value in versions if time <= timestamp]
        later = [time for time, _ in versions if time > timestamp]
        if not valid or valid[-1][1] is None:
            return None
        if later and timestamp < self.visible.observed - RETENTION:
            return None
        return (valid[-1][1], valid[-1][0], min(later, default=None))

    @rule(key=FEW_KEYS, timestamp=FEW_TIMES)
    def get(self, key: bytes, timestamp: int) -> None:
        assert self.store.get(key) == self._as_of(key, MAX_TIMESTAMP)
        assert self.store.get(key, timestamp) == self._as_of(key, timestamp)

    def check_rows(self) -> None:
        for key, timestamp in self.visible.rows:
            assert self.store.get(key, timestamp) == self._as_of(key, timestamp)

    @rule(key=FEW_KEYS, timestamp=FEW_TIMES)
    def delete(self, key: bytes, timestamp: int) -> None:
        if not self._forgets(key, timestamp):
            return
        self.at(timestamp)
        model = self.visible
        late = timestamp < model.observed - RETENTION
        wanted = None if late else self._as_of(key, timestamp)
        assert self.store.delete(key, timestamp) == wanted
        if not late:
            model.observed = max(model.observed, timestamp)
            self._set(key, timestamp, None)


STEPS = settings(max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck))
WindowMachine.TestCase.settings = SessionMachine.TestCase.settings = VersionedMachine.TestCase.settings = STEPS
TestWindowStores = WindowMachine.TestCase
TestSessionStores = SessionMachine.TestCase
TestVersionedStores = VersionedMachine.TestCase
