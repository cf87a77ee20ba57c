"""The handle of a table: a stream of changes, each the new row of its key. Source: ``kstream.internals.KTableImpl``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from headrace import naming
from headrace.dsl import tables
from headrace.processors.tables import TableToStream

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.api.engine import ValueGetterSupplier
    from headrace.api.options import Named
    from headrace.dsl.kstream import KStream
    from headrace.dsl.place import Place

K = TypeVar("K")
V = TypeVar("V")
KR = TypeVar("KR")


class KTable(Generic[K, V]):
    """A table: the latest value of each key. Made by the library.

    Attributes:
        at: Where it stands in the logical graph (for the library's own use).
    """

    def __init__(self, at: Place, queryable_store_name: str | None = None) -> None:
        self.at = at
        self._queryable_store_name = queryable_store_name

    def queryable_store_name(self) -> str | None:
        """Name of the store that holds the table's rows, under which they can be queried; None when there is none."""
        return self._queryable_store_name

    def value_getter(self) -> ValueGetterSupplier:
        """How the table's rows are read; a table that is only read as changes keeps none until this is called.

        For the library's own use. The stores that it names must be connected to the node that binds it.
        """
        return tables.value_getter(self.at.scope.graph, self.at.node)

    def enable_sending_old_values(self, *, force: bool = True) -> bool:
        """Have the table's changes carry old values; gives whether they do.

        For the library's own use.

        Args:
            force: Make the table keep rows for it, if it does not yet.
        """
        return tables.send_old_values(self.at.scope.graph, self.at.node, force=force)

    @overload
    def to_stream(self, *, named: Named | None = None) -> KStream[K, V]: ...
    @overload
    def to_stream(self, mapper: Callable[[K, V], KR], named: Named | None = None) -> KStream[KR, V]: ...
    def to_stream(self, mapper: Callable[[K, V], Any] | None = None, named: Named | None = None) -> KStream[Any, V]:
        """The changes as a stream: a deleted row is a record whose value is None.

        Args:
            mapper: ``(key, value) -> key`` gives the records another key.
            named: Name of the node.
        """
        from headrace.dsl.kstream import KStream

        stream: KStream[Any, V] = KStream(
            replace(self.at.add_operator(named, naming.TABLE_TO_STREAM, TableToStream()), repartition=False)
        )
        return stream if mapper is None else stream.select_key(mapper)
