"""Serdes of single values, with the bytes of ``org.apache.kafka.common.serialization``.

Types are checked, never coerced: a bool is not an integer here, a numpy number is not an int. Numbers are big-endian.
The functions that check take ``object``: their callers may be untyped.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar
from uuid import UUID

from headrace.api.serde import Deserializer, Serde, Serializer
from headrace.errors import SerializationException

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class _PrimitiveSerializer(Serializer[T], Generic[T]):
    """Wraps what a bound function may let out; subclasses say how a value becomes bytes."""

    def serialize(self, topic: str, data: T | None) -> bytes | None:
        """See :meth:`Serializer.serialize`."""
        if data is None:
            return None
        try:
            return self.bind(topic)(data)
        except (TypeError, UnicodeEncodeError) as e:
            raise SerializationException(
                f"{type(self).__name__} cannot serialize a {type(data).__name__} for topic '{topic}': {e}"
            ) from e


class _PrimitiveDeserializer(Deserializer[T], Generic[T]):
    """Wraps what a bound function may let out; subclasses say how bytes become a value."""

    def deserialize(self, topic: str, data: bytes | None) -> T | None:
        """See :meth:`Deserializer.deserialize`."""
        if data is None:
            return None
        try:
            return self.bind(topic)(data)
        except (TypeError, UnicodeDecodeError) as e:
            raise SerializationException(
                f"{type(self).__name__} cannot deserialize the data received from topic '{topic}': {_reason(e)}"
            ) from e


def _reason(error: Exception) -> str:
    # The text of a UnicodeDecodeError shows a byte of the payload.
    return "it is not valid UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)


def _wrong_type(name: str, wanted: str, data: object) -> NoReturn:
    raise SerializationException(f"{name} takes {wanted}, not a {type(data).__name__}")


def _wrong_size(name: str, size: int, data: bytes) -> NoReturn:
    raise SerializationException(f"{name} needs exactly {size} byte{'s' if size > 1 else ''}, but got {len(data)}")


class StringSerializer(_PrimitiveSerializer[str]):
    """Text as UTF-8, without length or terminator. A lone surrogate is an error (Java writes ``?`` for it)."""

    def bind(self, topic: str) -> Callable[[str], bytes]:
        """See :meth:`Serializer.bind`."""
        return str.encode


class StringDeserializer(_PrimitiveDeserializer[str]):
    """UTF-8 as text. Malformed bytes are an error; Java puts U+FFFD in their place, which alters keys silently."""

    def bind(self, topic: str) -> Callable[[bytes], str]:
        """See :meth:`Deserializer.bind`."""
        return bytes.decode


def _checked_bytes(data: object) -> bytes:
    if not isinstance(data, bytes):
        _wrong_type("BytesSerializer", "bytes", data)
    return data


def _same_bytes(data: bytes) -> bytes:
    return data


class BytesSerializer(_PrimitiveSerializer[bytes]):
    """Bytes as they are. A bytearray or memoryview is refused: it could change after it was handed over."""

    def bind(self, topic: str) -> Callable[[bytes], bytes]:
        """See :meth:`Serializer.bind`."""
        return _checked_bytes


class BytesDeserializer(_PrimitiveDeserializer[bytes]):
    """Bytes as they are."""

    def bind(self, topic: str) -> Callable[[bytes], bytes]:
        """See :meth:`Deserializer.bind`."""
        return _same_bytes


def _copied_bytes(data: object) -> bytes:
    if not isinstance(data, bytes | bytearray | memoryview):
        _wrong_type("ByteBufferSerializer", "bytes, a bytearray or a memoryview", data)
    return bytes(data)  # pyright: ignore[reportUnknownArgumentType]  # a view of any items


class ByteBufferSerializer(_PrimitiveSerializer["bytes | bytearray | memoryview"]):
    """The bytes that a buffer holds now; of a memoryview those in view. Java's ``ByteBuffer``."""

    def bind(self, topic: str) -> Callable[[bytes | bytearray | memoryview], bytes]:
        """See :meth:`Serializer.bind`."""
        return _copied_bytes


