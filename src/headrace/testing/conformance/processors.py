"""The named processors of the vocabulary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.api.processor import FixedKeyProcessor, Processor, PunctuationType, ValueTransformerWithKey
from headrace.api.record import Record
from headrace.errors import IllegalStateException
from headrace.state.keyvalue import TimestampedKeyValueStore, ValueAndTimestamp
from headrace.testing.conformance import functions
from headrace.testing.conformance.values import text, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from headrace.api.processor import Cancellable, FixedKeyProcessorContext, ProcessorContext, TransformerContext
    from headrace.api.record import FixedKeyRecord


class _Simple(Processor[Any, Any, Any, Any]):
    def __init__(self, body: Callable[[ProcessorContext[Any, Any], Record[Any, Any]], None]) -> None:
        self._body = body

    def process(self, record: Record[Any, Any]) -> None:
        self._body(self.context, record)


class _WithStore(Processor[Any, Any, Any, Any]):
    """Looks its store up when the task begins, so that a missing one shows then."""

    def __init__(self, store_name: str) -> None:
        self._store_name = store_name
        self._store: Any = None

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        super().init(context)
        self._store = context.get_state_store(self._store_name)


class _StoreCount(_WithStore):
    def process(self, record: Record[Any, Any]) -> None:
        count = (self._store.get(record.key) or 0) + 1
        self._store.put(record.key, count)
        self.context.forward(record.with_value(count))


class _Dedupe(_WithStore):
    def process(self, record: Record[Any, Any]) -> None:
        if self._store.put_if_absent(record.key, record.value) is None:
            self.context.forward(record)


def _punctuation(step: Mapping[str, Any]) -> tuple[int, PunctuationType]:
    args = step["args"]
    return args["interval_ms"], PunctuationType(args["type"].replace("wall_clock", "wall_clock_time"))


class _Buffer(_WithStore):
    def __init__(self, step: Mapping[str, Any]) -> None:
        super().__init__(step["stores"][0])
        self._punctuation = _punctuation(step)

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        super().init(context)
        context.schedule(*self._punctuation, self._drain)

    def process(self, record: Record[Any, Any]) -> None:
        self._store.put(record.key, record.value)

    def _drain(self, timestamp: int) -> None:
        for key, value in list(self._store.all()):
            self.context.forward(Record(key, value, timestamp))
            self._store.delete(key)


class _WindowSum(_WithStore):
    def __init__(self, step: Mapping[str, Any]) -> None:
        super().__init__(step["stores"][0])
        self._back_ms: int = step["args"]["back_ms"]

    def process(self, record: Record[Any, Any]) -> None:
        store, key, timestamp = self._store, record.key, record.timestamp
        store.put(key, record.value, timestamp)
        rows = store.fetch(key, timestamp - self._back_ms, timestamp)
        self.context.forward(record.with_value(wrapped(sum(value for _, value in rows))))


class _Ticks(Processor[Any, Any, Any, Any]):
    def __init__(self, step: Mapping[str, Any]) -> None:
        self._punctuation = _punctuation(step)
        self._cancel_after: int = step["args"].get("cancel_after", -1)
        self._fail_at: int = step["args"].get("fail_at", -1)
        self._ticks = 0
        self._handle: Cancellable | None = None

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        super().init(context)
        self._handle = context.schedule(*self._punctuation, self._tick)

    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record)

    def _tick(self, timestamp: int) -> None:
        self.context.forward(Record("tick", str(timestamp), timestamp))
        self._ticks += 1
        if self._ticks == self._fail_at:
            raise IllegalStateException(f"tick {self._ticks}")
        if self._ticks == self._cancel_after and self._handle is not None:
            self._handle.cancel()


class _Walk(_WithStore):
    """Leaves an iterator open from record to record, over commits."""

    def __init__(self, step: Mapping[str, Any]) -> None:
        super().__init__(step["stores"][0])
        self._rows: Iterator[tuple[Any, Any]] | None = None

    def process(self, record: Record[Any, Any]) -> None:
        self._store.put(record.key, record.value)
        if self._rows is None:
            self._rows = iter(self._store.all())
        for key, value in self._rows:
            self.context.forward(record.with_key(key).with_value(value))
            return
        self._rows = None


class _TablePut(_WithStore):
    def process(self, record: Record[Any, Any]) -> None:
        row = record.value
        if row is not None and isinstance(self._store, TimestampedKeyValueStore):
            row = ValueAndTimestamp(row, record.timestamp)
        self._store.put(record.key, row)  # pyright: ignore[reportUnknownMemberType]  # any key and value


def _add_header(context: ProcessorContext[Any, Any], record: Record[Any, Any]) -> None:
    record.headers.append(("added", text(record.value).encode()))
    context.forward(record)


def _metadata(context: ProcessorContext[Any, Any], record: Record[Any, Any]) -> None:
    at = context.record_metadata()
    if at is None:
        raise IllegalStateException("a record has no metadata")
    context.forward(record.with_value(f"{at.topic}/{at.partition}/{at.offset}"))


def _times(context: ProcessorContext[Any, Any], record: Record[Any, Any]) -> None:
    stream, wall = context.current_stream_time_ms(), context.current_system_time_ms()
    context.forward(record.with_value(f"stream={stream},wall={wall}"))


_upper = functions.value("upper")

_SIMPLE: dict[str, Callable[[ProcessorContext[Any, Any], Record[Any, Any]], None]] = {
    "forward": lambda context, record: context.forward(record),
    "upper_value": lambda context, record: context.forward(record.with_value(_upper(record.key, record.value))),
    "drop": lambda context, record: None,
    "add_header": _add_header,
    "metadata": _metadata,
    "times": _times,
    "to_child": lambda context, record: context.forward(record, text(record.value)),
}
_WITH_STORE: dict[str, Callable[[str], Processor[Any, Any, Any, Any]]] = {
    "store_count": _StoreCount,
    "dedupe": _Dedupe,
    "table_put": _TablePut,
}
_WITH_STEP: dict[str, Callable[[Mapping[str, Any]], Processor[Any, Any, Any, Any]]] = {
    "buffer": _Buffer,
    "ticks": _Ticks,
    "walk": _Walk,
    "window_sum": _WindowSum,
}


def _checking(step: Mapping[str, Any]) -> Callable[[Any, Any], None]:
    """Forwards records, but for one value fails."""
    checked = functions.value(f"fail_if({step['args']['value']})")
    return lambda context, record: context.forward(record.with_value(checked(record.key, record.value)))


def supplier(step: Mapping[str, Any]) -> Callable[[], Processor[Any, Any, Any, Any]]:
    """The supplier of the processor that a step names."""
    name = step["processor"]
    if name in _SIMPLE:
        body = _SIMPLE[name]
        return lambda: _Simple(body)
    if name == "fail_if":
        checking = _checking(step)
        return lambda: _Simple(checking)
    if name == "shift_time":
        shift: int = step["args"]["ms"]
        return lambda: _Simple(lambda context, record: context.forward(record.with_timestamp(record.timestamp + shift)))
    if name in _WITH_STEP:
        return lambda: _WITH_STEP[name](step)
    if name not in _WITH_STORE:
        raise IllegalStateException(f"no processor named {name}")
    make, store = _WITH_STORE[name], step["stores"][0]
    return lambda: make(store)


class _FixedSimple(FixedKeyProcessor[Any, Any, Any]):
    def __init__(self, body: Callable[[FixedKeyProcessorContext[Any, Any], FixedKeyRecord[Any, Any]], None]) -> None:
        self._body = body

    def process(self, record: FixedKeyRecord[Any, Any]) -> None:
        self._body(self.context, record)


class _FixedWithStore(FixedKeyProcessor[Any, Any, Any]):
    def __init__(self, store_name: str) -> None:
        self._store_name = store_name
        self._store: Any = None

    def init(self, context: FixedKeyProcessorContext[Any, Any]) -> None:
        super().init(context)
        self._store = context.get_state_store(self._store_name)


class _FixedStoreCount(_FixedWithStore):
    def process(self, record: FixedKeyRecord[Any, Any]) -> None:
        count = (self._store.get(record.key) or 0) + 1
        self._store.put(record.key, count)
        self.context.forward(record.with_value(count))


class _Lookup(_FixedWithStore):
    def process(self, record: FixedKeyRecord[Any, Any]) -> None:
        found = self._store.get(record.value)
        if isinstance(found, ValueAndTimestamp):
            found = found.value
        self.context.forward(record.with_value(f"{text(record.value)}/{text(found)}"))


def _twice(context: FixedKeyProcessorContext[Any, Any], record: FixedKeyRecord[Any, Any]) -> None:
    context.forward(record)
    context.forward(record)


_FIXED: dict[str, Callable[[FixedKeyProcessorContext[Any, Any], FixedKeyRecord[Any, Any]], None]] = {
    "forward": lambda context, record: context.forward(record),
    "upper_value": lambda context, record: context.forward(record.with_value(_upper(record.key, record.value))),
    "twice": _twice,
}


def fixed_key_supplier(step: Mapping[str, Any]) -> Callable[[], FixedKeyProcessor[Any, Any, Any]]:
    """The supplier of the fixed-key processor that a step names."""
    name = step["processor"]
    if name in _FIXED:
        body = _FIXED[name]
        return lambda: _FixedSimple(body)
    if name == "fail_if":
        checking = _checking(step)
        return lambda: _FixedSimple(checking)
    if name == "store_count":
        counted: str = step["stores"][0]
        return lambda: _FixedStoreCount(counted)
    if name == "lookup":
        read: str = step["args"]["store"]
        return lambda: _Lookup(read)
    raise IllegalStateException(f"no fixed-key processor named {name}")


class _CountingTransformer(ValueTransformerWithKey[Any, Any, Any]):
    def __init__(self, store_name: str | None) -> None:
        self._store_name = store_name
        self._store: Any = None

    def init(self, context: TransformerContext) -> None:
        if self._store_name is not None:
            self._store = context.get_state_store(self._store_name)

    def transform(self, key: Any, value: Any) -> Any:
        calls = 0
        if self._store is not None:
            calls = (self._store.get(key) or 0) + 1
            self._store.put(key, calls)
        return None if value is None else f"{text(key)}:{text(value)}#{calls}"


def transformer_supplier(step: Mapping[str, Any]) -> Callable[[], ValueTransformerWithKey[Any, Any, Any]]:
    """The supplier of the transformer of a step."""
    stores: list[str] = step.get("stores", [])
    return lambda: _CountingTransformer(stores[0] if stores else None)
