"""Rows in RocksDB, one database a store. The only module that knows rocksdict.

Layout: rows in the default column family; in the family ``headrace`` the key ``format`` holds the layout's version,
``offset`` the next changelog offset to restore from as 8 bytes big endian, ``origin`` the changelog topic's id. A batch
carries rows and offset together, and the write-ahead log is on (not synced): after the death of the process nothing is
lost, after the death of the machine the log ends at a whole batch, so rows and offset always agree.
"""

from __future__ import annotations

import contextlib
import shutil
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rocksdict

from headrace.errors import InvalidStateStoreException, ProcessorStateException
from headrace.state.disk import disk_advice

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FORMAT = b"1"
_BEING_MADE = "being-made"
_META = "headrace"
_BATCH_ROWS = 2_000
"""``Rdict.write`` holds the interpreter lock, for about 1 ms with so many; a row costs no less in larger batches."""
_OPTIONS = Path(__file__).with_name("options")
"""``manual_wal_flush``, which rocksdict takes from a file alone: ``write`` ends in memory, and ``flush_wal``, which
lets go of the interpreter lock, is what waits for the disk. Else a slow disk would hold up heartbeats, too."""


class RocksDBBody:
    """A :class:`~headrace.api.stores.KeyValueBody` on disk."""

    persistent = True

    def __init__(self, path: Path) -> None:
        """Open or create the database at ``path``.

        Raises:
            ProcessorStateException: It cannot be opened, or has another layout (Java's own, or a newer headrace's).
        """
        self._path = path
        being_made = path / _BEING_MADE
        if being_made.exists():
            destroy(path)
        new = not (path / "CURRENT").exists()
        self._scans: weakref.WeakSet[_Rows] = weakref.WeakSet()
        if not new:
            try:
                families: list[str] = rocksdict.Rdict.list_cf(str(path), _options())
            except Exception as e:
                raise _cannot_open(path, e) from e
            if _META not in families:
                raise ProcessorStateException(
                    f"{path} holds a RocksDB that headrace did not write (column families {', '.join(families)}). "
                    "A Java instance's files cannot be read: remove the directory and the store is restored from its "
                    "changelog topic."
                )
        try:
            path.mkdir(parents=True, exist_ok=True)
            if new:
                being_made.touch()
            self._db: Any = rocksdict.Rdict(str(path), options=_options(), column_families={_META: _options()})
        except Exception as e:
            raise _cannot_open(path, e) from e
        meta = self._db.get_column_family(_META)
        handle = self._db.get_column_family_handle(_META)
        try:
            found = meta.get(b"format")
            # without a row nothing was ever committed here: the death of the machine took the format with the rest
            if new or (found is None and next(iter(self._db.items()), None) is None):
                try:
                    meta.put(b"format", FORMAT)
                    self._db.flush_wal(False)
                except Exception as e:
                    raise _cannot_open(path, e) from e
                found = FORMAT
            being_made.unlink(missing_ok=True)
            if found != FORMAT:
                raise ProcessorStateException(
                    f"{path} has store format {found!r}, this version reads {FORMAT!r}. Use the version of headrace "
                    "that wrote it, or remove the directory and the store is restored from its changelog topic."
                )
            raw = meta.get(b"offset")
            origin = meta.get(b"origin")
        except BaseException:
            meta.close()
            del meta, handle
            self.close()
            raise
        meta.close()
        self._meta: Any = handle
        self._offset = None if raw is None else int.from_bytes(raw, "big")
        self._origin: str | None = None if origin is None else origin.decode("ascii", "replace")
        self.get = self._db.get

    def scan(self, low: bytes | None, high: bytes | None, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        """See the protocol."""
        # made here, not at the first row: RocksDB's iterator is a snapshot of the moment of its creation
        rows = _Rows(self._db.items(backwards=True, from_key=high) if reverse else self._db.items(from_key=low))
        self._scans.add(rows)
        return _bounded(rows, low if reverse else high, reverse)

    def write(self, rows: Sequence[tuple[bytes, bytes | None]], offset: int | None) -> None:
        """See the protocol."""
        count = len(rows)
        for start in range(0, max(count, 1), _BATCH_ROWS):
            batch: Any = rocksdict.WriteBatch(raw_mode=True)
            put, delete = batch.put, batch.delete
            for key, value in rows[start : start + _BATCH_ROWS]:
                if value is None:
                    delete(key)
                else:
                    put(key, value)
            if offset is not None and start + _BATCH_ROWS >= count:
                put(b"offset", offset.to_bytes(8, "big"), self._meta)
            self._write(batch)
        if offset is not None:
            self._offset = offset

    def _write(self, batch: Any) -> None:
        try:
            self._db.write(batch)
            self._db.flush_wal(False)
        except Exception as e:
            told = [f"store {self._path.name}: RocksDB at {self._path} cannot be written: {e}.", disk_advice(e)]
            told.append("What was committed is safe in the changelog topic, and is restored from it.")
            raise ProcessorStateException(" ".join(filter(None, told))) from e

    def delete_below(self, bound: bytes) -> None:
        """See the protocol."""
        # RocksDB's own threads give the files' space back, as more is written: a compaction asked for here would have
        # the stream thread wait for all of the segment to be read
        batch: Any = rocksdict.WriteBatch(raw_mode=True)
        batch.delete_range(b"", bound)
        self._write(batch)

    def offset(self) -> int | None:
        """See the protocol."""
        return self._offset

    def origin(self) -> str | None:
        """See the protocol."""
        return self._origin

    def remember_origin(self, topic_id: str) -> None:
        """See the protocol."""
        batch: Any = rocksdict.WriteBatch(raw_mode=True)
        batch.put(b"origin", topic_id.encode("ascii"), self._meta)
        self._write(batch)
        self._origin = topic_id

    def clear(self) -> None:
        """See the protocol."""
        # rows first: after a crash in between, offset and origin still say what is not to be trusted
        last = next(self.scan(None, None, reverse=True), None)
        if last is not None:
            self.delete_below(last[0] + b"\0")
        batch: Any = rocksdict.WriteBatch(raw_mode=True)
        batch.delete(b"offset", self._meta)
        batch.delete(b"origin", self._meta)
        self._write(batch)
        self._offset = self._origin = None

    def approximate_count(self) -> int:
        """See the protocol."""
        return int(self._db.property_int_value("rocksdb.estimate-num-keys") or 0)

    def close(self) -> None:
        """See the protocol."""
        # an iterator somebody kept would keep the database, and with it its lock: it could not be opened again
        for rows in list(self._scans):
            rows.close()
        with contextlib.suppress(AttributeError):
            del self._meta
        with contextlib.suppress(AttributeError):
            del self.get
        db, self._db = self._db, None
        if db is not None:
            db.close()


class _Rows:
    """A RocksDB iterator that can be taken away from those who read it."""

    __slots__ = ("__weakref__", "_rows")

    def __init__(self, rows: Iterator[tuple[bytes, bytes]]) -> None:
        self._rows: Iterator[tuple[bytes, bytes]] | None = rows

    def next(self) -> tuple[bytes, bytes] | None:
        if self._rows is None:
            raise InvalidStateStoreException("the store was closed while an iterator over it was being read")
        return next(self._rows, None)

    def close(self) -> None:
        self._rows = None


def _bounded(rows: _Rows, last: bytes | None, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
    take = rows.next
    while (row := take()) is not None:
        if last is not None and (row[0] < last if reverse else row[0] > last):
            return
        yield row


def _cannot_open(path: Path, error: Exception) -> ProcessorStateException:
    advice = disk_advice(error) or (
        "If its files are damaged, remove the directory and the store is restored from its changelog topic."
    )
    return ProcessorStateException(f"store {path.name}: RocksDB at {path} cannot be opened: {error}. {advice}")


def destroy(path: Path) -> None:
    """Remove a closed database with its directory; nothing happens when there is none."""
    shutil.rmtree(path, ignore_errors=True)


def _options() -> Any:
    options: Any = rocksdict.Options.load_latest(str(_OPTIONS))[0]
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_write_buffer_size(16 << 20)
    options.set_max_write_buffer_number(3)
    options.set_compression_type(rocksdict.DBCompressionType.none())
    options.set_keep_log_file_num(1)
    options.set_max_open_files(-1)
    table: Any = rocksdict.BlockBasedOptions()
    table.set_block_size(4096)
    table.set_bloom_filter(10, False)
    table.set_block_cache(_block_cache())
    options.set_block_based_table_factory(table)
    return options


_shared_cache: list[Any] = []


def _block_cache() -> Any:
    # one bounded cache for every store of the process; a cache a store would grow without bound with the tasks
    if not _shared_cache:
        _shared_cache.append(rocksdict.Cache(50 << 20))
    return _shared_cache[0]
