"""What serializers and deserializers with a registry have in common: which schema, and how its id is written.

A subclass knows one schema language. Per topic and schema the registry is asked once; after that a value costs one
look-up in a dict beside its encoding. Nothing is asked before the first value, so that tasks start without a registry.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NamedTuple, TypeAlias, TypeVar

from headrace.api.serde import Deserializer, Serde, Serializer
from headrace.config.loading import load
from headrace.config.streams import StreamsConfig, settings_of
from headrace.errors import ConfigException, KafkaException, SerializationException
from headrace.records import Headers
from headrace.serdes.registry.client import RegisteredSchema, Schema, SchemaRegistryClient, is_unknown, shared_client
from headrace.serdes.registry.errors import RegistryException
from headrace.serdes.registry.settings import SerdeSettings
from headrace.serdes.registry.wire import (
    PREFIX_SIZE,
    IdReader,
    IdWriter,
    SchemaRef,
    guid_header,
    header_name,
    header_value,
    id_prefix,
    read_ref,
    set_header,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

T = TypeVar("T")
B = TypeVar("B")

_NOT_VALID: Final = 422
_NOT_COMPATIBLE: Final = 409


_BoundWriter: TypeAlias = tuple[Callable[[T], bytes], Callable[[T, Headers], bytes]]
_BoundReader: TypeAlias = tuple[Callable[[bytes], T], Callable[[bytes, Headers | None], T] | None]


class OwnSchema(NamedTuple):
    """A value's own schema: the text to register, the record's full name, and Protobuf's place of the message."""

    schema: Schema
    record_name: str | None = None
    indexes: bytes = b""


class _Frame(NamedTuple):
    prefix: bytes
    guid: bytes | None
    encode: Callable[[Any], bytes]


class _Registered(Generic[B]):
    """What both halves have: client, settings, whether they are of keys, and what is bound (``B``) by topic."""

    schema_type: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self._bound: dict[str, B] = {}
        self._is_key = False
        self._given_client: SchemaRegistryClient | None = None
        self._given_settings = SerdeSettings()

    @property
    def _half(self) -> str:
        return "key" if self._is_key else "value"

    @property
    def _client(self) -> SchemaRegistryClient:
        if self._given_client is None:
            raise ConfigException(
                f"{type(self).__name__} is not configured: give config={{'schema.registry.url': …}} where its serde is "
                "made, or call configure(configs, is_key=…)"
            )
        return self._given_client

    def configure(self, configs: Mapping[str, Any], *, is_key: bool) -> None:
        """Take the registry's address and the other settings.

        Raises:
            ConfigException: The address is missing, or a setting is not allowed.
        """
        self._is_key = is_key
        self._given_client = shared_client(configs)
        self._given_settings = SerdeSettings.of(configs, is_key=is_key)
        self._bound.clear()


