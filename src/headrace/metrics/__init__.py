"""What an application tells of itself: counters that are written in passing, and a registry that others pull from.

Nothing here is called for each record: a task counts a run of records at once, a thread a batch, a commit, a second.
Whoever reads (``KafkaStreams.metrics()``, the HTTP port) computes rates and averages then, on its own thread. Every
counter has one writer and no lock: a reader that comes in the middle of a write sees a number that is one run old.
"""

from headrace.metrics.catalog import CATALOG, Definition, RecordingLevel
from headrace.metrics.counters import TaskMetrics, Traffic, record_bytes
from headrace.metrics.meter import Meter
from headrace.metrics.registry import Metric, MetricName, MetricsRegistry, MetricValue, Scope

__all__ = [
    "CATALOG",
    "Definition",
    "Meter",
    "Metric",
    "MetricName",
    "MetricValue",
    "MetricsRegistry",
    "RecordingLevel",
    "Scope",
    "TaskMetrics",
    "Traffic",
    "record_bytes",
]
