"""JSON of a typed value, through msgspec.

Layout: UTF-8 JSON without whitespace; a struct's fields in the order of their declaration, under their encoded names;
non-ASCII characters as they are. Integers of any size stay exact in both directions (never a float, never wrapped). A
NaN or infinite float is written as ``null``, because JSON has no such numbers.

Decoding is strict: ``"1"``, ``1.0`` or ``true`` is not an int, a missing field without default is an error. Unknown
fields are ignored unless the struct says ``forbid_unknown_fields``, so a JSON serde is never exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_origin, overload

import msgspec
from msgspec import inspect

from headrace.api.serde import Deserializer, Serde, Serializer
from headrace.errors import SerializationException

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_IMMUTABLE_LEAVES = (
    inspect.NoneType,
    inspect.BoolType,
    inspect.IntType,
    inspect.FloatType,
    inspect.StrType,
    inspect.BytesType,
    inspect.DateTimeType,
    inspect.DateType,
    inspect.TimeType,
    inspect.TimeDeltaType,
    inspect.UUIDType,
    inspect.DecimalType,
    inspect.LiteralType,
)


_FLAT_LEAVES = (inspect.StrType, inspect.IntType, inspect.BoolType, inspect.BytesType, inspect.NoneType)


def is_immutable_type(type_: Any) -> bool:
    """Whether no value of ``type_`` can be changed in place, through and through.

    True for str, int, float, bool, bytes, None, date and time types, UUID, Decimal, enums of such values, tuples,
    frozensets and unions of such, named tuples, frozen structs and frozen dataclasses whose every field is such.
    """
    return _is_immutable(inspect.type_info(type_), set())


def is_flat_record(type_: Any) -> bool:
    """Whether ``type_`` is a frozen struct of str, int, bool, bytes and None fields, or of other such structs.

    Of such a value the written form tells all there is: what is read back is equal to it and as fixed.
    """
    return _is_flat(inspect.type_info(type_), set())


def _is_flat(info: inspect.Type, seen: set[type]) -> bool:
    match info:
        case inspect.Metadata():
            return _is_flat(info.type, seen)
        case inspect.UnionType():
            return all(isinstance(member, _FLAT_LEAVES) or _is_flat(member, seen) for member in info.types)
        case inspect.StructType():
            if not info.cls.__struct_config__.frozen:
                return False
            if info.cls in seen:
                return True
            seen.add(info.cls)
            return all(isinstance(field.type, _FLAT_LEAVES) or _is_flat(field.type, seen) for field in info.fields)
        case _:
            return False


def _is_immutable(info: inspect.Type, seen: set[type]) -> bool:
    match info:
        case inspect.Metadata():
            return _is_immutable(info.type, seen)
        case inspect.EnumType():
            return all(is_immutable_type(type(member.value)) for member in info.cls)
        case inspect.UnionType():
            return all(_is_immutable(member, seen) for member in info.types)
        case inspect.TupleType():
            return all(_is_immutable(item, seen) for item in info.item_types)
        case inspect.VarTupleType() | inspect.FrozenSetType():
            return _is_immutable(info.item_type, seen)
        case inspect.StructType():
            frozen = bool(info.cls.__struct_config__.frozen)
        case inspect.DataclassType():
            # Attrs classes come here too; they have no such parameters and count as mutable.
            frozen = bool(getattr(getattr(info.cls, "__dataclass_params__", None), "frozen", False))
        case inspect.NamedTupleType():
            frozen = True
        case _:
            return isinstance(info, _IMMUTABLE_LEAVES)
    if not frozen:
        return False
    if info.cls in seen:
        return True
    seen.add(info.cls)
    return all(_is_immutable(field.type, seen) for field in info.fields)


class JsonSerializer(Serializer[T], Generic[T]):
    """Values as JSON bytes.

    Args:
        type_: The type of the values. A class refuses values of any other class (subclasses are fine); for a type
            form such as ``list[int]`` or ``A | B`` only what JSON cannot express is refused. ``Any`` (the default)
            takes everything that msgspec can write. The fields inside a value are not checked again.
    """

    @overload
    def __init__(self, type_: type[T]) -> None: ...
    @overload
    def __init__(self: JsonSerializer[Any], type_: Any = ...) -> None: ...
    def __init__(self, type_: Any = Any) -> None:
        self._encode: Callable[[Any], bytes] = msgspec.json.Encoder().encode
        is_class = isinstance(type_, type) and get_origin(type_) is None and type_ not in (object, float, Any)
        # An int is a fine float, so float is not checked by its class.
        self._class: type[Any] | None = type_ if is_class else None

    def serialize(self, topic: str, data: T | None) -> bytes | None:
        """See :meth:`Serializer.serialize`."""
        if data is None:
            return None
        try:
            return self.bind(topic)(data)
        except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as e:
            raise SerializationException(
                f"A {type(data).__name__} for topic '{topic}' cannot be written as JSON: {e}"
            ) from e

    def bind(self, topic: str) -> Callable[[T], bytes]:
        """See :meth:`Serializer.bind`."""
        encode = self._encode
        cls = self._class
        if cls is None:
            return encode

        def bound(data: T) -> bytes:
            if type(data) is cls or (isinstance(data, cls) and type(data) is not bool):
                return encode(data)
            raise SerializationException(
                f"JsonSerializer for topic '{topic}' takes a {cls.__name__}, not a {type(data).__name__}"
            )

        return bound


class JsonDeserializer(Deserializer[T], Generic[T]):
    """JSON bytes as values of a type.

    Args:
        type_: Any type that msgspec can decode to; ``Any`` (the default) gives dicts, lists, str, int, float, bool.

    Raises:
        TypeError: msgspec cannot decode to ``type_``.
    """

    @overload
    def __init__(self, type_: type[T]) -> None: ...
    @overload
    def __init__(self: JsonDeserializer[Any], type_: Any = ...) -> None: ...
    def __init__(self, type_: Any = Any) -> None:
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(type_)

    def deserialize(self, topic: str, data: bytes | None) -> T | None:
        """See :meth:`Deserializer.deserialize`."""
        if data is None:
            return None
        try:
            value: T = self._decoder.decode(data)
        except (msgspec.MsgspecError, TypeError, RecursionError) as e:
            raise SerializationException(f"Data received from topic '{topic}' is not the expected JSON: {e}") from e
        return value

    def bind(self, topic: str) -> Callable[[bytes], T]:
        """The decoder's own ``decode``: msgspec's errors come out as they are. See :meth:`Deserializer.bind`."""
        return self._decoder.decode


class JsonSerde(Serde[T], Generic[T]):
    """JSON of values of one type: see the module's text.

    ``immutable`` and ``faithful`` follow from the type; ``exact`` is always False.

    Args:
        type_: A msgspec struct or any other type msgspec knows; ``Any`` for untyped JSON.

    Raises:
        TypeError: msgspec cannot decode to ``type_``.
    """

    @overload
    def __init__(self, type_: type[T]) -> None: ...
    @overload
    def __init__(self: JsonSerde[Any], type_: Any = ...) -> None: ...
    def __init__(self, type_: Any = Any) -> None:
        super().__init__(
            JsonSerializer[T](type_),
            JsonDeserializer[T](type_),
            immutable=is_immutable_type(type_),
            faithful=is_flat_record(type_),
        )
        self._type_name = getattr(type_, "__name__", None) or str(type_)

    def __repr__(self) -> str:
        return f"JsonSerde({self._type_name})"
