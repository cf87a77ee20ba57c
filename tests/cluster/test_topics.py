from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.errors import MissingSourceTopicException
from headrace.kafka import RecordProducer, SendFailedException
from headrace.serdes import LongDeserializer, LongSerializer, StringDeserializer
from headrace.topics import LatestByKey, TopicReader, TopicWriter

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
