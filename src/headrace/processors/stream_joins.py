"""Joins of two streams: each side keeps its records for a while and looks up those of the other side.

Of a record's way: a *window* node passes it to the *side* node below it first and then puts it into its own store, so
that a record never meets itself, and of two records that meet, the later one gives the result. A left or outer join
also has a store of the records that have met none; whoever of both sides moves stream time on gives those whose
windows have closed. Sources: ``kstream.internals.{KStreamJoinWindow,KStreamKStreamJoin,KStreamKStreamSelfJoin}``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.api.engine import Bound
from headrace.api.windows import MAX_TIMESTAMP, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.api.engine import NodeContext, Process
    from headrace.api.joins import JoinWindows
    from headrace.records import Headers
    from headrace.state.join_window import JoinWindowStore
    from headrace.state.outer_join import OuterJoinStore, Waiting

    Join = Callable[[Any, Any, Any], Any]
    """``(key, this, other)`` to the result's value."""

EMIT_INTERVAL_KEY: Final = "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__"
"""Least time in ms (wall clock) between two looks for records whose windows have closed; Java's internal setting."""
_EMIT_INTERVAL_MS: Final = 1000


@dataclass(frozen=True, slots=True)
class JoinWindow:
    """Passes each record on and then keeps it, for the other side to find."""

    store_name: str

    def bind(self, node: NodeContext) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        forward, user_error = node.forward, node.user_error
        store: JoinWindowStore[Any, Any] = node.store(self.store_name)
        encode, add = store.encode, store.add

        def process(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            if key is None:
                forward(key, value, timestamp, headers)
                return
            # encoded before a joiner may change it in place; that it cannot be is told after the join, as in Java
            error: Exception | None = None
            raw: bytes | None = None
            try:
                raw = None if value is None else encode(value)
            except Exception as e:
                error = e
            forward(key, value, timestamp, headers)
            if error is None:
                try:
                    add(key, raw, timestamp, headers)
                    return
                except Exception as e:
                    error = e
            user_error(error, key, value, timestamp, headers)

        return Bound(process)


@dataclass(frozen=True, slots=True)
class StreamJoinSide:
    """Joins the records of one side with those that the other side has kept.

    ``joiner(left, right)``, or ``joiner(key, left, right)`` when ``with_key``. The result has the later of both times.
    Records without a value are dropped (counted), and those without a key too, unless ``outer``: they give a result
    with None for the other side at once (KIP-962).

    ``outer``: records of this side that met none give a result with None for the other side, with their own time, once
    their window and its grace period have passed; at once when they come that late. ``waiting`` is the store of such
    records, of both sides; None for an inner join.
    """

    other_store: str
    waiting: str | None
    windows: JoinWindows
    joiner: Callable[..., Any]
    with_key: bool
    left_side: bool
    outer: bool

    def bind(self, node: NodeContext) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        if self.waiting is None:
            return Bound(self._inner(node))
        waiting: OuterJoinStore[Any, Any, Any] = node.store(self.waiting)
        return Bound(self._outer(node, waiting), init=waiting.start)

    def _inner(self, node: NodeContext) -> Process:
        fetch, drop, user_error = self._fetch(node), node.drop, node.user_error
        give = _giver(node, self._join())

        def process(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            if key is None or value is None:
                drop("null key or value")
                return
            # the stores' serdes are the user's code too: they fail on a key or value of another type
            try:
                found = fetch(key, timestamp)
            except Exception as e:
                user_error(e, key, value, timestamp, headers)
                return
            for time, theirs, *_ in found:
                if not give(key, value, theirs, max(time, timestamp), timestamp, headers):
                    return

        return process

    def _outer(self, node: NodeContext, waiting: OuterJoinStore[Any, Any, Any]) -> Process:
        fetch, drop, user_error = self._fetch(node), node.drop, node.user_error
        give = _giver(node, self._join())
        give_closed = self._closed_giver(node, waiting)
        outer, left_side, right_side, after = self.outer, self.left_side, not self.left_side, self._after
        times, discard, wait = waiting.times, waiting.discard, waiting.put

        def process(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            if timestamp > times.stream_time:
                times.stream_time = timestamp
            if key is None or value is None:
                if outer and value is not None:
                    give(key, value, None, timestamp, timestamp, headers)
                else:
                    drop("null key or value")
                return
            if timestamp == times.stream_time and not give_closed(key, value, timestamp, headers):
                return
            try:
                found = fetch(key, timestamp)
            except Exception as e:
                user_error(e, key, value, timestamp, headers)
                return
            for time, theirs, *_ in found:
                try:
                    discard(right_side, key, time, timestamp)
                except Exception as e:
                    user_error(e, key, value, timestamp, headers)
                    return
                if not give(key, value, theirs, max(time, timestamp), timestamp, headers):
                    return
            if found or not outer:
                return
            if max(0, wrapped(timestamp + after)) < times.stream_time:
                give(key, value, None, timestamp, timestamp, headers)
                return
            if timestamp < times.min_time:
                times.min_time = timestamp
            try:
                wait(left_side, key, value, timestamp)
            except Exception as e:
                user_error(e, key, value, timestamp, headers)

        return process

    def _closed_giver(
        self, node: NodeContext, waiting: OuterJoinStore[Any, Any, Any]
    ) -> Callable[[Any, Any, int, Headers | None], bool]:
        """A function that gives the records whose windows have closed; False: the record in work is to be skipped."""
        forward, user_error, now_ms = node.forward, node.user_error, node.steady_time_ms
        joiner = self.joiner if self.with_key else _without_key(self.joiner)

        def give(row: Waiting, headers: Headers | None) -> None:
            # a joiner that fails loses this row only: in Java every record that comes after it fails on it again
            try:
                joined = joiner(row.key, row.value, None) if row.left else joiner(row.key, None, row.value)
            except Exception as e:
                user_error(e, row.key, row.value, row.timestamp, headers)
                return
            forward(row.key, joined, row.timestamp, headers)

        times, remove = waiting.times, waiting.remove
        windows = self.windows
        left_wait, right_wait = windows.after_ms + windows.grace_ms, windows.before_ms + windows.grace_ms
        least_wait, none_overflows = min(left_wait, right_wait), MAX_TIMESTAMP - max(left_wait, right_wait)
        due_after = left_wait if self.left_side else right_wait
        interval_ms = int(node.app_configs.get(EMIT_INTERVAL_KEY, _EMIT_INTERVAL_MS))

        def give_closed(key: Any, value: Any, timestamp: int, headers: Headers | None) -> bool:
            stream_time = times.stream_time
            # when none is known to wait, the sum is negative as a rule, so that the store is looked at: as in Java
            if wrapped(times.min_time + due_after) >= stream_time:
                return True
            now = now_ms()
            if now < times.next_emit_ms:
                return True
            times.next_emit_ms = now + interval_ms
            times.min_time = MAX_TIMESTAMP
            given: bytes | None = None
            left_open = right_open = False
            first_open: int | None = None
            # from then on nothing is due, unless a sum overflows
            end = stream_time - least_wait if stream_time <= none_overflows else MAX_TIMESTAMP + 1
            found = waiting.before(end)
            while True:
                try:
                    row = next(found, None)
                except Exception as e:
                    user_error(e, key, value, timestamp, headers)
                    return False
                if row is None:
                    reached = waiting.end_of_look(end, left_open, right_open)
                    times.min_time = times.min_time if reached is None else reached
                    break
                times.min_time = row.timestamp
                if left_open and right_open:
                    break
                if wrapped(row.timestamp + (left_wait if row.left else right_wait)) >= stream_time:
                    first_open = row.timestamp if first_open is None else first_open
                    left_open, right_open = left_open or row.left, right_open or not row.left
                    continue
                give(row, headers)
                if given is not None and given != row.row:
                    remove(given, timestamp)
                given = row.row
            if given is not None:
                remove(given, timestamp)
            waiting.none_before(end if first_open is None else first_open)
            return True

        return give_closed

    @property
    def _after(self) -> int:
        return self.windows.after_ms if self.left_side else self.windows.before_ms

    def _fetch(self, node: NodeContext) -> Callable[[Any, int], list[tuple[Any, ...]]]:
        store: JoinWindowStore[Any, Any] = node.store(self.other_store)
        return _fetcher(store, self.windows.size_ms - self._after, self._after)

    def _join(self) -> Join:
        joiner = self.joiner
        if self.left_side:
            return joiner if self.with_key else _without_key(joiner)
        if self.with_key:
            return lambda key, this, other: joiner(key, other, this)
        return lambda key, this, other: joiner(other, this)


@dataclass(frozen=True, slots=True)
class StreamSelfJoin:
    """A stream joined with itself over one store: each pair in both orders, and each record with itself.

    The results are those of the join over two stores, in the same order.
    """

    store_name: str
    windows: JoinWindows
    joiner: Callable[..., Any]
    with_key: bool

    def bind(self, node: NodeContext) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        forward, drop, user_error = node.forward, node.drop, node.user_error
        join = self.joiner if self.with_key else _without_key(self.joiner)
        give_this = _giver(node, join)
        give_other = _giver(node, lambda key, this, other: join(key, other, this))
        store: JoinWindowStore[Any, Any] = node.store(self.store_name)
        before, after = self.windows.before_ms, self.windows.after_ms
        fetch_this, fetch_other = _fetcher(store, before, after), _fetcher(store, after, before)
        retention = self.windows.size_ms + self.windows.grace_ms
        stream_time = -1

        def process(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            nonlocal stream_time
            if key is None or value is None:
                drop("null key or value")
                return
            try:
                with_itself = join(key, value, value)
                stream_time = max(stream_time, timestamp)
                found = fetch_this(key, timestamp)
            except Exception as e:
                user_error(e, key, value, timestamp, headers)
                return
            for time, theirs, *_ in found:
                if not give_this(key, value, theirs, max(time, timestamp), timestamp, headers):
                    return
            try:
                found = fetch_other(key, timestamp)
            except Exception as e:
                user_error(e, key, value, timestamp, headers)
                return
            # a record that is too late to be kept does not meet itself
            itself_due = timestamp > wrapped(stream_time - retention + 1)
            for time, theirs, *_ in found:
                if time > timestamp and itself_due:
                    itself_due = False
                    forward(key, with_itself, timestamp, headers)
                if not give_other(key, value, theirs, max(time, timestamp), timestamp, headers):
                    return
            if itself_due:
                forward(key, with_itself, timestamp, headers)

        return Bound(process)


def _without_key(joiner: Callable[[Any, Any], Any]) -> Join:
    return lambda key, this, other: joiner(this, other)


def _fetcher(store: JoinWindowStore[Any, Any], before: int, after: int) -> Callable[[Any, int], list[tuple[Any, ...]]]:
    fetch = store.fetch_pairs

    def find(key: Any, timestamp: int) -> list[tuple[Any, ...]]:
        return fetch(key, max(0, wrapped(timestamp - before)), max(0, wrapped(timestamp + after)))

    return find


def _giver(node: NodeContext, join: Join) -> Callable[[Any, Any, Any, int, int, Headers | None], bool]:
    """A function ``(key, this, other, result's time, record's time, headers)`` that sends a result on.

    It gives False when the user's joiner failed and the rest of the record is to be skipped.
    """
    forward, user_error = node.forward, node.user_error

    def give(key: Any, this: Any, other: Any, at: int, timestamp: int, headers: Headers | None) -> bool:
        try:
            joined = join(key, this, other)
        except Exception as e:
            user_error(e, key, this, timestamp, headers)
            return False
        forward(key, joined, at, headers)
        return True

    return give
