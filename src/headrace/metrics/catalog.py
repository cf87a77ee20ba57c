"""Every metric there is, one row each. Groups, names and tags of ``stream-…`` groups are Java's (4.4)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CLIENT: Final = "stream-metrics"
THREAD: Final = "stream-thread-metrics"
TASK: Final = "stream-task-metrics"
NODE: Final = "stream-processor-node-metrics"
TOPIC: Final = "stream-topic-metrics"
UPDATER: Final = "stream-state-updater-metrics"
OWN_THREAD: Final = "headrace-thread-metrics"
OWN_TASK: Final = "headrace-task-metrics"


class RecordingLevel(IntEnum):
    """How much is recorded (``metrics.recording.level``): a level has what the lower ones have. Source: Java's."""

    INFO = 0
    DEBUG = 1
    TRACE = 2


@dataclass(frozen=True, slots=True)
class Definition:
    """A metric as the documentation has it.

    Attributes:
        group: Its group.
        name: Its name.
        tags: Names of its tags.
        level: From which level on it is recorded.
        unit: Of its value.
        about: What it tells.
    """

    group: str
    name: str
    tags: tuple[str, ...]
    level: RecordingLevel
    unit: str
    about: str


_INFO, _DEBUG = RecordingLevel.INFO, RecordingLevel.DEBUG
_OF_CLIENT = ("client-id",)
_OF_THREAD = ("thread-id",)
_OF_TASK = ("thread-id", "task-id")
_OF_NODE = (*_OF_TASK, "processor-node-id")
_OF_TOPIC = (*_OF_NODE, "topic")
_OF_PARTITION = (*_OF_TASK, "topic", "partition")


def _took(group: str, prefix: str, tags: tuple[str, ...], level: RecordingLevel, what: str) -> Iterator[Definition]:
    yield Definition(group, f"{prefix}-latency-avg", tags, level, "ms", f"Average time of {what}.")
    yield Definition(group, f"{prefix}-latency-max", tags, level, "ms", f"Longest time of {what}.")


def _counted(group: str, prefix: str, tags: tuple[str, ...], level: RecordingLevel, what: str) -> Iterator[Definition]:
    yield Definition(group, f"{prefix}-rate", tags, level, "1/s", f"{what} per second.")
    yield Definition(group, f"{prefix}-total", tags, level, "count", f"{what} in all.")


def _client() -> Iterator[Definition]:
    def row(name: str, unit: str, about: str, tags: tuple[str, ...] = _OF_CLIENT) -> Definition:
        return Definition(CLIENT, name, tags, _INFO, unit, about)

    yield row("version", "text", "Version of headrace.")
    yield row("application-id", "text", "`application.id`.")
    yield row("topology-description", "text", "The topology as `describe()` prints it. Not on the HTTP port.")
    yield row("state", "text", "State of the client.")
    yield row(
        "client-state",
        "number",
        "State of the client: 0 CREATED, 1 REBALANCING, 2 RUNNING, 3 PENDING_SHUTDOWN, 4 NOT_RUNNING, "
        "5 PENDING_ERROR, 6 ERROR.",
        ("client-id", "process-id", "application-id"),
    )
    yield row("recording-level", "number", "0 INFO, 1 DEBUG, 2 TRACE.", ("client-id", "process-id"))
    yield row("alive-stream-threads", "count", "Stream threads that have not ended.")
    yield row("failed-stream-threads", "count", "Stream threads that have ended by an error, replaced ones included.")


def _thread() -> Iterator[Definition]:
    def row(name: str, unit: str, about: str, tags: tuple[str, ...] = _OF_THREAD) -> Definition:
        return Definition(THREAD, name, tags, _INFO, unit, about)

    kinds = {
        "poll": ("a poll, the wait for records included", "Polls", "polling"),
        "process": ("a record, averaged over the records between two looks at the clock", "Records", "processing"),
        "commit": ("a commit of all the thread's tasks", "Commits", "committing"),
        "punctuate": ("a call of a punctuator", "Calls of punctuators", "calling punctuators"),
    }
    for prefix, (one, many, doing) in kinds.items():
        yield from _took(THREAD, prefix, _OF_THREAD, _INFO, one)
        yield from _counted(THREAD, prefix, _OF_THREAD, _INFO, many)
        yield row(f"{prefix}-ratio", "0 to 1", f"Fraction of its time that the thread spent {doing}.")
    yield row("poll-records-avg", "count", "Average number of records that a poll brought.")
    yield row("poll-records-max", "count", "Greatest number of records that a poll brought.")
    yield row("process-records-avg", "count", "Average number of records processed between two polls.")
    yield row("process-records-max", "count", "Greatest number of records processed between two polls.")
    yield row(
        "blocked-time-ns-total",
        "ns",
        "Time that the thread has waited for brokers: polls with nothing to take, and commits.",
    )
    events = {
        "revoked": "giving tasks up",
        "assigned": "taking tasks over",
        "lost": "closing the tasks of a lost membership",
    }
    for event, what in events.items():
        yield from _took(THREAD, f"tasks-{event}", _OF_THREAD, _INFO, f"{what}, by either group protocol")
    yield from _counted(THREAD, "task-created", _OF_THREAD, _INFO, "Tasks made")
    yield from _counted(THREAD, "task-closed", _OF_THREAD, _INFO, "Tasks closed")
    yield row("thread-start-time", "epoch ms", "When the thread was made.")
    yield row("state", "text", "State of the thread.")
    yield row(
        "thread-state",
        "number",
        "State of the thread: 0 CREATED, 1 STARTING, 2 PARTITIONS_REVOKED, 3 PARTITIONS_ASSIGNED, 4 RUNNING, "
        "5 PENDING_SHUTDOWN, 6 DEAD.",
        ("thread-id", "process-id"),
    )
    yield Definition(
        OWN_THREAD,
        "round-age-seconds",
        _OF_THREAD,
        _INFO,
        "s",
        "Seconds since the thread began a round of its loop: grows while user code or a broker holds it up.",
    )
    yield Definition(
        OWN_THREAD, "record-cache-bytes", _OF_THREAD, _INFO, "bytes",
        "What the record caches of the thread's tasks hold, of its part of `statestore.cache.max.bytes`.",
    )  # fmt: skip


