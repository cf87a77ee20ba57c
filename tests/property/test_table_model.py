"""Tables made of tables against plain dicts: whatever changes, restarts and crashes, the last results are right.

Several partitions and instances, caches on and off, source topics as changelogs or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace import Consumed, Grouped, Materialized, Serdes, StreamsBuilder
from headrace.testing import TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace import KTable

TEXT, LONG = Serdes.String(), Serdes.Long()
LEFT_VALUES = st.one_of(st.none(), st.sampled_from(["w1", "w2", "x3", "y4"]))
CHANGES = st.lists(
    st.one_of(
        st.tuples(
            st.just("l"), st.sampled_from("abcd"), st.one_of(st.none(), st.sampled_from(["w1", "w2", "x3", "y4"]))
        ),
        st.tuples(st.just("r"), st.sampled_from("abwxy"), st.one_of(st.none(), st.sampled_from(["R", "S"]))),
        st.tuples(st.sampled_from(["commit", "kill", "restart"]), st.none(), st.none()),
    ),
    max_size=24,
)
Rows = dict[str, str]


def _group(left: KTable[str, str], right: KTable[str, str]) -> KTable[str, int]:
    grouped = left.group_by(lambda key, value: (value[0], int(value[1])), Grouped.with_(TEXT, LONG))
    return grouped.reduce(lambda a, b: a + b, lambda a, b: a - b)


def _group_model(left: Rows, right: Rows) -> dict[str, Any]:
    sums: dict[str, int] = {}
    for value in left.values():
        sums[value[0]] = sums.get(value[0], 0) + int(value[1])
    return sums


def _pair(one: str | None, other: str | None) -> str:
    return f"{one}+{other}"


def _lower(value: str | None) -> str | None:
    return None if value is None else value.lower()


def _inner(left: KTable[str, str], right: KTable[str, str]) -> KTable[str, str]:
    return left.join(right, _pair)


def _left(left: KTable[str, str], right: KTable[str, str]) -> KTable[str, str]:
    return left.filter(lambda key, value: value != "x3").left_join(right.map_values(str.lower), _pair)


def _outer(left: KTable[str, str], right: KTable[str, str]) -> KTable[str, str]:
    return left.outer_join(right, _pair, Materialized.as_("joined").with_key_serde(TEXT).with_value_serde(TEXT))


def _inner_foreign(left: KTable[str, str], right: KTable[str, str]) -> KTable[str, str]:
    return left.join(right, _pair, foreign_key_extractor=lambda value: value[0] if value != "x3" else None)


def _left_foreign(left: KTable[str, str], right: KTable[str, str]) -> KTable[str, str]:
    return left.left_join(right, _pair, foreign_key_extractor=lambda key, value: value[0], with_key=True)


OPERATIONS: dict[str, tuple[Callable[..., KTable[str, Any]], Callable[[Rows, Rows], dict[str, Any]]]] = {
    "group": (_group, _group_model),
    "inner": (_inner, lambda left, right: {k: f"{v}+{right[k]}" for k, v in left.items() if k in right}),
    "left": (
        _left,
        lambda left, right: {
            k: f"{v}+{right[k].lower() if k in right else None}" for k, v in left.items() if v != "x3"
        },
    ),
    "outer": (_outer, lambda left, right: {k: f"{left.get(k)}+{right.get(k)}" for k in left.keys() | right.keys()}),
    "inner_foreign": (
        _inner_foreign,
        lambda left, right: {k: f"{v}+{right[v[0]]}" for k, v in left.items() if v != "x3" and v[0] in right},
    ),
    "left_foreign": (_left_foreign, lambda left, right: {k: f"{v}+{right.get(v[0])}" for k, v in left.items()}),
}


@pytest.mark.parametrize("operation", OPERATIONS)
@settings(max_examples=25, deadline=None)
@given(changes=CHANGES, partitions=st.integers(1, 3), cached=st.sets(st.sampled_from("lr")), optimized=st.booleans())
def test_the_last_results_are_those_of_plain_dicts(
    operation: str,
    changes: list[tuple[str, str | None, str | None]],
    partitions: int,
    cached: set[str],
    optimized: bool,
) -> None:
    make, model = OPERATIONS[operation]
    config = {
        "default.key.serde": TEXT,
        "default.value.serde": TEXT,
        "processing.guarantee": "exactly_once_v2",
        "topology.optimization": "all" if optimized else "none",
    }
    builder = StreamsBuilder()
    kept: Materialized[str, str] = Materialized.with_(TEXT, TEXT)
    stores = {True: kept, False: kept.with_caching_disabled()}
    table = make(*(builder.table(topic, Consumed.with_(TEXT, TEXT), stores[topic in cached]) for topic in "lr"))
    table.to_stream().to("out")
    rows: dict[str, Rows] = {"l": {}, "r": {}}
    with TopologyTestDriver(
        builder.build(config), config, 0, partitions=partitions, instances=2, commit_every_record=False
    ) as driver:
        inputs = {topic: driver.create_input_topic(topic, TEXT.serializer, TEXT.serializer) for topic in "lr"}
        value = LONG if operation == "group" else TEXT
        out = driver.create_output_topic("out", TEXT.deserializer, value.deserializer)
        for what, key, row in changes:
            if what == "commit":
                driver.commit()
            elif what in {"kill", "restart"}:
                name = driver.instances[0]
                driver.kill_instance(name) if what == "kill" else driver.stop_instance(name)
                driver.start_instance(name)
            elif key is not None:
                inputs[what].pipe_input(key, row)
                rows[what].pop(key, None)
                if row is not None:
                    rows[what][key] = row
        for _ in range(8):
            # exactly-once: what one sub-topology writes, the next one reads after the commit
            driver.commit()
        last = out.read_key_values_to_map()
    expected = model(rows["l"], rows["r"])
    if operation == "group":
        # a group that has become empty has the sum 0
        assert {key: total for key, total in last.items() if total} == expected
    else:
        assert {key: result for key, result in last.items() if result is not None} == expected
