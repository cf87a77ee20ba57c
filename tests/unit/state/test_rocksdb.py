from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
import rocksdict
from cluster.disks import small_disk

from headrace.errors import InvalidStateStoreException, ProcessorStateException
from headrace.state.directory import StateDirectory
from headrace.state.rocksdb import RocksDBBody, destroy

if TYPE_CHECKING:
    from pathlib import Path


def rows(body: RocksDBBody) -> list[tuple[bytes, bytes]]:
    return list(body.scan(None, None, reverse=False))


def raw_database(path: Path, families: dict[str, dict[bytes, bytes]]) -> None:
    """A RocksDB as another program would make it."""

    def options() -> Any:
        made: Any = rocksdict.Options(raw_mode=True)
        made.create_if_missing(True)
        made.create_missing_column_families(True)
        return made

    names = {name: options() for name in families if name != "default"}
    db: Any = rocksdict.Rdict(str(path), options=options(), column_families=names)
    for name, content in families.items():
        family = db if name == "default" else db.get_column_family(name)
        for key, value in content.items():
            family.put(key, value)
        if name != "default":
            family.close()
    db.close()


def test_rows_and_offset_outlive_the_process_object(tmp_path: Path) -> None:
    body = RocksDBBody(tmp_path / "s")
    assert body.offset() is None
    body.write([(b"a", b"1"), (b"b", b"2"), (b"a", None)], 5)
    body.write([(b"c", b"3")], None)
    body.close()
    body.close()
    again = RocksDBBody(tmp_path / "s")
    assert rows(again) == [(b"b", b"2"), (b"c", b"3")]
    assert again.offset() == 5
    again.close()


def test_an_offset_alone_is_written(tmp_path: Path) -> None:
    body = RocksDBBody(tmp_path / "s")
    body.write([], 1 << 40)
    body.close()
    again = RocksDBBody(tmp_path / "s")
    assert again.offset() == 1 << 40
    again.close()


def test_many_rows_go_in_several_batches_with_the_offset_in_the_last(tmp_path: Path) -> None:
    body = RocksDBBody(tmp_path / "s")
    body.write([(b"%05d" % number, b"v") for number in range(20_001)], 3)
    assert len(rows(body)) == 20_001
    assert body.offset() == 3
    assert body.approximate_count() == 20_001
    body.close()


def test_a_copy_taken_while_it_was_open_has_what_was_written(tmp_path: Path) -> None:
    body = RocksDBBody(tmp_path / "s")
    body.write([(b"a", b"1")], 10)
    body.write([(b"a", b"2"), (b"b", b"2")], 20)
    shutil.copytree(tmp_path / "s", tmp_path / "copy")
    copied = RocksDBBody(tmp_path / "copy")
    assert rows(copied) == [(b"a", b"2"), (b"b", b"2")]
    assert copied.offset() == 20
    copied.close()
    body.close()


