"""Where the records of one side of a join of two streams are kept: every one of them, also of one key and time.

Rows hold bare values; their changelog records have the records' times and headers. Source:
``kstream.internals.StreamJoinedStoreFactory`` (4.4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from headrace.state.builders import WindowStoreBuilder
from headrace.state.formats import LOGGED_HEADERS
from headrace.state.window import WindowStore

if TYPE_CHECKING:
    from headrace.records import Headers
    from headrace.state.context import StoreContext

K = TypeVar("K")
V = TypeVar("V")


class JoinWindowStore(WindowStore[K, V]):
    """Records by key and time. Each opens a window of its own, which says how long it is kept."""

    _logs_nothing_put = True

    def encode(self, value: V) -> bytes:
        """The bytes of a value, for :meth:`add`: whatever becomes of the value, they stay as they are."""
        return self._encode(value)

    def add(self, key: K, raw: bytes | None, timestamp: int, headers: Headers | None) -> None:
        """Keep one more record. One without a value has a changelog record and is not kept, as in Java."""
        self._add(self._encode_key(key), raw, timestamp, timestamp, headers)


@dataclass(frozen=True)
class JoinWindowStoreBuilder(WindowStoreBuilder[K, V]):
    """Records of one side of a join. Such stores are never cached."""

    def build(self, context: StoreContext) -> JoinWindowStore[K, V]:
        """See :class:`headrace.state.builders.StoreBuilder`."""
        rows, serdes = self._rows(context), self._serdes(context)
        return JoinWindowStore(rows, *serdes, self.supplier, context, caching=False, row_format=LOGGED_HEADERS)
