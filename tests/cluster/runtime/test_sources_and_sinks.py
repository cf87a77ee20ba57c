"""Global tables, sources by pattern, sinks that choose topics, punctuation, dead letters, resets: on real brokers."""

from __future__ import annotations

import re
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from headrace import (
    AutoOffsetReset,
    Consumed,
    ErrorPolicy,
    GlobalKTable,
    KafkaStreams,
    KStream,
    LogAndContinueExceptionHandler,
    Materialized,
    Processor,
    Produced,
    PunctuationType,
    Record,
    RecordContext,
    Serdes,
    State,
    StreamsBuilder,
    Topology,
)
from headrace.kafka import RecordProducer
from headrace.topics import NewTopic, TopicReader, TopicWriter, ensure_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headrace import ProcessorContext

TEXT = Serdes.String()
AS_TEXT = Consumed.with_(TEXT, TEXT)
Read = tuple["bytes | None", "bytes | None", int, "dict[str, bytes | None]"]


@pytest.fixture
def settings(bootstrap_servers: str, unique: Callable[[str], str], tmp_path: Path) -> dict[str, Any]:
    return {
        "application.id": unique("app"),
        "bootstrap.servers": bootstrap_servers,
        "state.dir": str(tmp_path),
        "commit.interval.ms": 100,
        "metadata.max.age.ms": 500,
        "processing.guarantee": "exactly_once_v2",
    }


def write(brokers: str, topic: str, *records: tuple[str | None, bytes | None, int]) -> None:
    with TopicWriter(brokers) as writer:
        for key, value, timestamp in records:
            writer.send(topic, None if key is None else key.encode(), value, timestamp_ms=timestamp)


@pytest.fixture
def read(bootstrap_servers: str) -> Iterator[Callable[[str, int], list[Read]]]:
    """Reads a topic from its beginning until it has had so many committed records."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "reader", "isolation.level": "read_committed"}
    )

    def all_of(topic: str, count: int) -> list[Read]:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[Read] = []
        deadline = time.monotonic() + 30
        while len(found) < count:
            assert time.monotonic() < deadline, f"{topic} has {len(found)} records, not {count}: {found}"
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                headers: Any = message.headers() or []
                found.append((message.key(), message.value(), message.timestamp()[1], dict(headers)))
        return found

    yield all_of
    consumer.close()


def running(topology: Topology, settings: dict[str, Any]) -> KafkaStreams:
    """A client that has all its tasks."""
    client = KafkaStreams(topology, settings)
    client.start()
    deadline = time.monotonic() + 30
    while client.state() is not State.RUNNING:
        assert time.monotonic() < deadline, client.state()
        assert client.state() is not State.ERROR
        time.sleep(0.02)
    return client


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


class Ticking(Processor[str, str, str, str]):
    """Hands records on; says so once at the first wall-clock punctuation, and at each one of stream time."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        super().init(context)
        self._handle = context.schedule(timedelta(milliseconds=50), PunctuationType.WALL_CLOCK_TIME, self._tick)
        context.schedule(1000, PunctuationType.STREAM_TIME, self._stream)

    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record)

    def _tick(self, timestamp: int) -> None:
        self._handle.cancel()
        self.context.forward(Record("wall", str(self.context.record_metadata()), timestamp))

    def _stream(self, timestamp: int) -> None:
        self.context.forward(Record("stream", str(timestamp), timestamp))


