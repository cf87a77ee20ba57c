"""Replaying from the rejected topic: as it was, once, and never while it is not known what was replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cluster.course_revenue.killed import killed_before
from cluster.course_revenue.product import START_MS, Product, command, lines, wait_until
from course_revenue import headers
from course_revenue.errors import RefusedError
from course_revenue.headers import Place
from course_revenue.model import PurchaseLine
from course_revenue.rejected import RejectedLine, Selection, only_writer, read_rejected, replay
from course_revenue.settings import Settings

from headrace.errors import TimeoutException
from headrace.serdes import JsonDeserializer
from headrace.topics import TopicWriter, TransactionalWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.course_revenue.conftest import ProductFactory

    from headrace.topics import TopicRecord


def decode(record: TopicRecord) -> PurchaseLine | None:
    return JsonDeserializer(PurchaseLine).deserialize("t", record.value)


def replayed(
    product: Product, settings: Settings, selection: Selection, timeout_s: float = 60.0, *, dry_run: bool = False
) -> Sequence[RejectedLine]:
    return replay(
        product.bootstrap,
        settings,
        product.application_id,
        selection,
        decode,
        by="tester",
        dry_run=dry_run,
        timeout_s=timeout_s,
    ).lines


def test_rejected_lines_go_in_again_as_they_were_and_once(product_factory: ProductFactory) -> None:
    product = product_factory(2)
    names = product.topics
    settings = Settings(names["lines"], names["courses"], names["output"], names["rejected"])
    place, late = Selection(places=frozenset({(0, 0)})), Selection(reasons=frozenset({"late"}))
    first, second, third = lines(3, "course-a")
    with TopicWriter(product.bootstrap) as writer:
        for number, line in enumerate((first, second)):
            writer.send(
                settings.rejected,
                line.key,
                line.value,
                timestamp_ms=line.timestamp_ms,
                headers=[
                    ("trace", b"1"),
                    (headers.REASON, b"late"),
                    *headers.source_headers(Place(settings.lines, 1, 7 + number)),
                ],
                partition=0,
            )
    assert [line.place for line in replayed(product, settings, Selection(), dry_run=True)] == [(0, 0), (0, 1)]
    assert product.admin.read(settings.lines) == []

    # the job, in the middle of a transaction: what is behind its first record cannot be seen by a reader yet
    with TransactionalWriter(product.bootstrap, f"{product.application_id}-job") as job:
        job.send(settings.rejected, third.key, third.value, headers=[(headers.REASON, b"late")], partition=0)
        wait_until(lambda: product.admin.offsets(settings.rejected)[0] == 3, "the record of the open transaction")
        with pytest.raises(TimeoutException):
            replayed(product, settings, place, timeout_s=1.0)

    assert [line.place for line in replayed(product, settings, place)] == [(0, 0)]
    assert [line.place for line in replayed(product, settings, late)] == [(0, 1), (0, 2)]
    assert replayed(product, settings, Selection()) == []
    found = {record.value: record for record in product.admin.read(settings.lines)}
    assert found.keys() == {first.value, second.value, third.value}
    assert found[first.value].content() == (
        1,
        START_MS,
        first.key,
        first.value,
        (
            ("trace", b"1"),
            *headers.source_headers(Place(settings.lines, 1, 7)),
            (headers.REPLAYED_PARTITION, b"0"),
            (headers.REPLAYED_OFFSET, b"0"),
        ),
    )
    assert [line.replayed for line in read_rejected(product.bootstrap, settings)] == [True] * 3


def test_a_line_is_not_both_read_again_by_a_rebuild_and_replayed(product_factory: ProductFactory) -> None:
    product = product_factory(2)
    names = product.topics
    settings = Settings(names["lines"], names["courses"], names["output"], names["rejected"])
    a = product.instance("a", course_revenue_on_broken_line="reject").start()
    watch = product.watch()
    good, other = lines(2, "course-a")
    key, gift = other.key, other.value.replace(b'"sale"', b'"gift"')
    product.send_raw(gift, key, timestamp_ms=START_MS, partition=0)
    product.send([good])
    watch.wait_for(1, "the line that is right", a.tail)
    wait_until(lambda: read_rejected(product.bootstrap, settings), "the other one is rejected", detail=a.tail)
    a.stop()
    before = product.admin.read(settings.lines)

    # of a rebuild that has changed nothing there is no word: the job may go on where it was
    killed_before("headrace.topics:TopicAdmin.delete_topics", a, "rebuild", "--yes")
    assert [line.read_again for line in read_rejected(product.bootstrap, settings)] == [False]

    # a replay has chosen the line, and sent it, when a rebuild begins; that is killed before a line can be read again
    def replay_meanwhile() -> None:
        with only_writer(product.bootstrap, product.application_id) as writer:
            writer.send(settings.lines, key, gift)
            killed_before("headrace.topics:TopicAdmin.alter_group_offsets", a, "rebuild", "--yes")

    with pytest.raises(RefusedError, match="a rebuild or a switch of course-revenue"):
        replay_meanwhile()
    assert product.admin.read(settings.lines) == before
    # and one that begins now knows of the rebuild, which is given once more
    assert replayed(product, settings, Selection()) == []
    assert "agree with the input" in command(a, "rebuild", "--yes")
    assert product.admin.read(settings.lines) == before
