"""The runbook's section on brokers that refuse, with a broker that does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.course_revenue.java import java
from cluster.course_revenue.product import Product, lines
from cluster.course_revenue.runbook import Scenario
from cluster.security.test_refusals import documented
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # its __init__ re-exports it

from headrace.testing.broker import jars_directory

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cluster.security.broker import SecureBroker


def test_a_missing_permission_on_the_group(broker: SecureBroker, unique: Callable[[str], str], tmp_path: Path) -> None:
    user, topics = unique("user"), {key: unique(key) for key in ("lines", "courses", "output", "rejected")}
    product = Product(broker.plain, tmp_path, unique("course-revenue"), topics, 1)
    compacted = {"cleanup.policy": "compact"}
    configs = {"lines": {"retention.ms": "-1"}, "courses": compacted, "output": compacted}
    product.admin.create_topics([NewTopic(topics[key], 1, 1, config=config) for key, config in configs.items()])
    names = {"my-application": product.application_id, "my-input": topics["lines"], "my-output": topics["output"]}
    broker.make_user(user)
    looked_at = [("DescribeConfigs", "topic", topics[key]) for key in configs]
    broker.allow(user, [*documented(names), ("Read", "topic", topics["courses"]), *looked_at])
    broker.forbid(user, [("Read", "group", product.application_id)])
    # a backslash begins an escape in a properties file
    settings = {key.replace(".", "_"): text.replace("\\", "\\\\") for key, text in broker.scram_user(user).items()}
    a = product.instance("a", **{**settings, "bootstrap_servers": broker.sasl})
    product.send(lines(10, "course-a"))
    watch = product.watch()
    try:
        a.start()
        assert a.exit_code() == 1
        assert f"--operation Read --group {product.application_id}" in a.log(), a.tail()

        def tools(*arguments: str) -> str:
            return java(f"{jars_directory()}/*", *arguments)

        with Scenario("The brokers refuse", product, a, tools, {"User:course-revenue": f"User:{user}"}) as refused:
            refused.run("kafka-acls.sh")
            refused.run("course-revenue check")
            refused.run("course-revenue run")
        watch.wait_for(10, "the totals", a.tail)
    finally:
        product.close()
