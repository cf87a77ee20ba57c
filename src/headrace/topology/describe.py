"""The text of ``Topology.describe()``, as Java prints it. Source: ``InternalTopologyBuilder.describe`` (4.4).

Internal topics appear without the application id: the text of a topology is the same for every application.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.javaorder import TreeSet, hash_order
from headrace.topology.built import NodeSpec, ProcessorSpec, SourceSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class _Described:
    """A node with its neighbours. ``size`` counts the nodes below it, once for each way that leads to them."""

    __slots__ = ("name", "predecessors", "size", "spec", "successors")

    def __init__(self, spec: NodeSpec) -> None:
        self.name = spec.name
        self.spec = spec
        self.size = 1
        self.predecessors = TreeSet(_key)
        self.successors = TreeSet(_key)

    def grow(self, delta: int) -> None:
        self.size += delta
        for predecessor in self.predecessors:
            predecessor.grow(delta)


def _key(node: _Described) -> tuple[int, str]:
    """Larger sub-trees first, then by name."""
    return -node.size, node.name


def describe(
    groups: Sequence[Sequence[str]],
    specs: Mapping[str, NodeSpec],
    parents: Mapping[str, Sequence[str]],
    are_global: Sequence[bool],
) -> str:
    """The description of sub-topologies in their order.

    Args:
        groups: Per sub-topology its node names in the order in which they were added.
        specs: Every node by name.
        parents: Parents of every node, in the order in which they were given.
        are_global: Per sub-topology whether it keeps a global store.
    """
    lines = ["Topologies:\n "]
    for number, (names, is_global) in enumerate(zip(groups, are_global, strict=True)):
        lines.append(f"  Sub-topology: {number}{' for global store (will not generate tasks)' if is_global else ''}\n")
        lines.extend(_text(node) for node in _connect(names, specs, parents))
        if not is_global:
            lines.append("\n")
    return "".join(lines)


def _connect(
    names: Sequence[str], specs: Mapping[str, NodeSpec], parents: Mapping[str, Sequence[str]]
) -> list[_Described]:
    # Java walks a hash map that was filled from a hash set
    nodes = {name: _Described(specs[name]) for name in hash_order(hash_order(names))}
    for node in nodes.values():
        for parent in (nodes[name] for name in parents[node.name]):
            node.predecessors.add(parent)
            parent.successors.add(node)
            parent.grow(node.size)
    return sorted(nodes.values(), key=_key)


def _text(node: _Described) -> str:
    spec = node.spec
    successors = ", ".join(n.name for n in node.successors) or "none"
    predecessors = ", ".join(n.name for n in node.predecessors) or "none"
    if isinstance(spec, SourceSpec):
        topics = (
            f"[{', '.join(hash_order(spec.topics, copied=True))}]" if spec.pattern is None else spec.pattern.pattern
        )
        return f"    Source: {node.name} (topics: {topics})\n      --> {successors}\n"
    if isinstance(spec, ProcessorSpec):
        stores = ", ".join(hash_order(hash_order(spec.stores), copied=True))
        return f"    Processor: {node.name} (stores: [{stores}])\n      --> {successors}\n      <-- {predecessors}\n"
    topic = f"topic: {spec.topic}" if isinstance(spec.topic, str) else f"extractor class: {spec.topic}"
    return f"    Sink: {node.name} ({topic})\n      <-- {predecessors}\n"
