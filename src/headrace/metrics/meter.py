"""How often something happened lately and how long it took: a few samples of fixed length, of which the oldest go."""

from __future__ import annotations

from math import nan
from typing import TypeAlias

_SHORTEST_S = 1.0
"""A rate is over at least so many seconds: what has just begun would look like a flood."""

_Sample: TypeAlias = "list[float]"
"""``[start, count, amount, peak, least]``: written in place, by one thread."""


class Meter:
    """Counts events and adds amounts up, in all and over the last samples. One thread writes; any may read.

    Java's rates begin as if a first, empty sample had passed before them; these are over the time there really was.

    Args:
        samples: Number of samples kept (``metrics.num.samples``), the one being written included.
        window_s: Length of a sample in seconds (``metrics.sample.window.ms``).

    Attributes:
        count: Events in all.
        amount: Sum of the amounts in all.
    """

    __slots__ = ("_current", "_samples", "_wanted", "_window_s", "amount", "count")

    def __init__(self, samples: int, window_s: float) -> None:
        self._wanted = samples
        self._window_s = window_s
        self._current: _Sample = [float("-inf"), 0, 0.0, nan, nan]
        self._samples: tuple[_Sample, ...] = ()
        self.count = 0
        self.amount = 0.0

    def record(self, now: float, amount: float = 0.0, events: int = 1) -> None:
        """Note ``events`` events, at least one, which together had an ``amount``, such as ms that they took.

        Args:
            now: Seconds of a clock that never goes back.
            amount: The greatest and the least amount per event of one call are the meter's peak and least.
            events: How many.
        """
        sample = self._current
        if now - sample[0] >= self._window_s:
            sample = self._begin(now)
        self.count += events
        self.amount += amount
        sample[1] += events
        sample[2] += amount
        each = amount / events
        if not each <= sample[3]:
            sample[3] = each
        if not each >= sample[4]:
            sample[4] = each

    def follow(self, now: float, count: int, amount: float = 0.0) -> None:
        """Note what has been added to a counter since the last call; does nothing when that is nothing."""
        if count > self.count:
            self.record(now, amount - self.amount, count - self.count)

    def rate(self, now: float) -> float:
        """Events per second."""
        live = self._live(now)
        return sum(sample[1] for sample in live) / _span(live, now)

    def amount_rate(self, now: float) -> float:
        """Amount per second."""
        live = self._live(now)
        return sum(sample[2] for sample in live) / _span(live, now)

    def average(self, now: float) -> float:
        """Amount per event; not a number when there was none lately."""
        live = self._live(now)
        events = sum(sample[1] for sample in live)
        return sum(sample[2] for sample in live) / events if events else nan

    def peak(self, now: float) -> float:
        """Greatest amount per event; not a number when there was none lately."""
        return max((sample[3] for sample in self._live(now)), default=nan)

    def least(self, now: float) -> float:
        """Least amount per event; not a number when there was none lately."""
        return min((sample[4] for sample in self._live(now)), default=nan)

    def _begin(self, now: float) -> _Sample:
        self._current = sample = [now, 0, 0.0, nan, nan]
        kept = self._live(now)
        self._samples = (*kept[max(0, len(kept) - self._wanted + 1) :], sample)
        return sample

    def _live(self, now: float) -> tuple[_Sample, ...]:
        oldest = now - self._wanted * self._window_s
        return tuple(sample for sample in self._samples if sample[0] > oldest)


def _span(live: tuple[_Sample, ...], now: float) -> float:
    return max(_SHORTEST_S, now - live[0][0]) if live else _SHORTEST_S
