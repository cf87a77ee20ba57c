"""Records that a broker refuses after they were sent: the production handler decides, with the input record's place."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from cluster.runtime.counting import deaths_of

from headrace import (
    Consumed,
    ErrorPolicy,
    KafkaStreams,
    Produced,
    Serdes,
    State,
    StreamsBuilder,
    StreamsConfig,
    TaskId,
)
from headrace.api.handlers import ErrorHandlerContext, ProducerRecord, ProductionExceptionHandler, Response
from headrace.kafka import TopicAdmin
from headrace.records import TopicPartition
from headrace.serdes import StringDeserializer
from headrace.topics import LatestByKey, NewTopic, TopicWriter, ensure_topics

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PARTITION = 1
POISON_OFFSETS = (3, 5)
COUNT = 8
POISONED = [b"x" * 5000 if i in POISON_OFFSETS else b"small" for i in range(COUNT)]


class Asked(ProductionExceptionHandler):
    def __init__(self, response: Response) -> None:
        self.response = response
        self.asked: list[tuple[ErrorHandlerContext, ProducerRecord, Exception]] = []

    def handle_error(self, context: ErrorHandlerContext, record: ProducerRecord, exception: Exception) -> Response:
        self.asked.append((context, record, exception))
        return self.response

    def handle_serialization_error(self, *_: object) -> NoReturn:
        raise AssertionError("everything can be encoded")


def load(brokers: str, topic: str, values: list[bytes]) -> None:
    with TopicWriter(brokers) as writer:
        for i, value in enumerate(values):
            writer.send(topic, f"k{i}".encode(), value, timestamp_ms=1000 + i, partition=PARTITION)


@pytest.fixture
def settings(bootstrap_servers: str, unique: Callable[[str], str], tmp_path: Path) -> dict[str, Any]:
    small = {"max.message.bytes": "2000"}
    ensure_topics(bootstrap_servers, [NewTopic(unique("in"), 2), NewTopic(unique("out"), 2, config=small)])
    return {
        "application.id": unique("app"),
        "bootstrap.servers": bootstrap_servers,
        "commit.interval.ms": "200",
        "state.dir": str(tmp_path / "state"),
        "auto.offset.reset": "earliest",
    }


def run(
    settings: dict[str, Any], unique: Callable[[str], str], until: Callable[[KafkaStreams], bool]
) -> Exception | None:
    text = Serdes.String()
    builder = StreamsBuilder()
    builder.stream(unique("in"), Consumed.with_(text, text)).to(unique("out"), Produced.with_(text, text))
    streams = KafkaStreams(builder.build(), StreamsConfig.load(settings))
    deaths = deaths_of(streams)
    streams.start()
    try:
        deadline = time.monotonic() + 60
        while not until(streams) and streams.state() is not State.ERROR:
            assert time.monotonic() < deadline, "neither done nor dead within 60 s"
            threading.Event().wait(0.05)
    finally:
        streams.close(30.0)
    return deaths[0] if deaths else None


def written(brokers: str, topic: str, count: int = COUNT - len(POISON_OFFSETS)) -> set[str]:
    reader = LatestByKey(brokers, topic, StringDeserializer(), StringDeserializer())
    keys: set[str] = set()
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline and len(keys) < count:
        keys.update(str(key) for key, _ in reader.poll(0.2))
    reader.close()
    return keys


def committed(brokers: str, application_id: str, topic: str) -> int | None:
    admin = TopicAdmin({"bootstrap.servers": brokers})
    try:
        entry = admin.group_offsets(application_id).get(TopicPartition(topic, PARTITION))
    finally:
        admin.close()
    return None if entry is None else entry.offset


def test_a_record_that_the_broker_refuses_is_done_without_when_the_handler_says_so(
    settings: dict[str, Any], bootstrap_servers: str, unique: Callable[[str], str]
) -> None:
    load(bootstrap_servers, unique("in"), POISONED)
    handler = Asked(Response.resume())
    drops: dict[TaskId, dict[str, int]] = {}

    def done(streams: KafkaStreams) -> bool:
        drops.update(streams.dropped_records())
        return committed(bootstrap_servers, settings["application.id"], unique("in")) == COUNT

    death = run(settings | {"production.exception.handler": handler}, unique, done)
    assert death is None
    assert [(c.topic, c.partition, c.offset) for c, _, _ in handler.asked] == [
        (unique("in"), PARTITION, offset) for offset in POISON_OFFSETS
    ]
    for context, record, error in handler.asked:
        assert context.task_id == TaskId(0, PARTITION)
        assert context.processor_node_id == "KSTREAM-SINK-0000000001"
        assert context.timestamp == 1000 + context.offset
        assert (record.topic, record.key) == (unique("out"), f"k{context.offset}".encode())
        assert len(record.value) == 5000
        assert "MSG_SIZE_TOO_LARGE" in str(error)
    assert drops[TaskId(0, PARTITION)] == {"production error": len(POISON_OFFSETS)}
    assert written(bootstrap_servers, unique("out")) == {f"k{i}" for i in range(COUNT) if i not in POISON_OFFSETS}


@pytest.mark.parametrize(
    ("guarantee", "response"),
    [
        ("at_least_once", Response.fail()),
        # the transaction cannot commit without the record, so nobody is asked
        ("exactly_once_v2", Response.resume()),
    ],
)
def test_a_refused_record_ends_the_thread_and_nothing_at_it_is_committed(
    guarantee: str,
    response: Response,
    settings: dict[str, Any],
    bootstrap_servers: str,
    unique: Callable[[str], str],
) -> None:
    load(bootstrap_servers, unique("in"), POISONED)
    handler = Asked(response)
    settings |= {"production.exception.handler": handler, "processing.guarantee": guarantee}
    death = run(settings, unique, lambda _: False)
    assert death is not None
    assert unique("out") in str(death)
    assert "MSG_SIZE_TOO_LARGE" in str(death)
    # one record at a time the one at fault is known, whatever batch it was in
    assert f"topic={unique('in')}, partition={PARTITION}, offset={POISON_OFFSETS[0]}" in str(death)
    at = committed(bootstrap_servers, settings["application.id"], unique("in"))
    assert at is None or at <= POISON_OFFSETS[0]
    assert bool(handler.asked) == (guarantee == "at_least_once")


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_a_batch_too_large_for_the_topic_is_sent_again_record_by_record(
    guarantee: str, settings: dict[str, Any], bootstrap_servers: str, unique: Callable[[str], str]
) -> None:
    count = 60
    load(bootstrap_servers, unique("in"), [b"x" * 500] * count)
    handler = Asked(Response.fail())
    settings |= {"production.exception.handler": handler, "processing.guarantee": guarantee}
    done = lambda _: committed(bootstrap_servers, settings["application.id"], unique("in")) == count  # noqa: E731
    assert run(settings, unique, done) is None
    assert handler.asked == []
    assert written(bootstrap_servers, unique("out"), count) == {f"k{i}" for i in range(count)}


@pytest.mark.parametrize("missing", ["sink", "dead letters"])
def test_a_topic_that_does_not_exist_is_named_and_not_tried_for_minutes(
    missing: str, settings: dict[str, Any], bootstrap_servers: str, unique: Callable[[str], str]
) -> None:
    ensure_topics(bootstrap_servers, [NewTopic(unique("small"), 1)])
    builder, text = StreamsBuilder(), Serdes.String()
    lines = builder.stream(unique("in"), Consumed.with_(text, text))
    if missing == "dead letters":
        with builder.on_error(ErrorPolicy.resume(unique("nowhere"))):
            lines = lines.map_values(lambda value: str(int(value)))
    lines.to(unique("small" if missing == "dead letters" else "nowhere"), Produced.with_(text, text))
    # the client tells of a lost record when its transaction's time is over
    chosen = {"processing.guarantee": "exactly_once_v2", "transaction.timeout.ms": "3000"}
    streams = KafkaStreams(builder.build(), StreamsConfig.load({**settings, **chosen}))
    deaths = deaths_of(streams)
    load(bootstrap_servers, unique("in"), [b"x"])
    streams.start()
    try:
        assert streams.wait(60)
    finally:
        streams.close(30)
    assert f"topics that it writes to do not exist: {unique('nowhere')}" in str(deaths[0])
