"""Lines that come again: an idempotence store in front of the sum.

A line is the same as another one when order id and line id are. It is looked for in the partition of its course, behind
the repartition: a line that comes again under another course is seen only where both courses share a partition. A
repeat is found when its time and that of a line counted are no more than the retention apart.

What is remembered, and for how long, must not follow from lines' times: one may be wrong, and in a rebuild those of
several input partitions come mixed, some far ahead of others. So lines are kept in generations, which the instance's
clock begins: each counted line goes into the newest one, whatever its time, and a line that comes a retention or more
after that one began begins the next. It and the two before it are looked through. So a line is remembered for two
retentions of the clock at least, and a rebuild, which takes less, remembers all its lines.

A clock that goes back below where the newest generation began makes it begin anew there: else nothing would be
forgotten until the clock is there again. A clock that jumps ahead begins one generation, however far it jumps, so one
that jumps and comes back leaves each line a retention at least.

The store is a window store, and a generation's number takes the place of the windows' start, in a unit that does not
depend on the retention, so that another retention finds all that is there. Old generations are dropped from disk as a
whole. Which ones there are is told by the lines themselves; a row says when the newest one began, so that an instance
that restores the store goes on in it, and where the changelog has that row no more, it begins anew.

The changelog goes with the transaction that counts the line, so a line is remembered if, and only if, it is counted.
Its times are the brokers', and its retention follows from the generations: by the lines' own times the brokers would
delete rows of a rebuild too early, and none behind a row of the future.
"""

from __future__ import annotations

from itertools import islice
from struct import Struct
from typing import TYPE_CHECKING, Final

import msgspec

from course_revenue.model import INT64_MAX, LineWithCourse
from headrace import FixedKeyProcessor, Serdes, Stores
from headrace.serdes import JsonSerde

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace import FixedKeyProcessorContext, FixedKeyRecord, StoreBuilder, WindowStore

PROCESSOR: Final = "line-dedupe"

STORE: Final = "course-revenue-lines"
"""The store's name, and so of its changelog: ``{application.id}-course-revenue-lines-changelog``."""

DUPLICATE: Final = "duplicate line"
"""The reason under which a repeat is counted."""


class LineIdentity(msgspec.Struct, frozen=True, array_like=True):
    """What makes a line the same as another one; an array in JSON, because it is kept for every line."""

    order_id: str
    line_id: str | None
    """None in the row of when a generation began, which so is no line's."""


_LIVE: Final = 3
"""How many generations are looked through."""

_BEGAN: Final = LineIdentity("", None)

_UNIT_MS: Final = 60_000
"""What a generation takes of the windows' starts: a segment of the store on disk, which has no shorter ones."""

_SPARE_MS: Final = 24 * 3_600_000
"""By how much the changelog keeps a line for longer than it is looked for."""

_TIME: Final = Struct(">q")


def store_builder(retention_ms: int) -> StoreBuilder[LineIdentity, bytes]:
    """The store: by identity and generation the times (epoch ms, 8 bytes each) of the lines that were counted.

    They are several only where lines of one identity, more than the retention apart in time, came in one generation.
    """
    # a row is there while its start is less than the store's retention behind the newest one: three generations
    supplier = Stores.persistent_window_store(STORE, retention=(_LIVE - 1) * _UNIT_MS + 1, window_size=_UNIT_MS)
    builder = Stores.window_store_builder(supplier, JsonSerde(LineIdentity), Serdes.ByteArray())
    kept_ms = _LIVE * retention_ms + _SPARE_MS
    return builder.with_logging_enabled({"message.timestamp.type": "LogAppendTime", "retention.ms": str(kept_ms)})


class Dedupe(FixedKeyProcessor[str, LineWithCourse, LineWithCourse]):
    """Hands on what was not counted yet, and counts the repeats.

    Args:
        retention_ms: how far apart the times of a line and its repeat may be, in ms.
    """

    def __init__(self, retention_ms: int) -> None:
        self._retention_ms = retention_ms
        self._generations: list[int] = []
        """The starts of those that are looked through, the newest one first."""
        self._began = self._until = 0
        """From when to when, by the clock, lines go into the newest one."""

    def init(self, context: FixedKeyProcessorContext[str, LineWithCourse]) -> None:
        """See the base."""
        super().init(context)
        self._now = context.current_system_time_ms
        self._seen: WindowStore[LineIdentity, bytes] = context.get_state_store(STORE)
        self._generations = list(islice(self._found(), _LIVE))
        if self._generations:
            began = self._seen.fetch(_BEGAN, self._generations[0])
            # without the row it begins with the first line, as when the clock is before it
            self._began = INT64_MAX if began is None else _TIME.unpack(began)[0]
            self._until = self._began + self._retention_ms

    def process(self, record: FixedKeyRecord[str, LineWithCourse]) -> None:
        """Forwards a line unless it is a repeat."""
        now = self._now()
        if not self._began <= now < self._until:
            self._begin(now)
        line, time = record.value.line, record.timestamp
        identity, newest, before = LineIdentity(line.order_id, line.line_id), self._generations[0], b""
        for start in self._generations:
            counted = self._seen.fetch(identity, start)
            if counted is None:
                continue
            if self._repeats(time, counted):
                self.context.drop_record(DUPLICATE)
                return
            if start == newest:
                before = counted
        self._seen.put(identity, before + _TIME.pack(time), newest)
        self.context.forward(record)

    def _repeats(self, time: int, counted: bytes) -> bool:
        return any(abs(time - other) <= self._retention_ms for (other,) in _TIME.iter_unpack(counted))

    def _begin(self, now: int) -> None:
        """Begins the next generation, or the newest one anew when the clock is before it."""
        if now >= self._until:
            # the first number is the clock's: it is greater than any that the store may have had at another time
            number = (self._generations[0] if self._generations else now) // _UNIT_MS + 1
            # not where a segment begins: the fourth generation would still be in one that is kept
            self._generations = [number * _UNIT_MS + 1, *self._generations[: _LIVE - 1]]
        self._began, self._until = now, now + self._retention_ms
        self._seen.put(_BEGAN, _TIME.pack(now), self._generations[0])

    def _found(self) -> Iterator[int]:
        """The starts of the generations that the store has, the newest one first."""
        last = INT64_MAX
        while (row := next(self._seen.backward_fetch_all(0, last), None)) is not None:
            start = row[0].window.start
            yield start
            last = start - 1
