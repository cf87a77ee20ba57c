"""From stream to table and back. Source: ``kstream.internals.{KTableSource,KStreamToTable,KTableToStream}``."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.api.engine import Bound

if TYPE_CHECKING:
    from headrace.api.engine import NodeContext
    from headrace.records import Headers
    from headrace.state.keyvalue import TimestampedKeyValueStore

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TableSource:
    """Each record is the new row of its key; a null value deletes it. Records without a key are dropped.

    ``store_name`` is None while nobody needs the table's rows: then changes are forwarded without old values.
    A record older than its row is applied all the same (and said at DEBUG), as in Java.
    """

    store_name: str | None
    send_old_values: bool = False

    def bind(self, node: NodeContext) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        forward, drop, record, name = node.forward_change, node.drop, node.record, node.name
        if self.store_name is None:

            def process_unstored(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
                if key is None:
                    drop("null key")
                else:
                    forward(key, value, None, True, timestamp, headers)

            return Bound(process_unstored)

        store: TimestampedKeyValueStore[Any, Any] = node.store(self.store_name)
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
                put(key, value, timestamp, headers)
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
            if not cached:
                forward(key, value, old[0] if send_old and old is not None else None, True, timestamp, headers)

        return Bound(process)


@dataclass(frozen=True, slots=True)
class TableToStream:
    """Each change's new value becomes a record."""

    def bind(self, node: NodeContext) -> Bound:
        """See :class:`headrace.api.engine.Operator`."""
        forward = node.forward

        def process_change(
            key: Any, new: Any, old: Any, is_latest: bool, timestamp: int, headers: Headers | None
        ) -> None:
            forward(key, new, timestamp, headers)

        return Bound(process_change=process_change)
