"""A poison record is moved past by hand, once, with an adjustment that the reconciliation knows."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from cluster.course_revenue.product import START_MS, command, encode, lines
from course_revenue.adjustments import read_adjustments
from course_revenue.errors import RefusedError
from course_revenue.headers import Place
from course_revenue.skipping import SkipRequest, skip

if TYPE_CHECKING:
    from cluster.course_revenue.conftest import ProductFactory
    from cluster.course_revenue.product import Product


def test_a_poison_record_is_skipped_and_the_books_still_agree(product_factory: ProductFactory, tmp_path: Path) -> None:
    product = product_factory(1)
    topic = product.topics["lines"]
    product.send(lines(100, "course-a"))
    watch = product.watch()
    instance = product.instance("a").start()
    watch.wait_for(100, "the lines before it", product.tails)
    offset = product.admin.offsets(topic)[0]
    poison = encode({"learner_id": "learner-of-secret", "line_type": "gift"})
    product.send_raw(poison, timestamp_ms=START_MS)
    product.send(lines(50, "course-a", start=100))
    dry = tmp_path / "never.jsonl"

    def refused(at: int) -> str:
        place = Place(topic, 0, at)
        with pytest.raises(RefusedError) as caught:
            skip(product.bootstrap, SkipRequest(product.application_id, place, "why", "anna", {topic}), dry)
        return str(caught.value)

    assert instance.exit_code() == 1, instance.tail()
    before = product.admin.committed(product.application_id)
    assert f"stands before the record at offset {offset}" in refused(offset + 1)
    assert "the job does not read other" in str(refused_topic(product))
    there = SkipRequest(product.application_id, Place(topic, 0, offset), "why", "anna", {topic})
    expected = skip(product.bootstrap, there, dry, dry_run=True)
    assert not dry.exists()
    assert product.admin.committed(product.application_id) == before

    where = ["--partition", "0", "--offset", str(offset)]
    command(instance, "skip-record", *where, "--reason", "a producer under test", "--by", "anna", code=0)
    (written,) = read_adjustments(instance.directory / "course-revenue-adjustments.jsonl")
    assert written == msgspec.structs.replace(expected, at=written.at, reason="a producer under test")
    assert written.sha256 == hashlib.sha256(poison).hexdigest()
    after = product.admin.committed(product.application_id)
    assert after == {**before, (topic, 0): (offset + 1, before[topic, 0][1])}

    instance.start()
    watch.wait_for(150, "the lines behind it", product.tails)
    assert "has live members" in refused(offset)
    instance.stop()
    assert "past it already" in refused(offset)
    assert watch.latest() == product.sums.totals()
    assert "0 not decodable, 1 skipped by hand" in command(instance, "reconcile", code=0)


def test_each_of_many_poison_records_is_skipped_by_one_call(product_factory: ProductFactory) -> None:
    product = product_factory(4)
    topic = product.topics["lines"]
    product.load(2000, courses=40, seed=3)
    ends = product.admin.offsets(topic)
    good = encode({"learner_id": "learner-of-secret", "line_type": "sale"})
    torn: list[tuple[bytes, bytes]] = [
        (b"{", b'{"order_id":"x","line_id":"y"}'),
        (encode({"learner_id": "learner-of-secret", "line_type": "gift"}), b'{"order_id":"x","line_id":"y"}'),
        (b'{"line_type":7}', b'{"order_id":"x","line_id":"y"}'),
        (good, b"no key"),
    ]
    for partition, (value, key) in enumerate(torn):
        product.send_raw(value, key=key, partition=partition, timestamp_ms=START_MS)
    product.load(1000, courses=40, seed=4)
    instance = product.instance("a").start()
    assert instance.exit_code() == 1, instance.tail()
    for partition in (3, 1, 2, 0):
        where = ["--partition", str(partition), "--offset", str(ends[partition])]
        command(instance, "skip-record", *where, "--reason", "torn", "--by", "anna", code=0)
    watch = product.watch()
    instance.start()
    watch.wait_for(product.sums.lines, "the lines behind them", product.tails)
    instance.stop()
    assert watch.latest() == product.sums.totals()
    assert "4 skipped by hand" in command(instance, "reconcile", code=0)


def refused_topic(product: Product) -> RefusedError:
    request = SkipRequest(product.application_id, Place("other", 0, 0), "why", "anna", {"topic"})
    with pytest.raises(RefusedError) as caught:
        skip(product.bootstrap, request, Path("never"))
    return caught.value
