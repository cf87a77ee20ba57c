"""The cases make and delete thousands of databases: in memory where there is such a file system."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

MEMORY = Path("/dev/shm")


@pytest.fixture(autouse=True, scope="package")
def _databases_in_memory() -> Iterator[None]:
    before = tempfile.tempdir
    if MEMORY.is_dir():
        tempfile.tempdir = str(MEMORY)
    yield
    tempfile.tempdir = before
