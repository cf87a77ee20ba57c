"""The plain sum over the input, and how the totals of the job compare with it.

The sum is made by SQL over the input topic's records, by another way than the job's: it shares with the job only the
shape of a purchase line.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import duckdb
import msgspec

from course_revenue import headers
from course_revenue.adjustments import Skipped
from course_revenue.formats import Format, formats
from headrace.errors import SerializationException

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from course_revenue.model import PurchaseLine, Revenue
    from headrace.topics import TopicRecord

_CHUNK = 50_000

_COLUMNS = {
    "seen": "BIGINT",
    "place": "VARCHAR",
    "order_id": "VARCHAR",
    "line_id": "VARCHAR",
    "course_id": "VARCHAR",
    "unit_price_cents": "BIGINT",
    "quantity": "BIGINT",
    "line_type": "VARCHAR",
}
_SHAPE = "{" + ", ".join(f'"{name}": ["{kind}"]' for name, kind in _COLUMNS.items()) + "}"
_UNPACK = (
    "INSERT INTO lines SELECT "  # noqa: S608  # made of the constants above
    + ", ".join(f"unnest(data.{name})" for name in _COLUMNS)
    + f" FROM (SELECT json_transform_strict(?::JSON, '{_SHAPE}') AS data)"
)

_SUMS = """
    WITH signed AS (
        SELECT *, CASE line_type WHEN 'sale' THEN 1 WHEN 'refund' THEN -1 END
                  * unit_price_cents::HUGEINT * quantity::HUGEINT AS cents
        FROM lines
        WHERE line_type IN ('sale', 'refund') AND course_id IS NOT NULL AND unit_price_cents >= 0 AND quantity >= 1
          AND unit_price_cents::HUGEINT * quantity::HUGEINT <= 9223372036854775807
    ), firsts AS (
        SELECT * FROM signed QUALIFY row_number() OVER (PARTITION BY order_id, line_id ORDER BY seen) = 1
    )
    SELECT every.course_id, every.cents, every.lines, once.cents, once.lines
    FROM (SELECT course_id, sum(cents) AS cents, count(*) AS lines FROM signed GROUP BY course_id) AS every
    JOIN (SELECT course_id, sum(cents) AS cents, count(*) AS lines FROM firsts GROUP BY course_id) AS once
    USING (course_id)
"""


class CourseSum(NamedTuple):
    """What the input says of one course: with every line counted, and with each line's identity counted once."""

    net_cents: int
    line_count: int
    deduped_net_cents: int
    deduped_line_count: int


class InputSums(NamedTuple):
    """The sums by course, and how many records of the input are not counted.

    ``broken`` break the contract, ``skipped`` were moved past by hand, and of ``replayed`` ones a copy, sent in again
    from the rejected topic, counts in their place.
    """

    courses: Mapping[str, CourseSum]
    broken: int
    skipped: int = 0
    replayed: int = 0


class Explanation(NamedTuple):
    """How one course's total compares with the input."""

    course_id: str
    input: CourseSum | None
    total: Revenue | None

    @property
    def difference_cents(self) -> int:
        """Total minus the sum over every line."""
        return (self.total.net_cents if self.total else 0) - (self.input.net_cents if self.input else 0)

    @property
    def duplicate_cents(self) -> int:
        """What the repeated lines add to the input's sum."""
        return self.input.net_cents - self.input.deduped_net_cents if self.input else 0

    @property
    def verdict(self) -> str:
        """``equal``, ``deduped`` (the total counts each line once where the input repeats some) or ``different``."""
        lines = self.total.line_count if self.total else 0
        cents = self.total.net_cents if self.total else 0
        given = self.input or CourseSum(0, 0, 0, 0)
        if (cents, lines) == (given.net_cents, given.line_count):
            return "equal"
        if (cents, lines) == (given.deduped_net_cents, given.deduped_line_count):
            return "deduped"
        return "different"


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The comparison of all courses of either side."""

    rows: tuple[Explanation, ...]
    sums: InputSums

    @property
    def differing(self) -> tuple[Explanation, ...]:
        """Courses whose total is neither the input's sum nor its sum without repeated lines."""
        return tuple(row for row in self.rows if row.verdict == "different")

    @property
    def agrees(self) -> bool:
        """Whether nothing is left that duplicates do not explain."""
        return not self.differing

    @property
    def equal(self) -> bool:
        """Whether every total equals the plain sum over the input."""
        return all(row.verdict == "equal" for row in self.rows)


