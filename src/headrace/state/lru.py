"""Rows of the most recently used keys only. Source: ``state.internals.{MemoryLRUCache,MemoryNavigableLRUCache}``."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from headrace.state.buffer import BufferedStore

if TYPE_CHECKING:
    from headrace.api.stores import KeyValueBody
    from headrace.records import Headers
    from headrace.state.buffer import Log


class LruRows(BufferedStore):
    """A :class:`~headrace.state.buffer.BufferedStore` that forgets the least recently used row when it has too many.

    What it forgets is deleted like any row: with the commit. Reads of single rows count as use, scans do not.
    """

    def __init__(
        self, name: str, body: KeyValueBody, log: Log | None, max_entries: int, *, log_forgotten: bool
    ) -> None:
        """Begin with what ``body`` has.

        Args:
            name: The store's name.
            body: Committed rows.
            log: Writes the changelog, or None.
            max_entries: Rows kept.
            log_forgotten: The changelog is told what was forgotten (Java does so for plain values only: a restore of
                timestamped ones forgets by itself).
        """
        super().__init__(name, body, log)
        self._max_entries = max_entries
        self._log_forgotten = log_forgotten
        self._used: OrderedDict[bytes, None] = OrderedDict()
        self._reload()

    def get(self, key: bytes) -> bytes | None:
        """See :class:`BufferedStore`."""
        found = super().get(key)
        if found is not None:
            self._used.move_to_end(key)
        return found

    def put(
        self,
        key: bytes,
        stored: bytes | None,
        logged: bytes | None,
        timestamp: int | None,
        headers: Headers | None = None,
    ) -> None:
        """See :class:`BufferedStore`."""
        for forgotten in self._use(key, stored):
            if self.log is not None and self._log_forgotten:
                self.log(forgotten, None, timestamp, None)
            self.write(forgotten, None)
        # one that is full of nothing forgets at once what is put into it
        super().put(key, stored if key in self._used else None, logged, timestamp, headers)

    def drop(self) -> None:
        """See :class:`BufferedStore`."""
        super().drop()
        self._reload()

    def restore(self, rows: list[tuple[bytes, bytes | None]], offset: int | None, expired: bytes | None = None) -> None:
        """See :class:`BufferedStore`."""
        kept: list[tuple[bytes, bytes | None]] = []
        for row in rows:
            kept.append(row)
            kept.extend((forgotten, None) for forgotten in self._use(*row))
        super().restore(kept, offset, expired)

    def _use(self, key: bytes, stored: bytes | None) -> list[bytes]:
        used = self._used
        if stored is None:
            used.pop(key, None)
            return []
        used[key] = None
        used.move_to_end(key)
        return [used.popitem(last=False)[0] for _ in range(len(used) - self._max_entries)]

    def _reload(self) -> None:
        self._used = OrderedDict((key, None) for key, _ in self.body.scan(None, None, reverse=False))
