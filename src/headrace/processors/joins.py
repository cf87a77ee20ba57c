"""Joins of a stream with a table. Source: ``kstream.internals.KStreamKTableJoinProcessor``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.api.engine import Bound

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.api.engine import NodeContext, ValueGetterSupplier
    from headrace.records import Headers
    from headrace.state.time_ordered import TimeOrderedBuffer


@dataclass(frozen=True, slots=True)
class StreamTableJoin:
    """Looks each record's key up in a table: ``joiner(value, row)``, or ``joiner(key, value, row)`` when ``with_key``.

    The result has the stream record's time. A versioned table gives the row that it had at that time. Inner: no row, no
    result. ``left``: the row is None when there is none,
    and a record without a key passes with None as its row (KIP-962). Records without a value are dropped (counted),
    and without a key too when inner. Changes of the table make no results.
    """

    table: ValueGetterSupplier
    joiner: Callable[..., Any]
    left: bool
    with_key: bool = False

    def bind(self, node: NodeContext) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        joiner, left, forward, drop, user_error = self.joiner, self.left, node.forward, node.drop, node.user_error
        get, get_as_of = self.table.bind(node), self.table.bind_as_of(node)
        with_key = self.with_key

        def process(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            if value is None or (key is None and not left):
                drop("null value" if value is None else "null key")
                return
            # the table's serdes are the user's code too: they fail on a key of another type
            try:
                row = None if key is None else get(key) if get_as_of is None else get_as_of(key, timestamp)
                if row is None and not left:
                    return
                found = None if row is None else row[0]
                joined = joiner(key, value, found) if with_key else joiner(value, found)
            except Exception as e:
                user_error(e, key, value, timestamp, headers)
                return
            forward(key, joined, timestamp, headers)

        return Bound(process)


@dataclass(frozen=True, slots=True)
class StreamGlobalTableJoin:
    """Looks a key made of each record up in a global table: ``joiner(value, row)``, with the key before when asked.

    Inner: records for which ``key_selector`` gives None, or which have no row, give nothing; the former are dropped
    (counted), as are records without a value. ``left``: what is missing, the key or the row, makes the row None.
    Source: ``kstream.internals.KStreamGlobalKTableJoin``.
    """

    store_name: str
    key_selector: Callable[[Any, Any], Any]
    joiner: Callable[..., Any]
    left: bool
    with_key: bool = False

    def bind(self, node: NodeContext) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        select, joiner, left, with_key = self.key_selector, self.joiner, self.left, self.with_key
        forward, drop, user_error = node.forward, node.drop, node.user_error
        get = node.store(self.store_name).get_pair

        def process(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            try:
                wanted = select(key, value)
                if value is None or (wanted is None and not left):
                    drop("null value" if value is None else "null join key")
                    return
                row = None if wanted is None else get(wanted)
                if row is None and not left:
                    return
                found = None if row is None else row[0]
                joined = joiner(key, value, found) if with_key else joiner(value, found)
            except Exception as e:
                user_error(e, key, value, timestamp, headers)
                return
            forward(key, joined, timestamp, headers)

        return Bound(process)


@dataclass(frozen=True, slots=True)
class BufferedStreamTableJoin:
    """A join whose records wait in a buffer until stream time is ahead of them by a grace period.

    They are then joined in the order of their times. A record that comes later than that is joined at once. A record
    without a key cannot wait: it is an error where the join takes such records (``left``).
    """

    join: StreamTableJoin
    buffer: str

    def bind(self, node: NodeContext) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        join, left, user_error = self.join.bind(node).process, self.join.left, node.user_error
        assert join is not None, "it has stream input"
        buffer: TimeOrderedBuffer[Any, Any] = node.store(self.buffer)

        def process(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            if value is None or (key is None and not left):
                join(key, value, timestamp, headers)
                return
            try:
                if key is None:
                    raise TypeError("a record without a key cannot wait in the buffer of a join with a grace period")
                waits = buffer.put(key, value, timestamp, headers)
            except Exception as e:
                user_error(e, key, value, timestamp, headers)
                return
            if waits:
                buffer.evict(join, user_error)
            else:
                join(key, value, timestamp, headers)

        return Bound(process, init=buffer.start)
