"""From the names in a configuration to the objects that they name."""

from __future__ import annotations

import importlib
from typing import Any

from headrace.errors import ConfigException


def load(reference: object, key: str) -> Any:
    """The object that a setting names.

    Args:
        reference: ``module:attribute``, a class, or an object, which is taken as it is.
        key: The setting, for messages.

    Returns:
        What was named; a class is returned as the class.

    Raises:
        ConfigException: The module or attribute does not exist.
    """
    if not isinstance(reference, str):
        return reference
    module, sep, attribute = reference.partition(":")
    if not sep or not module or not attribute:
        raise ConfigException(f"{key}: '{reference}' is not of the form module:attribute")
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as e:
        raise ConfigException(f"{key}: '{reference}' cannot be loaded: {e}") from e
    return found
