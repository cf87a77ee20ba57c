"""From the names in a configuration to the objects that they name."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from headrace.errors import ConfigException

if TYPE_CHECKING:
    from collections.abc import Mapping


def load(reference: object, key: str, java_names: Mapping[str, str] | None = None) -> Any:
    """The object that a setting names.

    Args:
        reference: ``module:attribute``, a Java class name of ``java_names``, or an object, which is taken as it is.
        key: The setting, for messages.
        java_names: Java class names, each with its ``module:attribute`` here.

    Returns:
        What was named; a class is returned as the class.

    Raises:
        ConfigException: The module or attribute does not exist.
    """
    if not isinstance(reference, str):
        return reference
    known = java_names or {}
    reference = known.get(reference.strip(), reference.strip())
    module, sep, attribute = reference.partition(":")
    if not sep or not module or not attribute:
        java = f", nor one of {', '.join(known)}" if known else ""
        raise ConfigException(f"{key}: '{reference}' is not of the form module:attribute{java}")
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as e:
        raise ConfigException(f"{key}: '{reference}' cannot be loaded: {e}") from e
    return found


def make(reference: object, key: str, java_names: Mapping[str, str] | None = None) -> Any:
    """As :func:`load`; of a class, an object made without arguments.

    Raises:
        ConfigException: It cannot be loaded or made.
    """
    found = load(reference, key, java_names)
    if not isinstance(found, type):
        return found
    try:
        return found()
    except TypeError as e:
        raise ConfigException(f"{key}: {reference} cannot be made without arguments: {e}") from e
