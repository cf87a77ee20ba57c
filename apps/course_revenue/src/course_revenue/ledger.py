"""The lines of the input as rows of a SQL table, and what becomes of each of them.

Every record up to the cut has one fate: applied, in flight (in the repartition topic), left out as a repeat, rejected,
replaced by its replay, skipped by hand, or broken. Cents are whole numbers of 128 bits all the way.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import duckdb
import msgspec

from course_revenue import headers
from course_revenue import ledger_sql as sql
from course_revenue.adjustments import Skipped, digest
from headrace.errors import SerializationException
from headrace.partitioning import partition_for_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path
    from types import TracebackType

    from course_revenue.model import PurchaseLine
    from headrace.topics import TopicRecord

_CHUNK: Final = 50_000

LANDED_COLUMNS: Final = tuple(sql.LINE)
"""The columns of a table of lines, in the order in which they are taken in."""

_NO_LINE: Final = (None,) * len(sql.LINE)


class Amount(NamedTuple):
    """Cents, and the number of lines that make them."""

    cents: int
    lines: int

    def plus(self, other: Amount) -> Amount:
        """Both together."""
        return Amount(self.cents + other.cents, self.lines + other.lines)

    def minus(self, other: Amount) -> Amount:
        """What is left."""
        return Amount(self.cents - other.cents, self.lines - other.lines)


NOTHING = Amount(0, 0)


class CourseSum(NamedTuple):
    """What the input says of one course.

    Attributes:
        once: each line's identity counted once.
        repeats: what lines that come again would add.
        left_out: those of them that the job leaves out, as ``dedupe=line-key`` says.
        waiting: lines that keep the contract of today, and lie in the rejected topic; they are in ``once``, too.
        flight: lines in the repartition topic that the job will count.
    """

    once: Amount = NOTHING
    repeats: Amount = NOTHING
    left_out: Amount = NOTHING
    waiting: Amount = NOTHING
    flight: Amount = NOTHING

    @property
    def every(self) -> Amount:
        """Every line that the job is to count."""
        return self.once.plus(self.repeats).minus(self.left_out)


class LandedSum(NamedTuple):
    """What a table of lines says of one course, each identity once, and what it does not have.

    Attributes:
        once: the table's sum, without lines behind the cut.
        tail: lines of the input that come after the newest ones of the table, by partition.
        waiting: as in ``CourseSum``, of lines that the table has.
        missing: how many lines the table lacks that are older than its newest one.
        unknown: how many lines it has that the input has not.
        changed: how many lines it has otherwise than the input has them.
    """

    once: Amount = NOTHING
    tail: Amount = NOTHING
    waiting: Amount = NOTHING
    missing: int = 0
    unknown: int = 0
    changed: int = 0


class Fates(NamedTuple):
    """How many records of the input up to the cut met with what; together they are ``records``.

    ``rejected`` ones keep today's contract and lie in the rejected topic; ``broken`` ones do not keep it, and of these
    and of the ``undecodable`` ones ``lost`` are neither in the rejected topic nor skipped. ``unknown`` are broken ones
    of which nobody can say it: the rejected topic does not hold them, and has lost some of its lines.
    """

    records: int = 0
    applied: int = 0
    in_flight: int = 0
    deduped: int = 0
    rejected: int = 0
    replayed: int = 0
    broken: int = 0
    undecodable: int = 0
    skipped: int = 0
    lost: int = 0
    unknown: int = 0


class LandedCounts(NamedTuple):
    """Rows of a table of lines: all; those that are no lines by the contract; repeats; lines behind the cut."""

    rows: int
    broken: int
    repeats: int
    ahead: int


class Ledger:
    """The SQL side: takes in records and tells the sums. A context manager.

    Args:
        decode: gives a record's line, see ``Formats.decode_line``.
        skipped: what the job was moved past by hand.
    """

    def __init__(self, decode: Callable[[TopicRecord], PurchaseLine | None], skipped: Skipped | None = None) -> None:
        self._decode = decode
        left_out = skipped or Skipped()
        self._places = left_out.places
        self._repartitioned = left_out.repartitioned.copy()
        self._encode = msgspec.json.Encoder().encode
        self._replayed: set[tuple[int, int]] = set()
        self._undecodable = self._skipped = 0
        self._prepared = False
        self._database = duckdb.connect(":memory:")
        for statement in sql.MACROS:
            self._database.execute(statement)
        for name, columns in sql.TABLES.items():
            declared = ", ".join(f"{key} {kind}" for key, kind in columns.items())
            self._database.execute(f"CREATE TABLE {name} ({declared})")

    def add_lines(self, records: Iterable[TopicRecord], cut: Mapping[int, int] | None = None) -> None:
        """Takes in records of the lines topic; ``cut`` says from which offsets on they lie behind it."""
        self._insert("lines", self._rows(records, cut))

    def add_flight(self, lines: Iterable[PurchaseLine]) -> None:
        """Takes in the lines of the repartition topic that the job has not counted yet."""
        self._insert("flight", (_fields(line) for line in lines))

    def add_rejected(self, places: Iterable[tuple[int, int]]) -> None:
        """Takes in where, in the input, the lines lay that the job has rejected: partitions and offsets."""
        self._insert("rejected", iter(set(places)))

    def add_landed(self, file: Path) -> None:
        """Takes in a table of lines, as CSV without a header, columns as ``LANDED_COLUMNS``; numbers are whole."""
        whole = "CASE WHEN regexp_full_match({0}, '-?[0-9]+') THEN TRY_CAST({0} AS BIGINT) END AS {0}"
        columns = [name if kind == "VARCHAR" else whole.format(name) for name, kind in sql.LINE.items()]
        text = "{" + ", ".join(f"'{name}': 'VARCHAR'" for name in sql.LINE) + "}"
        self._database.execute(
            f"CREATE TABLE landed AS SELECT {', '.join(columns)}"  # noqa: S608  # made of the constants above
            f" FROM read_csv(?, header = false, auto_detect = false, delim = ',', quote = '\"', escape = '\"',"
            f" allow_quoted_nulls = false, columns = {text})",
            [str(file)],
        )

    def leave_out_repeats(self, retention_ms: int, partitions: int) -> None:
        """Marks what ``dedupe=line-key`` leaves out, before the sums are made.

        The same line is one with its identity, a course of the same partition, and a time that is at most the
        retention from that of a line counted. (The job forgets a line by its clock, two retentions after it was
        counted or later, which the input does not tell: a repeat with the old time that comes then is not followed.)

        Args:
            retention_ms: how far apart in time, in ms.
            partitions: of the repartition topic.
        """
        self._prepare()
        self._insert("left_out", _repeats(self._database.execute(sql.REPEATED).fetchall(), retention_ms, partitions))

    def sums(self, *, all_rejected: bool = True, lost_undecodable: bool = False) -> tuple[dict[str, CourseSum], Fates]:
        """The sums by course, and what became of the records.

        Args:
            all_rejected: whether the rejected topic still holds all that the job has rejected; else nobody can say
                what is lost.
            lost_undecodable: whether a record that does not decode must have been skipped by hand.
        """
        self._prepare()
        self._database.execute(sql.FATES)
        courses = {
            row[0]: CourseSum(*(Amount(int(row[at]), int(row[at + 1])) for at in range(1, 11, 2)))
            for row in self._database.execute(sql.SUMS).fetchall()
        }
        decoded, broken, nowhere, replayed, flying, deduped, rejected = self._one(sql.COUNTS)
        stated = Fates(
            decoded + self._undecodable + self._skipped,
            0,
            flying,
            deduped,
            rejected,
            replayed,
            broken,
            self._undecodable,
            self._skipped,
            (nowhere if all_rejected else 0) + (self._undecodable if lost_undecodable else 0),
            0 if all_rejected else nowhere,
        )
        return courses, stated._replace(applied=stated.records - sum(stated[2:9]))

    def landed(self) -> tuple[dict[str, LandedSum], LandedCounts]:
        """What the table of lines says, beside the input; after ``sums``."""
        for statement in sql.LANDED:
            self._database.execute(statement)
        courses: dict[str, LandedSum] = {}
        for course, *row in self._database.execute(sql.LANDED_SUMS).fetchall():
            once, tail, waiting = (Amount(int(row[at]), int(row[at + 1])) for at in range(0, 6, 2))
            courses[course] = LandedSum(once, tail, waiting, *(int(count) for count in row[6:]))
        return courses, LandedCounts(*self._one(sql.LANDED_COUNTS))

    def close(self) -> None:
        """Forgets the rows."""
        self._database.close()

    def _prepare(self) -> None:
        if not self._prepared:
            self._prepared = True
            self._insert("replayed", iter(self._replayed))
            for statement in sql.PREPARE:
                self._database.execute(statement)

    def _one(self, statement: str) -> list[int]:
        row = self._database.execute(statement).fetchone()
        return [int(value) for value in row or ()]

    def _rows(self, records: Iterable[TopicRecord], cut: Mapping[int, int] | None) -> Iterator[tuple[object, ...]]:
        for record in records:
            beyond = cut is not None and record.offset >= cut.get(record.partition, 0)
            skipped = self._places.get((record.partition, record.offset))
            # behind the cut the job may still be before it: the adjustment is written first
            if skipped is not None and not beyond and digest(record.value) in skipped:
                self._skipped += 1
                continue
            try:
                line = self._decode(record)
            except SerializationException:
                self._undecodable += not beyond
                continue
            if line is None:
                yield (record.partition, record.offset, record.timestamp, beyond, *_NO_LINE)
                continue
            if self._repartitioned and self._was_skipped_later(line):
                self._skipped += 1
                continue
            if record.headers and not beyond and (place := self._replay_of(record)) is not None:
                self._replayed.add(place)
            yield (record.partition, record.offset, record.timestamp, beyond, *_fields(line))

    def _was_skipped_later(self, line: PurchaseLine) -> bool:
        """Whether a record like the one that the job made of the line was skipped; equal ones are as good."""
        like = digest(self._encode(line)) or ""
        if self._repartitioned[like] <= 0:
            return False
        self._repartitioned[like] -= 1
        return True

    def _replay_of(self, record: TopicRecord) -> tuple[int, int] | None:
        if headers.number(record, headers.REPLAYED_OFFSET) is None:
            return None
        source = headers.source(record)
        return None if source is None else (source.partition, source.offset)

    def _insert(self, table: str, rows: Iterator[tuple[object, ...]]) -> None:
        """Hands rows over as JSON text, a chunk at a time: row-by-row inserts take minutes for a hundred thousand."""
        columns = sql.TABLES[table]
        shape = "{" + ", ".join(f'"{name}": ["{kind}"]' for name, kind in columns.items()) + "}"
        unpack = (
            f"INSERT INTO {table} SELECT "  # noqa: S608  # made of the constants above
            + ", ".join(f"unnest(data.{name})" for name in columns)
            + f" FROM (SELECT json_transform_strict(?::JSON, '{shape}') AS data)"
        )
        while chunk := list(itertools.islice(rows, _CHUNK)):
            text = self._encode(dict(zip(columns, zip(*chunk, strict=True), strict=True))).decode()
            self._database.execute(unpack, [text])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        # DuckDB looks for signals while it computes, and puts an error of its own in the place of Ctrl-C
        if isinstance(error, RuntimeError) and str(error) == "Query interrupted":
            raise KeyboardInterrupt from error


def _fields(line: PurchaseLine) -> tuple[object, ...]:
    return line.order_id, line.line_id, line.course_id, line.unit_price_cents, line.quantity, line.line_type


def _repeats(
    rows: Iterable[tuple[int, int, int, str, str, str]], retention_ms: int, partitions: int
) -> Iterator[tuple[int, int]]:
    """The places of repeats among rows (partition, offset, time, order id, line id, course), as the job finds them."""
    counted: dict[tuple[str, str, int], list[int]] = {}
    for part, off, time, order_id, line_id, course in rows:
        times = counted.setdefault((order_id, line_id, partition_for_key(course.encode(), partitions)), [])
        if any(abs(time - other) <= retention_ms for other in times):
            yield part, off
        else:
            times.append(time)
