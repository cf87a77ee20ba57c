"""A disk that takes long for what a store writes."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from cluster.disks import FaultyDisk
from cluster.preload import together

if TYPE_CHECKING:
    from pathlib import Path

_WRITER = """
import sys, threading, time
from pathlib import Path
from headrace.state.rocksdb import RocksDBBody

def tick():
    global longest
    last = time.monotonic()
    while not over.wait(0.02):
        longest, last = max(longest, time.monotonic() - last), time.monotonic()

body = RocksDBBody(Path(sys.argv[1]))
longest, over = 0.0, threading.Event()
print("opened", flush=True)
sys.stdin.readline()
ticker = threading.Thread(target=tick)
ticker.start()
begun = time.monotonic()
for offset in range(2):
    body.write([(b"key %d" % number, b"value") for number in range(2_000)], offset)
took = time.monotonic() - begun
over.set()
ticker.join()
print(took, longest, flush=True)
"""


def test_other_threads_go_on_while_a_slow_disk_takes_the_rows_of_a_commit(tmp_path: Path) -> None:
    disk, store = FaultyDisk(tmp_path / "disk"), tmp_path / "store"
    with subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(store)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=together({**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, disk.environment),
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        assert writer.stdout.readline() == "opened\n"
        disk.slow(store, 1.5)
        writer.stdin.write("go on\n")
        writer.stdin.flush()
        took, longest = map(float, writer.stdout.readline().split())
        disk.mend()
    assert took >= 3.0
    assert longest < 1.0
