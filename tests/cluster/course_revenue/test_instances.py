"""Instances that come and go while lines flow."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING

from cluster.course_revenue.product import Instance, Product, recent, wait_until
from course_revenue.sample import SampleSize, sample

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

ALL_TASKS = {f"{part}_{number}" for part in (0, 1) for number in range(6)}


@contextmanager
def flowing(product: Product) -> Iterator[None]:
    """Lines come all the while."""
    over = threading.Event()
    failed: list[Exception] = []

    def feed() -> None:
        records = recent(sample(SampleSize(lines=1_000_000, courses=100)))
        try:
            while not over.wait(0.1):
                product.send(islice(records, 100))
        except Exception as e:
            failed.append(e)

    feeder = threading.Thread(target=feed, name="feeder")
    feeder.start()
    try:
        yield
    finally:
        over.set()
        feeder.join(60)
    assert not failed, failed


def share(instances: list[Instance]) -> None:
    """Wait until these have all the tasks, as evenly as it goes, each task once."""

    def even() -> bool:
        held = [one.tasks() for one in instances]
        return (
            sum(map(len, held)) == len(ALL_TASKS)
            and set().union(*held) == ALL_TASKS
            and max(map(len, held)) - min(map(len, held)) <= 1
        )

    wait_until(
        even,
        f"{len(instances)} instances share the tasks",
        detail=lambda: "\n".join(f"{one.name}: {sorted(one.tasks())}\n{one.tail()}" for one in instances),
    )


def test_instances_share_the_tasks_and_those_that_stay_are_never_interrupted(product: Product) -> None:
    watch = product.watch()
    a, b = product.instance("a").start(), product.instance("b").start()
    with flowing(product):
        share([a, b])
        had = {one.name: one.tasks() for one in (a, b)}
        starts = {(one.name, task): one.starts_of(task) for one in (a, b) for task in had[one.name]}
        c = product.instance("c").start()
        share([a, b, c])
        kept = {one.name: one.tasks() for one in (a, b)}
        for one in (a, b):
            assert kept[one.name] < had[one.name], "a task moved that did not have to"
        moved = c.tasks()
        seen = watch.lines
        watch.wait_for(seen + 500, "three instances process", product.tails)
        c.stop()
        share([a, b])
        for one in (a, b):
            assert kept[one.name] < one.tasks()
            for task in kept[one.name]:
                assert one.starts_of(task) == starts[one.name, task], f"{task} was interrupted\n{one.tail()}"
        assert moved == (a.tasks() | b.tasks()) - set().union(*kept.values())
        seen = watch.lines
        watch.wait_for(seen + 500, "two instances go on", product.tails)
    watch.wait_for(product.sums.lines, "every line is counted", product.tails)
    assert watch.latest() == product.sums.totals()
    for one in (a, b):
        one.stop()
        assert "lost its membership" not in one.log()
        assert "tasks migrated" not in one.log()


def test_at_least_once_loses_nothing(product: Product, seeded: random.Random) -> None:
    watch = product.watch(exactly_once=False)
    instances = [product.instance(name, processing_guarantee="at_least_once").start() for name in "ab"]
    for _ in range(3):
        product.load(8_000, courses=100, seed=seeded.randrange(1 << 30))
        seen = watch.lines
        watch.wait_for(seen + seeded.randrange(1, 4_000), "progress", product.tails)
        victim = seeded.choice(instances)
        victim.kill()
        victim.start()

    def complete() -> bool:
        latest = watch.latest()
        return all(latest.get(course, (0, 0, 0))[1] >= count for course, count in product.sums.line_count.items())

    wait_until(complete, "every line is counted at least once", detail=product.tails)
    for one in instances:
        one.stop()


def test_one_command_runs_several_instances_and_starts_a_killed_one_again(product: Product) -> None:
    watch = product.watch()
    both = product.instance("both")
    both.arguments += ("--instances", "2")
    both.start()
    product.load(3_000)
    watch.wait_for(product.sums.lines, "the first lines", product.tails)
    started = r"instance-(\d): started, process (\d+)"
    first = {match[1]: int(match[2]) for match in both.find(started)}
    assert set(first) == {"1", "2"}
    os.kill(first["2"], signal.SIGKILL)
    product.load(3_000, seed=2)
    both.wait_log(started, 3)
    watch.wait_for(product.sums.lines, "all lines", product.tails)
    assert watch.latest() == product.sums.totals()
    # with the instance's name in front; the other one may have counted all lines before this one is back
    both.wait_log(r"(?m)^\[instance-2\] .* runs, from ")
    both.stop()
    watch.check()
