"""Counting what sinks send, for those who ask for it (``metrics.recording.level`` of DEBUG or above)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.metrics import Traffic, record_bytes

if TYPE_CHECKING:
    from headrace.api.engine import RecordCollector, Send
    from headrace.records import Headers


class CountingCollector:
    """A :class:`~headrace.api.engine.RecordCollector` that counts what one sink sends.

    Args:
        collector: Sends.
        sink: Name of the sink's node.
        produced: Gets what was sent, by sink and topic.
    """

    def __init__(self, collector: RecordCollector, sink: str, produced: dict[tuple[str, str], Traffic]) -> None:
        self._collector = collector
        self._sink = sink
        self._produced = produced
        self.changelog_sender = collector.changelog_sender
        self.partition_count = collector.partition_count

    def sender(self, topic: str) -> Send:
        """See the protocol."""
        send, sent = self._collector.sender(topic), Traffic()
        self._produced[self._sink, topic] = sent
        topic_bytes = len(topic.encode())

        def counted(
            partition: int | None,
            key: bytes | None,
            value: bytes | None,
            timestamp: int | None,
            headers: Headers | None,
        ) -> None:
            send(partition, key, value, timestamp, headers)
            sent.records += 1
            sent.bytes += record_bytes(topic_bytes, key, value, headers)

        return counted
