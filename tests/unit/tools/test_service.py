from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

from headrace import Consumed, KafkaStreams, Serdes, State, StreamsBuilder, StreamsConfig
from headrace.tools import service

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class AskedToEnd(KafkaStreams):
    """Has just joined, and hears that another instance wants all of the application to end."""

    collected_after: int

    def start(self) -> None:
        type(self).collected_after = gc.get_threshold()[0]
        self._machine.move(State.REBALANCING)
        self._shut_down_after_error()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    monkeypatch.setattr(service, "KafkaStreams", AskedToEnd)
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(Serdes.String(), Serdes.String())).to("out")
    settings = {"application.id": "app", "bootstrap.servers": "127.0.0.1:1", "state.dir": str(tmp_path)}
    return lambda: service.run_until_stopped(builder.build(), StreamsConfig.load(settings))


def test_an_instance_that_another_one_ended_says_that_it_is_to_stay_down(run: Callable[[], int]) -> None:
    """Its exit code was that of a failure, by which supervisors start it again."""
    assert run() == 3


def test_batches_are_not_looked_through_for_cycles(run: Callable[[], int]) -> None:
    before = gc.get_threshold()
    run()
    assert AskedToEnd.collected_after >= 50_000
    assert gc.get_threshold() == before
