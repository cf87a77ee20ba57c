"""Settings: rows in ``keys`` and ``client_keys``, loading in ``sources``, the checked whole in ``StreamsConfig``.

Yields names of classes, never what they name: resolving ``module:attribute`` is the runtime's.
"""

from __future__ import annotations

from headrace.config.definition import (
    ConfigKey,
    ConfigType,
    Importance,
    Support,
    Validator,
    at_least,
    one_of,
)
from headrace.config.java_view import java_client_configs
from headrace.config.keys import AT_LEAST_ONCE, EXACTLY_ONCE_V2, STREAMS_KEYS
from headrace.config.properties import parse_properties
from headrace.config.sources import Environment, Source, read_properties_file
from headrace.config.streams import StreamsConfig, settings_of

__all__ = [
    "AT_LEAST_ONCE",
    "EXACTLY_ONCE_V2",
    "STREAMS_KEYS",
    "ConfigKey",
    "ConfigType",
    "Environment",
    "Importance",
    "Source",
    "StreamsConfig",
    "Support",
    "Validator",
    "at_least",
    "java_client_configs",
    "one_of",
    "parse_properties",
    "read_properties_file",
    "settings_of",
]
