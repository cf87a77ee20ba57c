"""Plain counters that are written per run of records and pulled by whoever shows them."""

from __future__ import annotations

from collections import Counter


class TaskMetrics:
    """What one task has done. Names in :meth:`snapshot` are Kafka's (group ``stream-task-metrics``)."""

    __slots__ = ("dropped", "processed", "restored", "to_restore")

    def __init__(self) -> None:
        self.processed = 0
        self.restored = 0
        self.to_restore = 0
        self.dropped: Counter[str] = Counter()
        """Dropped records by reason."""

    def snapshot(self) -> dict[str, int]:
        """Totals by metric name."""
        return {
            "process-total": self.processed,
            "dropped-records-total": self.dropped.total(),
            "restore-total": self.restored,
            "restore-remaining-records-total": self.to_restore,
        }
