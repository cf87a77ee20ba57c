"""Rates, averages and peaks of the last samples."""

from __future__ import annotations

import math

import pytest

from headrace.metrics import Meter


def test_rates_and_averages_are_of_what_was_recorded() -> None:
    meter = Meter(2, 30)
    meter.record(100.0, 20.0, 10)
    meter.record(104.0, 30.0, 2)
    assert (meter.count, meter.amount) == (12, 50.0)
    assert meter.rate(110.0) == pytest.approx(1.2)
    assert meter.amount_rate(110.0) == pytest.approx(5.0)
    assert meter.average(110.0) == pytest.approx(50 / 12)
    assert (meter.least(110.0), meter.peak(110.0)) == (2.0, 15.0)


def test_what_has_just_begun_is_no_flood() -> None:
    meter = Meter(2, 30)
    meter.record(100.0, events=50)
    assert meter.rate(100.001) == 50


def test_old_samples_are_forgotten_one_by_one() -> None:
    meter = Meter(2, 10)
    meter.record(0.0, 100.0)
    meter.record(11.0, 1.0)
    assert meter.peak(12.0) == 100.0
    meter.record(21.5, 2.0)
    assert meter.peak(22.0) == 2.0
    assert meter.rate(30.0) == pytest.approx(2 / 19)
    assert (meter.count, meter.amount) == (3, 103.0)


@pytest.mark.parametrize("window_s", [10, 0])
def test_nothing_lately_is_a_rate_of_zero_and_no_average(window_s: int) -> None:
    meter = Meter(2, window_s)
    assert meter.rate(5.0) == 0
    assert math.isnan(meter.average(5.0))
    assert math.isnan(meter.peak(5.0))
    assert math.isnan(meter.least(5.0))
    meter.record(5.0, 3.0)
    assert meter.rate(100.0) == 0
    assert math.isnan(meter.average(100.0))


def test_a_counter_that_is_followed_counts_once() -> None:
    meter = Meter(2, 30)
    meter.follow(1.0, 0)
    meter.follow(2.0, 7, 14.0)
    meter.follow(3.0, 7, 14.0)
    meter.follow(4.0, 8, 24.0)
    assert (meter.count, meter.amount, meter.peak(4.0)) == (8, 24.0, 10.0)
