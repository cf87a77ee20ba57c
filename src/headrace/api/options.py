"""Option objects of the DSL: names, serdes and stores of one operation. Frozen; every ``with_…`` gives a new one.

Where Java's method is a Python keyword or shadows a common name it has a trailing underscore: ``Consumed.with_``,
``Materialized.as_``. Sources: ``org.apache.kafka.streams.kstream.{Named,Consumed,Produced,Grouped,Joined,Materialized,
Repartitioned,Branched}`` and ``org.apache.kafka.streams.AutoOffsetReset`` (4.4).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace.api.option_parts import HasName, HasSerdes, check_serde
from headrace.api.stores import StoreSupplier
from headrace.api.windows import duration_ms
from headrace.errors import TopologyException
from headrace.naming import validate_name
from headrace.resets import AutoOffsetReset

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.api.serde import Serde
    from headrace.api.stores import DslStoreSuppliers, StoreType
    from headrace.api.timestamps import TimestampExtractor
    from headrace.api.windows import Duration
    from headrace.partitioning import StreamPartitioner

K = TypeVar("K")
V = TypeVar("V")
VO = TypeVar("VO")
S = TypeVar("S")
KO = TypeVar("KO")
K2 = TypeVar("K2")
KO2 = TypeVar("KO2")
V2 = TypeVar("V2")
VO2 = TypeVar("VO2")
S2 = TypeVar("S2")
T = TypeVar("T")


def checked(option: T | None, kind: type[Any]) -> T | None:
    """The option as it was given. Options are easily given in each other's place, all the more as Java's order differs.

    Raises:
        TypeError: It is neither None nor of this kind.
    """
    if option is not None and not isinstance(option, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise TypeError(f"{article} {kind.__name__} is expected here, not {option!r}")
    return option


@dataclass(frozen=True, slots=True)
class Named(HasName):
    """The name of a node.

    Raises:
        TopologyException: The name is not allowed, see :func:`headrace.naming.validate_name`.
    """

    name: str

    @staticmethod
    def as_(name: str) -> Named:
        """A node's name."""
        return Named(name)


def name_of(named: Named | None) -> str | None:
    """The name that was given to a node.

    Raises:
        TypeError: It is not a :class:`Named`.
    """
    given = checked(named, Named)
    return None if given is None else given.name


@dataclass(frozen=True, slots=True)
class Consumed(HasName, HasSerdes[K, V]):
    """How a source topic is read. What is None comes from the configuration."""

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    timestamp_extractor: TimestampExtractor | None = None
    offset_reset: AutoOffsetReset | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        HasName.__post_init__(self)
        checked(self.offset_reset, AutoOffsetReset)

    @staticmethod
    def with_(
        key_serde: Serde[K2] | None = None,
        value_serde: Serde[V2] | None = None,
        timestamp_extractor: TimestampExtractor | None = None,
        offset_reset: AutoOffsetReset | None = None,
    ) -> Consumed[K2, V2]:
        """Serdes, extractor and reset policy in one."""
        return Consumed(key_serde, value_serde, timestamp_extractor, offset_reset)

    @staticmethod
    def as_(name: str) -> Consumed[Any, Any]:
        """Name of the node: of a stream's source; of a table's processor, whose source is then ``{name}-source``."""
        return Consumed(name=name)

    def with_timestamp_extractor(self, timestamp_extractor: TimestampExtractor | None) -> Consumed[K, V]:
        """Another timestamp extractor."""
        return replace(self, timestamp_extractor=timestamp_extractor)

    def with_offset_reset_policy(self, offset_reset: AutoOffsetReset | None) -> Consumed[K, V]:
        """Another reset policy."""
        return replace(self, offset_reset=offset_reset)


@dataclass(frozen=True, slots=True)
class Produced(HasName, HasSerdes[K, V]):
    """How a sink topic is written. Serdes of None are the stream's own, or else the configured defaults."""

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    partitioner: StreamPartitioner[K, V] | None = None
    name: str | None = None

    @staticmethod
    def with_(
        key_serde: Serde[K2] | None = None,
        value_serde: Serde[V2] | None = None,
        partitioner: StreamPartitioner[K2, V2] | None = None,
    ) -> Produced[K2, V2]:
        """Serdes and partitioner in one."""
        return Produced(key_serde, value_serde, partitioner)

    @staticmethod
    def as_(name: str) -> Produced[Any, Any]:
        """Name of the sink node."""
        return Produced(name=name)

    def with_stream_partitioner(self, partitioner: StreamPartitioner[K, V] | None) -> Produced[K, V]:
        """Another partitioner."""
        return replace(self, partitioner=partitioner)


