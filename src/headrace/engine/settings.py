"""What the engine needs to know of the configuration, with every class name already made into an object."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.api.handlers import LogAndFailProcessingExceptionHandler

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.api.handlers import (
        DeserializationExceptionHandler,
        ProcessingExceptionHandler,
        ProductionExceptionHandler,
    )
    from headrace.api.serde import Serde
    from headrace.api.timestamps import TimestampExtractor


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Settings of every task of an application."""

    application_id: str
    app_configs: Mapping[str, Any]
    deserialization_handler: DeserializationExceptionHandler
    processing_handler: ProcessingExceptionHandler
    production_handler: ProductionExceptionHandler
    timestamp_extractor: TimestampExtractor
    default_key_serde: Serde[Any] | None
    default_value_serde: Serde[Any] | None
    max_task_idle_ms: int
    buffered_records_per_partition: int
    uncommitted_max_bytes: int
    system_time_ms: Callable[[], int]
    """The wall clock (epoch ms), which may jump: for what users are told and have asked for by it."""
    steady_time_ms: Callable[[], int]
    """A clock that never jumps (ms from anywhere): for whatever waits, or is not to happen too often."""
    task_timeout_ms: int = 300_000
    traces_sources: bool = False
    """Whether a handler may look at the bytes of the input record: there is a dead letter queue, or it is a user's."""
    global_processing_handler: ProcessingExceptionHandler = field(default_factory=LogAndFailProcessingExceptionHandler)
    """Decides about errors of the processors of global stores."""
    counts_traffic: bool = False
    """Whether bytes that come, and records and bytes that sinks send, are counted: that costs something for each."""
