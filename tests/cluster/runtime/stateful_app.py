"""An application of operators with state, for tests that kill it: its topics, and what has to come out by plain sums.

Inputs are never later than their windows' grace period, however often stream time begins anew: which records are late
must not depend on when an instance was killed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from headrace import (
    BufferConfig,
    Consumed,
    EmitStrategy,
    Grouped,
    JoinWindows,
    KTable,
    Materialized,
    Produced,
    Serdes,
    SessionWindows,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Windowed,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace import KStream, StreamsConfig, Topology

INPUTS: Final = ("clicks", "pairs", "lefts", "rights", "orders", "products")
OUTPUTS: Final = ("closed", "suppressed", "sessions", "sessions-closed", "paired", "met", "joined", "inner", "sums")
TICK: Final = "tick"
"""Keys of records that only move time on begin with it."""

GRACE_MS: Final = 2_000
"""How late records may be."""
WINDOW_MS: Final = 10_000
GAP_MS: Final = 3_000
APART_MS: Final = 5_000
LONG: Final = timedelta(hours=20)

_EMIT = "__emit.interval.ms.kstreams"
SETTINGS: Final = {
    # results of closed windows with the record that closes them, not within a second of others
    f"{_EMIT}.windowed.aggregation__": 0,
    f"{_EMIT}.outer.join.spurious.results.fix__": 0,
}

TEXT: Final = Serdes.String()
LONG_INT: Final = Serdes.Long()
AS_TEXT: Final = Consumed.with_(TEXT, TEXT)
NUMBERED: Final = Grouped.with_(TEXT, LONG_INT)


def topic(name: str, mark: str) -> str:
    return f"{name}-{mark}"


def build(config: StreamsConfig) -> Topology:
    """The topology; ``test.mark`` makes the topics' names."""
    mark: str = config.originals()["test.mark"]
    builder = StreamsBuilder()

    def stream(name: str) -> KStream[str, str]:
        return builder.stream(topic(name, mark), AS_TEXT)

    def give(results: KStream[str, str], name: str) -> None:
        results.to(topic(name, mark), Produced.with_(TEXT, TEXT))

    def give_windows(table: KTable[Windowed[str], int], name: str) -> None:
        text: KTable[Windowed[str], str] = table.map_values(str)
        give(text.to_stream(_window_key), name)

    clicks = stream("clicks").map_values(int).group_by_key(NUMBERED)
    tumbling = TimeWindows.of_size_and_grace(timedelta(milliseconds=WINDOW_MS), timedelta(milliseconds=GRACE_MS))
    sessions = SessionWindows.of_inactivity_gap_and_grace(
        timedelta(milliseconds=GAP_MS), timedelta(milliseconds=GRACE_MS)
    )
    on_close = EmitStrategy.ON_WINDOW_CLOSE
    give_windows(
        clicks.windowed_by(tumbling)
        .emit_strategy(on_close)
        .reduce(lambda total, one: total + one, Materialized.as_("closed").with_retention(LONG)),
        "closed",
    )
    give_windows(
        clicks.windowed_by(tumbling)
        .count(Materialized.as_("counted").with_retention(LONG))
        .suppress(Suppressed.until_window_closes(BufferConfig.unbounded())),
        "suppressed",
    )
    give_windows(
        clicks.windowed_by(sessions).count(Materialized.as_("sessions").with_retention(LONG)),
        "sessions",
    )
    give_windows(
        clicks.windowed_by(sessions)
        .emit_strategy(on_close)
        .count(Materialized.as_("sessions-closed").with_retention(LONG)),
        "sessions-closed",
    )

    # both sides of the one come from one topic, so that their order is given; those of the other from two
    pairs = stream("pairs")
    left, right = pairs.filter(lambda _, value: value[0] == "L"), pairs.filter(lambda _, value: value[0] == "R")
    apart = timedelta(milliseconds=APART_MS)
    near = JoinWindows.of_time_difference_and_grace(apart, timedelta(milliseconds=GRACE_MS))
    give(left.left_join(right, _joined, near, StreamJoined.with_(TEXT, TEXT, TEXT).with_store_name("paired")), "paired")
    patient = JoinWindows.of_time_difference_and_grace(apart, timedelta(hours=6))
    lefts, rights = stream("lefts"), stream("rights")
    give(lefts.outer_join(rights, _joined, patient, StreamJoined.with_(TEXT, TEXT, TEXT).with_store_name("met")), "met")

    orders: KTable[str, str] = builder.table(topic("orders", mark), AS_TEXT, Materialized.as_("orders"))
    products: KTable[str, str] = builder.table(topic("products", mark), AS_TEXT, Materialized.as_("products"))
    in_text: Materialized[str, str] = Materialized.with_(TEXT, TEXT)
    give(orders.left_join(products, _joined, in_text, foreign_key_extractor=_product_of).to_stream(), "joined")
    give(orders.join(products, _joined, in_text, foreign_key_extractor=_product_of).to_stream(), "inner")
    sums: KTable[str, int] = orders.group_by(_amount_of, NUMBERED).reduce(
        lambda total, new: total + new, lambda total, old: total - old, Materialized.as_("sums")
    )
    give(sums.to_stream().map_values(str), "sums")
    return builder.build(config.values())


