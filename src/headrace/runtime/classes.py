"""From class names in the configuration to objects, and from a configuration to the engine's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.api import handlers
from headrace.api.handlers import LogAndFailProcessingExceptionHandler
from headrace.api.serde import Serde
from headrace.config import StreamsConfig
from headrace.config.loading import make
from headrace.engine.settings import EngineSettings
from headrace.errors import ConfigException

if TYPE_CHECKING:
    from collections.abc import Callable

_SERDES: Final = {StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG}


def instance(config: StreamsConfig, key: str) -> Any:
    """A configured object of the class that ``key`` names, or None when the setting is None.

    Raises:
        ConfigException: It cannot be loaded or made.
    """
    reference = config[key]
    if reference is None:
        return None
    found = make(reference, key)
    if key in _SERDES and not isinstance(found, Serde):
        raise ConfigException(f"{key} has the value {reference!r}, which is no serde{': call it' * callable(found)}")
    if isinstance(found, Serde):
        serde: Serde[Any] = found  # pyright: ignore[reportUnknownVariableType]  # a user's class
        serde.configure(config.originals(), is_key=key == StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG)
        return serde
    if hasattr(found, "configure"):
        found.configure(config.originals())
    return found


def engine_settings(
    config: StreamsConfig, system_time_ms: Callable[[], int], steady_time_ms: Callable[[], int]
) -> EngineSettings:
    """Load every class that the configuration names.

    Args:
        config: The application's configuration.
        system_time_ms: The wall clock (epoch ms).
        steady_time_ms: A clock that never jumps (ms).

    Raises:
        ConfigException: A class cannot be loaded.
    """
    deserialization = instance(config, StreamsConfig.DESERIALIZATION_EXCEPTION_HANDLER_CLASS_CONFIG)
    processing = instance(config, StreamsConfig.PROCESSING_EXCEPTION_HANDLER_CLASS_CONFIG)
    production = instance(config, StreamsConfig.PRODUCTION_EXCEPTION_HANDLER_CLASS_CONFIG)
    theirs = any(type(handler).__module__ != handlers.__name__ for handler in (deserialization, processing, production))
    return EngineSettings(
        application_id=config[StreamsConfig.APPLICATION_ID_CONFIG],
        app_configs=config.originals(),
        deserialization_handler=deserialization,
        processing_handler=processing,
        production_handler=production,
        timestamp_extractor=instance(config, StreamsConfig.DEFAULT_TIMESTAMP_EXTRACTOR_CLASS_CONFIG),
        default_key_serde=instance(config, StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG),
        default_value_serde=instance(config, StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG),
        max_task_idle_ms=config[StreamsConfig.MAX_TASK_IDLE_MS_CONFIG],
        buffered_records_per_partition=config[StreamsConfig.BUFFERED_RECORDS_PER_PARTITION_CONFIG],
        uncommitted_max_bytes=config[StreamsConfig.STATESTORE_UNCOMMITTED_MAX_BYTES_CONFIG],
        system_time_ms=system_time_ms,
        steady_time_ms=steady_time_ms,
        task_timeout_ms=config[StreamsConfig.TASK_TIMEOUT_MS_CONFIG],
        traces_sources=theirs or bool(config[StreamsConfig.ERRORS_DEAD_LETTER_QUEUE_TOPIC_NAME_CONFIG]),
        global_processing_handler=(
            instance(config, StreamsConfig.PROCESSING_EXCEPTION_HANDLER_CLASS_CONFIG)
            if config[StreamsConfig.PROCESSING_EXCEPTION_HANDLER_GLOBAL_ENABLED_CONFIG]
            else LogAndFailProcessingExceptionHandler()
        ),
        counts_traffic=config[StreamsConfig.METRICS_RECORDING_LEVEL_CONFIG] != "INFO",
    )
