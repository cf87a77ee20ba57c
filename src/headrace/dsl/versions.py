"""Which tables are versioned, and who has to know: a pass of the graph.

A versioned table tells of late changes too, which are not of its latest row. Where only the latest counts (a join, a
grouping), they are left out; a filter cannot tell that nothing becomes of nothing. A table that is filtered or mapped
without a store of its own is as versioned as what it is made from. Source: ``InternalStreamsBuilder.
enableVersionedSemantics`` (4.4), KIP-914.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.dsl.graph import Process, Root, StreamToTable, TableJoin, TableSource
from headrace.errors import TopologyException
from headrace.processors.foreign_key import ForeignTableJoin, SubscriptionSend
from headrace.processors.suppress import TableSuppress
from headrace.processors.table_aggregate import TableRepartitionMap
from headrace.processors.tables import TableFilter

if TYPE_CHECKING:
    from headrace.dsl.graph import Graph


def know_versions(graph: Graph) -> None:
    """Tell the operators that treat late changes in their own way where their input is versioned.

    Raises:
        TopologyException: A versioned table is suppressed: of two versions in the buffer, only one would be left.
    """
    for node in graph.nodes.values():
        data = node.data
        if isinstance(data, TableJoin):
            node.data = replace(
                data,
                this=replace(data.this, versioned=is_versioned(graph, data.left)),
                other=replace(data.other, versioned=is_versioned(graph, data.right)),
            )
        elif isinstance(data, Process) and isinstance(
            data.operator, TableFilter | TableRepartitionMap | SubscriptionSend | ForeignTableJoin
        ):
            versioned = any(is_versioned(graph, parent) for parent in node.parents)
            node.data = replace(data, operator=replace(data.operator, versioned=versioned))
        elif (
            isinstance(data, Process)
            and isinstance(data.operator, TableSuppress)
            and all(is_versioned(graph, parent) for parent in node.parents)
        ):
            raise TopologyException(
                f"{node.name} suppresses a versioned table, or one computed from a versioned one without a store "
                "of its own; give the table that is suppressed a store without versions"
            )


def is_versioned(graph: Graph, number: int) -> bool:
    """Whether what leaves a node are the changes of a versioned table."""
    node = graph.nodes[number]
    match node.data:
        case Root():
            return False
        case TableSource(store=store) | StreamToTable(store=store):
            return store.versioned
        case TableJoin(store=store):
            return store is not None and store.versioned
        case Process(operator=TableSuppress()):
            return False
        case Process(versioned=bool(said)):
            return said
        case Process(store=store) if store is not None:
            return store.versioned
        case _:
            return all(is_versioned(graph, parent) for parent in node.parents)
