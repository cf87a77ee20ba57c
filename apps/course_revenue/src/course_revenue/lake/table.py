"""The Delta table: a row for each course, its latest total, and in the table's own log how far the topic was read.

How far is a transaction identifier (``txn`` action) for each partition, with the offset to go on from as its version.
It is written by the commit that merges the rows, so both are there or neither is, and it stays in checkpoints when the
log's files are cleaned up, as a commit's own metadata does not. The identifier has the topic's id in it: a topic made
anew under the same name has none.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from arro3.core import Array, DataType, Table
from arro3.core import Field as ArrowField
from arro3.core import Schema as ArrowSchema
from deltalake import CommitProperties, DeltaTable, QueryBuilder, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from course_revenue.errors import LakeError
from course_revenue.model import Revenue

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_COLUMNS: Final = {
    "course_id": DataType.string(),
    "net_cents": DataType.int64(),
    "line_count": DataType.int64(),
    "dimension_missing": DataType.bool(),
    "updated_event_time": DataType.int64(),
    "source_partition": DataType.int64(),
    "source_offset": DataType.int64(),
}
_DELETED: Final = "deleted"
_NEWER: Final = "(s.source_partition <> t.source_partition OR s.source_offset >= t.source_offset)"
"""An older record never takes the place of a newer one, whatever a writer believes of its offsets."""

_CHECKPOINT_EVERY: Final = "50"


class Landed(NamedTuple):
    """The latest record of a course: where it lies, and its total, None for a removal."""

    course_id: str
    partition: int
    offset: int
    total: Revenue | None


class Snapshot(NamedTuple):
    """The totals of one version, and when that version was written."""

    version: int
    written: datetime
    totals: dict[str, Revenue]


class LakeTable:
    """An open table. Used by one thread.

    Args:
        uri: a directory, or another place that ``storage_options`` reach.
        storage_options: delta-rs' own.
        create: make it when there is none.

    Raises:
        LakeError: there is none, or it is a table of something else.
    """

    def __init__(self, uri: str, storage_options: Mapping[str, str] | None = None, *, create: bool = False) -> None:
        self.uri = uri
        self._options = dict(storage_options or {}) or None
        try:
            self._table = DeltaTable(uri, storage_options=self._options)
        except TableNotFoundError as error:
            if not create:
                raise LakeError(f"there is no Delta table at {uri}: course-revenue lake makes it") from error
            self._table = _new_table(uri, self._options)
        except DeltaError as error:
            raise LakeError(f"the Delta table at {uri} cannot be opened: {error}") from error
        found = [field.name for field in self._table.schema().fields]
        if found != list(_COLUMNS):
            raise LakeError(f"the Delta table at {uri} is another one: its columns are {', '.join(found)}")

    @property
    def version(self) -> int:
        """The version that is open."""
        return self._table.version()

    @property
    def empty(self) -> bool:
        """Whether it has no rows."""
        return self._table.count() == 0

    def offsets(self, topic: str, topic_id: str, partitions: Iterable[int]) -> dict[int, int]:
        """By partition, the offset to go on from; partitions that were never landed are absent."""
        self._table.update_incremental()
        found = {number: self._table.transaction_version(_app_id(topic, topic_id, number)) for number in partitions}
        return {number: offset for number, offset in found.items() if offset is not None}

    def merge(self, rows: Iterable[Landed], topic: str, topic_id: str, offsets: Mapping[int, int]) -> None:
        """One commit: the rows by key, and how far the topic is read with them.

        Raises:
            LakeError: somebody else has written meanwhile; nothing was.
        """
        source = _arrow(rows, with_removals=True)
        inserted = {name: f"s.{name}" for name in _COLUMNS}
        try:
            (
                self._table.merge(
                    source,
                    predicate="t.course_id = s.course_id",
                    source_alias="s",
                    target_alias="t",
                    commit_properties=_commit(topic, topic_id, offsets),
                )
                .when_matched_delete(f"s.{_DELETED} AND {_NEWER}")
                .when_matched_update(updates=inserted, predicate=_NEWER)
                .when_not_matched_insert(updates=inserted, predicate=f"NOT s.{_DELETED}")
                .execute()
            )
        except CommitFailedError as error:
            raise self._taken(error) from error

    def replace(self, rows: Iterable[Landed], topic: str, topic_id: str, offsets: Mapping[int, int]) -> None:
        """One commit: these rows in place of all there are, and how far the topic is read with them.

        Raises:
            LakeError: see ``merge``.
        """
        try:
            write_deltalake(
                self._table,
                _arrow(rows, with_removals=False),
                mode="overwrite",
                commit_properties=_commit(topic, topic_id, offsets),
            )
        except CommitFailedError as error:
            raise self._taken(error) from error
        self._table.update_incremental()

    def maintain(self, retention_hours: int) -> None:
        """Makes few files of many, and deletes those that no version younger than the retention needs."""
        try:
            self._table.optimize.compact()
            # a retention that was chosen is meant
            self._table.vacuum(retention_hours, dry_run=False, enforce_retention_duration=False)
        except CommitFailedError as error:
            raise self._taken(error) from error

    def snapshot(self, as_of: int | datetime | None = None) -> Snapshot:
        """The totals of a version, of the newest one that a time had, or of now.

        Raises:
            LakeError: there is no such version any more, or there never was.
        """
        table = DeltaTable(self.uri, storage_options=self._options)
        newest = table.version()
        if isinstance(as_of, int) and as_of > newest:
            raise LakeError(f"{self.uri} has no version {as_of}: its newest is {newest}")
        try:
            if as_of is not None:
                table.load_as_version(as_of)
            read: Any = QueryBuilder().register("totals", table).execute("SELECT * FROM totals").read_all()
        except Exception as error:  # some of delta-rs' errors have no class of their own
            raise LakeError(
                f"{self.uri} cannot be read as of {as_of}: {error}. Versions go once their files were vacuumed"
                " (--retention-hours of course-revenue lake)"
            ) from error
        columns: list[list[Any]] = [read[name].to_pylist() for name in _COLUMNS]
        totals = {row[0]: Revenue(row[0], row[1], row[2], row[3], row[4]) for row in zip(*columns, strict=True)}
        written = self._written(table.version())
        if isinstance(as_of, datetime) and written > as_of:
            # delta-rs then takes the oldest version for it
            raise LakeError(
                f"{self.uri} has no version as of {as_of.isoformat()}: its oldest, {table.version()}, is of"
                f" {written.isoformat(timespec='milliseconds')}"
            )
        return Snapshot(table.version(), written, totals)

    def _written(self, version: int) -> datetime:
        """The time of a version's commit.

        Raises:
            LakeError: the log has it no more.
        """
        table = DeltaTable(self.uri, storage_options=self._options)
        while True:
            # commits come from the log's newest on, whichever version is open, so they are counted from there
            newest = table.version()
            count = newest - version + 1
            commits = table.history(count)
            table.update_incremental()
            if table.version() == newest:
                break
        if len(commits) < count:
            raise LakeError(f"the log of {self.uri} has no commit of version {version} any more")
        return datetime.fromtimestamp(commits[-1]["timestamp"] / 1000, UTC)

    def _taken(self, error: Exception) -> LakeError:
        return LakeError(
            f"somebody else writes to {self.uri}: nothing was written. Only one course-revenue lake may land a topic in"
            f" a table; stop the other one, and start this one again ({error})"
        )


def _new_table(uri: str, options: dict[str, str] | None) -> DeltaTable:
    schema = ArrowSchema([ArrowField(name, kind, nullable=False) for name, kind in _COLUMNS.items()])
    try:
        return DeltaTable.create(
            uri,
            schema,
            name="course_revenue",
            description="The latest total of each course, in cents. One row a course: overwritten, never appended.",
            configuration={"delta.checkpointInterval": _CHECKPOINT_EVERY},
            storage_options=options,
        )
    except DeltaError as error:
        raise LakeError(f"no Delta table can be made at {uri}: {error}") from error


def _app_id(topic: str, topic_id: str, partition: int) -> str:
    return f"course-revenue/{topic}/{topic_id}/{partition}"


def _commit(topic: str, topic_id: str, offsets: Mapping[int, int]) -> CommitProperties:
    return CommitProperties(
        # for people who look at the history; what is gone on from are the transactions
        custom_metadata={"offsets": f"{topic} " + " ".join(f"{p}:{offset}" for p, offset in sorted(offsets.items()))},
        app_transactions=[Transaction(_app_id(topic, topic_id, p), offset) for p, offset in offsets.items()],
        # a conflict is another writer: to merge once more by itself could only be wrong
        max_commit_retries=0,
    )


def _arrow(rows: Iterable[Landed], *, with_removals: bool) -> Table:
    none = Revenue.zero()
    taken = [(row, row.total or none) for row in rows if with_removals or row.total is not None]
    values: dict[str, list[Any]] = {
        "course_id": [row.course_id for row, _ in taken],
        "net_cents": [total.net_cents for _, total in taken],
        "line_count": [total.line_count for _, total in taken],
        "dimension_missing": [total.dimension_missing for _, total in taken],
        "updated_event_time": [total.updated_event_time for _, total in taken],
        "source_partition": [row.partition for row, _ in taken],
        "source_offset": [row.offset for row, _ in taken],
    }
    columns: dict[str, Any] = {name: Array(values[name], type=kind) for name, kind in _COLUMNS.items()}
    if with_removals:
        columns[_DELETED] = Array([row.total is None for row, _ in taken], type=DataType.bool())
    return Table(columns)
