"""Avro with a schema registry: untyped records that carry their schema, and typed classes.

Payload: the value in Avro's binary form; of the schema ``"bytes"`` the bytes themselves, without their length, as in
Confluent's serializers. Logical types are Python's: datetime, date, time, Decimal, UUID.
Source: ``KafkaAvroSerializer``, ``KafkaAvroDeserializer``, ``streams.serdes.avro`` (Confluent 8).
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, is_typeddict

import msgspec

from headrace.errors import ConfigException, SerializationException
from headrace.serdes.json import is_immutable_type
from headrace.serdes.registry.avro_types import avro_schema, from_avro, members_of, parts_of, to_avro
from headrace.serdes.registry.base import OwnSchema, RegistryDeserializer, RegistrySerde, RegistrySerializer, as_type
from headrace.serdes.registry.client import AVRO, Schema, SchemaReference

try:
    import fastavro
    from fastavro.read import SchemaResolutionError
    from fastavro.schema import SchemaParseException, UnknownType
    from fastavro.validation import ValidationError, validate
except ImportError as e:  # pragma: no cover  # told apart only by what is installed
    raise ImportError("Avro serdes need fastavro: install headrace[avro]") from e

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headrace.config.streams import StreamsConfig

T = TypeVar("T")

_read: Callable[..., Any] = fastavro.schemaless_reader  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # of any IO
_write: Callable[..., None] = fastavro.schemaless_writer  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # of any IO
_PRIMITIVES: Mapping[type[Any], str] = {
    bool: "boolean",
    int: "long",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null",
}


class AvroSchema:
    """An Avro schema: its text as it is registered, and parsed. Equal when text and references are.

    Args:
        schema: JSON text, or parsed JSON.
        references: Schemas in the registry that it uses.
        used: Their Avro texts, what is used before what uses it.

    Raises:
        SerializationException: It is not a valid Avro schema, or uses a name that is not defined.
    """

    __slots__ = ("name", "parsed", "schema")

    def __init__(self, schema: Any, references: tuple[SchemaReference, ...] = (), used: tuple[str, ...] = ()) -> None:
        text = schema if isinstance(schema, str) else msgspec.json.encode(schema).decode()
        self.schema = Schema(text, AVRO, references)
        """As the registry takes it."""
        named: dict[str, Any] = {}
        try:
            for other in used:
                fastavro.parse_schema(_json(other), named)
            self.parsed: Any = fastavro.parse_schema(_json(text), named)
        except (SchemaParseException, UnknownType, msgspec.DecodeError, KeyError, TypeError) as e:
            raise SerializationException(f"not a valid Avro schema: {type(e).__name__}: {e}") from e
        self.name: str | None = parts_of(self.parsed).get("name")
        """Full name; None for a schema that is neither record, enum nor fixed."""

    @property
    def kind(self) -> str:
        """``record``, ``string`` and so on; ``union`` for a union."""
        return "union" if members_of(self.parsed) else str(parts_of(self.parsed).get("type", self.parsed))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AvroSchema) and self.schema == other.schema

    def __hash__(self) -> int:
        return hash(self.schema.text)

    def __repr__(self) -> str:
        return f"AvroSchema({self.schema.text!r})"


def _json(text: str) -> Any:
    # a bare name such as string may stand for itself
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        if text.replace(".", "_").isidentifier():
            return text
        raise


class GenericRecord(dict[str, Any]):
    """A record's fields with its schema, so that what was read can be written again. Equal as dicts are."""

    __slots__ = ("schema",)

    def __init__(self, schema: AvroSchema, fields: Mapping[str, Any] | None = None) -> None:
        super().__init__(fields or {})
        self.schema = schema

    def __reduce__(self) -> tuple[Any, ...]:
        return _copied, (self.schema.schema, dict(self))

    def copy(self) -> GenericRecord:
        """Another record with the same fields and schema."""
        return GenericRecord(self.schema, self)


def _copied(schema: Schema, fields: dict[str, Any]) -> GenericRecord:
    return GenericRecord(AvroSchema(schema.text, schema.references), fields)


