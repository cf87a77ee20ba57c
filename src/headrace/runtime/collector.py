"""The engine's output, written by the thread's one producer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.api.engine import ChangelogSend, Send
    from headrace.kafka import RecordProducer


class ProducerCollector:
    """Body of :class:`headrace.api.engine.RecordCollector`.

    Senders are bound to the producer there is when a task is made: a new producer needs new tasks.

    Attributes:
        topics: What senders were asked for.
    """

    def __init__(self, producer: RecordProducer, partition_count: Callable[[str], int]) -> None:
        self._producer = producer
        self.partition_count = partition_count
        self.topics: set[str] = set()

    def sender(self, topic: str) -> Send:
        """See the protocol."""
        self.topics.add(topic)
        return self._producer.bind_send(topic)

    def changelog_sender(self, topic: str, partition: int) -> ChangelogSend:
        """See the protocol."""
        send = self._producer.bind_tracked_send(topic)
        return lambda key, value, timestamp, headers: send(partition, key, value, timestamp, headers)