class RegistrySerializer(_Registered[_BoundWriter[T]], Serializer[T], Generic[T]):
    """Writes values with the id of their schema. Subclasses say which schema and how."""

    @abstractmethod
    def _schema_key(self, data: T) -> Any:
        """What is equal, and hashable, for values of one schema; called for every value."""

    @abstractmethod
    def _own_schema(self, topic: str, data: T) -> OwnSchema | None:
        """The schema that ``data`` brings along; None when it has to be the registry's."""

    @abstractmethod
    def _encoder(self, schema: Schema, data: T) -> Callable[[T], bytes]:
        """A function that writes values like ``data`` by ``schema``."""

    def serialize(self, topic: str, data: T | None) -> bytes | None:
        """See :meth:`Serializer.serialize`."""
        return None if data is None else self._wrapped(topic, data, lambda bound: bound[0](data))

    def serialize_with_headers(self, topic: str, headers: Headers, data: T | None) -> bytes | None:
        """See :meth:`Serializer.serialize_with_headers`."""
        return None if data is None else self._wrapped(topic, data, lambda bound: bound[1](data, headers))

    def _wrapped(self, topic: str, data: T, call: Callable[[_BoundWriter[T]], bytes]) -> bytes:
        bound = self._bound.get(topic)
        if bound is None:
            bound = self._bound[topic] = (self.bind(topic), self.bind_with_headers(topic))
        try:
            return call(bound)
        except KafkaException:
            raise
        except Exception as e:
            raise SerializationException(
                f"{type(self).__name__} cannot serialize a {type(data).__name__} for topic '{topic}': {e}"
            ) from e

    def bind(self, topic: str) -> Callable[[T], bytes]:
        """See :meth:`Serializer.bind`. The id of the schema goes in front."""
        frame_of = self._frames(topic)

        def bound(data: T) -> bytes:
            frame = frame_of(data)
            return frame.prefix + frame.encode(data)

        return bound

    def bind_with_headers(self, topic: str) -> Callable[[T, Headers], bytes]:
        """See :meth:`Serializer.bind_with_headers`.

        A header with the GUID of another schema, as a record has that was read with one, does not stay: the next
        reader would take it for this value's.
        """
        frame_of = self._frames(topic)
        name = header_name(self._is_key)
        in_header = self._given_settings.write_id is IdWriter.HEADER

        def bound(data: T, headers: Headers) -> bytes:
            frame = frame_of(data)
            payload = frame.encode(data)
            set_header(headers, name, frame.guid)
            return payload if in_header else frame.prefix + payload

        return bound

    def _frames(self, topic: str) -> Callable[[T], _Frame]:
        self._client  # noqa: B018  # says at once when it is missing
        frames: dict[Hashable, _Frame] = {}
        key_of, make = self._schema_key, self._frame
        settings = self._given_settings

        def frame_of(data: T) -> _Frame:
            key = key_of(data)
            frame = frames.get(key)
            if frame is None:
                frame = frames[key] = make(topic, data)
            return frame

        if not settings.use_latest or settings.latest_ttl_s < 0:
            return frame_of
        until = 0.0

        def frame_for_a_while(data: T) -> _Frame:
            nonlocal until
            now = time.monotonic()
            if now >= until:
                frames.clear()
                until = now + settings.latest_ttl_s
            return frame_of(data)

        return frame_for_a_while

    def _frame(self, topic: str, data: T) -> _Frame:
        own = self._own_schema(topic, data)
        record_name = None if own is None else own.record_name
        subject = self._given_settings.subject_strategy.subject_name(topic, self._is_key, record_name)
        found = self._find(topic, subject, None if own is None else own.schema)
        if found.schema.type != self.schema_type:
            raise SerializationException(
                f"The schema with id {found.id} of subject '{subject}' at {self._client.where} is of type "
                f"{found.schema.type}, but {type(self).__name__} writes {self.schema_type}"
            )
        indexes = b"" if own is None else own.indexes
        guid = None
        if self._given_settings.write_id is IdWriter.HEADER:
            guid = guid_header(self._guid(found), indexes)
        return _Frame(id_prefix(found.id, indexes), guid, self._encoder(found.schema, data))

    def _find(self, topic: str, subject: str, schema: Schema | None) -> RegisteredSchema:
        client, settings = self._client, self._given_settings
        try:
            if settings.use_schema_id >= 0:
                return RegisteredSchema(subject, settings.use_schema_id, client.get_schema(settings.use_schema_id))
            if settings.use_latest:
                return client.get_latest_version(subject)
            if schema is None:
                raise SerializationException(
                    f"A {self._half} for topic '{topic}' has no schema of its own: give {type(self).__name__} one, or "
                    "set use.latest.version=true with auto.register.schemas=false"
                )
            if settings.auto_register:
                return client.register_schema(subject, schema, settings.normalize)
            return client.lookup_schema(subject, schema, settings.normalize)
        except RegistryException as e:
            raise self.refused(e, topic, subject) from e

    def refused(self, error: RegistryException, topic: str, subject: str) -> KafkaException:
        """What to raise when the registry does not take or find a schema of ``subject``."""
        what = f"The schema of {self._half}s for topic '{topic}'"
        where = f"subject '{subject}' at {self._client.where}"
        if error.status == _NOT_COMPATIBLE:
            return SerializationException(
                f"{what} is not compatible with earlier versions of {where}: {error}. Change the schema (a default for "
                "a new field, say), or the compatibility of the subject."
            )
        if error.status == _NOT_VALID:
            return SerializationException(f"{what} was refused for {where}: {error}")
        if is_unknown(error):
            settings = self._given_settings
            if settings.use_schema_id >= 0:
                return SerializationException(
                    f"{what}: there is no schema with id {settings.use_schema_id} (use.schema.id) at "
                    f"{self._client.where}"
                )
            if settings.use_latest:
                return SerializationException(f"{what}: there is no {where} (use.latest.version): register a schema")
            return SerializationException(
                f"{what} is not registered under {where}, and auto.register.schemas is false: register it first"
            )
        return ConfigException(f"{what} cannot be found or registered under {where}: {error}")

    def _guid(self, found: RegisteredSchema) -> str:
        guid = found.guid
        if guid is None:
            try:
                guid = self._client.lookup_schema(found.subject, found.schema).guid
            except RegistryException as e:
                raise ConfigException(f"The GUID of schema id {found.id} cannot be found: {e}") from e
        if guid is None:
            raise ConfigException(
                f"The schema registry at {self._client.where} gives schemas no GUIDs (Confluent 8 and newer do): write "
                f"ids in front of values with {self._half}.schema.id.serializer=PrefixSchemaIdSerializer"
            )
        return guid


