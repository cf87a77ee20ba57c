"""Metrics in Prometheus' text format. Names are those that Kafka's users know from the JMX exporter.

``process-rate`` of the group ``stream-task-metrics`` is ``kafka_streams_stream_task_metrics_process_rate``, tags are
labels; groups of our own begin with ``headrace_``. A ``-total`` is a counter. A text such as a state is the label
``value`` of a series that is 1, whose name ends with ``_info``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families

from headrace.metrics.catalog import CLIENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.metrics import Metric as OurMetric
    from headrace.metrics import MetricName

INSTANCE_LABEL = "headrace_instance"
"""Which of a supervisor's instances a series is of. Not ``instance``: Prometheus writes its own label of that name."""

_Family: TypeAlias = CounterMetricFamily | GaugeMetricFamily

_NOT_SHOWN = frozenset({(CLIENT, "topology-description")})
"""Texts of many lines are no labels."""
_TOTAL = "-total"
_NO_COUNTER = "remaining-records"
_OTHER = re.compile(r"[^a-zA-Z0-9_]")


def exposition(metrics: Mapping[MetricName, OurMetric]) -> bytes:
    """The metrics of this process, those of the process itself (memory, CPU, files) among them."""
    families: dict[str, _Family] = {}
    for name, metric in metrics.items():
        if (name.group, name.name) in _NOT_SHOWN:
            continue
        value = metric.metric_value()
        labels = {_label(tag): text for tag, text in name.tags.items()}
        shown = _shown(name)
        if isinstance(value, str):
            shown, labels, value = f"{shown}_info", {**labels, "value": value}, 1
        family = families.get(shown)
        if family is None:
            family = families[shown] = _family(shown, name, tuple(labels))
        family.add_metric(list(labels.values()), value)
    return _written([*families.values(), *ProcessCollector(registry=None).collect()])


def merged(pages: Mapping[str, str], own: Iterable[Metric] = ()) -> bytes:
    """Pages of several instances as one: each series gets the label ``headrace_instance``.

    Args:
        pages: Prometheus texts by instance.
        own: Families that are of no instance's page.

    Raises:
        ValueError: A page is no such text.
    """
    families: dict[str, Metric] = {}
    for instance, page in pages.items():
        for part in text_string_to_metric_families(page):
            family = families.setdefault(part.name, Metric(part.name, part.documentation, part.type))
            for sample in part.samples:
                family.add_sample(sample.name, {INSTANCE_LABEL: instance, **sample.labels}, sample.value)
    return _written([*families.values(), *own])


def instances_up(up: Mapping[str, bool]) -> Metric:
    """Which instances have answered."""
    family = GaugeMetricFamily("headrace_instance_up", "Whether the instance answers.", labels=[INSTANCE_LABEL])
    for instance, answers in up.items():
        family.add_metric([instance], int(answers))
    return family


def instance_starts(starts: Mapping[str, int]) -> Metric:
    """How often the supervisor has started each instance."""
    family = CounterMetricFamily(
        "headrace_instance_starts", "Times that the supervisor has started the instance.", labels=[INSTANCE_LABEL]
    )
    for instance, times in starts.items():
        family.add_metric([instance], times)
    return family


def prometheus_name(group: str, name: str) -> str:
    """What a metric that is a number is called here, as in ``/metrics``."""
    own = group.startswith("headrace-")
    base = group.removesuffix("-metrics") if own else f"kafka_streams_{group}"
    return _label(f"{base}_{name}")


def _shown(name: MetricName) -> str:
    return prometheus_name(name.group, name.name)


def _family(shown: str, name: MetricName, labels: tuple[str, ...]) -> _Family:
    # what a restore has still to read has Java's name and goes down
    counts = name.name.endswith(_TOTAL) and _NO_COUNTER not in name.name
    kind = CounterMetricFamily if counts else GaugeMetricFamily
    return kind(shown, name.description, labels=labels)


def _label(text: str) -> str:
    return _OTHER.sub("_", text)


class _Page(CollectorRegistry):
    """Families that are there already, as the writer wants them."""

    def __init__(self, families: list[Metric]) -> None:
        super().__init__()
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _written(families: list[Metric]) -> bytes:
    return generate_latest(_Page(families))
