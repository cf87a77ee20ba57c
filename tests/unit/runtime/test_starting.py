"""A client that is asked to end while it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace import Consumed, KafkaStreams, Serdes, State, StreamsBuilder, StreamThreadExceptionResponse

if TYPE_CHECKING:
    from pathlib import Path


def test_a_client_that_is_closed_while_no_broker_answers_has_not_failed(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(Serdes.String(), Serdes.String())).to("out")
    failures: list[Exception] = []

    def failed(error: Exception) -> StreamThreadExceptionResponse:
        failures.append(error)
        return StreamThreadExceptionResponse.SHUTDOWN_CLIENT

    settings = {"application.id": "app", "bootstrap.servers": "127.0.0.1:1", "state.dir": str(tmp_path)}
    streams = KafkaStreams(builder.build(), settings)
    streams.set_uncaught_exception_handler(failed)
    streams.start()
    assert streams.close(60.0)
    assert streams.state() is State.NOT_RUNNING
    assert failures == []
