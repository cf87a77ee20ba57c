"""Plain counters of one task, written by the thread that has it and pulled by whoever shows them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.records import Headers


class Traffic:
    """Records and bytes that went one way.

    Attributes:
        records: How many.
        bytes: Their sizes, see :func:`record_bytes`.
    """

    __slots__ = ("bytes", "records")

    def __init__(self) -> None:
        self.records = 0
        self.bytes = 0


def record_bytes(topic_bytes: int, key: bytes | None, value: bytes | None, headers: Headers | None) -> int:
    """The size of a record in bytes as the Java library counts it. Source: ``ClientUtils.recordSizeInBytes``.

    Args:
        topic_bytes: Length of the topic's name in bytes.
        key: Its key.
        value: Its value.
        headers: Its headers.
    """
    # 8 for the time, 8 for the offset, 4 for the partition
    size = topic_bytes + 20
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    if headers:
        size += sum(len(name.encode()) + len(text or b"") for name, text in headers)
    return size


class TaskMetrics:
    """What one task has done since it was made.

    Attributes:
        processed: Records that have left its queues, dropped ones included.
        punctuated: Calls of punctuators.
        punctuation_ms: How long they took in all, in ms.
        restored: Changelog records read back into its stores.
        to_restore: Changelog records that a restore has still to read.
        dropped: Dropped records by reason.
        produced: What its sinks have sent, by sink and topic; empty unless traffic is counted.
    """

    __slots__ = ("dropped", "processed", "produced", "punctuated", "punctuation_ms", "restored", "to_restore")

    def __init__(self) -> None:
        self.processed = 0
        self.punctuated = 0
        self.punctuation_ms = 0
        self.restored = 0
        self.to_restore = 0
        self.dropped: Counter[str] = Counter()
        self.produced: dict[tuple[str, str], Traffic] = {}
