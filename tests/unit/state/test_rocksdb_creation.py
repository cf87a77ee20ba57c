"""A database whose maker died while making it is made again; a whole one of somebody else's is refused."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import rocksdict

from headrace.errors import ProcessorStateException
from headrace.state.rocksdb import RocksDBBody

if TYPE_CHECKING:
    from pathlib import Path

_DIES_WHEN_MADE = """
import os, signal, sys
from pathlib import Path
import rocksdict
from headrace.state import rocksdb

made = rocksdict.Rdict

def die(*args, **kwargs):
    if sys.argv[2] == "families":
        made(*args, **kwargs)
    else:
        made(args[0], options=rocksdb._options())  # only the default family is there yet
    os.kill(os.getpid(), signal.SIGKILL)

rocksdict.Rdict = die
rocksdb.RocksDBBody(Path(sys.argv[1]))
"""


@pytest.mark.parametrize("step", ["default family", "families"])
def test_a_database_whose_maker_was_killed_is_made_again(tmp_path: Path, step: str) -> None:
    path = tmp_path / "rocksdb" / "store"
    done = subprocess.run([sys.executable, "-c", _DIES_WHEN_MADE, str(path), step], check=False)
    assert done.returncode == -signal.SIGKILL
    assert (path / "CURRENT").exists()
    body = RocksDBBody(path)
    body.write([(b"k", b"v")], 7)
    body.close()
    again = RocksDBBody(path)
    assert (again.get(b"k"), again.offset()) == (b"v", 7)
    again.close()


def test_a_database_that_lost_its_log_is_new(tmp_path: Path) -> None:
    path = tmp_path / "store"
    options: Any = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    rocksdict.Rdict(str(path), options=options, column_families={"headrace": options}).close()
    body = RocksDBBody(path)
    assert body.offset() is None
    body.close()


def test_rows_without_a_format_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "store"
    body = RocksDBBody(path)
    body.write([(b"k", b"v")], 1)
    body.close()
    options: Any = rocksdict.Options(raw_mode=True)
    db: Any = rocksdict.Rdict(str(path), options=options, column_families={"headrace": options})
    db.get_column_family("headrace").delete(b"format")
    db.close()
    with pytest.raises(ProcessorStateException, match="store format None"):
        RocksDBBody(path)
    shutil.rmtree(path)
    foreign: Any = rocksdict.Rdict(str(path), options=_plain())
    foreign[b"k"] = b"v"
    foreign.close()
    with pytest.raises(ProcessorStateException, match="headrace did not write"):
        RocksDBBody(path)


def _plain() -> Any:
    options: Any = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    return options
