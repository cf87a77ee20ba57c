"""The dashboard's server over events that a test makes up, in place of threads that read a topic and a job."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Self

from course_revenue.dashboard import server
from course_revenue.dashboard.board import Batch, Change
from course_revenue.dashboard.feed import Feed, Shown
from course_revenue.dashboard.job import read_tasks
from course_revenue.dashboard.reader import Brokers, JobSaid, Moved, Opened, Reading
from course_revenue.model import Revenue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from course_revenue.dashboard.reader import Event

JOB = "http://job-1:8080"
PARTITIONS = 6


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class SyntheticDashboard:
    """A server on a loop of its own in a thread. A context manager."""

    def __init__(self, *, currency: str = "eur", rejects: bool = True, port: int = 0) -> None:
        self._listener = server.listening("127.0.0.1", port)
        self.address = server.address_of(self._listener)
        self.port: int = self._listener.getsockname()[1]
        self.anew = 0
        self._back_ms = 0
        self._shown = Shown("commerce.course_revenue", currency, rejects)
        self._ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self.offsets = dict.fromkeys(range(PARTITIONS), 0)

    async def _run(self) -> None:
        over = asyncio.Event()
        self.feed = Feed(self._shown, [JOB], self._count_anew, lambda: now_ms() - self._back_ms)
        self._ready.set_result((asyncio.get_running_loop(), over))
        await server.serve(self.feed, self._listener, over)

    def _count_anew(self) -> None:
        self.anew += 1

    def __enter__(self) -> Self:
        self._thread.start()
        self._loop, self._over = self._ready.result(30)
        self._hand = server.hand_to(self._loop, self.feed.take)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(30)
        assert not self._thread.is_alive()

    def take(self, *events: Event) -> None:
        for event in events:
            self._hand(event)

    def live(self) -> None:
        self.take(Opened("id-1"), self.brokers(), Moved(Reading.READING), Moved(Reading.LIVE))

    def minutes(self, count: int) -> Iterator[int]:
        """Lives through so many minutes up to now, in steps of ten seconds: gives the ms that are left at each."""
        for self._back_ms in range(count * 60_000, -1, -10_000):
            yield self._back_ms

    def note(self) -> None:
        """A point of the sums' movement, as there is one every second."""
        noted = asyncio.run_coroutine_threadsafe(self._note(), self._loop)
        noted.result(30)

    async def _note(self) -> None:
        self.feed.board.note(now_ms() - self._back_ms)

    def brokers(self, topic_id: str = "id-1", failure: str | None = None) -> Brokers:
        if failure is not None:
            return Brokers(failure=failure)
        return Brokers(None, topic_id, dict.fromkeys(self.offsets, 0), dict(self.offsets))

    def totals(self, totals: Iterable[Revenue | str]) -> None:
        """Totals as records; a text is a tombstone of that course."""
        changes: list[Change] = []
        for one in totals:
            course = one if isinstance(one, str) else str(one.course_id)
            partition = hash(course) % PARTITIONS
            changes.append(Change(course, None if isinstance(one, str) else one, partition, self.offsets[partition]))
            self.offsets[partition] += 1
        self.take(Batch(changes, (), dict(self.offsets), len(changes)))

    def job(self, tasks: Sequence[dict[str, Any]], state: str = "RUNNING", round_age_s: float = 0.1) -> None:
        page = {
            "application_id": "course-revenue",
            "client_id": "course-revenue-4711",
            "version": "0.1.0",
            "state": state,
            "threads": [{"name": "t-1", "state": "RUNNING", "round_age_s": round_age_s}],
            "tasks": list(tasks),
        }
        self.take(JobSaid(JOB, read_tasks(json.dumps(page).encode())))

    def job_down(self) -> None:
        self.take(JobSaid(JOB, failure="[Errno 111] Connection refused"))


def task(name: str, *, rate: float = 100.0, lag: int = 0, **more: Any) -> dict[str, Any]:
    """A task as ``/tasks`` tells it."""
    topic = "commerce.purchase_line" if name.startswith("0_") else "course-revenue-KSTREAM-KEY-SELECT-repartition"
    return {
        "id": name,
        "type": "active",
        "state": "RUNNING",
        "partitions": [{"topic": topic, "partition": int(name[2:]), "offset": 5000, "end": 5000 + lag, "lag": lag}],
        "records_total": 5000,
        "records_per_second": rate,
        "last_commit_ms": now_ms() - 400,
        **more,
    }


def revenue(number: int, cents: int, lines: int = 1, *, flagged: bool = False, event_ms: int | None = None) -> Revenue:
    """A total of course ``number``."""
    return Revenue(f"course-{number:06d}", cents, lines, flagged, now_ms() if event_ms is None else event_ms)
