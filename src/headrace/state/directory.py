"""The local directory of an application: its lock, the process id kept in it, and one directory per task.

::

    {state.dir}/{application.id}/.lock                              held by one process (POSIX record lock, as Java's)
                                /kafka-streams-process-metadata     {"processId": "<uuid>", "lock": <inode of .lock>}
                                /{sub-topology}_{partition}/rocksdb/{store}
                                /{sub-topology}_{partition}/position    about how far the stores are, a number
                                /global/rocksdb/{store}
                                /global/checkpoint.json

Source: ``processor.internals.StateDirectory``.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import shutil
import threading
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import LockException, ProcessorStateException, TaskIdFormatException
from headrace.records import TaskId
from headrace.state.disk import disk_advice, read_object, replace_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_log = logging.getLogger(__name__)

_METADATA = "kafka-streams-process-metadata"
_MEMBERS = "members.json"
_GLOBAL = "global"
_POSITION = "position"
_held: dict[Path, StateDirectory] = {}
_held_guard = threading.Lock()


class StateDirectory:
    """Owner of ``{state.dir}/{application.id}`` for this process, from construction until :meth:`close`."""

    def __init__(self, state_dir: str | Path, application_id: str) -> None:
        """Create the directory if need be and lock it.

        Raises:
            LockException: Another process, or another client of this process, holds it.
            ProcessorStateException: It cannot be created or written.
        """
        # one spelling per directory: the table below must know it again behind a symbolic link
        self.path = (Path(state_dir) / application_id).resolve()
        self._owners: dict[TaskId, object] = {}
        self._guard = threading.Lock()
        try:
            self.path.mkdir(mode=0o750, parents=True, exist_ok=True)
            self._lock()
            try:
                self.process_id = self._read_or_make_process_id()
            except BaseException:
                self.close()
                raise
        except OSError as e:
            advice = disk_advice(e) or "Set state.dir to a directory this user may write to."
            raise ProcessorStateException(f"state directory {self.path} cannot be used: {e}. {advice}") from e

    def _lock(self) -> None:
        # A record lock belongs to the process, so the table keeps two clients of one process apart. It is asked before
        # the file is opened: closing any descriptor of the file would give up the lock that the first client holds.
        with _held_guard:
            held = self.path in _held
            if not held:
                fd = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
                try:
                    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except (BlockingIOError, PermissionError):
                    os.close(fd)
                    held = True
                else:
                    self._fd = fd
                    _held[self.path] = self
        if held:
            raise LockException(
                f"state directory {self.path} is in use by another running instance. Give every instance a "
                "state.dir of its own."
            )

    def _read_or_make_process_id(self) -> uuid.UUID:
        """The process id kept here, unless the directory is a copy: the process of the first one may live.

        A copy is known by its lock, which is another file then.
        """
        lock, known = os.fstat(self._fd).st_ino, read_object(self.path / _METADATA)
        process_id: uuid.UUID | None = None
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
            process_id = uuid.UUID(known["processId"])
        if process_id is not None and known.get("lock", lock) != lock:
            _log.warning(
                "State directory %s is a copy of another one: it goes on with the stores, as another process than %s",
                self.path,
                process_id,
            )
            (self.path / _MEMBERS).unlink(missing_ok=True)
            process_id = None
        if process_id is None or "lock" not in known:
            process_id = process_id or uuid.uuid4()
            self._replace(_METADATA, {"processId": str(process_id), "lock": lock})
        return process_id

    def members(self) -> dict[str, int]:
        """Members of the group that are written down, by id the number of the thread whose each one is or was.

        Raises:
            ProcessorStateException: The file cannot be read.
        """
        found = read_object(self.path / _MEMBERS)
        with contextlib.suppress(ValueError, TypeError, OverflowError):
            return {member_id: int(index) for member_id, index in found.items()}
        return {}

    def keep_members(self, members: Mapping[str, int]) -> None:
        """Write down members of the group, by id the number of the thread."""
        self._replace(_MEMBERS, members)

    def _replace(self, name: str, content: Mapping[str, str | int]) -> None:
        replace_file(self.path / name, json.dumps(content))

    def task_directory(self, task_id: TaskId) -> Path:
        """The task's directory (made by whoever opens a store in it)."""
        return self.path / str(task_id)

    def store_path(self, task_id: TaskId, store: str) -> Path:
        """Where a RocksDB key-value store lies."""
        return self.task_directory(task_id) / "rocksdb" / store

    def global_store_path(self, store: str) -> Path:
        """Where a global store lies."""
        return self.path / _GLOBAL / "rocksdb" / store

    def global_checkpoint(self) -> Path:
        """The file that says up to where the global stores follow their topics."""
        return self.path / _GLOBAL / "checkpoint.json"

    def remove_global(self) -> None:
        """Delete the global stores, which must be closed."""
        shutil.rmtree(self.path / _GLOBAL, ignore_errors=True)

    def acquire(self, task_id: TaskId, owner: object) -> None:
        """Make ``owner`` the one who may open the task's stores.

        Raises:
            LockException: Another owner of this process has it still; it may be tried again.
        """
        with self._guard:
            holder = self._owners.setdefault(task_id, owner)
        if holder is not owner:
            raise LockException(
                f"task directory {self.task_directory(task_id)} is still held by another thread", task_id
            )

    def release(self, task_id: TaskId, owner: object) -> None:
        """Let go of the task's directory; nothing happens when ``owner`` does not hold it."""
        with self._guard:
            if self._owners.get(task_id) is owner:
                del self._owners[task_id]

    def task_ids(self) -> Iterator[TaskId]:
        """Tasks that have a directory here."""
        for entry in sorted(self.path.iterdir()):
            if entry.is_dir():
                with contextlib.suppress(TaskIdFormatException):
                    yield TaskId.parse(entry.name)

    def has_task(self, task_id: TaskId) -> bool:
        """Whether the task has a directory here."""
        return self.task_directory(task_id).is_dir()

    def offset_sums(self) -> dict[TaskId, int]:
        """What :meth:`save_offset_sum` wrote, of every task that has a directory."""
        found: dict[TaskId, int] = {}
        for task_id in self.task_ids():
            # no file, or a torn one: nothing is known
            with contextlib.suppress(OSError, ValueError):
                total = int((self.task_directory(task_id) / _POSITION).read_text(encoding="ascii"))
                # the group is told of it in 64 bits
                if 0 <= total < 1 << 63:
                    found[task_id] = total
        return found

    def save_offset_sum(self, task_id: TaskId, total: int) -> None:
        """Remember about how far the task's stores are; nothing happens when it has no directory."""
        path = self.task_directory(task_id) / _POSITION
        with contextlib.suppress(OSError):
            path.write_text(str(total), encoding="ascii")

    def remove_task(self, task_id: TaskId) -> None:
        """Delete the directory of a task that nobody holds.

        Raises:
            LockException: A thread of this process holds it.
        """
        with self._guard:
            if task_id in self._owners:
                raise LockException(f"task {task_id} is running: its directory cannot be removed", task_id)
            shutil.rmtree(self.task_directory(task_id), ignore_errors=True)

    def remove_unused(self, since_s: float) -> list[TaskId]:
        """Delete the directories of tasks that nobody holds and in which nothing has changed since a time.

        Args:
            since_s: The time, in seconds since the epoch.

        Returns:
            The tasks.
        """
        removed: list[TaskId] = []
        for task_id in list(self.task_ids()):
            directory = self.task_directory(task_id)
            with contextlib.suppress(LockException, FileNotFoundError):
                if max(path.stat().st_mtime for path in (directory, *directory.rglob("*"))) < since_s:
                    self.remove_task(task_id)
                    removed.append(task_id)
        return removed

    def clean(self) -> None:
        """Delete every task's directory and the global stores (``KafkaStreams.clean_up``).

        The process id and the members stay: by them the next process ends what this one leaves open when it is killed.
        """
        for task_id in list(self.task_ids()):
            self.remove_task(task_id)
        self.remove_global()

    def close(self) -> None:
        """Unlock. Closing twice does nothing."""
        with _held_guard:
            if _held.get(self.path) is self:
                del _held[self.path]
                fcntl.lockf(self._fd, fcntl.LOCK_UN)
                os.close(self._fd)
