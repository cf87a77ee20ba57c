"""Serializers and deserializers: between a Python value and the bytes of a record's key or value.

Each has two ways in. ``serialize`` and ``deserialize`` pass None through and raise only
:class:`~headrace.errors.SerializationException`: they are for tests, tools and one-off use. ``bind(topic)`` is for the
engine: it returns a function of one argument, made once per topic and called once per record with anything but None.

**Contract of bound functions:** they may let any exception out (a codec's own error, ``struct.error``, ``TypeError``),
so that a C function can be used as it is. Whoever calls them wraps their errors, at one place per edge, and hands them
to the deserialization or production handler.

Three are not about the record, and no handler may skip it for them. A :class:`~headrace.errors.TimeoutException` says
that something the serde needs (a schema registry) does not answer now: the record waits and is tried again. An
:class:`~headrace.errors.AuthorizationException` or :class:`~headrace.errors.ConfigException` ends the stream thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from headrace.errors import SerializationException

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.records import Headers

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)


class Serializer(ABC, Generic[T_contra]):
    """Makes bytes of values. Source: ``org.apache.kafka.common.serialization.Serializer``."""

    def configure(self, configs: Mapping[str, Any], *, is_key: bool) -> None:
        """Take settings. Called once, before use, on serdes that were named in the configuration."""

    @abstractmethod
    def serialize(self, topic: str, data: T_contra | None) -> bytes | None:
        """The bytes of ``data``; None for None.

        Raises:
            SerializationException: ``data`` is not of the type this serializer stands for, or out of its range.
        """

    def serialize_with_headers(self, topic: str, headers: Headers, data: T_contra | None) -> bytes | None:
        """As :meth:`serialize`, for a record with these headers, which may be changed."""
        return self.serialize(topic, data)

    def bind(self, topic: str) -> Callable[[T_contra], bytes]:
        """A function that serializes what is not None, for records of ``topic``. See the module's contract."""
        serialize = self.serialize

        def bound(data: T_contra) -> bytes:
            raw = serialize(topic, data)
            if raw is None:
                raise SerializationException(
                    f"{type(self).__name__} made None of a value that is not None, for topic '{topic}'. "
                    "A deletion must be a None value."
                )
            return raw

        return bound

    def bind_with_headers(self, topic: str) -> Callable[[T_contra, Headers], bytes] | None:
        """As :meth:`bind`, for a serializer that has to do with the record's headers; None for any other.

        The function takes the value and the headers of the record that it makes: a list that it may change.
        :meth:`bind` is asked where records have no headers of their own, as in a store.
        """
        return None

    def close(self) -> None:
        """Release what the serializer holds."""


class Deserializer(ABC, Generic[T_co]):
    """Makes values of bytes. Source: ``org.apache.kafka.common.serialization.Deserializer``."""

    def configure(self, configs: Mapping[str, Any], *, is_key: bool) -> None:
        """Take settings. Called once, before use, on serdes that were named in the configuration."""

    @abstractmethod
    def deserialize(self, topic: str, data: bytes | None) -> T_co | None:
        """The value of ``data``; None for None.

        Raises:
            SerializationException: ``data`` is not an encoding of the type this deserializer stands for.
        """

    def deserialize_with_headers(self, topic: str, headers: Headers | None, data: bytes | None) -> T_co | None:
        """As :meth:`deserialize`, for a record with these headers."""
        return self.deserialize(topic, data)

    def bind(self, topic: str) -> Callable[[bytes], T_co]:
        """A function that deserializes what is not None, for records of ``topic``. See the module's contract."""
        deserialize = self.deserialize

        def bound(data: bytes) -> T_co:
            return deserialize(topic, data)  # type: ignore[return-value]  # None only where T itself admits None

        return bound

    def bind_with_headers(self, topic: str) -> Callable[[bytes, Headers | None], T_co] | None:
        """As :meth:`bind`, for a deserializer that has to see the record's headers; None for any other."""
        return None

    def close(self) -> None:
        """Release what the deserializer holds."""


