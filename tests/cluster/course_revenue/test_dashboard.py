"""The dashboard over a real broker and a real job, looked at in Chromium: one evening of finance, with outages."""

from __future__ import annotations

import json
import re
import signal
import time
from typing import TYPE_CHECKING

import pytest
from browser.chromium import chromium, opened, picture
from cluster.course_revenue.product import Product, encode, wait_until
from cluster.instances import Instance
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # its __init__ re-exports it
from course_revenue.sample import SampleRecord
from playwright.sync_api import expect

from headrace.testing.cluster import LocalCluster
from headrace.testing.processes import free_port
from headrace.topics import TopicWriter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOPICS = {"lines": "lines", "courses": "courses", "output": "totals", "rejected": "rejected"}
PARTITIONS = 2


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LocalCluster]:
    """A broker of this test's own: it is stopped and started."""
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"}
    with LocalCluster(tmp_path / "kafka", settings=settings) as running:
        yield running


def line(number: int, course: str, cents: int, kind: str = "sale", quantity: int = 1) -> SampleRecord:
    now = time.time_ns() // 1_000_000
    key = {"order_id": f"order-{number}", "line_id": "1"}
    value = {
        **key,
        "course_id": course,
        "unit_price_cents": cents,
        "quantity": quantity,
        "line_type": kind,
        "event_time": now,
    }
    return SampleRecord(False, encode(key), encode(value), now)


def catalog_row(course: str) -> SampleRecord:
    return SampleRecord(True, course.encode(), encode({"title": "A course", "active": True}), 1)


def made(product: Product, *names: str) -> None:
    product.admin.create_topics(
        [
            NewTopic(name, PARTITIONS, 1, config={} if name in ("lines", "rejected") else {"cleanup.policy": "compact"})
            for name in names
        ]
    )
    wait_until(lambda: set(names) <= product.admin.topics().keys(), "the broker knows the topics")


def test_a_page_follows_the_topic_through_refunds_flags_and_outages(broker: LocalCluster, tmp_path: Path) -> None:
    product = Product(broker.bootstrap_servers, tmp_path, "course-revenue", TOPICS, PARTITIONS)
    made(product, *TOPICS.values())
    ports = free_port(), free_port()
    settings = {"course_revenue_on_broken_line": "reject", "headrace_http_port": ports[0]}
    job = product.instance("job", **settings)
    page_config = product.config(**settings)
    dashboard = Instance("page", tmp_path, ("-m", "course_revenue", "dashboard", "--port", str(ports[1])), page_config)
    address = f"http://127.0.0.1:{ports[1]}/"
    try:
        job.start()
        dashboard.start()
        dashboard.wait_log(re.escape(f"dashboard: {address}"))
        product.send([catalog_row("algebra"), line(1, "algebra", 12_345), line(2, "botany", 500, quantity=3)])
        with chromium() as browser, opened(browser, address) as (page, wrong):
            net, banners, flagged = page.locator("#net"), page.locator("#banners"), page.locator("#flagged")

            # loads, and moves when lines arrive
            expect(net).to_have_text("€138.45")
            expect(page.locator("#source-state")).to_have_text("Live")
            expect(page.locator("#job-state")).to_have_text("Running")
            expect(page.locator("#verdict")).to_contain_text("Within the minute")
            expect(page.locator("#tasks tbody tr")).to_have_count(2 * PARTITIONS)
            expect(banners).to_have_text("")
            product.send([line(3, "algebra", 100_000), line(4, "chemistry", 1)])
            expect(net).to_have_text("€1,138.46")

            # a refund lowers; a flag appears and clears; a broken line is rejected and counted
            product.send([line(5, "algebra", 12_345, "refund")])
            product.send_raw(line(6, "algebra", 1, "gift").value)
            expect(net).to_have_text("€1,015.01")
            expect(page.locator("#drops")).to_contain_text("unknown_line_type1")
            expect(flagged).to_contain_text("2 flagged")
            product.send([catalog_row("botany"), catalog_row("chemistry")])
            product.send([line(7, "botany", 1), line(8, "chemistry", 1)])
            expect(flagged).to_contain_text("None flagged")

            # search, filter, sort
            rows = page.locator(".space .row:not([hidden])")
            page.fill("#search", "CHEM")
            expect(rows).to_have_count(1)
            page.fill("#search", "")
            page.click("[data-sort=course]")
            expect(rows.first).to_contain_text("algebra")
            expect(rows).to_have_count(3)

            # the job goes down, hard, and comes back
            job.kill()
            expect(page.locator("#job-state")).to_have_text("Down")
            expect(banners).to_contain_text("The job does not answer")
            picture(page, "job-down")
            product.send([line(9, "botany", 10_000)])
            job.start()
            expect(net).to_have_text("€1,115.03")
            expect(banners).to_have_text("")
            expect(page.locator("#waited")).to_have_text(re.compile("commit lag [0-9]"))

            # the dashboard itself
            dashboard.signal(signal.SIGTERM)
            assert dashboard.exit_code() == 0, dashboard.tail()
            expect(banners).to_contain_text("Connection to the dashboard lost")
            product.send([line(10, "botany", 10_000)])
            dashboard.start()
            expect(net).to_have_text("€1,215.03")
            expect(banners).to_have_text("")

            # a record that is no total, and a tombstone
            with TopicWriter(product.bootstrap) as writer:
                writer.send("totals", b"algebra", b"{}")
                writer.send("totals", b"chemistry", None)
            expect(banners).to_contain_text("1 record of the topic does not decode")
            expect(page.locator("#courses")).to_have_text("2")
            expect(net).to_have_text("€1,215.01")

            # the broker
            broker.stop()
            expect(banners).to_contain_text("The Kafka brokers do not answer")
            picture(page, "brokers-down")
            broker.start()
            product.send([line(11, "botany", 99)])
            expect(net).to_have_text("€1,216.00")
            expect(page.locator("#source-state")).to_have_text("Live")

            # the topic is made anew: what was shown is forgotten, and a new total is the course's whole one
            product.admin.delete_topics(["totals"])
            expect(banners).to_contain_text("The topic totals does not exist")
            made(product, "totals")
            with TopicWriter(product.bootstrap) as writer:
                total = {
                    "course_id": "zoology",
                    "net_cents": 7,
                    "line_count": 1,
                    "dimension_missing": False,
                    "updated_event_time": time.time_ns() // 1_000_000,
                }
                writer.send("totals", b"zoology", json.dumps(total).encode())
            expect(net).to_have_text("€0.07")
            expect(page.locator("#source-state")).to_have_text("Live")
            assert wrong == []
    finally:
        dashboard.end()
        job.end()