class RegistryDeserializer(_Registered[_BoundReader[T]], Deserializer[T], Generic[T]):
    """Reads values by the schema whose id they bring along. Subclasses say how."""

    @abstractmethod
    def _decoder(self, schema: Schema) -> Callable[[bytes], T]:
        """A function that reads payloads that were written by ``schema``."""

    def _payload(self, data: bytes, at: int) -> bytes:
        """The payload behind an id that ends at ``at``."""
        return data[at:]

    def deserialize(self, topic: str, data: bytes | None) -> T | None:
        """See :meth:`Deserializer.deserialize`."""
        return self.deserialize_with_headers(topic, None, data)

    def deserialize_with_headers(self, topic: str, headers: Headers | None, data: bytes | None) -> T | None:
        """See :meth:`Deserializer.deserialize_with_headers`."""
        if data is None:
            return None
        bound = self._bound.get(topic)
        if bound is None:
            bound = self._bound[topic] = (self.bind(topic), self.bind_with_headers(topic))
        try:
            return bound[0](data) if bound[1] is None else bound[1](data, headers)
        except KafkaException:
            raise
        except Exception as e:
            raise SerializationException(
                f"{type(self).__name__} cannot deserialize the data received from topic '{topic}': {_reason(e)}"
            ) from e

    def bind(self, topic: str) -> Callable[[bytes], T]:
        """See :meth:`Deserializer.bind`. The id of the schema is in front."""
        self._client  # noqa: B018  # says at once when it is missing
        decoders: dict[bytes, Callable[[bytes], T]] = {}
        payload = self._payload

        def bound(data: bytes) -> T:
            known = decoders.get(data[:PREFIX_SIZE])
            if known is not None:
                return known(payload(data, PREFIX_SIZE))
            # a GUID is longer than an id
            ref, at = read_ref(data)
            known = decoders.get(data[:at])
            if known is None:
                known = decoders[data[:at]] = self._decoder_of(topic, ref)
            return known(payload(data, at))

        return bound

    def bind_with_headers(self, topic: str) -> Callable[[bytes, Headers | None], T] | None:
        """See :meth:`Deserializer.bind_with_headers`."""
        if self._given_settings.read_id is IdReader.PREFIX:
            return None
        prefixed = self.bind(topic)
        name = header_name(self._is_key)
        decoders: dict[bytes, Callable[[bytes], T]] = {}

        def bound(data: bytes, headers: Headers | None) -> T:
            if not headers:
                return prefixed(data)
            named = header_value(headers, name)
            if named is None:
                return prefixed(data)
            decode = decoders.get(named)
            if decode is None:
                decode = decoders[named] = self._decoder_of(topic, read_ref(named)[0])
            return decode(data)

        return bound

    def _decoder_of(self, topic: str, ref: SchemaRef) -> Callable[[bytes], T]:
        client = self._client
        try:
            schema = client.get_schema(ref.id) if ref.id is not None else client.get_schema_by_guid(str(ref.guid))
            if schema.type != self.schema_type:
                raise SerializationException(
                    f"The {self._half} from topic '{topic}' has a schema ({ref}) of type {schema.type}, but "
                    f"{type(self).__name__} reads {self.schema_type}"
                )
            return self._decoder(schema)
        except RegistryException as e:
            if is_unknown(e):
                raise SerializationException(
                    f"The {self._half} from topic '{topic}' names a schema ({ref}) that the registry at {client.where} "
                    "does not have. Was it written with another registry, or the schema deleted?"
                ) from e
            hint = "" if ref.guid is None else " GUIDs need Confluent 8 or newer."
            raise ConfigException(
                f"The schema ({ref}) of a {self._half} from topic '{topic}' cannot be read: {e}{hint}"
            ) from e


class RegistrySerde(Serde[T]):
    """A serializer and deserializer with a registry.

    Args:
        serializer: The one half.
        deserializer: The other.
        config: Settings by Confluent's dotted names, ``schema.registry.url`` first of all, alone or with the
            application's own; None to have :meth:`configure` called later.
        is_key: Whether the serde is of keys.
        immutable: See :class:`Serde`.
    """

    def __init__(
        self,
        serializer: RegistrySerializer[T],
        deserializer: RegistryDeserializer[T],
        config: Mapping[str, Any] | StreamsConfig | None,
        *,
        is_key: bool,
        immutable: bool,
    ) -> None:
        super().__init__(serializer, deserializer, immutable=immutable)
        if config is not None:
            self.configure(settings_of(config), is_key=is_key)


def _reason(error: Exception) -> str:
    # texts of decoding errors may show bytes of the payload
    return "it is not valid UTF-8" if isinstance(error, UnicodeDecodeError) else f"{type(error).__name__}: {error}"


def as_type(value: Any, name: str) -> type[Any]:
    """A class that a setting names.

    Raises:
        ConfigException: It is not a class.
    """
    found = load(value, name)
    if not isinstance(found, type):
        raise ConfigException(f"{name}: {value} is not a class")
    return found