def test_a_killed_process_leaves_an_offset_whose_rows_are_all_there(tmp_path: Path) -> None:
    # each write is of several batches: the offset must not be in one before the last
    code = """
import sys
from pathlib import Path
from headrace.state.rocksdb import RocksDBBody
body = RocksDBBody(Path(sys.argv[1]))
number = 0
while True:
    number += 1
    body.write([(b"%06d" % key, b"%d" % number) for key in range(45_000)], number)
    if number == 2:
        print("go", flush=True)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "s")], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "go\n"
        body_is_written_to(tmp_path / "s")
        process.send_signal(signal.SIGKILL)
        process.wait(10)
    body = RocksDBBody(tmp_path / "s")
    offset = body.offset()
    assert offset is not None
    assert offset >= 2
    versions = [int(value) for _, value in rows(body)]
    assert len(versions) == 45_000
    assert min(versions) >= offset, "an offset was kept whose rows were not"
    body.close()


def body_is_written_to(path: Path) -> None:
    """Returns once a next batch has reached the write-ahead log."""

    def size() -> int:
        return sum(log.stat().st_size for log in path.glob("*.log"))

    before, deadline = size(), time.monotonic() + 10
    while size() == before:
        assert time.monotonic() < deadline


def test_scans_have_bounds_both_ways_and_are_snapshots(tmp_path: Path) -> None:
    body = RocksDBBody(tmp_path / "s")
    body.write([(bytes([number]), b"v") for number in (0, 1, 127, 128, 255)], None)
    ahead, back = body.scan(b"\x01", b"\x80", False), body.scan(b"\x01", b"\x80", True)
    body.write([(b"\x02", b"new"), (b"\x7f", None)], None)
    assert [key for key, _ in ahead] == [b"\x01", b"\x7f", b"\x80"]
    assert [key for key, _ in back] == [b"\x80", b"\x7f", b"\x01"]
    assert [key for key, _ in body.scan(None, None, True)] == [b"\xff", b"\x80", b"\x02", b"\x01", b"\x00"]
    body.close()


def test_closing_ends_iterators_that_are_still_open_and_frees_the_lock(tmp_path: Path) -> None:
    # a processor may keep an unfinished iterator; the next owner of the task could then not open the store
    body = RocksDBBody(tmp_path / "s")
    body.write([(b"a", b"1"), (b"b", b"2")], None)
    begun, fresh = body.scan(None, None, False), body.scan(None, None, True)
    assert next(begun) == (b"a", b"1")
    body.close()
    again = RocksDBBody(tmp_path / "s")
    for rows_ in (begun, fresh):
        with pytest.raises(InvalidStateStoreException, match="closed while an iterator"):
            next(rows_)
    assert rows(again) == [(b"a", b"1"), (b"b", b"2")]
    again.close()


def test_javas_files_are_refused_untouched(tmp_path: Path) -> None:
    content = {"default": {b"k": b"v"}, "keyValueWithTimestamp": {b"k": b"\0" * 8 + b"v"}}
    raw_database(tmp_path / "s", content)
    with pytest.raises(ProcessorStateException, match=r"did not write.*keyValueWithTimestamp.*remove the directory"):
        RocksDBBody(tmp_path / "s")
    assert sorted(rocksdict.Rdict.list_cf(str(tmp_path / "s"))) == ["default", "keyValueWithTimestamp"]


def test_a_plain_java_store_is_refused_too(tmp_path: Path) -> None:
    raw_database(tmp_path / "s", {"default": {b"k": b"v"}})
    with pytest.raises(ProcessorStateException, match="did not write"):
        RocksDBBody(tmp_path / "s")


@pytest.mark.parametrize("found", [b"2", b""])
def test_another_format_is_refused(tmp_path: Path, found: bytes) -> None:
    raw_database(tmp_path / "s", {"default": {b"k": b"v"}, "headrace": {b"format": found}})
    for _ in range(2):  # the first refusal lets go of the files
        with pytest.raises(ProcessorStateException, match=r"has store format .* reads b'1'"):
            RocksDBBody(tmp_path / "s")


def test_rows_without_a_format_are_refused(tmp_path: Path) -> None:
    raw_database(tmp_path / "s", {"default": {b"k": b"v"}, "headrace": {}})
    with pytest.raises(ProcessorStateException, match="has store format None"):
        RocksDBBody(tmp_path / "s")


def test_an_empty_database_without_a_format_is_taken(tmp_path: Path) -> None:
    raw_database(tmp_path / "s", {"default": {}, "headrace": {}})
    RocksDBBody(tmp_path / "s").close()
    RocksDBBody(tmp_path / "s").close()


def test_a_database_whose_making_was_cut_off_is_made_anew(tmp_path: Path) -> None:
    raw_database(tmp_path / "s", {"default": {}})
    (tmp_path / "s" / "being-made").touch()
    RocksDBBody(tmp_path / "s").close()
    assert not (tmp_path / "s" / "being-made").exists()


def test_damaged_files_are_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "CURRENT").write_text("junk\n")
    with pytest.raises(ProcessorStateException, match=r"/s cannot be opened: .*remove the directory"):
        RocksDBBody(tmp_path / "s")


def test_a_disk_that_was_made_read_only_is_named_with_what_to_do(tmp_path: Path) -> None:
    """It said that the files may be damaged, and to remove them."""
    with small_disk(tmp_path / "disk", 8) as disk:
        StateDirectory(disk.path, "app").close()
        RocksDBBody(disk.path / "app" / "s").close()
        disk.make_read_only()
        for use, named in (
            (lambda: RocksDBBody(disk.path / "app" / "s"), "app/s cannot be opened"),
            (lambda: RocksDBBody(disk.path / "app" / "new"), "app/new cannot be opened"),
            (lambda: StateDirectory(disk.path, "app"), "state directory .*/app cannot be used"),
        ):
            with pytest.raises(
                ProcessorStateException, match=rf"{named}: .*\. Make its disk writable, or set state.dir"
            ):
                use()


def test_two_owners_at_once_are_refused(tmp_path: Path) -> None:
    body = RocksDBBody(tmp_path / "s")
    with pytest.raises(ProcessorStateException, match="cannot be opened"):
        RocksDBBody(tmp_path / "s")
    body.write([(b"a", b"1")], None)
    body.close()


def test_destroy(tmp_path: Path) -> None:
    body = RocksDBBody(tmp_path / "s")
    body.write([(b"a", b"1")], 1)
    body.close()
    destroy(tmp_path / "s")
    destroy(tmp_path / "s")
    fresh = RocksDBBody(tmp_path / "s")
    assert fresh.offset() is None
    assert rows(fresh) == []
    fresh.close()


def test_the_origin_outlives_the_process(tmp_path: Path) -> None:
    body = RocksDBBody(tmp_path / "s")
    assert body.origin() is None
    body.remember_origin("abc")
    body.write([(b"k", b"v")], 5)
    body.close()
    again = RocksDBBody(tmp_path / "s")
    assert (again.origin(), again.offset(), again.get(b"k")) == ("abc", 5, b"v")
    again.close()


def test_a_cleared_body_is_as_new(tmp_path: Path) -> None:
    body = RocksDBBody(tmp_path / "s")
    body.remember_origin("abc")
    body.write([(b"%d" % i, b"v") for i in range(25_000)], 5)
    body.clear()
    assert (list(body.scan(None, None, False)), body.offset(), body.origin()) == ([], None, None)
    body.close()
    again = RocksDBBody(tmp_path / "s")
    assert (list(again.scan(None, None, False)), again.offset(), again.origin()) == ([], None, None)
    again.close()


def test_clearing_a_body_does_not_gather_its_keys(tmp_path: Path) -> None:
    body = RocksDBBody(tmp_path / "store")
    body.write([(b"%08d" % number, b"v") for number in range(20_000)], 7)
    tracemalloc.start()
    try:
        body.clear()
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
    assert list(body.scan(None, None, reverse=False)) == []
    body.write([(b"%08d" % 19_999, b"anew")], 1)
    assert list(body.scan(None, None, reverse=False)) == [(b"00019999", b"anew")]
    body.close()
