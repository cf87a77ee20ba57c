"""Lines that come again: an idempotence store in front of the sum.

A line is the same as another one when order id and line id are. It is looked for in the partition of its course, behind
the repartition: a line that comes again under another course is seen only where both courses share a partition. How
long a line is remembered goes by the records' times, not by the clock: a repeat is found when its time and that of the
line counted are no more than the retention apart. A line that is older than the partition's newest one by the retention
or more is counted and not remembered.

The store is a window store of windows as long as the retention. A repeat's window is that of the line counted, or the
one before or after, so three look-ups find it, and whole windows are dropped from disk. Its changelog goes with the
transaction that counts the line, so a line is remembered if, and only if, it is counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from course_revenue.model import LineWithCourse
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
    line_id: str


def store_builder(retention_ms: int) -> StoreBuilder[LineIdentity, int]:
    """The store: the time (epoch ms) of the line that was counted, by its identity and window."""
    # rows go by their windows' starts: the first of a window must outlive the last one's retention
    supplier = Stores.persistent_window_store(STORE, retention=2 * retention_ms, window_size=retention_ms)
    return Stores.window_store_builder(supplier, JsonSerde(LineIdentity), Serdes.Long())


class Dedupe(FixedKeyProcessor[str, LineWithCourse, LineWithCourse]):
    """Hands on what was not counted yet, and counts the repeats.

    Args:
        retention_ms: how far apart the times of a line and its repeat may be, in ms.
    """

    def __init__(self, retention_ms: int) -> None:
        self._retention_ms = retention_ms
        self._newest = 0

    def init(self, context: FixedKeyProcessorContext[str, LineWithCourse]) -> None:
        """See the base."""
        super().init(context)
        self._seen: WindowStore[LineIdentity, int] = context.get_state_store(STORE)

    def process(self, record: FixedKeyRecord[str, LineWithCourse]) -> None:
        """Forwards a line unless it is a repeat."""
        line, time = record.value.line, record.timestamp
        identity, retention_ms = LineIdentity(line.order_id, line.line_id), self._retention_ms
        window = time - time % retention_ms
        for start in (window, window - retention_ms, window + retention_ms):
            counted = self._seen.fetch(identity, start) if start >= 0 else None
            if counted is not None and abs(time - counted) <= retention_ms:
                self.context.drop_record(DUPLICATE)
                return
        # not the task's stream time: it is that of the catalog's rows, too, which in a rebuild are newer than any line
        self._newest = max(self._newest, time)
        if time > self._newest - retention_ms:
            self._seen.put(identity, time, window)
        self.context.forward(record)
