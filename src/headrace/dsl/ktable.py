"""The handle of a table: a stream of changes, each the new row of its key. Source: ``kstream.internals.KTableImpl``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from headrace import naming
from headrace.dsl.graph import StreamToTable, TableSource
from headrace.processors.tables import TableToStream

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.api.options import Named
    from headrace.dsl.graph import Store
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

    def __init__(self, at: Place, store: Store) -> None:
        self.at = at
        self._store = store

    def queryable_store_name(self) -> str | None:
        """Name of the store that holds the table, if the user gave one; else None."""
        return self._store.materialized.store_name

    def keep_rows(self) -> str:
        """Make the table have a store, because an operation looks its rows up; gives the store's name.

        For the library's own use. A table that is only read as changes keeps no rows.
        """
        node = self.at.scope.graph.nodes[self.at.node]
        if isinstance(node.data, TableSource | StreamToTable):
            node.data = replace(node.data, stored=True)
        return self._store.name

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
