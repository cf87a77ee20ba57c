"""Processor wrappers (KIP-1112): every operator, a user's or the library's own, handed to a wrapper as a processor.

The library's operators are closures; for a wrapper each is shown as a :class:`~headrace.api.processor.Processor` whose
``process`` runs the closure, and whose outputs go through the context that the wrapper gave it. On a table's edge the
record's value is a :class:`~headrace.api.record.Change`. None of this exists without a wrapper.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from headrace.api.engine import Bound
from headrace.api.processor import Processor
from headrace.api.record import Change, Record
from headrace.errors import IllegalStateException
from headrace.processors.papi import UserFixedKeyProcessor, UserProcessor, bind_processor

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.api.engine import NodeContext, Operator, Process, ProcessChange
    from headrace.api.processor import ProcessorContext, ProcessorWrapper
    from headrace.records import Headers

_node: Final[ContextVar[NodeContext]] = ContextVar("node")
"""The node that is being bound: a wrapper's supplier calls ours with no arguments."""


def wrap(wrapper: ProcessorWrapper, name: str, operator: Operator) -> tuple[Operator, object]:
    """An operator in its wrapper, and the wrapper's supplier when that may bring stores of its own; else None."""
    if isinstance(operator, UserFixedKeyProcessor):
        fixed = wrapper.wrap_fixed_key_processor_supplier(name, operator.supplier)
        return UserFixedKeyProcessor(fixed), None if fixed is operator.supplier else fixed
    if isinstance(operator, UserProcessor):
        wrapped = wrapper.wrap_processor_supplier(name, operator.supplier)
        return UserProcessor(wrapped), None if wrapped is operator.supplier else wrapped
    wrapped = wrapper.wrap_processor_supplier(name, lambda: _OperatorProcessor(operator))
    return WrappedOperator(wrapped), wrapped


@dataclass(frozen=True, slots=True)
class WrappedOperator:
    """One of the library's operators, run by a wrapper's processor."""

    supplier: Callable[[], Processor[Any, Any, Any, Any]]

    def bind(self, node: NodeContext) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        token = _node.set(node)
        try:
            bound = bind_processor(node, self.supplier())
        finally:
            _node.reset(token)
        process = bound.process
        assert process is not None

        def process_change(
            key: Any, new: Any, old: Any, is_latest: bool, timestamp: int, headers: Headers | None
        ) -> None:
            process(key, Change(new, old, is_latest), timestamp, headers)

        return bound._replace(process_change=process_change)


class _OperatorProcessor(Processor[Any, Any, Any, Any]):
    """An operator as a processor. Made while its node is being bound, and bound itself when it is initialized."""

    def __init__(self, operator: Operator) -> None:
        node = _node.get(None)
        if node is None:
            raise IllegalStateException("a wrapped processor is made by its supplier only, before init() is called")
        self._node = node
        self._operator = operator
        self._bound = Bound()

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        super().init(context)
        relay = _Relay(self._node, context)
        self._bound = self._operator.bind(cast("NodeContext", relay))
        if self._bound.init is not None:
            self._bound.init()

    def process(self, record: Record[Any, Any]) -> None:
        change, bound = record.value, self._bound
        if isinstance(change, Change) and bound.process_change is not None:
            bound.process_change(record.key, *change, record.timestamp, record.headers or None)
        elif bound.process is not None:
            bound.process(record.key, record.value, record.timestamp, record.headers or None)

    def close(self) -> None:
        if self._bound.close is not None:
            self._bound.close()


class _Relay:
    """The node that a wrapped operator is bound to: its outputs go by the wrapper's context, its errors come up."""

    def __init__(self, node: NodeContext, context: ProcessorContext[Any, Any]) -> None:
        self._node = node
        self.forward = _forward(context, None)
        self.forward_change: ProcessChange = lambda key, new, old, is_latest, timestamp, headers: context.forward(
            Record(key, Change(new, old, is_latest), timestamp, headers)
        )
        self.children = {name: _forward(context, name) for name in node.children}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)

    def user_error(self, error: Exception, key: object, value: object, timestamp: int, headers: Headers | None) -> None:
        # the wrapper sees it first; whoever called the wrapper asks the handler
        raise error


def _forward(context: ProcessorContext[Any, Any], child: str | None) -> Process:
    return lambda key, value, timestamp, headers: context.forward(Record(key, value, timestamp, headers), child)