class ByteBufferDeserializer(_PrimitiveDeserializer[memoryview]):
    """A read-only view of the bytes."""

    def bind(self, topic: str) -> Callable[[bytes], memoryview]:
        """See :meth:`Deserializer.bind`."""
        return memoryview


def _integer_packer(name: str, layout: str, bits: int) -> Callable[[int], bytes]:
    pack = struct.Struct(layout).pack

    def bound(data: object) -> bytes:
        if type(data) is not int and (not isinstance(data, int) or isinstance(data, bool)):
            _wrong_type(name, "an int", data)
        try:
            return pack(data)
        except struct.error:
            raise SerializationException(
                f"{name} cannot hold an int of {data.bit_length()} bits: it is not a signed {bits}-bit number"
            ) from None

    return bound


def _number_unpacker(name: str, layout: str) -> Callable[[bytes], Any]:
    unpacker = struct.Struct(layout)
    unpack = unpacker.unpack

    def bound(data: bytes) -> Any:
        try:
            return unpack(data)[0]
        except struct.error:
            _wrong_size(name, unpacker.size, data)

    return bound


def _as_float(name: str, data: object) -> float:
    if isinstance(data, float):
        return data
    if isinstance(data, bool) or not isinstance(data, int):
        _wrong_type(name, "a float", data)
    try:
        value = float(data)
    except OverflowError:
        value = float("inf")
    if value != data:
        raise SerializationException(f"{name} cannot hold an int of {data.bit_length()} bits exactly")
    return value


_pack_long = _integer_packer("LongSerializer", ">q", 64)
_unpack_long: Callable[[bytes], int] = _number_unpacker("LongDeserializer", ">q")
_pack_integer = _integer_packer("IntegerSerializer", ">i", 32)
_unpack_integer: Callable[[bytes], int] = _number_unpacker("IntegerDeserializer", ">i")
_pack_short = _integer_packer("ShortSerializer", ">h", 16)
_unpack_short: Callable[[bytes], int] = _number_unpacker("ShortDeserializer", ">h")
_unpack_double: Callable[[bytes], float] = _number_unpacker("DoubleDeserializer", ">d")
_unpack_float: Callable[[bytes], float] = _number_unpacker("FloatDeserializer", ">f")
_raw_double = struct.Struct(">d").pack
_raw_float = struct.Struct(">f").pack
_DOUBLE_NAN = bytes.fromhex("7ff8000000000000")


def _pack_double(data: object) -> bytes:
    value = _as_float("DoubleSerializer", data)
    return _raw_double(value) if value == value else _DOUBLE_NAN  # only a NaN differs from itself


def _pack_float(data: object) -> bytes:
    value = _as_float("FloatSerializer", data)
    try:
        return _raw_float(value)
    except OverflowError:
        raise SerializationException("FloatSerializer cannot hold a float out of the 32-bit range") from None


class LongSerializer(_PrimitiveSerializer[int]):
    """A signed 64-bit integer in 8 bytes, big-endian two's complement."""

    def bind(self, topic: str) -> Callable[[int], bytes]:
        """See :meth:`Serializer.bind`."""
        return _pack_long


class LongDeserializer(_PrimitiveDeserializer[int]):
    """Exactly 8 bytes, big-endian two's complement."""

    def bind(self, topic: str) -> Callable[[bytes], int]:
        """See :meth:`Deserializer.bind`."""
        return _unpack_long


class IntegerSerializer(_PrimitiveSerializer[int]):
    """A signed 32-bit integer in 4 bytes, big-endian two's complement."""

    def bind(self, topic: str) -> Callable[[int], bytes]:
        """See :meth:`Serializer.bind`."""
        return _pack_integer


