"""What holds for every test of the repository."""

from __future__ import annotations

import atexit
import os
from typing import TYPE_CHECKING, TypeVar

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Generator

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With NO_SKIPPED_TESTS set, as ``.ci/run`` sets it, what a test promises may not go unproven."""
    return _no_skip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Nor may a whole file."""
    return _no_skip((yield))


def _no_skip(report: Report) -> Report:
    if report.skipped and os.environ.get("NO_SKIPPED_TESTS"):
        report.outcome = "failed"
        report.longrepr = f"left out, which NO_SKIPPED_TESTS forbids: {report.longrepr}"
    return report


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
