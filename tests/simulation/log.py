"""A partition of a topic: records, transactional ones among them, and markers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.records import Headers, RawRecord, TopicPartition

    Sent = tuple[bytes | None, bytes | None, int, Headers | None]


class Refused(Exception):
    """The brokers' answer is an error, by its number in the Kafka protocol."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class PartitionLog:
    """See the module.

    Args:
        partition: Its name.
        changed: Called when there is more to read.
    """

    def __init__(self, partition: TopicPartition, changed: Callable[[PartitionLog], None]) -> None:
        self.partition = partition
        self.start = 0
        self._entries: list[RawRecord | None] = []
        """None is a marker."""
        self._open: dict[int, list[int]] = {}
        self._aborted: set[int] = set()
        self._changed = changed
        self.sequences: dict[int, tuple[int, int]] = {}
        """Epoch and next sequence by producer id."""
        self.disordered = False
        """Whether a producer has written, without a transaction, behind one that was made later."""

    @property
    def end(self) -> int:
        """The high watermark."""
        return len(self._entries)

    @property
    def stable(self) -> int:
        """The last stable offset: below it every transaction has ended."""
        return min((offsets[0] for offsets in self._open.values()), default=len(self._entries))

    def append(self, records: Sequence[Sent], transaction: int | None = None) -> int:
        """Write records; returns the offset of the first.

        Args:
            records: Key, value, timestamp, headers.
            transaction: The producer id, if they are of a transaction.
        """
        first = len(self._entries)
        for key, value, timestamp, headers in records:
            offset = len(self._entries)
            self._entries.append((offset, timestamp, key, value, headers))
            if transaction is not None:
                self._open.setdefault(transaction, []).append(offset)
        self._changed(self)
        return first

    def mark(self, producer_id: int, commit: bool) -> None:
        """End the producer's transaction here."""
        offsets = self._open.pop(producer_id, [])
        if not commit:
            self._aborted.update(offsets)
        self._entries.append(None)
        self._changed(self)

    def read(self, position: int, limit: int, committed: bool) -> tuple[list[RawRecord], int]:
        """Up to ``limit`` records from ``position`` on, and the next position, past markers and aborted records."""
        end = self.stable if committed else self.end
        found: list[RawRecord] = []
        while position < end and len(found) < limit:
            entry = self._entries[position]
            if entry is not None and not (committed and position in self._aborted):
                found.append(entry)
            position += 1
        while position < end and (self._entries[position] is None or (committed and position in self._aborted)):
            position += 1
        return found, position

    def delete_before(self, offset: int) -> None:
        """Make ``offset`` the start."""
        self.start = max(self.start, min(offset, self.end))
