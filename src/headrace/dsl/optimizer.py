"""The optimizations that a user may ask for with ``topology.optimization``: rewrites that save internal topics.

They change which internal topics and sub-topologies there are, so an application cannot be switched to them, or back,
without a reset. Source: ``InternalStreamsBuilder.{reuseKTableSourceTopics,mergeRepartitionTopics}`` (4.4).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.dsl.graph import Node, Process, Repartition, TableSource
from headrace.errors import StreamsException
from headrace.naming import repartition_nodes
from headrace.processors.stateless import (
    StreamFlatMap,
    StreamFlatMapValues,
    StreamMap,
    StreamMapValues,
    StreamMerge,
    StreamSelectKey,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.dsl.graph import Graph

_CHANGES_KEY = (StreamSelectKey, StreamMap, StreamFlatMap)
_CHANGES_VALUE = (StreamMapValues, StreamFlatMapValues)


def reuse_source_topics(graph: Graph) -> None:
    """``reuse.ktable.source.topics``: the store of a table that is read from a topic is restored from that topic."""
    for node in graph.nodes.values():
        if isinstance(node.data, TableSource):
            node.data = replace(node.data, reuse_topic=True)


def merge_repartition_topics(graph: Graph) -> None:
    """``merge.repartition.topics``: what follows one change of the key goes through one repartition topic.

    The topic moves right behind the node that changes the key, and has the name of the first one that it replaces.
    What lies between the two now runs behind the topic. Nothing is merged across a change of the values: the topic's
    serdes would not fit.

    Raises:
        StreamsException: Two of the topics lie behind one node that is itself below the change of the key. Java fails
            likewise.
    """
    for changer, repartitions in _by_changer(graph).items():
        if repartitions:
            _merge(graph, changer, repartitions)


def _by_changer(graph: Graph) -> dict[int, list[int]]:
    """Repartitions that may move up, by the node they can move to: one that changes the key, or a merge of such."""
    found: dict[int, list[int]] = {}
    for number, node in graph.nodes.items():
        if _operator_is(node, _CHANGES_KEY):
            found[number] = []
        elif isinstance(node.data, Repartition) and not node.data.explicit:
            changer = _find(graph, number, lambda n: _operator_is(graph.nodes[n], _CHANGES_KEY + _CHANGES_VALUE))
            if changer is not None and changer == _find(
                graph, number, lambda n: _operator_is(graph.nodes[n], _CHANGES_KEY)
            ):
                found[changer].append(number)
    return _by_merge(graph, found)


def _by_merge(graph: Graph, found: Mapping[int, list[int]]) -> dict[int, list[int]]:
    """Where every repartition of a change of the key lies below a merge, it can only move up to the merge."""
    result = dict(found)
    replaced: set[int] = set()
    for merge, node in graph.nodes.items():
        if not _operator_is(node, (StreamMerge,)):
            continue
        changers = [
            changer
            for changer, repartitions in found.items()
            if all(_find_below(graph, repartition, merge) is not None for repartition in repartitions)
            and _find_below(graph, merge, changer) is not None
        ]
        replaced.update(changers)
        result[merge] = list(dict.fromkeys(number for changer in changers for number in found[changer]))
    return {number: repartitions for number, repartitions in result.items() if number not in replaced}


def _merge(graph: Graph, changer: int, repartitions: list[int]) -> None:
    old = [graph.nodes[number].data for number in repartitions]
    first = old[0]
    assert isinstance(first, Repartition)
    key_serdes = (data.key_serde for data in old if isinstance(data, Repartition) and data.key_serde is not None)
    value_serdes = (data.value_serde for data in old if isinstance(data, Repartition) and data.value_serde is not None)
    names = repartition_nodes(first.names.topic)
    data = Repartition(names, next(key_serdes, None), next(value_serdes, None))
    merged = graph.insert(names.source, data, graph.nodes[changer].priority)
    for number in repartitions:
        below = _find_below(graph, number, changer)
        if below is None:
            raise StreamsException(
                f"the repartition topics below {graph.nodes[changer].name} cannot be merged: more than one of them "
                f"lies behind one node below it (that of {graph.nodes[number].name} is the second). Group or join "
                "right behind the change of the key, or leave merge.repartition.topics out of topology.optimization"
            )
        graph.attach(merged, below)
        graph.detach(changer, below)
        node = graph.nodes[number]
        for child in list(node.children):
            for parent in node.parents:
                graph.attach(parent, child)
            graph.detach(number, child)
        for parent in list(node.parents):
            graph.detach(parent, number)
        graph.rename_copartitioned(node.name, names.source)
    graph.attach(changer, merged)


def _operator_is(node: Node, kinds: tuple[type, ...]) -> bool:
    return isinstance(node.data, Process) and isinstance(node.data.operator, kinds)


def _find_below(graph: Graph, number: int, parent: int) -> int | None:
    """The node on the way up from ``number`` that lies right below ``parent``."""
    return _find(graph, number, lambda n: parent in graph.nodes[n].parents)


def _find(graph: Graph, number: int, wanted: Callable[[int], bool]) -> int | None:
    """The first node on the way up from ``number``, itself included; with several ways, on the last (as in Java)."""
    if wanted(number):
        return number
    found = None
    for parent in graph.nodes[number].parents:
        if wanted(parent):
            return parent
        found = _find(graph, parent, wanted)
    return found
