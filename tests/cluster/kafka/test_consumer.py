"""Reading records from a real broker: batches, positions, ends, offsets out of range, committed offsets."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from kafka import KafkaProducer

import headrace.kafka.consumer
from headrace.errors import ConfigException, OffsetOutOfRangeException, StreamsException
from headrace.kafka import RecordConsumer, RecordProducer, TopicAdmin
from headrace.records import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cluster.conftest import TopicFactory

    from headrace.kafka import PolledBatch
    from headrace.records import Headers, RawRecord


@pytest.fixture
def consumer(bootstrap_servers: str, unique: Callable[[str], str]) -> Iterator[RecordConsumer]:
    config = {"bootstrap.servers": bootstrap_servers, "group.id": unique("g"), "isolation.level": "read_committed"}
    made = RecordConsumer(config)
    yield made
    made.close()


@pytest.fixture
def admin(bootstrap_servers: str) -> Iterator[TopicAdmin]:
    made = TopicAdmin({"bootstrap.servers": bootstrap_servers})
    yield made
    made.close()


def read(
    consumer: RecordConsumer, until: Callable[[list[PolledBatch]], bool], timeout_s: float = 20
) -> dict[TopicPartition, list[RawRecord]]:
    batches: list[PolledBatch] = []
    deadline = time.monotonic() + timeout_s
    while not until(batches):
        assert time.monotonic() < deadline, batches
        batches.append(consumer.poll(0.1, 500))
    result: dict[TopicPartition, list[RawRecord]] = {}
    for batch in batches:
        for tp, records in batch.records.items():
            assert records
            result.setdefault(tp, []).extend(records)
    return result


def count(batches: list[PolledBatch]) -> int:
    return sum(len(records) for batch in batches for records in batch.records.values())


def test_records_come_whole_and_in_order_by_partition(
    consumer: RecordConsumer, topic_factory: TopicFactory, bootstrap_servers: str
) -> None:
    lines, courses = topic_factory("lines", 3), topic_factory("courses", 2)
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    headers: Headers = [("h", b"1"), ("h", None), ("other", b"")]
    expected: dict[TopicPartition, list[RawRecord]] = {}
    for number in range(600):
        topic, partition = (lines, number % 3) if number % 2 else (courses, number % 2)
        key = None if number % 7 == 0 else b"k%d" % number
        value = None if number % 11 == 0 else b"v%d" % number
        sent = headers if number % 5 == 0 else None
        producer.produce(topic, value, key, partition, timestamp=number + 1, headers=list(sent or ()))
        run = expected.setdefault(TopicPartition(topic, partition), [])
        run.append((len(run), number + 1, key, value, sent))
    producer.flush()
    consumer.assign(dict.fromkeys(expected, 0))
    assert read(consumer, lambda batches: count(batches) == 600) == expected
    assert consumer.assignment() == expected.keys()
    assert consumer.position(expected) == {tp: len(run) for tp, run in expected.items()}


def test_max_records_bounds_a_poll(
    consumer: RecordConsumer, topic_factory: TopicFactory, bootstrap_servers: str
) -> None:
    tp = TopicPartition(topic_factory("lines"), 0)
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for _ in range(50):
        producer.produce(tp.topic, b"v")
    producer.flush()
    consumer.assign({tp: 0})
    deadline = time.monotonic() + 20
    sizes: list[int] = []
    while sum(sizes) < 50 and time.monotonic() < deadline:
        sizes.append(len(consumer.poll(0.5, 20).records.get(tp, ())))
    assert sum(sizes) == 50
    assert max(sizes) <= 20


def test_positions_pass_transaction_markers_and_the_end_is_known(
    consumer: RecordConsumer, topic_factory: TopicFactory, bootstrap_servers: str, unique: Callable[[str], str]
) -> None:
    tp, empty = TopicPartition(topic_factory("lines"), 0), TopicPartition(topic_factory("empty"), 0)
    producer = RecordProducer({"bootstrap.servers": bootstrap_servers, "transactional.id": unique("tx")})
    producer.init_transactions(20)
    for commit in (True, False, True):
        for number in range(5):
            producer.send(tp.topic, 0, b"k", b"%d" % number)
        producer.flush(10)
        (producer.commit_transaction if commit else producer.abort_transaction)()
    consumer.assign({tp: 0, empty: 0})
    assert consumer.position([tp, empty]) == {tp: 0, empty: 0}
    assert not consumer.is_caught_up(tp)
    records = read(consumer, lambda batches: any(tp in b.eof for b in batches) and any(empty in b.eof for b in batches))
    assert [record[0] for record in records[tp]] == [0, 1, 2, 3, 4, 12, 13, 14, 15, 16]  # the aborted ones left out
    assert consumer.position([tp])[tp] == 18
    assert consumer.is_caught_up(tp)
    assert consumer.is_caught_up(empty)
    assert consumer.watermarks(tp, cached=True) == (0, 18)
    # An open transaction: its records are not there yet for this reader, who has all there is.
    producer.send(tp.topic, 0, b"k", b"open")
    producer.flush(10)
    assert consumer.watermarks(tp, cached=False) == (0, 18)
    assert consumer.poll(0.3, 10).records == {}
    assert consumer.is_caught_up(tp)
    producer.commit_transaction()
    read(consumer, lambda batches: count(batches) == 1)
    assert consumer.position([tp])[tp] >= 19
    read(consumer, lambda batches: consumer.position([tp])[tp] == 20)
    assert consumer.is_caught_up(tp)
    producer.close()


@pytest.mark.parametrize(("offset", "gap"), [(3, 4), (500, -490)], ids=["deleted", "past the end"])
def test_an_offset_out_of_range_is_reported_once_with_its_gap_and_can_be_assigned_anew(
    consumer: RecordConsumer,
    topic_factory: TopicFactory,
    bootstrap_servers: str,
    admin: TopicAdmin,
    offset: int,
    gap: int,
) -> None:
    tp, fine = TopicPartition(topic_factory("lines"), 0), TopicPartition(topic_factory("fine"), 0)
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for number in range(10):
        producer.produce(tp.topic, b"%d" % number)
        producer.produce(fine.topic, b"%d" % number)
    producer.flush()
    assert admin.delete_records({tp: 7}) == {tp: 7}
    consumer.assign({tp: offset, fine: 0})
    batches: list[PolledBatch] = []

    def done(seen: list[PolledBatch]) -> bool:
        batches[:] = seen
        return any(batch.errors for batch in seen) and count(seen) >= 10

    read(consumer, done)
    for _ in range(5):
        batches.append(consumer.poll(0.05, 10))
    errors = [error for batch in batches for error in batch.errors]
    assert len(errors) == 1
    where, error = errors[0]
    assert where == tp
    assert isinstance(error, OffsetOutOfRangeException)
    assert (error.partition, error.committed, error.log_start, error.log_end) == (tp, offset, 7, 10)
    assert error.gap == gap
    assert tp.topic in str(error)
    assert not any(tp in batch.records for batch in batches)
    consumer.incremental_unassign([tp])
    consumer.incremental_assign({tp: 7})
    again = read(consumer, lambda seen: count(seen) == 3)
    assert [record[3] for record in again[tp]] == [b"7", b"8", b"9"]


def test_an_offset_out_of_range_is_reported_even_when_the_gap_cannot_be_learnt(
    consumer: RecordConsumer, topic_factory: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    tp = TopicPartition(topic_factory("lines"), 0)
    monkeypatch.setattr(headrace.kafka.consumer, "_WATERMARK_QUERY_TIMEOUT_S", 0.0)  # no broker is that fast
    consumer.assign({tp: 99})
    batches: list[PolledBatch] = []

    def failed(seen: list[PolledBatch]) -> bool:
        batches[:] = seen
        return any(batch.errors for batch in seen)

    read(consumer, failed)
    ((where, error),) = [error for batch in batches for error in batch.errors]
    assert where == tp
    assert isinstance(error, OffsetOutOfRangeException)
    assert (error.committed, error.log_start, error.log_end, error.gap) == (99, -1, -1, None)
    assert "not known" in str(error)


def test_a_partition_that_came_back_is_not_caught_up_before_it_was_fetched(
    consumer: RecordConsumer, topic_factory: TopicFactory, bootstrap_servers: str
) -> None:
    tp = TopicPartition(topic_factory("courses"), 0)
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for _ in range(100):
        producer.produce(tp.topic, b"v")
    producer.flush()
    consumer.incremental_assign({tp: 0})
    read(consumer, lambda batches: count(batches) == 100 and any(tp in batch.eof for batch in batches))
    assert consumer.is_caught_up(tp)
    consumer.incremental_unassign([tp])
    for _ in range(50):
        producer.produce(tp.topic, b"v")
    producer.flush()
    for assign in (consumer.incremental_assign, consumer.assign):
        assign({tp: 100})
        assert not consumer.is_caught_up(tp)  # the client still has the former assignment's watermark, 100
        read(consumer, lambda batches: count(batches) == 50)
        assert consumer.is_caught_up(tp)
    consumer.assign({tp: 150})
    read(consumer, lambda batches: any(tp in batch.eof for batch in batches))
    assert consumer.is_caught_up(tp)


def test_an_end_reached_earlier_is_not_trusted_while_prefetched_records_are_left(
    consumer: RecordConsumer, topic_factory: TopicFactory, bootstrap_servers: str
) -> None:
    courses, lines = TopicPartition(topic_factory("courses"), 0), TopicPartition(topic_factory("lines"), 0)
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    consumer.assign({courses: 0, lines: 0})
    ends: set[TopicPartition] = set()

    def ended(batches: list[PolledBatch]) -> bool:
        ends.update(tp for batch in batches for tp in batch.eof)
        return ends == {courses, lines}

    read(consumer, ended)
    assert consumer.is_caught_up(courses)
    for tp in (lines, courses):
        for _ in range(50):
            producer.produce(tp.topic, b"v")
        producer.flush()
    deadline = time.monotonic() + 20
    while consumer.watermarks(courses, cached=True)[1] < 50:  # both are prefetched
        assert time.monotonic() < deadline
    assert sum(map(len, consumer.poll(1.0, 20).records.values())) == 20
    assert not consumer.is_caught_up(courses)
    read(consumer, lambda batches: count(batches) == 80)
    assert consumer.is_caught_up(courses)


def test_a_paused_partition_is_silent_and_loses_nothing(
    consumer: RecordConsumer, topic_factory: TopicFactory, bootstrap_servers: str
) -> None:
    topic = topic_factory("lines", 2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for number in range(200):
        producer.produce(topic, b"%d" % number, partition=number % 2)
    producer.flush()
    consumer.assign({first: 0})
    consumer.incremental_assign({second: 0})
    got = read(consumer, lambda seen: count(seen) >= 1)
    consumer.pause([first])
    rest = read(
        consumer, lambda seen: sum(len(b.records.get(second, ())) for b in seen) >= 100 - len(got.get(second, ()))
    )
    assert first not in rest
    consumer.resume([first])
    read(consumer, lambda seen: sum(len(b.records.get(first, ())) for b in seen) == 100 - len(got.get(first, ())))
    assert consumer.position([first, second]) == {first: 100, second: 100}


def test_a_partition_that_was_paused_when_it_went_is_read_when_it_comes_back(
    consumer: RecordConsumer, topic_factory: TopicFactory, bootstrap_servers: str
) -> None:
    """A task that came back to its thread, or a copy that became active, was never given a record again."""
    first = TopicPartition(topic_factory("lines"), 0)
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for number in range(100):
        producer.produce(first.topic, b"%d" % number)
    producer.flush()
    consumer.assign({first: 0})
    read(consumer, lambda seen: count(seen) >= 1)
    consumer.pause([first])
    consumer.incremental_unassign([first])
    consumer.incremental_assign({first: 0})
    read(consumer, lambda seen: count(seen) == 100)
    consumer.pause([first])
    consumer.assign({first: 50})
    read(consumer, lambda seen: count(seen) == 50)


class NoText(str):
    """The name of a header that other clients may write."""

    __slots__ = ()

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        return b"\xff\xfe"


def test_a_record_whose_headers_cannot_be_read_is_named(
    consumer: RecordConsumer, topic_factory: TopicFactory, bootstrap_servers: str
) -> None:
    """The client's own error said neither what nor where, and came with whatever call was next, a user's too."""
    topic = topic_factory("lines")
    producer: Any = KafkaProducer(bootstrap_servers=bootstrap_servers)
    for number in range(300):
        producer.send(topic, b"fine", headers=[("x", b"1")] if number % 2 else [])
    producer.send(topic, b"not fine", headers=[("x", b"1"), (NoText("x"), b"1")]).get(30)
    producer.close()
    consumer.assign({TopicPartition(topic, 0): 0})
    with pytest.raises(StreamsException, match=rf"record at {topic}-0 offset 300 cannot be read: the name of a header"):
        read(consumer, lambda seen: count(seen) == 301)


def test_committed_offsets_come_with_their_metadata(
    consumer: RecordConsumer,
    topic_factory: TopicFactory,
    bootstrap_servers: str,
    unique: Callable[[str], str],
    admin: TopicAdmin,
) -> None:
    topic = topic_factory("lines", 2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    admin.alter_group_offsets(unique("g"), {first: OffsetAndMetadata(42, "AgAAAYvP5WgF")})
    assert consumer.committed([first, second], 10) == {first: OffsetAndMetadata(42, "AgAAAYvP5WgF"), second: None}
    assert consumer.committed([], 10) == {}


def test_a_setting_the_client_does_not_know_is_a_config_error(bootstrap_servers: str) -> None:
    with pytest.raises(ConfigException, match=r"max\.block\.ms"):
        RecordConsumer({"bootstrap.servers": bootstrap_servers, "max.block.ms": 1})


def test_the_forced_settings_cannot_be_changed(bootstrap_servers: str, topic_factory: TopicFactory) -> None:
    tp = TopicPartition(topic_factory("lines"), 0)
    made = RecordConsumer({"bootstrap.servers": bootstrap_servers, "auto.offset.reset": "earliest"})
    made.assign({tp: 99})
    batches: list[PolledBatch] = []

    def failed(seen: list[PolledBatch]) -> bool:
        batches[:] = seen
        return any(batch.errors for batch in seen)

    read(made, failed)
    assert [type(error) for batch in batches for _, error in batch.errors] == [OffsetOutOfRangeException]
    made.close()
    made.close()


def test_topics_that_come_one_after_the_other_are_read_at_once(
    topic_factory: TopicFactory, bootstrap_servers: str
) -> None:
    topics = [topic_factory(f"late-{number}") for number in range(6)]
    consumer = RecordConsumer({"bootstrap.servers": bootstrap_servers})
    began = time.monotonic()
    for topic in topics:
        tp = TopicPartition(topic, 0)
        consumer.incremental_assign({tp: 0})
        while tp not in consumer.poll(0.1, 10).eof:
            assert time.monotonic() - began < 30
    assert time.monotonic() - began < 4, "for a topic that it does not know the client looks once a second"
    consumer.close()
