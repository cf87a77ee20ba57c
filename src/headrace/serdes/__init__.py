"""Serdes that come with the library, and the factory :class:`Serdes`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from headrace.api.serde import Deserializer, Serde, Serializer
from headrace.serdes.json import JsonDeserializer, JsonSerde, JsonSerializer, is_immutable_type
from headrace.serdes.lists import ListDeserializer, ListSerde, ListSerializer
from headrace.serdes.primitives import (
    BooleanDeserializer,
    BooleanSerde,
    BooleanSerializer,
    ByteArrayDeserializer,
    ByteArraySerde,
    ByteArraySerializer,
    ByteBufferDeserializer,
    ByteBufferSerde,
    ByteBufferSerializer,
    BytesDeserializer,
    BytesSerde,
    BytesSerializer,
    DoubleDeserializer,
    DoubleSerde,
    DoubleSerializer,
    FloatDeserializer,
    FloatSerde,
    FloatSerializer,
    IntegerDeserializer,
    IntegerSerde,
    IntegerSerializer,
    LongDeserializer,
    LongSerde,
    LongSerializer,
    ShortDeserializer,
    ShortSerde,
    ShortSerializer,
    StringDeserializer,
    StringSerde,
    StringSerializer,
    UUIDDeserializer,
    UUIDSerde,
    UUIDSerializer,
    VoidDeserializer,
    VoidSerde,
    VoidSerializer,
)
from headrace.serdes.value_and_timestamp import join_value_and_timestamp, split_value_and_timestamp, timestamp_of
from headrace.serdes.windowed import (
    SessionWindowedDeserializer,
    SessionWindowedSerde,
    SessionWindowedSerializer,
    TimeWindowedDeserializer,
    TimeWindowedSerde,
    TimeWindowedSerializer,
    WindowedSerdes,
    WindowedSerializer,
    WindowedStreamPartitioner,
)

if TYPE_CHECKING:
    import uuid

T = TypeVar("T")


class Serdes:
    """Factory of serdes under Java's names. Source: ``org.apache.kafka.common.serialization.Serdes``.

    ``Serdes.String()``, ``Serdes.Long()`` and so on; what they make has no state, so it may be shared freely.
    """

    @staticmethod
    def String() -> Serde[str]:  # noqa: N802  # Java's name
        """Text as UTF-8."""
        return StringSerde()

    @staticmethod
    def Bytes() -> Serde[bytes]:  # noqa: N802  # Java's name
        """Bytes as they are."""
        return BytesSerde()

    @staticmethod
    def ByteArray() -> Serde[bytes]:  # noqa: N802  # Java's name
        """Bytes as they are: Python has one type for Java's ``Bytes`` and ``byte[]``."""
        return ByteArraySerde()

    @staticmethod
    def ByteBuffer() -> Serde[Any]:  # noqa: N802  # Java's name
        """Any buffer (bytes, bytearray, memoryview) as its bytes, read as a read-only memoryview."""
        return ByteBufferSerde()

    @overload
    @staticmethod
    def ListSerde(list_class: type[list[Any]], inner: Serde[T]) -> Serde[list[T]]: ...
    @overload
    @staticmethod
    def ListSerde(list_class: type[tuple[Any, ...]], inner: Serde[T]) -> Serde[tuple[T, ...]]: ...
    @staticmethod
    def ListSerde(list_class: Any, inner: Serde[Any]) -> Serde[Any]:  # noqa: N802  # Java's name
        """Lists (or tuples) of values of one serde; elements may be None."""
        return ListSerde(list_class, inner)  # pyright: ignore[reportUnknownVariableType]  # the overloads say it

    @staticmethod
    def Long() -> Serde[int]:  # noqa: N802  # Java's name
        """Signed 64-bit integers, 8 bytes big-endian."""
        return LongSerde()

    @staticmethod
    def Integer() -> Serde[int]:  # noqa: N802  # Java's name
        """Signed 32-bit integers, 4 bytes big-endian."""
        return IntegerSerde()

    @staticmethod
    def Short() -> Serde[int]:  # noqa: N802  # Java's name
        """Signed 16-bit integers, 2 bytes big-endian."""
        return ShortSerde()

    @staticmethod
    def Double() -> Serde[float]:  # noqa: N802  # Java's name
        """IEEE 754 doubles, 8 bytes big-endian."""
        return DoubleSerde()

    @staticmethod
    def Float() -> Serde[float]:  # noqa: N802  # Java's name
        """IEEE 754 singles, 4 bytes big-endian."""
        return FloatSerde()

    @staticmethod
    def Boolean() -> Serde[bool]:  # noqa: N802  # Java's name
        """One byte, 1 or 0."""
        return BooleanSerde()

    @staticmethod
    def UUID() -> Serde[uuid.UUID]:  # noqa: N802  # Java's name
        """UUIDs in their 36-character text form."""
        return UUIDSerde()

    @staticmethod
    def Void() -> Serde[None]:  # noqa: N802  # Java's name
        """Null only."""
        return VoidSerde()

    @staticmethod
    def from_(serializer: Serializer[T], deserializer: Deserializer[T]) -> Serde[T]:
        """A serde of two halves (Java's ``serdeFrom``). Nothing is assumed of its values: not immutable, not exact."""
        return Serde(serializer, deserializer)


__all__ = [
    "BooleanDeserializer",
    "BooleanSerde",
    "BooleanSerializer",
    "ByteArrayDeserializer",
    "ByteArraySerde",
    "ByteArraySerializer",
    "ByteBufferDeserializer",
    "ByteBufferSerde",
    "ByteBufferSerializer",
    "BytesDeserializer",
    "BytesSerde",
    "BytesSerializer",
    "Deserializer",
    "DoubleDeserializer",
    "DoubleSerde",
    "DoubleSerializer",
    "FloatDeserializer",
    "FloatSerde",
    "FloatSerializer",
    "IntegerDeserializer",
    "IntegerSerde",
    "IntegerSerializer",
    "JsonDeserializer",
    "JsonSerde",
    "JsonSerializer",
    "ListDeserializer",
    "ListSerde",
    "ListSerializer",
    "LongDeserializer",
    "LongSerde",
    "LongSerializer",
    "Serde",
    "Serdes",
    "Serializer",
    "SessionWindowedDeserializer",
    "SessionWindowedSerde",
    "SessionWindowedSerializer",
    "ShortDeserializer",
    "ShortSerde",
    "ShortSerializer",
    "StringDeserializer",
    "StringSerde",
    "StringSerializer",
    "TimeWindowedDeserializer",
    "TimeWindowedSerde",
    "TimeWindowedSerializer",
    "UUIDDeserializer",
    "UUIDSerde",
    "UUIDSerializer",
    "VoidDeserializer",
    "VoidSerde",
    "VoidSerializer",
    "WindowedSerdes",
    "WindowedSerializer",
    "WindowedStreamPartitioner",
    "is_immutable_type",
    "join_value_and_timestamp",
    "split_value_and_timestamp",
    "timestamp_of",
]