def sum_input(
    records: Iterable[TopicRecord],
    decode: Callable[[TopicRecord], PurchaseLine | None] | None = None,
    skipped: Skipped | None = None,
) -> InputSums:
    """The sums over purchase lines.

    Args:
        records: of the lines topic, in the order in which they were read; undecodable ones count as broken.
        decode: gives a record's line, see ``Formats.decode_line``; None reads JSON.
        skipped: what the job was moved past by hand.

    Returns:
        Sums by course over the lines that keep the contract.
    """
    rows = _Rows(decode or formats(Format.JSON, {}).decode_line("the lines topic"), skipped or Skipped())
    with duckdb.connect(":memory:") as database:
        columns = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
        database.execute(f"CREATE TABLE lines ({columns})")
        _insert(database, rows.of(records))
        replayed = _delete(database, rows.replayed)
        found = database.execute(_SUMS).fetchall()
        counted = database.execute("SELECT count(*) FROM lines").fetchone()
    courses = {row[0]: CourseSum(int(row[1]), int(row[2]), int(row[3]), int(row[4])) for row in found}
    all_lines = int(counted[0]) if counted else 0
    broken = rows.undecodable + all_lines - sum(course.line_count for course in courses.values())
    return InputSums(courses, broken, rows.skipped, replayed)


class _Rows:
    """The rows of the SQL table, made of records; what is not among them is counted."""

    def __init__(self, decode: Callable[[TopicRecord], PurchaseLine | None], skipped: Skipped) -> None:
        self._decode = decode
        self._places = skipped.places
        self._repartitioned = skipped.repartitioned.copy()
        self._encode = msgspec.json.Encoder().encode
        self.undecodable = 0
        self.skipped = 0
        self.replayed: set[str] = set()
        """Where lines lay, when they were rejected, of which a copy was sent in again."""

    def of(self, records: Iterable[TopicRecord]) -> Iterator[tuple[object, ...]]:
        for seen, record in enumerate(records):
            if (record.partition, record.offset) in self._places:
                self.skipped += 1
                continue
            try:
                line = self._decode(record)
            except SerializationException:
                line = None
            if line is None:
                self.undecodable += 1
                continue
            if self._repartitioned and self._was_skipped_later(line):
                self.skipped += 1
                continue
            if record.headers and (place := self._replay_of(record)) is not None:
                self.replayed.add(place)
            yield (
                seen,
                _place(record.partition, record.offset),
                line.order_id,
                line.line_id,
                line.course_id,
                line.unit_price_cents,
                line.quantity,
                line.line_type,
            )

    def _was_skipped_later(self, line: PurchaseLine) -> bool:
        """Whether a record like the one that the job made of the line was skipped; equal ones are as good."""
        digest = hashlib.sha256(self._encode(line)).hexdigest()
        if self._repartitioned[digest] <= 0:
            return False
        self._repartitioned[digest] -= 1
        return True

    def _replay_of(self, record: TopicRecord) -> str | None:
        if headers.number(record, headers.REPLAYED_OFFSET) is None:
            return None
        source = headers.source(record)
        return None if source is None else _place(source.partition, source.offset)


def _place(partition: int, offset: int) -> str:
    return f"{partition}:{offset}"


def _delete(database: duckdb.DuckDBPyConnection, places: set[str]) -> int:
    """Takes rows out by their places; how many there were."""
    if not places:
        return 0
    done = database.execute("DELETE FROM lines WHERE list_contains(?, place)", [sorted(places)]).fetchone()
    return int(done[0]) if done else 0


def reconcile(sums: InputSums, totals: Mapping[str, Revenue]) -> Reconciliation:
    """Compares the input's sums with the job's totals, course by course, sorted by course id."""
    rows = tuple(
        Explanation(course, sums.courses.get(course), totals.get(course)) for course in sorted({*sums.courses, *totals})
    )
    return Reconciliation(rows, sums)


def _insert(database: duckdb.DuckDBPyConnection, rows: Iterator[tuple[object, ...]]) -> None:
    """Hands rows over as JSON text, a chunk at a time: row-by-row inserts take minutes for a hundred thousand."""
    encode = msgspec.json.Encoder().encode
    chunk: list[tuple[object, ...]] = []

    def flush() -> None:
        columns = list(zip(*chunk, strict=True))
        text = encode(dict(zip(_COLUMNS, columns, strict=True))).decode()
        database.execute(_UNPACK, [text])
        chunk.clear()

    for row in rows:
        chunk.append(row)
        if len(chunk) == _CHUNK:
            flush()
    if chunk:
        flush()
