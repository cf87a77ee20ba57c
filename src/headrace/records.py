"""Small frozen values that every layer shares: partitions, task ids, header lists, raw records."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from headrace.errors import TaskIdFormatException

Headers: TypeAlias = list[tuple[str, bytes | None]]
"""Record headers in order; names may repeat, a value may be None. ``None`` in place of a list means no headers."""

RawRecord: TypeAlias = tuple[int, int, "bytes | None", "bytes | None", "Headers | None"]
"""``(offset, timestamp in ms, key bytes, value bytes, headers or None)``: a record of one known partition."""


class TracedOffset(int):
    """An offset with the key and value bytes of its record, for whoever may have to say what came in."""

    raw_key: bytes | None
    raw_value: bytes | None


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TaskId(NamedTuple):
    """A task: sub-topology number and partition. Its text, also its directory's name, is ``0_3``."""

    subtopology: int
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology}_{self.partition}"

    @classmethod
    def parse(cls, text: str) -> TaskId:
        """The task id of a text such as ``0_3``.

        Raises:
            TaskIdFormatException: ``text`` has another form.
        """
        left, sep, right = text.partition("_")
        if not (sep and left.isdecimal() and right.isdecimal()):
            raise TaskIdFormatException(f"'{text}' is not a task id such as 0_3")
        return cls(int(left), int(right))


class HostInfo(NamedTuple):
    """Where an instance says it can be reached (``application.server``). Source: ``streams.state.HostInfo``."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class HostPartitions(NamedTuple):
    """Input partitions of the tasks that an instance runs, and of those whose state it only follows."""

    active: frozenset[TopicPartition]
    standby: frozenset[TopicPartition]


class OffsetAndMetadata(NamedTuple):
    """An offset to commit with its metadata text."""

    offset: int
    metadata: str = ""


class GroupIdentity(NamedTuple):
    """Who a member is in its group at one moment. Valid only with ``generation >= 0`` and a member id."""

    group_id: str
    generation: int
    member_id: str
    group_instance_id: str | None = None
