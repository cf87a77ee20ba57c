"""What several option objects have in common: a name, serdes. Each is frozen; every ``with_…`` gives a new one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Generic, Self, TypeVar, cast

from headrace.api.serde import Serde
from headrace.naming import validate_name

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


def changed(option: T, **fields: Any) -> T:
    """The same options with other fields; they are checked as the first ones were."""
    made: T = replace(cast("Any", option), **fields)
    return made


def check_serde(serde: object) -> None:
    """Check that a serde is one: its class, or one half of it, is easily given in its place.

    Raises:
        TypeError: It is neither None nor a serde.
    """
    if serde is None or isinstance(serde, Serde):
        return
    advice = "call it" if callable(serde) else "give both halves, as by Serdes.from_"
    raise TypeError(f"a serde is expected here, not {serde!r}: {advice}")


class Option:
    """What checks itself when it is made."""

    __slots__ = ()

    def __post_init__(self) -> None:
        """Check the fields."""


class HasName(Option):
    """Options with a name, of a node or of what the operation makes.

    Raises:
        TopologyException: The name is not allowed, see :func:`headrace.naming.validate_name`.
    """

    __slots__ = ()

    name: Any

    def __post_init__(self) -> None:
        """Check the name, and what else there is."""
        if self.name is not None:
            validate_name(self.name)
        super().__post_init__()

    def with_name(self, name: str) -> Self:
        """Another name."""
        return changed(self, name=name)


class HasSerdes(Option, Generic[K, V]):
    """Options with a serde of keys and one of values; None is what follows from the operation or the configuration.

    Raises:
        TypeError: Something else is given for a serde.
    """

    __slots__ = ()

    key_serde: Any
    value_serde: Any

    def __post_init__(self) -> None:
        """Check the serdes."""
        check_serde(self.key_serde)
        check_serde(self.value_serde)
        super().__post_init__()

    def with_key_serde(self, key_serde: Serde[K] | None) -> Self:
        """Another serde of keys."""
        return changed(self, key_serde=key_serde)

    def with_value_serde(self, value_serde: Serde[V] | None) -> Self:
        """Another serde of values; of a join's own values, not the other side's."""
        return changed(self, value_serde=value_serde)