def test_a_pattern_a_global_table_and_a_chosen_topic(
    settings: dict[str, Any], unique: Callable[[str], str], read: Callable[[str, int], list[Read]]
) -> None:
    brokers, names, prefix, out = settings["bootstrap.servers"], unique("names"), unique("in"), unique("out")
    ensure_topics(brokers, [NewTopic(names, 2), NewTopic(f"{prefix}-a", 1)])
    ensure_topics(brokers, [NewTopic(f"{out}-{end}", 1) for end in ("k", "wall", "stream")])
    write(brokers, names, *((f"n{i}", f"v{i}".encode(), 1) for i in range(20)))
    write(brokers, f"{prefix}-a", *((f"k{i}", f"n{i}".encode(), 10 + i) for i in range(20)))

    def choose(key: str, value: str, context: RecordContext) -> str:
        return f"{out}-{key if key in ('wall', 'stream') else 'k'}"

    builder = StreamsBuilder()
    table: GlobalKTable[str, str] = builder.global_table(names, AS_TEXT, Materialized.as_("names"))
    stream: KStream[str, str] = builder.stream(re.compile(f"{prefix}-.*"), AS_TEXT)
    joined = stream.left_join(table, lambda key, value: value, lambda value, name: f"{value}={name}")
    joined.process(Ticking).to(choose, Produced.with_(TEXT, TEXT))
    topology = builder.build()
    with running(topology, settings) as client:
        # complete before the first record, whatever its partition
        assert sorted(str(value) for _, value, _, _ in read(f"{out}-k", 20)) == sorted(
            str(f"n{i}=v{i}".encode()) for i in range(20)
        )
        assert len(client.dropped_records()) == 1
        ensure_topics(brokers, [NewTopic(f"{prefix}-b", 2)])
        wait_for(lambda: len(client.dropped_records()) == 2 and client.state() is State.RUNNING)
        write(brokers, f"{prefix}-b", ("x", b"n7", 5000))
        assert read(f"{out}-k", 21)[-1][:2] == (b"x", b"n7=v7")
        assert [read_at for _, _, read_at, _ in read(f"{out}-stream", 2)] == [10, 5000]
        assert read(f"{out}-wall", 1)[0][1] == b"None"
    write(brokers, names, ("n7", b"changed", 2))
    write(brokers, f"{prefix}-a", ("y", b"n7", 6000))
    with running(topology, settings):
        # its own offsets brought the global store here, and the change made meanwhile
        assert read(f"{out}-k", 22)[-1][:2] == (b"y", b"n7=changed")


def test_a_global_table_is_complete_without_what_a_transaction_holds_that_does_not_end(
    settings: dict[str, Any], unique: Callable[[str], str], read: Callable[[str, int], list[Read]]
) -> None:
    """The client did not start, and ended after ``task.timeout.ms``, for a transaction that somebody had left open."""
    brokers, names, lines, out = settings["bootstrap.servers"], unique("names"), unique("in"), unique("out")
    ensure_topics(brokers, [NewTopic(names, 1), NewTopic(lines, 1), NewTopic(out, 1)])
    write(brokers, names, ("known", b"1", 1))
    other = RecordProducer({"bootstrap.servers": brokers, "transactional.id": unique("other")})
    other.init_transactions(30.0)
    other.send(names, 0, b"late", b"2", 1)
    other.flush(30.0)
    builder = StreamsBuilder()
    table: GlobalKTable[str, str] = builder.global_table(names, AS_TEXT)
    stream: KStream[str, str] = builder.stream(lines, AS_TEXT)
    stream.left_join(table, lambda key, value: key, lambda value, name: f"{value}={name}").to(
        out, Produced.with_(TEXT, TEXT)
    )
    with running(builder.build(), settings):
        write(brokers, lines, ("known", b"x", 1), ("late", b"y", 2))
        assert [value for _, value, _, _ in read(out, 2)] == [b"x=1", b"y=None"]
    other.abort_transaction(30.0)
    other.close()


def test_dead_letters_have_the_input_records_bytes(
    settings: dict[str, Any], unique: Callable[[str], str], read: Callable[[str, int], list[Read]]
) -> None:
    brokers, source, out, letters = settings["bootstrap.servers"], unique("in"), unique("out"), unique("dlq")
    ensure_topics(brokers, [NewTopic(name, 1) for name in (source, out, letters)])
    write(brokers, source, ("a", b"1", 5), ("b", b"\xff\xfe", 6), ("c", b"x", 7), ("d", b"2", 8))
    builder = StreamsBuilder()
    lines: KStream[str, str] = builder.stream(source, AS_TEXT)
    with builder.on_error(ErrorPolicy.resume(letters)):
        numbers = lines.map_values(int)
    numbers.map_values(str).to(out, Produced.with_(TEXT, TEXT))
    handlers = {
        "deserialization.exception.handler": LogAndContinueExceptionHandler(),
        "errors.dead.letter.queue.topic.name": letters,
    }
    with running(builder.build(), {**settings, **handlers}):
        assert [value for _, value, _, _ in read(out, 2)] == [b"1", b"2"]
        undecoded, unparsed = read(letters, 2)
    assert undecoded[:3] == (b"b", b"\xff\xfe", 6)
    assert unparsed[:3] == (b"c", b"x", 7)
    for letter, offset, kind in (
        (undecoded, b"1", b"headrace.errors.SerializationException"),
        (unparsed, b"2", b"ValueError"),
    ):
        headers = letter[3]
        assert headers["__streams.errors.exception"] == kind
        assert [headers[f"__streams.errors.{name}"] for name in ("topic", "partition", "offset")] == [
            source.encode(),
            b"0",
            offset,
        ]


