"""A disk below the stores on which a commit's rows take longer than a session may be silent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.disks import FaultyDisk

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cluster.course_revenue.conftest import ProductFactory


def test_stores_on_a_slow_disk_cost_no_membership_and_no_exactness(
    product_factory: ProductFactory, unique: Callable[[str], str], group_protocols: tuple[str, ...], tmp_path: Path
) -> None:
    # the brokers have 5 s for streams groups
    settings = {"session_timeout_ms": 5_000, "heartbeat_interval_ms": 500}
    disk, stores = FaultyDisk(tmp_path / "disk"), tmp_path / "stores"
    products = {protocol: product_factory(2, application_id=unique(protocol)) for protocol in group_protocols}
    watches = {protocol: product.watch() for protocol, product in products.items()}
    for protocol, product in products.items():
        instance = product.instance("a", group_protocol=protocol, state_dir=stores / protocol, **settings)
        instance.environment |= disk.environment
        instance.start()
        product.load(1_000)

    def counted(what: str) -> None:
        for protocol, product in products.items():
            watches[protocol].wait_for(product.sums.lines, what, product.tails)
            assert watches[protocol].latest() == product.sums.totals()

    try:
        counted("before")
        # four stores, one after the other: more than 6 s for a commit
        disk.slow(stores, 1.6)
        for product in products.values():
            product.load(1_000, seed=2)
        counted("on the slow disk")
    finally:
        disk.mend()
    for product in products.values():
        product.load(1_000, seed=3)
    counted("behind it")
    for protocol, product in products.items():
        (instance,) = product.instances
        instance.stop()
        watches[protocol].check()
        lost = instance.find("lost its membership|tasks migrated|left the group")
        assert not lost, instance.tail()
        assert sum(instance.starts_of(f"1_{number}") for number in range(2)) == 2
