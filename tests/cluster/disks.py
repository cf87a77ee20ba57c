"""Disks that misbehave: one of some megabytes, which a test fills and frees; one that is slow for single processes."""

from __future__ import annotations

import contextlib
import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from cluster.preload import compiled

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_CHUNK = bytes(1 << 12)


class SmallDisk:
    """A disk of its own at ``path``.

    Args:
        path: Where it is mounted.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self) -> None:
        """Leave no space."""
        with contextlib.suppress(OSError), self._ballast.open("ab", buffering=0) as file:
            while True:
                file.write(_CHUNK)

    def free(self) -> None:
        """Give back what :meth:`fill` took."""
        self._ballast.unlink()

    def make_read_only(self) -> None:
        """Take no writes; nobody may have a file open to write it."""
        subprocess.run([*_as_root(), "mount", "-o", "remount,ro", str(self.path)], check=True)


class FaultyDisk:
    """A disk that is slow or full for the processes that have its environment.

    Args:
        file: Through which they are told.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self.mend()
        self.environment = {"LD_PRELOAD": str(compiled("disk_faults.c", file.parent)), "DISK_FAULTS": str(file)}

    def slow(self, below: Path, seconds: float) -> None:
        """Each write and sync of a file below a directory takes so long."""
        self._tell(f"{round(seconds * 1000)} {below}")

    def fill(self, below: Path) -> None:
        """Nothing below a directory can be written."""
        self._tell(f"-1 {below}")

    def mend(self) -> None:
        """Be a good disk."""
        self._tell("0")

    def _tell(self, text: str) -> None:
        draft = self._file.with_suffix(".new")
        draft.write_text(text, encoding="utf-8")
        draft.replace(self._file)


def _as_root() -> list[str]:
    return [] if os.geteuid() == 0 else ["sudo", "-n"]


@contextlib.contextmanager
def small_disk(path: Path, megabytes: int) -> Iterator[SmallDisk]:
    """Mount a disk at ``path``, in memory; who may not mount cannot run the test."""
    as_root = _as_root()
    path.mkdir(parents=True)
    mount = [*as_root, "mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=1777", "headrace-test", str(path)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"a disk without space takes the right to mount one: {done.stderr.strip()}")
    try:
        yield SmallDisk(path)
    finally:
        # lazily: what still has a file open there is ended by another fixture
        subprocess.run([*as_root, "umount", "--lazy", str(path)], check=True)
