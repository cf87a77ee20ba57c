"""Joins of two streams against all pairs, for records that come in the order of their times.

In that order nothing is late: the results must be the pairs whose times are close enough, and for a left or outer join
each record without a pair, once.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace import Consumed, JoinWindows, Serdes, StreamJoined, StreamsBuilder
from headrace.api.stores import StoreType
from headrace.testing.driver import TopologyTestDriver

TEXT = Serdes.String()
RECORDS = st.lists(st.tuples(st.sampled_from("lr"), st.sampled_from("ab"), st.integers(0, 8)), max_size=14)


@settings(max_examples=60, deadline=None)
@given(
    steps=RECORDS,
    how=st.sampled_from(["inner", "left", "outer"]),
    before=st.integers(-3, 10),
    after=st.integers(-3, 10),
    grace=st.integers(2, 5),
    single_store=st.booleans(),
)
def test_joins_give_all_pairs(
    steps: list[tuple[str, str, int]], how: str, before: int, after: int, grace: int, single_store: bool
) -> None:
    after = max(after, -before)
    windows = JoinWindows(before, after, grace)
    records: list[tuple[str, str, str, int]] = []
    now = 100  # next to the epoch windows that would begin or end before it are cut off there, as in Java
    for number, (side, key, gap) in enumerate(steps):
        now += gap
        records.append((side, key, f"{side}{number}", now))
    assert _run(records, how, windows) == _model(records, how, windows)
    if how == "inner":
        mine = [("l", *record[1:]) for record in records]
        both = [(side, *record[1:]) for record in records for side in "lr"]
        # over one store a record meets itself whatever the window says, as in Java
        single_store = single_store and min(before, after) >= 0
        assert _run(mine, "self", windows, single_store=single_store) == _model(both, how, windows)


def _model(records: list[tuple[str, str, str, int]], how: str, windows: JoinWindows) -> Counter[tuple[Any, ...]]:
    retention = windows.before_ms + windows.after_ms + windows.grace_ms
    stored: dict[str, list[tuple[str, str, str, int]]] = {"l": [], "r": []}
    pairs: list[tuple[tuple[str, str, str, int], tuple[str, str, str, int]]] = []
    for record in records:
        side = record[0]
        stored[side].append(record)
        others = stored["r" if side == "l" else "l"]
        for other in others:
            one, another = (record, other) if side == "l" else (other, record)
            near = one[3] - windows.before_ms <= another[3] <= one[3] + windows.after_ms
            # a store shows what is younger than its retention, by the newest that it has; where the window lies apart
            # from a record's own time, a row that it would meet may be older than that, as in Java
            if near and one[1] == another[1] and other[3] > others[-1][3] - retention:
                pairs.append((one, another))
    lefts, rights = stored["l"], stored["r"]
    result = Counter((one[1], f"{one[2]}+{other[2]}", max(one[3], other[3])) for one, other in pairs)
    if how in {"left", "outer"}:
        result += Counter((r[1], f"{r[2]}+None", r[3]) for r in lefts if all(r is not one for one, _ in pairs))
    if how == "outer":
        result += Counter((r[1], f"None+{r[2]}", r[3]) for r in rights if all(r is not other for _, other in pairs))
    return result


def _run(
    records: list[tuple[str, str, str, int]], how: str, windows: JoinWindows, *, single_store: bool = False
) -> Counter[tuple[Any, ...]]:
    builder = StreamsBuilder()
    left, right = (builder.stream(topic, Consumed.with_(TEXT, TEXT)) for topic in "lr")
    join: Any = {"inner": left.join, "left": left.left_join, "outer": left.outer_join, "self": left.join}[how]
    options = StreamJoined.with_(TEXT, TEXT, TEXT).with_store_type(StoreType.IN_MEMORY)
    join(left if how == "self" else right, lambda one, other: f"{one}+{other}", windows, options).to("out")
    config = {
        "default.key.serde": TEXT,
        "default.value.serde": TEXT,
        "topology.optimization": "single.store.self.join" if single_store else "none",
    }
    with TopologyTestDriver(builder.build(config), config, 0) as driver:
        for side, key, value, timestamp in records:
            driver.create_input_topic(side, TEXT.serializer, TEXT.serializer).pipe_input(key, value, timestamp)
        # far later records of another key have every window close
        for timestamp in (10_000, 20_000):
            driver.create_input_topic("l", TEXT.serializer, TEXT.serializer).pipe_input("end", "end", timestamp)
        out = driver.create_output_topic("out", TEXT.deserializer, TEXT.deserializer).read_records_to_list()
    return Counter((r.key, r.value, r.timestamp) for r in out if r.key != "end")
