"""Aggregations of a grouped stream by windows.

Each node has a stream time of its own: the greatest time of a record that it saw. A window closes when stream time has
passed its end by the grace period; a record for a closed window is dropped (counted, and logged now and then). The
stores forget windows by their retention, which is never shorter.

Aggregates may be changed in place by the user's functions: what is needed after they ran is read from the store again.

Sources: ``kstream.internals.{KStreamWindowAggregate,KStreamSlidingWindowAggregate,KStreamSessionWindowAggregate,
AbstractKStreamTimeWindowAggregateProcessor}`` (4.4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.api.engine import Bound
from headrace.api.windows import MAX_TIMESTAMP, EmitStrategy, SessionWindow, TimeWindow, Windowed, wrapped
from headrace.processors.rows import SessionRows, TableOperator, WindowRows

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.api.engine import NodeContext, ProcessChange, ValueGetterSupplier
    from headrace.api.windows import SessionWindows, SlidingWindows, Window, Windows
    from headrace.records import Headers

    Row = tuple[Any, ...]

_EMIT_INTERVAL_KEY: Final = "__emit.interval.ms.kstreams.windowed.aggregation__"
_EMIT_INTERVAL_MS: Final = 1000
_NEVER: Final = -1


@dataclass(frozen=True, slots=True)
class WindowedAggregate(TableOperator):
    """What all windowed aggregations have in common.

    ``initializer()`` makes the aggregate that a window begins with, ``aggregator(key, value, aggregate)`` gives the
    next one; None deletes the row.
    """

    store_name: str
    initializer: Callable[[], Any]
    aggregator: Callable[[Any, Any, Any], Any]
    emit: EmitStrategy

    @property
    def closes_after_ms(self) -> int:
        """How far stream time is past a window's end when the window takes no more records."""
        raise NotImplementedError

    def rows(self, *inputs: ValueGetterSupplier) -> ValueGetterSupplier:
        """See :class:`headrace.processors.rows.TableOperator`."""
        return WindowRows(self.store_name)

    def _results(
        self, node: NodeContext, store: Any
    ) -> tuple[ProcessChange | None, Callable[[int, Headers | None], None] | None, Callable[[], None] | None]:
        """Where updates go at once, what emits the windows that have closed, and what begins the node's work.

        The first is None also when the store's cache sends updates on, the others when windows are not waited for.
        """
        if self.emit is not EmitStrategy.ON_WINDOW_CLOSE:
            cached: bool = store.set_flush_listener(node.forward_change, self.send_old_values)
            return None if cached else node.forward_change, None, None
        final = _FinalResults(node, self.store_name)
        return None, self._bind_final(node, store, final), final.resume

    def _bind_final(self, node: NodeContext, store: Any, final: _FinalResults) -> Callable[[int, Headers | None], None]:
        """A function that emits the windows that have closed by a time."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class TimeWindowAggregate(WindowedAggregate):
    """By windows that follow from a record's time alone. A record without a key is dropped; one without a value is not.

    The old value that is sent with a window's first result is what ``initializer`` made, as in Java.
    """

    windows: Windows

    @property
    def closes_after_ms(self) -> int:
        """See :class:`WindowedAggregate`."""
        return self.windows.grace_ms

    def bind(self, node: NodeContext, /) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        initializer, aggregator, user_error = self.initializer, self.aggregator, node.user_error
        drop, drop_late = node.drop, node.drop_late
        windows_for, grace = self.windows.windows_for, self.windows.grace_ms
        store: Any = node.store(self.store_name)
        get, put, apart = store.get_pair, store.put_pair, store.apart
        forward, emit_final, resume = self._results(node, store)
        send_old = self.send_old_values and forward is not None
        observed = _NEVER

        def process(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            nonlocal observed
            if key is None:
                drop("null key")
                return
            if timestamp > observed:
                observed = timestamp
            close_time = observed - grace
            try:
                windows = windows_for(timestamp)
            except Exception as e:
                user_error(e, key, value, timestamp, headers)
                return
            for window in windows:
                start, end = window.start, window.end
                if end <= close_time:
                    drop_late(timestamp, f"[{start},{end})", close_time, observed)
                    continue
                new_timestamp = timestamp
                # the store's serdes are the user's code too: they fail on a key or aggregate of another type
                try:
                    row = get(key, start)
                    if row is None:
                        old = initializer() if send_old else None
                        aggregate = aggregator(key, value, initializer())
                    else:
                        if row[1] > timestamp:
                            new_timestamp = row[1]
                        old = get(key, start)[0] if send_old else None
                        aggregate = aggregator(key, value, row[0])
                    put(key, aggregate, start, timestamp if aggregate is None else new_timestamp, headers)
                    sent = apart(aggregate, value) if forward is not None else None
                except Exception as e:
                    user_error(e, key, value, timestamp, headers)
                    return
                if forward is not None:
                    forward(Windowed(key, window), sent, old, True, new_timestamp, headers)
            if emit_final is not None:
                emit_final(close_time, headers)

        return Bound(process, init=resume)

    def _bind_final(self, node: NodeContext, store: Any, final: _FinalResults) -> Callable[[int, Headers | None], None]:
        windows, size = self.windows, self.windows.size_ms
        emit = _bind_emit(node, store, size)

        def emit_final(close_time: int, headers: Headers | None) -> None:
            if not final.due(close_time):
                return
            high = close_time - size
            if high < 0:
                return
            last = final.last_close_time
            if last == _NEVER:
                low = 0
            else:
                # ends are outside of windows: one that ended just at the last close time has been emitted
                low = max(0, last - size) + 1
                if windows.windows_for(high) == windows.windows_for(low - 1):
                    return
            emit(low, high, headers)
            final.done(close_time)

        return emit_final


@dataclass(frozen=True, slots=True)
class SlidingWindowAggregate(WindowedAggregate):
    """By windows that records open: one that ends with each record's time, one that starts just after it.

    A record is aggregated into every window that it lies in. It opens the window that ends with it, beginning with what
    is already in there; the one that starts after it, when there are later records; and the one that starts after the
    record before it. Records in the first ``time_difference_ms`` of time share the window that starts at 0. Records
    without a key or a value are dropped.
    """

    windows: SlidingWindows

    @property
    def closes_after_ms(self) -> int:
        """See :class:`WindowedAggregate`."""
        return self.windows.grace_ms

    def bind(self, node: NodeContext, /) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        drop, drop_late, user_error = node.drop, node.drop_late, node.user_error
        difference, grace = self.windows.time_difference_ms, self.windows.grace_ms
        store: Any = node.store(self.store_name)
        forward, emit_final, resume = self._results(node, store)
        updates = _SlidingUpdates(node, self, store, forward)
        observed = _NEVER

        def process(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            nonlocal observed
            if key is None or value is None:
                drop("null key" if key is None else "null value")
                return
            if timestamp > observed:
                observed = timestamp
            close_time = observed - grace
            end = wrapped(timestamp + difference)
            if end < close_time:
                drop_late(timestamp, f"[{timestamp},{end}]", close_time, observed)
                return
            # what comes from a child in there is a failure that was handled: it goes through
            try:
                if timestamp < difference:
                    # as in Java, nothing is emitted in this record's name
                    updates.early(key, value, timestamp, headers, observed)
                    return
                updates.update(key, value, timestamp, headers, observed)
            except Exception as e:
                user_error(e, key, value, timestamp, headers)
                return
            if emit_final is not None:
                emit_final(close_time, headers)

        return Bound(process, init=resume)

    def _bind_final(self, node: NodeContext, store: Any, final: _FinalResults) -> Callable[[int, Headers | None], None]:
        difference = self.windows.time_difference_ms
        emit = _bind_emit(node, store, difference)

        def emit_final(close_time: int, headers: Headers | None) -> None:
            if not final.due(close_time):
                return
            # both bounds are inside of windows: one that ends at the close time is still open
            high = close_time - difference - 1
            if high < 0:
                return
            last = final.last_close_time
            emit(0 if last == _NEVER else max(0, last - difference), high, headers)
            final.done(close_time)

        return emit_final


class _SlidingUpdates:
    """What one record does to the sliding windows of its key, for one task."""

    __slots__ = ("_aggregator", "_apart", "_decode", "_difference", "_drop_late", "_fetch", "_forward", "_grace",
                 "_initializer", "_put", "_send_old")  # fmt: skip

    def __init__(
        self, node: NodeContext, operator: SlidingWindowAggregate, store: Any, forward: ProcessChange | None
    ) -> None:
        self._difference = operator.windows.time_difference_ms
        self._grace = operator.windows.grace_ms
        self._initializer = operator.initializer
        self._aggregator = operator.aggregator
        self._put, self._fetch, self._decode = store.put_pair, store.fetch_raw, store.decode
        self._apart = store.apart
        self._drop_late = node.drop_late
        self._forward = forward
        self._send_old = operator.send_old_values and forward is not None

    def update(self, key: Any, value: Any, timestamp: int, headers: Headers | None, observed: int) -> None:
        """A record that is not in the first ``time_difference_ms`` of time."""
        difference = self._difference
        record = (key, value, timestamp, headers, observed)
        starts: set[int] = set()
        left: bytes | None = None
        right: tuple[bytes, int] | None = None
        has_left = has_right = False
        previous: int | None = None
        # to timestamp + 1: the window right of the record, should there be one
        low, high = max(0, wrapped(timestamp - 2 * difference)), wrapped(timestamp + 1)
        for start, raw, row_timestamp in self._fetch(key, low, high, True):
            starts.add(start)
            end = wrapped(start + difference)
            if start == timestamp + 1:
                has_right = True
            elif end > timestamp:
                if right is None:
                    right = (raw, row_timestamp)
                self._aggregate(record, start, raw, row_timestamp)
            elif end == timestamp:
                has_left = True
                self._aggregate(record, start, raw, row_timestamp)
                if row_timestamp >= timestamp:
                    return
                previous = row_timestamp
            else:
                left = raw
                previous = row_timestamp
                break
        if previous is not None and previous + 1 not in starts and wrapped(previous + 1 + difference) >= timestamp:
            self._aggregate(record, previous + 1, None, timestamp)
        if not has_left:
            is_empty = previous is None or timestamp - difference > previous
            self._aggregate(record, timestamp - difference, None if is_empty else left, timestamp)
        if not has_right and right is not None and right[1] > timestamp:
            self._open_right(record, *right)

    def early(self, key: Any, value: Any, timestamp: int, headers: Headers | None, observed: int) -> None:
        """A record in the first ``time_difference_ms`` of time: it lies in the window that starts at 0."""
        record = (key, value, timestamp, headers, observed)
        rows = list(self._fetch(key, 0, timestamp + 1, False))
        starts = {row[0] for row in rows}
        first = rows[0] if rows and rows[0][0] == 0 else None
        inside = [row for row in rows if 0 < row[0] <= timestamp]
        for row in inside:
            self._aggregate(record, *row)
        # the last window that the record lies in holds what is later than it: all of it is right of the record
        last = inside[-1] if inside else first
        if timestamp + 1 not in starts and last is not None and last[2] > timestamp:
            self._open_right(record, last[1], last[2])
        if first is None:
            self._aggregate(record, 0, None, timestamp)
            return
        if first[2] < timestamp and first[2] + 1 not in starts:
            self._aggregate(record, first[2] + 1, None, timestamp)
        self._aggregate(record, *first)

    def _aggregate(
        self, record: tuple[Any, Any, int, Headers | None, int], start: int, raw: bytes | None, row_timestamp: int
    ) -> None:
        """The record into one window, whose aggregate is so far what ``raw`` says; None: it begins."""
        key, value, timestamp, headers, observed = record
        end = wrapped(start + self._difference)
        # sent on as what was before: the aggregate itself may be changed in place
        old = None
        if self._send_old:
            old = self._initializer() if raw is None else self._decode(raw)
        aggregate = self._initializer() if raw is None else self._decode(raw)
        if end < observed - self._grace:
            self._drop_late(timestamp, f"[{start},{end}]", observed - self._grace, observed)
            return
        window = TimeWindow(start, end)
        new_timestamp = timestamp if aggregate is None else max(timestamp, row_timestamp)
        new = self._aggregator(key, value, aggregate)
        self._put(key, new, start, timestamp if new is None else new_timestamp, headers)
        if self._forward is not None:
            self._forward(Windowed(key, window), self._apart(new, value), old, True, new_timestamp, headers)

    def _open_right(self, record: tuple[Any, Any, int, Headers | None, int], raw: bytes, row_timestamp: int) -> None:
        """The window that starts just after the record, with what later records have made of it."""
        key, _, timestamp, headers, _ = record
        window = TimeWindow(timestamp + 1, wrapped(timestamp + 1 + self._difference))
        aggregate = self._decode(raw)
        self._put(key, aggregate, window.start, row_timestamp, headers)
        if self._forward is not None:
            self._forward(Windowed(key, window), aggregate, None, True, row_timestamp, headers)


@dataclass(frozen=True, slots=True)
class SessionWindowAggregate(WindowedAggregate):
    """By sessions: what lies within the gap of a record becomes one session with it.

    ``merger(key, aggregate, aggregate)`` makes one aggregate of two, the earlier session's first. Sessions that were
    merged are deleted before the new one is put. A record without a key is dropped; one without a value is not. A
    result's time is its session's end.
    """

    merger: Callable[[Any, Any, Any], Any]
    windows: SessionWindows

    @property
    def closes_after_ms(self) -> int:
        """See :class:`WindowedAggregate`."""
        return self.windows.grace_ms + self.windows.gap_ms

    def rows(self, *inputs: ValueGetterSupplier) -> ValueGetterSupplier:
        """See :class:`headrace.processors.rows.TableOperator`."""
        return SessionRows(self.store_name)

    def bind(self, node: NodeContext, /) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        initializer, aggregator, merger = self.initializer, self.aggregator, self.merger
        drop, drop_late, user_error = node.drop, node.drop_late, node.user_error
        gap, closes_after = self.windows.gap_ms, self.closes_after_ms
        store: Any = node.store(self.store_name)
        find, put, apart = store.find_pairs, store.put_pair, store.apart
        forward, emit_final, resume = self._results(node, store)
        send_old = self.send_old_values and forward is not None
        observed = _NEVER

        def update(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            latest_start = wrapped(timestamp + gap)
            sessions: list[Row] = find(key, timestamp - gap, latest_start)
            start = end = timestamp
            for session in sessions:
                start, end = min(start, session[0]), max(end, session[1])
            aggregate = initializer()
            for session in sessions:
                aggregate = merger(key, aggregate, session[2])
            close_time = wrapped(observed - closes_after)
            if end < close_time:
                drop_late(timestamp, f"[{start},{end}]", close_time, observed)
                return
            if (start, end) != (timestamp, timestamp):
                olds = find(key, timestamp - gap, latest_start) if send_old else sessions
                for old_start, old_end, old, *_ in olds:
                    put(key, old_start, old_end, None, timestamp, headers)
                    if forward is not None:
                        removed = Windowed(key, SessionWindow(old_start, old_end))
                        forward(removed, None, old if send_old else None, True, old_end, None)
            aggregate = aggregator(key, value, aggregate)
            put(key, start, end, aggregate, timestamp, headers)
            if forward is not None:
                forward(Windowed(key, SessionWindow(start, end)), apart(aggregate, value), None, True, end, None)

        def process(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            nonlocal observed
            if key is None:
                drop("null key")
                return
            if timestamp > observed:
                observed = timestamp
            # what comes from a child in there is a failure that was handled: it goes through
            try:
                update(key, value, timestamp, headers)
            except Exception as e:
                user_error(e, key, value, timestamp, headers)
                return
            if emit_final is not None:
                emit_final(wrapped(observed - closes_after), headers)

        return Bound(process, init=resume)

    def _bind_final(self, node: NodeContext, store: Any, final: _FinalResults) -> Callable[[int, Headers | None], None]:
        forward: ProcessChange = node.forward_change
        find_all: Callable[[int, int], list[Row]] = store.find_all_pairs

        def emit_final(close_time: int, headers: Headers | None) -> None:
            if not final.due(close_time):
                return
            low, high = max(0, final.last_close_time), close_time - 1
            if high < low:
                return
            for key, start, end, aggregate, *_ in find_all(low, high):
                forward(Windowed(key, SessionWindow(start, end)), aggregate, None, True, end, headers)
            final.done(close_time)

        return emit_final


class _FinalResults:
    """When a node has results of closed windows to give, and how far it has come. That survives with the offsets."""

    __slots__ = ("_clock", "_interval_ms", "_metadata", "_next_ms", "_store_name", "last_close_time")

    def __init__(self, node: NodeContext, store_name: str) -> None:
        self._clock = node.steady_time_ms
        self._interval_ms = int(node.app_configs.get(_EMIT_INTERVAL_KEY, _EMIT_INTERVAL_MS))
        self._metadata = node.metadata
        self._store_name = store_name
        self._next_ms = 0
        self.last_close_time = _NEVER
        """The close time up to which windows were emitted; -1 before the first."""

    def resume(self) -> None:
        """Go on where the last commit left off."""
        known = self._metadata.get(self._store_name)
        self.last_close_time = _NEVER if known is None else known

    def due(self, close_time: int) -> bool:
        """Whether to look for windows that closed. Not more often than the interval says, whatever the records do."""
        now = self._clock()
        if now < self._next_ms:
            return False
        self._next_ms = now + self._interval_ms
        return self.last_close_time == _NEVER or self.last_close_time < close_time

    def done(self, close_time: int) -> None:
        """All windows that closed up to this time were emitted."""
        self.last_close_time = close_time
        self._metadata.set(self._store_name, close_time)


def _bind_emit(node: NodeContext, store: Any, size_ms: int) -> Callable[[int, int, Headers | None], None]:
    """A function that forwards the windows whose start lies in a span, earliest first."""
    forward = node.forward_change
    fetch_all: Callable[[int, int], list[Row]] = store.fetch_all_pairs

    def emit(low: int, high: int, headers: Headers | None) -> None:
        for key, start, aggregate, timestamp, *_ in fetch_all(low, high):
            window: Window = TimeWindow(start, min(start + size_ms, MAX_TIMESTAMP))
            forward(Windowed(key, window), aggregate, None, True, timestamp, headers)

    return emit
