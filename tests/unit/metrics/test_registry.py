"""What is registered can be read until its owner goes, and has Java's name."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from headrace.metrics import CATALOG, MetricName, MetricsRegistry, RecordingLevel
from headrace.metrics.catalog import TASK, THREAD
from headrace.metrics.docs import metric_tables

ROOT = Path(__file__).parents[3]
JAVA = {
    (row["group"], row["name"]): set(row["tags"])
    for row in json.loads((ROOT / "conformance" / "metrics.json").read_text("utf-8"))
}
PAGE = (ROOT / "docs" / "metrics.md").read_text("utf-8")


def test_metrics_go_with_their_owner() -> None:
    registry = MetricsRegistry(lambda: 0.0)
    kept, going = registry.scope(), registry.scope()
    kept.add(THREAD, "state", ("a",), lambda: "RUNNING")
    going.add(THREAD, "state", ("b",), lambda: "DEAD")
    going.close()
    assert [(n.name, n.tags, m.metric_value()) for n, m in registry.read().items()] == [
        ("state", {"thread-id": "a"}, "RUNNING")
    ]


def test_a_successor_of_the_same_name_stays_when_its_predecessor_goes() -> None:
    registry = MetricsRegistry(lambda: 0.0)
    first, second = registry.scope(), registry.scope()
    first.add(THREAD, "state", ("a",), lambda: "DEAD")
    second.add(THREAD, "state", ("a",), lambda: "STARTING")
    first.close()
    assert [metric.metric_value() for metric in registry.read().values()] == ["STARTING"]


def test_a_metric_is_found_by_name_group_and_tags() -> None:
    registry = MetricsRegistry(lambda: 0.0)
    registry.scope().add(TASK, "restore-remaining-records-total", ("t", "0_1"), lambda: 7)
    wanted = MetricName("restore-remaining-records-total", TASK, "", {"task-id": "0_1", "thread-id": "t"})
    assert registry.read()[wanted].metric_value() == 7


def test_what_is_above_the_level_is_not_there() -> None:
    for level, names in ((RecordingLevel.INFO, 0), (RecordingLevel.DEBUG, 1)):
        registry = MetricsRegistry(lambda: 0.0, level)
        registry.scope().add(TASK, "active-buffer-count", ("t", "0_1"), lambda: 7)
        assert len(registry.read()) == names


def test_a_metric_without_a_row_is_an_error() -> None:
    with pytest.raises(KeyError):
        MetricsRegistry(lambda: 0.0).scope().add(TASK, "no-such-metric", ("t", "0_1"), lambda: 7)


def test_every_metric_of_a_java_group_has_javas_name_and_tags() -> None:
    ours = {key: set(row.tags) for key, row in CATALOG.items() if row.group.startswith("stream-")}
    assert ours == {key: JAVA.get(key) for key in ours}


def test_groups_of_our_own_are_told_apart() -> None:
    assert {group for group, _ in CATALOG if not group.startswith("stream-")} == {
        "headrace-task-metrics",
        "headrace-thread-metrics",
    }


def test_every_metric_is_documented() -> None:
    assert metric_tables() in PAGE, "run: python -m headrace.metrics.docs, and put its tables into docs/metrics.md"


def test_what_java_has_beyond_these_is_documented() -> None:
    table = PAGE[PAGE.index("## What the Java library has beyond these") :]
    told = {
        (group, name)
        for group, names in re.findall(r"^\| `(stream-[a-z-]+)` \| ([^|]+) \|", table, re.MULTILINE)
        for name in re.findall(r"`([^`]+)`", names)
    }
    assert told == JAVA.keys() - CATALOG.keys()