@dataclass(frozen=True, slots=True)
class Grouped(HasName, HasSerdes[K, V]):
    """Serdes of a grouping, and the name of its repartition topic (where it makes one) and of its key-select node."""

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    name: str | None = None

    @staticmethod
    def with_(
        key_serde: Serde[K2] | None = None, value_serde: Serde[V2] | None = None, name: str | None = None
    ) -> Grouped[K2, V2]:
        """Serdes and name in one."""
        return Grouped(key_serde, value_serde, name)

    @staticmethod
    def as_(name: str) -> Grouped[Any, Any]:
        """Base name of the repartition topic: ``{application.id}-{name}-repartition``."""
        return Grouped(name=name)


@dataclass(frozen=True, slots=True)
class Joined(HasName, HasSerdes[K, V], Generic[K, V, VO]):
    """Serdes of a join of a stream with a table, the name of its node and of its repartition topic, its grace period.

    Raises:
        ValueError: The grace period is negative.
    """

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    other_value_serde: Serde[VO] | None = None
    name: str | None = None
    grace_ms: int | None = None

    def __post_init__(self) -> None:
        HasName.__post_init__(self)
        check_serde(self.other_value_serde)
        if self.grace_ms is not None and self.grace_ms < 0:
            raise ValueError(f"the grace period of a join must not be negative, but it is {self.grace_ms} ms")

    @staticmethod
    def with_(
        key_serde: Serde[K2] | None = None,
        value_serde: Serde[V2] | None = None,
        other_value_serde: Serde[VO2] | None = None,
        name: str | None = None,
        grace_period: Duration | None = None,
    ) -> Joined[K2, V2, VO2]:
        """Serdes, name and grace period in one."""
        grace_ms = None if grace_period is None else duration_ms(grace_period, "grace_period")
        return Joined(key_serde, value_serde, other_value_serde, name, grace_ms)

    @staticmethod
    def as_(name: str) -> Joined[Any, Any, Any]:
        """Name of the join node, and base name of the repartition topic."""
        return Joined(name=name)

    def with_other_value_serde(self, other_value_serde: Serde[VO] | None) -> Joined[K, V, VO]:
        """Another serde of the table's values."""
        return replace(self, other_value_serde=other_value_serde)

    def with_grace_period(self, grace_period: Duration | None) -> Joined[K, V, VO]:
        """Let the stream's records wait until stream time is ahead of them by this (versioned tables only).

        They are then joined in the order of their times, each with the row as of its time. One that comes later than
        that is joined at once. At most the table's history retention.
        """
        return replace(self, grace_ms=None if grace_period is None else duration_ms(grace_period, "grace_period"))


@dataclass(frozen=True, slots=True)
class Materialized(HasSerdes[K, V]):
    """The store of a table: name or supplier, serdes, body, caching, changelog.

    A store that is named can be queried by that name; one that is not has a generated name, which changes when
    operators are added before it.
    """

    store_name: str | None = None
    store_supplier: StoreSupplier | None = None
    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    store_type: StoreType | DslStoreSuppliers | None = None
    caching_enabled: bool = True
    logging_enabled: bool = True
    topic_config: Mapping[str, str] = field(default_factory=lambda: dict[str, str]())
    retention_ms: int | None = None

    def __post_init__(self) -> None:
        check_serde(self.key_serde)
        check_serde(self.value_serde)
        if self.store_name is not None:
            validate_name(self.store_name)
        if self.retention_ms is not None and self.retention_ms < 0:
            raise ValueError(f"the retention must not be negative, but it is {self.retention_ms} ms")
        if self.store_type is not None and self.store_supplier is not None:
            raise TopologyException(
                f"the store '{self.store_supplier.name}' has a supplier and a store type; give one of them"
            )

    @staticmethod
    def as_(name: str | StoreSupplier | StoreType | DslStoreSuppliers) -> Materialized[Any, Any]:
        """A store by its name, by a supplier that has a name, or without a name by what supplies its body."""
        if isinstance(name, str):
            return Materialized(store_name=name)
        if isinstance(name, StoreSupplier):
            return Materialized(store_name=name.name, store_supplier=name)
        return Materialized(store_type=name)

    @staticmethod
    def with_(key_serde: Serde[K2] | None = None, value_serde: Serde[V2] | None = None) -> Materialized[K2, V2]:
        """Serdes of a store without a name."""
        return Materialized(key_serde=key_serde, value_serde=value_serde)

    def with_store_type(self, store_type: StoreType | DslStoreSuppliers) -> Materialized[K, V]:
        """Another body, or what supplies it. Not together with a supplier of this one store.

        Raises:
            TopologyException: There is a supplier.
        """
        return replace(self, store_type=store_type)

    def with_retention(self, retention: Duration) -> Materialized[K, V]:
        """How long rows of a windowed table are kept; only together with windows, and not less than these need.

        Raises:
            ValueError: It is negative.
        """
        return replace(self, retention_ms=duration_ms(retention, "retention"))

    def with_caching_enabled(self) -> Materialized[K, V]:
        """Updates of a key within a commit interval go on as one (the default)."""
        return replace(self, caching_enabled=True)

    def with_caching_disabled(self) -> Materialized[K, V]:
        """Every update goes on at once."""
        return replace(self, caching_enabled=False)

    def with_logging_enabled(self, topic_config: Mapping[str, str] | None = None) -> Materialized[K, V]:
        """Write a changelog topic (the default), with these topic settings over the usual ones."""
        return replace(self, logging_enabled=True, topic_config=dict(topic_config or {}))

    def with_logging_disabled(self) -> Materialized[K, V]:
        """Write no changelog: the store's content is lost with its directory."""
        return replace(self, logging_enabled=False, topic_config={})


