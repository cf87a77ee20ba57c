"""Where a handle of the DSL stands in the logical graph, and what follows it by default."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headrace.api.options import Materialized, checked, name_of
from headrace.dsl.graph import Graph, NodeData, Process, Repartition, Store
from headrace.errors import TopologyException
from headrace.naming import NameProvider, RepartitionNames, validate_name

if TYPE_CHECKING:
    from headrace.api.engine import Operator
    from headrace.api.options import Named
    from headrace.api.serde import Serde
    from headrace.partitioning import StreamPartitioner


class Unnamed:
    """Stores and topics whose generated names change when operations are added before them (KIP-1111).

    As in Java, also those count that are not made after all because nobody needs the table's rows, but not the parts of
    a join by a foreign key.
    """

    def __init__(self) -> None:
        self._stores: list[str] = []
        self._changelogs: list[str] = []
        self._repartitions: list[str] = []

    def add_store(self, name: str, *, logged: bool) -> None:
        """A store with a generated name."""
        self._stores.append(name)
        if logged:
            self.add_changelog(name)

    def add_changelog(self, store: str) -> None:
        """The changelog of something that is no store for users, with a generated name."""
        self._changelogs.append(f"{store}-changelog")

    def add_repartition(self, topic: str) -> None:
        """A repartition topic with a generated name."""
        self._repartitions.append(topic)

    def refuse(self) -> None:
        """Refuse what was added.

        Raises:
            TopologyException: Something was; the message names all of it.
        """
        kinds = {
            "state stores": self._stores,
            "changelog topics": self._changelogs,
            "repartition topics": self._repartitions,
        }
        listed = [f"{kind}: {', '.join(dict.fromkeys(names))}" for kind, names in kinds.items() if names]
        if listed:
            raise TopologyException(
                "ensure.explicit.internal.resource.naming is true, but these have generated names, which change when "
                f"the topology does ({'; '.join(listed)}). Name stores with Materialized.as_, repartition topics with "
                "Grouped.as_, Joined.as_ or Repartitioned.as_"
            )


class Scope:
    """What the handles of one builder share: the graph, the counter of names, what has been named by it."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.names = NameProvider()
        self.unnamed = Unnamed()

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
        chosen: Materialized[Any, Any] = checked(materialized, Materialized) or Materialized()
        name = chosen.store_name
        if name is None:
            name = self.names.store(prefix)
            self.unnamed.add_store(name, logged=chosen.logging_enabled)
        return Store(
            name,
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

    def check_same_builder(self, other: Place) -> None:
        """Check that another handle's place is in the same graph, so that both can be put together.

        Raises:
            TopologyException: It was made with another builder.
        """
        if self.scope is not other.scope:
            raise TopologyException(
                f"{self.name} and {other.name} come from two StreamsBuilders: what is joined, merged or grouped "
                "together is made with one"
            )

    def add(self, name: str, data: NodeData, *, takes_null_keys: bool = False) -> Place:
        """A node below this one; its place has the same serdes."""
        number = self.scope.graph.add((self.node,), name, data, takes_null_keys=takes_null_keys)
        return replace(self, node=number, name=name)

    def add_operator(self, named: Named | None, prefix: str, operator: Operator) -> Place:
        """An operator below this node, under the user's name or a generated one."""
        name = self.scope.node_name(name_of(named), prefix)
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
        named: bool,
        explicit: bool = False,
    ) -> Place:
        """The place behind a repartition topic with these serdes.

        ``named``: the user chose the topic's name. ``explicit``: the user asked for just this topic.
        """
        if not named:
            self.scope.unnamed.add_repartition(names.topic)
        data = Repartition(names, key_serde, value_serde, partitioner, partitions, explicit=explicit)
        place = self.add(names.source, data)
        return replace(
            place, key_serde=key_serde, value_serde=value_serde, sources=frozenset({names.source}), repartition=False
        )
