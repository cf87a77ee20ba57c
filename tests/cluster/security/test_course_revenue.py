"""The product on a broker with ACLs, allowed exactly what ``course-revenue acls`` prints."""

from __future__ import annotations

import re
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cluster.course_revenue.java import java
from cluster.course_revenue.product import Instance, Product, command, wait_until
from cluster.course_revenue.test_reset import everything, reset
from cluster.instances import Instance as AnyInstance
from course_revenue import headers
from course_revenue.cli import app
from typer.testing import CliRunner

from headrace.testing.broker import jars_directory
from headrace.testing.processes import free_port
from headrace.topics import NewTopic, TopicWriter, ensure_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cluster.security.broker import Grant, SecureBroker

BROKEN = b'{"order_id":"o","line_id":"l","unit_price_cents":1,"quantity":1,"line_type":"sale","event_time":1}'
TOOL = Path(__file__).with_name("AclCommands.java")


class Allowed:
    """A product whose commands connect as users who may do what was printed for them.

    Attributes:
        product: Its topics; tests see them as a super user.
        user: Whom the broker asks for the job.
    """

    def __init__(self, broker: SecureBroker, unique: Callable[[str], str], directory: Path) -> None:
        self._broker = broker
        self._directory = directory
        self.user = unique("user")
        topics = {key: unique(key) for key in ("lines", "courses", "output", "rejected")}
        compact = {"cleanup.policy": "compact"}
        configs: dict[str, dict[str, str]] = {"courses": compact, "output": compact, "lines": {"retention.ms": "-1"}}
        ensure_topics(broker.plain, [NewTopic(name, 2, config=configs.get(key, {})) for key, name in topics.items()])
        self.product = Product(broker.plain, directory, unique("course-revenue"), topics, 2)
        broker.make_user(self.user)

    def instance(self, name: str, user: str | None = None, **settings: Any) -> Instance:
        """With the settings of a user; else of the job's."""
        # a password has a quote and a backslash before it, which the file's format takes for its own
        secure = {
            key.replace(".", "_"): value.replace("\\", "\\\\")
            for key, value in self._broker.scram_user(user or self.user).items()
        }
        return self.product.instance(name, course_revenue_on_broken_line="reject", **secure, **settings)

    def acls(self, instance: Instance, *options: str, user: str | None = None) -> list[str]:
        """What the command prints for an instance's settings, without the tool's name."""
        instance.configure()
        asked = ["acls", "--config", str(instance.config_file), "--principal", f"User:{user or self.user}", *options]
        done = CliRunner().invoke(app, asked)
        assert done.exit_code == 0, done.output
        tool = f"kafka-acls.sh --bootstrap-server {self._broker.sasl}"
        lines = done.stdout.splitlines()
        assert all(line.startswith(f"{tool} --") for line in lines)
        # who changes ACLs comes another way
        return [f"--bootstrap-server {self._broker.plain}{line.removeprefix(tool)}" for line in lines]

    def carry_out(self, commands: list[str]) -> None:
        """Has Kafka's own tool do it."""
        file = self._directory / "commands"
        file.write_text("\n".join(commands), "utf-8")
        java(f"{jars_directory()}/*", str(TOOL), str(file))

    def users(self, *commands: str) -> dict[str, Instance]:
        """For each command an instance that was not started, of a user who may do what is printed for it."""
        made: dict[str, Instance] = {}
        printed: list[str] = []
        for number, words in enumerate(commands):
            user = f"{self.user}-{number}"
            self._broker.make_user(user)
            made[words] = self.instance(words.replace(" ", ""), user)
            printed += self.acls(made[words], "--for", words, user=user)
        self.carry_out(printed)
        return made

    @contextmanager
    def without(self, instance: Instance, *grant: *Grant) -> Iterator[None]:
        """One grant less, of an instance's user."""
        user = str(instance.config["sasl.jaas.config"]).partition('username="')[2].partition('"')[0]
        self._broker.forbid(user, [grant])
        yield
        self._broker.allow(user, [grant])


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


