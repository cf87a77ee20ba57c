"""Where records of a left or outer join of two streams wait that have met none yet, and when they are given up.

Layout of a key: 8 bytes of the record's time (big endian), one byte for its side (1 left, 0 right), the record's key;
of a value: the list of the values of all such records, in the layout of :class:`headrace.serdes.ListSerde` over bytes,
each value behind one byte for its side. The changelog has the same bytes. Sources: ``state.internals.{ListValueStore,
TimestampedKeyAndJoinSideSerializer,LeftOrRightValueSerializer}`` (4.4).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from headrace.api.windows import MAX_TIMESTAMP
from headrace.serdes import ListSerde, Serdes
from headrace.state.base import StoreBase
from headrace.state.builders import StoreBuilder
from headrace.state.formats import PLAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.api.serde import Serde
    from headrace.state.buffer import BufferedStore
    from headrace.state.context import StoreContext

K = TypeVar("K")
V = TypeVar("V")
VO = TypeVar("VO")

_HEAD: Final = struct.Struct(">qB")
_LISTS: Final = ListSerde(list, Serdes.Bytes())
_joined = _LISTS.serializer.bind("")
_values = _LISTS.deserializer.bind("")


class JoinTimes:
    """What the two sides of a left or outer join share of time in a task. Source: ``KStreamImplJoin.TimeTracker``.

    Attributes:
        stream_time: The latest time of a record of either side; -1 before the first.
        min_time: The time from which on records wait; the greatest time when none is known to. As in Java, a look at
            the store leaves here the time of the last row it came to.
        next_emit_ms: The wall-clock time before which the store is not looked at again.
    """

    __slots__ = ("min_time", "next_emit_ms", "stream_time")

    def __init__(self) -> None:
        self.stream_time = -1
        self.min_time = MAX_TIMESTAMP
        self.next_emit_ms = 0


class Waiting(NamedTuple):
    """A record that waits. ``row`` is the key under which it is stored, with others of its key, time and side."""

    row: bytes
    timestamp: int
    left: bool
    key: Any
    value: Any


class OuterJoinStore(StoreBase[K, V], Generic[K, V, VO]):
    """Records of both sides that have met none, by time.

    Attributes:
        times: See :class:`JoinTimes`; kept here because the store is what both sides share.
    """

    def __init__(
        self,
        rows: BufferedStore,
        key_serde: Serde[K],
        value_serde: Serde[V],
        other_value_serde: Serde[VO],
        context: StoreContext,
    ) -> None:
        super().__init__(rows, key_serde, value_serde, PLAIN, context, caching=False)
        topic = context.serde_topic
        self._encode_other: Callable[[VO], bytes] = other_value_serde.serializer.bind(topic)
        self._decode_other: Callable[[bytes], VO] = other_value_serde.deserializer.bind(topic)
        self.times = JoinTimes()
        self._none_before = 0
        self._latest = [-1, -1]

    def start(self) -> None:
        """Find out from which time on records wait, once they are restored."""
        first = next(self.rows.scan(None, None), None)
        if first is not None:
            self.times.min_time = _HEAD.unpack_from(first[0])[0]
            last = next(self.rows.scan(None, None, reverse=True))
            self._latest = [_HEAD.unpack_from(last[0])[0]] * 2

    def drop_uncommitted(self) -> None:
        """See :class:`headrace.state.base.StoreBase`."""
        super().drop_uncommitted()
        self._none_before = 0

    def put(self, left: bool, key: K, value: Any, timestamp: int) -> None:
        """Let a record wait, beside others of its key, time and side."""
        row = self._row(left, key, timestamp)
        raw = self._encode(value) if left else self._encode_other(value)
        former = self.rows.get(row)
        values: list[bytes] = [] if former is None else _values(former)
        stored = _joined([*values, bytes((left,)) + raw])
        self.rows.put(row, stored, stored, timestamp)
        if timestamp > self._latest[left]:
            self._latest[left] = timestamp
        if timestamp < self._none_before:
            self._none_before = timestamp

    def discard(self, left: bool, key: K, timestamp: int, now: int) -> None:
        """Let records wait no longer, if there are any of that side, key and time, because they have met one.

        ``now`` is the time of the record that they met, which the changelog record gets.
        """
        row = self._row(left, key, timestamp)
        if self.rows.get(row) is not None:
            self.rows.put(row, None, None, now)

    def remove(self, row: bytes, now: int) -> None:
        """Remove what waits under a stored key; ``now`` is the time of the changelog record."""
        self.rows.put(row, None, None, now)

    def all(self) -> Iterator[Waiting]:
        """All that waits, by time, then side (right first), then the key's bytes: a snapshot."""
        self._check_open()
        return self._waiting(self.rows.scan(None, None))

    def before(self, time: int) -> Iterator[Waiting]:
        """What waits with a time before ``time``, as :meth:`all` has it."""
        low = self._none_before
        return iter(()) if time <= low else self._waiting(self.rows.scan(_start(low), _start(time)))

    def none_before(self, time: int) -> None:
        """Nothing waits any more with a time before ``time``: what was there need not be looked at again."""
        self._none_before = max(self._none_before, time)

    def end_of_look(self, time: int, left: bool, right: bool) -> int | None:
        """Where a look ends that goes on from ``time``, when nothing from there on is due; None when nothing is there.

        A look in Java goes on until it has seen a record of each side that is not due, and to one more. It leaves the
        time of the last one that it came to, by which it is known when to look again.

        Args:
            time: All that is looked at has this time or a later one.
            left: A record of the left side that is not due was seen before.
            right: The same of the right side.
        """
        seen = [right, left]
        reached: int | None = None
        low, span = max(time, self._none_before), 1
        while low <= max(self._latest):
            if not all(seen) and max(at for at, found in zip(self._latest, seen, strict=True) if not found) < low:
                # no other record of the side that is missing: the look goes to the end
                last = self._last_from(low)
                return reached if last is None else last
            for row, stored in self.rows.scan(_start(low), _start(low + span)):
                reached, side = _HEAD.unpack_from(row)
                for _ in _values(stored):
                    if all(seen):
                        return reached
                    seen[side] = True
            low, span = low + span, 2 * span
        return reached

    def _last_from(self, low: int) -> int | None:
        """The greatest time with which something waits, if not before ``low``."""
        high, span = max(self._latest) + 1, 1
        while high > low:
            found = next(self.rows.scan(_start(max(low, high - span)), _start(high), reverse=True), None)
            if found is not None:
                return int(_HEAD.unpack_from(found[0])[0])
            high, span = high - span, 2 * span
        return None

    def _waiting(self, rows: Iterator[tuple[bytes, bytes]]) -> Iterator[Waiting]:
        for row, stored in rows:
            timestamp, side = _HEAD.unpack_from(row)
            key = self._decode_key(row[_HEAD.size :])
            for raw in _values(stored):
                value = self._decode(raw[1:]) if raw[0] else self._decode_other(raw[1:])
                yield Waiting(row, timestamp, side == 1, key, value)

    def _row(self, left: bool, key: K, timestamp: int) -> bytes:
        return _HEAD.pack(timestamp, left) + self._key(key)


def _start(time: int) -> bytes:
    """What is less than every row of this time, and greater than those before."""
    return time.to_bytes(8, "big")


@dataclass(frozen=True)
class OuterJoinStoreBuilder(StoreBuilder[K, V], Generic[K, V, VO]):
    """Records of a left or outer join that have met none. ``value_serde`` is of the left side's values."""

    other_value_serde: Serde[VO] | None = None

    def build(self, context: StoreContext) -> OuterJoinStore[K, V, VO]:
        """See :class:`StoreBuilder`."""
        serdes = self._serdes(context)
        return OuterJoinStore(self._rows(context), *serdes, context.value_serde(self.other_value_serde), context)
