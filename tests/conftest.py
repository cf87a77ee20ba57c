"""What holds for every test of the repository."""

from __future__ import annotations

import atexit
import os

import pytest
from hypothesis import HealthCheck, settings


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Raw clients that tests leave behind lose their broker here and say so: nothing may follow pytest's summary."""
    _silence()
    # pytest gives the stream back when it ends, and the clients are freed after that
    atexit.register(_silence)


def _silence() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


# how long an example takes says something about the machine, not about the code
settings.register_profile("headrace", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("headrace")
