"""When punctuators are called. Sources: ``PunctuationQueue``, ``PunctuationSchedule``, ``StreamTask`` (4.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.api.processor import PunctuationType
from headrace.engine.order import TimeOrder

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.api.engine import RecordContext
    from headrace.api.processor import Punctuator


class Schedule:
    """A punctuator with its next due time. Body of :class:`headrace.api.processor.Cancellable`."""

    __slots__ = ("cancelled", "due", "interval_ms", "kind", "node", "punctuator")

    def __init__(
        self, node: str, kind: PunctuationType, due: int, interval_ms: int, punctuator: Punctuator, now: int | None
    ) -> None:
        """``now`` is given for an anchored schedule: its due time is moved past it."""
        self.node = node
        self.kind = kind
        self.due = due
        self.interval_ms = interval_ms
        self.punctuator = punctuator
        self.cancelled = False
        if now is not None and due < now:
            self.advance(now)

    def cancel(self) -> None:
        """See the protocol."""
        self.cancelled = True

    def advance(self, now: int) -> None:
        """Move the due time on: by the interval, or past ``now`` by as many of them as it takes.

        Past the greatest time it is never due again. In Java the sum is negative then, so that it is due at once, and
        again, as a rule without end.
        """
        following = self.due + self.interval_ms
        if now >= following:
            following = self.due + ((now - self.due) // self.interval_ms + 1) * self.interval_ms
        self.due = following


class Punctuations:
    """The schedules of one task, by stream time and by the wall clock.

    Args:
        record: The task's record context, whose ``punctuate_at`` is kept up to date.
        system_time_ms: The wall clock.
    """

    def __init__(self, record: RecordContext, system_time_ms: Callable[[], int]) -> None:
        self._record = record
        self._now = system_time_ms
        self._by_stream_time: TimeOrder[Schedule] = TimeOrder()
        self._by_wall_clock: TimeOrder[Schedule] = TimeOrder()

    def schedule(
        self, node: str, interval_ms: int, kind: PunctuationType, punctuator: Punctuator, start_ms: int | None
    ) -> Schedule:
        """See :meth:`headrace.api.processor.ProcessingContext.schedule`."""
        by_stream_time = kind is PunctuationType.STREAM_TIME
        now = self._record.stream_time if by_stream_time else self._now()
        if start_ms is not None:
            made = Schedule(node, kind, start_ms, interval_ms, punctuator, now)
        else:
            made = Schedule(node, kind, 0 if by_stream_time else now + interval_ms, interval_ms, punctuator, None)
        (self._by_stream_time if by_stream_time else self._by_wall_clock).offer(made, made.due)
        record = self._record
        record.punctuate_at = self._by_stream_time.least()
        if record.punctuate_at <= record.stream_time:
            # due already: no other record of the run comes before it
            record.interrupt = True
        return made

    def run_stream_time(self, call: Callable[[Schedule, int], None]) -> bool:
        """Call what is due by stream time: ``call(schedule, time)``. Returns whether anything was."""
        stream_time = self._record.stream_time
        if stream_time < 0:
            return False
        try:
            return self._run(self._by_stream_time, stream_time, call)
        finally:
            self._record.punctuate_at = self._by_stream_time.least()

    def run_wall_clock(self, call: Callable[[Schedule, int], None]) -> bool:
        """Call what is due by the wall clock: ``call(schedule, time)``. Returns whether anything was."""
        return bool(self._by_wall_clock) and self._run(self._by_wall_clock, self._now(), call)

    def next_wall_clock(self) -> int:
        """When the wall clock's next punctuation is due (epoch ms); :data:`~headrace.api.engine.NEVER` for none."""
        return self._by_wall_clock.least()

    def clear(self) -> None:
        """Forget all schedules."""
        self._by_stream_time.clear()
        self._by_wall_clock.clear()
        self._record.punctuate_at = self._by_stream_time.least()

    @staticmethod
    def _run(order: TimeOrder[Schedule], now: int, call: Callable[[Schedule, int], None]) -> bool:
        called = False
        while order.least() <= now:
            due = order.poll()
            if due.cancelled:
                continue
            call(due, now)
            called = True
            # it may have cancelled itself
            if not due.cancelled:
                due.advance(now)
                order.offer(due, due.due)
        return called