def test_a_dead_letter_of_what_the_application_fails_by_arrives(
    settings: dict[str, Any], unique: Callable[[str], str], read: Callable[[str, int], list[Read]]
) -> None:
    brokers, source, letters = settings["bootstrap.servers"], unique("in"), unique("dlq")
    ensure_topics(brokers, [NewTopic(name, 1) for name in (source, letters)])
    write(brokers, source, ("a", b"x", 5))
    builder = StreamsBuilder()
    builder.stream(source, AS_TEXT).for_each(lambda key, value: int(value))
    chosen = {"errors.dead.letter.queue.topic.name": letters, "processing.guarantee": "at_least_once"}
    client = KafkaStreams(builder.build(), {**settings, **chosen})
    client.start()
    assert client.wait(30)
    assert client.state() is State.ERROR
    assert read(letters, 1)[0][:3] == (b"a", b"x", 5)


def test_a_reset_by_duration_begins_with_the_records_that_are_young_enough(
    settings: dict[str, Any], unique: Callable[[str], str], read: Callable[[str, int], list[Read]]
) -> None:
    brokers, source, quiet, out = settings["bootstrap.servers"], unique("in"), unique("quiet"), unique("out")
    ensure_topics(brokers, [NewTopic(name, 1) for name in (source, quiet, out)])
    now = int(time.time() * 1000)
    write(brokers, source, ("k", b"old", now - 3_600_000), ("k", b"young", now - 60_000))
    write(brokers, quiet, ("k", b"too old", now - 3_600_000))
    builder = StreamsBuilder()
    recent = AS_TEXT.with_offset_reset_policy(AutoOffsetReset.by_duration(timedelta(minutes=30)))
    builder.stream([source, quiet], recent).to(out, Produced.with_(TEXT, TEXT))
    with running(builder.build(), settings):
        assert read(out, 1)[0][1] == b"young"
        write(brokers, quiet, ("k", b"now", now))
        assert [value for _, value, _, _ in read(out, 2)] == [b"young", b"now"]


class ToTheLast:
    """A partitioner that chooses the last partition there is."""

    def partitions(self, topic: str, key: str | None, value: str | None, num_partitions: int) -> frozenset[int]:
        return frozenset({num_partitions - 1})


def test_a_partitioner_is_told_of_partitions_that_were_added_to_its_topic(
    settings: dict[str, Any], bootstrap_servers: str, unique: Callable[[str], str]
) -> None:
    ensure_topics(bootstrap_servers, [NewTopic(unique("in"), 1), NewTopic(unique("out"), 1)])
    builder = StreamsBuilder()
    builder.stream(unique("in"), AS_TEXT).to(unique("out"), Produced.with_(TEXT, TEXT, ToTheLast()))

    def written(partition: int) -> bool:
        write(bootstrap_servers, unique("in"), ("a", b"1", 1_000))
        with TopicReader(bootstrap_servers, unique("out")) as reader:
            return reader.ends().get(partition, 0) > 0

    client = running(builder.build(), settings)
    try:
        wait_for(lambda: written(0))
        brokers = AdminClient({"bootstrap.servers": bootstrap_servers})
        brokers.create_partitions([NewPartitions(unique("out"), 3)])[unique("out")].result(30)
        wait_for(lambda: written(2))
    finally:
        client.close(30.0)
