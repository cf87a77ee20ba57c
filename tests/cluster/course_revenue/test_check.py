"""The check against a real broker, by itself and before a run."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from typing import TYPE_CHECKING

from cluster.course_revenue.product import command, wait_until
from confluent_kafka.admin import AdminClient
from course_revenue import preflight
from course_revenue.settings import Settings, without_product_keys

from headrace import StreamsConfig, TopicPartition
from headrace.topics import TopicAdmin

if TYPE_CHECKING:
    from cluster.course_revenue.conftest import ProductFactory
    from cluster.course_revenue.product import Product


def test_a_run_with_once_counts_what_is_there_and_ends(product_factory: ProductFactory) -> None:
    product = product_factory(2)
    product.load(200, courses=5)
    instance = product.instance("a", commit_interval_ms=1_000)
    instance.configure()
    watch = product.watch()
    said = command(instance, "run", "--once")
    assert "SIGTERM: stopping" in said
    watch.wait_for(200, "all lines", said)
    assert watch.latest() == product.sums.totals()
    # there is nothing to do
    assert "SIGTERM: stopping" in command(instance, "run", "--once")


def test_the_check_sees_what_is_wrong_and_a_run_does_not_start(product: Product) -> None:
    properties = product.config()
    settings = Settings.of(properties)

    def found() -> preflight.Findings:
        streams = StreamsConfig.load(without_product_keys(properties))
        return preflight.check(product.bootstrap, "app.properties", settings, streams)

    assert found() == preflight.Findings()
    product.admin.delete_topics([settings.output])
    assert [refusal.what for refusal in found().refusals] == [f"topic {settings.output} does not exist"]
    instance = product.instance("a").start()
    assert instance.exit_code() == 1
    assert f"topic {settings.output} does not exist" in instance.log()
    assert "state REBALANCING" not in instance.log()
    config = str(instance.directory / "app.properties")
    done = subprocess.run(
        [sys.executable, "-m", "course_revenue", "check", "--config", config],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"course-revenue topics --config {config}" in done.stdout
    made_by = ": course-revenue topics, with the same --config and --set, makes the product's topics (the rejected one"
    assert f"there is no topic {settings.output}" in (said := command(instance, "totals", code=1))
    assert made_by in said
    product.admin.delete_topics([settings.lines])
    said = command(instance, "load", "--lines", "100000", code=1)
    assert f"there is no topic {settings.lines}" in said
    assert made_by in said
    assert not product.admin.read(settings.courses)


def test_a_job_whose_offsets_are_gone_does_not_count_on_top_of_its_totals(product_factory: ProductFactory) -> None:
    """The brokers forget the offsets of a group that is empty for a week; or somebody deletes those of one topic."""
    product = product_factory(1)
    product.load(50, courses=2)
    instance = product.instance(
        "a", processing_guarantee="at_least_once", repartition_purge_interval_ms=100, commit_interval_ms=100
    ).start()
    watch = product.watch(exactly_once=False)
    watch.wait_for(50, "all lines", instance.tail)
    with contextlib.closing(TopicAdmin({"bootstrap.servers": product.bootstrap})) as admin:
        (repartition,) = (name for name in admin.list_topics() if name.endswith("-repartition"))
        place = TopicPartition(repartition, 0)
        wait_until(lambda: admin.list_offsets([place], "earliest")[place] > 0, "records that were counted are deleted")
    instance.stop()
    client = AdminClient({"bootstrap.servers": product.bootstrap})
    client.delete_consumer_groups([product.application_id])[product.application_id].result(timeout=30)
    instance.start()
    assert instance.exit_code() == 1
    assert "would count every line once more on top of them" in instance.log()
    assert watch.latest() == product.sums.totals()
