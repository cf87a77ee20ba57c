"""What the output topic says: the latest total of every course, their sums, and how they moved. Pure.

Every change gets the next number, the board's version. Rows lie in the order of their last change, so what a reader at
version ``v`` has not seen stands at the end, and nothing is kept for a reader but that number. Removed courses stay for
a while as rows without a total, so that readers hear of it; who was away for longer starts anew.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from course_revenue.model import Revenue

HISTORY_S: Final = 600
"""How far back the movement of the sums is kept; one point a second."""
_REMOVED_KEPT: Final = 10_000
_TRAIL_POINTS: Final = 120
_TRAIL_EVERY_MS: Final = 5_000
_RATE_MS: Final = 10_000


class Change(NamedTuple):
    """A record of the topic, decoded; ``total`` None removes the course."""

    course: str
    total: Revenue | None
    partition: int
    offset: int


class Undecoded(NamedTuple):
    """A record that says nothing, because it does not decode. ``course`` is None where its key does not either."""

    partition: int
    offset: int
    what: str
    course: str | None


@dataclass(frozen=True, slots=True)
class Batch:
    """What was read at a time.

    Attributes:
        changes: In the order of their partitions.
        undecoded: Records that do not decode.
        positions: By partition, the offset up to which (exclusive) the topic is read now.
        records: How many records were read.
    """

    changes: Sequence[Change] = ()
    undecoded: Sequence[Undecoded] = ()
    positions: Mapping[int, int] = field(default_factory=dict[int, int])
    records: int = 0


class Sums(NamedTuple):
    """All courses together; ``newest_event_ms`` is the greatest event time in any total, None without totals."""

    courses: int
    net_cents: int
    lines: int
    flagged: int
    newest_event_ms: int | None


class Point(NamedTuple):
    """The sums at a time (epoch ms), and the version that the point has."""

    at_ms: int
    sums: Sums
    version: int


class News(NamedTuple):
    """What is new since a version: totals by course, and courses that have none any more."""

    version: int
    rows: list[tuple[str, Revenue]]
    removed: list[str]
    points: list[Point]


@dataclass(slots=True)
class _Row:
    course: str
    total: Revenue | None
    partition: int
    offset: int
    version: int
    trail: array[int] | None = None
    """Times and cents by turns."""
    most: int = 0
    """The greatest number of lines since the board is live."""


class Board:
    """See the module. Used by one thread.

    Args:
        name: Tells this board from any other; a reader's version is of no use on another board.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.version = 0
        self.records = 0
        self.positions: dict[int, int] = {}
        self.undecoded = 0
        self.last_undecoded: Undecoded | None = None
        self.live_since_ms: int | None = None
        self.fewer = 0
        """Courses that count fewer lines than they did since the board is live: counted anew, or put right."""
        self._rows: OrderedDict[str, _Row] = OrderedDict()
        self._removed: deque[tuple[int, str]] = deque()
        self._forgotten = 0
        self._points: deque[Point] = deque(maxlen=HISTORY_S)
        self._net = self._lines = self._flagged = self._courses = 0
        self._newest: int | None = None
        self._newest_known = True

    def apply(self, batch: Batch, now_ms: int) -> None:
        """Takes in what was read."""
        self.records += batch.records
        self.positions.update(batch.positions)
        for undecoded in batch.undecoded:
            self.undecoded += 1
            self.last_undecoded = undecoded
        for change in batch.changes:
            self._change(change, now_ms)
        while len(self._removed) > _REMOVED_KEPT:
            version, course = self._removed.popleft()
            row = self._rows.get(course)
            if row is not None and row.version == version:
                del self._rows[course]
                self._forgotten = version

    def caught_up(self, now_ms: int) -> None:
        """From here on changes are movement, and not the reading of what was there."""
        if self.live_since_ms is None:
            self.live_since_ms = now_ms
            self.note(now_ms)

    def note(self, now_ms: int) -> None:
        """Keeps the sums as they are now as a point of their movement; does nothing before the end was reached."""
        if self.live_since_ms is not None:
            self.version += 1
            self._points.append(Point(now_ms, self.sums(), self.version))

    def sums(self) -> Sums:
        """All courses together; exact, however great."""
        if not self._newest_known:
            times = [row.total.updated_event_time for row in self._rows.values() if row.total is not None]
            self._newest, self._newest_known = max(times, default=None), True
        return Sums(self._courses, self._net, self._lines, self._flagged, self._newest)

    def newest_until(self, limit_ms: int) -> tuple[int | None, int]:
        """The greatest event time in any total that is not beyond a limit, and how many totals are beyond it.

        A total keeps the greatest event time for ever, so that of one wrong line would hide all others.
        """
        newest = self.sums().newest_event_ms
        if newest is None or newest <= limit_ms:
            return newest, 0
        times = [row.total.updated_event_time for row in self._rows.values() if row.total is not None]
        within = [time for time in times if time <= limit_ms]
        return max(within, default=None), len(times) - len(within)

    def lines_per_second(self) -> float:
        """Lines that came into the totals lately, per second; 0 while totals are counted anew."""
        if len(self._points) < 2:
            return 0.0
        first = last = self._points[-1]
        for point in reversed(self._points):
            # a clock that was set back puts points of later times in front of it
            if not last.at_ms - _RATE_MS <= point.at_ms <= first.at_ms:
                break
            first = point
        seconds = (last.at_ms - first.at_ms) / 1000
        return max(0.0, (last.sums.lines - first.sums.lines) / seconds) if seconds > 0 else 0.0

    def since(self, version: int) -> News | None:
        """What is new after a version; None when too much was forgotten since, or the board never had that version."""
        if not self._forgotten <= version <= self.version:
            return None
        rows: list[tuple[str, Revenue]] = []
        removed: list[str] = []
        for row in reversed(self._rows.values()):
            if row.version <= version:
                break
            if row.total is None:
                removed.append(row.course)
            else:
                rows.append((row.course, row.total))
        points = [point for point in self._points if point.version > version]
        return News(self.version, rows, removed, points)

    def everything(self) -> News:
        """The whole board."""
        rows = [(row.course, row.total) for row in self._rows.values() if row.total is not None]
        return News(self.version, rows, [], list(self._points))

    def trail(self, course: str) -> list[tuple[int, int]]:
        """How a course's total moved since the board is live: times (epoch ms) and cents, oldest first."""
        row = self._rows.get(course)
        flat = () if row is None or row.trail is None else row.trail
        return list(zip(flat[::2], flat[1::2], strict=True))

    def lost(self, starts: Mapping[int, int]) -> int:
        """How many totals lie in front of where the topic begins now: whoever reads it anew does not see them."""
        return sum(row.total is not None and row.offset < starts.get(row.partition, 0) for row in self._rows.values())

    def _change(self, change: Change, now_ms: int) -> None:
        course, total = change.course, change.total
        row = self._rows.get(course)
        before = None if row is None else row.total
        if before is None and total is None:
            return
        self.version += 1
        if row is None:
            row = self._rows[course] = _Row(course, None, change.partition, change.offset, self.version)
        else:
            self._rows.move_to_end(course)
        row.total, row.partition, row.offset, row.version = total, change.partition, change.offset, self.version
        if before is not None:
            self._add(before, -1)
            self.fewer -= before.line_count < row.most
        if total is None:
            self._removed.append((self.version, course))
            row.trail, row.most = None, 0
        else:
            self._add(total, 1)
            if self.live_since_ms is not None:
                row.most = max(row.most, total.line_count, 0 if before is None else before.line_count)
                self.fewer += total.line_count < row.most
                _follow(row, before, self.live_since_ms, total.net_cents, now_ms)

    def _add(self, total: Revenue, sign: int) -> None:
        self._courses += sign
        self._net += sign * total.net_cents
        self._lines += sign * total.line_count
        self._flagged += sign * total.dimension_missing
        newest = self._newest
        if sign < 0:
            # what comes in its place may be older, as in a rebuild
            self._newest_known = self._newest_known and total.updated_event_time != newest
        elif newest is None or total.updated_event_time >= newest:
            self._newest, self._newest_known = total.updated_event_time, True


def undecoded_sentence(undecoded: Undecoded) -> str:
    """Where it lies and what is wrong, without its content."""
    course = f" (course {undecoded.course})" if undecoded.course is not None else ""
    return f"partition {undecoded.partition}, offset {undecoded.offset}{course}: {undecoded.what}"


def _follow(row: _Row, before: Revenue | None, live_since_ms: int, cents: int, now_ms: int) -> None:
    trail = row.trail
    if trail is None:
        trail = row.trail = array("q", () if before is None else (live_since_ms, before.net_cents))
    # two points at the end are closer together than the others: the newest one moves until it is old enough
    if len(trail) >= 4 and now_ms - trail[-4] < _TRAIL_EVERY_MS:
        trail[-2], trail[-1] = now_ms, cents
    else:
        trail.extend((now_ms, cents))
        del trail[: -2 * _TRAIL_POINTS]


__all__ = ["HISTORY_S", "Batch", "Board", "Change", "News", "Point", "Sums", "Undecoded", "undecoded_sentence"]
