"""The handle of a table that every instance holds whole. Source: ``kstream.internals.GlobalKTableImpl`` (4.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace import naming
from headrace.api.options import name_of
from headrace.dsl.graph import Process
from headrace.processors.joins import StreamGlobalTableJoin

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.api.options import Named
    from headrace.dsl.place import Place

K = TypeVar("K")
V = TypeVar("V")


class GlobalKTable(Generic[K, V]):
    """All rows of a topic, in every instance: streams are joined with it by any key, without a repartition.

    Made by :meth:`headrace.dsl.StreamsBuilder.global_table`. It is complete, up to the moment of the start, before the
    first record is processed; later changes come when they come, in no order with the streams' records.
    """

    def __init__(self, store_name: str, *, is_named: bool) -> None:
        self.store_name = store_name
        """Name of its store (for the library's own use)."""
        self._is_named = is_named

    def queryable_store_name(self) -> str | None:
        """Name of the store if the user gave one; else None."""
        return self.store_name if self._is_named else None


def join_with_global(
    at: Place,
    table: GlobalKTable[Any, Any],
    key_selector: Callable[[Any, Any], Any],
    joiner: Callable[..., Any],
    named: Named | None,
    *,
    left: bool,
    with_key: bool,
) -> Place:
    """The place behind a join of a stream with a global table."""
    # the name says LEFTJOIN for the inner join too, as in Java
    name = at.scope.node_name(name_of(named), naming.LEFT_JOIN)
    operator = StreamGlobalTableJoin(table.store_name, key_selector, joiner, left, with_key)
    return at.add(name, Process(operator), takes_null_keys=left).new_value()
