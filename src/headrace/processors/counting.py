"""Counting as an aggregation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Zero:
    """What a count begins with."""

    def __call__(self) -> int:
        """The initializer."""
        return 0


@dataclass(frozen=True, slots=True)
class Add:
    """One more, or one less, record or row."""

    number: int

    def __call__(self, key: object, value: object, aggregate: int) -> int:
        """The aggregator."""
        return aggregate + self.number