class KafkaAvroSerializer(RegistrySerializer[Any]):
    """Writes values by Avro schemas.

    Args:
        schema: Schema of every value. None where values bring their own: a :class:`GenericRecord` has one, and that of
            a bool, int, float, str or bytes is boolean, long, double, string or bytes.
        typed: Whether values are of a class that :mod:`headrace.serdes.registry.avro_types` takes apart.

    Types are checked against the schema: a float is not an integer, no field may be missing or too much.
    """

    schema_type = AVRO

    def __init__(self, schema: AvroSchema | None = None, *, typed: type[Any] | None = None) -> None:
        super().__init__()
        self._schema = schema
        self._type = typed
        self._primitives: dict[type[Any], AvroSchema] = {}

    def configure(self, configs: Mapping[str, Any], *, is_key: bool) -> None:
        """See the base."""
        super().configure(configs, is_key=is_key)
        name = _type_setting(is_key)
        if self._schema is None and configs.get(name) is not None:
            self._type = as_type(configs[name], name)
            self._schema = _schema_of(self._type, name)

    def _schema_key(self, data: Any) -> Any:
        if self._schema is not None:
            return None
        return data.schema if isinstance(data, GenericRecord) else _type_of(data)

    def _own_schema(self, topic: str, data: Any) -> OwnSchema | None:
        schema = self._schema
        if schema is None:
            schema = data.schema if isinstance(data, GenericRecord) else self._primitive(_type_of(data))
        return None if schema is None else OwnSchema(schema.schema, schema.name)

    def _primitive(self, type_: type[Any]) -> AvroSchema | None:
        kind = _PRIMITIVES.get(type_)
        if kind is None:
            return None
        return self._primitives.setdefault(type_, AvroSchema(f'"{kind}"'))

    def _encoder(self, schema: Schema, data: Any) -> Callable[[Any], bytes]:
        own = self._schema
        if own is None and isinstance(data, GenericRecord):
            own = data.schema
        avro = own if own is not None and own.schema == schema else parsed(schema, self._client.resolve(schema))
        if avro.kind == "bytes":
            return _bytes_themselves
        write, parsed_schema = _write, avro.parsed
        cls = dict if self._type is not None and is_typeddict(self._type) else self._type

        def encode(value: Any) -> bytes:
            if cls is not None:
                if not isinstance(value, cls):
                    raise SerializationException(
                        f"the Avro serializer of {cls.__name__} takes no {type(value).__name__}"
                    )
                value = to_avro(value)
            try:
                validate(value, parsed_schema)
            except ValidationError as e:
                raise SerializationException(
                    f"a {type(value).__name__} does not fit the Avro schema {avro.name or avro.kind} ({_places(e)})"
                ) from None
            out = BytesIO()
            write(out, parsed_schema, value, strict_allow_default=True)
            return out.getvalue()

        return encode


class KafkaAvroDeserializer(RegistryDeserializer[Any]):
    """Reads values by the Avro schemas that they were written by.

    Args:
        schema: Reader's schema: fields are matched by name, missing ones get its defaults, numbers are widened; None to
            read values as they were written.
        typed: The class to read; its own schema is the reader's unless one is given.
    """

    schema_type = AVRO

    def __init__(self, schema: AvroSchema | None = None, *, typed: type[Any] | None = None) -> None:
        super().__init__()
        self._schema = schema
        self._type = typed

    def configure(self, configs: Mapping[str, Any], *, is_key: bool) -> None:
        """See the base."""
        super().configure(configs, is_key=is_key)
        name = _type_setting(is_key)
        if self._type is None and configs.get(name) is not None:
            self._type = as_type(configs[name], name)
            self._schema = self._schema or _schema_of(self._type, name)

    def _decoder(self, schema: Schema) -> Callable[[bytes], Any]:
        writer = parsed(schema, self._client.resolve(schema))
        reader = self._schema
        shown = reader or writer
        convert: Callable[[Any], Any] | None = None
        if self._type is not None:
            convert = from_avro(self._type)
        elif shown.kind == "record":
            convert = lambda fields: GenericRecord(shown, fields)  # noqa: E731  # one of three bodies
        if writer.kind == "bytes" and (reader is None or reader.kind == "bytes"):
            return _bytes_themselves
        read, writer_parsed, reader_parsed = _read, writer.parsed, None
        if reader is not None and reader != writer:
            reader_parsed = reader.parsed

        def decode(payload: bytes) -> Any:
            try:
                value = read(BytesIO(payload), writer_parsed, reader_parsed)
            except SchemaResolutionError as e:
                raise SerializationException(
                    f"written by the Avro schema {writer.name or writer.kind}, which cannot be read as "
                    f"{shown.name or shown.kind}: the schemas are not compatible"
                ) from e
            except EOFError as e:
                raise SerializationException("the Avro data ends early") from e
            if convert is None:
                return value
            try:
                return convert(value)
            except msgspec.ValidationError as e:
                raise SerializationException(f"read by its Avro schema, but not of the class: {e}") from e

        return decode


class GenericAvroSerde(RegistrySerde[Any]):
    """Records as :class:`GenericRecord`, dicts that carry their schema. Source: ``GenericAvroSerde``.

    Args:
        schema: Schema to write and read by, as text, parsed JSON or :class:`AvroSchema`. None to write values by the
            schemas that they carry, and to read them as they were written.
        config: See :class:`RegistrySerde`.
        is_key: See :class:`RegistrySerde`.

    Example:
        >>> from headrace.serdes.registry.avro import AvroSchema, GenericAvroSerde, GenericRecord
        >>> serde = GenericAvroSerde(config={"schema.registry.url": "mock://docs-generic"})
        >>> order = AvroSchema({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]})
        >>> raw = serde.serializer.serialize("orders", GenericRecord(order, {"id": "a"}))
        >>> raw.hex()
        '00000000010261'
        >>> serde.deserializer.deserialize("orders", raw)
        {'id': 'a'}
    """

    def __init__(
        self,
        schema: AvroSchema | str | Mapping[str, Any] | None = None,
        *,
        config: Mapping[str, Any] | StreamsConfig | None = None,
        is_key: bool = False,
    ) -> None:
        given = _avro(schema)
        super().__init__(
            KafkaAvroSerializer(given), KafkaAvroDeserializer(given), config, is_key=is_key, immutable=False
        )


