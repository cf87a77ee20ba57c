"""Changes of a table held back in a buffer.

A change is emitted, with the record context that it came with, when the node's stream time (the greatest time of a
change that it saw) has passed it by long enough, or when the buffer is full and may emit early.
Source: ``kstream.internals.suppress.KTableSuppressProcessorSupplier`` (4.4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.api.engine import Bound
from headrace.errors import StreamsException
from headrace.processors.rows import TableOperator

if TYPE_CHECKING:
    from headrace.api.engine import NodeContext, ValueGetter, ValueGetterSupplier
    from headrace.records import Headers
    from headrace.state.buffered import Buffered
    from headrace.state.suppress import SuppressBuffer


@dataclass(frozen=True, slots=True)
class TableSuppress(TableOperator):
    """Holds changes back.

    Attributes:
        store_name: The buffer.
        wait_ms: How far stream time must be past a change's buffer time.
        final: The buffer time is the end of the key's window, and deletions are swallowed: nobody has heard of the
            window. Otherwise it is the time of the first change that waits.
        max_records: Keys that the buffer may hold.
        max_bytes: Bytes that it may hold.
        emits_early: What is too much is emitted; otherwise it is an error.
    """

    store_name: str
    wait_ms: int
    final: bool
    max_records: int
    max_bytes: int
    emits_early: bool

    def rows(self, *inputs: ValueGetterSupplier) -> ValueGetterSupplier:
        """See :class:`headrace.processors.rows.TableOperator`."""
        (table,) = inputs
        return _SuppressedRows(self.store_name, table)

    def bind(self, node: NodeContext, /) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        buffer: SuppressBuffer[Any, Any] = node.store(self.store_name)
        forward, record, user_error = node.forward_change, node.record, node.user_error
        wait, final, send_old = self.wait_ms, self.final, self.send_old_values
        max_records, max_bytes, emits_early = self.max_records, self.max_bytes, self.emits_early
        observed = -1

        def emit(key: Any, change: Buffered) -> None:
            new = buffer.value(change.new)
            if new is None and final:
                return
            old = buffer.value(change.old) if send_old else None
            saved = record.topic, record.partition, record.offset, record.timestamp, record.headers
            record.topic, record.partition, record.offset = change.topic, change.partition, change.offset
            record.timestamp, record.headers = change.timestamp, change.headers
            try:
                forward(key, new, old, True, change.timestamp, change.headers)
            finally:
                record.topic, record.partition, record.offset, record.timestamp, record.headers = saved

        def process_change(
            key: Any, new: Any, old: Any, is_latest: bool, timestamp: int, headers: Headers | None
        ) -> None:
            nonlocal observed
            if timestamp > observed:
                observed = timestamp
            # the buffer's serdes are the user's code; what comes from a child in there is a failure that was handled
            try:
                buffer.put(key.window.end if final else timestamp, key, new, old, timestamp, headers)
                buffer.evict_until(observed - wait, emit)
                if emits_early:
                    buffer.evict_beyond(max_records, max_bytes, emit)
                elif len(buffer) > max_records or buffer.size_bytes > max_bytes:
                    raise StreamsException(
                        f"the buffer of {node.name} is full: {len(buffer)} of at most {max_records} records, "
                        f"{buffer.size_bytes} of at most {max_bytes} bytes. It may not emit early: give it more, or "
                        "let windows close sooner",
                        node.task_id,
                    )
            except Exception as e:
                user_error(e, key, new, timestamp, headers)

        return Bound(process_change=process_change)


@dataclass(frozen=True, slots=True)
class _SuppressedRows:
    """The rows as they were emitted: what waits in the buffer is not seen yet."""

    store_name: str
    table: ValueGetterSupplier

    @property
    def store_names(self) -> tuple[str, ...]:
        """See :class:`headrace.api.engine.ValueGetterSupplier`."""
        return (self.store_name, *self.table.store_names)

    def bind(self, node: NodeContext, /) -> ValueGetter:
        """See :class:`headrace.api.engine.ValueGetterSupplier`."""
        buffer: SuppressBuffer[Any, Any] = node.store(self.store_name)
        below = self.table.bind(node)

        def get(key: Any) -> tuple[Any, ...] | None:
            waits, prior = buffer.prior(key)
            return prior if waits else below(key)

        return get

    def bind_as_of(self, node: NodeContext, /) -> None:
        """See :class:`headrace.api.engine.ValueGetterSupplier`."""
