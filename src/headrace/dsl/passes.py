"""Rewrites of the logical graph before it is lowered, each under a name, in this order.

Source: ``InternalStreamsBuilder.{mergeDuplicateSourceNodes,optimizeTopology}`` (4.4).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from headrace.dsl.graph import ROOT, Graph, Repartition, StreamSource
from headrace.dsl.optimizer import merge_repartition_topics, reuse_source_topics
from headrace.dsl.self_join import single_store_self_join
from headrace.dsl.versions import know_versions
from headrace.errors import ConfigException, TopologyException

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

Rewrite: TypeAlias = "Callable[[Graph], None]"


def merge_duplicate_sources(graph: Graph) -> None:
    """A topic that is read as a stream more than once gets one source node: the first one.

    Raises:
        TopologyException: The topics of two sources overlap without being equal, or their reset policies differ.
    """
    readers: dict[str | re.Pattern[str], int] = {}
    for number in list(graph.nodes[ROOT].children):
        data = graph.nodes[number].data
        if not isinstance(data, StreamSource):
            continue
        # compiled patterns are equal when their texts and flags are
        known = {readers.setdefault(topic, number) for topic in data.topics} - {number}
        for main in known:
            main_data = graph.nodes[main].data
            assert isinstance(main_data, StreamSource)
            if set(main_data.topics) != set(data.topics):
                raise TopologyException(
                    f"two streams read overlapping but not equal topics: {_listed(main_data)} and "
                    f"{_listed(data)}. Read each topic as a stream of its own and merge them"
                )
            if main_data.consumed.offset_reset != data.consumed.offset_reset:
                raise TopologyException(
                    f"two streams of the topics {_listed(data)} have different offset reset policies"
                )
            for child in list(graph.nodes[number].children):
                graph.detach(number, child)
                graph.attach(main, child)
            graph.detach(ROOT, number)


def _listed(source: StreamSource) -> str:
    return ", ".join(sorted(topic if isinstance(topic, str) else topic.pattern for topic in source.topics))


def let_null_keys_through(graph: Graph) -> None:
    """A repartition above a join that takes records without a key must not filter them out (KIP-962)."""
    above: set[int] = set()
    to_visit = [number for number, node in graph.nodes.items() if node.takes_null_keys]
    while to_visit:
        for parent in graph.nodes[to_visit.pop()].parents:
            if parent not in above:
                above.add(parent)
                to_visit.append(parent)
    for number in above:
        node = graph.nodes[number]
        if isinstance(node.data, Repartition):
            node.data = replace(node.data, null_keys=True)


PASSES: Final[tuple[tuple[str, Rewrite], ...]] = (
    ("merge.duplicate.sources", merge_duplicate_sources),
    ("reuse.ktable.source.topics", reuse_source_topics),
    ("merge.repartition.topics", merge_repartition_topics),
    ("single.store.self.join", single_store_self_join),
    ("let.null.keys.through", let_null_keys_through),
    ("know.versions", know_versions),
)
_ALWAYS: Final = frozenset({"merge.duplicate.sources", "let.null.keys.through", "know.versions"})


def run_passes(graph: Graph, optimization: str) -> None:
    """Rewrite a graph.

    Args:
        graph: The graph; it is changed.
        optimization: ``topology.optimization``: ``none``, ``all``, or names with commas between them.

    Raises:
        ConfigException: ``optimization`` is something else.
        TopologyException: The graph cannot become a topology.
    """
    asked_for = frozenset(name.strip() for name in optimization.split(","))
    unknown = asked_for - {name for name, _ in PASSES if name not in _ALWAYS} - {"none", "all"}
    if unknown or (len(asked_for) > 1 and not asked_for.isdisjoint({"none", "all"})):
        raise ConfigException(
            f"topology.optimization={optimization} is not allowed; it must be none, all, or a list of "
            f"{', '.join(name for name, _ in PASSES if name not in _ALWAYS)}"
        )
    for name, rewrite in PASSES:
        if name in _ALWAYS or name in asked_for or "all" in asked_for:
            rewrite(graph)
