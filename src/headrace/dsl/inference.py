"""Serdes that follow from the graph, for places to which none was given.

They count only where no default is configured: there the Java library, which always takes the default, refuses to
start. So nothing that works there gets other bytes here. What is known of the records that leave a node:

- a source: what it was told; behind a topic or a store: what that has;
- operators that keep key or value keep its serde; a merge keeps what all its streams agree on;
- a new key or value: what the function's annotation says it returns, or the class that is the function, for str, bytes,
  bool, int (as a 64-bit number), float and UUID. A lambda says nothing.
"""

from __future__ import annotations

import types
import typing
import uuid
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.api.serde import InferredSerde
from headrace.dsl.graph import (
    GlobalSource,
    Process,
    Repartition,
    Sink,
    Split,
    Store,
    StreamSource,
    StreamToTable,
    TableJoin,
    TableSource,
    ThroughTopic,
)
from headrace.processors.aggregate import StreamAggregate, StreamReduce
from headrace.processors.joins import BufferedStreamTableJoin, StreamGlobalTableJoin, StreamTableJoin
from headrace.processors.papi import UserFixedKeyProcessor
from headrace.processors.stateless import (
    NullKeyFilter,
    PassThrough,
    StreamFilter,
    StreamFlatMapValues,
    StreamMapValues,
    StreamPeek,
    StreamSelectKey,
)
from headrace.processors.table_aggregate import TableAggregate
from headrace.processors.tables import (
    TableFilter,
    TableMapValues,
    TablePassThrough,
    TableToStream,
    TableTransformValues,
)
from headrace.processors.windows import WindowedAggregate
from headrace.serdes import Serdes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.api.serde import Serde
    from headrace.dsl.graph import Graph, NodeData

_KEEPING: Final = (StreamFilter, NullKeyFilter, StreamPeek, PassThrough, TableFilter, TablePassThrough, TableToStream)
_NEW_VALUE: Final = (StreamMapValues, TableMapValues)
_JOINS: Final = (StreamTableJoin, StreamGlobalTableJoin)
_OTHER_VALUE: Final = (
    StreamFlatMapValues,
    TableTransformValues,
    UserFixedKeyProcessor,
    BufferedStreamTableJoin,
    StreamAggregate,
    TableAggregate,
    WindowedAggregate,
)
_BY_TYPE: Final[Mapping[type[Any], Serde[Any]]] = {
    str: Serdes.String(),
    bytes: Serdes.Bytes(),
    bool: Serdes.Boolean(),
    int: Serdes.Long(),
    float: Serdes.Double(),
    uuid.UUID: Serdes.UUID(),
}


class Known(NamedTuple):
    """Serdes of the records on an edge; None where nothing is known."""

    key: Serde[Any] | None = None
    value: Serde[Any] | None = None


def infer(graph: Graph) -> None:
    """Give places of the graph the serdes that follow from it."""

    @cache
    def leaving(number: int) -> Known:
        return _leaving(graph.nodes[number].data, entering(number))

    @cache
    def entering(number: int) -> Known:
        parents = [leaving(parent) for parent in graph.nodes[number].parents]
        if not parents:
            return Known()
        return Known(_agreed([known.key for known in parents]), _agreed([known.value for known in parents]))

    known = {number: entering(number) for number in graph.nodes}
    for number, node in graph.nodes.items():
        node.data = _completed(node.data, known[number])


def _leaving(data: NodeData, given: Known) -> Known:
    match data:
        case StreamSource() | TableSource() | GlobalSource():
            return Known(data.consumed.key_serde, data.consumed.value_serde)
        case Repartition():
            return Known(data.key_serde or given.key, data.value_serde or given.value)
        case ThroughTopic():
            return Known(data.key_serde)
        case StreamToTable():
            return _of_store(data.store, given)
        case Split():
            return given
        case TableJoin():
            return Known(given.key) if data.store is None else _of_store(data.store, Known(given.key))
        case Process():
            kept = _of_operator(data.operator, given)
            if data.store is None or isinstance(data.operator, WindowedAggregate):
                return kept if data.store is None else Known(None, data.store.value_serde or kept.value)
            return _of_store(data.store, kept)
        case _:
            return Known()


def _of_operator(operator: object, given: Known) -> Known:
    if isinstance(operator, (*_KEEPING, StreamReduce)):
        return given
    if isinstance(operator, _NEW_VALUE):
        return Known(given.key, returned(operator.mapper))
    if isinstance(operator, _JOINS):
        return Known(given.key, returned(operator.joiner))
    if isinstance(operator, StreamSelectKey):
        return Known(returned(operator.mapper), given.value)
    if isinstance(operator, StreamAggregate | TableAggregate):
        return Known(given.key, returned(operator.initializer))
    return Known(given.key) if isinstance(operator, _OTHER_VALUE) else Known()


def _of_store(store: Store, kept: Known) -> Known:
    return Known(store.key_serde or kept.key, store.value_serde or kept.value)


def _completed(data: NodeData, given: Known) -> NodeData:
    match data:
        case Sink() | Repartition():
            return replace(
                data,
                key_serde=_or_inferred(data.key_serde, given.key, is_key=True),
                value_serde=_or_inferred(data.value_serde, given.value, is_key=False),
            )
        case StreamToTable():
            return replace(data, store=_with_serdes(data.store, given))
        case Process() if data.store is not None:
            kept = _of_operator(data.operator, given)
            return replace(data, store=_with_serdes(data.store, kept))
        case TableJoin() if data.store is not None:
            return replace(data, store=_with_serdes(data.store, Known(given.key)))
        case _:
            return data


def _with_serdes(store: Store, known: Known) -> Store:
    return replace(
        store,
        key_serde=_or_inferred(store.key_serde, known.key, is_key=True),
        value_serde=_or_inferred(store.value_serde, known.value, is_key=False),
    )


def _or_inferred(given: Serde[Any] | None, inferred: Serde[Any] | None, *, is_key: bool) -> Serde[Any] | None:
    return given if given is not None or inferred is None else InferredSerde(inferred, is_key=is_key)


def _agreed(serdes: list[Serde[Any] | None]) -> Serde[Any] | None:
    first = serdes[0]
    stateless = first is not None and any(type(first) is type(known) for known in _BY_TYPE.values())
    same = all(serde is first or (stateless and type(serde) is type(first)) for serde in serdes)
    return first if same else None


def returned(function: Callable[..., Any]) -> Serde[Any] | None:
    """The serde of what a function returns, where that is known and of a type that has one form only."""
    kind: Any = function
    if not isinstance(function, type):
        try:
            kind = typing.get_type_hints(function).get("return")
        except (NameError, TypeError, AttributeError):
            # it names what exists only for type checkers, or is no function that could have annotations
            return None
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        members = [member for member in typing.get_args(kind) if member is not type(None)]
        kind = members[0] if len(members) == 1 else None
    return _BY_TYPE.get(kind) if isinstance(kind, type) else None
