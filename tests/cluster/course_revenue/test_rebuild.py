"""Rebuilds: the totals made anew from the first line on, while somebody reads them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from cluster.course_revenue.product import START_MS, command, encode, lines, wait_until
from cluster.course_revenue.test_reset import everything
from course_revenue.following import JobOffsets, Watched

from headrace.errors import KafkaException
from headrace.records import OffsetAndMetadata, TopicPartition
from headrace.topics import TopicAdmin, TransactionalWriter

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.course_revenue.conftest import ProductFactory
    from cluster.course_revenue.product import Product


def test_what_a_producer_has_aborted_at_the_end_is_not_waited_for(product_factory: ProductFactory) -> None:
    """A rebuild did not end until another line came."""
    product = product_factory(1)
    topic = product.topics["lines"]
    product.send(lines(3, "course-a"))
    with TransactionalWriter(product.bootstrap, f"{product.application_id}-producer") as writer:
        for record in lines(300, "course-b"):
            writer.send(topic, record.key, record.value)
        wait_until(lambda: product.admin.offsets(topic)[0] > 300, "they lie in the topic")
        writer.abort()
    partition = TopicPartition(topic, 0)
    admin = TopicAdmin({"bootstrap.servers": product.bootstrap})

    def committed(offset: int) -> bool:
        # brokers that have had no group yet make the topic of offsets first
        with contextlib.suppress(KafkaException):
            admin.alter_group_offsets(product.application_id, {partition: OffsetAndMetadata(offset, "")})
            return True
        return False

    watched = Watched(product.application_id, topic, (), frozenset())
    with contextlib.closing(admin), JobOffsets(product.bootstrap, watched, {}) as job:
        ends = {partition: product.admin.offsets(topic)[0]}
        wait_until(lambda: committed(2), "the group has an offset")
        assert not job.has_read(ends)
        assert committed(3)
        wait_until(lambda: job.has_read(ends), "nothing is left")


def test_a_line_is_not_counted_that_is_in_a_transaction_of_the_repartition_topic(
    product: Product, topic_factory: Callable[..., str]
) -> None:
    """Offsets are committed before a transaction's records are visible: a run with --once left most lines uncounted."""
    between = topic_factory("between", 1)
    watched = Watched(product.application_id, product.topics["lines"], (), frozenset({between}))
    with (
        JobOffsets(product.bootstrap, watched, {}) as job,
        TransactionalWriter(product.bootstrap, f"{product.application_id}-job") as writer,
    ):
        writer.send(between, b"course-a", b"1")
        wait_until(lambda: product.admin.offsets(between)[0] == 1, "it is in the topic")
        written = job.written()
        assert written == {TopicPartition(between, 0): 1}
        assert not job.has_counted(written)
        writer.commit()
        assert not job.has_counted(written), "it is visible, and read by nobody"


@pytest.mark.streams_protocol
def test_a_rebuild_ends_with_the_same_totals_for_a_reader_that_overwrites_by_key(product: Product) -> None:
    watch = product.watch(exactly_once=False)
    a = product.instance("a", group_protocol="streams").start()
    product.load(1_500)
    poison_at = product.admin.offsets(product.topics["lines"])[0]
    watch.wait_for(1_500, "the totals", a.tail)
    said = command(a, "rebuild", "--yes", code=1)
    assert "refused: instances are live: streams group" in said
    assert "kill -TERM" in said
    assert a.running
    # a record that was skipped by hand: a rebuild meets it again
    product.send_raw(encode({"learner_id": "learner-of-secret"}), timestamp_ms=START_MS, partition=0)
    assert a.exit_code() == 1
    where = ("--partition", "0", "--offset", str(poison_at))
    command(a, "skip-record", *where, "--reason", "a producer under test")
    product.load(500, seed=2)
    a.start()
    watch.wait_for(2_000, "the lines behind it", a.tail)
    a.stop()
    totals = watch.latest()
    assert totals == product.sums.totals()

    before = everything(product)
    said = command(a, "rebuild", "--dry-run")
    assert f"delete topic {product.changelog}" in said
    assert "read about 2,001 lines again" in said
    assert "pass again 1 records" in said
    assert f"remove the local state in {a.state_dir / product.application_id}" in said
    assert "nobody is at a terminal" in command(a, "rebuild", code=1)
    assert everything(product) == before

    seen = len(watch.values)
    said = command(a, "rebuild", "--yes")
    assert f"passed {product.topics['lines']}-0@{poison_at} again: a producer under test" in said
    assert "2,001 of 2,001" in said
    assert f"the totals of {len(totals)} courses agree with the input" in said
    watch.wait_for(2_000, "the totals once more", a.tail)
    assert watch.latest() == totals
    assert len(watch.values) > seen
    assert "courses agree" not in command(a, "rebuild", "--yes", "--no-run")

    product.admin.delete_records(product.topics["lines"], 3, 7)
    said = command(a, "rebuild", "--yes", code=1)
    assert "up to 7 of them" in said
    assert "--from-gap" in said
    assert "without 7 lines" in command(a, "rebuild", "--dry-run", "--from-gap")
