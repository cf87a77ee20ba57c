"""Fixtures of the product's tests on a real broker."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest
from cluster.course_revenue.java import JavaJob, java
from cluster.course_revenue.product import Product, wait_until

from headrace.testing.broker import jars_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cluster.conftest import TopicFactory

INTEROP = Path(__file__).parents[3] / "interop" / "java"

TOPICS = {
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
            for key, config in TOPICS.items()
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


@pytest.fixture(scope="session")
def kafka_tools() -> Callable[..., str]:
    """Runs a class of Kafka's own jars."""
    jars = f"{jars_directory()}/*"
    return lambda *arguments: java(jars, *arguments)


@pytest.fixture(scope="session")
def job_class_path() -> str:
    done = subprocess.run(
        [str(INTEROP / "classpath.sh"), "job"], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def java_job(job_class_path: str) -> Iterator[Callable[..., JavaJob]]:
    made: list[tuple[JavaJob, Product]] = []

    def make(product: Product, output: str, **settings: object) -> JavaJob:
        named = {key.replace("_", "."): value for key, value in settings.items()}
        job = JavaJob(job_class_path, product, output, named)
        made.append((job, product))
        return job

    yield make
    for job, product in made:
        job.stop()
        names = product.admin.topics()
        product.admin.delete_topics([name for name in names if name.startswith(f"{job.application_id}-")])
