"""Where an application is to read anew: a user's words, and the offsets that they come to.

Source of the rules: ``kafka.tools.StreamsResetter`` (4.4). An offset that lies outside a log is moved to its nearer
end; a time after the newest record is the end.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from headrace.errors import ConfigException
from headrace.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from headrace.records import OffsetAndMetadata

_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?(Z|[+-]\d\d(:?\d\d)?)?")


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record that is not older than this time (epoch ms)."""

    epoch_ms: int


@dataclass(frozen=True, slots=True)
class ShiftBy:
    """So many offsets after the committed one; before it when negative."""

    count: int


@dataclass(frozen=True, slots=True)
class EachOwn:
    """An offset for every partition, as a file says."""

    offsets: Mapping[TopicPartition, int]


ResetTo: TypeAlias = "Literal['earliest', 'latest'] | int | AtTime | ShiftBy | EachOwn"
"""Where reading begins anew: the log start, the log end, an offset, or what the classes say."""


@dataclass(frozen=True, slots=True)
class Positions:
    """What the brokers said of the input topics' partitions.

    Attributes:
        starts: the log starts.
        ends: the log ends.
        at_time: for ``AtTime``, the offset of the first record that is not older; -1 where there is none.
        committed: what the application has committed, of other topics too.
    """

    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    at_time: Mapping[TopicPartition, int] = field(default_factory=dict["TopicPartition", int])
    committed: Mapping[TopicPartition, OffsetAndMetadata] = field(
        default_factory=dict["TopicPartition", "OffsetAndMetadata"]
    )


@dataclass(frozen=True, slots=True)
class OffsetPlan:
    """The offset to commit for each partition; what a person should know of it; why it cannot be done."""

    offsets: Mapping[TopicPartition, int]
    notes: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()


def plan_offsets(
    to: ResetTo, positions: Positions, uncommitted: Literal["earliest", "latest"] | None = "earliest"
) -> OffsetPlan:
    """The offsets that a reset commits. Pure.

    Args:
        to: what was asked for.
        positions: what the brokers said.
        uncommitted: where ``ShiftBy`` counts from in a partition for which nothing is committed: where the application
            would begin. None refuses. (Java's tool counts from the end, unless its own properties say otherwise.)
    """
    match to:
        case "earliest":
            return OffsetPlan(positions.starts)
        case "latest":
            return OffsetPlan(positions.ends)
        case int():
            return _within(dict.fromkeys(positions.starts, to), positions)
        case AtTime():
            return _at_time(positions)
        case ShiftBy():
            return _shifted(to.count, positions, uncommitted)
        case EachOwn():
            return _from_file(to.offsets, positions)


def _within(wanted: Mapping[TopicPartition, int], positions: Positions) -> OffsetPlan:
    offsets: dict[TopicPartition, int] = {}
    notes: list[str] = []
    for tp, offset in sorted(wanted.items()):
        start, end = positions.starts[tp], positions.ends[tp]
        offsets[tp] = min(max(offset, start), end)
        if offset < start:
            notes.append(f"offset {offset} of {tp} is before its log start, {start}, which is taken")
        elif offset > end:
            notes.append(f"offset {offset} of {tp} is behind its log end, {end}, which is taken")
    return OffsetPlan(offsets, tuple(notes))


def _at_time(positions: Positions) -> OffsetPlan:
    late = [tp for tp in sorted(positions.ends) if positions.at_time[tp] < 0]
    offsets = {tp: end if positions.at_time[tp] < 0 else positions.at_time[tp] for tp, end in positions.ends.items()}
    return OffsetPlan(offsets, tuple(f"{tp} has no record as young: its log end is taken" for tp in late))


def _shifted(count: int, positions: Positions, uncommitted: Literal["earliest", "latest"] | None) -> OffsetPlan:
    unknown = sorted(positions.starts.keys() - positions.committed.keys())
    if unknown and uncommitted is None:
        return OffsetPlan({}, (), tuple(f"nothing is committed for {tp}: there is nothing to shift" for tp in unknown))
    begin = positions.ends if uncommitted == "latest" else positions.starts
    known = {tp: entry.offset for tp, entry in positions.committed.items() if tp in positions.starts}
    moved = _within({tp: known.get(tp, begin[tp]) + count for tp in positions.starts}, positions)
    notes = (f"nothing is committed for {tp}: shifted from {uncommitted}" for tp in unknown)
    return OffsetPlan(moved.offsets, (*notes, *moved.notes))


def _from_file(wanted: Mapping[TopicPartition, int], positions: Positions) -> OffsetPlan:
    refusals = [f"the file has no offset for {tp}" for tp in sorted(positions.starts.keys() - wanted.keys())]
    refusals += [
        f"the file has an offset for {tp}, which is no partition of an input topic"
        for tp in sorted(wanted.keys() - positions.starts.keys())
    ]
    return OffsetPlan({}, (), tuple(refusals)) if refusals else _within(wanted, positions)


def moment_ms(text: str) -> int:
    """Epoch milliseconds of ``YYYY-MM-DDTHH:mm:ss.sss``, in UTC unless an offset such as ``+01:00`` or ``Z`` follows.

    Raises:
        ConfigException: the text has another form, or the calendar no such day or time.
    """
    if _MOMENT.fullmatch(text) is not None:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            pass
        else:
            moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
            # whole milliseconds: a float of seconds would lose some
            return int(moment.replace(microsecond=0).timestamp()) * 1000 + moment.microsecond // 1000
    raise ConfigException(
        f"'{text}' is not a date and time such as 2026-03-01T06:30:00.000 or 2026-03-01T06:30:00+01:00"
    )


def read_offsets(file: Path) -> EachOwn:
    """The offsets of a CSV file with a line ``TOPIC,PARTITION,OFFSET`` for each partition, as Kafka's tools write it.

    Raises:
        ConfigException: a line has another form, two are of one partition, or there is none.
        OSError: the file cannot be read.
    """
    with file.open(encoding="utf-8", newline="") as lines:
        return parse_offsets(lines, str(file))


def parse_offsets(lines: Iterable[str], where: str) -> EachOwn:
    """As :func:`read_offsets`, of text; ``where`` it is from, for messages."""
    offsets: dict[TopicPartition, int] = {}
    for number, row in enumerate(csv.reader(lines), 1):
        match [part.strip() for part in row]:
            case []:
                continue
            case [topic, partition, offset] if topic and partition.isdecimal() and offset.isdecimal():
                tp = TopicPartition(topic, int(partition))
            case _:
                raise ConfigException(f"{where}, line {number}: write TOPIC,PARTITION,OFFSET")
        if tp in offsets:
            raise ConfigException(f"{where}, line {number}: there is an offset for {tp} already")
        offsets[tp] = int(offset)
    if not offsets:
        raise ConfigException(f"{where} has no offsets: write TOPIC,PARTITION,OFFSET, a line for each partition")
    return EachOwn(offsets)


__all__ = [
    "AtTime",
    "EachOwn",
    "OffsetPlan",
    "Positions",
    "ResetTo",
    "ShiftBy",
    "moment_ms",
    "parse_offsets",
    "plan_offsets",
    "read_offsets",
]
