"""A disk that is slow or full, below the state directory and below the brokers' logs: nothing is lost or doubled."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from cluster.course_revenue.conftest import TOPICS
from cluster.course_revenue.product import PATIENCE_S, Product, recent, wait_until
from cluster.disks import FaultyDisk, small_disk
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # its __init__ re-exports it
from course_revenue.sample import SampleSize, sample

from headrace.testing.cluster import LocalCluster

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from cluster.course_revenue.conftest import ProductFactory


def test_a_full_disk_below_the_stores_ends_the_instance_with_what_to_do_and_it_goes_on_when_there_is_space(
    product_factory: ProductFactory, tmp_path: Path
) -> None:
    product = product_factory(2)
    with small_disk(tmp_path / "disk", 8) as disk:
        watch = product.watch()
        watch.crashed = lambda: False
        instance = product.instance("a", state_dir=disk.path).start()
        product.load(1_000)
        watch.wait_for(product.sums.lines, "the first lines", product.tails)
        disk.fill()
        product.load(2_000, courses=500, seed=2)
        assert instance.exit_code() == 1
        assert instance.find(
            rf"the application stops: ProcessorStateException: store \S+: RocksDB at {disk.path}/\S+ cannot be "
            r"written: .*No space left on device.* Free space on its disk, or set state\.dir to a directory on another"
        ), instance.tail()
        # a start does not make it worse, and says the same
        instance.start()
        assert instance.exit_code() == 1
        assert instance.find(
            rf"the application stops: ProcessorStateException: .*{disk.path}/.*No space left on device.* Free space on"
        ), instance.tail()
        disk.free()
        product.load(1_000, seed=3)
        instance.start()
        watch.wait_for(product.sums.lines, "all lines", product.tails)
        assert watch.latest() == product.sums.totals()
        instance.stop()
        watch.check()


def test_a_slow_disk_below_the_brokers_logs_is_waited_for_and_a_full_one_ends_the_broker_until_it_is_back(
    tmp_path: Path, kafka_version: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = FaultyDisk(tmp_path / "slow")
    for name, value in slow.environment.items():
        monkeypatch.setenv(name, value)
    with (
        small_disk(tmp_path / "disk", 64) as disk,
        LocalCluster(disk.path / "kafka", version=kafka_version, heap_mb=384) as cluster,
    ):
        product = Product(cluster.bootstrap_servers, tmp_path, "course-revenue", {key: key for key in TOPICS}, 2)
        product.admin.create_topics([NewTopic(key, 2, 1, config=config) for key, config in TOPICS.items()])
        wait_until(lambda: TOPICS.keys() <= product.admin.topics().keys(), "the broker knows the topics")
        watch = product.watch()
        instance = product.instance("a").start()
        try:
            product.load(1_000)
            watch.wait_for(product.sums.lines, "the first lines", product.tails)
            slow.slow(disk.path, 0.25)
            product.load(500, seed=3)
            watch.wait_for(product.sums.lines, "those on the slow disk", product.tails)
            slow.mend()
            disk.fill()
            more = recent(sample(SampleSize(lines=3_000, seed=2)))
            sending = threading.Thread(target=product.send, args=(more, PATIENCE_S))
            sending.start()
            wait_until(lambda: cluster.state() is None, "the broker ends")
            disk.free()
            cluster.start()
            sending.join(PATIENCE_S)
            assert product.sums.lines == 4_500
            watch.wait_for(4_500, "all lines", product.tails)
            assert watch.latest() == product.sums.totals()
            instance.stop()
            watch.check()
            assert instance.starts == 1
        finally:
            instance.end()
            watch.close()
