"""What the graph knows of tables: who must keep rows, and whose changes carry old values.

A table keeps no rows until somebody needs them: a store that the user named, an operation that looks rows up, or one
that needs old values. A table that is computed from another one (filtered, mapped) asks that one instead of keeping
rows of its own. All of it is decided while the operations are recorded, in their order, as in Java: an operation is
bound to what its table was at that moment, and old values that were asked for once are sent to everybody.
Sources: ``kstream.internals.KTableImpl.{valueGetterSupplier,enableSendingOldValues}``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.dsl.graph import Graph, Process, StreamToTable, TableJoin, TableSource
from headrace.errors import TopologyException
from headrace.processors.rows import StoreRows, TableOperator
from headrace.processors.windows import WindowedAggregate

if TYPE_CHECKING:
    from headrace.api.engine import ValueGetterSupplier


def value_getter(graph: Graph, number: int) -> ValueGetterSupplier:
    """How the rows of the table at a node are read. What has to keep rows for that is made to keep them."""
    node = graph.nodes[number]
    data = node.data
    if isinstance(data, TableSource | StreamToTable):
        node.data = replace(data, stored=True)
        return StoreRows(data.store.name)
    if isinstance(data, TableJoin):
        return data.merge.rows()
    assert isinstance(data, Process)
    assert isinstance(data.operator, TableOperator), "the handle of a table stands at a node that makes one"
    return data.operator.rows(*(value_getter(graph, table) for table in data.inputs))


def send_old_values(graph: Graph, number: int, *, force: bool) -> bool:
    """Have the changes of the table at a node carry old values; gives whether they do.

    Args:
        graph: The graph.
        number: The table's node.
        force: Tables that keep no rows yet are made to; otherwise they are left as they are.
    """
    node = graph.nodes[number]
    data = node.data
    if isinstance(data, TableSource | StreamToTable):
        if not force and not data.stored:
            return False
        node.data = replace(data, stored=True, send_old_values=True)
        return True
    if isinstance(data, TableJoin):
        for table in (data.left, data.right):
            send_old_values(graph, table, force=True)
        node.data = replace(
            data,
            this=data.this.sending_old_values(),
            other=data.other.sending_old_values(),
            merge=data.merge.sending_old_values(),
        )
        return True
    assert isinstance(data, Process)
    assert isinstance(data.operator, TableOperator), "the handle of a table stands at a node that makes one"
    if not all(send_old_values(graph, table, force=force) for table in data.inputs):
        return False
    node.data = replace(data, operator=data.operator.sending_old_values())
    return True


def closes_after_ms(graph: Graph, number: int) -> int:
    """How far stream time is past the end of a window of the table at a node when the window takes no more records.

    The windowed aggregations above say it; of several, the one that waits longest.

    Raises:
        TopologyException: A way up from the node meets no windowed aggregation.
    """
    node = graph.nodes[number]
    if isinstance(node.data, Process) and isinstance(node.data.operator, WindowedAggregate):
        return node.data.operator.closes_after_ms
    if not node.parents:
        raise TopologyException(
            "windows close only where there are windows: suppress until they do needs the table of a windowed "
            "aggregation, or one made of it"
        )
    return max(closes_after_ms(graph, parent) for parent in node.parents)
