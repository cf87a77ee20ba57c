"""Stores of several values a key: what stream-stream joins keep of records without a match.

Row and changelog value are the key's whole list in the layout of :class:`headrace.serdes.ListSerde` over bytes.
Source: ``state.internals.{ListValueStore,ChangeLoggingListValueBytesStore}`` (4.4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from headrace.serdes import ListSerde, Serdes
from headrace.state.base import StoreBase
from headrace.state.formats import PLAIN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.api.serde import Serde
    from headrace.state.buffer import BufferedStore
    from headrace.state.context import StoreContext

K = TypeVar("K")
V = TypeVar("V")

_LISTS: Final = ListSerde(list, Serdes.Bytes())
_encode_list = _LISTS.serializer.bind("")
_decode_list = _LISTS.deserializer.bind("")


class ListValueStore(StoreBase[K, V]):
    """Keys to lists of values, in the order of the keys' bytes. It is never cached."""

    def __init__(self, rows: BufferedStore, key_serde: Serde[K], value_serde: Serde[V], context: StoreContext) -> None:
        super().__init__(rows, key_serde, value_serde, PLAIN, context, caching=False)

    def put(self, key: K, value: V | None) -> None:
        """Append a value to the key's list; None deletes the list. The changelog record has the record's time."""
        raw_key = self._key(key)
        raw = None
        if value is not None:
            old = self.rows.get(raw_key)
            raw = _encode_list([*(() if old is None else _decode_list(old)), self._encode(value)])
        self._write(raw_key, raw, self._record.timestamp, None)

    def delete_if_present(self, key: K) -> bool:
        """Delete the key's list, should there be one; else nothing is written, to the changelog neither.

        Returns whether there was one. Source: ``putIfAbsent`` with a null value, as the join calls it.
        """
        raw_key = self._key(key)
        if self.rows.get(raw_key) is None:
            return False
        self._write(raw_key, None, self._record.timestamp, None)
        return True

    def get(self, key: K) -> list[V]:
        """The key's values, in the order in which they were put; empty when there is none."""
        raw = self.rows.get(self._key(key))
        return [] if raw is None else [self._decode(value) for value in _decode_list(raw)]

    def all(self) -> Iterator[tuple[K, V]]:
        """Every value with its key, in the order of the keys' bytes; a snapshot, read only as far as it is taken."""
        self._check_open()
        decode_key, decode = self._decode_key, self._decode
        for raw_key, raw in self.rows.scan(None, None):
            key = decode_key(raw_key)
            for value in _decode_list(raw):
                yield key, decode(value)
