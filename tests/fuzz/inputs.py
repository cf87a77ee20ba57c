"""Random records for the topics of a case."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fuzz import kinds
from headrace.api.windows import MAX_TIMESTAMP

if TYPE_CHECKING:
    from random import Random


@dataclass(slots=True)
class Time:
    """The scale of a case: all its sizes and steps are multiples of ``unit`` milliseconds."""

    unit: int
    start: int
    now: int = 0
    last: int = field(default=0)

    @classmethod
    def random(cls, rng: Random) -> Time:
        """Mostly single milliseconds; sometimes scales on which stores drop segments."""
        unit = rng.choice((1, 1, 1, 1, 1000, 60_000, 3_600_000))
        # at large scales not near 0: there the Java library's cached session stores fail
        start = rng.choice((0, 0, 0, 100, 1_700_000_000_000)) if unit == 1 else 1_700_000_000_000
        if rng.random() < 0.03:
            start = MAX_TIMESTAMP - rng.choice((0, 1, 5, 20, 100, 500, 2000)) * unit
        return cls(unit, start, start)

    @property
    def ends(self) -> bool:
        """Whether it comes near the greatest time there is."""
        return self.start > MAX_TIMESTAMP // 2

    def next(self, rng: Random) -> int:
        """The next record's timestamp: as a rule forward, often equal, sometimes far back or far ahead."""
        back = rng.random() < 0.25
        step = rng.choice((1, 2, 3, 5, 8, 12, 30, 60) if back else (0, 0, 0, 1, 1, 1, 2, 3, 5, 10, 40))
        if rng.random() < 0.03:
            step *= 20
        at = max(self.now - step * self.unit, 0) if back else self.now + step * self.unit
        if self.unit > 1 and rng.random() < 0.2:
            at += rng.choice((1, self.unit // 2))
        at = min(at, MAX_TIMESTAMP)
        self.now = max(self.now, at)
        return at


_HEADERS: tuple[list[list[Any]], ...] = ([["h", "1"]], [["h", None]], [["h", "1"], ["h", "2"], ["é", "é"]], [["", ""]])


def records(
    rng: Random,
    topics: dict[str, tuple[str, str]],
    time: Time,
    *,
    odd: bool,
    texts: set[tuple[str, str]],
    wall_clock: bool,
) -> list[dict[str, Any]]:
    """Random inputs.

    Args:
        rng: Source of randomness.
        topics: Types of key and value of each source topic.
        time: The case's scale.
        odd: Whether bytes that are no key or value may come.
        texts: Topics whose keys, whose values are to be texts: the topic with ``key`` or ``value``.
        wall_clock: Whether the topology looks at the wall clock.
    """
    with_headers = rng.random() < 0.3
    nulls = rng.choice((0.0, 0.02, 0.08)), rng.choice((0.0, 0.05, 0.15, 0.3, 0.6))
    made: list[dict[str, Any]] = []
    names = sorted(topics)
    for _ in range(rng.choice((4, 8, 12, 12, 20, 20, 30, 45))):
        if rng.random() < (0.2 if wall_clock else 0.02):
            made.append({"advance_wall_clock_ms": rng.choice((1, 5, 10, 25, 100)) * rng.choice((1, time.unit))})
            continue
        topic = rng.choice(names)
        made.append(_record(rng, topic, topics[topic], time.next(rng), nulls, odd=odd, texts=texts))
        if with_headers and rng.random() < 0.4:
            made[-1]["headers"] = rng.choice(_HEADERS)
    if rng.random() < 0.5:
        # far ahead: windows close, buffers empty
        time.now = min(time.now + 1000 * time.unit, MAX_TIMESTAMP)
        topic = rng.choice(names)
        made.append(_record(rng, topic, topics[topic], time.now, (0, 0), odd=False, texts=texts))
    return made


def _record(
    rng: Random,
    topic: str,
    of: tuple[str, str],
    timestamp: int,
    nulls: tuple[float, float],
    *,
    odd: bool,
    texts: set[tuple[str, str]],
) -> dict[str, Any]:
    record: dict[str, Any] = {"topic": topic}
    record["key"] = None if rng.random() < nulls[0] else kinds.key(rng, of[0])
    record["value"] = None if rng.random() < nulls[1] else kinds.value(rng, of[1])
    if odd and rng.random() < 0.04:
        part = rng.choice(("key", "value"))
        wrong = () if (topic, part) in texts else ("ff", "c328")
        # no bytes at all are, to the Java side's JSON parser, a value that is missing and not null
        none = () if of[part == "value"] == "json" else ("",)
        record[f"{part}_hex"] = rng.choice((*wrong, *none, "00", "0000000000000001", "7b"))
        del record[part]
    record["timestamp"] = timestamp
    return record
