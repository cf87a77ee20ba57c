"""What operators that make tables have in common: old values, and how others read their rows.

Sources: ``kstream.internals.KTable{ProcessorSupplier,ValueGetterSupplier,MaterializedValueGetterSupplier}``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from headrace.api.engine import Bound, NodeContext, ValueGetter, ValueGetterAsOf, ValueGetterSupplier


@dataclass(frozen=True, slots=True)
class TableOperator:
    """An operator whose output is a table's changes.

    ``send_old_values``: its changes carry the old value too. Who needs them asks while the topology is built, and
    whether they can be had is decided in the graph.
    """

    send_old_values: bool = field(default=False, kw_only=True)

    def sending_old_values(self) -> Self:
        """The same operator with :attr:`send_old_values`."""
        return replace(self, send_old_values=True)

    def bind(self, node: NodeContext, /) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        raise NotImplementedError

    def rows(self, *inputs: ValueGetterSupplier) -> ValueGetterSupplier:
        """How its rows are read.

        Args:
            inputs: How those of the tables that it is made from are read; none when it keeps its own.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class StoreRows:
    """The rows of a key-value store."""

    store_name: str

    @property
    def store_names(self) -> tuple[str, ...]:
        """See :class:`headrace.api.engine.ValueGetterSupplier`."""
        return (self.store_name,)

    def bind(self, node: NodeContext, /) -> ValueGetter:
        """See :class:`headrace.api.engine.ValueGetterSupplier`."""
        store: Any = node.store(self.store_name)
        get: ValueGetter = store.get_pair
        return get

    def bind_as_of(self, node: NodeContext, /) -> ValueGetterAsOf | None:
        """See :class:`headrace.api.engine.ValueGetterSupplier`."""
        get: ValueGetterAsOf | None = getattr(node.store(self.store_name), "get_pair_as_of", None)
        return get
