"""JSON with its JSON Schema in a registry.

Payload: UTF-8 JSON as :mod:`headrace.serdes.json` writes it. The schema is made of the class unless one is given; its
``title`` is the record's name for subject strategies. Checking values against their schemas is off unless asked for,
and needs the extra ``jsonschema``. Source: ``KafkaJsonSchemaSerializer``, ``KafkaJsonSchemaSerde`` (Confluent 8).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import msgspec

from headrace.config.registry_keys import REGISTRY_KEYS
from headrace.errors import ConfigException, SerializationException
from headrace.serdes.json import JsonSerializer, is_immutable_type
from headrace.serdes.registry.base import OwnSchema, RegistryDeserializer, RegistrySerde, RegistrySerializer, as_type
from headrace.serdes.registry.client import JSON, Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.config.streams import StreamsConfig
    from headrace.serdes.registry.client import SchemaReference

T = TypeVar("T")

_CHECK = "json.fail.invalid.schema"


def json_schema(type_: Any) -> dict[str, Any]:
    """The JSON Schema of a type that msgspec knows, with the type's own part at the top.

    Raises:
        TypeError: The type has no JSON form.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Order:
        ...     id: str
        >>> json_schema(Order)
        {'title': 'Order', 'type': 'object', 'properties': {'id': {'type': 'string'}}, 'required': ['id']}
    """
    schema: dict[str, Any] = msgspec.json.schema(type_)
    reference = schema.get("$ref", "")
    name = reference.removeprefix("#/$defs/")
    if name == reference:
        return schema
    definitions = dict(schema["$defs"])
    own: dict[str, Any] = definitions.pop(name)
    if f'"{reference}"'.encode() in msgspec.json.encode([own, definitions]):
        # it refers to itself
        return schema | {"title": own.get("title", name)}
    return own | ({"$defs": definitions} if definitions else {})


class KafkaJsonSchemaSerializer(RegistrySerializer[Any]):
    """Writes values as JSON.

    Args:
        type_: Class of the values; None for anything that has a JSON form.
        schema: The schema, as text or parsed JSON; None for the class's own.
        validate: Whether to check values against the schema that they are registered with.
    """

    schema_type = JSON

    def __init__(
        self, type_: Any = None, schema: str | Mapping[str, Any] | None = None, *, validate: bool = False
    ) -> None:
        super().__init__()
        self._type = type_
        self._schema = _given_schema(type_, schema)
        self._validate = validate

    def configure(self, configs: Mapping[str, Any], *, is_key: bool) -> None:
        """See the base."""
        super().configure(configs, is_key=is_key)
        self._type, self._validate = _configured(configs, is_key, self._type, self._validate)
        self._schema = self._schema or _given_schema(self._type, None)

    def _schema_key(self, data: Any) -> Any:
        return None

    def _own_schema(self, topic: str, data: Any) -> OwnSchema | None:
        if self._schema is None:
            return None
        return OwnSchema(self._schema, msgspec.json.decode(self._schema.text).get("title"))

    def _encoder(self, schema: Schema, data: Any) -> Callable[[Any], bytes]:
        encode: Callable[[Any], bytes] = JsonSerializer(self._type or Any).bind("")
        if not self._validate:
            return encode
        check = _checker(schema, self._client.resolve(schema))

        def encode_checked(value: Any) -> bytes:
            raw = encode(value)
            check(raw)
            return raw

        return encode_checked


class KafkaJsonSchemaDeserializer(RegistryDeserializer[Any]):
    """Reads JSON values.

    Args:
        type_: Class to read, strictly as :class:`~headrace.serdes.JsonSerde` does; None for dicts, lists and so on.
        validate: Whether to check values against the schemas that they were written with.
    """

    schema_type = JSON

    def __init__(self, type_: Any = None, *, validate: bool = False) -> None:
        super().__init__()
        self._type = type_
        self._validate = validate

    def configure(self, configs: Mapping[str, Any], *, is_key: bool) -> None:
        """See the base."""
        super().configure(configs, is_key=is_key)
        self._type, self._validate = _configured(configs, is_key, self._type, self._validate)

    def _decoder(self, schema: Schema) -> Callable[[bytes], Any]:
        decode: Callable[[bytes], Any] = msgspec.json.Decoder(self._type or Any).decode
        if not self._validate:
            return decode
        check = _checker(schema, self._client.resolve(schema))

        def decode_checked(payload: bytes) -> Any:
            check(payload)
            return decode(payload)

        return decode_checked


class KafkaJsonSchemaSerde(RegistrySerde[T], Generic[T]):
    r"""JSON of values of one class, or of any when none is given.

    Args:
        type_: A msgspec Struct, a dataclass or another type that msgspec knows; None for untyped JSON, or to take it
            from ``json.value.type`` or ``json.key.type``.
        schema: The JSON Schema, as text or parsed JSON; None for the class's own.
        validate: Whether to check values against their schemas, too; also ``json.fail.invalid.schema``.
        config: See :class:`RegistrySerde`.
        is_key: See :class:`RegistrySerde`.

    Raises:
        TypeError: msgspec does not know the class.

    Example:
        >>> from dataclasses import dataclass
        >>> from headrace.serdes.registry.json_schema import KafkaJsonSchemaSerde
        >>> @dataclass(frozen=True)
        ... class Order:
        ...     id: str
        >>> serde = KafkaJsonSchemaSerde(Order, config={"schema.registry.url": "mock://docs-json"})
        >>> serde.serializer.serialize("orders", Order("a"))
        b'\x00\x00\x00\x00\x01{"id":"a"}'
    """

    @overload
    def __init__(
        self,
        type_: type[T],
        *,
        schema: str | Mapping[str, Any] | None = ...,
        validate: bool = ...,
        config: Mapping[str, Any] | StreamsConfig | None = ...,
        is_key: bool = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: KafkaJsonSchemaSerde[Any],
        type_: Any = ...,
        *,
        schema: str | Mapping[str, Any] | None = ...,
        validate: bool = ...,
        config: Mapping[str, Any] | StreamsConfig | None = ...,
        is_key: bool = ...,
    ) -> None: ...
    def __init__(
        self,
        type_: Any = None,
        *,
        schema: str | Mapping[str, Any] | None = None,
        validate: bool = False,
        config: Mapping[str, Any] | StreamsConfig | None = None,
        is_key: bool = False,
    ) -> None:
        super().__init__(
            KafkaJsonSchemaSerializer(type_, schema, validate=validate),
            KafkaJsonSchemaDeserializer(type_, validate=validate),
            config,
            is_key=is_key,
            immutable=type_ is not None and is_immutable_type(type_),
        )


def _given_schema(type_: Any, schema: str | Mapping[str, Any] | None) -> Schema | None:
    if schema is None and type_ is None:
        return None
    if isinstance(schema, str):
        return Schema(schema, JSON)
    return Schema(msgspec.json.encode(json_schema(type_) if schema is None else schema).decode(), JSON)


def _configured(configs: Mapping[str, Any], is_key: bool, type_: Any, validate: bool) -> tuple[Any, bool]:
    """The class of the values and whether they are checked, where the settings say what was not given."""
    name = f"json.{'key' if is_key else 'value'}.type"
    if type_ is None and configs.get(name) is not None:
        type_ = as_type(configs[name], name)
    wanted = configs.get(_CHECK)
    return type_, validate or (wanted is not None and bool(REGISTRY_KEYS[_CHECK].parse(wanted)))


def _checker(schema: Schema, used: tuple[tuple[SchemaReference, Schema], ...]) -> Callable[[bytes], None]:
    """A function that raises when JSON does not fit a schema."""
    try:
        import jsonschema
        from jsonschema.validators import validator_for
        from referencing import Registry, Resource
        from referencing.jsonschema import DRAFT7
    except ImportError as e:  # pragma: no cover  # told apart only by what is installed
        raise ConfigException(f"{_CHECK} needs jsonschema: install headrace[jsonschema]") from e
    contents = msgspec.json.decode(schema.text)
    registry: Any = Registry[Any]().with_resources(
        (reference.name, Resource.from_contents(msgspec.json.decode(other.text), default_specification=DRAFT7))
        for reference, other in used
    )
    validator = validator_for(contents, default=jsonschema.Draft202012Validator)(contents, registry=registry)

    def check(raw: bytes) -> None:
        problem = next(iter(validator.iter_errors(msgspec.json.decode(raw))), None)
        if problem is not None:
            # where and which rule, never the value
            raise SerializationException(
                f"does not fit its JSON schema: rule {problem.validator!r} at {problem.json_path}"
            )

    return check
