"""Fixtures of the tests of group membership."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cluster.conftest import TopicFactory
    from cluster.kafka.members import Member


@pytest.fixture
def topic(topic_factory: TopicFactory) -> str:
    return topic_factory("lines", 6)


@pytest.fixture
def group(unique: Callable[[str], str]) -> str:
    return unique("app")


@pytest.fixture
def join_as(bootstrap_servers: str, group: str, topic: str) -> Iterator[Callable[..., Member]]:
    """Makes a member by a function of ``members`` and its options, and starts it; all leave after the test."""
    made: list[Member] = []

    def make(kind: Callable[..., Member], **options: object) -> Member:
        member = kind(bootstrap_servers, group, topic, **options)
        made.append(member)
        member.membership.start()
        return member

    yield make
    for member in made:
        member.membership.close(leave_group=True)
