"""What holds for every test of the repository."""

from __future__ import annotations

import os

import pytest


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Raw clients that tests leave behind lose their broker here and say so: nothing may follow pytest's summary."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
