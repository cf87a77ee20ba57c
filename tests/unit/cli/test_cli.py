"""The command line as a user meets it: what it prints, and its exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from headrace.cli.common import call_with_config, load_function, read_properties
from headrace.errors import ConfigException

if TYPE_CHECKING:
    from pathlib import Path

APP = """
from headrace import StreamsBuilder

def plain():
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    return builder.build()

def configured(config):
    builder = StreamsBuilder()
    builder.stream(config["application.id"]).to("out")
    return builder.build(config)

def two(config, more):
    raise AssertionError

not_a_function = 1
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "cli_app.py").write_text(APP, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def headrace(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from headrace.cli import main; main()", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_topology_show_prints_what_describe_says(here: Path) -> None:
    shown = headrace("topology", "show", "cli_app:plain").stdout
    assert shown.startswith("Topologies:\n   Sub-topology: 0\n    Source: KSTREAM-SOURCE-0000000000 (topics: [in])\n")


def test_a_topology_function_that_takes_the_configuration_gets_it(here: Path) -> None:
    (here / "app.properties").write_text("application.id=from-file\n", encoding="latin-1")
    assert (
        "(topics: [from-file])"
        in headrace("topology", "show", "cli_app:configured", "--config", "app.properties").stdout
    )
    by_hand = headrace(
        "topology", "show", "cli_app:configured", "--config", "app.properties", "--set", "application.id=by-hand"
    )
    assert "(topics: [by-hand])" in by_hand.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("topology", "show", "cli_app"), "write MODULE:FUNCTION"),
        (("topology", "show", "nowhere:build"), "there is no module nowhere"),
        (("topology", "show", "cli_app:nothing"), "module cli_app has no function nothing"),
        (("topology", "show", "cli_app:not_a_function"), "has no function not_a_function"),
        (("topology", "show", "cli_app:two"), "takes 2 arguments"),
        (("topology", "show", "cli_app:plain", "--set", "novalue"), "write --set key=value"),
        (("run", "cli_app:plain", "--config", "missing.properties"), "missing.properties"),
        (("reset",), "application.id is not known"),
        (("reset", "--application-id", "a"), "bootstrap.servers is not known"),
        (
            ("reset", "--application-id", "a", "--bootstrap-server", "localhost:1", "--to-latest", "--to-offset", "3"),
            "--to-latest and --to-offset exclude each other",
        ),
        (("reset", "--to-datetime", "2026-03-01"), "is not a date and time such as"),
        (("reset", "--by-duration", "1h"), "'1h' is not an ISO-8601 duration"),
        (("reset", "--shift-by", "-3", "--by-duration", "PT1H"), "--by-duration and --shift-by exclude each other"),
        (("reset", "--from-file", "cli_app.py"), "cli_app.py, line 2: write TOPIC,PARTITION,OFFSET"),
        (
            ("reset", "--application-id", "a", "--bootstrap-server", "localhost:1", "--dry-run", "--force"),
            "cannot be part of a --dry-run",
        ),
        (("no-such-command",), "No such command"),
    ],
)
def test_a_wrong_command_line_is_one_message_and_exit_code_two(
    here: Path, arguments: tuple[str, ...], says: str
) -> None:
    assert says in headrace(*arguments, code=2).stderr


def test_a_directory_of_one_broker_is_not_started_as_a_cluster_of_three(tmp_path: Path) -> None:
    (tmp_path / "server.properties").touch()
    refused = headrace("cluster", "up", "--brokers", "3", "--data-dir", str(tmp_path), code=1)
    assert "holds a cluster of 1 broker, not of 3" in " ".join(refused.stderr.split())


def test_status_without_a_cluster_is_exit_code_one_and_down_is_no_failure(here: Path) -> None:
    assert "no cluster is running" in headrace("cluster", "status", "--data-dir", "c", code=1).stdout
    assert "no cluster is running" in headrace("cluster", "down", "--data-dir", "c").stdout


def test_without_a_terminal_long_lines_are_not_wrapped_or_coloured(here: Path) -> None:
    deep = here / ("long-directory-name-" * 10)
    shown = headrace("cluster", "down", "--data-dir", str(deep)).stdout
    assert shown == f"no cluster is running in {deep}\n"


def test_a_missing_import_inside_the_users_module_is_the_users_to_see(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "broken_app.py").write_text("import no_such_thing_anywhere\n", encoding="utf-8")
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(ModuleNotFoundError, match="no_such_thing_anywhere"):
        load_function("broken_app:build")


def test_optional_arguments_get_the_configuration_too() -> None:
    assert call_with_config(lambda config=None: config, 7) == 7
    assert call_with_config(lambda: 8, 7) == 8


def test_later_sources_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.properties"
    file.write_text("application.id=file\npoll.ms=1\ncommit.interval.ms=1\n", encoding="latin-1")
    monkeypatch.setenv("HEADRACE_POLL_MS", "2")
    monkeypatch.setenv("HEADRACE_COMMIT_INTERVAL_MS", "2")
    monkeypatch.setenv("HEADRACE_KAFKA_LIB", "/not/a/setting")
    read = read_properties(file, ["commit.interval.ms = 3"])
    assert read == {"application.id": "file", "poll.ms": "2", "commit.interval.ms": "3"}
    with pytest.raises(ConfigException, match="--set"):
        read_properties(None, ["=x"])


def test_the_environment_is_all_there_is_without_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("HEADRACE_")]:
        monkeypatch.delenv(name)
    assert read_properties(None, []) == {}


def test_a_topology_function_that_raises_shows_its_own_traceback_alone(here: Path) -> None:
    (here / "broken_app.py").write_text("def topology():\n    return {}['no such key']\n", encoding="utf-8")
    command = [sys.executable, "-c", "from headrace.cli import main; main()", "topology", "show", "broken_app:topology"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr.endswith("KeyError: 'no such key'\nerror: broken_app:topology raised KeyError\n")
    assert "broken_app.py" in done.stderr
    assert "typer" not in done.stderr
