"""Topics, offsets and groups on a real broker."""

from __future__ import annotations

import gc
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cluster.instances import wait_until
from cluster.kafka.members import classic_member, drive
from confluent_kafka import Producer

import headrace.kafka.admin
from headrace.errors import (
    ConfigException,
    IllegalStateException,
    MissingSourceTopicException,
    StreamsException,
    TimeoutException,
)
from headrace.kafka import NewTopic, RecordProducer, TopicAdmin
from headrace.kafka.connections import group_client_config
from headrace.records import OffsetAndMetadata, TaskId, TopicPartition
from headrace.testing.broker import jars_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cluster.conftest import TopicFactory


@pytest.fixture
def admin(bootstrap_servers: str) -> Iterator[TopicAdmin]:
    made = TopicAdmin({"bootstrap.servers": bootstrap_servers}, timeout_ms=20_000)
    yield made
    made.close()


def test_topics_are_created_described_and_deleted(admin: TopicAdmin, unique: Callable[[str], str]) -> None:
    name = unique("app-store-changelog")
    config = {"cleanup.policy": "compact", "retention.ms": "-1"}
    assert admin.create_topics([NewTopic(name, 3, config=config)]) == frozenset()
    assert admin.partition_counts([name, unique("absent")]) == {name: 3}
    assert admin.topic_configs([name, unique("absent")]) == {name: config}
    settings = admin.topic_settings([name])[name]
    assert {key: setting.value for key, setting in settings.items() if setting.own} == config
    assert settings["max.message.bytes"] == ("1048588", False)
    assert admin.replication_factors([name, unique("absent")]) == {name: 1}
    assert name in admin.list_topics()
    assert admin.create_topics([NewTopic(name, 5)]) == {name}
    assert admin.partition_counts([name]) == {name: 3}
    assert admin.delete_topics([name, unique("absent")]) == {unique("absent")}
    assert admin.partition_counts([]) == {}
    assert admin.topic_configs([]) == {}


def test_a_config_the_brokers_refuse_is_named(admin: TopicAdmin, unique: Callable[[str], str]) -> None:
    with pytest.raises(StreamsException, match=unique("bad")):
        admin.create_topics([NewTopic(unique("bad"), 1, config={"cleanup.policy": "maybe"})])


def test_the_latest_offset_is_the_high_watermark_unless_asked_otherwise(
    admin: TopicAdmin, topic_factory: TopicFactory, bootstrap_servers: str, unique: Callable[[str], str]
) -> None:
    tp = TopicPartition(topic_factory("changelog"), 0)
    producer = RecordProducer({"bootstrap.servers": bootstrap_servers, "transactional.id": unique("tx")})
    producer.init_transactions(20)
    producer.send(tp.topic, 0, b"k", b"v", 1000)
    producer.commit_transaction()
    producer.send(tp.topic, 0, b"k", b"v", 2000)
    producer.flush(10)
    assert admin.list_offsets([tp], "latest") == {tp: 3}
    assert admin.list_offsets([tp], "latest", read_committed=True) == {tp: 2}
    producer.commit_transaction()
    assert admin.list_offsets([tp], 1500) == {tp: 1}  # the marker of the first transaction has a time too
    assert admin.list_offsets([tp], 9_000_000_000_000) == {tp: -1}
    assert admin.delete_records({tp: 2}) == {tp: 2}
    assert admin.list_offsets([tp], "earliest") == {tp: 2}
    assert admin.delete_records({}) == admin.list_offsets([], "latest") == {}
    with pytest.raises(MissingSourceTopicException):
        admin.list_offsets([TopicPartition(unique("absent"), 0)], "latest")
    producer.close()


def test_group_offsets_are_set_and_listed_and_those_of_a_deleted_topic_forgotten(
    admin: TopicAdmin, topic_factory: TopicFactory, unique: Callable[[str], str]
) -> None:
    topic, deleted, group = topic_factory("in", 2), topic_factory("gone"), unique("group")
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    assert admin.group_offsets(group) == {}
    admin.alter_group_offsets(group, {first: OffsetAndMetadata(4, "m"), second: OffsetAndMetadata(5, "")})
    assert admin.group_offsets(group) == {first: OffsetAndMetadata(4, "m"), second: OffsetAndMetadata(5, "")}
    assert admin.list_groups()[group] == "classic"
    assert not admin.describe_group(group).active
    admin.alter_group_offsets(group, {TopicPartition(deleted, 0): OffsetAndMetadata(6, "")})
    admin.delete_topics([deleted])
    wait_until(lambda: admin.group_offsets(group).keys() == {first, second}, "the brokers forget the offset")


def test_a_group_with_members_is_described_and_protected(
    admin: TopicAdmin, topic_factory: TopicFactory, bootstrap_servers: str, unique: Callable[[str], str]
) -> None:
    topic, group = topic_factory("in", 4), unique("group")
    member = classic_member(bootstrap_servers, group, topic)
    member.membership.start()
    drive([member], lambda: len(member.tasks) == 4)
    described = admin.describe_group(group)
    assert (described.type, described.state, described.active) == ("classic", "Stable", True)
    assert described.members[0].partitions == {TopicPartition(topic, partition) for partition in range(4)}
    assert described.members[0].client_id == f"{group}-client"
    with pytest.raises(StreamsException):
        admin.alter_group_offsets(group, {TopicPartition(topic, 0): OffsetAndMetadata(0, "")})
    admin.remove_members(described, "reset")
    assert not admin.describe_group(group).active
    admin.remove_members(described, "gone already")
    member.membership.close(leave_group=True)


