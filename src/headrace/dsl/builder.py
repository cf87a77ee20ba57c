"""Where the DSL begins. Sources: ``org.apache.kafka.streams.StreamsBuilder``, ``InternalStreamsBuilder`` (4.4)."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headrace import naming
from headrace.api.handlers import ErrorPolicy
from headrace.api.options import Consumed, checked
from headrace.api.stores import DslStoreSuppliers, StoreType
from headrace.config.class_names import DSL_STORE_SUPPLIERS
from headrace.config.loading import make
from headrace.config.streams import StreamsConfig, settings_of
from headrace.dsl.global_table import GlobalKTable
from headrace.dsl.graph import ROOT, GlobalSource, StateStore, Store, StreamSource, TableSource
from headrace.dsl.inference import infer
from headrace.dsl.kstream import KStream
from headrace.dsl.ktable import KTable
from headrace.dsl.lowering import lower
from headrace.dsl.passes import run_passes
from headrace.dsl.place import Place, Scope
from headrace.dsl.stores import StoreDefaults
from headrace.errors import ConfigException, TopologyException
from headrace.processors import tables
from headrace.processors.papi import UserProcessor
from headrace.state.builders import StoreBuilder
from headrace.state.suppliers import built_in
from headrace.topology.topology import check_supplier

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping

    from headrace.api.options import Materialized
    from headrace.api.processor import Processor
    from headrace.topology import Topology

K = TypeVar("K")
V = TypeVar("V")

_SUPPLIERS_KEY: Final = "dsl.store.suppliers.class"
_FORMAT_KEY: Final = "dsl.store.format"
_DEFAULT_STORE_KEY: Final = "default.dsl.store"


class StreamsBuilder:
    """Describes an application's topology by the operations on its streams and tables.

    Args:
        config: Settings that shape the topology, by Kafka's dotted names: ``dsl.store.suppliers.class`` or
            ``default.dsl.store`` choose the body of stores for which no other is chosen (the former also takes a
            :class:`~headrace.api.stores.DslStoreSuppliers` or the name ``module:Class`` of one). Those given to
            :meth:`build` go over them. ``ensure.explicit.internal.resource.naming`` counts only here, as in Java: with
            it :meth:`build` refuses stores and internal topics whose names are generated. So does
            ``processor.wrapper.class``: a :class:`~headrace.api.processor.ProcessorWrapper` round every operator.

    Example:
        >>> from headrace.dsl import StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> builder.stream("lines").filter(lambda key, value: value is not None).to("kept")
        >>> print(builder.build().describe())  # doctest: +NORMALIZE_WHITESPACE
        Topologies:
           Sub-topology: 0
            Source: KSTREAM-SOURCE-0000000000 (topics: [lines])
              --> KSTREAM-FILTER-0000000001
            Processor: KSTREAM-FILTER-0000000001 (stores: [])
              --> KSTREAM-SINK-0000000002
              <-- KSTREAM-SOURCE-0000000000
            Sink: KSTREAM-SINK-0000000002 (topic: kept)
              <-- KSTREAM-FILTER-0000000001
    """

    def __init__(self, config: Mapping[str, Any] | StreamsConfig | None = None) -> None:
        self._config = settings_of(config)
        self._scope = Scope()

    def stream(
        self, topics: str | re.Pattern[str] | Iterable[str], consumed: Consumed[K, V] | None = None
    ) -> KStream[K, V]:
        """Read one or several topics as a stream.

        Reading the same topics twice gives two handles of one source.

        Args:
            topics: A topic's name, or several; or a compiled pattern: all topics of the cluster that match it as a
                whole, those that are made later too (looked for every ``metadata.max.age.ms``).
            consumed: Serdes, timestamp extractor, reset policy, name of the node.

        Raises:
            TopologyException: No topic was given.
        """
        names = (topics,) if isinstance(topics, str | re.Pattern) else tuple(dict.fromkeys(topics))
        if not names:
            raise TopologyException("a stream needs at least one topic")
        how: Consumed[K, V] = checked(consumed, Consumed) or Consumed()
        name = self._scope.node_name(how.name, naming.SOURCE)
        node = self._scope.graph.add((ROOT,), name, StreamSource(names, how))
        return KStream(self._place(node, name, name, how))

    def table(
        self,
        topic: str,
        consumed: Consumed[K, V] | None = None,
        materialized: Materialized[K, V] | None = None,
    ) -> KTable[K, V]:
        """Read a topic as a table: each record is the new row of its key, None deletes it, no key is dropped.

        Args:
            topic: Name of the topic.
            consumed: Serdes, also of the store; timestamp extractor, reset policy, name.
            materialized: The store. Without a name it is only made when the table's rows are looked up. Its serdes
                count only where ``consumed`` is not given.
        """
        scope = self._scope
        how, store = self._table_store(topic, consumed, materialized)
        source = scope.node_name(None if how.name is None else naming.table_source(how.name), naming.SOURCE)
        name = scope.node_name(how.name, naming.TABLE_SOURCE)
        is_named = store.materialized.store_name is not None
        node = scope.graph.add((ROOT,), name, TableSource(source, topic, how, store, stored=is_named))
        return KTable(self._place(node, name, source, how), store.materialized.store_name)

    def add_state_store(self, builder: StoreBuilder[Any, Any]) -> StreamsBuilder:
        """Add a store, to be named where a processor uses it. Gives this builder."""
        checked(builder, StoreBuilder)
        self._scope.graph.add((ROOT,), builder.name, StateStore(builder))
        return self

    def global_table(
        self,
        topic: str,
        consumed: Consumed[K, V] | None = None,
        materialized: Materialized[K, V] | None = None,
    ) -> GlobalKTable[K, V]:
        """Read a topic as a table that every instance holds whole: all partitions, complete before the start.

        Args:
            topic: Name of the topic.
            consumed: Serdes, also of the store; name. Records have their own times, whatever an extractor says.
            materialized: The store, which has no changelog: the topic is it. Its serdes count only where ``consumed``
                is not given.
        """
        scope = self._scope
        how, store = self._table_store(topic, consumed, materialized)
        if store.versioned:
            raise TopologyException(f"the global table of {topic} cannot be versioned: its store {store.name} is")
        source = scope.node_name(None if how.name is None else naming.table_source(how.name), naming.SOURCE)
        name = scope.node_name(how.name, naming.TABLE_SOURCE)
        operator = tables.TableSource(store.name)
        scope.graph.add((ROOT,), name, GlobalSource(source, topic, how, store, operator, reprocess=False))
        return GlobalKTable(store.name, is_named=store.materialized.store_name is not None)

    def add_global_store(
        self,
        builder: StoreBuilder[Any, Any],
        topic: str,
        consumed: Consumed[K, V] | None,
        supplier: Callable[[], Processor[K, V, Any, Any]],
    ) -> StreamsBuilder:
        """Add a store that every instance holds whole, kept by a processor that reads all partitions of a topic.

        Every processor may read it by its name, without being connected to it. A restore runs the topic's records
        through the processor, see :meth:`headrace.Topology.add_global_store`.

        Args:
            builder: The store; logging and caching are turned off.
            topic: Topic to read.
            consumed: Serdes of the topic, name.
            supplier: Makes the processor that writes the store. It cannot forward, schedule or commit.

        Raises:
            TopologyException: The supplier gave the same object twice.
        """
        scope = self._scope
        how: Consumed[K, V] = checked(consumed, Consumed) or Consumed()
        source = scope.node_name(None if how.name is None else naming.table_source(how.name), naming.SOURCE)
        name = scope.node_name(how.name, naming.TABLE_SOURCE)
        check_supplier(name, supplier)
        data = GlobalSource(source, topic, how, builder, UserProcessor(supplier), reprocess=True)
        scope.graph.add((ROOT,), name, data)
        return self

    @contextmanager
    def on_error(self, policy: ErrorPolicy) -> Generator[None, None, None]:
        """Have a policy decide, in place of the configured handlers, about errors of what is described in this block.

        It holds for every operation that is called in the block, on whatever handle: for users' functions, for what a
        source reads and a sink writes. Blocks may be nested; the inner one decides.

        Example:
            >>> from headrace import ErrorPolicy, StreamsBuilder
            >>> builder = StreamsBuilder()
            >>> lines = builder.stream("lines")
            >>> with builder.on_error(ErrorPolicy.resume(dead_letter_topic="bad-lines")):
            ...     numbers = lines.map_values(int)
            >>> numbers.to("numbers")

        Args:
            policy: What becomes of an error.
        """
        checked(policy, ErrorPolicy)
        graph = self._scope.graph
        before, graph.on_error = graph.on_error, policy
        try:
            yield
        finally:
            graph.on_error = before

    def build(self, config: Mapping[str, Any] | StreamsConfig | None = None) -> Topology:
        """The topology of all that was described.

        Args:
            config: Settings that shape the topology, see the class. ``topology.optimization`` counts only here, as in
                Java.

        Raises:
            TopologyException: Two nodes or stores have one name, a topic is read by two sources, or a store that a
                processor names is missing.
            ConfigException: A setting's value is not allowed.
        """
        graph = self._scope.graph.copy()
        if str(self._config.get("ensure.explicit.internal.resource.naming", False)).lower() == "true":
            self._scope.unnamed.refuse()
        given = settings_of(config)
        run_passes(graph, str(given.get("topology.optimization") or "none"))
        infer(graph)
        # as in Java a wrapper counts only when it was given when the builder was made
        return lower(graph, _store_defaults({**self._config, **given}), self._config)

    def _table_store(
        self, topic: str, consumed: Consumed[K, V] | None, materialized: Materialized[K, V] | None
    ) -> tuple[Consumed[K, V], Store]:
        how: Consumed[K, V] = checked(consumed, Consumed) or Consumed()
        if materialized is not None:
            if consumed is None:
                how = Consumed(materialized.key_serde, materialized.value_serde)
            materialized = materialized.with_key_serde(how.key_serde).with_value_serde(how.value_serde)
        return how, self._scope.store(materialized, f"{topic}-", how.key_serde, how.value_serde)

    def _place(self, node: int, name: str, source: str, how: Consumed[Any, Any]) -> Place:
        return Place(
            self._scope, node, name, how.key_serde, how.value_serde, sources=frozenset({source}), repartition=False
        )


def _store_defaults(config: Mapping[str, Any]) -> StoreDefaults:
    name = str(config.get(_FORMAT_KEY, "DEFAULT")).upper()
    if name not in {"DEFAULT", "HEADERS"}:
        raise ConfigException(f"{_FORMAT_KEY}={config[_FORMAT_KEY]} is not allowed; it must be DEFAULT or HEADERS")
    return StoreDefaults(_default_suppliers(config), with_headers=name == "HEADERS")


def _default_suppliers(config: Mapping[str, Any]) -> DslStoreSuppliers:
    chosen = config.get(_SUPPLIERS_KEY)
    if chosen is not None:
        if isinstance(chosen, StoreType):
            return built_in(chosen)
        suppliers: object = make(chosen, _SUPPLIERS_KEY, DSL_STORE_SUPPLIERS)
        if not isinstance(suppliers, DslStoreSuppliers):
            raise ConfigException(
                f"{_SUPPLIERS_KEY}={chosen} is a {type(suppliers).__name__}, which is no DslStoreSuppliers"
            )
        return suppliers
    name = config.get(_DEFAULT_STORE_KEY, StoreType.ROCKS_DB)
    for store_type in StoreType:
        if name in {store_type, store_type.value}:
            return built_in(store_type)
    raise ConfigException(
        f"{_DEFAULT_STORE_KEY}={name} is not allowed; it must be one of {', '.join(t.value for t in StoreType)}"
    )
