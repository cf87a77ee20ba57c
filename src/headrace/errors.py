"""The exception tree. A class says what its catcher does; where it happened is in the message and in attributes.

========================  =============================================================
class                     recovery
========================  =============================================================
ConfigException           fix the setting named in the message; nothing was started
TopologyException         fix the topology; nothing was started
SerializationException    a handler decides (deserialization or production handler)
StreamsException          fatal for the stream thread: the uncaught exception handler decides
TaskMigratedException     close every task of the thread without committing, join the group anew
TaskCorruptedException    drop the uncommitted writes of the named tasks, restore their delta
TransactionAbortable…     abort the transaction; then as TaskCorruptedException, for every task of the thread
LockException             another process or thread owns the state directory: try again or stop
========================  =============================================================

Names follow ``org.apache.kafka.streams.errors`` (4.4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.records import TaskId, TopicPartition


class KafkaException(Exception):
    """Root of every exception that headrace raises.

    Attributes:
        retriable: Whether the same may succeed when it is done again.
    """

    retriable: bool = False


class ConfigException(KafkaException, ValueError):
    """A setting is missing or its value is not allowed; the message names key, value and what is allowed."""


class SerializationException(KafkaException):
    """Bytes could not be decoded to, or a value not encoded from, the type the serde stands for."""


class UnsupportedVersionException(KafkaException):
    """The broker is too old for what the configuration asks."""


class TopologyException(KafkaException):
    """The topology is not valid. Raised while building, before anything runs. ``problem`` is the bare text."""

    def __init__(self, message: str) -> None:
        super().__init__(f"Invalid topology: {message}")
        self.problem = message


class StreamsException(KafkaException):
    """A fatal error of a stream thread or task; ``task_id`` names the task where one is known."""

    def __init__(self, message: str, task_id: TaskId | None = None) -> None:
        super().__init__(message)
        self.task_id = task_id


class FailedProcessingException(StreamsException):
    """A user function raised and its handler chose FAIL. Already handled: passes through every outer operator."""


class ProcessorStateException(StreamsException):
    """A state store could not be opened, read, written or flushed."""


class TransactionAbortableException(StreamsException):
    """The open transaction cannot commit: abort it, drop its uncommitted writes, go on from the committed offsets."""


class RecordRefusedException(StreamsException):
    """A broker refused a batch of records for what one of them is, so that it would be refused again.

    The tasks start again from what is committed, one record at a time, to find which: ``exact`` is True when it is the
    record just sent.
    """

    def __init__(self, message: str, task_id: TaskId | None = None, *, exact: bool = False) -> None:
        super().__init__(message, task_id)
        self.exact = exact


class LockException(StreamsException):
    """The state directory, or a task directory in it, is held by another owner."""


class TaskIdFormatException(StreamsException):
    """A directory or text is not a task id of the form ``subtopology_partition``."""


class TaskMigratedException(StreamsException):
    """This member, or its producer, is no longer the owner of its tasks: close all, commit nothing, join anew."""


class TaskCorruptedException(StreamsException):
    """Tasks may not trust their uncommitted state: drop it, restore from the changelog, go on from what is committed.

    ``task_ids`` names them; none named means all tasks of the thread.
    ``wipe``: the committed rows on disk cannot be trusted either, so the task's directory goes too.
    """

    def __init__(self, message: str, task_ids: Iterable[TaskId], wipe: bool = False) -> None:
        super().__init__(message)
        self.task_ids = frozenset(task_ids)
        self.wipe = wipe


class OffsetOutOfRangeException(StreamsException):
    """A committed offset is no longer in the log: records between it and the log start were deleted unread.

    Attributes:
        partition: where.
        committed: the offset asked for.
        log_start, log_end: what the log holds; -1 each when no broker told in time.
    """

    def __init__(self, message: str, partition: TopicPartition, committed: int, log_start: int, log_end: int) -> None:
        super().__init__(message)
        self.partition = partition
        self.committed = committed
        self.log_start = log_start
        self.log_end = log_end

    @property
    def gap(self) -> int | None:
        """How many records can no longer be read: log start minus committed offset. None when the log is not known.

        Negative when the committed offset lies past the end, as after the topic was made anew: log end minus it.
        """
        if self.log_start < 0:
            return None
        return self.log_start - self.committed if self.committed < self.log_start else self.log_end - self.committed


class MissingSourceTopicException(StreamsException):
    """A topic that is read does not exist on the brokers.

    Attributes:
        topic: Which; None where it is several, or a partition of one that exists.
    """

    def __init__(self, message: str, task_id: TaskId | None = None, *, topic: str | None = None) -> None:
        super().__init__(message, task_id)
        self.topic = topic


class MisconfiguredInternalTopicException(StreamsException):
    """An internal topic exists with a partition count or a cleanup policy that the topology cannot use."""


class TimeoutException(KafkaException, TimeoutError):
    """A broker did not answer in time; the operation may be tried again."""

    retriable = True


class ProducerFencedException(KafkaException):
    """A newer producer with the same transactional id exists: this one is a zombie."""


class AuthorizationException(KafkaException):
    """The brokers refused the operation; the message names the missing permission."""


class InvalidStateStoreException(KafkaException):
    """The state store cannot be used now (closed, or its task is elsewhere)."""


class UnknownStateStoreException(InvalidStateStoreException):
    """No store of that name is in the topology."""


class IllegalStateException(KafkaException, RuntimeError):
    """A method was called in a state in which it is not allowed (such as ``start()`` twice)."""