def test_readers_and_operators_each_with_what_is_printed_for_it(allowed: Allowed, broker: SecureBroker) -> None:
    product = allowed.product
    app_id, topics = product.application_id, product.topics
    job = product.instance("job", course_revenue_on_broken_line="reject").start()
    sent = product.load(200, courses=5)
    product.send_raw(BROKEN)
    watch = product.watch()
    watch.wait_for(sent, "every line is counted", product.tails)
    users = allowed.users(
        *("load", "lake", "dashboard", "reconcile", "rejected replay", "reset"),
        *("rebuild --shadow", "rebuild --shadow --switch", "rehearse"),
    )

    load, lake, reconcile = users["load"], users["lake"], users["reconcile"]
    table = ("lake", "--once", "--table", str(lake.directory / "table"))
    command(lake, *table)
    assert "5 courses: " in command(reconcile, "reconcile")
    for instance, words, grant in (
        (lake, table, ("Read", "topic", topics["output"])),
        (reconcile, ("reconcile",), ("Read", "topic", topics["lines"])),
        (reconcile, ("reconcile",), ("Describe", "group", app_id)),
    ):
        with allowed.without(instance, *grant):
            assert re.search(lacking(*grant), command(instance, *words, code=1)), (words, grant)
    command(load, "load", "--lines", "20", "--courses", "2")
    pages(users["dashboard"], topics["output"], allowed)
    replays(users["rejected replay"], product, allowed)

    shadow, switch = users["rebuild --shadow"], users["rebuild --shadow --switch"]
    building = ("rebuild", "--shadow", "--yes")
    with allowed.without(shadow, "Create", "topic", f"{topics['output']}.v2"):
        assert f"Create on topic {topics['output']}.v2" in command(shadow, *building, code=1)
    assert "the shadow agrees with the input" in command(shadow, *building)
    job.stop()
    with allowed.without(switch, "Write", "transactional-id", f"{app_id}-rejected-replay"):
        assert f"Write on transactional id {app_id}-rejected-replay" in command(switch, *building, "--switch", code=1)
    assert "start the instances with the new file" in command(switch, *building, "--switch")

    # what the job has left: one changelog that may not be seen is not left there without a word
    before = everything(product)
    with allowed.without(users["reset"], "Delete", "topic", product.changelog):
        said = reset(users["reset"], code=1)
    assert re.search(lacking("Delete", "topic", product.changelog), said), said
    assert everything(product) == before
    reset(users["reset"], code=0)

    def left() -> list[str]:
        return [name for name in product.admin.topics() if name.startswith(f"{app_id}-") and f"{app_id}-v2" not in name]

    wait_until(lambda: not left(), "its internal topics are gone", detail=left)

    day = ("rehearse", "--minutes", "0.1", "--rate", "20", "--courses", "5", "--directory", "days")
    assert "within the budget" in command(users["rehearse"], *day)
    assert not [name for name in product.admin.topics() if "rehearsal" in name]


def replays(instance: Instance, product: Product, allowed: Allowed) -> None:
    """A line that the release of now takes goes in again, and without one of its grants it does not."""
    lines, rejected = product.topics["lines"], product.topics["rejected"]
    good = next(record for record in product.admin.read(lines) if record.value != BROKEN)
    # of a time whose lines are gone: else it would be the one that the replay takes the place of
    place = headers.source_headers(headers.Place(lines, good.partition, 1_000_000))
    with TopicWriter(product.bootstrap) as writer:
        writer.send(rejected, good.key, good.value, headers=[(headers.REASON, b"late"), *place])
    replay = ("rejected", "replay", "--reason", "late")
    for grant in (
        ("Write", "transactional-id", f"{product.application_id}-rejected-replay"),
        ("Write", "topic", lines),
    ):
        with allowed.without(instance, *grant):
            assert re.search(lacking(*grant), command(instance, *replay, code=1)), grant
    assert "replayed 1 lines" in command(instance, *replay)


def lacking(operation: str, resource: str, name: str) -> str:
    """What an error says of a grant that is missing; the brokers miss Describe first, which comes with others."""
    return rf"lacks [^:]*\b({operation}|Describe) on {resource.replace('-', ' ')} {re.escape(name)}"


def pages(instance: Instance, output: str, allowed: Allowed) -> None:
    """The dashboard shows the totals, and without its grant it says which one that is."""
    url, grant = f"http://127.0.0.1:{(port := free_port())}", ("Read", "topic", output)
    arguments = ("-m", "course_revenue", "dashboard", "--port", str(port))
    dashboard = AnyInstance("pages", instance.directory, arguments, instance.config).start()
    try:
        wait_until(lambda: answer(f"{url}/ready"), "it shows all that is there", detail=dashboard.tail)
        dashboard.kill()
        with allowed.without(instance, *grant):
            dashboard.start()
            told = lacking(*grant)
            wait_until(lambda: re.search(told, answer(f"{url}/status")), "it says what it lacks", detail=dashboard.tail)
    finally:
        dashboard.end()


def answer(url: str) -> str:
    """What a page says; nothing while nobody answers, or it is not ready."""
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return str(response.read().decode())
    except OSError:
        return ""
