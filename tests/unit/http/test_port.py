"""The HTTP port of a client: what it answers, from ``start`` to ``close``."""

from __future__ import annotations

import json
import math
import socket
import threading
import urllib.error
import urllib.request
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace import Consumed, KafkaStreams, Produced, Serdes, State, StreamsBuilder
from headrace.errors import ConfigException
from headrace.http import Address, HttpServer, configured_address
from headrace.http.client import ask
from headrace.http.prometheus import exposition, merged
from headrace.metrics import MetricsRegistry
from headrace.metrics.catalog import OWN_TASK, TASK, THREAD

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace import Topology


def copying() -> Topology:
    text = Serdes.String()
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(text, text)).to("out", Produced.with_(text, text))
    return builder.build()


def client(directory: Path, **settings: object) -> KafkaStreams:
    """A client whose brokers do not answer."""
    http = {f"headrace.http.{key}": value for key, value in settings.items()}
    common = {"application.id": "app", "bootstrap.servers": "127.0.0.1:1", "state.dir": str(directory)}
    return KafkaStreams(copying(), common | http)


@contextmanager
def started(streams: KafkaStreams) -> Iterator[str]:
    streams.start()
    try:
        assert streams.http_address is not None
        yield streams.http_address
    finally:
        assert streams.close(60.0)


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=30) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


def test_a_client_without_the_setting_has_no_port(tmp_path: Path) -> None:
    with client(tmp_path) as streams:
        streams.start()
        assert streams.http_address is None


def test_a_client_that_has_no_brokers_yet_lives_and_is_not_ready(tmp_path: Path) -> None:
    streams = client(tmp_path, port=0)
    with started(streams) as address:
        assert address.startswith("http://127.0.0.1:")
        assert get(f"{address}/live") == (200, '{\n "live": true\n}\n')
        status, body = get(f"{address}/ready")
        assert (status, json.loads(body)) == (
            503,
            {"ready": False, "reason": "the client is in state REBALANCING"},
        )
        told: dict[str, Any] = json.loads(get(f"{address}/tasks")[1])
        assert (told["application_id"], told["state"], told["tasks"]) == ("app", "REBALANCING", [])
        assert [(thread["state"], thread["member_id"]) for thread in told["threads"]] == [("STARTING", None)]
        assert 0 <= told["threads"][0]["round_age_s"] < 60
        assert get(f"{address}/metrics/of/others?x=1")[0] == 404
        families = {family.name: family for family in text_string_to_metric_families(get(f"{address}/metrics")[1])}
        assert families["kafka_streams_stream_metrics_client_state"].samples[0].value == 1
        assert families["kafka_streams_stream_thread_metrics_poll"].type == "counter"
        assert families["process_resident_memory_bytes"].samples[0].value > 0
    assert streams.state() is State.NOT_RUNNING
    assert streams.http_address is None
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"{address}/live", timeout=30)


def test_a_port_that_is_taken_is_an_error_of_start_that_names_the_setting(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        streams = client(tmp_path, port=taken.getsockname()[1])
        with pytest.raises(ConfigException, match=r"'headrace\.http\.port' has the value \d+, but nothing can listen"):
            streams.start()
    assert streams.state() is State.CREATED
    assert streams.close(60.0)


def test_a_socket_that_a_killed_process_left_is_taken_over_and_a_live_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "port.sock"
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()
    with started(client(tmp_path / "a", socket=str(path), port=1)):
        assert ask(path, "/live", 30.0).status == 200
        other = client(tmp_path / "b", socket=str(path))
        with pytest.raises(ConfigException, match=r"headrace\.http\.socket"):
            other.start()
        other.close()
        assert ask(path, "/live", 30.0).status == 200
    assert not path.exists()
    with pytest.raises(OSError, match="No such file"):
        ask(path, "/live", 30.0)


def test_the_port_is_off_by_default_and_at_the_loopback_interface(tmp_path: Path) -> None:
    off, on = client(tmp_path / "a"), client(tmp_path / "b", port="8080")
    assert configured_address(off._config) is None
    assert configured_address(on._config) == Address("127.0.0.1", 8080)
    for streams in (off, on):
        streams.close()


class Stuck:
    """Something that takes for ever to tell, and something that cannot."""

    def __init__(self) -> None:
        self.release = threading.Event()

    def metrics(self) -> bytes:
        self.release.wait(60)
        return b""

    def not_live(self) -> None:
        return None

    def not_ready(self) -> None:
        return None

    def tasks(self) -> dict[str, object]:
        raise RuntimeError("secret")


def test_one_request_that_hangs_holds_up_neither_others_nor_the_end(caplog: pytest.LogCaptureFixture) -> None:
    stuck = Stuck()
    server = HttpServer(stuck, Address("127.0.0.1", 0))
    with closing(socket.create_connection((server.address.host, server.address.port))) as slow:
        slow.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        with closing(socket.create_connection((server.address.host, server.address.port))) as silent:
            silent.sendall(b"GET")
            assert get(f"{server.address}/live")[0] == 200
            assert get(f"{server.address}/tasks") == (500, '{\n "error": "RuntimeError, see the log"\n}\n')
            server.close()
            stuck.release.set()
    assert "answering /tasks failed" in caplog.text


def registry() -> MetricsRegistry:
    made = MetricsRegistry(lambda: 0.0)
    scope = made.scope()
    scope.add(THREAD, "process-total", ("t",), lambda: 7)
    scope.add(THREAD, "process-latency-avg", ("t",), lambda: math.nan)
    scope.add(THREAD, "state", ("t",), lambda: "RUNNING")
    scope.add(TASK, "restore-remaining-records-total", ("t", "0_1"), lambda: 3)
    for partition in ("0", "1"):
        scope.add(OWN_TASK, "records-lag", ("t", "0_1", "in", partition), lambda: 5)
    return made


def ours(page: bytes) -> list[str]:
    return [
        line for line in page.decode().splitlines() if line.startswith(("kafka_streams", "headrace")) and "{" in line
    ]


def test_names_are_the_jmx_exporters() -> None:
    assert ours(exposition(registry().read())) == [
        'kafka_streams_stream_thread_metrics_process_total{thread_id="t"} 7.0',
        'kafka_streams_stream_thread_metrics_process_latency_avg{thread_id="t"} NaN',
        'kafka_streams_stream_thread_metrics_state_info{thread_id="t",value="RUNNING"} 1.0',
        'kafka_streams_stream_task_metrics_restore_remaining_records_total{task_id="0_1",thread_id="t"} 3.0',
        'headrace_task_records_lag{partition="0",task_id="0_1",thread_id="t",topic="in"} 5.0',
        'headrace_task_records_lag{partition="1",task_id="0_1",thread_id="t",topic="in"} 5.0',
    ]


def test_pages_of_instances_are_told_apart() -> None:
    page = exposition(registry().read()).decode()
    lines = ours(merged({"instance-1": page, "instance-2": page}))
    assert [line for line in lines if "process_total" in line] == [
        'kafka_streams_stream_thread_metrics_process_total{headrace_instance="instance-1",thread_id="t"} 7.0',
        'kafka_streams_stream_thread_metrics_process_total{headrace_instance="instance-2",thread_id="t"} 7.0',
    ]
    assert len(lines) == 12
