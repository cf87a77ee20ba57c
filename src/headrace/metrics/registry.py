"""The metrics that can be read now: registered by those who own what they are read from, and gone with them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from headrace.metrics.catalog import CATALOG, RecordingLevel
from headrace.metrics.meter import Meter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MetricValue: TypeAlias = "int | float | str"
"""A number (not a number where there is nothing to tell yet), or a text such as a state."""


@dataclass(frozen=True, slots=True)
class MetricName:
    """What a metric is called. Source: ``org.apache.kafka.common.MetricName``.

    Attributes:
        name: Such as ``process-total``.
        group: Such as ``stream-task-metrics``.
        description: A sentence; two names that differ in it only are equal.
        tags: What it is of, such as ``thread-id`` and ``task-id``.
    """

    name: str
    group: str
    description: str = field(compare=False)
    tags: Mapping[str, str]

    def __hash__(self) -> int:
        return hash((self.name, self.group, frozenset(self.tags.items())))


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric to be read. Source: ``org.apache.kafka.common.Metric``.

    Attributes:
        metric_name: What it is called.
    """

    metric_name: MetricName
    _read: Callable[[], MetricValue] = field(repr=False)

    def metric_value(self) -> MetricValue:
        """The value now. May be asked on any thread; what has ended keeps its last value."""
        return self._read()


class MetricsRegistry:
    """See the module. Registering and reading may be done on any thread, and neither waits for the other.

    Args:
        clock: Seconds of a clock that never goes back; asked by whoever reads.
        level: Metrics of a greater level are not registered (``metrics.recording.level``).
        samples: Of meters (``metrics.num.samples``).
        window_ms: Length of one (``metrics.sample.window.ms``).
    """

    def __init__(
        self,
        clock: Callable[[], float],
        level: RecordingLevel = RecordingLevel.INFO,
        samples: int = 2,
        window_ms: int = 30_000,
    ) -> None:
        self.clock = clock
        self.level = level
        self._samples = samples
        self._window_s = window_ms / 1000
        self._metrics: dict[MetricName, Metric] = {}

    def meter(self) -> Meter:
        """A meter with the configured samples."""
        return Meter(self._samples, self._window_s)

    def scope(self) -> Scope:
        """Where an owner registers what goes when it goes."""
        return Scope(self)

    def read(self) -> dict[MetricName, Metric]:
        """All metrics there are now."""
        return dict(self._metrics)

    def put(self, metric: Metric) -> None:
        """Register a metric; it takes the place of an equal one."""
        self._metrics[metric.metric_name] = metric

    def drop(self, metric: Metric) -> None:
        """Take a metric away, unless another one has its place by now."""
        if self._metrics.get(metric.metric_name) is metric:
            del self._metrics[metric.metric_name]


class Scope:
    """The metrics of one owner. Used by one thread at a time."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self.registry = registry
        self._metrics: list[Metric] = []

    def add(self, group: str, name: str, tags: tuple[str, ...], read: Callable[[], MetricValue]) -> None:
        """Register a metric of the catalog, if its level is recorded.

        Args:
            group: Its group.
            name: Its name.
            tags: Values of the tags, in the catalog's order.
            read: Gives the value, on whatever thread asks; it must neither wait nor fail.

        Raises:
            KeyError: The catalog has no such metric.
        """
        definition = CATALOG[group, name]
        if definition.level > self.registry.level:
            return
        named = MetricName(name, group, definition.about, dict(zip(definition.tags, tags, strict=True)))
        metric = Metric(named, read)
        self._metrics.append(metric)
        self.registry.put(metric)

    def add_meter(self, group: str, prefix: str, tags: tuple[str, ...], meter: Meter) -> None:
        """Register what the catalog has of a meter of events and the ms that they took.

        That is some of ``-latency-avg``, ``-latency-max``, ``-rate``, ``-total`` and ``-ratio``.
        """
        clock = self.registry.clock
        views: dict[str, Callable[[], MetricValue]] = {
            "-latency-avg": lambda: meter.average(clock()),
            "-latency-max": lambda: meter.peak(clock()),
            "-rate": lambda: meter.rate(clock()),
            "-total": lambda: meter.count,
            "-ratio": lambda: min(1.0, meter.amount_rate(clock()) / 1000),
        }
        for suffix, read in views.items():
            if (group, prefix + suffix) in CATALOG:
                self.add(group, prefix + suffix, tags, read)

    def close(self) -> None:
        """Take them all away."""
        for metric in self._metrics:
            self.registry.drop(metric)
        self._metrics.clear()
