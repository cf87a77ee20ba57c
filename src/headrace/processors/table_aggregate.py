"""Grouping a table by another key, and aggregations that subtract what was before they add what is.

Sources: ``kstream.internals.{KTableRepartitionMap,KTableAggregate,KTableReduce}``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.api.engine import Bound
from headrace.errors import StreamsException
from headrace.processors.rows import StoreRows, TableOperator
from headrace.processors.stateless import pair_of
from headrace.state.versioned import VersionedKeyValueStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.api.engine import NodeContext, ValueGetterSupplier
    from headrace.processors.rows import TableStore
    from headrace.records import Headers

_ONE_VALUE_A_RECORD: Final = frozenset(
    f"{major}.{minor}"
    for major, minors in {0: ("10.0", "10.1", "10.2", "11.0"), 1: range(2), 2: range(9), 3: range(5)}.items()
    for minor in minors
)
"""Values of ``upgrade.from``: the releases that cannot read a record with both values."""


@dataclass(frozen=True, slots=True)
class TableRepartitionMap:
    """The new key and value of each row, ``selector(key, value) -> (key, value)``, as ``(new, old)`` for the topic.

    When the key stays, one record carries both; otherwise, and while old members of the group may read the topic
    (``upgrade.from``), the old value goes to the old key first. A pair whose key or value is None is left out.
    ``versioned``: a late change of a versioned table is not of the latest row, so it does not count.
    """

    selector: Callable[[Any, Any], tuple[Any, Any]]
    versioned: bool = False

    def bind(self, node: NodeContext, /) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        selector, versioned = self.selector, self.versioned
        forward, user_error = node.forward, node.user_error
        both_in_one = str(node.app_configs.get("upgrade.from")) not in _ONE_VALUE_A_RECORD

        def select(key: Any, value: Any) -> tuple[Any, Any] | None:
            if value is None:
                return None
            selected = pair_of(selector(key, value), "group_by")
            return selected if selected[0] is not None and selected[1] is not None else None

        def process_change(
            key: Any, new: Any, old: Any, is_latest: bool, timestamp: int, headers: Headers | None
        ) -> None:
            if versioned and not is_latest:
                return
            try:
                if key is None:
                    raise StreamsException(
                        f"{node.name} groups a table by another key, but a row has no key to begin with"
                    )
                new_pair, old_pair = select(key, new), select(key, old)
                stays = new_pair is not None and old_pair is not None and old_pair[0] == new_pair[0]
            except Exception as e:
                user_error(e, key, new, timestamp, headers)
                return
            if both_in_one and stays and new_pair is not None and old_pair is not None:
                forward(old_pair[0], (new_pair[1], old_pair[1]), timestamp, headers)
                return
            if old_pair is not None:
                forward(old_pair[0], (None, old_pair[1]), timestamp, headers)
            if new_pair is not None:
                forward(new_pair[0], (new_pair[1], None), timestamp, headers)

        return Bound(process_change=process_change)


@dataclass(frozen=True, slots=True)
class TableAggregate(TableOperator):
    """``subtractor(key, old, aggregate)``, then ``adder(key, new, aggregate)``, each ``-> aggregate``.

    Nothing is subtracted where there is no aggregate; what is added to then is ``initializer()``. The result's time is
    the later of the record's and the old row's. A result of None deletes the row.
    """

    store_name: str
    initializer: Callable[[], Any]
    adder: Callable[[Any, Any, Any], Any]
    subtractor: Callable[[Any, Any, Any], Any]

    def rows(self, *inputs: ValueGetterSupplier) -> StoreRows:
        """See :class:`headrace.processors.rows.TableOperator`."""
        return StoreRows(self.store_name)

    def bind(self, node: NodeContext, /) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        initializer, adder, subtractor = self.initializer, self.adder, self.subtractor

        def update(key: Any, new: Any, old: Any, aggregate: Any) -> Any:
            if old is not None and aggregate is not None:
                aggregate = subtractor(key, old, aggregate)
            if new is not None:
                aggregate = adder(key, new, initializer() if aggregate is None else aggregate)
            return aggregate

        return _bind(node, self, self.store_name, update)


@dataclass(frozen=True, slots=True)
class TableReduce(TableOperator):
    """``subtractor(value, old)``, then ``adder(value, new)``, each ``-> value``; the first value stands as it is."""

    store_name: str
    adder: Callable[[Any, Any], Any]
    subtractor: Callable[[Any, Any], Any]

    def rows(self, *inputs: ValueGetterSupplier) -> StoreRows:
        """See :class:`headrace.processors.rows.TableOperator`."""
        return StoreRows(self.store_name)

    def bind(self, node: NodeContext, /) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        adder, subtractor = self.adder, self.subtractor

        def update(key: Any, new: Any, old: Any, value: Any) -> Any:
            if old is not None and value is not None:
                value = subtractor(value, old)
            if new is not None:
                value = new if value is None else adder(value, new)
            return value

        return _bind(node, self, self.store_name, update)


def _bind(
    node: NodeContext, operator: TableOperator, store_name: str, update: Callable[[Any, Any, Any, Any], Any]
) -> Bound:
    user_error, forward, send_old = node.user_error, node.forward_change, operator.send_old_values
    store: TableStore[Any, Any] = node.store(store_name)
    cached = store.set_flush_listener(forward, send_old)
    get, put, versioned = store.get_pair, store.put_pair, isinstance(store, VersionedKeyValueStore)

    def process(key: Any, change: tuple[Any, Any], timestamp: int, headers: Headers | None) -> None:
        new, old = change
        new_timestamp = timestamp
        # the store's serdes are the user's code too: they fail on a key or aggregate of another type
        try:
            if key is None:
                raise StreamsException(f"a change without a key cannot be aggregated into the store {store_name}")
            row = get(key)
            before = None if row is None else row[0]
            if row is not None and row[1] > timestamp:
                new_timestamp = row[1]
            # the user may change the old aggregate in place, so it may not be what is sent as old: read it again
            sent_old = None if row is None or not send_old or cached else (get(key) or row)[0]
            aggregate = update(key, new, old, before)
            deletion = aggregate is None and not versioned
            is_latest = put(key, aggregate, timestamp if deletion else new_timestamp, headers)
        except Exception as e:
            user_error(e, key, new, timestamp, headers)
            return
        if not cached and is_latest is not None:
            forward(key, aggregate, sent_old, is_latest, new_timestamp, headers)

    return Bound(process)
