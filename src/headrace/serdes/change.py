"""A table's change on its way through a repartition topic: the bytes of the new and the old value in one record.

Layouts, by the last byte::

    {old} 0
    {new} 1
    {length of new as a zigzag varint} {new} {old} 2

Since Kafka 3.5 both values of a change that keeps its key are in one record; before, they were two. Later versions may
write the layouts 3 to 5, which are 0 to 2 with one byte before the last that says whether the change is the latest of
its key. Sources: ``kstream.internals.{ChangedSerializer,ChangedDeserializer}`` (4.4), KIP-904.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from headrace.api.serde import Deserializer, NeedsContext, Serde, Serializer
from headrace.errors import SerializationException
from headrace.serdes.varints import decode_varint, encode_varint

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.api.serde import SerdeContext

Change: TypeAlias = "tuple[Any, Any]"
"""``(new, old)``, each None where there is none."""

_OLD, _NEW, _BOTH = 0, 1, 2
_WITH_LATEST = 3


class ChangeSerializer(Serializer["Change"], NeedsContext):
    """Bytes of changes. ``inner`` serializes the values; None for the configured default."""

    def __init__(self, inner: Serializer[Any] | None) -> None:
        self._inner = inner

    def in_context(self, context: SerdeContext) -> ChangeSerializer:
        """See :class:`headrace.api.serde.NeedsContext`."""
        return self if self._inner is not None else ChangeSerializer(context.value_serde().serializer)

    def serialize(self, topic: str, data: Change | None) -> bytes | None:
        """See :class:`headrace.api.serde.Serializer`."""
        return None if data is None else self.bind(topic)(data)

    def bind(self, topic: str) -> Callable[[Change], bytes]:
        """See :class:`headrace.api.serde.Serializer`."""
        assert self._inner is not None, "bound in its context"
        encode = self._inner.bind(topic)

        def serialize(change: Change) -> bytes:
            new, old = change
            if new is None:
                if old is None:
                    raise SerializationException("a change of nothing into nothing has no encoding")
                return encode(old) + b"\x00"
            if old is None:
                return encode(new) + b"\x01"
            raw = encode(new)
            return encode_varint(len(raw)) + raw + encode(old) + b"\x02"

        return serialize


class ChangeDeserializer(Deserializer["Change"], NeedsContext):
    """Changes of bytes. ``inner`` deserializes the values; None for the configured default."""

    def __init__(self, inner: Deserializer[Any] | None) -> None:
        self._inner = inner

    def in_context(self, context: SerdeContext) -> ChangeDeserializer:
        """See :class:`headrace.api.serde.NeedsContext`."""
        return self if self._inner is not None else ChangeDeserializer(context.value_serde().deserializer)

    def deserialize(self, topic: str, data: bytes | None) -> Change | None:
        """See :class:`headrace.api.serde.Deserializer`."""
        return None if data is None else self.bind(topic)(data)

    def bind(self, topic: str) -> Callable[[bytes], Change]:
        """See :class:`headrace.api.serde.Deserializer`."""
        assert self._inner is not None, "bound in its context"
        decode = self._inner.bind(topic)

        def deserialize(data: bytes) -> Change:
            new, old = split_change(data)
            return None if new is None else decode(new), None if old is None else decode(old)

        return deserialize


def change_serde(inner: Serde[Any] | None) -> Serde[Change]:
    """Changes as bytes. ``inner`` is the values' serde; None for the configured default."""
    return Serde(
        ChangeSerializer(None if inner is None else inner.serializer),
        ChangeDeserializer(None if inner is None else inner.deserializer),
    )


def split_change(data: bytes) -> tuple[bytes | None, bytes | None]:
    """The bytes of the new and of the old value.

    Raises:
        SerializationException: ``data`` is not the encoding of a change.
    """
    if not data or data[-1] >= 2 * _WITH_LATEST:
        raise SerializationException(f"a change of a table does not end with {data[-1:].hex() or 'nothing'}")
    layout, end = data[-1], len(data) - 1
    if layout >= _WITH_LATEST:
        layout, end = layout - _WITH_LATEST, end - 1
    if layout == _NEW:
        return data[:end], None
    if layout == _OLD:
        return None, data[:end]
    length, start = decode_varint(data, 0, "the length of the new value in a change of a table")
    middle = start + length
    if not start <= middle <= end:
        raise SerializationException(f"a change of a table says {length} bytes of new value, but has {end - start}")
    return data[start:middle], data[middle:end]
