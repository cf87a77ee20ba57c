"""Serdes of windowed keys.

Layouts, all numbers 8 bytes big-endian epoch milliseconds behind the key's own bytes:

- time: ``key + start``. The end is not written: the deserializer is told the windows' size.
- session: ``key + end + start``.

Sources: ``kstream.{WindowedSerdes,TimeWindowedSerializer,TimeWindowedDeserializer,SessionWindowedSerializer,
SessionWindowedDeserializer}``, ``state.internals.{WindowKeySchema,SessionKeySchema}`` and
``kstream.internals.WindowedStreamPartitioner`` (4.4).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from headrace.api.serde import Deserializer, Serde, Serializer
from headrace.api.windows import MAX_TIMESTAMP, SessionWindow, TimeWindow, Windowed, duration_ms
from headrace.config.class_names import SERDES
from headrace.config.loading import make
from headrace.errors import ConfigException, KafkaException, SerializationException
from headrace.partitioning import partition_for_key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.api.windows import Duration

K = TypeVar("K")

_INNER_KEY: Final = "windowed.inner.class.serde"
_SIZE_KEY: Final = "window.size.ms"
_START: Final = struct.Struct(">q")
_END_AND_START: Final = struct.Struct(">qq")
_SEQUENCE_SIZE: Final = 4
"""Behind the start in the keys of a window store's changelog: a sequence number."""


def _inner_serde(configs: Mapping[str, Any]) -> Serde[Any] | None:
    """The serde that ``windowed.inner.class.serde`` names: a class, ``module:attribute``, or Java's own name."""
    named = configs.get(_INNER_KEY)
    if named is None or isinstance(named, Serde):
        return named  # pyright: ignore[reportUnknownVariableType]  # a user's serde
    made = make(named, _INNER_KEY, SERDES)
    if not isinstance(made, Serde):
        raise ConfigException(f"{_INNER_KEY}: {named} is no Serde")
    return made  # pyright: ignore[reportUnknownVariableType]  # a user's serde


def _chosen_inner(given: Any, configured: Any, half: str) -> Any:
    if given is None and configured is None:
        raise ConfigException(f"the inner {half} of a windowed one must be given, or {_INNER_KEY} be set")
    if given is not None and configured is not None and type(given) is not type(configured):
        raise ConfigException(
            f"the inner {half} is a {type(given).__name__}, but {_INNER_KEY} names one that is a "
            f"{type(configured).__name__}: give one of them"
        )
    return configured if given is None else given


class WindowedSerializer(Serializer[Windowed[K]], Generic[K]):
    """Makes bytes of windowed keys.

    ``inner`` serializes the key itself; None takes it from ``windowed.inner.class.serde`` when it is configured.
    """

    def __init__(self, inner: Serializer[K] | None = None) -> None:
        self._inner = inner

    def configure(self, configs: Mapping[str, Any], *, is_key: bool) -> None:
        """Take ``windowed.inner.class.serde``.

        Raises:
            ConfigException: There is no inner serializer, or two different ones, or it cannot be loaded.
        """
        serde = _inner_serde(configs)
        self._inner = _chosen_inner(self._inner, None if serde is None else serde.serializer, "serializer")

    def serialize(self, topic: str, data: Windowed[K] | None) -> bytes | None:
        """See :class:`headrace.api.serde.Serializer`."""
        if data is None:
            return None
        if not isinstance(data, Windowed):  # pyright: ignore[reportUnnecessaryIsInstance]  # a user's object
            raise SerializationException(f"{type(self).__name__} takes a Windowed key, not a {type(data).__name__}")
        try:
            return self.bind(topic)(data)
        except KafkaException:
            raise
        except Exception as e:
            raise SerializationException(
                f"{type(self).__name__} cannot serialize a key for topic '{topic}': {type(e).__name__}"
            ) from e

    def bind_base_key(self, topic: str) -> Callable[[Windowed[K]], bytes]:
        """A function that gives the bytes of the key alone, without its window: they choose the partition.

        Raises:
            ConfigException: There is no inner serializer.
        """
        encode = self._checked_inner().bind(topic)
        return lambda data: encode(data.key)

    def close(self) -> None:
        """See :class:`headrace.api.serde.Serializer`."""
        if self._inner is not None:
            self._inner.close()

    def _checked_inner(self) -> Serializer[K]:
        if self._inner is None:
            raise ConfigException(f"{type(self).__name__} has no inner serializer: give one, or set {_INNER_KEY}")
        return self._inner


