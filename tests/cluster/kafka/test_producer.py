"""Writing records to a real broker: transactions, delivery errors, tracked offsets, fencing."""

from __future__ import annotations

import gc
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.errors import (
    IllegalStateException,
    ProducerFencedException,
    RecordRefusedException,
    StreamsException,
    TaskMigratedException,
    TimeoutException,
    TransactionAbortableException,
)
from headrace.kafka import (
    RecordConsumer,
    RecordProducer,
    SendFailedException,
    TopicAdmin,
)
from headrace.partitioning import murmur2
from headrace.records import GroupIdentity, OffsetAndMetadata, TopicPartition
from headrace.topics import NewTopic, ensure_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cluster.conftest import TopicFactory

    from headrace.records import RawRecord
    from headrace.testing.cluster import LocalCluster

TooLarge = dict[str, str]
SMALL: TooLarge = {"max.message.bytes": "200"}


@pytest.fixture
def plain(bootstrap_servers: str) -> Iterator[RecordProducer]:
    made = RecordProducer({"bootstrap.servers": bootstrap_servers, "linger.ms": 5})
    yield made
    made.close()


@pytest.fixture
def transactional(bootstrap_servers: str, unique: Callable[[str], str]) -> Iterator[RecordProducer]:
    made = RecordProducer({"bootstrap.servers": bootstrap_servers, "transactional.id": unique("tx"), "linger.ms": 5})
    made.init_transactions(20)
    yield made
    made.close()


def contents(bootstrap: str, topic: str, partitions: int = 1) -> list[list[RawRecord]]:
    """All committed records of a topic, by partition."""
    consumer = RecordConsumer({"bootstrap.servers": bootstrap, "isolation.level": "read_committed"})
    wanted = [TopicPartition(topic, partition) for partition in range(partitions)]
    consumer.assign(dict.fromkeys(wanted, 0))
    found: dict[TopicPartition, list[RawRecord]] = {tp: [] for tp in wanted}
    ended: set[TopicPartition] = set()
    deadline = time.monotonic() + 20
    while ended != set(wanted):
        assert time.monotonic() < deadline
        batch = consumer.poll(0.1, 1000)
        ended.update(batch.eof)
        for tp, records in batch.records.items():
            found[tp] += records
    consumer.close()
    return [found[tp] for tp in wanted]


def test_what_is_sent_is_what_is_written(
    plain: RecordProducer, topic_factory: TopicFactory, bootstrap_servers: str
) -> None:
    topic = topic_factory("out")
    headers = [("h", b"1"), ("h", None), ("é", b"")]
    plain.send(topic, 0, b"k", b"v", 123, headers)
    plain.send(topic, 0, None, None, 5)
    plain.bind_send(topic)(0, b"", b"", 7, None)
    plain.flush(10)
    assert contents(bootstrap_servers, topic) == [
        [(0, 123, b"k", b"v", headers), (1, 5, None, None, None), (2, 7, b"", b"", None)]
    ]


