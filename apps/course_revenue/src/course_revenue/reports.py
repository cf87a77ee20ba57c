"""The reconciliation for people and for files: a row for each course, and one line that says what it comes to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import duckdb
import msgspec

from course_revenue.checks import DIFFERENT, EQUAL
from course_revenue.totals import money, on_one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from course_revenue.checks import Explanation
    from course_revenue.reconciling import Outcome

COLUMNS: Final = {
    "course_id": "VARCHAR",
    "sql_cents": "DECIMAL(38,0)",
    "topic_cents": "DECIMAL(38,0)",
    "in_flight_cents": "DECIMAL(38,0)",
    "difference_cents": "DECIMAL(38,0)",
    "duplicate_cents": "DECIMAL(38,0)",
    "tail_cents": "DECIMAL(38,0)",
    "rejected_cents": "DECIMAL(38,0)",
    "unexplained_cents": "DECIMAL(38,0)",
    "sql_lines": "BIGINT",
    "topic_lines": "BIGINT",
    "in_flight_lines": "BIGINT",
    "unexplained_lines": "BIGINT",
    "missing_lines": "BIGINT",
    "unknown_lines": "BIGINT",
    "changed_lines": "BIGINT",
    "verdict": "VARCHAR",
}
"""The columns of a report and their SQL types. Parquet has no whole numbers of 128 bits: decimals hold them exactly."""

_OF_A_TABLE: Final = frozenset({"tail_cents", "missing_lines", "unknown_lines", "changed_lines"})


def columns(outcome: Outcome) -> list[str]:
    """The columns of a report; those about a table of lines only where there is one."""
    return [name for name in COLUMNS if outcome.comparison.sums.landed is not None or name not in _OF_A_TABLE]


def cells(row: Explanation) -> dict[str, str | int]:
    """A row by column."""
    return {
        "course_id": row.course_id,
        "sql_cents": row.sql.cents,
        "topic_cents": row.topic.cents,
        "in_flight_cents": row.flight.cents,
        "difference_cents": row.difference.cents,
        "duplicate_cents": row.duplicates.cents,
        "tail_cents": row.tail.cents,
        "rejected_cents": row.rejected.cents,
        "unexplained_cents": row.unexplained.cents,
        "sql_lines": row.sql.lines,
        "topic_lines": row.topic.lines,
        "in_flight_lines": row.flight.lines,
        "unexplained_lines": row.unexplained.lines,
        "missing_lines": row.landed.missing,
        "unknown_lines": row.landed.unknown,
        "changed_lines": row.landed.changed,
        "verdict": row.verdict,
    }


def text_lines(outcome: Outcome, *, every: bool) -> Iterable[str]:
    """A header and the rows, tab separated; courses that are equal only with ``every``."""
    names = columns(outcome)
    yield "\t".join(names)
    for row in outcome.comparison.rows:
        if every or row.verdict != EQUAL:
            values = cells(row)
            yield "\t".join(on_one_line(str(values[name])) for name in names)


def write_files(outcome: Outcome, *, csv: Path | None, parquet: Path | None) -> None:
    """Writes every course's row to files, which are overwritten.

    Raises:
        OSError: a file cannot be written.
    """
    if csv is None and parquet is None:
        return
    names = columns(outcome)
    # numbers as text: in JSON they would be read as floating point numbers once they are long
    text = {name: [str(cells(row)[name]) for row in outcome.comparison.rows] for name in names}
    shape = "{" + ", ".join(f'"{name}": ["{COLUMNS[name]}"]' for name in names) + "}"
    query = (
        "SELECT "  # noqa: S608  # made of the constants above
        + ", ".join(f"unnest(data.{name}) AS {name}" for name in names)
        + f" FROM (SELECT json_transform_strict(?::JSON, '{shape}') AS data)"
    )
    with duckdb.connect(":memory:") as database:
        found = database.sql(query, params=[msgspec.json.encode(text).decode()])
        try:
            if csv is not None:
                found.write_csv(str(csv))
            if parquet is not None:
                found.write_parquet(str(parquet))
        except duckdb.IOException as error:
            raise OSError(str(error)) from error


def cut_line(outcome: Outcome) -> str:
    """The offsets at which the two sides were compared."""
    looks = f"{outcome.cut.looks:,} looks" if outcome.cut.exact else "not exact: processing.guarantee=at_least_once"
    return f"at {outcome.cut.named(outcome.topics)} ({looks})"


def warnings(outcome: Outcome) -> Iterable[str]:
    """What a reader must know beside the numbers."""
    if not outcome.cut.exact:
        yield (
            "under at_least_once totals and offsets are not written together: a difference may be lines that were"
            " counted after the last commit, or counted twice after a failure. Only a stopped job compares well"
        )
    if outcome.begins:
        places = " ".join(f"{partition}:{offset}" for partition, offset in sorted(outcome.begins.items()))
        what = (
            "lines before them are known from the table alone, their duplicates not at all"
            if outcome.comparison.sums.landed is not None
            else "the totals have those lines and the sum does not: compare with a table that has them (--postgres)"
        )
        yield f"{outcome.topics.lines} has lost its first records and begins at {places}: {what}"
    yield from _about_rejected(outcome)


def _about_rejected(outcome: Outcome) -> Iterable[str]:
    comparison, topic = outcome.comparison, outcome.topics.rejected
    if outcome.rejected_begins:
        places = " ".join(f"{partition}:{offset}" for partition, offset in sorted(outcome.rejected_begins.items()))
        yield (
            f"{topic} has lost its first records and begins at {places} (its retention.ms): of"
            f" {comparison.sums.fates.unknown:,} broken lines nobody can say whether they were rejected; a line that"
            " keeps the contract and was rejected is a difference now. A rebuild counts or rejects each anew"
        )
    elif any(row.verdict == DIFFERENT and row.rejected.lines for row in comparison.rows):
        yield (
            f"lines in {topic} are taken to be in no total. When they are counted, because the job was reset otherwise"
            " than by course-revenue rebuild (which marks it there), their courses differ: rebuild once more"
        )


def summary(outcome: Outcome) -> str:
    """What it comes to, in one line."""
    rows, sums = outcome.comparison.rows, outcome.comparison.sums
    fates = sums.fates
    explained = sum(row.verdict not in (EQUAL, DIFFERENT) for row in rows)
    differing = outcome.comparison.differing
    verdict = (
        f"{len(rows):,} courses: {len(rows) - explained - len(differing):,} equal, {explained:,} explained,"
        f" {len(differing):,} different"
        + (f" ({_named(differing)})" if differing else "")
        + (f", {fates.lost:,} broken lines nowhere to be found" if fates.lost else "")
    )
    lines = (
        f"{fates.records:,} lines: {fates.applied:,} applied, {fates.in_flight:,} in flight,"
        f" {fates.deduped:,} repeats left out, {fates.rejected + fates.broken:,} rejected,"
        f" {fates.replayed:,} replaced by their replays, {fates.undecodable:,} not decodable,"
        f" {fates.skipped:,} skipped by hand"
    )
    counts = sums.landed_counts
    table = (
        ""
        if counts is None
        else f"; the table has {counts.rows:,} rows: {counts.repeats:,} repeats, {counts.broken:,} that are no lines,"
        f" {counts.ahead:,} behind the cut"
    )
    return f"{verdict}; {lines}{table}"


def _named(rows: Sequence[Explanation]) -> str:
    some = ", ".join(f"{on_one_line(row.course_id)} by {money(row.unexplained.cents)}" for row in rows[:3])
    return some if len(rows) <= 3 else f"{some} and {len(rows) - 3:,} more"
