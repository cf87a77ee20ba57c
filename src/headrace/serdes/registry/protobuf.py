"""Protobuf with a schema registry. Source: ``KafkaProtobufSerializer``, ``KafkaProtobufSerde`` (Confluent 8).

Behind the id of the schema stands the place of the message in its file (:mod:`headrace.serdes.registry.wire`), then the
message's own bytes. A schema is registered as its file descriptor in base64, which registries take beside ``.proto``
text, under the name of the file; imported files first, under their own names, except Google's well-known ones.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace.errors import ConfigException, SerializationException
from headrace.serdes.registry.base import OwnSchema, RegistryDeserializer, RegistrySerde, RegistrySerializer, as_type
from headrace.serdes.registry.client import PROTOBUF, Schema, SchemaReference
from headrace.serdes.registry.errors import RegistryException
from headrace.serdes.registry.wire import encode_indexes, skip_indexes

try:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError, EncodeError, Message
except ImportError as e:  # pragma: no cover  # told apart only by what is installed
    raise ImportError("Protobuf serdes need protobuf: install headrace[protobuf]") from e

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from google.protobuf.descriptor import Descriptor, FileDescriptor

    from headrace.config.streams import StreamsConfig

M = TypeVar("M", bound=Message)

_WELL_KNOWN = "google/protobuf/"


class KafkaProtobufSerializer(RegistrySerializer[Message]):
    """Writes messages by their own schemas.

    Args:
        type_: The one class that is written; None for messages of any class.
    """

    schema_type = PROTOBUF

    def __init__(self, type_: type[Message] | None = None) -> None:
        super().__init__()
        self._type = type_

    def configure(self, configs: Mapping[str, Any], *, is_key: bool) -> None:
        """See the base."""
        super().configure(configs, is_key=is_key)
        self._type = self._type or _configured(configs, is_key)

    def _schema_key(self, data: Message) -> Any:
        return type(data)

    def _own_schema(self, topic: str, data: Message) -> OwnSchema | None:
        descriptor = _checked(data, Message if self._type is None else self._type)
        schema = Schema(_text(descriptor.file), PROTOBUF, self._references(topic, descriptor.file))
        return OwnSchema(schema, descriptor.full_name, encode_indexes(message_indexes(descriptor)))

    def _encoder(self, schema: Schema, data: Message) -> Callable[[Message], bytes]:
        def encode(message: Message) -> bytes:
            try:
                return message.SerializeToString()
            except EncodeError as e:
                raise SerializationException(f"a {message.DESCRIPTOR.full_name} is not complete") from e

        return encode

    def _references(self, topic: str, file: FileDescriptor) -> tuple[SchemaReference, ...]:
        found: list[SchemaReference] = []
        for used in file.dependencies:
            if used.name.startswith(_WELL_KNOWN):
                continue
            schema = Schema(_text(used), PROTOBUF, self._references(topic, used))
            try:
                found.append(SchemaReference(used.name, used.name, self._version(used.name, schema)))
            except RegistryException as e:
                raise self.refused(e, topic, used.name) from e
        return tuple(found)

    def _version(self, subject: str, schema: Schema) -> int:
        settings, client = self._given_settings, self._client
        if settings.auto_register:
            client.register_schema(subject, schema, settings.normalize)
        version = client.lookup_schema(subject, schema, settings.normalize).version
        if version is None:
            raise ConfigException(f"{client.where} does not tell the version of subject '{subject}'")
        return version


class KafkaProtobufDeserializer(RegistryDeserializer[Message]):
    """Reads messages of one class, by Protobuf's own rules whichever version they were written by.

    Args:
        type_: The class; None takes it from ``specific.protobuf.value.type`` or ``specific.protobuf.key.type``.
    """

    schema_type = PROTOBUF

    def __init__(self, type_: type[Message] | None = None) -> None:
        super().__init__()
        self._type = type_

    def configure(self, configs: Mapping[str, Any], *, is_key: bool) -> None:
        """See the base.

        Raises:
            ConfigException: No class was given, neither here nor in the settings.
        """
        super().configure(configs, is_key=is_key)
        self._type = self._type or _configured(configs, is_key)
        if self._type is None:
            raise ConfigException(
                f"The Protobuf deserializer has no message class: set {_type_setting(is_key)} to module:Class, or give "
                "it where the serde is made"
            )

    def _payload(self, data: bytes, at: int) -> bytes:
        return data[skip_indexes(data, at) :]

    def _decoder(self, schema: Schema) -> Callable[[bytes], Message]:
        assert self._type is not None, "configured"
        parse: Callable[[bytes], Message] = self._type.FromString
        name = self._type.DESCRIPTOR.full_name

        def decode(payload: bytes) -> Message:
            try:
                return parse(payload)
            except DecodeError as e:
                raise SerializationException(f"not the bytes of a {name}") from e

        return decode


class KafkaProtobufSerde(RegistrySerde[M], Generic[M]):
    """Messages of a generated class.

    Args:
        type_: The class; None takes it from ``specific.protobuf.value.type`` or ``specific.protobuf.key.type``.
        config: See :class:`RegistrySerde`.
        is_key: See :class:`RegistrySerde`.

    Example:
        >>> from google.protobuf.wrappers_pb2 import StringValue
        >>> from headrace.serdes.registry.protobuf import KafkaProtobufSerde
        >>> serde = KafkaProtobufSerde(StringValue, config={"schema.registry.url": "mock://docs-protobuf"})
        >>> raw = serde.serializer.serialize("names", StringValue(value="a"))
        >>> serde.deserializer.deserialize("names", raw).value
        'a'
    """

    def __init__(
        self,
        type_: type[M] | None = None,
        *,
        config: Mapping[str, Any] | StreamsConfig | None = None,
        is_key: bool = False,
    ) -> None:
        serializer: Any = KafkaProtobufSerializer(type_)
        deserializer: Any = KafkaProtobufDeserializer(type_)
        super().__init__(serializer, deserializer, config, is_key=is_key, immutable=False)


def _checked(data: object, cls: type[Message]) -> Any:
    if not isinstance(data, cls):
        raise SerializationException(f"the Protobuf serializer takes a {cls.__name__}, not a {type(data).__name__}")
    return data.DESCRIPTOR


def message_indexes(descriptor: Descriptor) -> list[int]:
    """The place of a message in its file: of each message on the way down, its number among its siblings."""
    outer = descriptor.containing_type
    siblings = list(outer.nested_types) if outer is not None else list(descriptor.file.message_types_by_name.values())
    own = next(index for index, sibling in enumerate(siblings) if sibling.full_name == descriptor.full_name)
    return [own] if outer is None else [*message_indexes(outer), own]


def _text(file: FileDescriptor) -> str:
    proto = FileDescriptorProto()
    file.CopyToProto(proto)
    return base64.b64encode(proto.SerializeToString(deterministic=True)).decode("ascii")


def _configured(configs: Mapping[str, Any], is_key: bool) -> type[Message] | None:
    name = _type_setting(is_key)
    if configs.get(name) is None:
        return None
    found = as_type(configs[name], name)
    if not issubclass(found, Message):
        raise ConfigException(f"{name}: {found.__name__} is not a Protobuf message class")
    return found


def _type_setting(is_key: bool) -> str:
    return f"specific.protobuf.{'key' if is_key else 'value'}.type"
