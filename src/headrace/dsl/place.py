"""Where a handle of the DSL stands in the logical graph, and what follows it by default."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headrace.api.options import Materialized
from headrace.dsl.graph import Graph, NodeData, Process, Repartition, Store
from headrace.naming import NameProvider, RepartitionNames, validate_name

if TYPE_CHECKING:
    from headrace.api.engine import Operator
    from headrace.api.options import Named
    from headrace.api.serde import Serde
    from headrace.partitioning import StreamPartitioner


class Scope:
    """What the handles of one builder share: the graph and the counter of names."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.names = NameProvider()

    def node_name(self, name: str | None, prefix: str) -> str:
        """The user's name, or a generated one. A number is taken in both cases, as in Java."""
        generated = self.names.processor(prefix)
        return generated if name is None else validate_name(name)

    def store(
        self,
        materialized: Materialized[Any, Any] | None,
        prefix: str,
        key_serde: Serde[Any] | None,
        value_serde: Serde[Any] | None,
    ) -> Store:
        """A store under the user's name or a generated one; the serdes count where the user gave none."""
        chosen: Materialized[Any, Any] = materialized or Materialized()
        return Store(
            self.names.store(prefix) if chosen.store_name is None else chosen.store_name,
            chosen,
            chosen.key_serde or key_serde,
            chosen.value_serde or value_serde,
        )


@dataclass(frozen=True, slots=True)
class Place:
    """A node of the graph with what a handle knows of the records that leave it.

    ``serdes`` of None are the configured defaults. ``sources`` are the source nodes of the sub-topology so far.
    ``repartition``: the key may have changed, so that records of one key may be in several partitions; the next
    operation that needs them together goes through a repartition topic.
    """

    scope: Scope
    node: int
    name: str
    key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None
    sources: frozenset[str]
    repartition: bool

    def add(self, name: str, data: NodeData, *, takes_null_keys: bool = False) -> Place:
        """A node below this one; its place has the same serdes."""
        number = self.scope.graph.add((self.node,), name, data, takes_null_keys=takes_null_keys)
        return replace(self, node=number, name=name)

    def add_operator(self, named: Named | None, prefix: str, operator: Operator) -> Place:
        """An operator below this node, under the user's name or a generated one."""
        name = self.scope.node_name(None if named is None else named.name, prefix)
        return self.add(name, Process(operator))

    def new_key(self) -> Place:
        """The same place where the key has another type and value."""
        return replace(self, key_serde=None, repartition=True)

    def new_value(self) -> Place:
        """The same place where the value has another type."""
        return replace(self, value_serde=None)

    def through_topic(
        self,
        names: RepartitionNames,
        key_serde: Serde[Any] | None,
        value_serde: Serde[Any] | None,
        partitioner: StreamPartitioner[Any, Any] | None = None,
        partitions: int | None = None,
        *,
        explicit: bool = False,
    ) -> Place:
        """The place behind a repartition topic with these serdes."""
        data = Repartition(names, key_serde, value_serde, partitioner, partitions, explicit=explicit)
        place = self.add(names.source, data)
        return replace(
            place, key_serde=key_serde, value_serde=value_serde, sources=frozenset({names.source}), repartition=False
        )