def _task() -> Iterator[Definition]:
    def row(name: str, level: RecordingLevel, unit: str, about: str) -> Definition:
        return Definition(TASK, name, _OF_TASK, level, unit, about)

    yield from _took(TASK, "process", _OF_TASK, _DEBUG, "a record, averaged as the thread's")
    yield from _counted(TASK, "process", _OF_TASK, _DEBUG, "Records")
    yield row("active-process-ratio", _INFO, "0 to 1", "Fraction of the thread's time that processing the task took.")
    yield row("active-buffer-count", _DEBUG, "count", "Records that wait in the task's queues.")
    yield from _took(TASK, "punctuate", _OF_TASK, _DEBUG, "a call of a punctuator")
    yield from _counted(TASK, "punctuate", _OF_TASK, _DEBUG, "Calls of punctuators")
    yield from _counted(TASK, "dropped-records", _OF_TASK, _INFO, "Dropped records")
    yield from _counted(TASK, "restore", _OF_TASK, _DEBUG, "Records restored")
    yield row("restore-remaining-records-total", _INFO, "count", "Changelog records that a restore has still to read.")
    yield Definition(
        OWN_TASK, "records-lag", _OF_PARTITION, _INFO, "count",
        "Offsets from the task's next record to the end of the partition, as of the last fetch. An open transaction "
        "and its markers count.",
    )  # fmt: skip
    yield Definition(
        OWN_TASK, "last-commit-time-ms", _OF_TASK, _INFO, "epoch ms", "When the task last committed; 0 before that."
    )  # fmt: skip
    yield Definition(
        OWN_TASK, "stream-time-ms", _OF_TASK, _INFO, "epoch ms",
        "Greatest timestamp that the task has processed; -1 before its first record.",
    )  # fmt: skip
    yield Definition(
        OWN_TASK, "dropped-records-by-reason-total", (*_OF_TASK, "reason"), _INFO, "count",
        "Dropped records of one reason, such as `null key`. Their sum is `dropped-records-total`.",
    )  # fmt: skip


def _nodes() -> Iterator[Definition]:
    yield from _counted(NODE, "process", _OF_NODE, _DEBUG, "Records that a source has taken up")
    since = "from a record's time to its being taken up by a source, of the last record of each stretch of processing"
    for kind, which in {"avg": "Average time", "min": "Shortest time", "max": "Longest time"}.items():
        yield Definition(NODE, f"record-e2e-latency-{kind}", _OF_NODE, _INFO, "ms", f"{which} {since}.")

    def topic(name: str, level: RecordingLevel, unit: str, about: str) -> Definition:
        return Definition(TOPIC, name, _OF_TOPIC, level, unit, about)

    yield topic("records-consumed-total", _INFO, "count", "Records that a source has taken up of the topic.")
    yield topic("bytes-consumed-total", _DEBUG, "bytes", "Their sizes.")
    yield topic("records-produced-total", _DEBUG, "count", "Records that a sink has sent to the topic.")
    yield topic("bytes-produced-total", _DEBUG, "bytes", "Their sizes.")


def _updater() -> Iterator[Definition]:
    def row(name: str, unit: str, about: str) -> Definition:
        return Definition(UPDATER, name, _OF_THREAD, _INFO, unit, about)

    yield row("active-restoring-tasks", "count", "Active tasks that are being restored.")
    yield row("standby-updating-tasks", "count", "Standby tasks that follow their changelogs.")
    yield row("active-paused-tasks", "count", "Active tasks whose restore waits for `resume()`.")
    yield row("standby-paused-tasks", "count", "Standby tasks that wait for `resume()`.")
    yield row("idle-ratio", "0 to 1", "Fraction of its time that the state updater had nothing to do.")
    yield row("active-restore-ratio", "0 to 1", "Fraction of its time that it restored active tasks.")
    yield row("standby-update-ratio", "0 to 1", "Fraction of its time that it kept standby tasks up.")
    yield row("restore-records-rate", "1/s", "Changelog records read per second, those of standby tasks included.")
    yield row("restore-call-rate", "1/s", "Batches of changelog records per second.")


CATALOG: Final[Mapping[tuple[str, str], Definition]] = {
    (row.group, row.name): row for rows in (_client(), _thread(), _task(), _nodes(), _updater()) for row in rows
}
"""Every metric by group and name."""
