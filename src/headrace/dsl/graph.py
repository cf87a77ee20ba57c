"""The logical graph that the DSL records: what was asked for, before it is lowered to nodes, topics and stores.

Nodes hold frozen data; an operation that learns something later (a split that gets one more branch, a table that turns
out to be looked up) gives its node new data. The graph is copied before it is rewritten and lowered, so that a builder
may be built more than once. Source: ``kstream.internals.graph`` (4.4).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from headrace.api.stores import VersionedBytesStoreSupplier
from headrace.dsl.stores import KEY_VALUE

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    from headrace.api.engine import Operator
    from headrace.api.handlers import ErrorPolicy
    from headrace.api.options import Consumed, Materialized
    from headrace.api.serde import Serde
    from headrace.api.timestamps import TimestampExtractor
    from headrace.dsl.stores import StoreShape
    from headrace.naming import RepartitionNames, StreamJoinNames
    from headrace.partitioning import StreamPartitioner
    from headrace.processors.table_joins import TableJoinMerge, TableJoinSide
    from headrace.state.builders import AnyStoreBuilder
    from headrace.topology.built import TopicNameExtractor

ROOT: Final = 0


@dataclass(frozen=True, slots=True)
class Store:
    """A store of the DSL: what the user said, under its final name and with the serdes that it inherits."""

    name: str
    materialized: Materialized[Any, Any]
    key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None
    shape: StoreShape = KEY_VALUE

    def __post_init__(self) -> None:
        # where the user says it, not when the topology is written
        self.shape.check(self)

    @property
    def versioned(self) -> bool:
        """Whether it keeps former rows too."""
        return isinstance(self.materialized.store_supplier, VersionedBytesStoreSupplier)


@dataclass(frozen=True, slots=True)
class Root:
    """Where every source hangs."""


@dataclass(frozen=True, slots=True)
class StreamSource:
    """Topics read as a stream: by their names, or by one pattern."""

    topics: tuple[str | re.Pattern[str], ...]
    consumed: Consumed[Any, Any]


@dataclass(frozen=True, slots=True)
class TableSource:
    """A topic read as a table. ``stored`` once its rows are needed."""

    source_name: str
    topic: str
    consumed: Consumed[Any, Any]
    store: Store
    stored: bool
    send_old_values: bool = False
    reuse_topic: bool = False
    """The topic serves as the store's changelog."""


@dataclass(frozen=True, slots=True)
class GlobalSource:
    """A topic that fills a global store: its own rows, or what a processor makes of them."""

    source_name: str
    topic: str
    consumed: Consumed[Any, Any]
    store: Store | AnyStoreBuilder
    operator: Operator
    reprocess: bool


@dataclass(frozen=True, slots=True)
class StreamToTable:
    """A stream that becomes a table. ``stored`` once its rows are needed."""

    store: Store
    stored: bool
    send_old_values: bool = False


@dataclass(frozen=True, slots=True)
class Process:
    """An operator, with a store of its own or the names of stores that exist, and those that its supplier brings.

    ``inputs`` are the nodes of the tables that it computes its rows and old values from, when it makes a table and
    does not keep them itself. ``versioned``: whether its output is a versioned table's; None where that follows from
    its parents.
    """

    operator: Operator
    store: Store | None = None
    store_names: tuple[str, ...] = ()
    inputs: tuple[int, ...] = ()
    versioned: bool | None = None
    brought: tuple[AnyStoreBuilder, ...] = ()


@dataclass(frozen=True, slots=True)
class TableJoin:
    """A join of two tables by their key: a node below each, and one with the graph node's name where both meet."""

    left: int
    right: int
    this_name: str
    other_name: str
    this: TableJoinSide
    other: TableJoinSide
    merge: TableJoinMerge
    store: Store | None


@dataclass(frozen=True, slots=True)
class Split:
    """Predicates of branches; None is the default branch."""

    predicates: tuple[Callable[[Any, Any], bool] | None, ...]
    child_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Repartition:
    """A way through an internal topic. ``null_keys``: records without a key go through it too.

    ``explicit``: the user asked for just this topic, so it is not merged with others.
    """

    names: RepartitionNames
    key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None
    partitioner: StreamPartitioner[Any, Any] | None = None
    partitions: int | None = None
    null_keys: bool = False
    explicit: bool = False


