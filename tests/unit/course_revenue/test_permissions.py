"""What commands need to be allowed, for the settings of a job."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from course_revenue.cli import app
from course_revenue.permissions import COMMANDS, Grant, Job, grants
from course_revenue.preflight import wanted
from course_revenue.settings import Settings, without_product_keys
from typer.testing import CliRunner

from headrace import StreamsConfig
from headrace.errors import ConfigException

PAGE = Path(__file__).parents[3] / "apps" / "course_revenue" / "docs" / "security.md"
PROPERTIES = {
    "application.id": "course-revenue",
    "bootstrap.servers": "kafka:9092",
    "processing.guarantee": "exactly_once_v2",
    "course.revenue.on.broken.line": "reject",
}


def needed(command: str, *, makes_topics: bool = True, **settings: str) -> set[Grant]:
    given: dict[str, Any] = PROPERTIES | {key.replace("_", "."): value for key, value in settings.items()}
    own = {"application.id": "course-revenue-v2", "course.revenue.topic.output": "commerce.course_revenue.v2"}
    live, beside = (
        wanted("kafka:9092", None, Settings.of(one), StreamsConfig.load(without_product_keys(one)))
        for one in (given, given | own | {"course.revenue.topic.rejected": "commerce.course_revenue.rejected.v2"})
    )
    return set(grants(command, Job(live, makes_topics, beside)))


def printed(tmp_path: Path, *options: str) -> list[str]:
    config = tmp_path / "app.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in PROPERTIES.items()), "latin-1")
    done = CliRunner().invoke(app, ["acls", "--config", str(config), "--principal", "User:course-revenue", *options])
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


def test_the_page_on_security_has_what_is_printed(tmp_path: Path) -> None:
    block = re.search(r"```sh\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert block is not None
    assert block[1].splitlines() == printed(tmp_path)


def test_the_page_names_every_command() -> None:
    page = PAGE.read_text("utf-8")
    assert [command for command in COMMANDS if f"`{command}`" not in page and f"--for {command}" not in page] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_is_allowed_on_every_topic_nor_on_the_cluster(command: str) -> None:
    made_up = ("rehearsal-", "course-revenue-rehearsal-")
    for grant in needed(command):
        assert grant.operation not in ("All", "Alter", "AlterConfigs", "ClusterAction", "IdempotentWrite")
        if command == "rehearse":
            assert (grant.prefixed, grant.name in made_up) == (True, True)
            continue
        assert grant.name.startswith(("course-revenue", "commerce."))
        assert not grant.prefixed or grant.name in ("course-revenue-", "course-revenue-v2-")
        assert grant.operation != "Delete" or not grant.prefixed


def test_beside_the_live_job_nothing_of_it_is_written_before_the_switch() -> None:
    live = {"course-revenue-", "course-revenue", "commerce.course_revenue", "commerce.course_revenue.rejected"}
    building, switching = needed("rebuild --shadow"), needed("rebuild --shadow --switch")
    assert {grant.operation for grant in building if grant.name in live} == {"Read", "Describe"}
    assert {grant for grant in switching - building if grant.name in live} == {
        Grant("Write", "topic", "commerce.course_revenue"),
        Grant("Write", "topic", "commerce.course_revenue.rejected"),
        Grant("Read", "group", "course-revenue"),
    }


def test_only_exactly_once_needs_transactional_ids() -> None:
    at_least_once = needed("run", processing_guarantee="at_least_once")
    assert needed("run") - at_least_once == {Grant("Write", "transactional-id", "course-revenue-", prefixed=True)}


def test_the_group_protocol_changes_nothing() -> None:
    for command in COMMANDS:
        assert needed(command) == needed(command, group_protocol="streams")


def test_without_rejecting_the_rejected_topic_is_left_alone() -> None:
    less = needed("run") - needed("run", course_revenue_on_broken_line="fail")
    assert {(grant.operation, grant.name) for grant in less} == {
        ("Write", "commerce.course_revenue.rejected"),
        ("DescribeConfigs", "commerce.course_revenue.rejected"),
    }


def test_internal_topics_that_exist_need_not_be_made() -> None:
    assert needed("run") - needed("run", makes_topics=False) == {
        Grant("Create", "topic", "course-revenue-", prefixed=True)
    }


def test_a_reset_sees_and_deletes_every_internal_topic_that_the_job_has() -> None:
    deleted = {grant.name for grant in needed("reset") if grant.operation == "Delete" and grant.resource == "topic"}
    assert len(deleted) == 3
    assert needed("rebuild") >= needed("reset") | needed("run") | needed("reconcile")


def test_several_commands_are_put_together_by_resource(tmp_path: Path) -> None:
    lines = printed(tmp_path, "--for", "totals", "--for", "rejected replay", "--command-config", "admin.properties")
    assert [line.split("--allow-principal User:course-revenue ")[1] for line in lines] == [
        "--operation Read --topic commerce.course_revenue",
        "--operation Read --operation Write --topic commerce.course_revenue.rejected",
        "--operation Write --topic commerce.purchase_line",
        "--operation Write --transactional-id course-revenue-rejected-replay",
    ]
    assert all("--command-config admin.properties --add " in line for line in lines)


def test_acls_are_taken_away_without_a_question(tmp_path: Path) -> None:
    assert all(" --remove --force --allow-principal " in line for line in printed(tmp_path, "--remove"))


def test_a_principal_without_its_kind_is_said_before_kafka_acls_refuses_it(tmp_path: Path) -> None:
    config = tmp_path / "app.properties"
    config.write_text("application.id=a\nbootstrap.servers=b:1\n", "latin-1")
    for principal in ("course-revenue", ":course-revenue"):
        done = CliRunner().invoke(app, ["acls", "--config", str(config), "--principal", principal])
        assert isinstance(done.exception, ConfigException)
        assert str(done.exception).endswith("as in User:course-revenue")


def test_an_unknown_command_is_said(tmp_path: Path) -> None:
    config = tmp_path / "app.properties"
    config.write_text("application.id=a\nbootstrap.servers=b:1\n", "latin-1")
    done = CliRunner().invoke(app, ["acls", "--config", str(config), "--for", "everything"])
    assert "--for everything: there is no such command" in str(done.exception)