class SerdeContext(Protocol):
    """What a part of a serde may learn of the application that uses it."""

    @property
    def application_id(self) -> str:
        """The ``application.id``."""
        ...

    def configured(self, *, is_key: bool) -> Serde[Any] | None:
        """The default serde of keys or values; None when it is not set."""
        ...

    def key_serde(self) -> Serde[Any]:
        """The default serde of keys.

        Raises:
            TopologyException: ``default.key.serde`` is not set.
        """
        ...

    def value_serde(self) -> Serde[Any]:
        """The default serde of values.

        Raises:
            TopologyException: ``default.value.serde`` is not set.
        """
        ...


class NeedsContext(ABC):
    """A serde, or half of one, that wraps others and takes the configured default for one that was not given."""

    @abstractmethod
    def in_context(self, context: SerdeContext) -> Self:
        """The same, complete. Called before it is bound."""


class Serde(Generic[T]):
    """A serializer with its deserializer, and what the engine may assume of the pair.

    Attributes:
        immutable: A deserialized value cannot be changed in place, through and through (str, int, bytes, a frozen
            struct of such). Only then may a cache or a buffer hand out one object twice.
        exact: Serializing a deserialized value gives the very bytes it came from: nothing is ignored, normalized or
            looked up elsewhere. Together with ``immutable`` it allows to pass the original bytes on.
        faithful: A value that was serialized comes back equal and as unchangeable as ``immutable`` says, whatever was
            given (a list given for a tuple would not). Only then may a cache keep the very object that was put. True
            for every serde that is immutable and exact.
    """

    def __init__(
        self,
        serializer: Serializer[T],
        deserializer: Deserializer[T],
        *,
        immutable: bool = False,
        exact: bool = False,
        faithful: bool = False,
    ) -> None:
        self._serializer = serializer
        self._deserializer = deserializer
        self.immutable = immutable
        self.exact = exact
        self.faithful = faithful or (immutable and exact)

    @property
    def serializer(self) -> Serializer[T]:
        """The half that makes bytes."""
        return self._serializer

    @property
    def deserializer(self) -> Deserializer[T]:
        """The half that makes values."""
        return self._deserializer

    def configure(self, configs: Mapping[str, Any], *, is_key: bool) -> None:
        """Take settings, in both halves."""
        self._serializer.configure(configs, is_key=is_key)
        self._deserializer.configure(configs, is_key=is_key)

    def close(self) -> None:
        """Release what both halves hold."""
        self._serializer.close()
        self._deserializer.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class InferredSerde(Serde[T], NeedsContext):
    """A serde that follows from what is known of the records: it counts where no default is configured.

    Args:
        inferred: That serde.
        is_key: Whether it is of keys.
    """

    def __init__(self, inferred: Serde[T], *, is_key: bool) -> None:
        super().__init__(
            _InferredSerializer(inferred.serializer, is_key), _InferredDeserializer(inferred.deserializer, is_key)
        )
        self._inferred = inferred
        self._is_key = is_key

    def in_context(self, context: SerdeContext) -> Serde[T]:  # type: ignore[override]  # what it stands for
        """The configured default, else the inferred serde."""
        return context.configured(is_key=self._is_key) or self._inferred


class _InferredSerializer(Serializer[T], NeedsContext, Generic[T]):
    def __init__(self, inferred: Serializer[T], is_key: bool) -> None:
        self._inferred = inferred
        self._is_key = is_key

    def in_context(self, context: SerdeContext) -> Serializer[T]:  # type: ignore[override]  # what it stands for
        default = context.configured(is_key=self._is_key)
        return self._inferred if default is None else default.serializer

    def serialize(self, topic: str, data: T | None) -> bytes | None:
        return self._inferred.serialize(topic, data)


class _InferredDeserializer(Deserializer[T], NeedsContext, Generic[T]):
    def __init__(self, inferred: Deserializer[T], is_key: bool) -> None:
        self._inferred = inferred
        self._is_key = is_key

    def in_context(self, context: SerdeContext) -> Deserializer[T]:  # type: ignore[override]  # what it stands for
        default = context.configured(is_key=self._is_key)
        return self._inferred if default is None else default.deserializer

    def deserialize(self, topic: str, data: bytes | None) -> T | None:
        return self._inferred.deserialize(topic, data)
