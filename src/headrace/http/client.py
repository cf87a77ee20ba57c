"""Asks the port of an instance on this machine, at its Unix socket."""

from __future__ import annotations

import http.client
import socket
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path


class Answer(NamedTuple):
    """What came: the HTTP status and the body."""

    status: int
    body: bytes


def ask(socket_path: Path, path: str, timeout_s: float) -> Answer:
    """What the port at a Unix socket answers.

    Args:
        socket_path: The socket.
        path: What is asked for, such as ``/metrics``.
        timeout_s: For each step, in seconds.

    Raises:
        OSError: Nobody answers, or not in time.
    """
    connection = _UnixConnection(socket_path, timeout_s)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return Answer(response.status, response.read())
    except http.client.HTTPException as e:
        raise OSError(f"no HTTP answer: {e!r}") from e
    finally:
        connection.close()


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, socket_path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = str(socket_path)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
