"""The border to the Processor API: here a record becomes an object, and the context is set and restored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.api.engine import Bound
from headrace.api.options import checked
from headrace.api.processor import PunctuationType
from headrace.api.record import Change, FixedKeyRecord, Record, RecordMetadata, own_headers, record_time
from headrace.api.times import epoch_ms, milliseconds
from headrace.api.windows import MAX_TIMESTAMP
from headrace.errors import FailedProcessingException, StreamsException

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.api.engine import NodeContext
    from headrace.api.processor import (
        Cancellable,
        FixedKeyProcessor,
        Processor,
        Punctuator,
        ValueTransformerWithKey,
    )
    from headrace.api.times import Moment, Span
    from headrace.records import Headers, TaskId


class _Context:
    """Body of both contexts. Source: ``processor.internals.ProcessorContextImpl``."""

    def __init__(self, node: NodeContext) -> None:
        self._node = node
        self._record = node.record
        self._forward = node.forward
        self._children = node.children

    @property
    def application_id(self) -> str:
        return self._node.application_id

    @property
    def task_id(self) -> TaskId:
        return self._node.task_id

    def get_state_store(self, name: str) -> Any:
        return self._node.store(name)

    def record_metadata(self) -> RecordMetadata | None:
        record = self._record
        return None if record.topic is None else RecordMetadata(record.topic, record.partition, record.offset)

    def current_stream_time_ms(self) -> int:
        return self._record.stream_time

    def current_system_time_ms(self) -> int:
        return self._node.system_time_ms()

    def schedule(
        self,
        interval: Span,
        kind: PunctuationType,
        callback: Punctuator,
        start_time: Moment | None = None,
    ) -> Cancellable:
        checked(kind, PunctuationType)
        interval_ms = milliseconds(interval)
        if interval_ms < 1:
            raise ValueError(f"the shortest interval of a punctuation is 1 ms, not {interval}")
        start_ms = None if start_time is None else epoch_ms(start_time)
        if start_ms is not None and start_ms < 0:
            raise ValueError(f"a punctuation cannot start before 1970: {start_time}")
        return self._node.schedule(interval_ms, kind, callback, start_ms)

    def drop_record(self, reason: str) -> None:
        self._node.drop_one_of_many(reason)

    def app_configs(self) -> Mapping[str, Any]:
        return self._node.app_configs

    def commit(self) -> None:
        self._node.request_commit()

    def _send(self, key: Any, value: Any, timestamp: int, headers: Headers, child_name: str | None) -> None:
        if child_name is None:
            target = self._forward
        else:
            found = self._children.get(child_name)
            if found is None:
                raise StreamsException(
                    f"Unknown downstream node: {child_name} either does not exist or is not connected to this "
                    f"processor {self._node.name}; its children are: {', '.join(self._children) or 'none'}",
                    self._node.task_id,
                )
            target = found
        if timestamp.__class__ is not int or not 0 <= timestamp <= MAX_TIMESTAMP:
            timestamp = record_time(timestamp)
        record = self._record
        saved_timestamp, saved_headers = record.timestamp, record.headers
        # children get a list of their own: the caller may go on to change its record's headers
        own = own_headers(headers) if headers else None
        record.timestamp, record.headers = timestamp, own
        try:
            target(key, value, timestamp, own)
        finally:
            record.timestamp, record.headers = saved_timestamp, saved_headers


class _ProcessorContext(_Context):
    def forward(self, record: Record[Any, Any], child_name: str | None = None) -> None:
        if not isinstance(record, Record):  # pyright: ignore[reportUnnecessaryIsInstance]  # users without a type checker
            raise StreamsException(f"forward() takes a Record, not {type(record).__name__}", self.task_id)
        value = record.value
        if isinstance(value, Change):
            # from a wrapped operator that makes a table
            headers = list(record.headers) if record.headers else None
            self._node.forward_change(record.key, *value, record.timestamp, headers)
        else:
            self._send(record.key, value, record.timestamp, record.headers, child_name)


class _FixedKeyContext(_Context):
    def forward(self, record: FixedKeyRecord[Any, Any], child_name: str | None = None) -> None:
        if not isinstance(record, FixedKeyRecord):  # pyright: ignore[reportUnnecessaryIsInstance]  # users without a type checker
            raise StreamsException(f"forward() takes a FixedKeyRecord, not {type(record).__name__}", self.task_id)
        self._send(record.key, record.value, record.timestamp, record.headers, child_name)


class _TransformerContext(_Context):
    def timestamp(self) -> int:
        return self._record.timestamp

    def headers(self) -> Headers:
        return list(self._record.headers or ())


@dataclass(frozen=True, slots=True)
class UserProcessor:
    """A user's :class:`~headrace.api.processor.Processor`; the supplier makes a new one per task."""

    supplier: Callable[[], Processor[Any, Any, Any, Any]]

    def bind(self, node: NodeContext) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        return bind_processor(node, self.supplier())


def bind_processor(node: NodeContext, processor: Processor[Any, Any, Any, Any]) -> Bound:
    """The closures of a processor at a node."""
    context = _ProcessorContext(node)
    return Bound(
        _process(node, processor.process, Record),
        init=_life(node, "initialize", lambda: processor.init(context)),
        close=_life(node, "close", processor.close),
    )


@dataclass(frozen=True, slots=True)
class UserFixedKeyProcessor:
    """A user's :class:`~headrace.api.processor.FixedKeyProcessor`; the supplier makes a new one per task."""

    supplier: Callable[[], FixedKeyProcessor[Any, Any, Any]]

    def bind(self, node: NodeContext) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        processor, context = self.supplier(), _FixedKeyContext(node)
        return Bound(
            _process(node, processor.process, FixedKeyRecord),
            init=_life(node, "initialize", lambda: processor.init(context)),
            close=_life(node, "close", processor.close),
        )


def bind_transformer(
    node: NodeContext, supplier: Callable[[], ValueTransformerWithKey[Any, Any, Any]]
) -> Callable[[Any, Any], Any]:
    """The ``transform`` of a new transformer, which is initialized and closed with the node."""
    transformer, context = supplier(), _TransformerContext(node)
    node.add_life(_life(node, "initialize", lambda: transformer.init(context)), _life(node, "close", transformer.close))
    return transformer.transform


def _life(node: NodeContext, doing: str, step: Callable[[], None]) -> Callable[[], None]:
    def named() -> None:
        try:
            step()
        except StreamsException:
            raise
        except Exception as e:
            raise StreamsException(f"failed to {doing} processor {node.name}: {e}", node.task_id) from e

    return named


def _process(
    node: NodeContext, call: Callable[[Any], None], make: Callable[[Any, Any, int, Headers | None], Any]
) -> Callable[[Any, Any, int, Headers | None], None]:
    record, user_error = node.record, node.user_error

    def process(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
        saved_timestamp, saved_headers = record.timestamp, record.headers
        record.timestamp, record.headers = timestamp, headers
        try:
            call(make(key, value, timestamp, headers))
        except FailedProcessingException:
            raise
        except Exception as e:
            user_error(e, key, value, timestamp, headers)
        finally:
            record.timestamp, record.headers = saved_timestamp, saved_headers

    return process
