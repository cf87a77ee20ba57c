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
        with pytest.raises(ClusterError, match=r"already runs.*headrace cluster down --data-dir "):
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
