"""The metrics of one state updater."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.metrics.catalog import UPDATER

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.metrics import Meter, MetricsRegistry


class UpdaterMeters:
    """Written by the state updater; read by any thread.

    Args:
        registry: Where the metrics are registered.
        name: Name of the updater's thread.
        restoring: Number of active tasks that are being restored.
        following: Number of standby tasks.
        paused: Whether the client is paused.
    """

    def __init__(
        self,
        registry: MetricsRegistry,
        name: str,
        restoring: Callable[[], int],
        following: Callable[[], int],
        paused: Callable[[], bool],
    ) -> None:
        self._batches, self._restoring, self._following = registry.meter(), registry.meter(), registry.meter()
        self._scope = registry.scope()
        tags, clock, add = (name,), registry.clock, self._scope.add

        def fraction(meter: Meter) -> float:
            return min(1.0, meter.amount_rate(clock()))

        add(UPDATER, "active-restoring-tasks", tags, restoring)
        add(UPDATER, "standby-updating-tasks", tags, following)
        add(UPDATER, "active-paused-tasks", tags, lambda: restoring() if paused() else 0)
        add(UPDATER, "standby-paused-tasks", tags, lambda: following() if paused() else 0)
        add(UPDATER, "active-restore-ratio", tags, lambda: fraction(self._restoring))
        add(UPDATER, "standby-update-ratio", tags, lambda: fraction(self._following))
        # what it waits for has not ended yet: it is what is left
        add(
            UPDATER,
            "idle-ratio",
            tags,
            lambda: max(0.0, 1.0 - fraction(self._restoring) - fraction(self._following)),
        )
        add(UPDATER, "restore-records-rate", tags, lambda: self._batches.amount_rate(clock()))
        add(UPDATER, "restore-call-rate", tags, lambda: self._batches.rate(clock()))

    def worked(self, now: float, took_s: float, restored: bool) -> None:
        """Note a round of restoring active tasks, or of following changelogs."""
        self._restoring.record(now, took_s if restored else 0.0)
        self._following.record(now, 0.0 if restored else took_s)

    def read(self, now: float, records: int) -> None:
        """Note a batch of changelog records."""
        if records:
            self._batches.record(now, records)

    def close(self) -> None:
        """The updater has ended."""
        self._scope.close()
