"""The newest value of every key of a topic."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from headrace.topics.reader import TopicReader

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from headrace.api.serde import Deserializer
    from headrace.topics.reader import TopicRecord

K = TypeVar("K")
V = TypeVar("V")


class LatestByKey(Generic[K, V]):
    """A topic read as a table: later records of a key replace earlier ones, a record without value removes the key.

    Records without a key are passed over. Used by one thread. A context manager that closes itself.

    Args:
        bootstrap_servers: ``host:port`` list of the brokers.
        topic: must exist.
        key_deserializer: of the keys.
        value_deserializer: of the values.
        client: more librdkafka settings, such as security.

    Raises:
        MissingSourceTopicException: there is no such topic.
        TimeoutException: the brokers did not answer in time.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        key_deserializer: Deserializer[K],
        value_deserializer: Deserializer[V],
        *,
        client: Mapping[str, Any] | None = None,
    ) -> None:
        self._reader = TopicReader(bootstrap_servers, topic, client=client)
        self._key = key_deserializer
        self._value = value_deserializer
        self._latest: dict[K, V] = {}

    @property
    def values(self) -> Mapping[K, V]:
        """Key to newest value, as far as it was read: a live view."""
        return MappingProxyType(self._latest)

    def poll(self, timeout_s: float = 0.1) -> list[tuple[K, V | None]]:
        """Takes in what has arrived.

        Returns:
            The changes in the order of reading, None for a removal; empty when nothing came within ``timeout_s``.

        Raises:
            SerializationException: a key or a value cannot be decoded; the message names the topic.
        """
        return [change for record in self._reader.poll(timeout_s) if (change := self._take(record)) is not None]

    def read_to_end(self, timeout_s: float | None = None) -> None:
        """Takes in everything that is committed now.

        Raises:
            TimeoutException: nothing came for ``timeout_s`` seconds though the end was not reached.
            SerializationException: see ``poll``.
        """
        for record in self._reader.to_end(timeout_s):
            self._take(record)

    def read_up_to(self, ends: Mapping[int, int], timeout_s: float | None = None) -> None:
        """Takes in what lies before these offsets and nothing behind them; see ``TopicReader.up_to``.

        Raises:
            TimeoutException: nothing came for ``timeout_s`` seconds though they were not reached.
            SerializationException: see ``poll``.
        """
        for record in self._reader.up_to(ends, timeout_s):
            self._take(record)

    def positions(self) -> dict[int, int]:
        """By partition, the offset up to which (exclusive) the table has read."""
        return self._reader.positions()

    def close(self) -> None:
        """Free the client."""
        self._reader.close()

    def _take(self, record: TopicRecord) -> tuple[K, V | None] | None:
        key = self._key.deserialize_with_headers(self._reader.topic, record.headers, record.key)
        if key is None:
            return None
        value = self._value.deserialize_with_headers(self._reader.topic, record.headers, record.value)
        if value is None:
            self._latest.pop(key, None)
        else:
            self._latest[key] = value
        return key, value

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
