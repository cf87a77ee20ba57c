from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # its __init__ re-exports it

from headrace.testing.cluster import LocalCluster
from headrace.testing.processes import ClusterError

if TYPE_CHECKING:
    from pathlib import Path


def test_up_down_and_up_again_keeps_port_and_data(tmp_path: Path) -> None:
    with LocalCluster(tmp_path) as first:
        before = first.state()
        assert before is not None
        admin = AdminClient({"bootstrap.servers": first.bootstrap_servers})
        admin.create_topics([NewTopic("kept", 1, 1)])["kept"].result(timeout=15)
        producer = Producer({"bootstrap.servers": first.bootstrap_servers})
        producer.produce("kept", b"value")
        assert producer.flush(15) == 0
        # a second start, of this or another process, finds the running one
        assert LocalCluster(tmp_path).start() == before
        with pytest.raises(ClusterError, match="already runs"):
            LocalCluster(tmp_path, port=before.port + 1).start()
    with pytest.raises(ProcessLookupError):
        os.kill(before.pids[0], 0)
    with LocalCluster(tmp_path) as second:
        after = second.state()
        assert after is not None
        assert after.port == before.port
        topics = AdminClient({"bootstrap.servers": second.bootstrap_servers}).list_topics(timeout=15).topics
        assert "kept" in topics


def test_a_killed_broker_starts_again_with_its_data(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path)
    try:
        cluster.start()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([NewTopic("kept", 1, 1)])["kept"].result(timeout=15)
        cluster.kill()
        assert cluster.state() is None
        cluster.start()
        topics = AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(timeout=15).topics
        assert "kept" in topics
    finally:
        cluster.stop()


def test_three_brokers_lose_one_and_take_it_back(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, brokers=3, heap_mb=384) as cluster:
        before = cluster.state()
        assert before is not None
        assert len(before.pids) == 3
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([NewTopic("kept", 3)])["kept"].result(timeout=30)
        topic = admin.list_topics("kept", timeout=15).topics["kept"]
        assert all(len(partition.replicas) == 3 for partition in topic.partitions.values())
        cluster.brokers[2].kill()
        running = cluster.state()
        assert running is not None
        assert set(running.brokers) == {1, 3}
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
        for number in range(3):
            producer.produce("kept", b"two of three are enough", partition=number)
        assert producer.flush(60) == 0
        assert cluster.restart(2).port == before.brokers[2].port
        # found again by its directory alone
        assert LocalCluster(tmp_path).state() == cluster.state()
        with pytest.raises(ClusterError, match="holds a cluster of 3 brokers, not of 1"):
            LocalCluster(tmp_path, brokers=1)
    for pid in before.pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
