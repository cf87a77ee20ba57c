"""Exactly once, through kill -9, restarts, unfinished transactions and stalls."""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

import pytest
from cluster.course_revenue.killed import killed_before
from cluster.course_revenue.product import START_MS, OutputWatch, command, encode, lines, recent, wait_until
from confluent_kafka import Producer
from course_revenue.contract import select_course
from course_revenue.following import JobOffsets, catch_up
from course_revenue.options import target
from course_revenue.rebuilding import job_of
from course_revenue.sample import SampleSize, sample
from course_revenue.settings import Settings, without_product_keys
from course_revenue.topology import build_topology

from headrace import KafkaStreams, StreamsConfig
from headrace.partitioning import partition_for_key
from headrace.runtime.states import State
from headrace.topics import TopicWriter

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from cluster.course_revenue.product import Instance, Product, Stored
    from course_revenue.model import LineKey, PurchaseLine


def totals_are_the_sum(product: Product, watch: OutputWatch, timeout_s: float = 120.0) -> None:
    watch.wait_for(product.sums.lines, "every line is counted", product.tails, timeout_s)
    assert watch.latest() == product.sums.totals()


@pytest.mark.slow
def test_two_instances_killed_at_random_moments_count_every_line_once(product: Product, seeded: random.Random) -> None:
    rounds, per_round = 6, 200_000 // 6 + 1
    size = SampleSize(lines=rounds * per_round, courses=300, seed=seeded.randrange(1 << 30))
    records = recent(sample(size))
    watch = product.watch()
    instances = [product.instance("a").start(), product.instance("b").start()]
    kills = 0
    for _ in range(rounds):
        # as many records as make one round's lines; catalog rows come along where they stand
        product.send(islice(records, per_round))
        seen = watch.lines
        # anywhere from the first lines of the round to shortly before its last ones
        watch.wait_for(
            seen + seeded.randrange(1, max(2, int(0.9 * (product.sums.lines - seen)))),
            f"progress after {kills} kills",
            product.tails,
        )
        time.sleep(seeded.random() * 0.3)  # the random moment itself; nothing is awaited by it
        victims = seeded.sample(instances, k=seeded.choice((1, 1, 2)))
        for victim in victims:
            victim.kill()
            kills += 1
        for victim in victims:
            victim.start()
    product.send(records)
    assert kills >= 5
    assert product.sums.lines >= 200_000
    totals_are_the_sum(product, watch)
    for instance in instances:
        instance.stop()
    watch.check()
    # what was committed last is what a new reader sees, too
    late = product.watch()
    late.wait_for(product.sums.lines, "a reader that comes afterwards")
    assert late.latest() == product.sums.totals()


def test_lines_that_come_again_are_counted_once_through_a_kill_and_a_rebalance(product: Product) -> None:
    watch = product.watch()
    a, b = (product.instance(name, course_revenue_dedupe="line-key").start() for name in "ab")
    sent = list(recent(sample(SampleSize(lines=500, courses=20))))

    def again() -> None:
        with TopicWriter(product.bootstrap) as writer:
            for record in sent:
                if not record.is_course:
                    writer.send(product.topics["lines"], record.key, record.value, timestamp_ms=record.timestamp_ms)

    product.send(sent)
    watch.wait_for(500, "every line is counted", product.tails)
    again()
    b.kill()
    again()
    b.start()
    product.send(lines(50, "course-a"))
    totals_are_the_sum(product, watch)
    job = job_of(target(a.config_file, None, None), "")
    with JobOffsets(product.bootstrap, job.watched, {}) as offsets:
        catch_up(offsets, lambda _: None, lambda: None)
    said = command(a, "reconcile")
    assert "1,000 repeats left out" in said
    assert "0 different" in said
    totals_are_the_sum(product, watch)


def test_a_restart_changes_no_total_and_processes_nothing_again(product: Product) -> None:
    product.load(5_000)
    watch = product.watch()
    # without a cache every line makes one output record: any line processed again would be one too many
    instance = product.instance("a", statestore_cache_max_bytes=0).start()
    totals_are_the_sum(product, watch)
    instance.stop()
    before = watch.latest()
    instance.start()
    instance.wait_log("state RUNNING")
    product.send(lines(1, "course-after-restart"))
    totals_are_the_sum(product, watch)
    assert {course: total for course, total in watch.latest().items() if course in before} == before
    instance.stop()
    # uncommitted records would show as well
    written = product.admin.read(product.topics["output"], "read_uncommitted")
    assert len(written) == product.sums.lines