def test_kafkas_own_tool_shows_the_members_partitions(
    topic_factory: TopicFactory, bootstrap_servers: str, unique: Callable[[str], str]
) -> None:
    topic, group = topic_factory("in", 4), unique("group")
    members = [classic_member(bootstrap_servers, group, topic) for _ in range(2)]
    for member in members:
        member.membership.start()
    drive(members, lambda: all(len(member.tasks) == 2 for member in members))
    command = ["java", "-cp", f"{jars_directory()}/*", "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"]
    asked = ["--bootstrap-server", bootstrap_servers, "--describe", "--group", group, "--members", "--verbose"]
    printed = subprocess.run([*command, *asked], capture_output=True, text=True, timeout=60, check=True).stdout
    for member in members:
        identity = member.membership.identity()
        line = next(line for line in printed.splitlines() if identity.member_id in line)
        for task in member.tasks:
            assert f"{task.partition}" in line.split(topic, 1)[1]
    assert {task for member in members for task in member.tasks} == {TaskId(0, p) for p in range(4)}
    for member in members:
        member.membership.close(leave_group=True)


def test_a_transaction_is_listed_with_its_state(
    admin: TopicAdmin, bootstrap_servers: str, topic_factory: TopicFactory, unique: Callable[[str], str]
) -> None:
    topic, mine = topic_factory("transactional"), unique("app")
    assert admin.transactions(mine) == {}
    producer = RecordProducer({"bootstrap.servers": bootstrap_servers, "transactional.id": f"{mine}-0"})
    producer.init_transactions(20.0)
    producer.send(topic, 0, b"k", b"v")
    producer.flush(20.0)
    assert admin.transactions(mine) == {f"{mine}-0": "Ongoing"}
    producer.commit_transaction()
    # the brokers answer a commit when it is decided
    deadline = time.monotonic() + 20
    while (state := admin.transactions(mine)[f"{mine}-0"]) == "PrepareCommit":
        assert time.monotonic() < deadline
    assert state == "CompleteCommit"
    producer.close()


def test_partitions_are_in_the_racks_of_their_brokers(admin: TopicAdmin, topic_factory: TopicFactory) -> None:
    topic = topic_factory("in", 2)
    assert admin.partition_racks([topic, "gone"]) == {TopicPartition(topic, n): {"here"} for n in range(2)}


def test_brokers_too_few_for_transactions_are_told_by_the_setting_to_change(
    admin: TopicAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.check_transactions()
    # as on a new cluster of one broker whose log of transactions shall have more copies
    monkeypatch.setattr(headrace.kafka.admin, "_TRANSACTION_LOG", "not-there-yet")
    admin.check_transactions()
    monkeypatch.setattr(headrace.kafka.admin, "_TRANSACTION_COPIES", "num.network.threads")
    with pytest.raises(StreamsException, match=r"num\.network\.threads=1 .* or set processing\.guarantee"):
        admin.check_transactions()


def test_nobody_there_is_a_timeout() -> None:
    lonely = TopicAdmin({"bootstrap.servers": "127.0.0.1:1"}, timeout_ms=500)
    with pytest.raises(TimeoutException):
        lonely.partition_counts(["t"])
    with pytest.raises(TimeoutException):
        lonely.list_topics()
    with pytest.raises(TimeoutException):
        lonely.list_groups()
    lonely.close()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="native threads are counted by /proc")
def test_a_closed_admin_has_no_threads(bootstrap_servers: str) -> None:
    def threads() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    gc.collect()
    gc.disable()  # freed by closing, not when the collector comes
    try:
        before = threads()
        made = TopicAdmin({"bootstrap.servers": bootstrap_servers})
        made.list_topics()
        made.list_groups()
        assert threads() > before
        made.close()
        made.close()
        deadline = time.monotonic() + 10
        while threads() > before:
            assert time.monotonic() < deadline
    finally:
        gc.enable()
    with pytest.raises(IllegalStateException, match="closed"):
        made.list_topics()


def test_settings_are_translated_for_the_group_connection() -> None:
    assert group_client_config(
        {
            "bootstrap.servers": "a:1, b:2",
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": "SCRAM-SHA-256",
            "sasl.username": "u",
            "sasl.password": "p",
            "ssl.ca.location": "ca.pem",
            "ssl.endpoint.identification.algorithm": "none",
            "linger.ms": 5,
        }
    ) == {
        "bootstrap_servers": ["a:1", "b:2"],
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "u",
        "sasl_plain_password": "p",
        "ssl_cafile": "ca.pem",
        "ssl_check_hostname": False,
    }
    with pytest.raises(ConfigException, match=r"bootstrap\.servers"):
        group_client_config({})
    with pytest.raises(ConfigException, match=r"ssl\.keystore\.location"):
        group_client_config({"bootstrap.servers": "a:1", "ssl.keystore.location": "k.p12"})


def test_a_plain_producers_topic_is_seen(
    admin: TopicAdmin, topic_factory: TopicFactory, bootstrap_servers: str
) -> None:
    topic = topic_factory("in", 2)
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    producer.produce(topic, b"v", partition=1)
    producer.flush()
    both = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    assert admin.list_offsets(both, "latest") == {both[0]: 0, both[1]: 1}
