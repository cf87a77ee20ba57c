from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import uuid
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from headrace.errors import LockException, ProcessorStateException
from headrace.records import TaskId
from headrace.state.checkpoint import GlobalCheckpoint
from headrace.state.directory import StateDirectory

if TYPE_CHECKING:
    from pathlib import Path

TRY = """
import sys
from headrace.errors import LockException
from headrace.state.directory import StateDirectory
try:
    StateDirectory(sys.argv[1], "app")
except LockException:
    print("refused")
else:
    print("locked")
"""


def another_process(state_dir: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", TRY, str(state_dir)], capture_output=True, text=True, check=True, timeout=30
    )
    return done.stdout.strip()


def test_one_process_at_a_time(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "app")
    assert another_process(tmp_path) == "refused"
    directory.close()
    directory.close()
    assert another_process(tmp_path) == "locked"
    StateDirectory(tmp_path, "app").close()


def test_a_refused_second_client_does_not_give_the_lock_away(tmp_path: Path) -> None:
    # closing any descriptor of the lock file gives up the process's record lock
    directory = StateDirectory(tmp_path, "app")
    with pytest.raises(LockException, match="in use by another running instance"):
        StateDirectory(tmp_path, "app")
    assert another_process(tmp_path) == "refused"
    directory.close()


def test_a_symbolic_link_is_the_same_directory(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    directory = StateDirectory(tmp_path / "real", "app")
    with pytest.raises(LockException):
        StateDirectory(tmp_path / "link", "app")
    directory.close()
    StateDirectory(tmp_path / "link", "app").close()


def test_two_applications_share_a_state_dir(tmp_path: Path) -> None:
    one, two = StateDirectory(tmp_path, "one"), StateDirectory(tmp_path, "two")
    assert one.process_id != two.process_id
    one.close()
    two.close()


def test_the_process_id_is_kept(tmp_path: Path) -> None:
    first = StateDirectory(tmp_path, "app")
    first.close()
    second = StateDirectory(tmp_path, "app")
    assert second.process_id == first.process_id
    second.close()


def test_javas_process_id_is_taken_over(tmp_path: Path) -> None:
    process_id = uuid.uuid4()
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "kafka-streams-process-metadata").write_text(
        json.dumps({"processId": str(process_id), "future": 1})
    )
    directory = StateDirectory(tmp_path, "app")
    assert directory.process_id == process_id
    directory.close()
    with closing(StateDirectory(tmp_path, "app")) as again:
        assert again.process_id == process_id


