"""One request to a registry over HTTP, on the standard library's client.

This is the one place below the Kafka clients that has a socket. A schema is asked for once and kept, so a connection
for each request costs nothing that counts, and no HTTP package is needed.
"""

from __future__ import annotations

import base64
import http.client
import ssl
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

from headrace.errors import ConfigException
from headrace.serdes.registry.errors import RegistryUnavailableException

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.serdes.registry.settings import ClientSettings

_RETRIABLE: Final = frozenset({408, 429, 500, 502, 503, 504})
_CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_ACCEPT: Final = f"{_CONTENT_TYPE}, application/vnd.schemaregistry+json, application/json"


class HttpTransport:
    """Sends requests to one of several addresses, again and to the next one while none answers.

    Args:
        settings: Addresses, credentials, times.
        pause: Waits that many seconds between two rounds.
    """

    def __init__(self, settings: ClientSettings, pause: Callable[[float], None] = time.sleep) -> None:
        self._settings = settings
        self._pause = pause
        self._addresses = [_Address(url, settings.user_info) for url in settings.urls]
        self._first = 0
        connect_s, read_s = settings.connect_timeout_ms / 1000, settings.read_timeout_ms / 1000
        proxies = {"http": settings.proxy, "https": settings.proxy} if settings.proxy is not None else None
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler(proxies),
            _Handler(connect_s, read_s),
            _TlsHandler(connect_s, read_s, _tls_context(settings)),
        )

    @property
    def where(self) -> str:
        """The addresses, for messages."""
        return ", ".join(address.url for address in self._addresses)

    def request(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        """Status and content of the answer.

        Raises:
            RegistryUnavailableException: No address gave an answer other than "try again".
            ConfigException: The address or its certificate is wrong.
        """
        problem = ""
        asked = 0
        silent = False
        for attempt in range(self._settings.max_retries + 1):
            if silent:
                # whoever waits holds up its thread and an open transaction: the record is tried again as a whole
                break
            if attempt:
                wait_ms = self._settings.retries_wait_ms * 2 ** (attempt - 1)
                self._pause(min(wait_ms, self._settings.retries_max_wait_ms) / 1000)
            asked += 1
            for turn in range(len(self._addresses)):
                index = (self._first + turn) % len(self._addresses)
                address = self._addresses[index]
                try:
                    status, content = self._send(address, method, path, body)
                except (OSError, http.client.HTTPException) as e:
                    problem = f"{address.url}: {_reason(e)}"
                    silent = silent or _timed_out(e)
                    continue
                if status not in _RETRIABLE:
                    self._first = index
                    return status, content
                problem = f"{address.url}: HTTP status {status}"
        raise RegistryUnavailableException(
            f"The schema registry does not answer {method} {path} ({problem}; asked {asked} times at "
            f"{self.where}). Nothing is wrong with the record."
        )

    def _send(self, address: _Address, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        settings = self._settings
        headers = {"Accept": _ACCEPT, **dict(settings.headers)}
        if body is not None:
            headers["Content-Type"] = _CONTENT_TYPE
        if settings.token is not None:
            token = settings.token if isinstance(settings.token, str) else settings.token()
            headers["Authorization"] = f"Bearer {token}"
        elif address.basic is not None:
            headers["Authorization"] = f"Basic {address.basic}"
        request = urllib.request.Request(address.url + path, body, headers, method=method)  # noqa: S310  # checked by the setting
        try:
            with self._opener.open(request) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as e:
            with e:
                return e.code, e.read()
        except urllib.error.URLError as e:
            if isinstance(e.reason, ssl.SSLCertVerificationError):
                raise ConfigException(
                    f"The certificate of the schema registry at {address.url} is not trusted: "
                    f"{e.reason.verify_message}. Set schema.registry.ssl.truststore.location to a PEM file."
                ) from e
            raise


class _Address:
    def __init__(self, url: str, user_info: str | None) -> None:
        parts = urlsplit(url)
        if user_info is None and parts.username is not None:
            user_info = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        self.url = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        self.basic = None if user_info is None else base64.b64encode(user_info.encode()).decode("ascii")


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    return str(reason) or type(reason).__name__


def _timed_out(error: Exception) -> bool:
    return isinstance(error, TimeoutError) or isinstance(getattr(error, "reason", None), TimeoutError)


def _tls_context(settings: ClientSettings) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=settings.ca_file)
        if settings.certificate_file is not None:
            context.load_cert_chain(settings.certificate_file, password=settings.key_password)
    except (OSError, ssl.SSLError) as e:
        files = ", ".join(name for name in (settings.ca_file, settings.certificate_file) if name is not None)
        raise ConfigException(f"The schema registry's certificates cannot be read from {files}: {e}") from e
    context.check_hostname = settings.check_host_name
    return context


class _Handler(urllib.request.HTTPHandler):
    """Connects within one time and waits for answers for another."""

    def __init__(self, connect_s: float, read_s: float) -> None:
        super().__init__()
        self._times = connect_s, read_s

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        times = self._times

        class Connection(http.client.HTTPConnection):
            def connect(self) -> None:
                _connect(self, super().connect, times)

        return self.do_open(Connection, req)


class _TlsHandler(urllib.request.HTTPSHandler):
    def __init__(self, connect_s: float, read_s: float, context: ssl.SSLContext) -> None:
        super().__init__(context=context)
        self._times = connect_s, read_s
        self._tls = context

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        times = self._times

        class Connection(http.client.HTTPSConnection):
            def connect(self) -> None:
                _connect(self, super().connect, times)

        return self.do_open(Connection, req, context=self._tls)


def _connect(connection: Any, connect: Callable[[], None], times: tuple[float, float]) -> None:
    connection.timeout = times[0]
    connect()
    connection.sock.settimeout(times[1])
