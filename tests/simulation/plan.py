"""What a schedule is made of: the application, its input, and when which fault happens. Drawn from the seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final

_FAULTS: Final = {
    "kill": 5,
    "wipe": 2,
    "stop": 5,
    "freeze": 4,
    "cut": 3,
    "outage": 2,
    "move": 2,
    "clock": 1,
    "stall": 2,
    "abandon": 1,
}
_LENGTHS_S: Final = {
    "kill": (0.0, 3.0),
    "wipe": (0.0, 4.0),
    "stop": (0.0, 3.0),
    "freeze": (0.2, 14.0),
    "cut": (0.3, 14.0),
    "outage": (0.2, 14.0),
    "move": (0.1, 3.0),
    "clock": (-30.0, 30.0),
    "stall": (0.1, 15.0),
    "abandon": (8.0, 16.0),
}
_AT_A_REQUEST: Final = frozenset({"kill", "wipe", "stop", "freeze", "cut", "abandon"})
_INPUT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        at_s: When, from the start.
        kind: ``kill`` an instance, ``wipe`` its disk too, ``stop`` it in good order, ``freeze`` it, ``cut`` its
            network,
            an ``outage`` of all brokers, a ``move`` of the group's coordinator, a jump of the ``clock``, a ``stall`` in
            user code; ``abandon`` stops it while its network is cut.
        instance: Which.
        length_s: How long; of the clock, how far.
        requests: It happens at the instance's request of this number from then on: many are those of commits. None: at
            once.
    """

    at_s: float
    kind: str
    instance: int
    length_s: float
    requests: int | None = None

    def __str__(self) -> str:
        return f"{self.kind} instance {self.instance}, {self.length_s:.2f} s"


@dataclass(frozen=True, slots=True)
class Plan:
    """See the module.

    Attributes:
        seed: Of everything else that happens.
        streams: The group's protocol, or classic.
        exactly_once: Or at least once.
        repartitioned: The lists are by another key than the input's, which adds a topic and a sub-topology.
        persistent: Stores outlive a process.
        cached: Record caches are on.
        standbys: Of each task.
        instances, threads: How many, and of each.
        partitions: Of the input.
        loss: Share of requests whose connection breaks.
        slow_markers: Share of the markers of transactions that come late.
        strict_epochs: As before 4.4, a streams group takes offsets under a member's newest epoch only.
        transaction_timeout_ms: Below or above the session's.
        stale_ends: Share of the questions for a log's end that a broker answers which no longer leads, without knowing.
        acceptable_lag: Under the classic protocol, how many records a state may lack where a task is to run. With 0
            tasks wait for copies to catch up, which probing rebalances look for.
        inputs: Moments with partition and key.
        faults: In their order.
    """

    seed: int
    streams: bool
    exactly_once: bool
    repartitioned: bool
    persistent: bool
    cached: bool
    standbys: int
    instances: int
    threads: int
    partitions: int
    loss: float
    slow_markers: float
    transaction_timeout_ms: int
    strict_epochs: bool
    stale_ends: float
    acceptable_lag: int
    inputs: list[tuple[float, int, str]] = field(repr=False)
    faults: list[Fault] = field(repr=False)


def draw(seed: int) -> Plan:
    """The plan of a seed."""
    rnd = random.Random(f"plan {seed}")
    # of its own, so that what the other draws keeps its order
    lag = random.Random(f"lag {seed}")
    partitions = rnd.randint(1, 3)
    instances = rnd.randint(2, 3)
    keys = {number: [f"{letter}{number}" for letter in "xyz"] for number in range(partitions)}
    inputs: list[tuple[float, int, str]] = []
    for _ in range(rnd.randint(15, 40)):
        number = rnd.randrange(partitions)
        inputs.append((rnd.uniform(0.0, _INPUT_S), number, rnd.choice(keys[number])))
    faults: list[Fault] = []
    for _ in range(rnd.randint(1, 9)):
        kind = rnd.choices(list(_FAULTS), list(_FAULTS.values()))[0]
        low, high = _LENGTHS_S[kind]
        at_s = rnd.uniform(0.2, _INPUT_S + 5.0)
        length_s = low + (high - low) * rnd.random() ** 2
        requests = rnd.randint(1, 8) if kind in _AT_A_REQUEST and rnd.random() < 0.6 else None
        faults.append(Fault(at_s, kind, rnd.randrange(instances), length_s, requests))
    return Plan(
        seed,
        streams=rnd.random() < 0.5,
        exactly_once=rnd.random() < 0.7,
        repartitioned=rnd.random() < 0.5,
        persistent=rnd.random() < 0.8,
        cached=rnd.random() < 0.5,
        standbys=int(rnd.random() < 0.3),
        instances=instances,
        threads=2 if rnd.random() < 0.15 else 1,
        partitions=partitions,
        loss=rnd.choice((0.0, 0.0, 0.01, 0.05)),
        slow_markers=rnd.choice((0.01, 0.3)),
        transaction_timeout_ms=rnd.choice((5_000, 20_000)),
        strict_epochs=rnd.random() < 0.5,
        stale_ends=rnd.choice((0.0, 0.0, 0.3)),
        acceptable_lag=lag.choice((0, 10_000)),
        inputs=sorted(inputs),
        faults=sorted(faults, key=lambda fault: fault.at_s),
    )
