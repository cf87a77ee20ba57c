"""Board and job as frames for any number of pages. Owned by the event loop: everything here runs on it.

A page's stream is a cursor: which board, which version, which second. A few times a second each page gets what is new
since its cursor, as one frame. A page that takes its frames slowly gets the next one later, with the newest state of
what moved meanwhile, so nothing queues up for it. A page that comes back says where it was (``Last-Event-ID``); where
the board has forgotten that, or is another one, it gets everything.

A frame is an event with JSON. Cents, counts of lines and event times are text there, since JavaScript's numbers end at
53 bits.

========= =====================================================================================
``full``  true on the first frame of a whole board: what the page had is of no use
``more``  true when the whole board goes on in the next frame
``rows``  ``[course, net_cents, line_count, flagged, updated_event_time]``, each replacing what there was
``gone``  courses to remove
``sums``  all courses together
``points`` the movement of the sums: ``[epoch ms, net_cents, line_count, flagged, courses]``
``status`` source, freshness, throughput and job, once a second
========= =====================================================================================
"""

from __future__ import annotations

import asyncio
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from course_revenue.dashboard.board import Batch, Board, undecoded_sentence
from course_revenue.dashboard.job import BUDGET_MS, UNHEARD_MS, Job, freshness, hot
from course_revenue.dashboard.reader import Brokers, JobSaid, Moved, Opened, Reading

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence

    from course_revenue.dashboard.board import News, Point, Sums
    from course_revenue.dashboard.job import Endpoint, Task, Told
    from course_revenue.dashboard.reader import Event
    from course_revenue.model import Revenue

TICK_S: Final = 0.25
"""How often pages get what is new."""
_TICKS_A_SECOND: Final = 4
_ROWS_A_FRAME: Final = 2_000
_AHEAD_MS: Final = 10_000
"""So far may the clocks of those who write event times be ahead of ours."""
_LONGEST_VERSION: Final = 18
_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Shown:
    """What the page says of where it reads; ``currency`` is an ISO code in lower case."""

    topic: str
    currency: str
    rejects: bool


class _Cursor(NamedTuple):
    board: str
    version: int
    second: int


