"""Clients whose only broker goes away and comes back under another address."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from faults.proxy import Network

from headrace.config import StreamsConfig
from headrace.kafka import RecordConsumer, RecordProducer
from headrace.records import TopicPartition
from headrace.testing.cluster import LocalCluster
from headrace.testing.processes import free_port
from headrace.topics import NewTopic, ensure_topics

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest


def test_brokers_that_have_all_moved_are_found_by_the_bootstrap_servers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    alias, first, second = free_port(), free_port(), free_port()
    app = {"application.id": "moved", "bootstrap.servers": f"127.0.0.1:{alias}"}
    directory = tmp_path / "kafka"
    try:
        brokers = LocalCluster(directory, port=first).start().bootstrap_servers
        ensure_topics(brokers, [NewTopic("in", 1)])
        consumer = RecordConsumer(StreamsConfig(app).main_consumer_config("moved"))
        with Network({0: {alias: first}}):
            consumer.assign({TopicPartition("in", 0): 0})
            _poll_until(consumer, lambda eof, _: eof)
            LocalCluster(directory).stop()
            for _ in range(30):
                assert not consumer.poll(0.1, 1).records
        # the client keeps no thread busy and fills no log with tries in vain
        assert len([record for record in caplog.records if record.name == "headrace.kafka.consumer"]) < 30
        brokers = LocalCluster(directory, port=second).start().bootstrap_servers
        producer = RecordProducer({"bootstrap.servers": brokers})
        producer.send("in", 0, b"k", b"v")
        producer.flush(30)
        with Network({0: {alias: second}}):
            _poll_until(consumer, lambda _, records: records)
        producer.close()
        consumer.close()
    finally:
        LocalCluster(directory).stop()


def _poll_until(consumer: RecordConsumer, done: Callable[[bool, bool], bool]) -> None:
    deadline = time.monotonic() + 60
    while True:
        batch = consumer.poll(0.1, 100)
        if done(bool(batch.eof), bool(batch.records)):
            return
        assert time.monotonic() < deadline
