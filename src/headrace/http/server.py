"""The port: the standard library's server on daemon threads, one for each request that is being answered.

A request that does not come, or is not read, ends after a few seconds; more than a few at a time are turned away. So
whoever asks cannot hold up the application, whose threads this one shares nothing with but counters.
"""

from __future__ import annotations

import http.server
import json
import logging
import socket
import socketserver
import stat
import threading
from contextlib import closing, suppress
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.config.own_keys import HTTP_HOST, HTTP_PORT, HTTP_SOCKET
from headrace.errors import ConfigException

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.config import StreamsConfig
    from headrace.http.observed import Observed

_log = logging.getLogger(__name__)

_REQUEST_S = 5.0
_MOST_REQUESTS = 16
_LOOK_S = 0.05
_TEXT, _JSON = "text/plain; version=0.0.4; charset=utf-8", "application/json"
_PATHS = ("/metrics", "/live", "/ready", "/tasks")


class Address(NamedTuple):
    """Where the port is.

    Attributes:
        host: Name or address of the interface.
        port: 0 for any free one.
        path: Of a Unix socket instead of both; None for none.
    """

    host: str
    port: int
    path: Path | None = None

    def __str__(self) -> str:
        if self.path is not None:
            return f"unix socket {self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


def configured_address(config: StreamsConfig) -> Address | None:
    """Where the settings want the port; None when they want none."""
    host, port, path = config[HTTP_HOST], config[HTTP_PORT], config[HTTP_SOCKET]
    if path is not None:
        return Address("", 0, Path(path))
    return None if port is None else Address(host, port)


class HttpServer:
    """A port that answers ``/metrics``, ``/live``, ``/ready`` and ``/tasks`` from the moment that it is made.

    Args:
        observed: What it shows.
        address: Where.

    Attributes:
        address: Where it is, with the port that was free.

    Raises:
        ConfigException: Nothing can listen there; the message names the setting.
    """

    def __init__(self, observed: Observed, address: Address) -> None:
        self._server = _listen(observed, address)
        self.address = address if address.path else address._replace(port=self._server.server_address[1])
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_LOOK_S,), name="headrace-http", daemon=True
        )
        self._thread.start()
        _log.info("metrics, readiness and tasks at %s", self.address)

    def close(self) -> None:
        """End the port; requests under way may still be answered. Closing twice does nothing."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        if self.address.path is not None:
            self.address.path.unlink(missing_ok=True)


def _listen(observed: Observed, address: Address) -> _Server:
    kind: type[_Server] = _Ipv6Server if ":" in address.host else _Server
    if address.path is not None:
        kind = _UnixServer
        _remove_left_over(address.path)
    try:
        return kind(observed, str(address.path) if address.path else (address.host, address.port))
    except OSError as e:
        key, value = (HTTP_SOCKET, address.path) if address.path else (HTTP_PORT, address.port)
        where = "" if address.path else f" of {address.host} ({HTTP_HOST})"
        raise ConfigException(
            f"Setting '{key}' has the value {value}, but nothing can listen there{where}: {e.strerror or e}. Choose "
            "another, or end what uses it"
        ) from e


def _remove_left_over(path: Path) -> None:
    """Remove the socket of a process that was killed; one that somebody listens at is left, and binding fails."""
    with suppress(OSError), closing(socket.socket(socket.AF_UNIX)) as probe:
        if not stat.S_ISSOCK(path.stat().st_mode):
            return
        probe.settimeout(_REQUEST_S)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 16

    def __init__(self, observed: Observed, address: Any) -> None:
        self.observed = observed
        self._room = threading.BoundedSemaphore(_MOST_REQUESTS)
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        _log.debug("a request of %s ended early", client_address, exc_info=True)


class _Ipv6Server(_Server):
    address_family = socket.AF_INET6


class _UnixServer(_Server):
    address_family = socket.AF_UNIX
    allow_reuse_address = False


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]  # the base's is made for any server
    server_version = "headrace"
    sys_version = ""
    timeout = _REQUEST_S

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        observed = self.server.observed
        try:
            match path:
                case "/metrics":
                    self._answer(HTTPStatus.OK, _TEXT, observed.metrics())
                case "/live":
                    self._verdict("live", observed.not_live())
                case "/ready":
                    self._verdict("ready", observed.not_ready())
                case "/tasks":
                    self._json(HTTPStatus.OK, observed.tasks())
                case _:
                    self._json(HTTPStatus.NOT_FOUND, {"error": f"no {path} here", "paths": _PATHS})
        except OSError:
            raise  # whoever asked has gone
        except Exception as e:
            _log.exception("answering %s failed", path)
            self._json(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": f"{type(e).__name__}, see the log"})

    do_HEAD = do_GET  # noqa: N815  # the base looks for this name

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base's name
        _log.debug(format, *args)

    def _verdict(self, what: str, reason: str | None) -> None:
        if reason is None:
            self._json(HTTPStatus.OK, {what: True})
        else:
            self._json(HTTPStatus.SERVICE_UNAVAILABLE, {what: False, "reason": reason})

    def _json(self, status: HTTPStatus, value: Mapping[str, object]) -> None:
        self._answer(status, _JSON, (json.dumps(value, indent=1, allow_nan=False) + "\n").encode("utf-8"))

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