class Feed:
    """See the module.

    Args:
        shown: See there.
        addresses: The job's ports.
        read_anew: Called when the topic is not the one that the board is of any more.
        now_ms: The clock, epoch ms.
    """

    def __init__(
        self,
        shown: Shown,
        addresses: Iterable[str],
        read_anew: Callable[[], None] = lambda: None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.board = _new_board()
        self.job = Job(addresses)
        self._shown = shown
        self._read_anew = read_anew
        self._now_ms = now_ms
        self._reading = Moved(Reading.OPENING)
        self._since_ms = now_ms()
        self._brokers: Brokers | None = None
        self._topic_id = ""
        self._seen_positions: dict[int, int] = {}
        self._unread: tuple[int, Mapping[int, int]] | None = None
        self._lost = 0
        self._records_before: tuple[int, int] | None = None
        self._records_per_second = 0.0
        self._second = 0
        self._ticked = asyncio.Event()
        self._frames: dict[_Cursor | None, tuple[list[bytes], _Cursor]] = {}
        self._over = False
        self._status = self._told(self._since_ms)

    @property
    def live(self) -> bool:
        """Whether the board has everything that is in the topic."""
        return self._state()[0] is Reading.LIVE

    def take(self, event: Event) -> None:
        """Takes in what a thread learnt."""
        now = self._now_ms()
        match event:
            case Batch():
                self.board.apply(event, now)
            case Opened():
                self._topic_id, self._seen_positions, self._unread, self._lost = event.topic_id, {}, None, 0
                self.board = _new_board()
            case Moved():
                before = self._state()[0]
                self._reading = event
                self._turned(before)
                if event.state is Reading.LIVE:
                    self.board.caught_up(now)
            case Brokers():
                before = self._state()[0]
                self._brokers = event
                self._turned(before)
                self._compare(event)
                if event.failure is None:
                    self.job.compare(event.job_ends, event.hidden, now)
            case JobSaid():
                if event.failure is None:
                    self.job.answered(event.address, event.instances, now)
                else:
                    self.job.failed(event.address, event.failure, now)

    async def run(self) -> None:
        """Lets pages know of what is new, until it is cancelled."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        ticks = 0
        while True:
            if ticks % _TICKS_A_SECOND == 0:
                self._each_second()
            self._tick()
            ticks += 1
            due = max(due + TICK_S, loop.time())
            await asyncio.sleep(due - loop.time())

    def close(self) -> None:
        """Ends the streams of all pages."""
        self._over = True
        self._tick()

    async def stream(self, last_event_id: str | None) -> AsyncGenerator[bytes]:
        """The frames for one page, without end.

        Args:
            last_event_id: What the page got last, when it comes back.
        """
        cursor = _cursor(last_event_id)
        # how long a browser waits before it comes back
        yield b"retry: 1000\n\n"
        while not self._over:
            ticked = self._ticked
            frames, cursor = self._after(cursor)
            for frame in frames:
                yield frame
            await ticked.wait()

    def trail(self, course: str) -> list[tuple[int, str]]:
        """How a course's total moved: times (epoch ms) and cents as text."""
        return [(at, str(cents)) for at, cents in self.board.trail(course)]

    def status(self) -> dict[str, Any]:
        """The last second's status and sums, for programs."""
        return {"sums": _sums(self.board.sums()), **self._status}

    def _tick(self) -> None:
        self._frames.clear()
        ticked, self._ticked = self._ticked, asyncio.Event()
        ticked.set()

    def _each_second(self) -> None:
        now = self._now_ms()
        self.board.note(now)
        records, before = self.board.records, self._records_before
        if before is not None and now > before[0]:
            self._records_per_second = max(0, records - before[1]) * 1000 / (now - before[0])
        self._records_before = (now, records)
        self._second += 1
        self._status = self._told(now)

    def _after(self, cursor: _Cursor | None) -> tuple[list[bytes], _Cursor]:
        """What a page at a cursor is to get, and its next cursor; pages at one place share the bytes."""
        made = self._frames.get(cursor)
        if made is None:
            made = self._frames[cursor] = self._make(cursor)
        return made

    def _make(self, cursor: _Cursor | None) -> tuple[list[bytes], _Cursor]:
        board = self.board
        after = _Cursor(board.name, board.version, self._second)
        news = None if cursor is None or cursor.board != board.name else board.since(cursor.version)
        if cursor is None or news is None:
            return self._whole(board.everything(), after), after
        frame: dict[str, Any] = {}
        if news.rows or news.removed:
            frame |= {"rows": _rows(news.rows), "gone": news.removed, "sums": _sums(board.sums())}
        if news.points:
            frame["points"] = _points(news.points)
        if cursor.second != self._second:
            frame |= {"sums": _sums(board.sums()), "status": self._status}
        return ([_event(frame, after)] if frame else []), after

    def _whole(self, news: News, after: _Cursor) -> list[bytes]:
        """In pieces, so that no page has to swallow it at once; only the last one has an id to come back with."""
        pieces = [news.rows[at : at + _ROWS_A_FRAME] for at in range(0, len(news.rows), _ROWS_A_FRAME)] or [[]]
        frames: list[bytes] = []
        for number, piece in enumerate(pieces):
            frame: dict[str, Any] = {"full": number == 0, "more": number < len(pieces) - 1, "rows": _rows(piece)}
            if frame["more"]:
                frames.append(_event(frame, None))
            else:
                last = {"sums": _sums(self.board.sums()), "points": _points(news.points), "status": self._status}
                frames.append(_event(frame | last, after))
        return frames

    def _compare(self, brokers: Brokers) -> None:
        """Whether the topic is still the one that was read: another of its name, and one whose end is gone, are not."""
        if brokers.topic_id is None or not self._topic_id:
            return
        ends, starts = brokers.ends or {}, brokers.starts or {}
        # positions of the last look: since then the reader may have passed ends that were asked for before
        cut = any(position > ends.get(partition, 0) for partition, position in self._seen_positions.items())
        if brokers.topic_id != self._topic_id or cut:
            self._seen_positions = {}
            self._read_anew()
            return
        self._seen_positions = dict(self.board.positions)
        self._lost = self.board.lost(starts)
        if self._unread is not None and self._has_read(self._unread[1]):
            self._unread = None
        if self._unread is None and not self._has_read(ends):
            self._unread = self._now_ms(), ends

    def _has_read(self, ends: Mapping[int, int]) -> bool:
        positions = self.board.positions
        return all(positions.get(partition, 0) >= end for partition, end in ends.items())

    def _behind_ms(self, now: int) -> int:
        """For how long something has lain in the topic that is not on the board; 0 while the board is being filled."""
        return now - self._unread[0] if self._unread is not None and self.live else 0

    def _state(self) -> tuple[Reading, str]:
        """Where the reading stands, by the reader and by who asks the brokers."""
        brokers = self._brokers
        reading = self._reading
        if brokers is not None and reading.state in (Reading.OPENING, Reading.READING, Reading.LIVE):
            if brokers.failure is not None:
                return Reading.NO_BROKERS, brokers.failure
            if brokers.topic_id is None:
                return Reading.NO_TOPIC, f"there is no topic {self._shown.topic}"
        return reading.state, reading.why

    def _turned(self, before: Reading) -> None:
        if self._state()[0] is not before:
            self._since_ms = self._now_ms()

    def _told(self, now: int) -> dict[str, Any]:
        newest, ahead = self.board.newest_until(now + _AHEAD_MS)
        # without brokers the job hears of no line that lands
        waited = None if self._state()[0] is Reading.NO_BROKERS else self.job.waited_ms()
        # what the job has written and the board has not is in no total that anybody sees
        if (behind := self._behind_ms(now)) > BUDGET_MS:
            waited = max(behind, waited or 0)
        kept = freshness(newest, waited, now)
        tasks = [task for task in self.job.tasks() if task.active]
        rates = [task.records_per_second for task in tasks if task.records_per_second is not None]
        return {
            "now": now,
            "shown": {"topic": self._shown.topic, "currency": self._shown.currency, "budget_ms": BUDGET_MS},
            "source": self._source(now),
            "freshness": {
                "verdict": kept.verdict,
                "age_ms": kept.age_ms,
                "waited_ms": kept.waited_ms,
                "newest_ms": newest,
                "ahead": ahead,
            },
            "throughput": {
                "lines_per_second": round(self.board.lines_per_second(), 1),
                "records_per_second": round(self._records_per_second, 1),
                "job_records_per_second": round(sum(rates), 1) if rates else None,
            },
            "job": self._job(now),
        }

    def _source(self, now: int) -> dict[str, Any]:
        state, why = self._state()
        board, ends = self.board, (self._brokers and self._brokers.ends) or {}
        last = board.last_undecoded
        return {
            "state": state.value,
            "why": why,
            "since_ms": self._since_ms,
            "records": board.records,
            "offsets": [
                [partition, str(at), str(max(at, ends[partition])) if partition in ends else None]
                for partition, at in sorted(board.positions.items())
            ],
            "undecoded": board.undecoded,
            "last_undecoded": None if last is None else undecoded_sentence(last),
            "lost": self._lost,
            "fewer": board.fewer,
            "behind_ms": self._behind_ms(now),
        }

    def _job(self, now: int) -> dict[str, Any]:
        job = self.job
        tasks = job.tasks()
        marked = hot(tasks)
        unheard, topics = job.unheard()
        return {
            "asked": bool(job.endpoints),
            "answers": job.answers,
            "endpoints": [_endpoint(at) for at in job.endpoints.values()],
            "instances": [_instance(at, told) for at in job.endpoints.values() for told in at.instances],
            "tasks": sorted((_task(task, marked, now) for task in tasks), key=lambda row: (row["id"], row["type"])),
            "held_up": job.held_up(),
            "unseen": job.unseen(),
            "unheard": {"ms": unheard, "topics": topics} if unheard > UNHEARD_MS else None,
            "hidden": sorted(job.hidden),
            "rejects": self._shown.rejects,
            "rejected": job.rejected(),
            "dropped": dict(job.dropped()),
        }


def _new_board() -> Board:
    return Board(uuid.uuid4().hex[:12])


def _cursor(last_event_id: str | None) -> _Cursor | None:
    board, dot, version = (last_event_id or "").partition(".")
    known = dot and version.isascii() and version.isdecimal() and len(version) <= _LONGEST_VERSION
    return _Cursor(board, int(version), -1) if known else None


def _event(frame: dict[str, Any], after: _Cursor | None) -> bytes:
    head = b"" if after is None else f"id: {after.board}.{after.version}\n".encode()
    return head + b"data: " + _encode(frame) + b"\n\n"


def _rows(rows: Sequence[tuple[str, Revenue]]) -> list[tuple[str, str, str, int, str]]:
    return [
        (course, str(one.net_cents), str(one.line_count), int(one.dimension_missing), str(one.updated_event_time))
        for course, one in rows
    ]


def _points(points: Sequence[Point]) -> list[tuple[int, str, str, int, int]]:
    return [(at.at_ms, str(at.sums.net_cents), str(at.sums.lines), at.sums.flagged, at.sums.courses) for at in points]


def _sums(sums: Sums) -> dict[str, Any]:
    newest = sums.newest_event_ms
    return {
        "courses": sums.courses,
        "net_cents": str(sums.net_cents),
        "lines": str(sums.lines),
        "flagged": sums.flagged,
        "newest_event_ms": None if newest is None else str(newest),
    }


def _endpoint(at: Endpoint) -> dict[str, Any]:
    return {"address": at.address, "failure": at.failure, "since_ms": at.since_ms}


def _instance(at: Endpoint, told: Told) -> dict[str, Any]:
    return {
        "name": told.instance or told.client_id or at.address,
        "address": at.address,
        "answers": told.answers,
        "reason": told.reason,
        "state": told.state if told.answers else "",
        "threads": [thread.state for thread in told.threads],
        "active": sum(task.active for task in told.tasks),
        "standby": sum(not task.active for task in told.tasks),
        "starts": told.starts,
        "version": told.version,
    }


def _task(task: Task, marked: dict[str, list[str]], now: int) -> dict[str, Any]:
    commit = task.last_commit_ms
    return {
        "id": task.id,
        "type": task.type,
        "state": task.state,
        "topics": sorted({at.topic for at in task.partitions}),
        "lag": task.lag,
        "rate": task.records_per_second,
        "hot": marked.get(task.id, []) if task.active else [],
        "restore_remaining": task.restore_remaining,
        "commit_age_ms": None if commit is None else max(0, now - commit),
        "waits_for": task.waits_for,
    }
