"""Fixtures for tests on a real broker: one for the session, unless HEADRACE_BOOTSTRAP names one.

HEADRACE_KAFKA_VERSION chooses the release of brokers. Tests of what an older one does not have are left out then.
"""

from __future__ import annotations

import os
import time
import uuid
from typing import TYPE_CHECKING, Protocol

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # its __init__ re-exports it

from headrace.testing.cluster import LocalCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


KAFKA_VERSION = os.environ.get("HEADRACE_KAFKA_VERSION")
PROTOCOLS = ("classic", pytest.param("streams", marks=pytest.mark.streams_protocol))
"""For ``parametrize``: both group protocols."""
_STREAMS_SINCE = (4, 2)
OLDER = KAFKA_VERSION is not None and tuple(map(int, KAFKA_VERSION.split(".")[:2])) < _STREAMS_SINCE
"""Whether the brokers have the classic protocol alone."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "/tests/cluster/" in item.path.as_posix():
            item.add_marker(pytest.mark.cluster)
    if OLDER:
        left_out = [item for item in items if item.get_closest_marker("streams_protocol")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


STREAMS_GROUPS = {
    "group.streams.session.timeout.ms": "5000",
    "group.streams.heartbeat.interval.ms": "300",
    "group.streams.min.assignment.interval.ms": "0",
    "group.streams.assignment.interval.ms": "100",
}
"""Under the streams protocol these are the brokers' settings, not the members'."""
RACK = {"broker.rack": "here"}


@pytest.fixture(scope="session")
def kafka_version() -> str | None:
    """The release of brokers, for tests that start their own; None for the current one."""
    return KAFKA_VERSION


@pytest.fixture(scope="session")
def group_protocols() -> tuple[str, ...]:
    """Those that the brokers have."""
    return ("classic",) if OLDER else ("classic", "streams")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, kafka_version: str | None) -> Iterator[LocalCluster]:
    """A broker of this session's own; tests that stop or kill a broker make one themselves."""
    directory = tmp_path_factory.mktemp("kafka")
    with LocalCluster(directory, version=kafka_version, settings={**STREAMS_GROUPS, **RACK}, log=print) as running:
        yield running


@pytest.fixture(scope="session")
def bootstrap_servers(request: pytest.FixtureRequest) -> str:
    """``host:port`` of the broker to test against."""
    named = os.environ.get("HEADRACE_BOOTSTRAP")
    if named:
        return named
    running: LocalCluster = request.getfixturevalue("cluster")
    return running.bootstrap_servers


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Makes names that no other test has: ``unique("app")`` gives ``app-1f0c2a9b`` (the same all through one test)."""
    mark = uuid.uuid4().hex[:8]
    return lambda name: f"{name}-{mark}"


class TopicFactory(Protocol):
    """Creates a topic and returns its full name."""

    def __call__(
        self, name: str, partitions: int = 1, config: dict[str, str] | None = None, *, exact: bool = False
    ) -> str: ...


@pytest.fixture
def topic_factory(bootstrap_servers: str, unique: Callable[[str], str]) -> Iterator[TopicFactory]:
    """Creates topics with unique names (the name as given with ``exact=True``) and deletes them after the test."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    made: list[str] = []

    def create(name: str, partitions: int = 1, config: dict[str, str] | None = None, *, exact: bool = False) -> str:
        topic = name if exact else unique(name)
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=config or {})
        for future in admin.create_topics([new], operation_timeout=10).values():
            future.result(timeout=60)
        made.append(topic)
        # the controller has it; the broker's other answers know it a moment later
        deadline = time.monotonic() + 60
        while len(admin.list_topics(topic, timeout=60).topics[topic].partitions) < partitions:
            assert time.monotonic() < deadline, f"{topic} was created, and the broker does not show it"
            time.sleep(0.02)
        return topic

    yield create
    # what the test deleted itself is no error here
    left = sorted(set(made) & set(admin.list_topics(timeout=15).topics))
    if left:
        for future in admin.delete_topics(left, operation_timeout=10).values():
            future.result(timeout=15)
