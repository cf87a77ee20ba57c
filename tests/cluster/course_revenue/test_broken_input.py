"""Input that the job must not get past: poison bytes, broken lines, deleted records."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from cluster.course_revenue.product import START_MS, encode, lines, wait_until

if TYPE_CHECKING:
    from cluster.course_revenue.conftest import ProductFactory
    from cluster.course_revenue.product import Product

GIFT = encode(
    {
        "order_id": "order-of-gift",
        "line_id": "line-1",
        "course_id": "course-a",
        "unit_price_cents": 4711,
        "quantity": 1,
        "line_type": "gift",
        "event_time": START_MS,
        "learner_id": "learner-of-secret",
    }
)


@pytest.mark.parametrize(
    ("value", "says"),
    [(b"\x00\xffpoison-of-secret", "SerializationException"), (GIFT, "unknown_line_type")],
    ids=["poison bytes", "unknown line type"],
)
def test_a_broken_record_stops_the_instance_before_it_is_committed(
    product_factory: ProductFactory, value: bytes, says: str
) -> None:
    product = product_factory(1)
    topic = product.topics["lines"]
    product.send(lines(100, "course-a"))
    watch = product.watch()
    instance = product.instance("a").start()
    watch.wait_for(100, "the lines before it", product.tails)
    offset = product.admin.offsets(topic)[0]
    product.send_raw(value, timestamp_ms=START_MS)
    product.send(lines(100, "course-a", start=100))
    for _ in range(2):
        # the second start meets it again: nothing has got past it
        assert instance.exit_code() == 1, instance.tail()
        log = instance.log()
        assert says in log, instance.tail()
        assert "state ERROR" in log
        # topic, partition and offset in one message
        where = rf"{re.escape(topic)}\W+(?:partition\W+)?0\W+(?:at )?(?:offset\W+)?{offset}\b"
        assert re.search(where, log), f"no message names {topic}, 0, {offset}:\n{instance.tail(80)}"
        assert "secret" not in log, "a payload was logged"
        assert "course-revenue skip-record passes over the one" in log, "the error's own advice is another handler"
        assert product.admin.committed(product.application_id)[topic, 0][0] <= offset
        if instance.starts == 1:
            instance.start()
    assert watch.lines == 100
    watch.check()


def test_rejected_records_are_untouched_and_in_the_transaction_of_their_offsets(
    product_factory: ProductFactory,
) -> None:
    product = product_factory(2)
    topic, rejected = product.topics["lines"], product.topics["rejected"]
    watch = product.watch()
    # the longest commit interval there may be: at the kill what it did lately is in one open transaction
    instance = product.instance("a", course_revenue_on_broken_line="reject", commit_interval_ms=10_000).start()
    instance.wait_log("state RUNNING")
    key = b'{"order_id" : "order-of-gift","line_id":"line-1", "and":"spaces"}'
    headers = [("trace", b"1"), ("trace", b"2"), ("empty", b""), ("none", None)]
    at: list[int] = []

    def unfinished() -> bool:
        return product.admin.offsets(rejected) != product.admin.offsets(rejected, isolation="read_committed")

    while True:
        product.send(lines(50, "course-a", start=100 * len(at)))
        at.append(product.admin.offsets(topic)[1])
        product.send_raw(GIFT, key, timestamp_ms=START_MS + 77, headers=headers, partition=1)
        product.send(lines(50, "course-a", start=100 * len(at) - 50))
        wait_until(
            lambda: unfinished() or instance.crashed,
            "an unfinished transaction in the rejected topic",
            detail=instance.tail,
        )
        assert not instance.crashed, instance.tail()
        instance.kill()
        if unfinished():
            break
        instance.start()  # it has committed just before the kill: another try
    instance.start(commit_interval_ms=200)
    watch.wait_for(product.sums.lines, "the lines round it", product.tails)
    assert watch.latest() == product.sums.totals()
    instance.stop()
    found = product.admin.read(rejected)
    assert [(r.key, r.value, r.timestamp) for r in found] == [(key, GIFT, START_MS + 77)] * len(at)
    assert [r.headers for r in found] == [
        (
            *headers,
            ("course-revenue.reason", b"unknown_line_type"),
            ("course-revenue.source.topic", topic.encode()),
            ("course-revenue.source.partition", b"1"),
            ("course-revenue.source.offset", str(offset).encode()),
        )
        for offset in at
    ]
    assert len(product.admin.read(rejected, "read_uncommitted")) > len(at), "nothing was aborted: nothing was proven"
    # who learned what stays in the rejected topic alone
    others = [name for name in product.admin.topics() if name.startswith(product.application_id)]
    for name in (*others, product.topics["output"]):
        assert not any(b"learner" in (r.value or b"") for r in product.admin.read(name, "read_uncommitted")), name


def test_a_committed_offset_whose_records_are_gone_is_reported_with_the_gap(product_factory: ProductFactory) -> None:
    product = product_factory(1)
    topic = product.topics["lines"]
    product.send(lines(100, "course-a"))
    watch = product.watch()
    instance = product.instance("a").start()
    watch.wait_for(100, "the first lines", product.tails)
    instance.stop()
    before = product.admin.committed(product.application_id)
    assert before[topic, 0][0] == 100
    product.send(lines(100, "course-a", start=100))
    product.admin.delete_records(topic, 0, 137)
    instance.start()
    assert instance.exit_code() == 1, instance.tail()
    assert "37 records" in instance.log(), instance.tail()
    assert re.search(rf"{re.escape(topic)}-0: offset 100 is out of range", instance.log()), instance.tail()
    assert product.admin.committed(product.application_id) == before
    assert watch.lines == 100


def test_payloads_are_not_logged(product: Product) -> None:
    product.load(200)
    watch = product.watch()
    instance = product.instance("a").start()
    watch.wait_for(200, "the totals", product.tails)
    instance.stop()
    assert "net_cents" not in instance.log()
    assert "course-0000" not in instance.log()
