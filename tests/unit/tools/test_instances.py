"""One port for several instances, some of which do not answer."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace import Consumed, KafkaStreams, Produced, Serdes, StreamsBuilder
from headrace.http import Address
from headrace.tools.instances import InstancesOverview, SharedPort
from headrace.tools.supervisor import supervise

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


@dataclass
class One:
    name: str
    socket: Path | None
    started: float = 0.0
    starts: int = 1


def client(directory: Path, socket: Path) -> KafkaStreams:
    """A client whose brokers do not answer."""
    text = Serdes.String()
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(text, text)).to("out", Produced.with_(text, text))
    settings = {"application.id": "app", "bootstrap.servers": "127.0.0.1:1", "state.dir": str(directory)}
    return KafkaStreams(builder.build(), settings | {"headrace.http.socket": str(socket)})


def test_one_that_does_not_answer_is_named_and_the_others_are_shown(tmp_path: Path) -> None:
    first, second = One("instance-1", tmp_path / "1.sock"), One("instance-2", tmp_path / "2.sock", starts=4)
    assert first.socket is not None
    overview = InstancesOverview([first, second])
    with client(tmp_path / "state", first.socket) as streams:
        streams.start()
        told: Any = overview.tasks()["instances"]
        assert [(one["instance"], one["starts"], one["answers"]) for one in told] == [
            ("instance-1", 1, True),
            ("instance-2", 4, False),
        ]
        assert told[0]["application_id"] == "app"
        assert "No such file" in told[1]["reason"]
        ready = overview.not_ready()
        assert ready is not None
        assert "instance-1: the client is in state REBALANCING; instance-2 does not answer" in ready
        page = overview.metrics().decode()
        assert 'headrace_instance_up{headrace_instance="instance-1"} 1.0' in page
        assert 'headrace_instance_up{headrace_instance="instance-2"} 0.0' in page
        assert 'headrace_instance_starts_total{headrace_instance="instance-2"} 4.0' in page
        assert 'client_state{application_id="app"' in page
        live = overview.not_live()
        assert live is not None
        assert live.startswith("instance-2 does not answer")
        second.started = time.monotonic()
        assert overview.not_live() is None, "it may still be starting"


def test_the_supervisors_port_names_children_that_have_none(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    del capfd  # the instances' output is not this test's
    script = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); print('up'); signal.pause()"
    port = SharedPort(Address("", 0, tmp_path / "all.sock"), tmp_path)
    lines: list[str] = []
    told: list[Any] = []

    def look() -> None:
        from headrace.http.client import ask

        try:
            deadline = time.monotonic() + 60
            while len(lines) < 2 and time.monotonic() < deadline:
                time.sleep(0.02)
            told.extend(json.loads(ask(tmp_path / "all.sock", "/tasks", 30.0).body)["instances"])
        finally:
            os.kill(os.getpid(), 15)

    threading.Thread(target=look, daemon=True).start()
    assert supervise(lambda _: [sys.executable, "-c", script], 2, lines.append, port) == 0
    assert [(one["instance"], one["answers"]) for one in told] == [("instance-1", False), ("instance-2", False)]
    assert not (tmp_path / "all.sock").exists()
