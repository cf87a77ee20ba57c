"""Lists of values of one serde, with the bytes of ``org.apache.kafka.common.serialization.ListSerializer``.

Layout (big-endian): one byte says how elements are written.

* 0, elements of one size (Short, Integer, Long, Float, Double and UUID serdes): int32 number of null elements, an int32
  index of each, int32 number of elements, then the bytes of those that are not null.
* 1, any other: int32 number of elements, then for each an int32 length and its bytes; length -1 alone for null.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, overload

from headrace.api.serde import Deserializer, Serde, Serializer
from headrace.config import class_names
from headrace.config.loading import load, make
from headrace.errors import ConfigException, SerializationException
from headrace.serdes.primitives import (
    DoubleDeserializer,
    DoubleSerializer,
    FloatDeserializer,
    FloatSerializer,
    IntegerDeserializer,
    IntegerSerializer,
    LongDeserializer,
    LongSerializer,
    ShortDeserializer,
    ShortSerializer,
    UUIDDeserializer,
    UUIDSerializer,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

T = TypeVar("T")
E = TypeVar("E")

_FIXED_SERIALIZERS: Final = frozenset(
    {ShortSerializer, IntegerSerializer, FloatSerializer, LongSerializer, DoubleSerializer, UUIDSerializer}
)
_FIXED_SIZES: Final[Mapping[type[Any], int]] = {
    ShortDeserializer: 2,
    IntegerDeserializer: 4,
    FloatDeserializer: 4,
    LongDeserializer: 8,
    DoubleDeserializer: 8,
    UUIDDeserializer: 36,
}
_CONSTANT_SIZE, _VARIABLE_SIZE = 0, 1
_NULL_ENTRY = -1
_int32 = struct.Struct(">i")


def _names(is_key: bool) -> tuple[str, str]:
    half = "key" if is_key else "value"
    return f"default.list.{half}.serde.inner", f"default.list.{half}.serde.type"


def _inner_serde(configs: Mapping[str, Any], is_key: bool) -> Serde[Any]:
    name = _names(is_key)[0]
    if configs.get(name) is None:
        raise ConfigException(f"A list serde needs the serde of its elements: set {name}, or give it where it is made")
    inner = make(configs[name], name, class_names.SERDES)
    if not isinstance(inner, Serde):
        raise ConfigException(f"{name}: {type(inner).__name__} is not a Serde")
    serde: Serde[Any] = inner  # pyright: ignore[reportUnknownVariableType]  # of any type
    serde.configure(configs, is_key=is_key)
    return serde


class ListSerializer(Serializer["Sequence[T | None]"], Generic[T]):
    """Lists and tuples as bytes; elements may be None. See the module for the layout.

    Args:
        inner: Serializer of the elements; None to take it from ``default.list.key.serde.inner`` or
            ``default.list.value.serde.inner`` when configured.
    """

    def __init__(self, inner: Serializer[T] | None = None) -> None:
        self._inner = inner

    def configure(self, configs: Mapping[str, Any], *, is_key: bool) -> None:
        """Take the elements' serializer from the configuration.

        Raises:
            ConfigException: It is not set, cannot be made, or was given already.
        """
        if self._inner is not None:
            raise ConfigException("ListSerializer has its elements' serializer already and cannot be configured")
        self._inner = _inner_serde(configs, is_key).serializer

    def serialize(self, topic: str, data: Sequence[T | None] | None) -> bytes | None:
        """See :meth:`Serializer.serialize`."""
        if data is None:
            return None
        try:
            return self.bind(topic)(data)
        except SerializationException:
            raise
        except Exception as e:
            raise SerializationException(
                f"ListSerializer cannot serialize an element of a list for topic '{topic}': {type(e).__name__}"
            ) from e

    def bind(self, topic: str) -> Callable[[Sequence[T | None]], bytes]:
        """See :meth:`Serializer.bind`."""
        inner = self._inner
        if inner is None:
            raise ConfigException("ListSerializer has no serializer of its elements: give one, or configure it")
        encode = inner.bind(topic)
        pack = _int32.pack

        def checked(data: object) -> Sequence[Any]:
            if not isinstance(data, list | tuple):
                raise SerializationException(f"ListSerializer takes a list or tuple, not a {type(data).__name__}")
            return data  # pyright: ignore[reportUnknownVariableType]  # elements are checked by their own serializer

        def constant(data: Sequence[T | None]) -> bytes:
            elements = checked(data)
            nulls = [index for index, element in enumerate(elements) if element is None]
            parts = [bytes((_CONSTANT_SIZE,)), pack(len(nulls)), *map(pack, nulls), pack(len(elements))]
            parts += [encode(element) for element in elements if element is not None]
            return b"".join(parts)

        def variable(data: Sequence[T | None]) -> bytes:
            elements = checked(data)
            parts = [bytes((_VARIABLE_SIZE,)), pack(len(elements))]
            for element in elements:
                if element is None:
                    parts.append(pack(_NULL_ENTRY))
                else:
                    raw = encode(element)
                    parts += (pack(len(raw)), raw)
            return b"".join(parts)

        return constant if type(inner) in _FIXED_SERIALIZERS else variable

    def close(self) -> None:
        """Close the elements' serializer."""
        if self._inner is not None:
            self._inner.close()


