"""The dashboard's server before clients that mean no good."""

from __future__ import annotations

import http.client
import socket
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from browser.synthetic import SyntheticDashboard
from course_revenue.dashboard import server

if TYPE_CHECKING:
    from collections.abc import Generator

    import pytest


HALF_A_REQUEST = b"GET /live HTTP/1.1\r\nX: "


def test_no_more_connections_are_kept_than_pages_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """They took every file that the process may open, and half a million lines went to the log."""
    with page_for_few(monkeypatch, asks_within_s=60.0) as page:
        mute = [connected(page) for _ in range(20)]
        assert ended(connected(page))
        for connection in mute:
            connection.close()
        wait_until_it_answers(page)


def test_clients_that_ask_for_nothing_do_not_keep_the_page_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    with page_for_few(monkeypatch, asks_within_s=0.3) as page:
        mute = [connected(page) for _ in range(20)]
        mute[0].sendall(HALF_A_REQUEST)
        assert all(ended(connection) for connection in mute)
        wait_until_it_answers(page)


def test_clients_that_have_asked_once_and_begin_to_ask_again_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """uvicorn waits without an end once a second request has begun: they kept the page from others."""
    with page_for_few(monkeypatch, asks_within_s=0.3) as page:
        slow = [connected(page) for _ in range(20)]
        for connection in slow:
            connection.sendall(b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = b""
            while not answer.endswith(b'{"live":true}'):
                answer += connection.recv(1000)
            connection.sendall(HALF_A_REQUEST)
        assert all(ended(connection) for connection in slow)
        wait_until_it_answers(page)


@contextmanager
def page_for_few(monkeypatch: pytest.MonkeyPatch, asks_within_s: float) -> Generator[SyntheticDashboard]:
    """A live page that keeps 20 connections."""
    monkeypatch.setattr(server, "_MOST_CONNECTIONS", 20)
    monkeypatch.setattr(server, "_ASKS_WITHIN_S", asks_within_s)
    with SyntheticDashboard() as page:
        page.live()
        yield page


def connected(page: SyntheticDashboard) -> socket.socket:
    return socket.create_connection(("127.0.0.1", page.port), timeout=30)


def wait_until_it_answers(page: SyntheticDashboard) -> None:
    """Connections whose end was seen by a client may be counted for a moment still."""
    deadline = time.monotonic() + 30
    while True:
        asking = http.client.HTTPConnection("127.0.0.1", page.port, timeout=30)
        try:
            asking.request("GET", "/status")
            assert asking.getresponse().status == http.client.OK
        except (http.client.RemoteDisconnected, ConnectionError):
            assert time.monotonic() < deadline, "the page does not answer"
        else:
            return
        finally:
            asking.close()


def ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
    finally:
        connection.close()
