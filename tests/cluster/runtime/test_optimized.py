"""An input topic that serves as a table's changelog: a restore ends where the processing goes on."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest

from headrace import (
    Consumed,
    Grouped,
    KafkaStreams,
    Materialized,
    Produced,
    Serdes,
    StreamsBuilder,
    StreamsConfig,
)
from headrace.serdes import LongDeserializer, StringDeserializer
from headrace.topics import LatestByKey, NewTopic, TopicWriter, ensure_topics

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headrace import Topology

TEXT, LONG = Serdes.String(), Serdes.Long()


def summing(source: str, out: str, config: dict[str, Any]) -> Topology:
    """The sum of the table's values, kept by adding what is new and taking off what is old."""
    builder = StreamsBuilder()
    table = builder.table(source, Consumed.with_(TEXT, LONG), Materialized.as_("rows"))
    (
        table.group_by(lambda key, value: ("all", value), Grouped.with_(TEXT, LONG))
        .reduce(lambda total, new: total + new, lambda total, old: total - old, Materialized.as_("sum"))
        .to_stream()
        .to(out, Produced.with_(TEXT, LONG))
    )
    return builder.build(config)


def write(brokers: str, topic: str, values: range) -> None:
    with TopicWriter(brokers) as writer:
        for value in values:
            writer.send(topic, b"row", value.to_bytes(8, "big"), timestamp_ms=1000 + value)


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_a_table_restored_from_its_input_topic_knows_nothing_of_what_is_not_processed(
    guarantee: str, bootstrap_servers: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    ensure_topics(bootstrap_servers, [NewTopic(unique("in"), 1), NewTopic(unique("out"), 1)])
    settings = {
        "application.id": unique("app"),
        "bootstrap.servers": bootstrap_servers,
        "processing.guarantee": guarantee,
        "topology.optimization": "all",
        "commit.interval.ms": "100",
        "state.dir": str(tmp_path / "state"),
        "auto.offset.reset": "earliest",
    }
    topology = summing(unique("in"), unique("out"), settings)
    made = {name for sub in topology.build(unique("app")).subtopologies for name in sub.store_changelogs.values()}
    assert unique("in") in made
    reader = LatestByKey(bootstrap_servers, unique("out"), StringDeserializer(), LongDeserializer())
    sums: list[int] = []

    def run_until(total: int) -> None:
        streams = KafkaStreams(topology, StreamsConfig.load(settings))
        streams.start()
        try:
            deadline = time.monotonic() + 60
            while not sums or sums[-1] != total:
                assert time.monotonic() < deadline, f"the sum is {sums[-1:]}, not {total}"
                sums.extend(value for _, value in reader.poll(0.1) if value is not None)
        finally:
            assert streams.close(30.0)

    write(bootstrap_servers, unique("in"), range(1, 501))
    run_until(500)
    # the directory is lost, and the topic has moved on meanwhile
    shutil.rmtree(tmp_path / "state")
    write(bootstrap_servers, unique("in"), range(501, 1001))
    run_until(1000)
    shutil.rmtree(tmp_path / "state")
    write(bootstrap_servers, unique("in"), range(1001, 1002))
    run_until(1001)
    reader.close()
