"""``course-revenue dashboard``."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Final

import typer

from course_revenue.contract import OnBrokenLine
from course_revenue.options import ConfigFile, Set, target
from headrace.cli.common import log_to_stderr, say
from headrace.errors import ConfigException

if TYPE_CHECKING:
    from course_revenue.dashboard.reader import Watcher
    from course_revenue.options import Target

DEFAULT_PORT: Final = 8090


def dashboard(
    config: ConfigFile,
    settings: Set = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at; 0 for any free one.")] = DEFAULT_PORT,
    host: Annotated[str, typer.Option(help="Interface to listen at; 0.0.0.0 lets everybody look.")] = "127.0.0.1",
    fd: Annotated[
        int | None, typer.Option(min=0, help="A listening socket that was handed down, in place of host and port.")
    ] = None,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "warning",
) -> None:
    """Show the totals on a web page that moves by itself, until SIGTERM or Ctrl-C.

    Reads the output topic and the job's HTTP ports (course.revenue.dashboard.job), and nothing else.
    """
    log_to_stderr(log_level)
    # what it says of single requests is nobody's business here
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    at = target(config, settings, None)
    try:
        from course_revenue.dashboard import server
    except ImportError as error:
        raise ConfigException(
            f"the dashboard needs starlette and uvicorn ({error}): install course-revenue[dashboard]"
        ) from error
    listener = socket.socket(fileno=fd) if fd is not None else server.listening(host, port)
    say(f"dashboard: {server.address_of(listener)}")
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(at, listener))


async def _serve(at: Target, listener: socket.socket) -> None:
    from course_revenue.dashboard import server
    from course_revenue.dashboard.feed import Feed, Shown
    from course_revenue.dashboard.reader import BrokerWatch, Follower, JobWatch, Source

    settings = at.settings
    source = Source(at.brokers, settings.output, at.client, at.values.revenue.deserializer)
    shown = Shown(settings.output, settings.currency.value, settings.on_broken_line is OnBrokenLine.REJECT)
    addresses = settings.job_addresses or _own_port(at)
    feed = Feed(shown, addresses, read_anew=lambda: follower.read_anew())
    hand = server.hand_to(asyncio.get_running_loop(), feed.take)
    follower = Follower(source, hand)
    brokers = BrokerWatch(source, hand, feed.job.reads)
    threads: list[Watcher] = [follower, brokers, *(JobWatch(address, hand) for address in addresses)]
    for thread in threads:
        thread.start()
    over = asyncio.Event()
    serving = asyncio.create_task(server.serve(feed, listener, over))
    ending = asyncio.create_task(server.until_signal())
    await asyncio.wait((serving, ending), return_when=asyncio.FIRST_COMPLETED)
    for thread in threads:
        thread.end()
    over.set()
    ending.cancel()
    await serving


def _own_port(at: Target) -> tuple[str, ...]:
    """The port that the job has by the same settings."""
    host, port = at.streams_config["headrace.http.host"], at.streams_config["headrace.http.port"]
    if not port:
        return ()
    host = "127.0.0.1" if host == "0.0.0.0" else host  # noqa: S104  # nothing is bound here
    return (f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}",)