class TimeWindowedSerializer(WindowedSerializer[K]):
    """``key + start``."""

    def bind(self, topic: str) -> Callable[[Windowed[K]], bytes]:
        """See :class:`headrace.api.serde.Serializer`."""
        encode, pack = self._checked_inner().bind(topic), _START.pack
        return lambda data: encode(data.key) + pack(data.window.start)


class SessionWindowedSerializer(WindowedSerializer[K]):
    """``key + end + start``."""

    def bind(self, topic: str) -> Callable[[Windowed[K]], bytes]:
        """See :class:`headrace.api.serde.Serializer`."""
        encode, pack = self._checked_inner().bind(topic), _END_AND_START.pack
        return lambda data: encode(data.key) + pack(data.window.end, data.window.start)


class WindowedDeserializer(Deserializer[Windowed[K]], Generic[K]):
    """Makes windowed keys of bytes; no bytes at all are None. ``inner`` as for :class:`WindowedSerializer`."""

    def __init__(self, inner: Deserializer[K] | None = None) -> None:
        self._inner = inner

    def configure(self, configs: Mapping[str, Any], *, is_key: bool) -> None:
        """Take ``windowed.inner.class.serde``.

        Raises:
            ConfigException: There is no inner deserializer, or two different ones, or it cannot be loaded.
        """
        serde = _inner_serde(configs)
        self._inner = _chosen_inner(self._inner, None if serde is None else serde.deserializer, "deserializer")

    def deserialize(self, topic: str, data: bytes | None) -> Windowed[K] | None:
        """See :class:`headrace.api.serde.Deserializer`."""
        if data is None:
            return None
        try:
            return self.bind(topic)(data)
        except KafkaException:
            raise
        except Exception as e:
            raise SerializationException(
                f"{type(self).__name__} cannot deserialize the data received from topic '{topic}': {type(e).__name__}"
            ) from e

    def close(self) -> None:
        """See :class:`headrace.api.serde.Deserializer`."""
        if self._inner is not None:
            self._inner.close()

    def _checked_inner(self) -> Deserializer[K]:
        if self._inner is None:
            raise ConfigException(f"{type(self).__name__} has no inner deserializer: give one, or set {_INNER_KEY}")
        return self._inner


def _cut(data: bytes, size: int, name: str) -> int:
    if len(data) < size:
        raise SerializationException(f"{name} needs at least {size} bytes, but got {len(data)}")
    return len(data) - size


class TimeWindowedDeserializer(WindowedDeserializer[K]):
    """``key + start``, or with ``changelog`` the keys of a window store's changelog: ``key + start + 4 bytes``.

    Args:
        inner: Deserializer of the key itself.
        window_size: Length of the windows, to find their end; None takes it from ``window.size.ms`` when configured.
        changelog: Read the keys of a changelog topic.

    Raises:
        ValueError: The size is negative.
    """

    def __init__(
        self, inner: Deserializer[K] | None = None, window_size: Duration | None = None, *, changelog: bool = False
    ) -> None:
        super().__init__(inner)
        self._size = None if window_size is None else _checked_size(duration_ms(window_size, "window_size"))
        self._changelog = changelog

    @property
    def window_size_ms(self) -> int | None:
        """Length of the windows, or None when it is not known yet."""
        return self._size

    def configure(self, configs: Mapping[str, Any], *, is_key: bool) -> None:
        """Take ``windowed.inner.class.serde`` and ``window.size.ms``.

        Raises:
            ConfigException: One of them is needed and missing, or was given twice.
        """
        configured = configs.get(_SIZE_KEY)
        if configured is not None and self._size is not None:
            raise ConfigException(
                f"{_SIZE_KEY} is {configured}, but the deserializer was made for windows of {self._size} ms: "
                "set one of them"
            )
        if configured is not None:
            try:
                self._size = _checked_size(int(configured))
            except ValueError as e:
                raise ConfigException(f"{_SIZE_KEY} is {configured!r}: {e}") from e
        elif self._size is None:
            raise ConfigException(f"the size of windows must be given to the deserializer, or {_SIZE_KEY} be set")
        super().configure(configs, is_key=is_key)

    def bind(self, topic: str) -> Callable[[bytes], Windowed[K]]:
        """See :class:`headrace.api.serde.Deserializer`."""
        decode, unpack, size = self._checked_inner().bind(topic), _START.unpack_from, self._size
        if size is None:
            raise ConfigException(f"the size of windows must be given to the deserializer, or {_SIZE_KEY} be set")
        tail = _START.size + (_SEQUENCE_SIZE if self._changelog else 0)
        name = type(self).__name__

        def bound(data: bytes) -> Any:
            if not data:
                return None
            at = _cut(data, tail, name)
            start: int = unpack(data, at)[0]
            return Windowed(decode(data[:at]), TimeWindow(start, min(start + size, MAX_TIMESTAMP)))

        return bound


