"""A registry over HTTP in this process: the one in memory behind a socket, which can be told to fail."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

from headrace.serdes.registry import InMemoryRegistry

if TYPE_CHECKING:
    import ssl


class RegistryServer(AbstractContextManager["RegistryServer"]):
    """Attributes: ``failing`` is a status to answer everything with; ``requests`` is what came, with its headers."""

    def __init__(self, tls: ssl.SSLContext | None = None, prefix: str = "") -> None:
        self.registry = InMemoryRegistry()
        self.failing: int | None = None
        self.answer: bytes | None = None
        self.without_guids = False
        self.requests: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def _handle(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                body = self.rfile.read(length) if length else None
                outer.requests.append((self.command, self.path))
                outer.headers.append(dict(self.headers.items()))
                status, content = outer.reply(self.command, self.path.removeprefix(prefix), body)
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = do_DELETE = _handle

            def log_request(self, code: Any = "-", size: Any = "-") -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self.url = f"{'http' if tls is None else 'https'}://localhost:{self.port}{prefix}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def reply(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        if self.failing is not None:
            return self.failing, self.answer or b'{"error_code": 50001, "message": "down"}'
        status, content = self.registry.request(method, path, body)
        if self.without_guids:
            import json

            answer = json.loads(content)
            if isinstance(answer, dict):
                answer.pop("guid", None)
            content = json.dumps(answer).encode()
        return status, content

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
