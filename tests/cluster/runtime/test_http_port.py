"""The HTTP port on a real broker: lag and commits of a client, and the one port of two instances."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster.instances import wait_until
from cluster.runtime.counting import counting, running, write
from cluster.runtime.prometheus import prometheus

from headrace.http.client import ask

if TYPE_CHECKING:
    from collections.abc import Callable

APP = """
from cluster.runtime.counting import counting

def build(config):
    return counting(config["test.input"], config["test.output"])
"""


def answer(address: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(address + path, timeout=30) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


def test_lag_rises_while_the_client_is_paused_and_falls_to_zero_with_its_commits(
    app: dict[str, Any], bootstrap_servers: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    settings = app | {"headrace.http.port": 0, "metrics.recording.level": "DEBUG"}
    began = time.monotonic()
    write(bootstrap_servers, unique("in"), 1_000)
    with running(counting(unique("in"), unique("out")), settings) as client:
        address = client.http_address
        assert address is not None

        def tasks() -> list[dict[str, Any]]:
            told: dict[str, Any] = json.loads(answer(address, "/tasks")[1])
            return list(told["tasks"])

        def lags() -> list[int]:
            return [part["lag"] or 0 for task in tasks() for part in task["partitions"]]

        def processed() -> int:
            return sum(task["records_total"] for task in tasks())

        wait_until(lambda: answer(address, "/ready")[0] == 200, "ready", detail=lambda: answer(address, "/ready")[1])
        wait_until(lambda: processed() == 1_000 and sum(lags()) == 0, "all processed", detail=tasks)
        client.pause()
        write(bootstrap_servers, unique("in"), 300, 1_000)
        wait_until(lambda: sum(lags()) >= 300, "what is written meanwhile is lag", detail=tasks)
        client.resume()
        wait_until(lambda: processed() == 1_300 and sum(lags()) == 0, "it is gone", detail=tasks)
        assert all(task["records_per_second"] > 0 and task["last_commit_ms"] for task in tasks())
        assert [task["state"] for task in tasks()] == ["RUNNING", "RUNNING"]
        values: dict[tuple[str, str, str | None], Any] = {
            (name.group, name.name, name.tags.get("task-id")): metric.metric_value()
            for name, metric in client.metrics().items()
        }
        by_task = [values["stream-task-metrics", "process-total", task] for task in ("0_0", "0_1")]
        assert sum(map(int, by_task)) == 1_300
        assert values["stream-thread-metrics", "process-total", None] == 1_300
        assert values["stream-thread-metrics", "commit-total", None]
        assert values["stream-thread-metrics", "tasks-assigned-latency-max", None] >= 0
        assert 0 < values["stream-thread-metrics", "blocked-time-ns-total", None] < (time.monotonic() - began) * 1e9
        nodes = "stream-processor-node-metrics"
        lateness = [values[nodes, f"record-e2e-latency-{kind}", "0_0"] for kind in ("min", "avg", "max")]
        # some records are a second ahead of their time
        assert -1_300 < lateness[0] <= lateness[1] <= lateness[2] < 1_000 * (time.monotonic() - began)
        assert values["stream-state-updater-metrics", "active-restoring-tasks", None] == 0
        page = answer(address, "/metrics")[1]
        assert 'headrace_task_records_lag{partition="0",task_id="0_0"' in page
        with prometheus(tmp_path, address) as reader:
            wait_until(
                lambda: [health for health, _ in reader.scrapes()] == ["up"],
                "Prometheus reads the page",
                detail=lambda: f"{reader.scrapes()}\n{reader.tail()}",
            )
            wait_until(lambda: len(reader.series("headrace_task_records_lag")) == 2, "lags are series of it")
            (state,) = reader.series("kafka_streams_stream_metrics_client_state")
            assert (state["job"], state["application_id"]) == ("course-revenue", unique("app"))
            wait_until(
                lambda: {health for health, _ in reader.rules()} == {"ok"}, "the alerts are judged", detail=reader.rules
            )


def test_two_instances_have_one_port_that_outlives_a_killed_one(
    app: dict[str, Any], bootstrap_servers: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    port = tmp_path / "port.sock"
    settings = app | {"test.input": unique("in"), "test.output": unique("out"), "headrace.http.socket": port}
    (tmp_path / "http_port_app.py").write_text(APP, encoding="utf-8")
    (tmp_path / "app.properties").write_text("".join(f"{k}={v}\n" for k, v in settings.items()), encoding="latin-1")
    write(bootstrap_servers, unique("in"), 500)
    arguments = ["-m", "headrace", "run", "http_port_app:build", "--config", "app.properties", "--instances", "2"]
    # the application is built of what lies beside these tests
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    with (tmp_path / "run.log").open("wb") as log:
        supervisor = subprocess.Popen(
            [sys.executable, *arguments], cwd=tmp_path, env=environment, stdout=log, stderr=subprocess.STDOUT
        )

    def instances() -> list[dict[str, Any]]:
        try:
            found: dict[str, Any] = json.loads(ask(port, "/tasks", 30.0).body)
        except OSError:
            return []
        return list(found["instances"])

    def all_run() -> bool:
        # on whichever of the two: one that starts later may keep a copy first
        told = instances()
        active = [task["id"] for one in told for task in one.get("tasks", ()) if task["type"] == "active"]
        everyone = [one["answers"] for one in told] == [True, True]
        return everyone and sorted(active) == ["0_0", "0_1"] and ask(port, "/ready", 30.0).status == 200

    def tail() -> str:
        return (tmp_path / "run.log").read_text("utf-8", "replace")[-5_000:]

    try:
        wait_until(all_run, "both tasks run", detail=tail)
        page = ask(port, "/metrics", 30.0).body.decode()
        for name in ("instance-1", "instance-2"):
            assert f'headrace_instance_up{{headrace_instance="{name}"}} 1.0' in page
            assert f'kafka_streams_stream_metrics_client_state{{application_id="{unique("app")}"' in page
        os.kill(instances()[1]["pid"], signal.SIGKILL)
        wait_until(lambda: [one["answers"] for one in instances()] == [True, False], "its end is seen", detail=tail)
        assert ask(port, "/ready", 30.0).status == 503
        wait_until(lambda: [one["starts"] for one in instances()] == [1, 2], "a second start", detail=tail)
        wait_until(all_run, "ready again", detail=tail)
        supervisor.send_signal(signal.SIGTERM)
        assert supervisor.wait(60) == 0, tail()
        assert not port.exists()
    finally:
        supervisor.kill()
        supervisor.wait()
