"""The web server: the page, its stream of frames, and a few answers for programs. Needs the extra ``dashboard``.

It has no password: it listens at the loopback interface unless told otherwise, and belongs behind a proxy that asks for
one. The page loads nothing from anywhere else, which its Content-Security-Policy holds browsers to.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import uvicorn
from starlette.applications import Starlette
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from uvicorn.protocols.http.h11_impl import H11Protocol

from headrace.errors import ConfigException
from headrace.tools.service import SUPERVISOR

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, MutableMapping

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from course_revenue.dashboard.feed import Feed
    from course_revenue.dashboard.reader import Event, Hand

log = logging.getLogger(__name__)

STATIC: Final = Path(__file__).parent / "static"
_MOST_PAGES: Final = 200
_MOST_CONNECTIONS: Final = 2 * _MOST_PAGES
_ASKS_WITHIN_S: Final = 10.0
_LOOK_S: Final = 0.3
_STOP_S: Final = 2
_NO_STORE: Final = {"Cache-Control": "no-store"}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


class _SafeHeaders:
    """Adds the headers that hold browsers to what the page does to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        await self._app(scope, receive, sending if scope["type"] == "http" else send)


def application(feed: Feed) -> ASGIApp:
    """The page and its answers, as an ASGI application.

    ========================= ==========================================================================
    ``/``                     the page
    ``/stream?after=…``       its frames, as server-sent events; 503 when too many pages look
    ``/trail?course=…``       how one course's total moved since the dashboard runs
    ``/status``               the last second's sums, offsets and states, for programs
    ``/live``                 200
    ``/ready``                200 once the page shows all that is in the topic, else 503
    ========================= ==========================================================================

    Args:
        feed: What is shown.
    """
    pages = 0

    async def page(_request: Request) -> Response:
        return FileResponse(STATIC / "index.html", headers=_NO_STORE)

    async def stream(request: Request) -> Response:
        nonlocal pages
        if pages >= _MOST_PAGES:
            return JSONResponse({"error": f"{pages} pages look already"}, 503, headers=_NO_STORE)
        pages += 1
        place = request.headers.get("last-event-id") or request.query_params.get("after")

        async def frames() -> Any:
            frames = feed.stream(place)
            async with contextlib.aclosing(frames):
                async for frame in frames:
                    yield frame

        async def gone() -> None:
            nonlocal pages
            pages -= 1

        headers = {**_NO_STORE, "X-Accel-Buffering": "no"}
        return _Stream(frames(), media_type="text/event-stream", headers=headers, gone=gone)

    async def trail(request: Request) -> Response:
        course = request.query_params.get("course", "")
        return JSONResponse({"course": course, "trail": feed.trail(course)}, headers=_NO_STORE)

    async def status(_request: Request) -> Response:
        return JSONResponse(feed.status(), headers=_NO_STORE)

    async def live(_request: Request) -> Response:
        return JSONResponse({"live": True}, headers=_NO_STORE)

    async def ready(_request: Request) -> Response:
        return JSONResponse({"ready": feed.live}, 200 if feed.live else 503, headers=_NO_STORE)

    return _SafeHeaders(
        Starlette(
            routes=[
                Route("/", page),
                Route("/stream", stream),
                Route("/trail", trail),
                Route("/status", status),
                Route("/live", live),
                Route("/ready", ready),
                Mount("/static", StaticFiles(directory=STATIC)),
            ]
        )
    )


class _Stream(StreamingResponse):
    """A stream that says when it has ended, however it does."""

    def __init__(self, content: Any, *, gone: Callable[[], Awaitable[None]], **options: Any) -> None:
        super().__init__(content, **options)
        self._gone = gone

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._gone()


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens; with port 0 at any free one.

    Raises:
        ConfigException: Nothing can listen there.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=64)
    except OSError as error:
        raise ConfigException(
            f"nothing can listen at {host}, port {port}: {error.strerror or error}. Choose another --port, or end what"
            " uses it"
        ) from error


def address_of(at: socket.socket) -> str:
    """What a browser is given to get there."""
    host, port = at.getsockname()[:2]
    if host in ("0.0.0.0", "::"):  # noqa: S104  # all interfaces, where an operator said so
        host = socket.gethostname()
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


class _Connection(H11Protocol):
    """Ends connections that ask for nothing, at first or any more, and those beyond what pages need.

    Else such clients take every file that the process may open: nobody gets the page any more, and asyncio says so
    thousands of times a second.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as the base has it
        """See the base."""
        super().connection_made(transport)
        if len(self.connections) > _MOST_CONNECTIONS:
            transport.abort()
        else:
            self._must_ask()

    def on_response_complete(self) -> None:
        """See the base, which waits without an end for the rest of a request that has begun."""
        self._must_ask()
        super().on_response_complete()

    def _must_ask(self) -> None:
        # None until there is a whole request, whatever its type says; each request has one of its own
        last = cast("object | None", self.cycle)

        def look() -> None:
            if self.cycle is last:
                self.transport.close()

        self.loop.call_later(_ASKS_WITHIN_S, look)


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Signals are taken by whoever serves."""
        yield


async def serve(feed: Feed, at: socket.socket, over: asyncio.Event) -> None:
    """Serves pages until ``over`` is set; ends within a few seconds then, whoever still looks.

    Args:
        feed: What is shown.
        at: A listening socket, closed at the end.
        over: Ends it.
    """
    server = _Server(
        uvicorn.Config(
            application(feed),
            http=_Connection,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=_STOP_S,
        )
    )
    ticking = asyncio.create_task(feed.run())
    serving = asyncio.create_task(server.serve(sockets=[at]))
    ending = asyncio.create_task(over.wait())
    try:
        await asyncio.wait((ticking, serving, ending), return_when=asyncio.FIRST_COMPLETED)
        for task in (ticking, serving):
            if task.done():
                task.result()
    finally:
        feed.close()
        server.should_exit = True
        ending.cancel()
        ticking.cancel()
        await serving


def hand_to(loop: asyncio.AbstractEventLoop, take: Callable[[Event], None]) -> Hand:
    """Gives events to what lives on a loop, from other threads: each waits until it was taken."""

    async def taking(event: Event) -> None:
        take(event)

    def hand(event: Event) -> bool:
        coroutine = taking(event)
        try:
            asyncio.run_coroutine_threadsafe(coroutine, loop).result()
        except (RuntimeError, asyncio.CancelledError):
            # the loop has ended
            coroutine.close()
            return False
        return True

    return hand


async def until_signal() -> None:
    """Waits for SIGTERM, SIGINT or SIGHUP, or until the process that started this one is gone."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, told.set)
    supervisor = os.environ.get(SUPERVISOR, "")
    while not told.is_set():
        if supervisor.isdecimal() and os.getppid() != int(supervisor):
            log.warning("the process that started this one is gone: stopping")
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(told.wait(), _LOOK_S)