def test_a_copy_of_a_directory_is_another_process(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It had the process id and the members of the one that it was made of, which lived: both ran the same tasks."""
    with closing(StateDirectory(tmp_path / "one", "app")) as first:
        first.keep_members({"member": 1})
        first.store_path(TaskId(0, 1), "counts").mkdir(parents=True)
        shutil.copytree(tmp_path / "one", tmp_path / "two", copy_function=shutil.copy2)
        with closing(StateDirectory(tmp_path / "two", "app")) as second:
            other = second.process_id
            assert other != first.process_id
            assert second.members() == {}
            assert list(second.task_ids()) == [TaskId(0, 1)], "what it has of the stores is worth keeping"
        assert "is a copy of another one" in caplog.text
    with closing(StateDirectory(tmp_path / "two", "app")) as second:
        assert second.process_id == other
    with closing(StateDirectory(tmp_path / "one", "app")) as again:
        assert (again.process_id, again.members()) == (first.process_id, {"member": 1})


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"processId": 5}', '{"processId": null}', '{"processId": "x"}', "\udcff"]
)
def test_an_unreadable_process_id_is_replaced_for_good(tmp_path: Path, content: str) -> None:
    (tmp_path / "app").mkdir()
    path = tmp_path / "app" / "kafka-streams-process-metadata"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    directory = StateDirectory(tmp_path, "app")
    assert json.loads(path.read_text())["processId"] == str(directory.process_id)
    directory.close()
    again = StateDirectory(tmp_path, "app")
    assert again.process_id == directory.process_id
    again.close()


def test_an_unusable_directory_is_named_and_nothing_stays_locked(tmp_path: Path) -> None:
    (tmp_path / "app").write_text("a file")
    with pytest.raises(ProcessorStateException, match=r"/app cannot be used: .* Set state.dir"):
        StateDirectory(tmp_path, "app")
    (tmp_path / "app").unlink()
    (tmp_path / "app" / "kafka-streams-process-metadata").mkdir(parents=True)
    with pytest.raises(ProcessorStateException, match="cannot be used"):
        StateDirectory(tmp_path, "app")
    (tmp_path / "app" / "kafka-streams-process-metadata").rmdir()
    StateDirectory(tmp_path, "app").close()


def test_a_small_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """The client ended by a bare IsADirectoryError."""
    with closing(StateDirectory(tmp_path, "app")) as directory:
        (directory.path / "members.json").mkdir()
        with pytest.raises(ProcessorStateException, match=r"/app/members.json in the state directory cannot be used: "):
            directory.members()
        (directory.path / "global" / "checkpoint.json").mkdir(parents=True)
        with pytest.raises(ProcessorStateException, match=r"/app/global/checkpoint.json .* or remove it"):
            GlobalCheckpoint(directory.global_checkpoint(), {}, {}, {}).load()


def test_a_task_has_one_owner_at_a_time(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "app")
    one, two, task = object(), object(), TaskId(0, 1)
    directory.acquire(task, one)
    directory.acquire(task, one)
    with pytest.raises(LockException, match="held by another thread") as caught:
        directory.acquire(task, two)
    assert caught.value.task_id == task
    directory.release(task, two)
    with pytest.raises(LockException):
        directory.acquire(task, two)
    directory.release(task, one)
    directory.release(task, one)
    directory.acquire(task, two)
    directory.acquire(TaskId(0, 2), one)
    directory.close()


def test_layout_and_removal(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path, "app")
    store = directory.store_path(TaskId(1, 12), "counts")
    assert store == (tmp_path / "app" / "1_12" / "rocksdb" / "counts").resolve()
    store.mkdir(parents=True)
    directory.task_directory(TaskId(0, 3)).mkdir()
    (directory.path / "global").mkdir()
    (directory.path / "0_9").write_text("a file is no task")
    assert list(directory.task_ids()) == [TaskId(0, 3), TaskId(1, 12)]
    owner = object()
    directory.acquire(TaskId(1, 12), owner)
    with pytest.raises(LockException, match="is running"):
        directory.remove_task(TaskId(1, 12))
    assert store.exists()
    directory.release(TaskId(1, 12), owner)
    directory.remove_task(TaskId(1, 12))
    directory.remove_task(TaskId(1, 12))
    assert list(directory.task_ids()) == [TaskId(0, 3)]
    directory.clean()
    assert list(directory.task_ids()) == []
    assert not (directory.path / "global").exists()
    directory.close()


def test_a_clean_up_leaves_who_the_instance_is(tmp_path: Path) -> None:
    """After one before the start, a kill left the transaction open and the member in the group for their time-outs."""
    directory = StateDirectory(tmp_path, "app")
    directory.keep_members({"member": 1})
    directory.clean()
    directory.close()
    with closing(StateDirectory(tmp_path, "app")) as again:
        assert (again.process_id, again.members()) == (directory.process_id, {"member": 1})


def test_directories_that_nobody_has_touched_for_long_are_deleted(tmp_path: Path) -> None:
    with closing(StateDirectory(tmp_path, "app")) as directory:
        used, old, young = (TaskId(0, number) for number in range(3))
        for task_id in (used, old, young):
            store = directory.store_path(task_id, "s")
            store.mkdir(parents=True)
            (store / "file").touch()
            for path in (directory.task_directory(task_id), *directory.task_directory(task_id).rglob("*")):
                os.utime(path, (1_000, 1_000))
        os.utime(directory.store_path(young, "s") / "file", (2_000, 2_000))
        directory.acquire(used, "thread")
        assert directory.remove_unused(1_000) == []
        assert directory.remove_unused(1_500) == [old]
        assert list(directory.task_ids()) == [used, young]


def test_how_far_a_task_is_is_remembered(tmp_path: Path) -> None:
    with closing(StateDirectory(tmp_path, "app")) as directory:
        task_id = TaskId(0, 1)
        directory.save_offset_sum(task_id, 5)
        assert directory.offset_sums() == {}, "it has no directory"
        directory.task_directory(task_id).mkdir()
        directory.save_offset_sum(task_id, 12)
        assert directory.offset_sums() == {task_id: 12}
        for garbage in ("torn", "-1", str(1 << 63)):
            (directory.task_directory(task_id) / "position").write_text(garbage)
            assert directory.offset_sums() == {}, "the group could not be joined with it"