def is_unnamed(materialized: Materialized[Any, Any] | None) -> bool:
    """Whether a store was described, but without a name.

    Raises:
        TypeError: It is not a :class:`Materialized`.
    """
    given = checked(materialized, Materialized)
    return given is not None and given.store_name is None


@dataclass(frozen=True, slots=True)
class Repartitioned(HasName, HasSerdes[K, V]):
    """Name, serdes, partitioner and partition count of an explicit repartition.

    ``number_of_partitions`` None: as many as the sub-topology above has. The key serde does not fall back to the
    stream's own for the topic, only to the configured default (as in Java).
    """

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    partitioner: StreamPartitioner[K, V] | None = None
    number_of_partitions: int | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        HasName.__post_init__(self)
        if self.number_of_partitions is not None and self.number_of_partitions < 1:
            raise TopologyException(
                f"a repartition topic needs at least one partition, but {self.number_of_partitions} were asked for"
            )

    @staticmethod
    def with_(key_serde: Serde[K2] | None = None, value_serde: Serde[V2] | None = None) -> Repartitioned[K2, V2]:
        """Serdes of the topic."""
        return Repartitioned(key_serde, value_serde)

    @staticmethod
    def as_(name: str) -> Repartitioned[Any, Any]:
        """Base name of the topic: ``{application.id}-{name}-repartition``."""
        return Repartitioned(name=name)

    def with_stream_partitioner(self, partitioner: StreamPartitioner[K, V] | None) -> Repartitioned[K, V]:
        """Another partitioner."""
        return replace(self, partitioner=partitioner)

    def with_number_of_partitions(self, number_of_partitions: int) -> Repartitioned[K, V]:
        """An enforced partition count.

        Raises:
            TopologyException: It is less than 1.
        """
        return replace(self, number_of_partitions=number_of_partitions)


@dataclass(frozen=True, slots=True)
class TableJoined(HasName, Generic[K, KO]):
    """Name and partitioners of a join of two tables by a foreign key.

    ``partitioner`` is that of the left table, ``other_partitioner`` that of the right one; both are asked with None as
    the value, and give exactly one partition, or None for the usual one. Source: ``kstream.TableJoined`` (KIP-775).
    """

    partitioner: StreamPartitioner[K, None] | None = None
    other_partitioner: StreamPartitioner[KO, None] | None = None
    name: str | None = None

    @staticmethod
    def with_(
        partitioner: StreamPartitioner[K2, None] | None = None,
        other_partitioner: StreamPartitioner[KO2, None] | None = None,
    ) -> TableJoined[K2, KO2]:
        """Both partitioners."""
        return TableJoined(partitioner, other_partitioner)

    @staticmethod
    def as_(name: str) -> TableJoined[Any, Any]:
        """Base name of the nodes, of the store of subscriptions, and of both internal topics."""
        return TableJoined(name=name)

    def with_partitioner(self, partitioner: StreamPartitioner[K, None] | None) -> TableJoined[K, KO]:
        """Another partitioner of the left table."""
        return replace(self, partitioner=partitioner)

    def with_other_partitioner(self, other_partitioner: StreamPartitioner[KO, None] | None) -> TableJoined[K, KO]:
        """Another partitioner of the right table."""
        return replace(self, other_partitioner=other_partitioner)


@dataclass(frozen=True, slots=True)
class Branched(HasName, Generic[S]):
    """Name of a branch, and what becomes of its stream (``S``).

    With ``chain_function`` its result takes the branch's place in the map of branches (None: not in the map); with
    ``chain_consumer`` the branch is not in the map.
    """

    name: str | None = None
    chain_function: Callable[[S], S | None] | None = None
    chain_consumer: Callable[[S], None] | None = None

    @staticmethod
    def as_(name: str) -> Branched[Any]:
        """Name of the branch, behind the prefix that the split gives."""
        return Branched(name)

    @staticmethod
    def with_function(chain_function: Callable[[S2], S2 | None], name: str | None = None) -> Branched[S2]:
        """Go on with the branch, and put what the function gives into the map."""
        return Branched(name, chain_function=chain_function)

    @staticmethod
    def with_consumer(chain_consumer: Callable[[S2], None], name: str | None = None) -> Branched[S2]:
        """Hand the branch to a function, and keep it out of the map."""
        return Branched(name, chain_consumer=chain_consumer)
