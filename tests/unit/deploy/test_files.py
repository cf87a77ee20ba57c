"""The files under deploy/ name commands, options, ports, paths and metrics that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml
from course_revenue.cli import app
from course_revenue.settings import Settings, without_product_keys

from headrace import StreamsConfig
from headrace.http.prometheus import prometheus_name
from headrace.metrics import CATALOG
from headrace.tools import service

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
ALERTS = [
    rule
    for group in yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text("utf-8"))["groups"]
    for rule in group["rules"]
]
BOARD = json.loads((DEPLOY / "grafana" / "dashboards" / "course-revenue.json").read_text("utf-8"))
KUBERNETES = {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in (DEPLOY / "kubernetes").glob("*.yaml")}
POD = KUBERNETES["statefulset"]["spec"]["template"]["spec"]
UNIT = (DEPLOY / "systemd" / "course-revenue.service").read_text("utf-8")
NAMES = {prometheus_name(*key) for key in CATALOG} | {"up", "process_resident_memory_bytes"}
OURS = {name: part for name, part in COMPOSE["services"].items() if part["image"] == "course-revenue"}


def expressions() -> list[str]:
    return [rule["expr"] for rule in ALERTS] + [
        target["expr"] for panel in BOARD["panels"] for target in panel["targets"]
    ]


def metrics(expression: str) -> set[str]:
    return set(re.findall(r"\b((?:kafka_streams|headrace|process)_\w+|up)\b(?=[{\[ ]|$)", expression))


def properties(text: str) -> dict[str, Any]:
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return {key: value for key, _, value in (line.partition("=") for line in lines)}


@pytest.mark.parametrize("expression", expressions())
def test_what_board_and_alerts_ask_for_is_exposed(expression: str) -> None:
    asked = metrics(expression)
    assert asked
    assert asked <= NAMES


@pytest.mark.parametrize(
    "arguments",
    [*(part["command"] for part in OURS.values()), POD["containers"][0]["args"]],
    ids=lambda arguments: arguments[0],
)
def test_commands_and_their_options_exist(arguments: list[str]) -> None:
    command: Any = typer.main.get_command(app)
    found = command.commands[arguments[0]]
    options = {option for parameter in found.params for option in parameter.opts}
    assert {argument for argument in arguments if argument.startswith("--")} <= options


@pytest.mark.parametrize(
    "text",
    [(DEPLOY / "config" / "app.properties").read_text("utf-8"), KUBERNETES["configmap"]["data"]["app.properties"]],
    ids=["compose", "kubernetes"],
)
def test_settings_load(text: str) -> None:
    given = properties(text)
    Settings.of(given)
    config = StreamsConfig.load(without_product_keys(given))
    assert config["headrace.http.port"] == 8080
    # a probe from outside reaches it, and the state is on the volume
    assert config["headrace.http.host"] == "0.0.0.0"
    assert str(config.state_dir) == "/var/lib/course-revenue"


def test_the_unit_starts_a_command_that_there_is_and_stays_down_on_a_wrong_setting() -> None:
    assert "ExecStart=/opt/course-revenue/bin/course-revenue run --config /etc/course-revenue/app.properties" in UNIT
    assert "RestartPreventExitStatus=2 3" in UNIT


def test_everywhere_a_stop_has_longer_than_a_close_may_take() -> None:
    grace = [
        int(COMPOSE["services"]["job-1"]["stop_grace_period"].removesuffix("s")),
        POD["terminationGracePeriodSeconds"],
        int(re.search(r"TimeoutStopSec=(\d+)", UNIT)[1]),  # type: ignore[index]  # it is there
    ]
    assert min(grace) > service._CLOSE_TIMEOUT_S + 10


def test_what_is_mounted_is_there() -> None:
    for part in COMPOSE["services"].values():
        for volume in part.get("volumes", ()):
            if isinstance(volume, dict):
                assert (DEPLOY / volume["source"]).exists(), volume


def test_prometheus_asks_the_instances_of_compose_and_the_dashboard_too() -> None:
    scrape = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text("utf-8"))["scrape_configs"]
    targets = scrape[0]["static_configs"][0]["targets"]
    jobs = {name for name in OURS if name.startswith("job-")}
    assert {target.partition(":")[0] for target in targets} == jobs
    addresses = properties((DEPLOY / "config" / "app.properties").read_text("utf-8"))["course.revenue.dashboard.job"]
    assert addresses.split(",") == [f"http://{target}" for target in targets]
    assert all(f'job="{scrape[0]["job_name"]}"' in expression for expression in expressions())


def test_probes_ask_the_ports_and_paths_that_there_are() -> None:
    container = POD["containers"][0]
    assert container["ports"] == [{"name": "http", "containerPort": 8080}]
    asked = {kind: container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness", "readiness")}
    assert asked == {"startup": "/live", "liveness": "/live", "readiness": "/ready"}
    assert "http://127.0.0.1:8080/live" in (DEPLOY / "Dockerfile").read_text("utf-8")


def test_selectors_find_the_pods() -> None:
    labels = KUBERNETES["statefulset"]["spec"]["template"]["metadata"]["labels"]
    assert KUBERNETES["service"]["spec"]["selector"] == labels
    assert KUBERNETES["poddisruptionbudget"]["spec"]["selector"]["matchLabels"] == labels
    assert KUBERNETES["service"]["metadata"]["name"] == KUBERNETES["statefulset"]["spec"]["serviceName"]


def test_the_image_has_the_versions_that_are_tested() -> None:
    def pins(path: Path) -> set[str]:
        return set(re.findall(r"^([a-z0-9-]+==\S+)", path.read_text("utf-8"), re.MULTILINE))

    image = pins(DEPLOY / "requirements.lock")
    assert image <= pins(ROOT / "requirements.lock")
    assert not {name.partition("==")[0] for name in image} & {"pytest", "mypy", "ruff", "playwright"}