@dataclass(frozen=True, slots=True)
class ThroughTopic:
    """A way through an internal topic whose values are this library's own: parts of tables' changes and joins."""

    topic: str
    sink_name: str
    source_name: str
    key_serde: Serde[Any] | None
    value_serde: Serde[Any]
    partitioner: StreamPartitioner[Any, Any] | None = None
    timestamp_extractor: TimestampExtractor | None = None


@dataclass(frozen=True, slots=True)
class Sink:
    """A topic that is written, or a function that chooses one for each record."""

    topic: str | TopicNameExtractor
    key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None
    partitioner: StreamPartitioner[Any, Any] | None


@dataclass(frozen=True, slots=True)
class StateStore:
    """A store for processors, or for several operators."""

    store: AnyStoreBuilder | Store


@dataclass(frozen=True, slots=True)
class StreamStreamJoin:
    """A join of two streams: below the nodes that keep each side's records, one node for each side, and a merge.

    Its node in the graph has the merge's name. ``waiting`` is where records wait that have met none, in a left or outer
    join. ``self_join`` takes the place of all, over this side's store alone, when ``single_store``.
    """

    names: StreamJoinNames
    this_side: Operator
    other_side: Operator
    self_join: Operator
    this_store: Store
    other_store: Store
    waiting: Store | None
    single_store: bool = False


NodeData: TypeAlias = (
    Root
    | StreamSource
    | TableSource
    | GlobalSource
    | StreamToTable
    | Process
    | TableJoin
    | Split
    | Repartition
    | ThroughTopic
    | Sink
    | StateStore
    | StreamStreamJoin
)


@dataclass(slots=True)
class Node:
    """A place in the graph. Edges are in the order in which they were made."""

    name: str
    data: NodeData
    priority: int
    takes_null_keys: bool = False
    """A left join, which gives a result for a record without a key (KIP-962)."""
    on_error: ErrorPolicy | None = None
    """What becomes of the errors of all that is made of it."""
    parents: list[int] = field(default_factory=lambda: list[int]())
    children: list[int] = field(default_factory=lambda: list[int]())


class Graph:
    """Nodes by number. Number 0 is the root."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {ROOT: Node("root", Root(), -1)}
        self.on_error: ErrorPolicy | None = None
        """That of nodes added from now on."""
        self.copartitioned: list[frozenset[str]] = []
        """Groups of source nodes whose records are joined."""
        self._edges = 0

    def add(self, parents: tuple[int, ...], name: str, data: NodeData, *, takes_null_keys: bool = False) -> int:
        """A new node below its parents; gives its number."""
        number = len(self.nodes)
        self.nodes[number] = Node(name, data, 0, takes_null_keys, self.on_error)
        for parent in parents:
            self.connect(parent, number)
        return number

    def insert(self, name: str, data: NodeData, priority: int) -> int:
        """A new node without edges, lowered at the place of another in the order; gives its number."""
        number = len(self.nodes)
        self.nodes[number] = Node(name, data, priority)
        return number

    def connect(self, parent: int, child: int) -> None:
        """An edge. As in Java, it moves the child behind all that was made before in the order of lowering."""
        self.attach(parent, child)
        self.nodes[child].priority = self._edges
        self._edges += 1

    def attach(self, parent: int, child: int) -> None:
        """An edge that leaves the order as it is."""
        if child not in self.nodes[parent].children:
            self.nodes[parent].children.append(child)
            self.nodes[child].parents.append(parent)

    def detach(self, parent: int, child: int) -> None:
        """Remove an edge."""
        self.nodes[parent].children.remove(child)
        self.nodes[child].parents.remove(parent)

    def rename_copartitioned(self, old: str, new: str) -> None:
        """A source that is joined has been replaced."""
        self.copartitioned = [frozenset(new if name == old else name for name in group) for group in self.copartitioned]

    def copy(self) -> Graph:
        """The same graph, to be rewritten apart from this one."""
        other = Graph()
        other.nodes = {
            number: replace(n, parents=list(n.parents), children=list(n.children)) for number, n in self.nodes.items()
        }
        other.copartitioned = list(self.copartitioned)
        other._edges = self._edges
        return other