class ListDeserializer(Deserializer[Any], Generic[T]):
    """Lists from bytes. See the module for the layout. Bytes behind the last element are ignored, as in Java.

    Args:
        list_class: ``list``, ``tuple``, or any class that takes an iterable of elements.
        inner: Deserializer of the elements. Both None to take them from the configuration
            (``default.list.key.serde.type``, ``default.list.key.serde.inner``, and the same with ``value``).
    """

    def __init__(
        self, list_class: Callable[[list[T | None]], Any] | None = None, inner: Deserializer[T] | None = None
    ) -> None:
        self._list_class = list_class
        self._inner = inner

    def configure(self, configs: Mapping[str, Any], *, is_key: bool) -> None:
        """Take list class and elements' deserializer from the configuration.

        Raises:
            ConfigException: One is not set, cannot be made, or was given already.
        """
        if self._list_class is not None or self._inner is not None:
            raise ConfigException("ListDeserializer has its parts already and cannot be configured")
        name = _names(is_key)[1]
        if configs.get(name) is None:
            raise ConfigException(f"A list serde needs the class of its lists: set {name}, or give it where it is made")
        list_class = load(configs[name], name, class_names.LIST_CLASSES)
        if not callable(list_class):
            raise ConfigException(f"{name}: {configs[name]} is not a class")
        self._list_class = list_class
        self._inner = _inner_serde(configs, is_key).deserializer

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        """See :meth:`Deserializer.deserialize`."""
        if data is None:
            return None
        try:
            return self.bind(topic)(data)
        except SerializationException:
            raise
        except Exception as e:
            raise SerializationException(
                f"ListDeserializer cannot deserialize an element of a list from topic '{topic}': {type(e).__name__}"
            ) from e

    def bind(self, topic: str) -> Callable[[bytes], Any]:
        """See :meth:`Deserializer.bind`."""
        inner, list_class = self._inner, self._list_class
        if inner is None or list_class is None:
            raise ConfigException("ListDeserializer has no deserializer of its elements: give one, or configure it")
        decode = inner.bind(topic)
        size = _FIXED_SIZES.get(type(inner))

        def bound(data: bytes) -> Any:
            if not data:
                raise SerializationException("ListDeserializer got no bytes")
            if data[0] == _VARIABLE_SIZE:
                raw = _variable_elements(data)
            elif data[0] == _CONSTANT_SIZE:
                if size is None:
                    raise SerializationException(
                        "ListDeserializer got elements of one size, but those of its serde have no fixed size"
                    )
                raw = _constant_elements(data, size)
            else:
                raise SerializationException(f"ListDeserializer does not know the strategy flag {data[0]}")
            return list_class([None if element is None else decode(element) for element in raw])

        return bound

    def close(self) -> None:
        """Close the elements' deserializer."""
        if self._inner is not None:
            self._inner.close()


def _variable_elements(data: bytes) -> list[bytes | None]:
    count, at = _count(data, 1), 5
    elements: list[bytes | None] = []
    for _ in range(count):
        length = _number(data, at)
        at += 4
        if length == _NULL_ENTRY:
            elements.append(None)
            continue
        if length < 0 or at + length > len(data):
            raise _too_short()
        elements.append(data[at : at + length])
        at += length
    return elements


def _constant_elements(data: bytes, size: int) -> list[bytes | None]:
    nulls_count = _count(data, 1)
    at = 5 + 4 * nulls_count
    if at > len(data):
        raise _too_short()
    nulls = {_number(data, 5 + 4 * index) for index in range(nulls_count)}
    count = _count(data, at)
    at += 4
    elements: list[bytes | None] = []
    for index in range(count):
        if index in nulls:
            elements.append(None)
            continue
        if at + size > len(data):
            raise _too_short()
        elements.append(data[at : at + size])
        at += size
    return elements


def _count(data: bytes, at: int) -> int:
    count = _number(data, at)
    if count < 0:
        raise SerializationException(f"ListDeserializer got a list of {count} elements")
    return count


def _number(data: bytes, at: int) -> int:
    if at + 4 > len(data):
        raise _too_short()
    number: int = _int32.unpack_from(data, at)[0]
    return number


def _too_short() -> SerializationException:
    return SerializationException("ListDeserializer got fewer bytes than the list needs")


class ListSerde(Serde[T]):
    """Lists of values of one serde. Source: ``Serdes.ListSerde``.

    ``immutable`` when the list class is ``tuple`` and the elements' serde is immutable.

    Args:
        list_class: What is read: ``list``, ``tuple``, or a class that takes an iterable. None, as is ``inner`` then,
            to take both from the configuration.
        inner: Serde of the elements.

    Example:
        >>> from headrace.serdes import ListSerde, Serdes
        >>> serde = ListSerde(list, Serdes.Integer())
        >>> serde.serializer.serialize("topic", [7, None]).hex()
        '0000000001000000010000000200000007'
    """

    @overload
    def __init__(self: ListSerde[list[Any]]) -> None: ...
    @overload
    def __init__(self: ListSerde[list[E]], list_class: type[list[Any]], inner: Serde[E]) -> None: ...
    @overload
    def __init__(self: ListSerde[tuple[E, ...]], list_class: type[tuple[Any, ...]], inner: Serde[E]) -> None: ...
    @overload
    def __init__(self: ListSerde[Any], list_class: Callable[[list[Any]], Any], inner: Serde[Any]) -> None: ...
    def __init__(self, list_class: Callable[[list[Any]], Any] | None = None, inner: Serde[Any] | None = None) -> None:
        if (list_class is None) != (inner is None):
            raise ValueError("a list serde needs both the class of its lists and the serde of their elements")
        serializer: Any = ListSerializer(None if inner is None else inner.serializer)
        deserializer: Any = ListDeserializer(list_class, None if inner is None else inner.deserializer)
        super().__init__(
            serializer, deserializer, immutable=list_class is tuple and inner is not None and inner.immutable
        )
