"""What others see of an application: Java's configs and metadata, Kafka's own tools, and the Java job's very bytes."""

from __future__ import annotations

import base64
import struct
from typing import TYPE_CHECKING, Any

from cluster.course_revenue.java import java
from cluster.course_revenue.product import OutputWatch, Product, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest
    from cluster.course_revenue.conftest import ProductFactory
    from cluster.course_revenue.java import JavaJob

REPARTITION = "KSTREAM-KEY-SELECT-0000000004-repartition"


def metadata(text: str) -> tuple[int, int]:
    """Version and partition time of a committed offset's metadata."""
    version, time_ms = struct.unpack(">bq", base64.b64decode(text, validate=True))
    return version, time_ms


def test_internal_topics_and_committed_offsets_are_as_java_makes_them(
    product: Product, kafka_tools: Callable[..., str]
) -> None:
    product.load(3_000)
    watch = product.watch()
    instances = [product.instance(name, repartition_purge_interval_ms=300).start() for name in "ab"]
    watch.wait_for(3_000, "the totals", product.tails)
    group, admin = product.application_id, product.admin
    repartition = product.internal(REPARTITION)
    changelogs = {product.changelog, product.internal(f"{product.topics['courses']}-STATE-STORE-0000000001-changelog")}
    made = {name: count for name, count in admin.topics().items() if name.startswith(f"{group}-")}
    assert made == dict.fromkeys({repartition, *changelogs}, 6)
    for name in changelogs:
        assert admin.topic_config(name) == {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}
    assert admin.topic_config(repartition) == {
        "cleanup.policy": "delete",
        "message.timestamp.type": "CreateTime",
        "retention.ms": "-1",
        "segment.bytes": "52428800",
    }

    wait_until(lambda: purged(product), "the repartition topic is purged up to its commits", detail=product.tails)
    assert all(
        start <= admin.committed(group)[repartition, n][0]
        for n, start in admin.offsets(repartition, "earliest").items()
    )

    # Kafka's own tools read what we wrote
    wait_until(lambda: len(admin.members(group)) == 2 and all(admin.members(group).values()), "two members")
    members = kafka_tools(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        *("--bootstrap-server", product.bootstrap, "--describe", "--group", group, "--members", "--verbose"),
    )
    rows = [line for line in members.splitlines() if line.startswith(group)]
    assert len(rows) == 2, members
    topics = {product.topics["lines"], product.topics["courses"], repartition}
    for name in topics:
        assert members.count(f"{name}(") + members.count(f"{name}:") >= 2, members
    offsets = kafka_tools(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        *("--bootstrap-server", product.bootstrap, "--describe", "--group", group),
    )
    table = [line.split() for line in offsets.splitlines() if line.startswith(group)]
    assert {(row[1], int(row[2])) for row in table} >= {(name, n) for name in topics for n in range(6)}, offsets
    owners = {row[6] for row in table}
    assert "-" not in owners, offsets
    assert len(owners) == 2, offsets
    assert {row[5] for row in table} == {"0"}, f"lag where everything is processed:\n{offsets}"
    for name in made:
        described = kafka_tools(
            "org.apache.kafka.tools.TopicCommand",
            *("--bootstrap-server", product.bootstrap, "--describe", "--topic", name),
        )
        assert "PartitionCount: 6" in described
    # as the transactions committed it, nothing being closed yet, the text is Java's to the last byte: version and time
    newest: dict[int, int] = {}
    for record in admin.read(product.topics["lines"]):
        newest[record.partition] = max(newest.get(record.partition, -1), record.timestamp)
    ends = admin.offsets(product.topics["lines"])
    for number, time_ms in newest.items():
        offset, text = admin.committed(group)[product.topics["lines"], number]
        assert (offset, metadata(text)) == (ends[number], (2, time_ms))

    for one in instances:
        one.stop()
    state = kafka_tools(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        *("--bootstrap-server", product.bootstrap, "--describe", "--group", group, "--state"),
    )
    assert "Empty" in state


def purged(product: Product) -> bool:
    """Whether the repartition topic had records, and those committed are deleted."""
    repartition = product.internal(REPARTITION)
    committed = product.admin.committed(product.application_id)
    starts = product.admin.offsets(repartition, "earliest")
    return starts == {number: committed[repartition, number][0] for number in starts} and max(starts.values()) > 0


def test_what_one_instance_did_not_purge_the_next_one_does(product_factory: ProductFactory) -> None:
    product = product_factory(2)
    product.load(500)
    watch = product.watch()
    first = product.instance("a", repartition_purge_interval_ms=3_600_000).start()
    watch.wait_for(500, "the totals", product.tails)
    first.stop()
    assert not purged(product)
    # it has nothing to process, and so nothing to commit
    product.instance("b", repartition_purge_interval_ms=300).start()
    wait_until(lambda: purged(product), "what was left is deleted", detail=product.tails)


