"""Where records of a stream wait for a table to catch up: a buffer in the order of their times.

Layout of a key: a zero byte, 8 bytes of the record's time, the record's key, 4 bytes of a number that tells records of
one key and time apart; all numbers big endian. Of a value see :mod:`.buffered`; its buffer time is 0. The changelog has
the same bytes; its records have no time of their own.
Source: ``state.internals.RocksDBTimeOrderedKeyValueBuffer`` (4.4).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headrace.api.windows import MAX_TIMESTAMP
from headrace.state.base import StoreBase
from headrace.state.buffered import Buffered, decode_buffered
from headrace.state.builders import StoreBuilder
from headrace.state.formats import PLAIN

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.api.engine import Process
    from headrace.api.serde import Serde
    from headrace.records import Headers
    from headrace.state.buffer import BufferedStore
    from headrace.state.context import StoreContext

K = TypeVar("K")
V = TypeVar("V")

_HEAD: Final = struct.Struct(">Bq")
_TAIL: Final = struct.Struct(">i")


class TimeOrderedBuffer(StoreBase[K, V]):
    """Records by time, until stream time is ahead of them by a grace period.

    Stream time is the greatest time of a record that was put here.
    """

    def __init__(
        self,
        rows: BufferedStore,
        key_serde: Serde[K],
        value_serde: Serde[V],
        context: StoreContext,
        grace_ms: int,
    ) -> None:
        super().__init__(rows, key_serde, value_serde, PLAIN, context, caching=False)
        self._grace_ms = grace_ms
        self._stream_time = -1
        self._number = 0
        self._oldest: int | None = None
        """No record waits that is older; None: none waits."""

    def start(self) -> None:
        """Learn from what was restored: stream time, the oldest record, and numbers that are free."""
        for row, _ in self.rows.scan(None, None):
            timestamp = _HEAD.unpack_from(row)[1]
            self._number = max(self._number, _TAIL.unpack_from(row, len(row) - _TAIL.size)[0])
            self._stream_time = max(self._stream_time, timestamp)
            if self._oldest is None:
                self._oldest = timestamp

    def put(self, key: K, value: V, timestamp: int, headers: Headers | None) -> bool:
        """Let a record wait; gives False, and does nothing, when it comes later than the grace period."""
        if self._stream_time - self._grace_ms > timestamp:
            return False
        self._number = (self._number + 1) & 0x7FFFFFFF
        raw_key, raw_value = self._key(key), self._encode(value)
        row = _HEAD.pack(0, timestamp) + raw_key + _TAIL.pack(self._number)
        record = self._record
        buffered = Buffered(
            timestamp, record.offset, record.topic or "", record.partition, headers or [], None, None, raw_value
        )
        stored = buffered.encoded(0)
        self.rows.put(row, stored, stored, None)
        if timestamp > self._stream_time:
            self._stream_time = timestamp
        if self._oldest is None or timestamp < self._oldest:
            self._oldest = timestamp
        return True

    def evict(self, take: Process, failed: Callable[[Exception, Any, Any, int, Headers | None], None]) -> None:
        """Give up the records that have waited long enough, in the order of their times, each to ``take``.

        Meanwhile the task's record context is that of the record given. A record is removed once it was taken.
        One that does not decode any more goes to ``failed(error, None, None, time, headers)`` instead.
        """
        due = self._stream_time - self._grace_ms
        if self._oldest is None or self._oldest > due:
            return
        record = self._record
        saved = (record.topic, record.partition, record.offset, record.timestamp, record.headers)
        try:
            # only what is due: a scan costs what lies in its bounds, uncommitted removals included
            for row, stored in self.rows.scan(_HEAD.pack(0, self._oldest), _above(due)):
                buffered = decode_buffered(stored)[0]
                assert buffered.new is not None, "only values are put"
                headers = buffered.headers or None
                record.topic, record.partition, record.offset = buffered.topic, buffered.partition, buffered.offset
                record.timestamp, record.headers = buffered.timestamp, headers
                try:
                    key, value = self._decode_key(row[_HEAD.size : -_TAIL.size]), self._decode(buffered.new)
                except Exception as e:
                    failed(e, None, None, buffered.timestamp, headers)
                else:
                    take(key, value, buffered.timestamp, headers)
                self.rows.put(row, None, None, None)
            self._oldest = due + 1
        finally:
            record.topic, record.partition, record.offset, record.timestamp, record.headers = saved


def _above(timestamp: int) -> bytes:
    """Greater than the keys of a time's records, less than those of later ones."""
    return _HEAD.pack(0, timestamp + 1) if timestamp < MAX_TIMESTAMP else b"\1"


@dataclass(frozen=True)
class TimeOrderedBufferBuilder(StoreBuilder[K, V]):
    """Records of a stream that wait for a table until stream time is ahead of them by ``grace_ms``."""

    grace_ms: int = 0

    def build(self, context: StoreContext) -> TimeOrderedBuffer[K, V]:
        """See :class:`StoreBuilder`."""
        return TimeOrderedBuffer(self._rows(context), *self._serdes(context), context, self.grace_ms)
