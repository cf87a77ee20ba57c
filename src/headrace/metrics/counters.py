"""Plain counters of one task, written by the thread that has it and pulled by whoever shows them."""

from __future__ import annotations

from collections import Counter


class TaskMetrics:
    """What one task has done since it was made.

    Attributes:
        processed: Records that have left its queues, dropped ones included.
        punctuated: Calls of punctuators.
        punctuation_ms: How long they took in all, in ms.
        restored: Changelog records read back into its stores.
        to_restore: Changelog records that a restore has still to read.
        dropped: Dropped records by reason.
    """

    __slots__ = ("dropped", "processed", "punctuated", "punctuation_ms", "restored", "to_restore")

    def __init__(self) -> None:
        self.processed = 0
        self.punctuated = 0
        self.punctuation_ms = 0
        self.restored = 0
        self.to_restore = 0
        self.dropped: Counter[str] = Counter()
