"""A rebuild beside the live job, and the switch, while somebody reads the totals and lines keep coming."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from cluster.course_revenue.product import command, encode, lines, wait_until
from confluent_kafka import Producer
from course_revenue import shadow
from course_revenue.rehearsal import BUDGET_S
from course_revenue.rejected import since_rebuilt

from headrace.topics import TopicReader

if TYPE_CHECKING:
    from cluster.course_revenue.product import Product


def test_a_shadow_takes_the_jobs_place_and_readers_of_the_topic_read_right_totals(product: Product) -> None:
    output = product.topics["output"]
    watch = product.watch()
    a = product.instance("a").start()
    product.load(600, courses=10)
    watch.wait_for(600, "the totals", a.tail)
    right = watch.latest()

    made = shadow.shadow_of(a.config_file, ())
    assert not shadow.is_there(made)
    rejected = product.topics["rejected"]
    _send(product, rejected, "long ago", {})
    for partition in (emptied := product.admin.offsets(rejected)):
        product.admin.delete_records(rejected, partition, emptied[partition])
    planned = shadow.plan(made, from_gap=False)
    assert not planned.refusals
    assert planned.lines == 600
    said = command(a, "rebuild", "--shadow", "--yes")
    assert "0 courses differ between the job and its shadow in cents or lines; the shadow agrees with the input" in said
    assert a.running
    # no line_count has fallen, and nothing was written but what the job wrote
    watch.check()
    assert watch.latest() == right

    # a total that is too low
    wrong = {"course_id": "course-000000", "net_cents": 1, "line_count": 1}
    _send(product, output, "course-000000", wrong | {"dimension_missing": False, "updated_event_time": 1})
    wait_until(lambda: watch.violations, "the reader sees the wrong total")
    watch.violations.clear()
    product.send(lines(50, "course-a"))
    watch.wait_for(650 - right["course-000000"][1] + 1, "the new lines", a.tail)
    switching = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "course_revenue",
            "rebuild",
            "--shadow",
            "--switch",
            "--yes",
            "--config",
            str(a.config_file),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=a.directory,
    )
    stopped = 0.0
    try:
        assert switching.stdout is not None
        said = ""
        for line in switching.stdout:
            said += line
            if "stop every instance" in line and a.running:
                # lines that come last of all are counted, too
                product.send(lines(50, "course-a", start=50))
                stopped = time.monotonic()
                a.stop()
        assert switching.wait(60) == 0, said
    finally:
        switching.kill()
    # the person who was told to stop the job starts its successor: totals stood still for no longer than their budget
    successor = f"{product.application_id}-v2"
    watch.wait_for(700, "what the shadow counted", said)
    assert watch.latest() == product.sums.totals()
    a.start(application_id=successor)
    product.send(lines(50, "course-a", start=100))
    watch.wait_for(701, "the job goes on under its new id", a.tail)
    assert time.monotonic() - stopped < BUDGET_S

    assert re.search(r"^course-000000\s+-", said, re.MULTILINE), said
    assert "1 courses differ between the job and its shadow in cents or lines; the shadow agrees with the input" in said
    # the wrong total, and that of the lines which came last, unless the job has counted them before it stopped
    assert re.search(r"([12]) totals that differed \(\1 in cents or lines", said), said

    with TopicReader(product.bootstrap, rejected) as reader:
        # else what the job rejects from now on could not be told from what the topic has lost
        assert since_rebuilt(reader.to_end()) == ([], dict.fromkeys(emptied, successor))

    new = a.directory / "app-v2.properties"
    assert f"application.id={successor}\n" in new.read_text("utf-8")
    assert f"{output}.v2" not in product.admin.topics()
    watch.wait_for(750, "every line", a.tail)
    assert watch.latest() == product.sums.totals()
    watch.check()
    a.stop()


def _send(product: Product, topic: str, key: str, value: dict[str, object]) -> None:
    producer = Producer({"bootstrap.servers": product.bootstrap, "partitioner": "murmur2_random"})
    producer.produce(topic, encode(value), key.encode())
    assert producer.flush(30) == 0
