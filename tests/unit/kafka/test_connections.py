"""kafka-python's network client where it stands still: no wait of ours is without an end."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest
from kafka.future import Future

from headrace.kafka import connections
from headrace.kafka.connections import close_net_client, net_client
from headrace.kafka.errors import kp

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def client() -> Iterator[Any]:
    made = net_client(bootstrap_servers=["127.0.0.1:1"], client_id="still")
    made._net.start()
    yield made
    close_net_client(made)


def test_a_first_contact_that_never_ends_is_given_up(client: Any, caplog: pytest.LogCaptureFixture) -> None:
    manager = client._manager
    manager.bootstrap_async = lambda *_: Future()
    with pytest.raises(kp.KafkaTimeoutError, match="no contact within 50 ms"):
        manager.bootstrap(50)
    (told,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "the first contact does not end" in told.getMessage()


def test_who_waits_for_brokers_that_do_not_answer_is_told_once(
    client: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands were silent for a minute."""
    monkeypatch.setattr(connections, "_TELL_AFTER_S", 0.3)
    with pytest.raises(kp.KafkaTimeoutError):
        client._manager.bootstrap(900)
    (told,) = [record.getMessage() for record in caplog.records if record.name == connections.__name__]
    assert told.startswith("no broker has answered yet (127.0.0.1:1: ")


def test_a_client_whose_thread_does_not_end_is_left_behind(
    client: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "STOP_TIMEOUT_MS", 50)
    busy, go_on = threading.Event(), threading.Event()

    def stand_still() -> None:
        busy.set()
        go_on.wait()

    thread = client._net._io_thread
    client._net.call_soon_threadsafe(stand_still)
    busy.wait()
    close_net_client(client)
    go_on.set()
    thread.join()
    assert "does not end, and is left behind" in caplog.text
