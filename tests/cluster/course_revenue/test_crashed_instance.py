"""An instance that crashed and is started again at once: it waits for nothing that the dead one left to run out."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from cluster.conftest import PROTOCOLS
from cluster.course_revenue.product import Instance, Product, encode, wait_until
from cluster.course_revenue.test_instances import ALL_TASKS, flowing, share

from headrace.partitioning import partition_for_key
from headrace.testing.cluster import LocalCluster
from headrace.topics import TopicReader

if TYPE_CHECKING:
    from collections.abc import Iterator

BOUND_S = 15.0
"""From the new process's start to the new output of every task: less than 3 s on a machine that does nothing else, and
a heartbeat interval more beside others. None of the lengths below is shorter than this."""
HEARTBEAT_MS = 1_000
SESSION_MS = 45_000
TRANSACTION_MS = 60_000
DELAY_MS = 15_000
"""Before a group that was empty gets its first assignment."""
SETTINGS = {
    "group.initial.rebalance.delay.ms": str(DELAY_MS),
    "group.streams.session.timeout.ms": str(SESSION_MS),
    "group.streams.heartbeat.interval.ms": str(HEARTBEAT_MS),
}


@pytest.fixture(scope="module")
def bootstrap_servers(tmp_path_factory: pytest.TempPathFactory, kafka_version: str | None) -> Iterator[str]:
    """Of brokers that have these lengths: delays and, under the streams protocol, sessions are theirs."""
    directory = tmp_path_factory.mktemp("delaying")
    with LocalCluster(directory, version=kafka_version, settings=SETTINGS, log=print) as cluster:
        yield cluster.bootstrap_servers


def kill_in_transaction(product: Product, victim: Instance) -> set[str]:
    """Kill it while readers wait for the end of its transaction; returns its tasks."""

    def unfinished() -> bool:
        # nobody else writes into the output's partitions of its tasks
        output = product.topics["output"]
        ends, final = product.admin.offsets(output), product.admin.offsets(output, isolation="read_committed")
        return any(final[number] < end for number, end in ends.items() if f"1_{number}" in victim.tasks())

    while True:
        wait_until(unfinished, "an unfinished transaction", detail=product.tails)
        victim.kill()
        if unfinished():
            return victim.tasks()
        victim.start()  # it has committed just before the kill: another try
        victim.wait_log("state RUNNING")


def start_again(product: Product, victim: Instance, tasks: set[str]) -> dict[str, float]:
    """Start it; returns for each of the tasks after how many seconds a reader had something new of it."""
    seen: dict[str, float] = {}
    with ExitStack() as stack:
        # from the ends on: what was committed before the kill lies in front of them
        selected, output = (
            stack.enter_context(TopicReader(product.bootstrap, topic, start=product.admin.offsets(topic)))
            for topic in (product.internal("KSTREAM-KEY-SELECT-0000000004-repartition"), product.topics["output"])
        )
        begun = time.monotonic()
        victim.start()

        def all_seen() -> bool:
            for record in selected.poll(0.01):
                # these come by course; the task is that of the line
                line = json.loads(record.value or b"")
                key = encode({"order_id": line["order_id"], "line_id": line["line_id"]})
                seen.setdefault(f"0_{partition_for_key(key, product.partitions)}", time.monotonic() - begun)
            for record in output.poll(0.01):
                seen.setdefault(f"1_{record.partition}", time.monotonic() - begun)
            return tasks <= seen.keys()

        wait_until(all_seen, "every task goes on", detail=lambda: f"{sorted(seen.items())}\n{product.tails()}")
    return {task: seen[task] for task in sorted(tasks)}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_crashed_instance_goes_on_at_once_alone_and_beside_another(product: Product, protocol: str) -> None:
    settings = {
        "group_protocol": protocol,
        "session_timeout_ms": SESSION_MS,
        "heartbeat_interval_ms": HEARTBEAT_MS,
        "transaction_timeout_ms": TRANSACTION_MS,
        "commit_interval_ms": 500,
    }
    watch = product.watch()
    victim = product.instance("victim", **settings).start()
    with flowing(product):
        share([victim])
        if protocol == "streams":
            # not before: the first assignment would be late, too, as it is under the classic protocol
            product.admin.configure_group(product.application_id, streams_initial_rebalance_delay_ms=DELAY_MS)
        watch.wait_for(1_000, "the first lines", product.tails)
        alone = start_again(product, victim, kill_in_transaction(product, victim))
        assert alone.keys() == ALL_TASKS

        other = product.instance("other", **settings).start()
        share([victim, other])
        beside = start_again(product, victim, kill_in_transaction(product, victim))
    for where, took in (("alone", alone), ("beside another", beside)):
        print(f"{protocol}, {where}: first new output of a task {min(took.values()):.1f} to {max(took.values()):.1f} s")
        assert max(took.values()) < BOUND_S, (where, took)
    watch.wait_for(product.sums.lines, "every line is counted", product.tails)
    assert watch.latest() == product.sums.totals()
    for one in (victim, other):
        one.stop()
    watch.check()
