"""TCP proxies between instances and brokers, which can cut, silence and slow what passes."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Self

from headrace.testing.processes import HOST

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

_CHUNK = 1 << 16


class Network:
    """All proxies of a run, on one event loop and thread. A context manager.

    Args:
        routes: By instance number, the ports to listen on and where each leads to.
    """

    def __init__(self, routes: Mapping[int, Mapping[int, int]]) -> None:
        self._links = {number: _Link(ports) for number, ports in routes.items()}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        for link in self._links.values():
            self._do(link.open())
        return self

    def __exit__(self, *_: object) -> None:
        for link in self._links.values():
            self._do(link.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def reset(self, number: int) -> None:
        """Close every connection of the instance, once."""
        self._do(self._links[number].reset())

    def cut(self, number: int) -> None:
        """Close every connection of the instance, and each new one at once, until :meth:`heal`."""
        self._links[number].refusing = True
        self.reset(number)

    def silence(self, number: int) -> None:
        """Let nothing pass, with connections open, until :meth:`heal`."""
        self._do(self._links[number].hold())

    def slow(self, number: int, delay_s: float) -> None:
        """Hold back all that passes by ``delay_s`` seconds, until :meth:`heal`."""
        self._links[number].delay_s = delay_s

    def heal(self, number: int) -> None:
        """Let everything pass. What was silent goes on, or finds its connection closed by the other end."""
        self._do(self._links[number].heal())

    def _do(self, work: Coroutine[None, None, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)


class _Link:
    """The proxies of one instance."""

    def __init__(self, ports: Mapping[int, int]) -> None:
        self._ports = dict(ports)
        self._servers: list[asyncio.Server] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._passing = asyncio.Event()
        self._passing.set()
        self.refusing = False
        self.delay_s = 0.0

    async def open(self) -> None:
        for port, target in self._ports.items():

            async def connected(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: int = target
            ) -> None:
                await self._serve(reader, writer, target)

            self._servers.append(await asyncio.start_server(connected, HOST, port))

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        await self.reset()

    async def reset(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def hold(self) -> None:
        self._passing.clear()

    async def heal(self) -> None:
        self.refusing = False
        self.delay_s = 0.0
        self._passing.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: int) -> None:
        if self.refusing:
            writer.transport.abort()
            return
        try:
            up_reader, up_writer = await asyncio.open_connection(HOST, target)
        except OSError:
            writer.transport.abort()
            return
        both = (writer, up_writer)
        self._writers.update(both)
        try:
            await asyncio.gather(self._pump(reader, up_writer), self._pump(up_reader, writer))
        finally:
            self._writers.difference_update(both)
            for one in both:
                one.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                await self._passing.wait()
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                writer.write(data)
                await writer.drain()
        writer.transport.abort()
