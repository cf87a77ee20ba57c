"""The product on a broker with ACLs, allowed exactly what ``course-revenue acls`` prints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cluster.course_revenue.java import java
from cluster.course_revenue.product import Instance, Product, command, wait_until

from headrace.testing.broker import jars_directory
from headrace.topics import NewTopic, ensure_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cluster.security.broker import SecureBroker

BROKEN = b'{"order_id":"o","line_id":"l","unit_price_cents":1,"quantity":1,"line_type":"sale","event_time":1}'
TOOL = Path(__file__).with_name("AclCommands.java")


class Allowed:
    """A product whose instances connect as a user who may do what was printed for them.

    Attributes:
        product: Its topics; tests see them as a super user.
        user: Whom the broker asks.
    """

    def __init__(self, broker: SecureBroker, unique: Callable[[str], str], directory: Path) -> None:
        self._broker = broker
        self._directory = directory
        self.user = unique("user")
        topics = {key: unique(key) for key in ("lines", "courses", "output", "rejected")}
        compact = {"cleanup.policy": "compact"}
        configs: dict[str, dict[str, str]] = {"courses": compact, "output": compact}
        ensure_topics(broker.plain, [NewTopic(name, 2, config=configs.get(key, {})) for key, name in topics.items()])
        self.product = Product(broker.plain, directory, unique("course-revenue"), topics, 2)
        broker.make_user(self.user)

    def instance(self, name: str, **settings: Any) -> Instance:
        # a password has a quote and a backslash before it, which the file's format takes for its own
        secure = {
            key.replace(".", "_"): value.replace("\\", "\\\\")
            for key, value in self._broker.scram_user(self.user).items()
        }
        return self.product.instance(name, course_revenue_on_broken_line="reject", **secure, **settings)

    def acls(self, instance: Instance, *options: str) -> list[str]:
        """What the command prints for an instance's settings, without the tool's name."""
        instance.configure()
        lines = command(instance, "acls", "--principal", f"User:{self.user}", *options).splitlines()
        tool = f"kafka-acls.sh --bootstrap-server {self._broker.sasl}"
        assert all(line.startswith(f"{tool} --") for line in lines)
        # who changes ACLs comes another way
        return [f"--bootstrap-server {self._broker.plain}{line.removeprefix(tool)}" for line in lines]

    def carry_out(self, commands: list[str]) -> None:
        """Has Kafka's own tool do it."""
        file = self._directory / "commands"
        file.write_text("\n".join(commands), "utf-8")
        java(f"{jars_directory()}/*", str(TOOL), str(file))


@pytest.fixture
def allowed(broker: SecureBroker, unique: Callable[[str], str], tmp_path: Path) -> Iterator[Allowed]:
    made = Allowed(broker, unique, tmp_path)
    yield made
    made.product.close()


def test_the_job_runs_with_exactly_the_acls_that_are_printed_and_says_which_one_it_lacks(
    allowed: Allowed, broker: SecureBroker
) -> None:
    product = allowed.product
    job = allowed.instance("a")
    allowed.carry_out(allowed.acls(job))
    sent = product.load(300)
    product.send_raw(BROKEN)
    watch = product.watch()
    for protocol in ("classic", "streams"):
        job.start(group_protocol=protocol)
        watch.wait_for(sent, f"every line is counted under the {protocol} protocol", product.tails)
        assert watch.latest() == product.sums.totals()
        job.stop()
        assert "lacks" not in job.log()
        sent += product.load(100, seed=2)
    assert [dict(row.headers)["course-revenue.reason"] for row in product.admin.read(product.topics["rejected"])] == [
        b"missing_course_id"
    ]

    app, topics = product.application_id, product.topics
    for grant, says in (
        (("Write", "topic", topics["output"]), f"lacks (Describe|Write) on topic {topics['output']}"),
        (("Read", "group", app), f"lacks Read on group {app}"),
        (("Write", "transactional-id", f"{app}-*"), f"Write on transactional ids? .*{app}"),
    ):
        broker.forbid(allowed.user, [grant])
        assert job.start().exit_code() == 1, grant
        assert re.search(says, job.log()), job.log()
        broker.allow(allowed.user, [grant])


def test_what_stands_beside_the_job_needs_no_more_than_is_printed_either(
    allowed: Allowed, broker: SecureBroker
) -> None:
    product = allowed.product
    asking = allowed.instance("asking")
    job = product.instance("job", course_revenue_on_broken_line="reject").start()
    sent = product.load(200)
    product.send_raw(BROKEN)
    product.watch().wait_for(sent, "every line is counted", product.tails)
    job.stop()
    beside = (("check",), ("totals",), ("rejected", "list"))
    asked = [option for words in beside for option in ("--for", " ".join(words))]
    printed = allowed.acls(asking, *asked)
    for words in beside:
        assert "add --allow-principal User:NAME --operation" in command(asking, *words, code=1)
    allowed.carry_out(printed)
    for words in beside:
        command(asking, *words)
    allowed.carry_out(allowed.acls(asking, *asked, "--remove"))
    wait_until(lambda: "lacks" in command(asking, "totals", code=1), "the ACLs are gone")
