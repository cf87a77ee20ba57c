"""Where settings come from: a properties file, the environment, a mapping. Later ones win."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from headrace.config.properties import parse_properties
from headrace.errors import ConfigException

if TYPE_CHECKING:
    import os

ENVIRONMENT_PREFIX = "HEADRACE_"

_UNDERSCORES = re.compile("_+")
_MEANING = {1: ".", 2: "-", 3: "_"}


@dataclass(frozen=True, slots=True)
class Environment:
    """Environment variables as a source: ``Environment(os.environ)``.

    Those that begin with the prefix are settings. The rest of the name, in lower case, is the key with ``.`` written
    ``_``, ``-`` written ``__`` and ``_`` written ``___`` (the rule of Kafka's own container images):
    ``HEADRACE_APPLICATION_ID`` is ``application.id``, ``HEADRACE_RACK_AWARE_ASSIGNMENT_TRAFFIC___COST`` is
    ``rack.aware.assignment.traffic_cost``.
    """

    variables: Mapping[str, str]
    prefix: str = ENVIRONMENT_PREFIX

    def settings(self) -> dict[str, str]:
        """The settings among the variables.

        Raises:
            ConfigException: A name has more than three underscores in a row.
        """
        found: dict[str, str] = {}
        for variable in sorted(self.variables):
            if variable.startswith(self.prefix) and len(variable) > len(self.prefix):
                found[self._key(variable)] = self.variables[variable]
        return found

    def _key(self, variable: str) -> str:
        def meaning(run: re.Match[str]) -> str:
            char = _MEANING.get(len(run[0]))
            if char is None:
                raise ConfigException(
                    f"Environment variable {variable} has {len(run[0])} underscores in a row: one stands for '.', two "
                    "for '-', three for '_'"
                )
            return char

        return _UNDERSCORES.sub(meaning, variable[len(self.prefix) :].lower())


Source: TypeAlias = "str | os.PathLike[str] | Environment | Mapping[str, Any]"
"""A path of a properties file, environment variables, or settings by key."""


def read_properties_file(path: str | os.PathLike[str], encoding: str = "iso-8859-1") -> dict[str, str]:
    """The settings of a properties file.

    Args:
        path: The file.
        encoding: ISO-8859-1, as Kafka's own tools read such files; other characters are written as escapes.

    Raises:
        ConfigException: The file cannot be read, or is malformed.
    """
    file = Path(path)
    try:
        text = file.read_bytes().decode(encoding)
    except OSError as e:
        raise ConfigException(f"Cannot read the configuration file {file}: {e.strerror}") from e
    except UnicodeDecodeError as e:
        raise ConfigException(f"The configuration file {file} is not {encoding}: {e.reason}") from e
    return parse_properties(text, str(file))


def read_source(source: Source) -> dict[str, Any]:
    """The settings of one source.

    Raises:
        ConfigException: The source cannot be read.
    """
    if isinstance(source, Environment):
        return dict(source.settings())
    if isinstance(source, Mapping):
        return dict(source)
    return dict(read_properties_file(source))
