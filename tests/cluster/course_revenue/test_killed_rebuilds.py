"""Rebuilds that are killed between two of their steps, and given again, while somebody reads the totals."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from cluster.course_revenue.killed import killed_before
from cluster.course_revenue.product import command, encode, lines, wait_until

from headrace.topics import NewTopic, TopicAdmin, TopicWriter

if TYPE_CHECKING:
    from cluster.course_revenue.product import Instance, Product


def refused(instance: Instance) -> str:
    """What an instance says that does not start."""
    assert instance.start().exit_code() == 1
    assert "the job does not start" in instance.log(), instance.tail()
    assert "state REBALANCING" not in instance.log()
    return instance.log()


def test_a_rebuild_begins_anew_and_until_then_no_instance_counts_on_top_of_what_is_there(product: Product) -> None:
    watch = product.watch(exactly_once=False)
    a = product.instance("a", group_protocol="streams").start()
    product.load(400, courses=10)
    watch.wait_for(400, "the totals", a.tail)
    a.stop()
    right, seen = watch.latest(), len(watch.values)
    assert right == product.sums.totals()

    # without topics, with the offsets of before
    killed_before("headrace.topics:TopicAdmin.delete_group", a, "rebuild", "--yes")
    wait_until(lambda: product.changelog not in product.admin.topics(), "the changelog is gone")
    assert product.admin.committed(product.application_id)
    said = refused(a)
    assert f"{product.changelog} is missing, though {product.application_id} has counted lines" in said
    assert f"course-revenue rebuild --config {a.config_file}" in said
    # without topics and without offsets: the group was deleted, and they are not set to the start yet
    killed_before("headrace.topics:TopicAdmin.alter_group_offsets", a, "rebuild", "--yes")
    assert not product.admin.committed(product.application_id)
    assert (len(watch.values), watch.latest()) == (seen, right)
    # with an instance of its own that has just been started: it ends with the command
    killed_before("course_revenue.following:JobOffsets.has_read", a, "rebuild", "--yes")

    said = command(a, "rebuild", "--yes")
    assert f"the totals of {len(right)} courses agree with the input" in said
    watch.wait_for(400, "the totals once more", said)
    assert watch.latest() == right
    a.start()
    product.send(lines(50, "course-a"))
    watch.wait_for(450, "the job goes on", a.tail)
    assert watch.latest() == product.sums.totals()
    a.stop()
    # somebody has deleted the totals' changelog, and made it anew
    product.admin.delete_topics([product.changelog])
    with closing(TopicAdmin({"bootstrap.servers": product.bootstrap})) as admin:
        admin.create_topics([NewTopic(product.changelog, 6, config={"cleanup.policy": "compact"})])
    assert f"{product.changelog} is empty, though {product.topics['output']} has totals" in refused(a)
    assert "agree with the input" in command(a, "rebuild", "--yes")
    # what the brokers do to a job that is stopped for a week
    with closing(TopicAdmin({"bootstrap.servers": product.bootstrap})) as admin:
        admin.delete_group(product.application_id)
    said = refused(a)
    assert f"has no committed offsets of {product.topics['lines']}, but {product.changelog} has totals" in said
    assert watch.latest() == product.sums.totals()


def test_a_switch_goes_on_where_it_was_and_its_job_stays_down(product: Product) -> None:
    output = product.topics["output"]
    watch = product.watch()
    a = product.instance("a").start()
    product.load(200, courses=5)
    watch.wait_for(200, "the totals", a.tail)
    right = watch.latest()
    # everything is counted, and nothing compared
    killed_before("course_revenue.shadow:compare", a, "rebuild", "--shadow", "--yes")
    assert a.running
    assert "which goes on where it was" in command(a, "rebuild", "--shadow", "--yes")
    watch.check()
    assert watch.latest() == right
    # a total that is wrong: there is something to put right
    wrong = {"course_id": "course-000000", "net_cents": 1, "line_count": 1}
    with TopicWriter(product.bootstrap) as writer:
        total = encode(wrong | {"dimension_missing": False, "updated_event_time": 1})
        writer.send(output, b"course-000000", total)
    wait_until(lambda: watch.violations, "the reader sees the wrong total")
    watch.violations.clear()
    a.stop()
    switch = ("rebuild", "--shadow", "--switch", "--yes")

    # the job is given up, and the totals are in a transaction that is not committed
    killed_before("headrace.topics:TransactionalWriter.commit", a, *switch)
    assert watch.latest()["course-000000"][1] == 1
    said = refused(a)
    assert f"a switch from {product.application_id} to {product.application_id}-v2 was begun and has not ended" in said
    assert "is taking the place" in command(a, "rebuild", "--shadow", "--yes", code=1)
    assert "was begun and has not ended" in command(a, "rebuild", "--yes", code=1)
    # the totals are in place
    said = killed_before("course_revenue.shadow:drop_topics", a, *switch)
    assert "1 totals that differed (1 in cents or lines" in said
    watch.wait_for(200, "the total that is put right", said)
    assert watch.latest() == right
    assert f"{product.application_id}-v2 has taken the place of {product.application_id}" in refused(a)
    # nothing is left but the file
    said = killed_before("course_revenue.shadow:write_config", a, *switch)
    assert "totals that differed" not in said
    wait_until(lambda: f"{output}.v2" not in product.admin.topics(), "the shadow's topic is gone")
    said = command(a, *switch)
    new = a.directory / "app-v2.properties"
    assert f"course-revenue run --config {new}" in said
    assert f"application.id={product.application_id}-v2\n" in new.read_text("utf-8")

    a.start(application_id=f"{product.application_id}-v2")
    product.send(lines(50, "course-a"))
    watch.wait_for(250, "the job goes on under its new id", a.tail)
    assert watch.latest() == product.sums.totals()
    watch.check()
    a.stop()
