"""What a stream-stream join keeps of records that found no match yet.

The key is a record's time, side and key: ``8-byte timestamp ‖ 0x01 left, 0x00 right ‖ key``, big endian, so that rows
come by time, right before left. The value is a record's value with its side: ``0x01 left, 0x00 right ‖ value``.
Sources: ``state.internals.{TimestampedKeyAndJoinSideSerializer,LeftOrRightValueSerializer}`` (4.4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.api.serde import Deserializer, NeedsContext, Serde, Serializer
from headrace.errors import SerializationException

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.api.serde import SerdeContext

_SIDES = (b"\x00", b"\x01")
_KEY_AT = 9


class TimestampedKeyAndJoinSide(NamedTuple):
    """A record's key, its time (epoch ms), and whether it came from the left side."""

    key: Any
    timestamp: int
    left: bool


class LeftOrRightValue(NamedTuple):
    """A record's value, and whether it came from the left side."""

    value: Any
    left: bool


class TimestampedKeyAndJoinSideSerializer(Serializer[TimestampedKeyAndJoinSide], NeedsContext):
    """Bytes of times, sides and keys. ``inner`` serializes the keys; None for the configured default."""

    def __init__(self, inner: Serializer[Any] | None) -> None:
        self._inner = inner

    def in_context(self, context: SerdeContext) -> TimestampedKeyAndJoinSideSerializer:
        """See :class:`headrace.api.serde.NeedsContext`."""
        return self if self._inner else TimestampedKeyAndJoinSideSerializer(context.key_serde().serializer)

    def serialize(self, topic: str, data: TimestampedKeyAndJoinSide | None) -> bytes | None:
        """See :class:`headrace.api.serde.Serializer`."""
        return None if data is None else self.bind(topic)(data)

    def bind(self, topic: str) -> Callable[[TimestampedKeyAndJoinSide], bytes]:
        """See :class:`headrace.api.serde.Serializer`."""
        assert self._inner is not None, "bound in its context"
        encode = self._inner.bind(topic)
        return lambda data: data[1].to_bytes(8, "big", signed=True) + _SIDES[data[2]] + encode(data[0])


class TimestampedKeyAndJoinSideDeserializer(Deserializer[TimestampedKeyAndJoinSide], NeedsContext):
    """Times, sides and keys of bytes. ``inner`` deserializes the keys; None for the configured default."""

    def __init__(self, inner: Deserializer[Any] | None) -> None:
        self._inner = inner

    def in_context(self, context: SerdeContext) -> TimestampedKeyAndJoinSideDeserializer:
        """See :class:`headrace.api.serde.NeedsContext`."""
        return self if self._inner else TimestampedKeyAndJoinSideDeserializer(context.key_serde().deserializer)

    def deserialize(self, topic: str, data: bytes | None) -> TimestampedKeyAndJoinSide | None:
        """See :class:`headrace.api.serde.Deserializer`."""
        return None if data is None else self.bind(topic)(data)

    def bind(self, topic: str) -> Callable[[bytes], TimestampedKeyAndJoinSide]:
        """See :class:`headrace.api.serde.Deserializer`."""
        assert self._inner is not None, "bound in its context"
        decode = self._inner.bind(topic)

        def deserialize(data: bytes) -> TimestampedKeyAndJoinSide:
            if len(data) < _KEY_AT or data[8] > 1:
                raise SerializationException("these are not the time, side and key of a record of a stream-stream join")
            timestamp = int.from_bytes(data[:8], "big", signed=True)
            return TimestampedKeyAndJoinSide(decode(data[_KEY_AT:]), timestamp, data[8] == 1)

        return deserialize


class LeftOrRightValueSerializer(Serializer[LeftOrRightValue], NeedsContext):
    """Bytes of values of either side. ``left`` and ``right`` serialize them; None for the configured default."""

    def __init__(self, left: Serializer[Any] | None, right: Serializer[Any] | None) -> None:
        self._left, self._right = left, right

    def in_context(self, context: SerdeContext) -> LeftOrRightValueSerializer:
        """See :class:`headrace.api.serde.NeedsContext`."""
        if self._left and self._right:
            return self
        default = context.value_serde().serializer
        return LeftOrRightValueSerializer(self._left or default, self._right or default)

    def serialize(self, topic: str, data: LeftOrRightValue | None) -> bytes | None:
        """See :class:`headrace.api.serde.Serializer`."""
        return None if data is None else self.bind(topic)(data)

    def bind(self, topic: str) -> Callable[[LeftOrRightValue], bytes]:
        """See :class:`headrace.api.serde.Serializer`."""
        assert self._left is not None, "bound in its context"
        assert self._right is not None, "bound in its context"
        encode = (self._right.bind(topic), self._left.bind(topic))
        return lambda data: _SIDES[data[1]] + encode[data[1]](data[0])


class LeftOrRightValueDeserializer(Deserializer[LeftOrRightValue], NeedsContext):
    """Values of either side of bytes. ``left`` and ``right`` deserialize them; None for the configured default."""

    def __init__(self, left: Deserializer[Any] | None, right: Deserializer[Any] | None) -> None:
        self._left, self._right = left, right

    def in_context(self, context: SerdeContext) -> LeftOrRightValueDeserializer:
        """See :class:`headrace.api.serde.NeedsContext`."""
        if self._left and self._right:
            return self
        default = context.value_serde().deserializer
        return LeftOrRightValueDeserializer(self._left or default, self._right or default)

    def deserialize(self, topic: str, data: bytes | None) -> LeftOrRightValue | None:
        """See :class:`headrace.api.serde.Deserializer`."""
        return None if data is None else self.bind(topic)(data)

    def bind(self, topic: str) -> Callable[[bytes], LeftOrRightValue]:
        """See :class:`headrace.api.serde.Deserializer`."""
        assert self._left is not None, "bound in its context"
        assert self._right is not None, "bound in its context"
        decode = (self._right.bind(topic), self._left.bind(topic))

        def deserialize(data: bytes) -> LeftOrRightValue:
            if not data or data[0] > 1:
                raise SerializationException("this is not the value of a record of a stream-stream join")
            return LeftOrRightValue(decode[data[0]](data[1:]), data[0] == 1)

        return deserialize


def join_side_key_serde(inner: Serde[Any] | None) -> Serde[TimestampedKeyAndJoinSide]:
    """Times, sides and keys as bytes. ``inner`` is the keys' serde; None for the configured default."""
    return Serde(
        TimestampedKeyAndJoinSideSerializer(None if inner is None else inner.serializer),
        TimestampedKeyAndJoinSideDeserializer(None if inner is None else inner.deserializer),
    )


def join_side_value_serde(left: Serde[Any] | None, right: Serde[Any] | None) -> Serde[LeftOrRightValue]:
    """Values of either side as bytes. ``left`` and ``right`` are their serdes; None for the configured default."""
    return Serde(
        LeftOrRightValueSerializer(
            None if left is None else left.serializer, None if right is None else right.serializer
        ),
        LeftOrRightValueDeserializer(
            None if left is None else left.deserializer, None if right is None else right.deserializer
        ),
    )
