"""Fixtures of the runtime's tests on a real broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from cluster.runtime.counting import make_topics

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def app(bootstrap_servers: str, unique: Callable[[str], str], tmp_path: Path) -> dict[str, Any]:
    """Settings of the counting application; its topics are made."""
    make_topics(bootstrap_servers, unique)
    return {
        "application.id": unique("app"),
        "bootstrap.servers": bootstrap_servers,
        "processing.guarantee": "exactly_once_v2",
        "commit.interval.ms": "200",
        "state.dir": str(tmp_path / "state"),
        "session.timeout.ms": "6000",
        "auto.offset.reset": "earliest",
    }
