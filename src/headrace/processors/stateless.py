"""Operators without state.

Source: ``kstream.internals.KStream{Filter,Map,MapValues,FlatMap,FlatMapValues,Peek,Branch}``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.api.engine import Bound
from headrace.errors import StreamsException

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.api.engine import NodeContext
    from headrace.records import Headers


@dataclass(frozen=True, slots=True)
class PassThrough:
    """Forwards as it is: the node of each branch."""

    def bind(self, node: NodeContext) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        return Bound(node.forward)


class StreamMerge(PassThrough):
    """Forwards the records of all its parents as they are."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class StreamFilter:
    """Keeps records for which ``predicate(key, value)`` holds, or does not when ``negate``."""

    predicate: Callable[[Any, Any], bool]
    negate: bool = False

    def bind(self, node: NodeContext) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        predicate, negate = self.predicate, self.negate
        forward, user_error = node.forward, node.user_error

        def process(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            try:
                keep = bool(predicate(key, value)) is not negate
            except Exception as e:
                user_error(e, key, value, timestamp, headers)
                return
            if keep:
                forward(key, value, timestamp, headers)

        return Bound(process)


@dataclass(frozen=True, slots=True)
class NullKeyFilter:
    """In front of a repartition topic: drops records without a key, silently as Java does.

    ``relaxed``: everything passes, because a left or outer join below takes records without a key (KIP-962).
    """

    relaxed: bool = False

    def bind(self, node: NodeContext) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        forward = node.forward
        if self.relaxed:
            return Bound(forward)

        def process(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            if key is not None:
                forward(key, value, timestamp, headers)

        return Bound(process)


@dataclass(frozen=True, slots=True)
class StreamMap:
    """A new key and value: ``mapper(key, value) -> (key, value)``."""

    mapper: Callable[[Any, Any], tuple[Any, Any]]

    def bind(self, node: NodeContext) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        mapper, forward, user_error = self.mapper, node.forward, node.user_error

        def process(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            try:
                new_key, new_value = pair_of(mapper(key, value), "map")
            except Exception as e:
                user_error(e, key, value, timestamp, headers)
                return
            forward(new_key, new_value, timestamp, headers)

        return Bound(process)


@dataclass(frozen=True, slots=True)
class StreamSelectKey:
    """A new key: ``mapper(key, value) -> key``."""

    mapper: Callable[[Any, Any], Any]

    def bind(self, node: NodeContext) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        mapper, forward, user_error = self.mapper, node.forward, node.user_error

        def process(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            try:
                new_key = mapper(key, value)
            except Exception as e:
                user_error(e, key, value, timestamp, headers)
                return
            forward(new_key, value, timestamp, headers)

        return Bound(process)


@dataclass(frozen=True, slots=True)
class StreamMapValues:
    """A new value: ``mapper(value)``, or ``mapper(key, value)`` when ``with_key``."""

    mapper: Callable[..., Any]
    with_key: bool = False

    def bind(self, node: NodeContext) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        mapper, forward, user_error = self.mapper, node.forward, node.user_error

        def process(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            try:
                new_value = mapper(value)
            except Exception as e:
                user_error(e, key, value, timestamp, headers)
                return
            forward(key, new_value, timestamp, headers)

        def process_with_key(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            try:
                new_value = mapper(key, value)
            except Exception as e:
                user_error(e, key, value, timestamp, headers)
                return
            forward(key, new_value, timestamp, headers)

        return Bound(process_with_key if self.with_key else process)


@dataclass(frozen=True, slots=True)
class StreamFlatMap:
    """Any number of new records: ``mapper(key, value) -> iterable of (key, value)``."""

    mapper: Callable[[Any, Any], Iterable[tuple[Any, Any]]]

    def bind(self, node: NodeContext) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        mapper, forward, user_error = self.mapper, node.forward, node.user_error

        def process(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            try:
                # a generator runs the user's code: all of it before the first child, so that an error splits nothing
                pairs = [pair_of(pair, "flat_map") for pair in mapper(key, value)]
            except Exception as e:
                user_error(e, key, value, timestamp, headers)
                return
            for new_key, new_value in pairs:
                forward(new_key, new_value, timestamp, headers)

        return Bound(process)


@dataclass(frozen=True, slots=True)
class StreamFlatMapValues:
    """Any number of values under the same key: ``mapper(value)``, or ``mapper(key, value)`` when ``with_key``."""

    mapper: Callable[..., Iterable[Any]]
    with_key: bool = False

    def bind(self, node: NodeContext) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        mapper, with_key, forward, user_error = self.mapper, self.with_key, node.forward, node.user_error

        def process(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            try:
                values = list(mapper(key, value) if with_key else mapper(value))
            except Exception as e:
                user_error(e, key, value, timestamp, headers)
                return
            for new_value in values:
                forward(key, new_value, timestamp, headers)

        return Bound(process)


@dataclass(frozen=True, slots=True)
class StreamPeek:
    """Calls ``action(key, value)`` and forwards the record as it is."""

    action: Callable[[Any, Any], object]

    def bind(self, node: NodeContext) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        action, forward, user_error = self.action, node.forward, node.user_error

        def process(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            try:
                action(key, value)
            except Exception as e:
                user_error(e, key, value, timestamp, headers)
                return
            forward(key, value, timestamp, headers)

        return Bound(process)


@dataclass(frozen=True, slots=True)
class StreamForeach:
    """Calls ``action(key, value)``; nothing follows."""

    action: Callable[[Any, Any], object]

    def bind(self, node: NodeContext) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        action, user_error = self.action, node.user_error

        def process(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            try:
                action(key, value)
            except Exception as e:
                user_error(e, key, value, timestamp, headers)

        return Bound(process)


@dataclass(frozen=True, slots=True)
class StreamBranch:
    """Sends a record to the child of the first predicate that holds; None is the default branch."""

    predicates: tuple[Callable[[Any, Any], bool] | None, ...]
    child_names: tuple[str, ...]

    def bind(self, node: NodeContext) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        user_error = node.user_error
        # a branch without a reader is no node: its records match and end there
        ways = [
            (predicate, node.children.get(name))
            for predicate, name in zip(self.predicates, self.child_names, strict=True)
        ]

        def process(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            for predicate, child in ways:
                if predicate is not None:
                    try:
                        matches = bool(predicate(key, value))
                    except Exception as e:
                        user_error(e, key, value, timestamp, headers)
                        return
                    if not matches:
                        continue
                if child is not None:
                    child(key, value, timestamp, headers)
                return

        return Bound(process)


def pair_of(result: Any, operator: str) -> tuple[Any, Any]:
    """What a user's function gave, if it is the tuple it has to be.

    Raises:
        StreamsException: It is something else.
    """
    if isinstance(result, tuple):
        pair: tuple[Any, ...] = result  # pyright: ignore[reportUnknownVariableType]  # a user's object
        if len(pair) == 2:
            return pair[0], pair[1]
    kind = type(result).__name__  # pyright: ignore[reportUnknownArgumentType]  # a user's object
    raise StreamsException(f"{operator}'s function must give a (key, value) tuple, not {kind}")
