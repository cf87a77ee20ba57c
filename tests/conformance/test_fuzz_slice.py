"""Recorded random cases, and the parts of the fuzzer that need no Java."""

from __future__ import annotations

from typing import Any

import pytest
from fuzz import generate
from fuzz.compare import category, compare, quiet
from fuzz.coverage import Coverage
from fuzz.shrink import shrink
from fuzz.slices import read

from headrace.testing.conformance import Outcome

RECORDED = list(read())


@pytest.mark.parametrize("at", range(len(RECORDED)), ids=[case["description"] for case, _ in RECORDED])
def test_recorded_case(at: int) -> None:
    case, wanted = RECORDED[at]
    with quiet():
        result = compare(case, wanted)
    assert result.outcome is Outcome.PASSED, result.reason


def test_there_are_two_hundred_and_each_is_another() -> None:
    assert len({str(case) for case, _ in RECORDED}) == 200


def test_a_seed_is_a_case() -> None:
    assert generate.case(17) == generate.case(17)
    assert generate.case(17) != generate.case(18)


def test_every_operation_of_the_vocabulary_comes() -> None:
    coverage = Coverage()
    for seed in range(3000):
        coverage.add(generate.case(seed))
    operations = {name.partition(".")[0] for name in coverage.operations}
    assert operations == {
        "stream", "table", "globalTable", "addStateStore", "addGlobalStore", "filter", "filterNot", "mapValues", "map",
        "selectKey", "flatMap", "flatMapValues", "peek", "foreach", "merge", "split", "repartition", "toTable",
        "toStream", "to", "process", "processValues", "transformValues", "groupByKey", "groupBy", "windowedBy", "count",
        "reduce", "aggregate", "cogroup", "suppress", "join", "addSource", "addProcessor", "addSink", "attachStore",
        "connectStores",
    }  # fmt: skip
    joins = {name.split(".", 1)[1] for name in coverage.operations if name.startswith("join.")}
    assert joins >= {
        "stream-table.left", "stream-global.left", "stream-stream.outer", "table-table.outer", "foreign-key.left",
    }  # fmt: skip


def test_a_case_is_made_small() -> None:
    def fails(case: dict[str, Any]) -> str | None:
        upper = any(step.get("fn") == "upper" for step in case["steps"])
        return "output of out3 [0]: b" if upper and any(r.get("value") == "b" for r in case["inputs"]) else None

    case = {
        "description": "seed 1",
        "config": {"statestore.cache.max.bytes": 0},
        "topics": {"in": {"key": "string", "value": "string"}},
        "steps": [
            {"op": "stream", "topic": "in", "named": "N", "as": "a"},
            {"op": "filter", "in": "a", "fn": "always", "as": "b"},
            {"op": "mapValues", "in": "b", "fn": "upper", "named": "M", "as": "c"},
            {"op": "to", "in": "c", "topic": "out"},
        ],
        "inputs": [{"topic": "in", "key": "k", "value": v, "timestamp": 0, "headers": [["h", "1"]]} for v in "abca"],
    }
    small, reason = shrink(case, "output of out4 [7]: b", fails)
    assert reason == "output of out3 [0]: b"
    assert small["config"] == {}
    assert [step["op"] for step in small["steps"]] == ["stream", "mapValues"]
    assert [r["value"] for r in small["inputs"]] == ["b"]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("output of out3 [1] key of {}: 1, but Java has 2", "output of out12 [0] key of {}: 3, but Java has 4", True),
        ("output of out3 [1] key of {}: 1, but Java has 2", "output of out3 [1] value of {}: 1, but Java has 2", False),
        ("at 3: A: x < ValueError: y, but Java goes on", "at 12: B: z < ValueError: q, but Java goes on", True),
        ("at 3: A: x < ValueError: y, but Java goes on", "at 3: A: x < TypeError: y, but Java goes on", False),
    ],
)
def test_differences_of_one_kind(one: str, other: str, same: bool) -> None:
    assert (category(one) == category(other)) is same


def test_a_crash_of_the_runner_is_a_difference() -> None:
    result = compare({"description": "x", "steps": [{"op": "stream", "topic": "t", "as": "a"}]}, {})
    assert result.outcome is Outcome.FAILED
    assert "the runner failed with KeyError" in result.reason