def test_a_restore_reads_what_came_after_the_local_store_and_no_more(product: Product) -> None:
    product.load(20_000, courses=40)
    watch = product.watch()
    # without a cache every line makes one changelog record
    instance = product.instance("a", statestore_cache_max_bytes=0).start()
    totals_are_the_sum(product, watch)
    first = product.sums.lines
    instance.stop()
    assert sum(instance.restored().values()) == 0

    older = instance.state_dir.with_name("state-older")
    shutil.copytree(instance.state_dir, older)
    instance.start()
    product.load(3_000, courses=40, seed=2)
    totals_are_the_sum(product, watch)
    assert sum(instance.restored().values()) == 0, "a store closed in good order has nothing to restore"

    # kill -9 in the middle of the work: all but the last commit is in the store
    before = product.admin.offsets(product.changelog)
    product.load(3_000, courses=40, seed=3)
    watch.wait_for(product.sums.lines - 2_700, "some lines are counted", product.tails)
    instance.kill()
    known = goes_on_from_its_store(product, instance, watch)
    late = [record for record in after(known, product) if record.offset < before[record.partition]]
    assert not late, "what a commit before the last one has written was not in the store"
    instance.stop()

    # kill -9 between a commit and the writing of its rows
    product.load(3_000, courses=40, seed=4)
    while not after(stored(instance), product):
        killed_before("headrace.state.buffer:BufferedStore.apply", instance, "run")
    goes_on_from_its_store(product, instance, watch)
    instance.stop()

    # a store that is 9,000 lines behind, as after a crash in the middle of writing a commit to it
    shutil.rmtree(instance.state_dir)
    shutil.copytree(older, instance.state_dir)
    instance.start()
    instance.wait_log("state RUNNING")
    assert sum(instance.restored().values()) == product.sums.lines - first
    instance.stop()

    shutil.rmtree(instance.state_dir)
    instance.start()
    instance.wait_log("state RUNNING")
    assert sum(instance.restored().values()) == len(product.admin.read(product.changelog)) == product.sums.lines
    # the restored totals go on where they were
    product.send(lines(500, "course-000000", start=90_000))
    totals_are_the_sum(product, watch)


def goes_on_from_its_store(product: Product, instance: Instance, watch: OutputWatch) -> dict[int, int]:
    """Starts a killed instance: it restores what the changelog has more than its store; returns where that ended."""
    # what it writes from now on lies behind these ends
    ends = product.admin.offsets(product.changelog)
    known = stored(instance)
    assert known.keys() == ends.keys()
    instance.start()
    totals_are_the_sum(product, watch)
    instance.wait_log("state RUNNING")
    counts = Counter(r.partition for r in after(known, product) if r.offset < ends[r.partition])
    assert instance.restored() == {partition: counts[partition] for partition in known}
    return known


def stored(instance: Instance) -> dict[int, int]:
    """By partition, up to which offset of the changelog its store goes."""
    return {partition: offset or 0 for partition, offset, _ in instance.stores()}


def after(offsets: dict[int, int], product: Product) -> list[Stored]:
    """The changelog's records from there: offsets count transaction markers and what was aborted, too."""
    return [record for record in product.admin.read(product.changelog) if record.offset >= offsets[record.partition]]


@pytest.mark.parametrize("outcome", ["commit", "abort"])
def test_a_restore_waits_for_the_unfinished_transaction_of_a_predecessor(product: Product, outcome: str) -> None:
    course = "course-of-predecessor"
    partition = partition_for_key(course.encode(), product.partitions)
    product.send(lines(10, course))
    watch = product.watch()
    instance = product.instance("a").start()
    totals_are_the_sum(product, watch)
    instance.stop()
    newest = [record for record in product.admin.read(product.changelog) if record.key == course.encode()][-1]
    assert newest.value is not None
    assert newest.value == watch.values[-1]
    predecessor = Producer(
        {
            "bootstrap.servers": product.bootstrap,
            "transactional.id": f"{product.application_id}-predecessor",
            "transaction.timeout.ms": 60_000,
        }
    )
    predecessor.init_transactions(30)
    predecessor.begin_transaction()
    further = {**watch.totals[course], "net_cents": 5_000, "line_count": 50}
    predecessor.produce(
        product.changelog,
        encode(further),
        key=course,
        partition=partition,
        timestamp=newest.timestamp,
    )
    assert predecessor.flush(30) == 0

    instance.start()
    others = [number for number in range(product.partitions) if number != partition]
    for number in others:
        instance.wait_log(rf"Restored store course-revenue partition {number}:")
    product.send(lines(1, course, start=50))
    # the task must not run yet, and nothing tells when it never will: three seconds are sixty times what it needs
    waited_until = time.monotonic() + 3
    while time.monotonic() < waited_until:
        assert not instance.find(rf"Restored store course-revenue partition {partition}:"), instance.tail()
        assert not instance.find(r"state RUNNING"), instance.tail()
        time.sleep(0.05)
    if outcome == "commit":
        predecessor.commit_transaction(30)
    else:
        predecessor.abort_transaction(30)
    instance.wait_log("state RUNNING")
    count = 51 if outcome == "commit" else 11
    wait_until(
        lambda: watch.totals[course]["line_count"] == count and watch.totals[course]["net_cents"] == count * 100,
        f"the total goes on from what was {outcome}ted: {count} lines",
        detail=lambda: f"{watch.totals[course]}\n{instance.tail()}",
    )
    watch.check()


