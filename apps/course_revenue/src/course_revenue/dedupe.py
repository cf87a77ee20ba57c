"""Lines that come again: an idempotence store in front of the sum.

A line is the same as another one when order id and line id are. It is looked for in the partition of its course, behind
the repartition: a line that comes again under another course is seen only where both courses share a partition. A
repeat is found when its time and that of the line counted are no more than the retention apart.

What is remembered, and for how long, must not be moved by one line with a wrong time. So lines are not kept by their
own times, but in generations: each counted line goes into the newest one, whatever its time. A generation begins with
the first line whose time is a retention or more behind the time at which the one before began; a time in the future
is taken for now. It and the two before it are looked through. Lines of right times need one of the two only: the
other one is for a line with a wrong time amid old lines, as in a rebuild: it begins one generation too many, and
the next one then begins a retention from now.

The store is a window store, and a generation's number times the retention takes the place of the windows' start: old
ones are dropped from disk as a whole. Each has a row of when it began, so that an instance that restores the store
goes on in the same generation. The changelog goes with the transaction that counts the line, so a line is remembered
if, and only if, it is counted. The changelog's times are the brokers': by the lines' own times the brokers would
delete rows of a rebuild too early, and none behind a row of the future.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from course_revenue.model import INT64_MAX, LineWithCourse
from headrace import FixedKeyProcessor, Serdes, Stores
from headrace.serdes import JsonSerde

if TYPE_CHECKING:
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


def store_builder(retention_ms: int) -> StoreBuilder[LineIdentity, int]:
    """The store: the time (epoch ms) of the line that was counted, by its identity and generation."""
    # a row is there while its start is less than the store's retention behind the newest one: three generations
    supplier = Stores.persistent_window_store(STORE, retention=2 * retention_ms + 1, window_size=retention_ms)
    builder = Stores.window_store_builder(supplier, JsonSerde(LineIdentity), Serdes.Long())
    return builder.with_logging_enabled({"message.timestamp.type": "LogAppendTime"})


class Dedupe(FixedKeyProcessor[str, LineWithCourse, LineWithCourse]):
    """Hands on what was not counted yet, and counts the repeats.

    Args:
        retention_ms: how far apart the times of a line and its repeat may be, in ms.
    """

    def __init__(self, retention_ms: int) -> None:
        self._retention_ms = retention_ms
        self._generations: list[int] = []
        """The starts of those that are looked through, the newest one first."""
        self._next_from = 0

    def init(self, context: FixedKeyProcessorContext[str, LineWithCourse]) -> None:
        """See the base."""
        super().init(context)
        self._seen: WindowStore[LineIdentity, int] = context.get_state_store(STORE)
        begun = list(islice(self._seen.backward_fetch(_BEGAN, 0, INT64_MAX), _LIVE))
        self._generations = [start for start, _ in begun]
        self._next_from = begun[0][1] + self._retention_ms if begun else 0

    def process(self, record: FixedKeyRecord[str, LineWithCourse]) -> None:
        """Forwards a line unless it is a repeat."""
        line, time = record.value.line, record.timestamp
        identity, retention_ms = LineIdentity(line.order_id, line.line_id), self._retention_ms
        # not the task's stream time: it is that of the catalog's rows, too, which in a rebuild are newer than any line
        if time >= self._next_from:
            self._begin(min(time, self.context.current_system_time_ms()))
        for start in self._generations:
            counted = self._seen.fetch(identity, start)
            if counted is not None and abs(time - counted) <= retention_ms:
                self.context.drop_record(DUPLICATE)
                return
        self._seen.put(identity, time, self._generations[0])
        self.context.forward(record)

    def _begin(self, time: int) -> None:
        """Begins a generation, if a line of that time does."""
        if time < self._next_from:
            return
        # any number would do; by this one the store takes no row for too old that is there from another time
        start = self._generations[0] + self._retention_ms if self._generations else time
        self._generations = [start, *self._generations[: _LIVE - 1]]
        self._next_from = time + self._retention_ms
        self._seen.put(_BEGAN, time, start)
