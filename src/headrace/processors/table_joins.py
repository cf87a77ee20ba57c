"""Joins of two tables by their key. Source: ``kstream.internals.KTableKTable{Inner,Left,Right,Outer}Join``.

Each side looks the other one's row up when it changes itself, and both send what they find to one node below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.api.engine import Bound
from headrace.processors.rows import StoreRows, TableOperator

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.api.engine import NodeContext, ProcessChange, ValueGetter, ValueGetterAsOf, ValueGetterSupplier
    from headrace.processors.rows import TableStore
    from headrace.records import Headers


@dataclass(frozen=True, slots=True)
class TableJoinSide(TableOperator):
    """One side of a join: ``joiner(own value, other value)`` for each change of its own table.

    ``needs_own`` and ``needs_other``: there is no row without a value of that table (inner: both, left: the left one,
    outer: none). A result has the later time of both rows. ``versioned``: a late change of a versioned table is
    dropped.
    """

    other: ValueGetterSupplier
    joiner: Callable[[Any, Any], Any]
    needs_own: bool
    needs_other: bool
    versioned: bool = False

    def bind(self, node: NodeContext, /) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        joiner, needs_own, needs_other, versioned = self.joiner, self.needs_own, self.needs_other, self.versioned
        forward, drop, user_error, send_old = node.forward_change, node.drop, node.user_error, self.send_old_values
        get = self.other.bind(node)

        def process_change(
            key: Any, new: Any, old: Any, is_latest: bool, timestamp: int, headers: Headers | None
        ) -> None:
            if key is None:
                drop("null key")
                return
            if versioned and not is_latest:
                drop("late change of a versioned table")
                return
            joined = joined_old = None
            # the other table's serdes are the user's code too: they fail on a key of another type
            try:
                row = get(key)
                if row is None and (needs_other or (new is None and old is None)):
                    return
                without_own = row is not None and not needs_own
                if new is not None or without_own:
                    joined = joiner(new, None if row is None else row[0])
                if send_old and (old is not None or without_own):
                    # the joiner may have put the other value into its result: the old result gets one of its own
                    again = get(key)
                    joined_old = joiner(old, None if again is None else again[0])
            except Exception as e:
                user_error(e, key, new, timestamp, headers)
                return
            later = row is not None and row[1] > timestamp
            forward(key, joined, joined_old, is_latest, row[1] if later and row is not None else timestamp, headers)

        return Bound(process_change=process_change)


@dataclass(frozen=True, slots=True)
class TableJoinMerge(TableOperator):
    """Where both sides of a join meet; keeps the result when there is a store for it."""

    store_name: str | None
    computed: JoinedRows

    def rows(self, *inputs: ValueGetterSupplier) -> ValueGetterSupplier:
        """See :class:`headrace.processors.rows.TableOperator`."""
        return self.computed if self.store_name is None else StoreRows(self.store_name)

    def bind(self, node: NodeContext, /) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        # the sides send old values exactly when this node does
        return Bound(process_change=node.forward_change if self.store_name is None else self._stored(node))

    def _stored(self, node: NodeContext) -> ProcessChange:
        forward, user_error = node.forward_change, node.user_error
        store: TableStore[Any, Any] = node.store(self.store_name or "")
        cached = store.set_flush_listener(forward, self.send_old_values)
        put = store.put_pair

        def process_change(
            key: Any, new: Any, old: Any, is_latest: bool, timestamp: int, headers: Headers | None
        ) -> None:
            try:
                put_as_latest = put(key, new, timestamp, headers)
            except Exception as e:
                user_error(e, key, new, timestamp, headers)
                return
            if not cached and put_as_latest is not None:
                forward(key, new, old, put_as_latest, timestamp, headers)

        return process_change


@dataclass(frozen=True, slots=True)
class JoinedRows:
    """Rows of a join that keeps none: joined at each look."""

    left: ValueGetterSupplier
    right: ValueGetterSupplier
    joiner: Callable[[Any, Any], Any]
    needs_left: bool
    needs_right: bool

    @property
    def store_names(self) -> tuple[str, ...]:
        """See :class:`headrace.api.engine.ValueGetterSupplier`."""
        return tuple(dict.fromkeys((*self.left.store_names, *self.right.store_names)))

    def bind(self, node: NodeContext, /) -> ValueGetter:
        """See :class:`headrace.api.engine.ValueGetterSupplier`."""
        get_left, get_right, joiner = self.left.bind(node), self.right.bind(node), self.joiner
        needs_left, needs_right = self.needs_left, self.needs_right

        def get(key: Any) -> tuple[Any, ...] | None:
            left = get_left(key)
            if left is None and needs_left:
                return None
            right = get_right(key)
            if right is None and (needs_right or left is None):
                return None
            value = joiner(None if left is None else left[0], None if right is None else right[0])
            timestamp = max(-1 if left is None else left[1], -1 if right is None else right[1])
            return None if value is None else (value, timestamp)

        return get

    def bind_as_of(self, node: NodeContext, /) -> ValueGetterAsOf | None:
        """None: a join has no versions, not even one of versioned tables."""
        return None
