"""How far the state of a process is, while its disk takes long."""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from headrace.records import TaskId, TopicPartition
from headrace.runtime.positions import StatePositions
from headrace.state.directory import StateDirectory
from headrace.state.memory import InMemoryBody

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.runtime.changelogs import Restorable


def task_at(offset: int) -> Restorable:
    body = InMemoryBody()
    body.write([], offset)
    store = SimpleNamespace(persistent=True, rows=SimpleNamespace(body=body))
    return cast("Restorable", SimpleNamespace(id=TaskId(1, 0), changelogs={TopicPartition("changelog", 0): store}))


def test_heartbeats_learn_positions_while_a_slow_disk_takes_them(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "app")
    positions = StatePositions(directory)
    positions.opened(task_at(7))
    file = directory.task_directory(TaskId(1, 0)) / "position"
    file.parent.mkdir(parents=True)
    # who writes to a pipe waits for its reader
    os.mkfifo(file)
    saving = threading.Thread(target=positions.save)
    saving.start()
    try:
        told: list[object] = []
        asking = threading.Thread(target=lambda: told.append((positions(), positions.end_sums())))
        asking.start()
        asking.join(20)
        assert told == [({TaskId(1, 0): 7}, {})]
        assert saving.is_alive()
    finally:
        assert file.read_text(encoding="ascii") == "7"
        saving.join(20)
        directory.close()