class IntegerDeserializer(_PrimitiveDeserializer[int]):
    """Exactly 4 bytes, big-endian two's complement."""

    def bind(self, topic: str) -> Callable[[bytes], int]:
        """See :meth:`Deserializer.bind`."""
        return _unpack_integer


class ShortSerializer(_PrimitiveSerializer[int]):
    """A signed 16-bit integer in 2 bytes, big-endian two's complement."""

    def bind(self, topic: str) -> Callable[[int], bytes]:
        """See :meth:`Serializer.bind`."""
        return _pack_short


class ShortDeserializer(_PrimitiveDeserializer[int]):
    """Exactly 2 bytes, big-endian two's complement."""

    def bind(self, topic: str) -> Callable[[bytes], int]:
        """See :meth:`Deserializer.bind`."""
        return _unpack_short


class DoubleSerializer(_PrimitiveSerializer[float]):
    """An IEEE 754 double in 8 bytes, big-endian; every NaN as ``7ff8000000000000``.

    An int is taken where a double holds it exactly.
    """

    def bind(self, topic: str) -> Callable[[float], bytes]:
        """See :meth:`Serializer.bind`."""
        return _pack_double


class DoubleDeserializer(_PrimitiveDeserializer[float]):
    """Exactly 8 bytes, an IEEE 754 double, big-endian."""

    def bind(self, topic: str) -> Callable[[bytes], float]:
        """See :meth:`Deserializer.bind`."""
        return _unpack_double


class FloatSerializer(_PrimitiveSerializer[float]):
    """An IEEE 754 single in 4 bytes, big-endian. Python's 64-bit float is rounded; out of range is an error."""

    def bind(self, topic: str) -> Callable[[float], bytes]:
        """See :meth:`Serializer.bind`."""
        return _pack_float


class FloatDeserializer(_PrimitiveDeserializer[float]):
    """Exactly 4 bytes, an IEEE 754 single, big-endian."""

    def bind(self, topic: str) -> Callable[[bytes], float]:
        """See :meth:`Deserializer.bind`."""
        return _unpack_float


def _pack_boolean(data: object) -> bytes:
    if data is True:
        return b"\x01"
    if data is False:
        return b"\x00"
    _wrong_type("BooleanSerializer", "a bool", data)


def _unpack_boolean(data: bytes) -> bool:
    if data == b"\x01":
        return True
    if data == b"\x00":
        return False
    if len(data) != 1:
        _wrong_size("BooleanDeserializer", 1, data)
    raise SerializationException("BooleanDeserializer got a byte that is neither 0 nor 1")


class BooleanSerializer(_PrimitiveSerializer[bool]):
    """One byte: 1 for True, 0 for False."""

    def bind(self, topic: str) -> Callable[[bool], bytes]:
        """See :meth:`Serializer.bind`."""
        return _pack_boolean


class BooleanDeserializer(_PrimitiveDeserializer[bool]):
    """Exactly one byte, 1 or 0."""

    def bind(self, topic: str) -> Callable[[bytes], bool]:
        """See :meth:`Deserializer.bind`."""
        return _unpack_boolean


