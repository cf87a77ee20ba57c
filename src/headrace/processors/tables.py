"""Operators of tables that keep the key. Source: ``kstream.internals.KTable{Source,Filter,MapValues,TransformValues}``.

A table that is filtered or mapped keeps rows only when the user named a store for it. Without one, what others read is
computed from the rows of the table above, and old values are computed from that one's.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.api.engine import Bound
from headrace.processors.papi import bind_transformer
from headrace.processors.rows import StoreRows, TableOperator

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.api.engine import NodeContext, ProcessChange, ValueGetter, ValueGetterAsOf, ValueGetterSupplier
    from headrace.api.processor import ValueTransformerWithKey
    from headrace.processors.rows import TableStore
    from headrace.records import Headers

    Compute = Callable[[Any, Any], Any]
    """``(key, value or None) -> new value or None``."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TableSource(TableOperator):
    """Each record is the new row of its key; a null value deletes it. Records without a key are dropped.

    ``store_name`` is None while nobody needs the table's rows: then changes are forwarded without old values.
    A record older than its row is applied all the same (and said at DEBUG), as in Java; a versioned store puts it where
    it belongs, and says whether it is the latest.
    """

    store_name: str | None

    def bind(self, node: NodeContext, /) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        forward, drop, record, name = node.forward_change, node.drop, node.record, node.name
        if self.store_name is None:

            def process_unstored(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
                if key is None:
                    drop("null key")
                else:
                    forward(key, value, None, True, timestamp, headers)

            return Bound(process_unstored)

        store: TableStore[Any, Any] = node.store(self.store_name)
        cached = store.set_flush_listener(forward, self.send_old_values)
        send_old, user_error = self.send_old_values, node.user_error
        get, put = store.get_pair, store.put_pair

        def process(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            if key is None:
                drop("null key")
                return
            # the store's serdes are the user's code too: they fail on a key or value of another type
            try:
                old = get(key)
                is_latest = put(key, value, timestamp, headers)
            except Exception as e:
                user_error(e, key, value, timestamp, headers)
                return
            if old is not None and timestamp < old[1]:
                _log.debug(
                    "%s: record at %s-%d offset %d is older than its row (%d < %d)",
                    name,
                    record.topic,
                    record.partition,
                    record.offset,
                    timestamp,
                    old[1],
                )
            if not cached and is_latest is not None:
                forward(key, value, old[0] if send_old and old is not None else None, is_latest, timestamp, headers)

        return Bound(process)


@dataclass(frozen=True, slots=True)
class TableFilter(TableOperator):
    """Rows for which ``predicate(key, value)`` holds, or does not when ``negate``; the others become tombstones.

    With old values known, a change of nothing into nothing is not forwarded, unless the table is ``versioned``: then it
    may be the end of a former row.
    """

    predicate: Callable[[Any, Any], bool]
    negate: bool
    store_name: str | None
    versioned: bool = False

    def rows(self, *inputs: ValueGetterSupplier) -> ValueGetterSupplier:
        """See :class:`headrace.processors.rows.TableOperator`."""
        return StoreRows(self.store_name) if self.store_name is not None else _ComputedRows(inputs[0], self._compute())

    def bind(self, node: NodeContext, /) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        skip = self.send_old_values and not self.versioned
        return Bound(process_change=_change(node, self, self.store_name, self._compute(), skip_nothing=skip))

    def _compute(self) -> Compute:
        predicate, negate = self.predicate, self.negate
        return lambda key, value: value if value is not None and bool(predicate(key, value)) is not negate else None


@dataclass(frozen=True, slots=True)
class TableMapValues(TableOperator):
    """Another value for each row: ``mapper(value)``, or ``mapper(key, value)`` when ``with_key``."""

    mapper: Callable[..., Any]
    with_key: bool
    store_name: str | None

    def rows(self, *inputs: ValueGetterSupplier) -> ValueGetterSupplier:
        """See :class:`headrace.processors.rows.TableOperator`."""
        return StoreRows(self.store_name) if self.store_name is not None else _ComputedRows(inputs[0], self._compute())

    def bind(self, node: NodeContext, /) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        return Bound(process_change=_change(node, self, self.store_name, self._compute()))

    def _compute(self) -> Compute:
        mapper = self.mapper
        if self.with_key:
            return lambda key, value: None if value is None else mapper(key, value)
        return lambda key, value: None if value is None else mapper(value)


@dataclass(frozen=True, slots=True)
class TableTransformValues(TableOperator):
    """Another value for each row by a user's transformer, which sees deletions too.

    The supplier makes a transformer per task, and one more for everybody who reads the rows of a table that keeps none.
    """

    supplier: Callable[[], ValueTransformerWithKey[Any, Any, Any]]
    store_name: str | None

    def rows(self, *inputs: ValueGetterSupplier) -> ValueGetterSupplier:
        """See :class:`headrace.processors.rows.TableOperator`."""
        return StoreRows(self.store_name) if self.store_name is not None else _TransformedRows(inputs[0], self.supplier)

    def bind(self, node: NodeContext, /) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        change = _change(node, self, self.store_name, bind_transformer(node, self.supplier))
        record = node.record

        def process_change(
            key: Any, new: Any, old: Any, is_latest: bool, timestamp: int, headers: Headers | None
        ) -> None:
            saved_timestamp, saved_headers = record.timestamp, record.headers
            record.timestamp, record.headers = timestamp, headers
            try:
                change(key, new, old, is_latest, timestamp, headers)
            finally:
                record.timestamp, record.headers = saved_timestamp, saved_headers

        return Bound(process_change=process_change)


@dataclass(frozen=True, slots=True)
class TablePassThrough(TableOperator):
    """Changes as they are: of the inputs of a cogrouped aggregation, which share one store."""

    def rows(self, *inputs: ValueGetterSupplier) -> ValueGetterSupplier:
        """See :class:`headrace.processors.rows.TableOperator`."""
        return inputs[0]

    def bind(self, node: NodeContext, /) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        return Bound(process_change=node.forward_change)


@dataclass(frozen=True, slots=True)
class TableToStream:
    """Each change's new value becomes a record."""

    def bind(self, node: NodeContext, /) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        forward = node.forward

        def process_change(
            key: Any, new: Any, old: Any, is_latest: bool, timestamp: int, headers: Headers | None
        ) -> None:
            forward(key, new, timestamp, headers)

        return Bound(process_change=process_change)


def _change(
    node: NodeContext, operator: TableOperator, store_name: str | None, compute: Compute, *, skip_nothing: bool = False
) -> ProcessChange:
    """The change of a table that is computed from another's: of nothing into nothing is left out when asked for."""
    forward, user_error, send_old = node.forward_change, node.user_error, operator.send_old_values
    if store_name is None:

        def process_change(
            key: Any, new: Any, old: Any, is_latest: bool, timestamp: int, headers: Headers | None
        ) -> None:
            try:
                computed = compute(key, new)
                computed_old = compute(key, old) if send_old else None
            except Exception as e:
                user_error(e, key, new, timestamp, headers)
                return
            if computed is not None or computed_old is not None or not skip_nothing:
                forward(key, computed, computed_old, is_latest, timestamp, headers)

        return process_change

    store: TableStore[Any, Any] = node.store(store_name)
    cached = store.set_flush_listener(forward, send_old)
    get, put = store.get_pair, store.put_pair

    def process_stored(key: Any, new: Any, old: Any, is_latest: bool, timestamp: int, headers: Headers | None) -> None:
        try:
            computed = compute(key, new)
            row = get(key) if send_old else None
            if row is None and computed is None and skip_nothing:
                return
            put_as_latest = put(key, computed, timestamp, headers)
        except Exception as e:
            user_error(e, key, new, timestamp, headers)
            return
        if not cached and put_as_latest is not None:
            forward(key, computed, None if row is None else row[0], put_as_latest, timestamp, headers)

    return process_stored


@dataclass(frozen=True, slots=True)
class _ComputedRows:
    """Rows of a table that keeps none: computed from those of the table above."""

    table: ValueGetterSupplier
    compute: Compute

    @property
    def store_names(self) -> tuple[str, ...]:
        return self.table.store_names

    def bind(self, node: NodeContext, /) -> ValueGetter:
        above, compute = self.table.bind(node), self.compute

        def get(key: Any) -> tuple[Any, ...] | None:
            row = above(key)
            value = None if row is None else compute(key, row[0])
            return None if row is None or value is None else (value, row[1])

        return get

    def bind_as_of(self, node: NodeContext, /) -> ValueGetterAsOf | None:
        above, compute = self.table.bind_as_of(node), self.compute
        if above is None:
            return None

        def get(key: Any, timestamp: int) -> tuple[Any, ...] | None:
            row = above(key, timestamp)
            value = None if row is None else compute(key, row[0])
            return None if row is None or value is None else (value, row[1])

        return get


@dataclass(frozen=True, slots=True)
class _TransformedRows:
    """Rows of a table that keeps none: transformed at each look, outside of any input record."""

    table: ValueGetterSupplier
    supplier: Callable[[], ValueTransformerWithKey[Any, Any, Any]]

    @property
    def store_names(self) -> tuple[str, ...]:
        return self.table.store_names

    def bind(self, node: NodeContext, /) -> ValueGetter:
        above, transform = self.table.bind(node), self._transform(node)
        return lambda key: transform(key, above(key))

    def bind_as_of(self, node: NodeContext, /) -> ValueGetterAsOf | None:
        above = self.table.bind_as_of(node)
        if above is None:
            return None
        as_of, transform = above, self._transform(node)
        return lambda key, timestamp: transform(key, as_of(key, timestamp))

    def _transform(self, node: NodeContext) -> Callable[[Any, tuple[Any, ...] | None], tuple[Any, ...] | None]:
        user_transform, record = bind_transformer(node, self.supplier), node.record

        def transform(key: Any, row: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
            saved = (record.topic, record.partition, record.offset, record.timestamp, record.headers)
            timestamp = -1 if row is None else row[1]
            record.topic, record.partition, record.offset = None, -1, -1
            record.timestamp, record.headers = timestamp, None
            try:
                value = user_transform(key, None if row is None else row[0])
            finally:
                record.topic, record.partition, record.offset, record.timestamp, record.headers = saved
            return None if value is None else (value, timestamp)

        return transform
