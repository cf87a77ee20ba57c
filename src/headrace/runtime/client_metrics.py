"""The metrics of a client as a whole, and the registry that all of its parts register theirs in."""

from __future__ import annotations

import importlib.metadata
from typing import TYPE_CHECKING

from headrace.config import StreamsConfig
from headrace.metrics import MetricsRegistry, RecordingLevel
from headrace.metrics.catalog import CLIENT
from headrace.runtime.states import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.runtime.client import ClientSettings

_ORDINALS = {state: number for number, state in enumerate(State)}


def version() -> str:
    """The version of headrace that is installed."""
    return importlib.metadata.version("headrace")


def metrics_registry(config: StreamsConfig, clock: Callable[[], float]) -> MetricsRegistry:
    """The registry that the settings ask for.

    Args:
        config: Has ``metrics.recording.level``, ``metrics.num.samples`` and ``metrics.sample.window.ms``.
        clock: Seconds of a clock that never goes back.
    """
    return MetricsRegistry(
        clock,
        RecordingLevel[config[StreamsConfig.METRICS_RECORDING_LEVEL_CONFIG]],
        config[StreamsConfig.METRICS_NUM_SAMPLES_CONFIG],
        config[StreamsConfig.METRICS_SAMPLE_WINDOW_MS_CONFIG],
    )


def add_client_metrics(
    shared: ClientSettings,
    state: Callable[[], State],
    description: str,
    alive: Callable[[], int],
    failed: Callable[[], int],
) -> None:
    """Register a client's own metrics, which it keeps also after it has ended.

    Args:
        shared: The client's fixed parts.
        state: Its state.
        description: Of the topology.
        alive: Number of stream threads that have not ended.
        failed: Number of those that have failed.
    """
    registry, tags, installed = shared.metrics, (shared.client_id,), version()
    process_id, level = str(shared.process_id), int(registry.level)
    add = registry.scope().add
    add(CLIENT, "version", tags, lambda: installed)
    add(CLIENT, "application-id", tags, lambda: shared.application_id)
    add(CLIENT, "topology-description", tags, lambda: description)
    add(CLIENT, "state", tags, lambda: state().value)
    add(CLIENT, "client-state", (*tags, process_id, shared.application_id), lambda: _ORDINALS[state()])
    add(CLIENT, "recording-level", (*tags, process_id), lambda: level)
    add(CLIENT, "alive-stream-threads", tags, alive)
    add(CLIENT, "failed-stream-threads", tags, failed)