_UUID_TEXT = re.compile(rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def _pack_uuid(data: object) -> bytes:
    if not isinstance(data, UUID):
        _wrong_type("UUIDSerializer", "a uuid.UUID", data)
    return str(data).encode()


def _unpack_uuid(data: bytes) -> UUID:
    if _UUID_TEXT.fullmatch(data) is None:
        raise SerializationException("UUIDDeserializer got data that is not a UUID in its 36-character text form")
    return UUID(data.decode())


class UUIDSerializer(_PrimitiveSerializer[UUID]):
    """The 36-character lower-case text form in UTF-8, not the 16 bytes."""

    def bind(self, topic: str) -> Callable[[UUID], bytes]:
        """See :meth:`Serializer.bind`."""
        return _pack_uuid


class UUIDDeserializer(_PrimitiveDeserializer[UUID]):
    """The 36-character text form, upper or lower case. Java's shortened forms (``1-1-1-1-1``) are refused."""

    def bind(self, topic: str) -> Callable[[bytes], UUID]:
        """See :meth:`Deserializer.bind`."""
        return _unpack_uuid


def _refuse_void_value(data: object) -> NoReturn:
    _wrong_type("VoidSerializer", "None only", data)


def _refuse_void_bytes(data: bytes) -> NoReturn:
    raise SerializationException(f"VoidDeserializer takes null only, but got {len(data)} bytes")


class VoidSerializer(_PrimitiveSerializer[None]):
    """None as null; anything else is an error."""

    def bind(self, topic: str) -> Callable[[None], bytes]:
        """See :meth:`Serializer.bind`."""
        return _refuse_void_value


class VoidDeserializer(_PrimitiveDeserializer[None]):
    """Null as None; bytes are an error."""

    def bind(self, topic: str) -> Callable[[bytes], None]:
        """See :meth:`Deserializer.bind`."""
        return _refuse_void_bytes


class StringSerde(Serde[str]):
    """Text as UTF-8: see :class:`StringSerializer`."""

    def __init__(self) -> None:
        super().__init__(StringSerializer(), StringDeserializer(), immutable=True, exact=True)


class BytesSerde(Serde[bytes]):
    """Bytes as they are."""

    def __init__(self) -> None:
        super().__init__(BytesSerializer(), BytesDeserializer(), immutable=True, exact=True)


ByteArraySerde = BytesSerde
ByteArraySerializer = BytesSerializer
ByteArrayDeserializer = BytesDeserializer


class ByteBufferSerde(Serde[Any]):
    """Any buffer as its bytes, read as a read-only memoryview. Not exact: what is given may be changed later."""

    def __init__(self) -> None:
        super().__init__(ByteBufferSerializer(), ByteBufferDeserializer(), immutable=True)


class LongSerde(Serde[int]):
    """Signed 64-bit integers in 8 bytes, big-endian."""

    def __init__(self) -> None:
        super().__init__(LongSerializer(), LongDeserializer(), immutable=True, exact=True)


class IntegerSerde(Serde[int]):
    """Signed 32-bit integers in 4 bytes, big-endian."""

    def __init__(self) -> None:
        super().__init__(IntegerSerializer(), IntegerDeserializer(), immutable=True, exact=True)


class ShortSerde(Serde[int]):
    """Signed 16-bit integers in 2 bytes, big-endian."""

    def __init__(self) -> None:
        super().__init__(ShortSerializer(), ShortDeserializer(), immutable=True, exact=True)


class DoubleSerde(Serde[float]):
    """IEEE 754 doubles in 8 bytes, big-endian. Not exact: NaNs become one."""

    def __init__(self) -> None:
        super().__init__(DoubleSerializer(), DoubleDeserializer(), immutable=True)


class FloatSerde(Serde[float]):
    """IEEE 754 singles in 4 bytes, big-endian. Not exact: a signalling NaN may become a quiet one."""

    def __init__(self) -> None:
        super().__init__(FloatSerializer(), FloatDeserializer(), immutable=True)


class BooleanSerde(Serde[bool]):
    """One byte, 1 or 0."""

    def __init__(self) -> None:
        super().__init__(BooleanSerializer(), BooleanDeserializer(), immutable=True, exact=True)


class UUIDSerde(Serde[UUID]):
    """UUIDs in their 36-character text form. Not exact: upper case becomes lower."""

    def __init__(self) -> None:
        super().__init__(UUIDSerializer(), UUIDDeserializer(), immutable=True)


class VoidSerde(Serde[None]):
    """Null only."""

    def __init__(self) -> None:
        super().__init__(VoidSerializer(), VoidDeserializer(), immutable=True, exact=True)