def _window_key(key: Windowed[str], value: object) -> str:
    return f"{key.key}@{key.window.start}-{key.window.end}"


def _joined(left: str | None, right: str | None) -> str:
    return f"{left}+{right}"


def _product_of(order: str) -> str:
    return order.split(":")[0]


def _amount_of(key: str, order: str) -> tuple[str, int]:
    product, amount = order.split(":")
    return product, int(amount)


@dataclass
class Model:
    """What was sent, and what has to come of it."""

    clicks: dict[str, list[tuple[int, int]]] = field(default_factory=dict[str, list[tuple[int, int]]])
    sides: dict[tuple[str, str, str], list[tuple[int, str]]] = field(
        default_factory=dict[tuple[str, str, str], list[tuple[int, str]]]
    )
    orders: dict[str, str] = field(default_factory=dict[str, str])
    products: dict[str, str] = field(default_factory=dict[str, str])

    def add(self, name: str, key: str, value: str | None, timestamp: int) -> None:
        """One more input record."""
        if name in ("orders", "products"):
            table: dict[str, str] = getattr(self, name)
            if value is None:
                table.pop(key, None)
            else:
                table[key] = value
            return
        assert value is not None
        if name == "clicks":
            self.clicks.setdefault(key, []).append((timestamp, int(value)))
        else:
            output, side = ("paired", value[0]) if name == "pairs" else ("met", name[0].upper())
            self.sides.setdefault((output, side, key), []).append((timestamp, value))

    def final(self) -> dict[str, Counter[tuple[str, str]]]:
        """Of outputs that have each result once: keys and values, and how often (once each but for equal ones)."""
        totals: Counter[tuple[str, int]] = Counter()
        numbers: Counter[tuple[str, int]] = Counter()
        for key, records in self.clicks.items():
            for timestamp, value in records:
                totals[key, timestamp - timestamp % WINDOW_MS] += value
                numbers[key, timestamp - timestamp % WINDOW_MS] += 1
        return {
            "closed": _windows(totals),
            "suppressed": _windows(numbers),
            "sessions-closed": Counter(self._sessions()),
            "paired": Counter(self._pairs("paired", right=False)),
            "met": Counter(self._pairs("met", right=True)),
        }

    def latest(self) -> dict[str, dict[str, str]]:
        """Of outputs that are tables: their rows. Sums of nothing are left out."""
        sums: Counter[str] = Counter()
        for order in self.orders.values():
            product, amount = _amount_of("", order)
            sums[product] += amount
        joined = {key: _joined(order, self.products.get(_product_of(order))) for key, order in self.orders.items()}
        return {
            "sessions": dict(self._sessions()),
            "joined": joined,
            "inner": {key: joined[key] for key, order in self.orders.items() if _product_of(order) in self.products},
            "sums": {product: str(total) for product, total in sums.items() if total},
        }

    def _sessions(self) -> Iterator[tuple[str, str]]:
        for key, records in self.clicks.items():
            times = sorted(timestamp for timestamp, _ in records)
            start = count = 0
            for at, timestamp in enumerate(times):
                start, count = (start, count + 1) if count else (timestamp, 1)
                if at + 1 == len(times) or times[at + 1] - timestamp > GAP_MS:
                    yield f"{key}@{start}-{timestamp}", str(count)
                    count = 0

    def _pairs(self, output: str, *, right: bool) -> Iterator[tuple[str, str]]:
        for key in sorted({key for name, _, key in self.sides if name == output}):
            lefts, rights = (self.sides.get((output, side, key), []) for side in "LR")
            for time, one in lefts:
                met: list[str | None] = [other for at, other in rights if abs(at - time) <= APART_MS]
                yield from ((key, _joined(one, other)) for other in met or [None])
            for time, other in rights if right else ():
                if all(abs(at - time) > APART_MS for at, _ in lefts):
                    yield key, _joined(None, other)


def _windows(results: Counter[tuple[str, int]]) -> Counter[tuple[str, str]]:
    return Counter({(f"{key}@{start}-{start + WINDOW_MS}", str(value)): 1 for (key, start), value in results.items()})


class Seen:
    """What a ``read_committed`` reader has seen of the outputs."""

    def __init__(self) -> None:
        self.records = 0
        self.final: dict[str, Counter[tuple[str, str]]] = {name: Counter() for name in OUTPUTS}
        self.latest: dict[str, dict[str, str]] = {name: {} for name in OUTPUTS}

    def add(self, name: str, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """More records of an output."""
        for raw_key, raw in records:
            key = (raw_key or b"").decode()
            self.records += 1
            if raw is None:
                self.latest[name].pop(key, None)
            elif not key.startswith(TICK):
                value = raw.decode()
                self.final[name][key, value] += 1
                self.latest[name][key] = value

    def differences(self, model: Model) -> dict[str, Any]:
        """By output, what is missing and what is too much; empty when all is as it has to be."""
        found: dict[str, Any] = {}
        for name, results in model.final().items():
            if self.final[name] != results:
                found[name] = {"missing": results - self.final[name], "extra": self.final[name] - results}
        for name, rows in model.latest().items():
            latest = {key: value for key, value in self.latest[name].items() if (name, value) != ("sums", "0")}
            if latest != rows:
                found[name] = {"missing": rows.items() - latest.items(), "extra": latest.items() - rows.items()}
        return found
