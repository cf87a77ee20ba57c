"""The streams group protocol (KIP-1071): the brokers assign; Java and headrace instances share one group."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from cluster.conftest import PROTOCOLS
from cluster.course_revenue.product import Instance, Product, wait_until
from cluster.course_revenue.test_instances import ALL_TASKS, flowing, share

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.course_revenue.java import JavaJob

pytestmark = pytest.mark.streams_protocol

STREAMS_GROUPS = "org.apache.kafka.tools.streams.StreamsGroupCommand"
STREAMS = {"group_protocol": "streams"}


def holds(instance: Instance, count: int) -> None:
    wait_until(lambda: len(instance.tasks()) == count, f"{instance.name} has {count} tasks", detail=instance.tail)


def test_instances_share_what_the_brokers_assign_and_a_killed_ones_tasks_move(
    product: Product, kafka_tools: Callable[..., str]
) -> None:
    product.admin.configure_group(product.application_id, streams_num_standby_replicas=1)
    product.load(3_000)
    watch = product.watch()
    a, b = (product.instance(name, **STREAMS).start() for name in "ab")
    with flowing(product):
        share([a, b])
        for one in (a, b):
            one.wait_log(r"Standby tasks \[?1_\d")
        had = a.tasks()
        starts = {task: a.starts_of(task) for task in had}
        tool = ("--bootstrap-server", product.bootstrap)
        assert product.application_id in kafka_tools(STREAMS_GROUPS, *tool, "--list")
        members = kafka_tools(
            STREAMS_GROUPS, *tool, "--describe", "--group", product.application_id, "--members", "--verbose"
        )
        rows = [line for line in members.splitlines() if line.startswith(product.application_id)]
        assert len(rows) == 2, members
        given = {
            f"{sub}_{number}"
            for row in rows
            for sub, numbers in re.findall(r"(\d+):\[([\d,]+)\]", row)
            for number in numbers.split(",")
        }
        assert given == ALL_TASKS, members
        restored = sum(a.restored().values())
        b.kill()
        wait_until(lambda: a.tasks() == ALL_TASKS, "the tasks of the killed instance move", detail=product.tails)
        assert {task: a.starts_of(task) for task in had} == starts, "a task was interrupted"
        # the changelogs have more than 3,000 records: standby tasks had them
        assert sum(a.restored().values()) - restored < 500, a.tail()
        b.start()
        share([a, b])
        seen = watch.lines
        watch.wait_for(seen + 500, "both go on", product.tails)
    watch.wait_for(product.sums.lines, "every line is counted", product.tails)
    assert watch.latest() == product.sums.totals()
    b.stop()
    wait_until(lambda: a.tasks() == ALL_TASKS, "the tasks of the closed instance move", 5.0, product.tails)
    a.stop()
    assert "lost its membership" not in a.log()


def test_java_and_headrace_instances_share_one_group_and_follow_one_another(
    product: Product, java_job: Callable[..., JavaJob]
) -> None:
    watch = product.watch()
    sent = 0

    def more(what: str, detail: Callable[[], str]) -> None:
        nonlocal sent
        sent += product.load(2_000, seed=sent + 1)
        watch.wait_for(sent, what, detail)

    settings = {**STREAMS, "application_id": product.application_id}
    # Java, then both, then headrace alone
    first = java_job(product, product.topics["output"], **settings)
    more("Java alone", first.tail)
    a = product.instance("a", **STREAMS).start()
    holds(a, 6)
    more("both", product.tails)
    first.stop()
    holds(a, 12)
    more("headrace alone", product.tails)
    # and back, with kills on both sides
    second = java_job(product, product.topics["output"], **settings)
    holds(a, 6)
    more("both again", second.tail)
    a.kill()
    more("Java takes over from a killed instance", second.tail)
    a.start()
    holds(a, 6)
    second.kill()
    holds(a, 12)
    more("headrace takes over from a killed instance", product.tails)
    assert watch.latest() == product.sums.totals()
    a.stop()


def test_the_protocol_may_change_between_two_runs(product: Product) -> None:
    watch = product.watch()
    a = product.instance("a")
    for run, protocol in enumerate(("streams", "classic", "streams"), 1):
        a.start(group_protocol=protocol)
        product.load(500, seed=run)
        watch.wait_for(500 * run, f"run {run}, {protocol}", a.tail)
        a.stop()
    assert watch.latest() == product.sums.totals()


def group_is_empty(product: Product) -> None:
    wait_until(lambda: product.admin.group_state(product.application_id) == "Empty", "the group has no members")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stopped_java_application_is_taken_over_and_given_back(
    product: Product, java_job: Callable[..., JavaJob], protocol: str
) -> None:
    """Under the classic protocol they cannot be members of one group at the same time."""
    watch = product.watch()
    settings = {
        "group_protocol": protocol,
        "application_id": product.application_id,
        "session_timeout_ms": 6_000,
    }
    java = java_job(product, product.topics["output"], **settings)
    product.load(2_000)
    watch.wait_for(2_000, "Java's totals", java.tail)
    if protocol == "classic":
        refused = product.instance("refused", group_protocol=protocol).start()
        assert refused.exit_code() != 0
        assert "members of another kind" in refused.log()
        product.instances.remove(refused)
    java.stop()
    # a Java member of a classic group does not leave when it closes: the group forgets it after its session
    group_is_empty(product)
    a = product.instance("a", group_protocol=protocol).start()
    product.load(2_000, seed=2)
    watch.wait_for(4_000, "headrace goes on", product.tails)
    assert sum(a.restored().values()) > 0
    a.stop()
    group_is_empty(product)
    java = java_job(product, product.topics["output"], **settings)
    product.load(2_000, seed=3)
    watch.wait_for(6_000, "Java goes on", java.tail)
    assert watch.latest() == product.sums.totals()
