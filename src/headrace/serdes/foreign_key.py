"""What the two tables of a foreign-key join send to each other, and its bytes.

The left table's task subscribes each of its rows with the task of the right row that it refers to, and gets an answer
whenever there is something to say of that row. An answer repeats the hash of the left row's value that the subscription
carried: if the row has changed since, the answer is out of date.

Layouts (version 1 of subscriptions, version 0 of answers; a set first bit means that there is no hash)::

    subscription   {1 bit: no hash, 7 bits: version} {1: instruction} {16: hash}? {primary key} {4: left partition}
    answer         {1 bit: no hash, 7 bits: version} {16: hash}? {right value}?
    stored key     {4: length of the foreign key} {foreign key} {primary key}

Version 0 of subscriptions, which Kafka before 3.4 wrote, has no partition: then the answer goes where the key belongs.
Sources: ``kstream.internals.foreignkeyjoin.{SubscriptionWrapperSerde,SubscriptionResponseWrapperSerde,
CombinedKeySchema}`` (4.4).
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.api.serde import Deserializer, NeedsContext, Serde, Serializer
from headrace.errors import SerializationException
from headrace.naming import internal_topic

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.api.serde import SerdeContext

_HASH_SIZE_BYTES: Final = 16
_NO_HASH: Final = 0x80
_PARTITION: Final = struct.Struct(">i")
_LENGTH: Final = struct.Struct(">i")
_SUBSCRIPTION_VERSION: Final = 1
_ANSWER_VERSION: Final = 0


class Instruction(IntEnum):
    """What the right side is to do with a subscription."""

    DELETE_KEY_NO_PROPAGATE = 0
    """Forget it."""
    DELETE_KEY_AND_PROPAGATE = 1
    """Forget it, and answer that there is nothing."""
    PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE = 2
    """Keep it, and answer in any case."""
    PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE = 3
    """Keep it, and answer if there is a row."""


class Subscription(NamedTuple):
    """A left row that refers to a right one; the foreign key is the record's key."""

    value_hash: bytes | None
    """Of the left row's value; None when it was deleted."""
    instruction: int
    primary_key: Any
    primary_partition: int | None


class Answer(NamedTuple):
    """A right row for one left row, whose key is the record's key."""

    value_hash: bytes | None
    foreign_value: Any
    primary_partition: int | None
    """Partition of the left table; not sent along."""


def primary_key_topic(application_id: str, topic: str) -> str:
    """The topic that primary keys are encoded for, given the subscriptions' topic in the topology."""
    return internal_topic(application_id, f"{topic}-pk")


def foreign_key_topic(application_id: str, topic: str) -> str:
    """The topic that foreign keys inside of stored keys are encoded for."""
    return internal_topic(application_id, f"{topic}-fk")


def value_hash_topic(application_id: str, topic: str) -> str:
    """The topic that left values are encoded for when they are hashed."""
    return internal_topic(application_id, f"{topic}-vh")


class SubscriptionSerializer(Serializer[Subscription], NeedsContext):
    """Bytes of subscriptions.

    Args:
        topic: The subscriptions' topic in the topology: it decides what primary keys are encoded for, wherever the
            subscription is written.
        inner: Of primary keys; None for the configured default.
        application_id: Known once there is a context.
    """

    def __init__(self, topic: str, inner: Serializer[Any] | None, application_id: str = "") -> None:
        self._topic = topic
        self._inner = inner
        self._application_id = application_id

    def in_context(self, context: SerdeContext) -> SubscriptionSerializer:
        """See :class:`headrace.api.serde.NeedsContext`."""
        inner = self._inner or context.key_serde().serializer
        return SubscriptionSerializer(self._topic, inner, context.application_id)

    def serialize(self, topic: str, data: Subscription | None) -> bytes | None:
        """See :class:`headrace.api.serde.Serializer`."""
        return None if data is None else self.bind(topic)(data)

    def bind(self, topic: str) -> Callable[[Subscription], bytes]:
        """See :class:`headrace.api.serde.Serializer`."""
        assert self._inner is not None, "bound in its context"
        encode_key = self._inner.bind(primary_key_topic(self._application_id, self._topic))

        def serialize(subscription: Subscription) -> bytes:
            value_hash, instruction, primary_key, partition = subscription
            # without a partition it was written by an old member, and goes on in the layout it came in
            version = 0 if partition is None else _SUBSCRIPTION_VERSION
            head = bytes((version if value_hash is not None else version | _NO_HASH, instruction))
            tail = b"" if partition is None else _PARTITION.pack(partition)
            return head + (value_hash or b"") + encode_key(primary_key) + tail

        return serialize


