"""Which faults happen when: drawn from a seed, nothing else."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

INSTANCE_FAULTS: Final = {
    "kill instance": 5,
    "stop instance": 3,
    "freeze instance": 3,
    "cut network": 2,
    "silent network": 2,
    "slow network": 1,
    "reset connections": 2,
    "slow disk": 2,
    "full disk": 1,
    "jump clock": 2,
}
"""Faults of one instance, by how often they are drawn."""
BROKER_FAULTS: Final = {"kill broker": 3, "restart broker": 2, "freeze broker": 2, "slow broker disk": 1}
"""Faults of one broker, by how often they are drawn."""
COORDINATORS: Final = ("group coordinator", "transaction coordinator", "any broker")
"""Which broker is hit."""

_BROKER_SHARE: Final = 0.3
_MEAN_GAP_S: Final = 4.0
_LEAST_GAP_S: Final = 1.0
_WIPED: Final = 0.25
_HOURS: Final = 5.0
"""How far a clock jumps at most, ahead or back."""
_BROKER_REST_S: Final = 10.0
"""A broker that comes back has to take in what it missed before the next one goes: three hold two copies in sync."""
_DURATIONS_S: Final = {
    "kill instance": (0.0, 5.0),
    "stop instance": (0.0, 3.0),
    "freeze instance": (1.0, 12.0),
    "cut network": (1.0, 10.0),
    "silent network": (1.0, 12.0),
    "slow network": (2.0, 8.0),
    "reset connections": (0.0, 0.0),
    "slow disk": (2.0, 10.0),
    "full disk": (1.0, 8.0),
    "jump clock": (1.0, 10.0),
    "kill broker": (0.0, 6.0),
    "restart broker": (0.0, 2.0),
    "freeze broker": (1.0, 8.0),
    "slow broker disk": (1.0, 8.0),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        at_s: When it begins, in seconds from the start.
        kind: One of the kinds of this module.
        target: The instance's number from 0; of a broker fault one of :data:`COORDINATORS`.
        duration_s: How long it lasts, before what was ended is started again.
        wiped: The instance's state directory is removed before it starts again.
        hours: By which a clock is wrong.
    """

    at_s: float
    kind: str
    target: int | str
    duration_s: float
    wiped: bool = False
    hours: float = 0.0

    @property
    def of_broker(self) -> bool:
        """Whether it hits a broker."""
        return self.kind in BROKER_FAULTS

    def __str__(self) -> str:
        what = self.target if self.of_broker else f"instance {self.target}"
        extra = ", its state directory removed" if self.wiped else f", by {self.hours:+.1f} h" if self.hours else ""
        return f"{self.kind} ({what}, {self.duration_s:.1f} s{extra})"


def draw(seed: int, seconds: float, instances: int = 3) -> list[Fault]:
    """The faults of a run, in their order. An instance, and the brokers together, have one fault at a time."""
    rnd = random.Random(seed)
    free_at = [0.0] * instances
    broker_free_at = 0.0
    now = _LEAST_GAP_S
    faults: list[Fault] = []
    while True:
        now += _LEAST_GAP_S + rnd.expovariate(1 / (_MEAN_GAP_S - _LEAST_GAP_S))
        if now >= seconds:
            return faults
        ready = [number for number in range(instances) if free_at[number] <= now]
        if now >= broker_free_at and (rnd.random() < _BROKER_SHARE or not ready):
            fault = _drawn(rnd, now, BROKER_FAULTS, rnd.choice(COORDINATORS))
            broker_free_at = now + fault.duration_s + _BROKER_REST_S
        elif ready:
            number = rnd.choice(ready)
            fault = _drawn(rnd, now, INSTANCE_FAULTS, number)
            # what follows an end (a start, a rebalance) is part of it
            free_at[number] = now + fault.duration_s + 2.0
        else:
            continue
        faults.append(fault)


def _drawn(rnd: random.Random, at_s: float, kinds: dict[str, int], target: int | str) -> Fault:
    kind = rnd.choices(list(kinds), list(kinds.values()))[0]
    low, high = _DURATIONS_S[kind]
    wiped = kind == "kill instance" and rnd.random() < _WIPED
    hours = rnd.uniform(-_HOURS, _HOURS) if kind == "jump clock" else 0.0
    return Fault(at_s, kind, target, low + (high - low) * rnd.random(), wiped, hours)
