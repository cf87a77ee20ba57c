"""Every kind of store against a plain dict, through writes, reads, commits that succeed or fail, and crashes.

The model has two states: what is visible (every write) and what is committed (what a commit made final). A crash loses
whatever is not committed; the body is opened again and restored from the changelog behind the offset it reflects, and
then both states must be the committed one.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from unit.state.harness import store_context

from headrace.api.engine import RecordContext
from headrace.serdes import JsonSerde, Serdes
from headrace.state.body import prefix_end
from headrace.state.buffer import BufferedStore
from headrace.state.cache import CacheBudget
from headrace.state.formats import PLAIN, TIMESTAMPED
from headrace.state.keyvalue import KeyValueStore, TimestampedKeyValueStore, ValueAndTimestamp
from headrace.state.memory import InMemoryBody
from headrace.state.rocksdb import RocksDBBody

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.api.stores import KeyValueBody

Row = tuple[bytes, "bytes | None", int]

KEYS = st.sampled_from(
    [b"", b"\x00", b"a", b"a\x00", b"a\xff", b"ab", b"b", b"\x7f", b"\x80", b"\xff", b"\xff\x00", b"\xff\xff"]
)
BOUNDS = st.none() | KEYS
VALUES = st.integers(0, 5)
TIMES = st.integers(0, 1000)

BODIES = ("rocksdb", "memory")
CACHES = (None, 1 << 20, 700, 1)
KINDS = ("plain", "timestamped", "plain_body")


class StoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="headrace-model-"))
        self.record = RecordContext()
        self.visible: dict[bytes, tuple[list[int], int]] = {}
        self.committed: dict[bytes, tuple[list[int], int]] = {}
        self.sealed: dict[bytes, tuple[list[int], int]] | None = None
        self.log: list[Row] = []
        self.dropped: list[str] = []
        self.log_committed = 0
        self.log_sealed = 0
        self.store: Any = None

    @initialize(body=st.sampled_from(BODIES), cache=st.sampled_from(CACHES), kind=st.sampled_from(KINDS))
    def open(self, body: str, cache: int | None, kind: str) -> None:
        self.body_kind, self.cache_bytes, self.kind = body, cache, kind
        self._make()

    def _make(self) -> None:
        path = self.directory / "store"
        body: KeyValueBody = RocksDBBody(path) if self.body_kind == "rocksdb" else InMemoryBody()
        self.rows = BufferedStore("s", body, self._write_log)
        self.budget = None if self.cache_bytes is None else CacheBudget(self.cache_bytes)
        # a mutable type: what users change in place must not come back
        serde: JsonSerde[list[int]] = JsonSerde(list[int])
        context = store_context(self.record, self._write_log, self.budget, self.dropped.append)
        caching = self.budget is not None
        if self.kind == "plain":
            self.store = KeyValueStore(self.rows, Serdes.Bytes(), serde, context, caching=caching)
        else:
            row_format = PLAIN if self.kind == "plain_body" else TIMESTAMPED
            self.store = TimestampedKeyValueStore(
                self.rows, Serdes.Bytes(), serde, row_format, context, caching=caching
            )

    def _write_log(self, key: bytes, value: bytes | None, timestamp: int | None, headers: object) -> None:
        assert timestamp is not None
        self.log.append((key, value, timestamp))

    def _seen(self, row: Any) -> Any:
        """A row as far as this kind of store can tell it (a plain body forgets times)."""
        return row if self.kind != "plain_body" or row is None else row[0]

    def _of_store(self, row: Any) -> Any:
        if row is None:
            return None
        return row if self.kind == "plain" else self._seen((row.value, row.timestamp))

    def _of_model(self, row: Any) -> Any:
        if row is None:
            return None
        return row[0] if self.kind == "plain" else self._seen(row)

    def _value(self, value: list[int], timestamp: int) -> Any:
        return value if self.kind == "plain" else ValueAndTimestamp(value, timestamp)

    # writes

    @rule(key=KEYS, number=VALUES, timestamp=TIMES)
    def put(self, key: bytes, number: int, timestamp: int) -> None:
        self.record.timestamp = timestamp
        value = [number]
        self.store.put(key, self._value(value, timestamp))
        value.append(99)
        self.visible[key] = ([number], timestamp)

    @rule(key=KEYS, number=VALUES, timestamp=TIMES)
    def put_if_absent(self, key: bytes, number: int, timestamp: int) -> None:
        self.record.timestamp = timestamp
        found = self.store.put_if_absent(key, self._value([number], timestamp))
        assert self._of_store(found) == self._of_model(self.visible.get(key))
        self.visible.setdefault(key, ([number], timestamp))

    @rule(keys=st.lists(KEYS, max_size=4), number=VALUES, timestamp=TIMES)
    def put_all(self, keys: list[bytes], number: int, timestamp: int) -> None:
        self.record.timestamp = timestamp
        self.store.put_all([(key, self._value([number], timestamp)) for key in keys])
        self.visible.update({key: ([number], timestamp) for key in keys})

    @rule(key=KEYS, timestamp=TIMES)
    def delete(self, key: bytes, timestamp: int) -> None:
        self.record.timestamp = timestamp
        assert self._of_store(self.store.delete(key)) == self._of_model(self.visible.pop(key, None))

    # reads

    @rule(key=KEYS)
    def get(self, key: bytes) -> None:
        found = self.store.get(key)
        assert self._of_store(found) == self._of_model(self.visible.get(key))
        if found is not None:
            (found if self.kind == "plain" else found.value).append(99)

    @rule(low=BOUNDS, high=BOUNDS)
    def ranges(self, low: bytes | None, high: bytes | None) -> None:
        expected = [
            (key, self._of_model(row))
            for key, row in sorted(self.visible.items())
            if (low is None or key >= low) and (high is None or key <= high)
        ]
        assert self._listed(self.store.range(low, high)) == expected
        assert self._listed(self.store.reverse_range(low, high)) == expected[::-1]

    @rule(prefix=KEYS)
    def prefix(self, prefix: bytes) -> None:
        expected = [(key, self._of_model(row)) for key, row in sorted(self.visible.items()) if key.startswith(prefix)]
        assert self._listed(self.store.prefix_scan(prefix, Serdes.Bytes().serializer)) == expected

    @rule()
    def delete_while_iterating(self) -> None:
        seen = []
        for key, _ in self.store.all():
            seen.append(key)
            self.store.delete(key)
        assert seen == sorted(self.visible)
        self.visible.clear()

    def _listed(self, rows: Iterable[tuple[bytes, Any]]) -> list[tuple[bytes, Any]]:
        return [(key, self._of_store(row)) for key, row in rows]

    # commits

    @rule()
    def flush(self) -> None:
        self.store.flush()

    @precondition(lambda self: self.sealed is None)
    @rule()
    def seal(self) -> None:
        self.store.flush()
        self.rows.seal()
        self.sealed, self.log_sealed = dict(self.visible), len(self.log)

    @precondition(lambda self: self.sealed is not None)
    @rule()
    def apply(self) -> None:
        self.rows.apply(self.log_sealed)
        assert self.sealed is not None
        self.committed, self.log_committed, self.sealed = self.sealed, self.log_sealed, None

    @rule()
    def drop(self) -> None:
        self.store.drop_uncommitted()
        self._lose()

    def _lose(self) -> None:
        self.visible, self.sealed = dict(self.committed), None
        # an aborted transaction: its changelog records are never seen by anybody
        del self.log[self.log_committed :]

    # crashes

    @rule(after_commit=st.booleans())
    def crash(self, after_commit: bool) -> None:
        """The process dies, perhaps when the commit was final and before the body had its rows."""
        if after_commit:
            self.store.flush()
            self.rows.seal()
            self.committed, self.log_committed = dict(self.visible), len(self.log)
        self._lose()
        # the body's files are closed in good order here: nothing uncommitted is in them that a kill would have left out
        # (a real kill is tried in the unit tests of the body)
        self.rows.body.close()
        self._make()
        start = self.rows.body.offset() or 0
        assert start <= self.log_committed
        records = [(0, time, key, value, None) for key, value, time in self.log[start:]]
        middle = len(records) // 2
        self.store.restore(records[:middle], start + middle)
        self.store.restore(records[middle:], self.log_committed)

    # what holds after every step

    @invariant()
    def body_is_never_ahead(self) -> None:
        if self.store is None:
            return
        encode = JsonSerde(list[int]).serializer.bind("t")
        held = dict(self.rows.body.scan(None, None, reverse=False))
        assert held == {
            key: self.store._join(encode(value), time, None) for key, (value, time) in self.committed.items()
        }

    @invariant()
    def cache_memory_is_accounted_for(self) -> None:
        if self.store is None or self.budget is None:
            return
        used = sum(200 + len(key) + len(entry[2] or b"") for key, entry in self.store.cache.entries.items())
        assert self.budget.used_bytes == used
        assert used <= self.budget.max_bytes or not self.store.cache.entries

    def teardown(self) -> None:
        if self.store is not None:
            self.ranges(None, None)
            self.rows.close()
        shutil.rmtree(self.directory, ignore_errors=True)


StoreMachine.TestCase.settings = settings(
    max_examples=120, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestStores = StoreMachine.TestCase


def test_prefix_end_is_the_least_key_above_the_prefix() -> None:
    for prefix in (b"", b"a", b"a\xff", b"\xff", b"\x00", b"a\xfe"):
        end = prefix_end(prefix)
        for key in (prefix, prefix + b"\x00", prefix + b"\xff" * 5):
            assert end is None or key < end
        if end is not None:
            assert not end.startswith(prefix)
