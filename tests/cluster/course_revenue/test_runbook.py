"""Every command of the runbook, in a scenario in which somebody would give it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cluster.course_revenue.product import START_MS, command, encode, lines, wait_until
from cluster.course_revenue.runbook import SECTIONS, Scenario
from course_revenue.adjustments import read_adjustments

from headrace.testing.processes import free_port

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.course_revenue.product import Instance, Product

    Tools = Callable[..., str]

SCENARIOS: Final = re.compile(r"Scenario\(\s*\"([^\"]+)\"")


def test_every_command_of_the_runbook_has_a_scenario() -> None:
    here = Path(__file__)
    security = here.parents[1] / "security" / "test_runbook.py"
    covered = [title for file in (here, security) for title in SCENARIOS.findall(file.read_text("utf-8"))]
    assert sorted(covered) == sorted(SECTIONS)


def test_while_the_job_runs(product: Product, kafka_tools: Tools, tmp_path: Path) -> None:
    ports: list[int] = []
    for _ in range(2):
        ports.append(free_port(ports))
    a, b = (product.instance(name, headrace_http_port=port) for name, port in zip("ab", ports, strict=True))
    watch = product.watch()
    product.load(300, courses=10)
    a.start()
    watch.wait_for(300, "the totals", a.tail)
    with Scenario("Any symptom: three looks", product, a, kafka_tools) as any_symptom:
        any_symptom.run("course-revenue check")
        tasks = json.loads(any_symptom.run("curl"))
        assert str(tasks).count("0_") >= 1
        any_symptom.run("course-revenue reconcile")

    names = {"/var/lib/course-revenue-2": str(tmp_path / "second")}
    with Scenario("One task's lag grows", product, a, kafka_tools, names) as lag:
        assert "lag" in lag.run("curl")
        assert product.topics["lines"] in lag.run("kafka-consumer-groups.sh")
        lag.run("course-revenue run", starts=b)
        wait_until(lambda: b.tasks() and a.tasks(), "both have tasks", detail=product.tails)
        b.stop()

    with Scenario("The topic's sum is twice the SQL", product, a, kafka_tools) as twice:
        assert len(twice.run("course-revenue totals").splitlines()) == len(watch.latest()) + 2
        twice.run("course-revenue reconcile")

    with Scenario("Every line is flagged dimension_missing", product, a, kafka_tools) as flagged:
        product.admin.set_topic_config(product.topics["courses"], cleanup_policy="delete")
        assert "rows of the catalog go by age" in flagged.run("course-revenue check")
        assert product.topics["courses"] in flagged.run("kafka-get-offsets.sh")
        flagged.run("course-revenue totals")
        flagged.run("kafka-configs.sh")
    assert product.admin.topic_config(product.topics["courses"])["cleanup.policy"] == "compact"

    a.kill()
    with Scenario("The job is down", product, a, kafka_tools) as down:
        assert "refused" in down.run("curl")
        assert product.application_id in down.run("kafka-consumer-groups.sh")
        down.run("course-revenue check")
        down.run("course-revenue run")
        product.send(lines(10, "course-a"))
        watch.wait_for(310, "it goes on", a.tail)
    assert watch.latest() == product.sums.totals()


def test_records_that_stop_the_job(product: Product, kafka_tools: Tools) -> None:
    topic = product.topics["lines"]
    a = product.instance("a", group_protocol="streams")
    watch = product.watch()
    product.send(lines(100, "course-a"))
    a.start()
    watch.wait_for(100, "the first lines", a.tail)
    gift = encode(_LINE | {"line_type": "gift"})
    product.send_raw(gift, timestamp_ms=START_MS, partition=3)
    assert a.exit_code() == 1
    assert "unknown_line_type" in a.log()
    with Scenario("An unknown line_type", product, a, kafka_tools) as unknown:
        unknown.run("course-revenue topics")
        unknown.run("course-revenue check")
        unknown.run("course-revenue run")
        product.send(lines(50, "course-a", start=100))
        watch.wait_for(150, "it goes on without it", a.tail)
        assert "unknown_line_type" in unknown.run("course-revenue rejected list")
        said = unknown.run("course-revenue rejected replay")
        assert "left out 1 lines that break the contract of this release: unknown_line_type 1" in said
        assert "0 lines would be replayed" in said
    a.stop()

    # lines and the record together: what comes before it is lost with its transaction, at each start
    product.send(lines(30, "course-b"))
    poison = product.admin.offsets(topic)[3]
    product.send_raw(b"\x00poison-of-secret", timestamp_ms=START_MS, partition=3)
    a.start(course_revenue_on_broken_line="fail", commit_interval_ms=1_000)
    assert a.exit_code() == 1
    with Scenario("A poison record", product, a, kafka_tools) as skipping:
        assert "Without --dry-run an instance would" in skipping.run("course-revenue skip-record", 1, at=(3, poison))
        assert "An instance brings it there" in skipping.run("course-revenue skip-record", at=(3, poison))
        skipping.run("course-revenue run")
        watch.wait_for(180, "the lines round it", a.tail)
        skipping.run("course-revenue reconcile")
        partition, offset = overflow(product, a)
        assert "An instance brings it there" in skipping.run("course-revenue skip-record", at=(partition, offset))
    adjusted = read_adjustments(a.directory / "course-revenue-adjustments.jsonl")
    assert [(one.partition, one.offset) for one in adjusted] == [(3, poison), (partition, offset)]
    assert "repartition" in adjusted[1].topic
    a.start()
    product.send(lines(10, "course-c"))
    # the line that overflows is in no total
    watch.wait_for(product.sums.lines - 1, "behind the overflow", a.tail)
    assert watch.latest()["huge"][:2] == (2**63 - 1, 2)
    assert "2 skipped by hand" in command(a, "reconcile")
    a.stop()

    before = product.admin.committed(product.application_id)[topic, 3][0]
    product.send_raw(encode(_LINE), timestamp_ms=START_MS, partition=3)
    product.send_raw(encode(_LINE), timestamp_ms=START_MS, partition=3)
    product.admin.delete_records(topic, 3, before + 1)
    a.start(group_protocol="classic")
    assert a.exit_code() == 1
    assert "is out of range" in a.log()
    with Scenario("Offsets are out of range", product, a, kafka_tools) as gone:
        gone.run("kafka-consumer-groups.sh")
        gone.run("kafka-configs.sh")
        gone.run("course-revenue run")
    watch.wait_for(product.sums.lines, "the line that is there", a.tail)


_LINE = {
    "order_id": "order-of-secret",
    "line_id": "line-1",
    "course_id": "course-a",
    "unit_price_cents": 100,
    "quantity": 1,
    "line_type": "sale",
    "event_time": START_MS,
}


def overflow(product: Product, instance: Instance) -> tuple[int, int]:
    """Make a total overflow, with lines before it in the same commit interval; the place in the repartition topic."""
    product.send(lines(1, "huge", price=2**63 - 2))
    product.send(lines(2, "huge", price=1, start=1))
    assert instance.exit_code() == 1
    found = instance.find(r"-repartition\W+(?:partition\W+)?(\d+)\W+(?:at )?(?:offset\W+)?(\d+)")
    assert found, instance.tail(80)
    return int(found[-1][1]), int(found[-1][2])


def test_topics_that_somebody_changed(product: Product, kafka_tools: Tools) -> None:
    a = product.instance("a")
    product.load(400, courses=10)
    watch = product.watch(exactly_once=False)
    a.start()
    watch.wait_for(400, "the totals", a.tail)
    with Scenario("A changelog is misconfigured", product, a, kafka_tools) as changelog:
        product.admin.set_topic_config(product.changelog, cleanup_policy="delete", retention_ms="3600000")
        changelog.run("kafka-configs.sh")
        changelog.run("kafka-configs.sh")
        changelog.run("course-revenue check")
        changelog.run("course-revenue reconcile")

    with Scenario("Totals drop to zero and climb back after a rebalance", product, a, kafka_tools) as drop:
        product.admin.set_topic_config(product.changelog, cleanup_policy="delete")
        assert "a restore would come up short" in drop.run("course-revenue check", code=1)
    a.stop()
    product.admin.add_partitions(product.topics["courses"], 8)
    with Scenario("The partition count has changed", product, a, kafka_tools) as count:
        assert "Another partition count is a rebuild" in count.run("course-revenue check", code=1)
        assert "read about 400 lines again" in count.run("course-revenue rebuild")
        count.run("course-revenue rebuild")
    watch.wait_for(400, "the totals", a.tail)
    assert watch.latest() == product.sums.totals()
    assert product.admin.topics()[product.changelog] == 8
    assert product.admin.topic_config(product.changelog)["cleanup.policy"] == "compact"