def internal(product: Product, application_id: str) -> dict[str, tuple[int, dict[str, str]]]:
    """The internal topics of an application without its id: partitions and configs."""
    return {
        name.removeprefix(f"{application_id}-"): (count, product.admin.topic_config(name))
        for name, count in product.admin.topics().items()
        if name.startswith(f"{application_id}-")
    }


def test_every_record_equals_the_java_jobs(
    product_factory: ProductFactory,
    java_job: Callable[..., JavaJob],
    topic_factory: Callable[..., str],
    request: pytest.FixtureRequest,
) -> None:
    product = product_factory(1)
    # courses first, rising times
    product.load(3_000, late=0.0)
    settings: dict[str, Any] = {"statestore_cache_max_bytes": 0, "repartition_purge_interval_ms": 3_600_000}
    java_output = topic_factory("java-output", 1, {"cleanup.policy": "compact"})
    java_watch = OutputWatch(product.bootstrap, java_output, 1)
    request.addfinalizer(java_watch.close)
    job = java_job(product, java_output, **settings)
    watch = product.watch()
    instance = product.instance("a", **settings).start()
    watch.wait_for(3_000, "our totals", product.tails)
    java_watch.wait_for(3_000, "Java's totals", job.tail)
    instance.stop()
    job.stop()
    ours, theirs = internal(product, product.application_id), internal(product, job.application_id)
    assert ours == theirs
    pairs = {name: (product.internal(name), f"{job.application_id}-{name}") for name in ours}
    pairs["output"] = (product.topics["output"], java_output)
    for name, (one, other) in pairs.items():
        mine, java_s = ([r.content() for r in product.admin.read(topic)] for topic in (one, other))
        for number, (left, right) in enumerate(zip(mine, java_s, strict=False)):
            assert left == right, f"record {number} of {name}"
        assert len(mine) == len(java_s), name
    assert len(product.admin.read(product.topics["output"])) == 3_000
    committed = product.admin.committed(product.application_id)
    java_committed = product.admin.committed(job.application_id)
    for topic in (product.topics["lines"], product.topics["courses"]):
        assert committed[topic, 0] == java_committed[topic, 0]
    # only the markers in the repartition topics differ, with the number of commits
    assert committed[product.internal(REPARTITION), 0][1] == java_committed[f"{job.application_id}-{REPARTITION}", 0][1]


def test_latest_totals_equal_the_java_jobs_on_the_load_of_the_java_loader(
    product_factory: ProductFactory,
    java_job: Callable[..., JavaJob],
    topic_factory: Callable[..., str],
    job_class_path: str,
    request: pytest.FixtureRequest,
) -> None:
    product = product_factory()
    # the loader makes its topics itself
    product.admin.delete_topics([product.topics["lines"], product.topics["courses"]])
    wait_until(
        lambda: (
            product.topics["lines"] not in product.admin.topics()
            and product.topics["courses"] not in product.admin.topics()
        ),
        "the topics are gone",
    )
    expect = product.directory / "expect.tsv"
    names = {f"topic.{key}": product.topics[key] for key in ("lines", "courses")}
    options = {"bootstrap": product.bootstrap, **names, "partitions": 6, "n": 50_000, "seed": 7, "expect": expect}
    java(job_class_path, "Loader", *(f"{key}={value}" for key, value in options.items()))
    java_output = topic_factory("java-output", 6, {"cleanup.policy": "compact"})
    java_watch = OutputWatch(product.bootstrap, java_output, 6)
    request.addfinalizer(java_watch.close)
    job = java_job(product, java_output)
    watch = product.watch()
    instance = product.instance("a").start()
    watch.wait_for(50_000, "our totals", product.tails)
    java_watch.wait_for(50_000, "Java's totals", job.tail)
    instance.stop()
    job.stop()
    latest = {name: {r.key: r for r in product.admin.read(name)} for name in (product.topics["output"], java_output)}
    ours, theirs = latest[product.topics["output"]], latest[java_output]
    assert {k: (r.partition, r.value, r.timestamp) for k, r in ours.items()} == {
        k: (r.partition, r.value, r.timestamp) for k, r in theirs.items()
    }
    rows = [line.split("\t") for line in expect.read_text(encoding="utf-8").splitlines()]
    sums = {row[0]: (int(row[1]), int(row[2]), int(row[4])) for row in rows}
    assert watch.latest() == sums
    flags = {course: total["dimension_missing"] for course, total in watch.totals.items()}
    assert flags == {row[0]: row[3] == "true" for row in rows}
    assert internal(product, product.application_id) == internal(product, job.application_id)