class SubscriptionDeserializer(Deserializer[Subscription], NeedsContext):
    """Subscriptions of bytes, of both versions. Arguments as of :class:`SubscriptionSerializer`."""

    def __init__(self, topic: str, inner: Deserializer[Any] | None, application_id: str = "") -> None:
        self._topic = topic
        self._inner = inner
        self._application_id = application_id

    def in_context(self, context: SerdeContext) -> SubscriptionDeserializer:
        """See :class:`headrace.api.serde.NeedsContext`."""
        inner = self._inner or context.key_serde().deserializer
        return SubscriptionDeserializer(self._topic, inner, context.application_id)

    def deserialize(self, topic: str, data: bytes | None) -> Subscription | None:
        """See :class:`headrace.api.serde.Deserializer`."""
        return None if data is None else self.bind(topic)(data)

    def bind(self, topic: str) -> Callable[[bytes], Subscription]:
        """See :class:`headrace.api.serde.Deserializer`."""
        assert self._inner is not None, "bound in its context"
        decode_key = self._inner.bind(primary_key_topic(self._application_id, self._topic))

        def deserialize(data: bytes) -> Subscription:
            version, value_hash, start = _head(data, _SUBSCRIPTION_VERSION, 2)
            end = len(data) - (_PARTITION.size if version else 0)
            if end < start:
                raise SerializationException(f"a subscription of {len(data)} bytes is too short")
            partition = _PARTITION.unpack_from(data, end)[0] if version else None
            return Subscription(value_hash, Instruction(data[1]), decode_key(data[start:end]), partition)

        return deserialize


class AnswerSerializer(Serializer[Answer], NeedsContext):
    """Bytes of answers. ``inner`` serializes right values; None for the configured default."""

    def __init__(self, inner: Serializer[Any] | None) -> None:
        self._inner = inner

    def in_context(self, context: SerdeContext) -> AnswerSerializer:
        """See :class:`headrace.api.serde.NeedsContext`."""
        return self if self._inner is not None else AnswerSerializer(context.value_serde().serializer)

    def serialize(self, topic: str, data: Answer | None) -> bytes | None:
        """See :class:`headrace.api.serde.Serializer`."""
        return None if data is None else self.bind(topic)(data)

    def bind(self, topic: str) -> Callable[[Answer], bytes]:
        """See :class:`headrace.api.serde.Serializer`."""
        assert self._inner is not None, "bound in its context"
        encode = self._inner.bind(topic)

        def serialize(answer: Answer) -> bytes:
            value_hash, value, _ = answer
            head = (
                bytes((_NO_HASH | _ANSWER_VERSION,)) if value_hash is None else bytes((_ANSWER_VERSION,)) + value_hash
            )
            return head if value is None else head + encode(value)

        return serialize


class AnswerDeserializer(Deserializer[Answer], NeedsContext):
    """Answers of bytes. ``inner`` deserializes right values; None for the configured default."""

    def __init__(self, inner: Deserializer[Any] | None) -> None:
        self._inner = inner

    def in_context(self, context: SerdeContext) -> AnswerDeserializer:
        """See :class:`headrace.api.serde.NeedsContext`."""
        return self if self._inner is not None else AnswerDeserializer(context.value_serde().deserializer)

    def deserialize(self, topic: str, data: bytes | None) -> Answer | None:
        """See :class:`headrace.api.serde.Deserializer`."""
        return None if data is None else self.bind(topic)(data)

    def bind(self, topic: str) -> Callable[[bytes], Answer]:
        """See :class:`headrace.api.serde.Deserializer`."""
        assert self._inner is not None, "bound in its context"
        decode = self._inner.bind(topic)

        def deserialize(data: bytes) -> Answer:
            _, value_hash, start = _head(data, _ANSWER_VERSION, 1)
            # a value of no bytes reads back as no value, as in Java
            return Answer(value_hash, decode(data[start:]) if len(data) > start else None, None)

        return deserialize


def subscription_serde(topic: str, inner: Serde[Any] | None) -> Serde[Subscription]:
    """Subscriptions as bytes. Arguments as of :class:`SubscriptionSerializer`."""
    return Serde(
        SubscriptionSerializer(topic, None if inner is None else inner.serializer),
        SubscriptionDeserializer(topic, None if inner is None else inner.deserializer),
    )


def answer_serde(inner: Serde[Any] | None) -> Serde[Answer]:
    """Answers as bytes. ``inner`` is the right values' serde; None for the configured default."""
    return Serde(
        AnswerSerializer(None if inner is None else inner.serializer),
        AnswerDeserializer(None if inner is None else inner.deserializer),
    )


def foreign_key_prefix(foreign_key: bytes) -> bytes:
    """What the stored keys of all subscriptions of a foreign key begin with."""
    return _LENGTH.pack(len(foreign_key)) + foreign_key


def primary_key_of(stored_key: bytes) -> bytes:
    """The primary key at the end of a stored key."""
    return stored_key[_LENGTH.size + _LENGTH.unpack_from(stored_key)[0] :]


def _head(data: bytes, newest_version: int, size: int) -> tuple[int, bytes | None, int]:
    """Version, hash, and where they end. ``size``: bytes before the hash."""
    version = data[0] & ~_NO_HASH
    if version > newest_version:
        raise SerializationException(
            f"a record between the tables of a foreign-key join has version {version}, but {newest_version} is the "
            "newest known: a newer release has written it"
        )
    if data[0] & _NO_HASH:
        return version, None, size
    return version, data[size : size + _HASH_SIZE_BYTES], size + _HASH_SIZE_BYTES