class PrimitiveAvroSerde(RegistrySerde[Any]):
    """Values of type bool, int, float, str and bytes. Source: ``PrimitiveAvroSerde``; mostly for keys.

    An int is written as long, a float as double.

    Args:
        config: See :class:`RegistrySerde`.
        is_key: See :class:`RegistrySerde`.
    """

    def __init__(self, *, config: Mapping[str, Any] | StreamsConfig | None = None, is_key: bool = False) -> None:
        super().__init__(KafkaAvroSerializer(), KafkaAvroDeserializer(), config, is_key=is_key, immutable=True)


class SpecificAvroSerde(RegistrySerde[T], Generic[T]):
    """Values of a class: a dataclass, a msgspec Struct or a TypedDict.

    Its schema is made of the class (:mod:`headrace.serdes.registry.avro_types` says how) unless one is given. It is the
    reader's schema, too, so that values written by other versions are read as far as Avro's rules allow.
    Source: ``SpecificAvroSerde``, ``ReflectionAvroSerde``.

    Args:
        type_: The class; None takes it from ``specific.avro.value.type`` or ``specific.avro.key.type``.
        schema: Its schema, as text, parsed JSON or :class:`AvroSchema`.
        namespace: Namespace of the schema that is made of the class.
        config: See :class:`RegistrySerde`.
        is_key: See :class:`RegistrySerde`.

    Raises:
        TypeError: The class has no Avro form and no schema is given.

    Example:
        >>> from dataclasses import dataclass
        >>> from headrace.serdes.registry.avro import SpecificAvroSerde
        >>> @dataclass(frozen=True)
        ... class Order:
        ...     id: str
        ...     amount: int
        >>> serde = SpecificAvroSerde(Order, config={"schema.registry.url": "mock://docs-specific"})
        >>> raw = serde.serializer.serialize("orders", Order("a", 7))
        >>> serde.deserializer.deserialize("orders", raw)
        Order(id='a', amount=7)
    """

    def __init__(
        self,
        type_: type[T] | None = None,
        *,
        schema: AvroSchema | str | Mapping[str, Any] | None = None,
        namespace: str | None = None,
        config: Mapping[str, Any] | StreamsConfig | None = None,
        is_key: bool = False,
    ) -> None:
        self._type = type_
        given = _avro(schema)
        if given is None and type_ is not None:
            given = AvroSchema(avro_schema(type_, namespace))
        super().__init__(
            KafkaAvroSerializer(given, typed=type_),
            KafkaAvroDeserializer(given, typed=type_),
            config,
            is_key=is_key,
            immutable=type_ is not None and is_immutable_type(type_),
        )

    def configure(self, configs: Mapping[str, Any], *, is_key: bool) -> None:
        """See the base.

        Raises:
            ConfigException: No class was given, neither here nor in the settings.
        """
        name = _type_setting(is_key)
        if self._type is None:
            if configs.get(name) is None:
                raise ConfigException(
                    f"SpecificAvroSerde has no class: set {name} to module:Class, or give it where the serde is made"
                )
            self.immutable = is_immutable_type(as_type(configs[name], name))
        super().configure(configs, is_key=is_key)


def parsed(schema: Schema, used: tuple[tuple[SchemaReference, Schema], ...]) -> AvroSchema:
    """A schema of the registry with what it refers to.

    Raises:
        SerializationException: It is not a valid Avro schema.
    """
    return AvroSchema(schema.text, schema.references, tuple(other.text for _, other in used))


def _avro(schema: AvroSchema | str | Mapping[str, Any] | None) -> AvroSchema | None:
    return schema if schema is None or isinstance(schema, AvroSchema) else AvroSchema(schema)


def _schema_of(type_: type[Any], name: str) -> AvroSchema:
    try:
        return AvroSchema(avro_schema(type_))
    except TypeError as e:
        raise ConfigException(f"{name}: {type_.__name__}: {e}") from e


def _type_setting(is_key: bool) -> str:
    return f"specific.avro.{'key' if is_key else 'value'}.type"


def _type_of(data: object) -> type[Any]:
    return type(data)


def _bytes_themselves(data: Any) -> bytes:
    if not isinstance(data, bytes):
        raise SerializationException(f"the Avro schema bytes takes bytes, not a {type(data).__name__}")
    return data


def _places(error: ValidationError) -> str:
    # where and what was expected, never the value
    details = cast("Sequence[Any]", error.errors)
    return "; ".join(f"{detail.field or 'value'}: not a {_shown(detail.schema)}" for detail in details)


def _shown(schema: Any) -> str:
    members, parts = members_of(schema), parts_of(schema)
    return " or ".join(map(_shown, members)) if members else str(parts.get("name", parts.get("type", schema)))
