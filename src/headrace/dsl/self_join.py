"""The optimization ``single.store.self.join``: a stream joined with itself keeps its records once.

Source: ``InternalStreamsBuilder.rewriteSingleStoreSelfJoin`` (4.4).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.dsl.graph import StreamStreamJoin

if TYPE_CHECKING:
    from headrace.dsl.graph import Graph


def single_store_self_join(graph: Graph) -> None:
    """A join of two streams that come from one node becomes one operator over the left side's store."""
    for node in graph.nodes.values():
        data = node.data
        if not isinstance(data, StreamStreamJoin) or len(node.parents) != 1:
            continue
        (parent,) = node.parents
        for child in list(graph.nodes[parent].children):
            if graph.nodes[child].name == data.names.other_windowed:
                graph.detach(parent, child)
        node.data = replace(data, single_store=True)
