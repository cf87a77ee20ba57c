"""Fixtures of the product's tests on a real broker."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Protocol

import pytest
from cluster.course_revenue.product import Product, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from cluster.conftest import TopicFactory

_TOPICS = {
    "lines": {"retention.ms": "-1"},
    "courses": {"cleanup.policy": "compact"},
    "output": {"cleanup.policy": "compact"},
    "rejected": {"retention.ms": "-1"},
}


class ProductFactory(Protocol):
    """Makes a product with topics of its own; ``inputs_of`` shares the input topics of another one."""

    def __call__(
        self, partitions: int = 6, *, application_id: str | None = None, inputs_of: Product | None = None
    ) -> Product: ...


@pytest.fixture
def product_factory(
    bootstrap_servers: str, tmp_path: Path, topic_factory: TopicFactory, unique: Callable[[str], str]
) -> Iterator[ProductFactory]:
    """Products whose instances are killed, and whose internal topics are deleted, after the test."""
    made: list[Product] = []

    def make(partitions: int = 6, *, application_id: str | None = None, inputs_of: Product | None = None) -> Product:
        suffix = f".{len(made)}" if made else ""
        topics = {
            key: inputs_of.topics[key]
            if inputs_of is not None and key in ("lines", "courses")
            else topic_factory(f"{key}{suffix}", partitions, config)
            for key, config in _TOPICS.items()
        }
        product = Product(bootstrap_servers, tmp_path, application_id or unique("course-revenue"), topics, partitions)
        made.append(product)
        wait_until(lambda: set(topics.values()) <= product.admin.topics().keys(), "the brokers know the new topics")
        return product

    yield make
    for product in reversed(made):
        product.close()


@pytest.fixture
def product(product_factory: ProductFactory) -> Product:
    """The product on topics with six partitions."""
    return product_factory()


@pytest.fixture
def seeded(request: pytest.FixtureRequest) -> random.Random:
    """Random choices that a failing test can be run again with: HEADRACE_TEST_SEED."""
    seed = int(os.environ.get("HEADRACE_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
    # pytest shows it with the output of a failed test
    print(f"random choices by seed {seed}; again: HEADRACE_TEST_SEED={seed} pytest '{request.node.nodeid}'")
    return random.Random(seed)