def _checked_size(size: int) -> int:
    if size < 0:
        raise ValueError(f"the size of windows must not be negative, but it is {size} ms")
    return size


class SessionWindowedDeserializer(WindowedDeserializer[K]):
    """``key + end + start``."""

    def bind(self, topic: str) -> Callable[[bytes], Windowed[K]]:
        """See :class:`headrace.api.serde.Deserializer`."""
        decode, unpack, name = self._checked_inner().bind(topic), _END_AND_START.unpack_from, type(self).__name__

        def bound(data: bytes) -> Any:
            if not data:
                return None
            at = _cut(data, _END_AND_START.size, name)
            end, start = unpack(data, at)
            return Windowed(decode(data[:at]), SessionWindow(start, end))

        return bound


class TimeWindowedSerde(Serde[Windowed[K]], Generic[K]):
    """Keys with a window of known size: of tumbling, hopping, sliding and unlimited windows.

    Args:
        inner: Serde of the key itself; None takes it from ``windowed.inner.class.serde`` when it is configured.
        window_size: Length of the windows; None takes it from ``window.size.ms`` when it is configured.
        changelog: Read the keys of a window store's changelog topic, which have a sequence number behind them.
    """

    def __init__(
        self, inner: Serde[K] | None = None, window_size: Duration | None = None, *, changelog: bool = False
    ) -> None:
        # not exact or faithful: another end than the size's is lost
        super().__init__(
            TimeWindowedSerializer(None if inner is None else inner.serializer),
            TimeWindowedDeserializer(None if inner is None else inner.deserializer, window_size, changelog=changelog),
            immutable=inner is not None and inner.immutable,
        )
        self._inner = inner
        self._size = window_size

    def for_changelog(self, changelog: bool = True) -> TimeWindowedSerde[K]:
        """The same serde for the keys of a window store's changelog topic."""
        return TimeWindowedSerde(self._inner, self._size, changelog=changelog)


class SessionWindowedSerde(Serde[Windowed[K]], Generic[K]):
    """Keys with the window of a session. ``inner`` as for :class:`TimeWindowedSerde`."""

    def __init__(self, inner: Serde[K] | None = None) -> None:
        super().__init__(
            SessionWindowedSerializer(None if inner is None else inner.serializer),
            SessionWindowedDeserializer(None if inner is None else inner.deserializer),
            immutable=inner is not None and inner.immutable,
            exact=inner is not None and inner.exact,
        )


class WindowedSerdes:
    """Factory of serdes of windowed keys. Source: ``org.apache.kafka.streams.kstream.WindowedSerdes``."""

    @staticmethod
    def time_windowed(inner: Serde[K], window_size: Duration) -> Serde[Windowed[K]]:
        """Keys with a window of that size."""
        return TimeWindowedSerde(inner, window_size)

    @staticmethod
    def session_windowed(inner: Serde[K]) -> Serde[Windowed[K]]:
        """Keys with the window of a session."""
        return SessionWindowedSerde(inner)


class WindowedStreamPartitioner(Generic[K]):
    """Chooses the partition by the key alone, so that all windows of a key are in one."""

    def __init__(self, serializer: WindowedSerializer[K]) -> None:
        self._serializer = serializer
        self._encoders: dict[str, Callable[[Windowed[K]], bytes]] = {}

    def partitions(
        self, topic: str, key: Windowed[K] | None, value: object, num_partitions: int
    ) -> frozenset[int] | None:
        """See :class:`headrace.partitioning.StreamPartitioner`; a None key is left to the producer."""
        if key is None:
            return None
        encode = self._encoders.get(topic)
        if encode is None:
            encode = self._encoders[topic] = self._serializer.bind_base_key(topic)
        return frozenset((partition_for_key(encode(key), num_partitions),))
