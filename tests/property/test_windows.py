"""Sessions and sliding windows against brute force over all records."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st
from unit.engine.harness import Bench

from headrace import (
    Consumed,
    Materialized,
    Serdes,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    Windowed,
)
from headrace.serdes import JsonSerde

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace import KGroupedStream, KTable

_GRACE = 10**6
"""No record is late: what brute force knows nothing of."""

_RECORDS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 60)), max_size=40)
Rows = dict[tuple[str, int, int], list[int]]


def _append(key: str, value: str, seen: list[int]) -> list[int]:
    seen.append(int(value))
    return seen


def _merge(key: str, one: list[int], other: list[int]) -> list[int]:
    return one + other


_LISTS: Materialized[str, list[int]] = Materialized.as_("w").with_value_serde(JsonSerde(list[int]))


def _run(
    records: list[tuple[str, int]],
    make: Callable[[KGroupedStream[str, str]], KTable[Windowed[str], Any]],
    cache_bytes: int,
) -> Rows:
    """The rows that are left; each record's value is its number."""
    builder = StreamsBuilder({"default.dsl.store": "in_memory"})
    text = Serdes.String()
    grouped: KGroupedStream[str, str] = builder.stream("in", Consumed.with_(text, text)).group_by_key()
    make(grouped)
    bench = Bench(builder.build(), cache_bytes=cache_bytes)
    bench.add("in", *((key, str(number), time) for number, (key, time) in enumerate(records)))
    bench.process()
    bench.commit()
    store: Any = bench.task.stores["w"]
    found = store.all() if hasattr(store, "all") else store.fetch_range(None, None)
    rows = {}
    for key, row in found:
        rows[key.key, key.window.start, key.window.end] = sorted(getattr(row, "value", row))
    bench.task.close()
    return rows


@settings(max_examples=150, deadline=None)
@given(_RECORDS, st.integers(0, 15), st.sampled_from([0, 1 << 20]))
def test_sessions_are_the_runs_of_records_without_a_greater_gap(
    records: list[tuple[str, int]], gap: int, cache_bytes: int
) -> None:
    windows = SessionWindows.of_inactivity_gap_and_grace(gap, _GRACE)
    rows = _run(
        records, lambda grouped: grouped.windowed_by(windows).aggregate(list[int], _append, _merge, _LISTS), cache_bytes
    )
    wanted: Rows = {}
    for key in "ab":
        run: list[tuple[int, int]] = []
        for time, number in sorted((time, number) for number, (k, time) in enumerate(records) if k == key):
            if run and time - run[-1][0] > gap:
                wanted[key, run[0][0], run[-1][0]] = sorted(n for _, n in run)
                run = []
            run.append((time, number))
        if run:
            wanted[key, run[0][0], run[-1][0]] = sorted(n for _, n in run)
    assert rows == wanted


@settings(max_examples=150, deadline=None)
@given(_RECORDS, st.integers(1, 20), st.sampled_from([0, 1 << 20]))
def test_sliding_windows_are_all_that_begin_or_end_with_a_record(
    records: list[tuple[str, int]], difference: int, cache_bytes: int
) -> None:
    windows = SlidingWindows.of_time_difference_and_grace(difference, _GRACE)
    rows = _run(
        records, lambda grouped: grouped.windowed_by(windows).aggregate(list[int], _append, _LISTS), cache_bytes
    )
    wanted: Rows = {}
    for key in "ab":
        times = {time for k, time in records if k == key}
        # one ends with each record (or is the first window of time), one starts just after each
        starts = {max(time - difference, 0) for time in times} | {time + 1 for time in times}
        for start in starts:
            inside = sorted(
                number for number, (k, time) in enumerate(records) if k == key and start <= time <= start + difference
            )
            if inside:
                wanted[key, start, start + difference] = inside
    assert rows == wanted


@settings(max_examples=100, deadline=None)
@given(_RECORDS, st.integers(1, 20), st.integers(1, 20), st.sampled_from([0, 1 << 20]))
def test_hopping_windows_hold_what_lies_in_them(
    records: list[tuple[str, int]], size: int, advance: int, cache_bytes: int
) -> None:
    advance = min(size, advance)
    windows = TimeWindows.of_size_and_grace(size, _GRACE).advance_by(advance)
    rows = _run(
        records, lambda grouped: grouped.windowed_by(windows).aggregate(list[int], _append, _LISTS), cache_bytes
    )
    wanted: dict[tuple[str, int, int], list[int]] = defaultdict(list)
    for number, (key, time) in enumerate(records):
        for start in range(0, time + 1, advance):
            if time < start + size:
                wanted[key, start, start + size].append(number)
    assert rows == wanted
