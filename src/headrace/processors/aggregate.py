"""Aggregations of a grouped stream without windows. Source: ``kstream.internals.{KStreamAggregate,KStreamReduce}``.

A record without a key or value is dropped (counted). The result's time is the later of the record's and the old
row's. A result of None deletes the row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.api.engine import Bound
from headrace.processors.rows import StoreRows, TableOperator
from headrace.state.versioned import VersionedKeyValueStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.api.engine import NodeContext, ValueGetterSupplier
    from headrace.processors.rows import TableStore
    from headrace.records import Headers


@dataclass(frozen=True, slots=True)
class StreamAggregate(TableOperator):
    """``aggregator(key, value, aggregate) -> aggregate`` from ``initializer()`` on."""

    store_name: str
    initializer: Callable[[], Any]
    aggregator: Callable[[Any, Any, Any], Any]

    def rows(self, *inputs: ValueGetterSupplier) -> StoreRows:
        """See :class:`headrace.processors.rows.TableOperator`."""
        return StoreRows(self.store_name)

    def bind(self, node: NodeContext, /) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        initializer, aggregator, user_error = self.initializer, self.aggregator, node.user_error
        forward, drop = node.forward_change, node.drop
        store: TableStore[Any, Any] = node.store(self.store_name)
        cached = store.set_flush_listener(forward, self.send_old_values)
        send_old, versioned = self.send_old_values, isinstance(store, VersionedKeyValueStore)
        get, put = store.get_pair, store.put_pair

        def process(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            if key is None or value is None:
                drop("null key" if key is None else "null value")
                return
            new_timestamp = timestamp
            # the store's serdes are the user's code too: they fail on a key or aggregate of another type
            try:
                row = get(key)
                if row is not None and row[1] > timestamp:
                    new_timestamp = row[1]
                sent_old = None
                if send_old and not cached:
                    # the user may change the old aggregate in place, so it may not be what is sent as old: read it
                    # again; that of a key without a row is what it begins with
                    sent_old = initializer() if row is None else (get(key) or row)[0]
                aggregate = aggregator(key, value, initializer() if row is None else row[0])
                deletion = aggregate is None and not versioned
                is_latest = put(key, aggregate, timestamp if deletion else new_timestamp, headers)
            except Exception as e:
                user_error(e, key, value, timestamp, headers)
                return
            if not cached and is_latest is not None:
                forward(key, aggregate, sent_old, is_latest, new_timestamp, headers)

        return Bound(process)


@dataclass(frozen=True, slots=True)
class StreamReduce(TableOperator):
    """``reducer(old, value) -> value``; the first value of a key stands as it is."""

    store_name: str
    reducer: Callable[[Any, Any], Any]

    def rows(self, *inputs: ValueGetterSupplier) -> StoreRows:
        """See :class:`headrace.processors.rows.TableOperator`."""
        return StoreRows(self.store_name)

    def bind(self, node: NodeContext, /) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        reducer, user_error = self.reducer, node.user_error
        forward, drop = node.forward_change, node.drop
        store: TableStore[Any, Any] = node.store(self.store_name)
        cached = store.set_flush_listener(forward, self.send_old_values)
        send_old, versioned = self.send_old_values, isinstance(store, VersionedKeyValueStore)
        get, put, apart = store.get_pair, store.put_pair, store.apart

        def process(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            if key is None or value is None:
                drop("null key" if key is None else "null value")
                return
            new_timestamp = timestamp
            sent_old = None
            reduced = value
            # the store's serdes are the user's code too: they fail on a key or value of another type
            try:
                row = get(key)
                if row is not None:
                    if row[1] > timestamp:
                        new_timestamp = row[1]
                    if send_old and not cached:
                        sent_old = (get(key) or row)[0]
                    reduced = reducer(row[0], value)
                deletion = reduced is None and not versioned
                is_latest = put(key, reduced, timestamp if deletion else new_timestamp, headers)
                if not cached:
                    reduced = apart(reduced, value)
            except Exception as e:
                user_error(e, key, value, timestamp, headers)
                return
            if not cached and is_latest is not None:
                forward(key, reduced, sent_old, is_latest, new_timestamp, headers)

        return Bound(process)
