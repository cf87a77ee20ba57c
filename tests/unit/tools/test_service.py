from __future__ import annotations

from typing import TYPE_CHECKING

from headrace import Consumed, KafkaStreams, Serdes, State, StreamsBuilder, StreamsConfig
from headrace.tools import service

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


class AskedToEnd(KafkaStreams):
    """Has just joined, and hears that another instance wants all of the application to end."""

    def start(self) -> None:
        self._machine.move(State.REBALANCING)
        self._shut_down_after_error()


def test_an_instance_that_another_one_ended_says_that_it_is_to_stay_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its exit code was that of a failure, by which supervisors start it again."""
    monkeypatch.setattr(service, "KafkaStreams", AskedToEnd)
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(Serdes.String(), Serdes.String())).to("out")
    settings = {"application.id": "app", "bootstrap.servers": "127.0.0.1:1", "state.dir": str(tmp_path)}
    assert service.run_until_stopped(builder.build(), StreamsConfig.load(settings)) == 3
