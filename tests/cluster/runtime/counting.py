"""A counting application that tests of the runtime share, with its topics, records and a reader of its totals."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cluster.instances import PATIENCE_S, wait_until

from headrace import (
    Consumed,
    Grouped,
    KafkaStreams,
    Materialized,
    Produced,
    Serdes,
    State,
    StreamsBuilder,
    StreamsConfig,
    StreamThreadExceptionResponse,
)
from headrace.serdes import LongDeserializer, StringDeserializer
from headrace.topics import LatestByKey, TopicWriter, ensure_topics
from headrace.topics import NewTopic as Topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace import KStream, Topology
    from headrace.api.stores import KeyValueBytesStoreSupplier


KEYS = 20


def counting(
    source: str, out: str, touch: Callable[[str], str] = str, store: KeyValueBytesStoreSupplier | None = None
) -> Topology:
    """Counts records by key in the store ``counts``, or the one given."""
    builder = StreamsBuilder()
    text = Serdes.String()
    count_by_key(builder.stream(source, Consumed.with_(text, text)).map_values(touch), out, store)
    return builder.build()


def count_by_key(records: KStream[str, str], out: str, store: KeyValueBytesStoreSupplier | None = None) -> None:
    text = Serdes.String()
    (
        records.group_by_key(Grouped.with_(text, text))
        .count(Materialized.as_(store or "counts").with_key_serde(text))
        .to_stream()
        .to(out, Produced.with_(text, Serdes.Long()))
    )


def make_topics(brokers: str, unique: Callable[[str], str]) -> None:
    compact = {"cleanup.policy": "compact"}
    ensure_topics(brokers, [Topic(unique("in"), 2), Topic(unique("out"), 2, config=compact)])


def write(brokers: str, topic: str, count: int, start: int = 0) -> None:
    now = int(time.time() * 1000)
    with TopicWriter(brokers) as writer:
        for i in range(start, start + count):
            writer.send(topic, f"k{i % KEYS}".encode(), f"v{i}".encode(), timestamp_ms=now + i)


@contextmanager
def running(topology: Topology, settings: dict[str, Any]) -> Iterator[KafkaStreams]:
    streams = KafkaStreams(topology, StreamsConfig.load(settings))
    streams.start()
    try:
        yield streams
    finally:
        assert streams.close(60.0)


def deaths_of(streams: KafkaStreams) -> list[Exception]:
    """What its threads end with, as it comes; the first ends the client."""
    deaths: list[Exception] = []

    def on_death(error: Exception) -> StreamThreadExceptionResponse:
        deaths.append(error)
        return StreamThreadExceptionResponse.SHUTDOWN_CLIENT

    streams.set_uncaught_exception_handler(on_death)
    return deaths


def failure_of(topology: Topology, settings: dict[str, Any], timeout_s: float = PATIENCE_S) -> Exception:
    """What ends a client that cannot run."""
    streams = KafkaStreams(topology, StreamsConfig.load(settings))
    deaths = deaths_of(streams)
    streams.start()
    try:
        wait_until(lambda: streams.state() is State.ERROR, "the end of the client", timeout_s)
    finally:
        streams.close(60.0)
    return deaths[0]


class Totals:
    """The counts as a read_committed reader sees them; a count that falls is an error at once."""

    def __init__(self, brokers: str, topic: str) -> None:
        self._reader = LatestByKey(brokers, topic, StringDeserializer(), LongDeserializer())
        self._seen: dict[str, int] = {}

    def total(self) -> int:
        for key, value in self._reader.poll(0.1):
            assert key is not None
            assert value is not None
            assert value >= self._seen.get(key, 0), f"the count of {key} fell"
            self._seen[key] = value
        return sum(self._seen.values())

    def close(self) -> None:
        self._reader.close()


@contextmanager
def totals_of(brokers: str, topic: str) -> Iterator[Totals]:
    totals = Totals(brokers, topic)
    try:
        yield totals
    finally:
        totals.close()
