"""Records a join of two tables by a foreign key. Source: ``kstream.internals.KTableImpl.doJoinOnForeignKey`` (4.4)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headrace import naming
from headrace.api.options import Materialized, TableJoined, checked
from headrace.dsl import tables
from headrace.dsl.graph import ROOT, Process, StateStore, Store, StreamToTable, ThroughTopic
from headrace.dsl.stores import SubscriptionShape
from headrace.processors.foreign_key import (
    ForeignTableJoin,
    Keys,
    ResponseJoin,
    SubscriptionJoin,
    SubscriptionReceive,
    SubscriptionSend,
)
from headrace.serdes import Serdes
from headrace.serdes.foreign_key import answer_serde, subscription_serde

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.dsl.place import Place
    from headrace.partitioning import StreamPartitioner
    from headrace.serdes.foreign_key import Answer


def join_on_foreign_key(
    left: Place,
    right: Place,
    extractor: Callable[[Any, Any], Any],
    joiner: Callable[[Any, Any], Any],
    table_joined: TableJoined[Any, Any] | None,
    materialized: Materialized[Any, Any] | None,
    *,
    keep_left: bool,
) -> tuple[Place, Store]:
    """Add the nodes of the join; gives where the result stands and its store, which is made when its rows are needed.

    Args:
        left: The table whose rows refer to the other one's.
        right: The other table.
        extractor: ``(key, value) -> foreign key`` of a left row.
        joiner: ``(value, right value) -> value``.
        table_joined: Name and partitioners.
        materialized: The store of the result.
        keep_left: A left join.
    """
    left.check_same_builder(right)
    scope, graph = left.scope, left.scope.graph
    how: TableJoined[Any, Any] = checked(table_joined, TableJoined) or TableJoined()
    # the right one's old values are not used, but who asks for them makes a table keep its rows
    tables.send_old_values(graph, right.node, force=True)
    tables.send_old_values(graph, left.node, force=True)
    names = naming.foreign_key_names(scope.names, how.name)
    keys = Keys(names.subscription_topic, left.key_serde, right.key_serde)
    subscriptions = subscription_serde(names.subscription_topic, left.key_serde)
    send = left.add(names.send, Process(SubscriptionSend(extractor, keys, left.value_serde, keep_left)))
    received = send.add(
        names.subscription_source,
        ThroughTopic(
            names.subscription_topic,
            names.subscription_sink,
            names.subscription_source,
            right.key_serde,
            subscriptions,
            None if how.other_partitioner is None else _KeyPartitioner(how.other_partitioner),
        ),
    )
    scope.graph.copartitioned.append(right.sources | {names.subscription_source})
    kept = Store(names.store, Materialized(caching_enabled=False), Serdes.Bytes(), subscriptions, SubscriptionShape())
    graph.add((ROOT,), names.store, StateStore(kept))
    received = received.add(names.receive, Process(SubscriptionReceive(names.store, keys), store_names=(names.store,)))
    right_rows = tables.value_getter(graph, right.node)
    answered = received.add(names.join, Process(SubscriptionJoin(right_rows), store_names=right_rows.store_names))
    changed = right.add(names.foreign, Process(ForeignTableJoin(names.store, keys), store_names=(names.store,)))
    responses = ThroughTopic(
        names.response_topic,
        names.response_sink,
        names.response_source,
        left.key_serde,
        answer_serde(right.value_serde),
        _AnswerPartitioner() if how.partitioner is None else _KeyPartitioner(how.partitioner),
    )
    response = graph.add((answered.node, changed.node), names.response_source, responses)
    sources = left.sources | {names.response_source}
    scope.graph.copartitioned.append(sources)
    left_rows = tables.value_getter(graph, left.node)
    resolver = ResponseJoin(left_rows, keys, left.value_serde, joiner, keep_left)
    at = replace(left, node=response, name=names.response_source, sources=sources)
    at = at.add(names.resolver, Process(resolver, store_names=left_rows.store_names))
    store = scope.store(materialized, naming.FK_OUTPUT, left.key_serde, None)
    is_named = store.materialized.store_name is not None
    at = at.add(names.result, StreamToTable(store, stored=is_named))
    return replace(at, value_serde=store.value_serde), store


@dataclass(frozen=True, slots=True)
class _AnswerPartitioner:
    """Where the left row lies; by the key where an old member did not say so."""

    def partitions(self, topic: str, key: Any, value: Answer | None, num_partitions: int) -> frozenset[int] | None:
        partition = None if value is None else value.primary_partition
        return None if partition is None else frozenset((partition,))


@dataclass(frozen=True, slots=True)
class _KeyPartitioner:
    """A table's own partitioner, which knows nothing of the values that are sent between the tables."""

    partitioner: StreamPartitioner[Any, None]

    def partitions(self, topic: str, key: Any, value: Any, num_partitions: int) -> frozenset[int] | None:
        chosen = self.partitioner.partitions(topic, key, None, num_partitions)
        if chosen is not None and len(chosen) != 1:
            raise ValueError(
                f"the partitioner of a table in a foreign-key join must give one partition, not {sorted(chosen)}: each "
                "of its rows lies in one"
            )
        return chosen
