"""What several option objects have in common: a name, serdes. Each is frozen; every ``with_…`` gives a new one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

from headrace.naming import validate_name

if TYPE_CHECKING:
    from headrace.api.serde import Serde

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


def changed(option: T, **fields: Any) -> T:
    """The same options with other fields; they are checked as the first ones were."""
    made: T = replace(cast("Any", option), **fields)
    return made


class HasName:
    """Options with a name, of a node or of what the operation makes.

    Raises:
        TopologyException: The name is not allowed, see :func:`headrace.naming.validate_name`.
    """

    __slots__ = ()

    name: Any

    def __post_init__(self) -> None:
        """Check the name."""
        if self.name is not None:
            validate_name(self.name)

    def with_name(self, name: str) -> Self:
        """Another name."""
        return changed(self, name=name)


class HasSerdes(Generic[K, V]):
    """Options with a serde of keys and one of values; None is what follows from the operation or the configuration."""

    __slots__ = ()

    def with_key_serde(self, key_serde: Serde[K] | None) -> Self:
        """Another serde of keys."""
        return changed(self, key_serde=key_serde)

    def with_value_serde(self, value_serde: Serde[V] | None) -> Self:
        """Another serde of values; of a join's own values, not the other side's."""
        return changed(self, value_serde=value_serde)
