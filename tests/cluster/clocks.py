"""The wall clock of a single process, set by libfaketime while it runs."""

from __future__ import annotations

from pathlib import Path

from cluster.preload import compiled


class ProcessClock:
    """Sets the wall clock of the processes that have its environment; their monotonic clock stays the machine's.

    Args:
        file: Through which they are told.
    """

    def __init__(self, file: Path) -> None:
        libraries = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
        assert libraries, "no libfaketime here: run scripts/faketime.sh"
        waits = compiled("c11_waits.c", file.parent)
        self._file = file
        self.set(0)
        self.environment = {
            "LD_PRELOAD": f"{waits}:{libraries[0]}",
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            # the times of files are the machine's, as with a clock that was set
            "NO_FAKE_STAT": "1",
        }

    def set(self, hours: float) -> None:
        """So many hours ahead of the machine's clock, or behind it."""
        draft = self._file.with_suffix(".new")
        draft.write_text(f"{round(hours * 3600):+d}s\n", encoding="ascii")
        draft.replace(self._file)