def test_a_killed_instance_in_the_middle_of_a_transaction_leaves_nothing_behind(product: Product) -> None:
    watch = product.watch()
    # the longest commit interval there may be: at the kill what it did lately is in one open transaction
    killed = product.instance("killed", commit_interval_ms=10_000).start()
    killed.wait_log("state RUNNING")
    repartition = product.internal("KSTREAM-KEY-SELECT-0000000004-repartition")

    def unfinished() -> bool:
        return product.admin.offsets(repartition) != product.admin.offsets(repartition, isolation="read_committed")

    while True:
        product.load(1_000)
        wait_until(
            lambda: unfinished() or killed.crashed,
            "an unfinished transaction in the repartition topic",
            detail=killed.tail,
        )
        assert not killed.crashed, killed.tail()
        killed.kill()
        if unfinished():
            break
        killed.start()  # it has committed just before the kill: another try
    # another state directory, so another transactional id: the brokers' timeout ends the open transaction
    product.instance("successor").start()
    totals_are_the_sum(product, watch)
    written = product.admin.read(repartition, "read_uncommitted")
    assert len(written) > product.sums.lines, "the killed one left no record behind: nothing was proven"


def test_a_stall_beyond_max_poll_interval_cannot_commit_afterwards(
    product: Product, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    stalled, go_on = threading.Event(), threading.Event()

    def select(key: LineKey | None, line: PurchaseLine | None) -> str:
        if line is not None and line.order_id == "stall" and not stalled.is_set():
            stalled.set()
            assert go_on.wait(180)
        return select_course(key, line)

    def client(name: str, select_key: object, **settings: object) -> KafkaStreams:
        properties = product.config(state_dir=tmp_path / name, client_id=f"client-{name}", **settings)
        config = StreamsConfig.load(without_product_keys({k: str(v) for k, v in properties.items()}))
        topology = build_topology(Settings.of(properties), config.values(), select=select_key)  # type: ignore[arg-type]
        return KafkaStreams(topology, config)

    watch = product.watch()
    # a long transaction timeout: the stalled one's transaction must be stopped by its generation, not by its age
    slow = client("slow", select, max_poll_interval_ms=4_000, commit_interval_ms=100)
    quick = client("quick", select_course)
    try:
        slow.start()
        wait_until(lambda: slow.state() is State.RUNNING, "the slow client runs", detail=lambda: caplog.text[-5000:])
        product.load(2_000)
        totals_are_the_sum(product, watch)
        line = {"order_id": "stall", "line_id": "line-1", "course_id": "course-stall", "unit_price_cents": 100}
        value = encode({**line, "quantity": 1, "line_type": "sale", "event_time": START_MS})
        product.sums.add(value)
        product.send_raw(value, timestamp_ms=START_MS)
        assert stalled.wait(60)
        product.load(2_000, seed=2)
        quick.start()
        totals_are_the_sum(product, watch)
        assert slow.state() is not State.ERROR
        go_on.set()
        wait_until(
            lambda: slow.state() is State.RUNNING and "client-slow" in members_with_tasks(product),
            "the stalled client is a member again",
            detail=lambda: caplog.text[-5000:],
        )
        assert "lost its membership" in caplog.text or "tasks migrated" in caplog.text
        product.load(2_000, seed=3)
        totals_are_the_sum(product, watch)
    finally:
        go_on.set()
        for one in (slow, quick):
            assert one.close(60)
    watch.check()
    assert watch.latest() == product.sums.totals()


def members_with_tasks(product: Product) -> str:
    return " ".join(member for member, parts in product.admin.members(product.application_id).items() if parts)
