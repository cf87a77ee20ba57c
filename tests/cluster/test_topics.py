from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.errors import MissingSourceTopicException, TimeoutException
from headrace.kafka import RecordProducer, SendFailedException
from headrace.serdes import LongDeserializer, LongSerializer, StringDeserializer
from headrace.topics import LatestByKey, TopicReader, TopicWriter, TransactionalWriter

if TYPE_CHECKING:
    from cluster.conftest import TopicFactory


def test_what_is_written_is_read_back_with_its_timestamps(bootstrap_servers: str, topic_factory: TopicFactory) -> None:
    topic = topic_factory("written", 3)
    with TopicWriter(bootstrap_servers) as writer:
        for number in range(2_500):
            writer.send(topic, f"k{number % 7}".encode(), str(number).encode(), timestamp_ms=1_000 + number)
    with TopicReader(bootstrap_servers, topic) as reader:
        records = list(reader.to_end())
        assert sum(reader.positions().values()) == 2_500
    assert sorted(int(r.value or b"") for r in records) == list(range(2_500))
    assert all(r.timestamp == 1_000 + int(r.value or b"") for r in records)
    assert len({(r.key, r.partition) for r in records}) == 7


def test_the_latest_value_of_a_key_wins_and_a_tombstone_removes_it(
    bootstrap_servers: str, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("totals", 2)
    encode = LongSerializer().bind(topic)
    with TopicWriter(bootstrap_servers) as writer:
        for value in (1, 2, 3):
            writer.send(topic, b"kept", encode(value))
            writer.send(topic, b"gone", encode(value))
        writer.send(topic, b"gone", None)
        writer.send(topic, None, encode(9))
    with LatestByKey(bootstrap_servers, topic, StringDeserializer(), LongDeserializer()) as table:
        table.read_to_end()
        assert dict(table.values) == {"kept": 3}
        with TopicWriter(bootstrap_servers) as writer:
            writer.send(topic, b"kept", encode(4))
        changes: list[tuple[str, int | None]] = []
        while not changes:
            changes = table.poll(5.0)
        assert changes == [("kept", 4)]


def test_a_record_that_the_broker_refuses_is_not_lost_silently(
    bootstrap_servers: str, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("compacted", 1, {"cleanup.policy": "compact"})
    with pytest.raises(SendFailedException, match=topic), TopicWriter(bootstrap_servers) as writer:
        writer.send(topic, None, b"a compacted topic takes no record without a key")


def test_open_and_aborted_transactions_are_not_read_and_do_not_hang(
    bootstrap_servers: str, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("transactional")
    producer = RecordProducer({"bootstrap.servers": bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(15.0)
    producer.send(topic, 0, b"k", b"committed")
    producer.commit_transaction()
    producer.send(topic, 0, b"k", b"aborted")
    producer.flush(15.0)
    producer.abort_transaction()
    producer.send(topic, 0, b"k", b"open")
    producer.flush(15.0)
    with TopicReader(bootstrap_servers, topic) as reader:
        assert [r.value for r in reader.to_end()] == [b"committed"]
    producer.abort_transaction()
    with TopicReader(bootstrap_servers, topic) as reader:
        assert [r.value for r in reader.to_end()] == [b"committed"]
    producer.close()


def test_a_missing_topic_is_named(bootstrap_servers: str) -> None:
    with pytest.raises(MissingSourceTopicException, match="there is no topic nowhere"):
        TopicReader(bootstrap_servers, "nowhere")


def test_reading_up_to_offsets_leaves_what_lies_behind_them(
    bootstrap_servers: str, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("bounded", 3)

    def write(values: range) -> None:
        with TopicWriter(bootstrap_servers) as writer:
            for number in values:
                writer.send(topic, None, str(number).encode(), partition=number % 2)

    write(range(20_000))
    with TopicReader(bootstrap_servers, topic) as reader:

        def read(ends: dict[int, int]) -> list[int]:
            return sorted(int(r.value or b"") for r in reader.up_to(ends))

        assert read({0: 0, 1: 7, 2: 0}) == [2 * n + 1 for n in range(7)]
        assert reader.positions() == {0: 0, 1: 7, 2: 0}
        assert read({1: 3}) == []  # it is past that already
        assert read({0: 10_000, 1: 8}) == sorted([2 * n for n in range(10_000)] + [15])
        write(range(20_000, 20_004))
        assert read({0: 10_002, 1: 9}) == [17, 20_000, 20_002]
        rest = sorted(int(r.value or b"") for r in reader.to_end())
        assert rest == [2 * n + 1 for n in range(9, 10_002)]
        with pytest.raises(TimeoutException, match=f"reading {topic}: no progress"):
            list(reader.up_to({2: 1}, timeout_s=0.2))


def test_a_bound_behind_transaction_markers_is_reached(bootstrap_servers: str, topic_factory: TopicFactory) -> None:
    topic = topic_factory("marked")
    with TransactionalWriter(bootstrap_servers, topic) as writer, TopicReader(bootstrap_servers, topic) as reader:
        writer.send(topic, b"k", b"1")
        writer.commit()
        writer.send(topic, b"k", b"2")
        writer.commit()
        # each is followed by a marker
        assert [r.value for r in reader.up_to({0: 2})] == [b"1"]
        assert [r.value for r in reader.up_to({0: 4})] == [b"2"]
