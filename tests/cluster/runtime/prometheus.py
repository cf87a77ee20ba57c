"""A Prometheus of a test's own, with the deployment's configuration and alerts, which asks one address."""

from __future__ import annotations

import contextlib
import json
import subprocess
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from headrace.testing.processes import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEPLOYED: Final = Path(__file__).parents[3] / "deploy" / "prometheus"


class Prometheus:
    """One that runs.

    Args:
        url: Where.
        log_file: Of its log.
    """

    def __init__(self, url: str, log_file: Path) -> None:
        self._url = url
        self._log_file = log_file

    def ask(self, path: str) -> dict[str, Any]:
        """The data of an answer of its API; nothing as long as it does not answer."""
        try:
            with urllib.request.urlopen(f"{self._url}/api/v1/{path}", timeout=30) as response:
                return dict(json.loads(response.read())["data"])
        except OSError:
            return {}

    def series(self, name: str) -> list[dict[str, str]]:
        """The labels of each series of a name that has a value now."""
        return [dict(found["metric"]) for found in self.ask(f"query?query={name}").get("result", ())]

    def scrapes(self) -> list[tuple[str, str]]:
        """For each address whether it is up, and the error of the last scrape."""
        return [(target["health"], target["lastError"]) for target in self.ask("targets").get("activeTargets", ())]

    def rules(self) -> list[tuple[str, str]]:
        """For each alert whether it could be judged, and the error of the last time."""
        groups = self.ask("rules").get("groups", ())
        return [(rule["health"], rule.get("lastError", "")) for group in groups for rule in group["rules"]]

    def tail(self) -> str:
        """The end of its log."""
        return self._log_file.read_text("utf-8")[-5_000:]


@contextlib.contextmanager
def prometheus(directory: Path, address: str) -> Iterator[Prometheus]:
    """Start one that asks ``http://host:port`` every second."""
    config = yaml.safe_load((_DEPLOYED / "prometheus.yml").read_text("utf-8"))
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(_DEPLOYED / name) for name in config["rule_files"]]
    config["scrape_configs"][0]["static_configs"] = [{"targets": [address.removeprefix("http://")]}]
    file, log_file, port = directory / "prometheus.yml", directory / "prometheus.log", free_port()
    file.write_text(yaml.safe_dump(config), "utf-8")
    options = {"config.file": file, "storage.tsdb.path": directory / "data", "web.listen-address": f"127.0.0.1:{port}"}
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            ["prometheus", *(f"--{name}={value}" for name, value in options.items())],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield Prometheus(f"http://127.0.0.1:{port}", log_file)
    finally:
        process.kill()
        process.wait()
