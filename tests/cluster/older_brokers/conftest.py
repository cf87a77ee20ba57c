"""The same fixtures with a broker of the oldest release that is supported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cluster.course_revenue.conftest import product, product_factory, seeded

from headrace.testing.cluster import LocalCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["product", "product_factory", "seeded"]

VERSION = "3.9.1"


@pytest.fixture(scope="session")
def older_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A broker of that release, for this directory's tests."""
    with LocalCluster(tmp_path_factory.mktemp("kafka-older"), version=VERSION, log=print) as running:
        yield running


@pytest.fixture(scope="session")
def bootstrap_servers(older_cluster: LocalCluster) -> str:
    """In place of the current release's."""
    return older_cluster.bootstrap_servers