def test_timestamp_zero_is_sent_as_one_with_one_warning(
    plain: RecordProducer, topic_factory: TopicFactory, bootstrap_servers: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = topic_factory("out")
    before = int(time.time() * 1000)
    with caplog.at_level(logging.WARNING, logger="headrace.kafka.producer"):
        plain.send(topic, 0, None, b"zero", 0)
        plain.send(topic, 0, None, b"zero", 0)
        plain.send(topic, 0, None, b"now", None)
        with pytest.raises(StreamsException, match="negative"):
            plain.send(topic, 0, None, b"", -1)
    plain.flush(10)
    times = [record[1] for record in contents(bootstrap_servers, topic)[0]]
    assert times[:2] == [1, 1]
    assert times[2] >= before
    assert len([record for record in caplog.records if "timestamp 0" in record.message]) == 1


def test_without_a_partition_the_key_decides_as_in_java(
    plain: RecordProducer, topic_factory: TopicFactory, bootstrap_servers: str
) -> None:
    topic = topic_factory("out", 5)
    for number in range(50):
        plain.send(topic, None, b"key-%d" % number, b"v")
    plain.flush(10)
    for partition, records in enumerate(contents(bootstrap_servers, topic, 5)):
        for record in records:
            assert record[2] is not None
            assert (murmur2(record[2]) & 0x7FFFFFFF) % 5 == partition


def test_tracked_offsets_are_those_of_the_last_acknowledged_records(
    transactional: RecordProducer, topic_factory: TopicFactory
) -> None:
    changelog, other = topic_factory("changelog", 2), topic_factory("other")
    first, second = TopicPartition(changelog, 0), TopicPartition(changelog, 1)
    send = transactional.bind_tracked_send(changelog)
    for number in range(100):
        send(number % 2, b"k", b"v", number + 1, None)
        transactional.send(other, 0, b"k", b"v")
    transactional.flush(10)
    assert transactional.acked_offsets() == {first: 49, second: 49}
    transactional.commit_transaction()
    send(0, b"k", b"v", None, None)
    transactional.flush(10)
    assert transactional.acked_offsets() == {first: 51, second: 49}  # one marker in between
    send(0, b"k", b"never sent", None, None)
    transactional.abort_transaction()
    transactional.flush(10)
    assert transactional.acked_offsets() == {}
    send(0, b"k", b"v", None, None)
    transactional.commit_transaction()
    assert transactional.acked_offsets().keys() == {first}
    transactional.abort_transaction()  # nothing is open, but the tasks are lost
    assert transactional.acked_offsets() == {}


def test_what_was_not_sent_when_the_tasks_are_lost_is_never_written(
    bootstrap_servers: str, topic_factory: TopicFactory
) -> None:
    changelog, out, small = topic_factory("changelog"), topic_factory("out", 2), topic_factory("small", config=SMALL)
    loser = RecordProducer({"bootstrap.servers": bootstrap_servers, "linger.ms": 300})
    owner = RecordProducer({"bootstrap.servers": bootstrap_servers})
    put, send = loser.bind_tracked_send(changelog), loser.bind_send(out)
    loser.send(small, 0, b"k", b"v" * 1000)
    with pytest.raises(SendFailedException):
        loser.flush(10)
    put(0, b"course", b"lost", 1, None)  # held back until the next one
    for number in range(2000):
        send(number % 2, b"k", b"lost", 1, None)  # queued for 300 ms
    loser.drop_unsent()
    assert loser.acked_offsets() == {}
    owner.bind_tracked_send(changelog)(0, b"course", b"owner", 2, None)
    owner.flush(10)
    for number in range(20):  # all of them: none goes with those dropped
        send(number % 2, b"k", b"later", 1, None)
    put(0, b"line", b"later", 3, None)
    loser.flush(10)
    assert [record[3] for record in contents(bootstrap_servers, changelog)[0]] == [b"owner", b"later"]
    for records in contents(bootstrap_servers, out, 2):
        assert [record[3] for record in records] == [b"later"] * 10
    loser.close()
    owner.close()


def test_at_least_once_a_failed_record_is_raised_by_flush_until_taken(
    plain: RecordProducer, topic_factory: TopicFactory
) -> None:
    good, small = topic_factory("good"), topic_factory("small", config=SMALL)
    plain.send(good, 0, b"k", b"v")
    plain.send(small, 0, b"secret-key", b"secret" * 1000)
    with pytest.raises(SendFailedException):
        plain.flush(10)
    with pytest.raises(SendFailedException) as caught:
        plain.flush(10)
    failure = caught.value
    assert (failure.topic, failure.partition, failure.key_size) == (small, 0, 10)
    assert failure.error_name == "MSG_SIZE_TOO_LARGE"
    assert failure.refused
    assert small in str(failure)
    assert "secret" not in str(failure)
    with pytest.raises(SendFailedException):
        plain.check()
    assert plain.take_failures() == [failure]
    plain.check()
    plain.flush(10)


def test_a_record_above_the_clients_limit_is_refused_on_the_spot(
    bootstrap_servers: str, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("out")
    producer = RecordProducer({"bootstrap.servers": bootstrap_servers, "message.max.bytes": 2000})
    with pytest.raises(SendFailedException, match="MSG_SIZE_TOO_LARGE"):
        producer.send(topic, 0, None, b"v" * 5000)
    producer.send(topic, 0, None, b"v")
    producer.flush(10)
    producer.close()


def test_a_record_not_taken_in_time_is_not_refused_for_what_it_is() -> None:
    producer = RecordProducer({"bootstrap.servers": "127.0.0.1:1", "delivery.timeout.ms": 50, "linger.ms": 0})
    producer.send("t", 0, b"k", b"v")
    with pytest.raises(SendFailedException, match="_MSG_TIMED_OUT") as caught:
        producer.flush(10)
    assert not caught.value.refused
    assert "again" not in str(caught.value)
    producer.close()


def test_exactly_once_a_failed_record_fails_the_commit_and_is_named(
    transactional: RecordProducer, topic_factory: TopicFactory, bootstrap_servers: str
) -> None:
    good, small = topic_factory("good"), topic_factory("small", config=SMALL)
    transactional.send(good, 0, b"k", b"lost with the rest")
    transactional.send(small, 0, b"k", b"v" * 1000)
    transactional.flush(10)
    with pytest.raises(StreamsException, match=f"{good}.*MSG_SIZE_TOO_LARGE.*{small}") as found_by_send:
        transactional.send(good, 0, b"k", b"too late")
    with pytest.raises(StreamsException, match=small) as found_by_commit:
        transactional.commit_transaction(20)
    assert type(found_by_send.value) is type(found_by_commit.value) is RecordRefusedException
    transactional.abort_transaction()
    transactional.check()
    transactional.send(good, 0, b"k", b"after")
    transactional.commit_transaction()
    assert [record[3] for record in contents(bootstrap_servers, good)[0]] == [b"after"]


def test_a_transaction_that_failed_by_a_timeout_is_found_by_the_next_send_and_can_be_aborted(
    bootstrap_servers: str, topic_factory: TopicFactory, unique: Callable[[str], str]
) -> None:
    topic = topic_factory("out")
    producer = RecordProducer(
        {
            "bootstrap.servers": bootstrap_servers,
            "transactional.id": unique("tx"),
            "delivery.timeout.ms": 1,
            "linger.ms": 0,
        }
    )
    producer.init_transactions(20)
    deadline = time.monotonic() + 20

    def send_on() -> None:
        while time.monotonic() < deadline:
            producer.send(topic, 0, b"k", b"v" * 1000)

    with pytest.raises(TransactionAbortableException, match="_TIMED_OUT"):
        send_on()
    producer.abort_transaction()
    producer.check()
    producer.close()


def test_an_aborted_transaction_leaves_nothing_and_no_error(
    transactional: RecordProducer, topic_factory: TopicFactory, bootstrap_servers: str
) -> None:
    topic = topic_factory("out")
    for _ in range(1000):
        transactional.send(topic, 0, b"k", b"gone")
    transactional.abort_transaction()
    transactional.check()
    transactional.send(topic, 0, b"k", b"there")
    transactional.commit_transaction()
    transactional.commit_transaction()  # nothing was begun: nothing to do
    transactional.abort_transaction()
    assert [record[3] for record in contents(bootstrap_servers, topic)[0]] == [b"there"]


def test_a_newer_producer_fences_the_older_one(
    transactional: RecordProducer, topic_factory: TopicFactory, bootstrap_servers: str, unique: Callable[[str], str]
) -> None:
    topic = topic_factory("out")
    transactional.send(topic, 0, b"k", b"zombie")
    transactional.flush(10)
    newer = RecordProducer({"bootstrap.servers": bootstrap_servers, "transactional.id": unique("tx")})
    newer.init_transactions(20)
    transactional.send(topic, 0, b"k", b"zombie")
    with pytest.raises(TaskMigratedException) as caught:
        transactional.commit_transaction(20)
    causes = [caught.value.__cause__, getattr(caught.value.__cause__, "__cause__", None)]
    assert any(isinstance(cause, ProducerFencedException) for cause in causes)
    with pytest.raises(TaskMigratedException):
        transactional.send(topic, 0, b"k", b"zombie")
    newer.send(topic, 0, b"k", b"newer")
    newer.commit_transaction()
    newer.close()
    assert [record[3] for record in contents(bootstrap_servers, topic)[0]] == [b"newer"]


def test_fencing_is_told_by_the_send_that_meets_it_first(
    transactional: RecordProducer, topic_factory: TopicFactory, bootstrap_servers: str, unique: Callable[[str], str]
) -> None:
    topic = topic_factory("out")
    transactional.send(topic, 0, b"k", b"zombie")
    transactional.flush(10)
    newer = RecordProducer({"bootstrap.servers": bootstrap_servers, "transactional.id": unique("tx")})
    newer.init_transactions(20)
    deadline = time.monotonic() + 20

    def send_on() -> None:  # as a task does in the middle of a slice: nothing serves the client's events
        while time.monotonic() < deadline:
            transactional.send(topic, 0, b"k", b"zombie")

    with pytest.raises(TaskMigratedException) as caught:
        send_on()
    assert isinstance(caught.value.__cause__, ProducerFencedException)
    newer.close()


def threads() -> int:
    """Native ones too."""
    return len(list(Path("/proc/self/task").iterdir()))


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="native threads are counted by /proc")
@pytest.mark.parametrize("state", ["plain", "between transactions", "in a transaction", "fenced", "not initialised"])
def test_a_closed_producer_has_no_threads(
    state: str, bootstrap_servers: str, topic_factory: TopicFactory, unique: Callable[[str], str]
) -> None:
    topic = topic_factory("out")
    config = {"bootstrap.servers": bootstrap_servers} | ({} if state == "plain" else {"transactional.id": unique("tx")})
    gc.collect()
    gc.disable()  # freed by closing, not when the collector comes
    try:
        before = threads()
        producer = RecordProducer(config)
        if state != "not initialised":
            if state != "plain":
                producer.init_transactions(20)
            send = producer.bind_send(topic)
            send(0, b"k", b"v", None, None)
            producer.flush(10)
            if state == "between transactions":
                producer.commit_transaction(20)
            if state == "fenced":
                newer = RecordProducer(config)
                newer.init_transactions(20)
                newer.close()
            del send
        assert threads() > before
        producer.close()
        producer.close()
        deadline = time.monotonic() + 10
        while threads() > before:
            assert time.monotonic() < deadline
    finally:
        gc.enable()
    with pytest.raises(IllegalStateException, match="closed"):
        producer.poll()


def test_a_transaction_that_the_brokers_timed_out_ends_the_producer(
    bootstrap_servers: str, topic_factory: TopicFactory, unique: Callable[[str], str]
) -> None:
    topic = topic_factory("out")
    config = {"bootstrap.servers": bootstrap_servers, "transactional.id": unique("tx"), "transaction.timeout.ms": 1000}
    producer = RecordProducer(config)
    producer.init_transactions(20)
    producer.send(topic, 0, b"k", b"v")
    producer.flush(10)

    def write_for(seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            producer.send(topic, 0, b"k", b"v")
            producer.flush(10)

    with pytest.raises(TaskMigratedException) as caught:
        write_for(30)  # until the brokers' next look for timed-out transactions
    assert isinstance(caught.value.__cause__, ProducerFencedException)
    with pytest.raises(TaskMigratedException):
        producer.check()
    producer.close()
    again = RecordProducer(config)
    again.init_transactions(20)
    again.send(topic, 0, b"k", b"again")
    again.commit_transaction()
    again.close()
    assert [record[3] for record in contents(bootstrap_servers, topic)[0]] == [b"again"]


def test_offsets_and_metadata_travel_in_the_transaction(
    transactional: RecordProducer, topic_factory: TopicFactory, bootstrap_servers: str, unique: Callable[[str], str]
) -> None:
    topic, group = topic_factory("in", 2), unique("group")
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    admin = TopicAdmin({"bootstrap.servers": bootstrap_servers})
    offsets = {first: OffsetAndMetadata(7, "AgAAAYvP5WgF"), second: OffsetAndMetadata(9, "")}
    # As in an application, whose member has joined before: the brokers have made their topic of groups' offsets.
    assert admin.group_offsets(group) == {}
    # No group of that id yet: the brokers refuse a member that does not exist.
    with pytest.raises(TaskMigratedException):
        transactional.send_offsets(offsets, GroupIdentity(group, 1, "nobody"))
    transactional.abort_transaction()
    assert admin.group_offsets(group) == {}
    admin.close()


def test_a_client_that_hangs_with_offsets_is_left_behind(cluster: LocalCluster, unique: Callable[[str], str]) -> None:
    topic, group, transactional_id = unique("in"), unique("group"), unique("tx")
    ensure_topics(cluster.bootstrap_servers, [NewTopic(topic, 1)])
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": transactional_id}
    hanging = RecordProducer(settings)
    hanging.init_transactions(20)
    # the client does not look at its time limit while a request is under way
    cluster.brokers[1].pause()
    try:
        with pytest.raises(TransactionAbortableException, match="has not come back"):
            hanging.send_offsets({TopicPartition(topic, 0): OffsetAndMetadata(7, "")}, GroupIdentity(group, 1, "m"), 1)
        hanging.close()
    finally:
        cluster.brokers[1].resume()
    successor = RecordProducer(settings)
    successor.init_transactions(30)
    successor.send(topic, 0, b"key", b"value", 1_000)
    successor.commit_transaction()
    successor.close()
    assert len(contents(cluster.bootstrap_servers, topic)[0]) == 1


def test_a_full_queue_is_waited_out(bootstrap_servers: str, topic_factory: TopicFactory) -> None:
    topic = topic_factory("out")
    producer = RecordProducer(
        {"bootstrap.servers": bootstrap_servers, "queue.buffering.max.messages": 100, "linger.ms": 5}
    )
    for number in range(2000):
        producer.send(topic, 0, b"k", b"%d" % number)
    producer.flush(20)
    producer.close()
    assert [record[3] for record in contents(bootstrap_servers, topic)[0]] == [b"%d" % n for n in range(2000)]


def test_without_brokers_the_wait_has_an_end() -> None:
    producer = RecordProducer({"bootstrap.servers": "127.0.0.1:1", "queue.buffering.max.messages": 2}, max_block_ms=300)
    producer.send("t", 0, None, b"v")
    producer.send("t", 0, None, b"v")
    with pytest.raises(TimeoutException, match=r"max\.block\.ms"):
        producer.send("t", 0, None, b"v")
    with pytest.raises(TimeoutException):
        producer.flush(0.2)
    producer.close()
    other = RecordProducer({"bootstrap.servers": "127.0.0.1:1", "transactional.id": "x"})
    with pytest.raises(TimeoutException):
        other.init_transactions(0.5)
    with pytest.raises(IllegalStateException):
        other.send("t", 0, None, b"v")
    other.close()


def test_records_for_a_topic_that_is_not_there_name_it(
    transactional: RecordProducer, topic_factory: TopicFactory, unique: Callable[[str], str]
) -> None:
    there, absent = topic_factory("out"), unique("absent")
    transactional.send(there, 0, b"k", b"v")
    transactional.send(absent, None, b"k", b"v")
    with pytest.raises(TimeoutException, match=rf"1 records .*; there is no topic {absent}: create it\. It may be"):
        transactional.flush(2)
    transactional.abort_transaction()
