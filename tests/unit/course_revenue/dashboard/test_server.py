"""The dashboard's server before clients that mean no good."""

from __future__ import annotations

import http.client
import socket
from typing import TYPE_CHECKING

from browser.synthetic import SyntheticDashboard
from course_revenue.dashboard import server

if TYPE_CHECKING:
    import pytest


def test_clients_that_ask_for_nothing_do_not_keep_the_page_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """They took every file that the process may open, and half a million lines went to the log."""
    monkeypatch.setattr(server, "_MOST_CONNECTIONS", 20)
    monkeypatch.setattr(server, "_ASKS_WITHIN_S", 0.3)
    with SyntheticDashboard() as page:
        page.live()
        mute = [socket.create_connection(("127.0.0.1", page.port), timeout=30) for _ in range(20)]
        trickling = mute[0]
        trickling.sendall(b"GET /status HTTP/1.1\r\nX: ")
        one_more = socket.create_connection(("127.0.0.1", page.port), timeout=30)
        assert ended(one_more)
        assert all(ended(connection) for connection in mute)
        asking = http.client.HTTPConnection("127.0.0.1", page.port, timeout=30)
        asking.request("GET", "/status")
        assert asking.getresponse().status == http.client.OK
        asking.close()


def ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
    finally:
        connection.close()
