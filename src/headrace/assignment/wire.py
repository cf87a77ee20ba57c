"""The user data of subscriptions and assignments under the assignor name ``headrace``; big-endian throughout.

Subscription (member to leader)::

    int16  version             layout of what follows; LATEST_VERSION of the writer
    int16  least version       oldest layout by which a reader may take it (it then ignores what follows the known)
    16 B   process id          UUID bytes
    int16  length + bytes      topology fingerprint, may be empty
    tasks  owned               active tasks of this member
    tasks  stored              tasks whose state this process has
    -- from version 2 on
    int32  count of offsets    each: task, int64 sum of changelog offsets (-2: runs here)
    tasks  standbys            standby and warm-up tasks of this member
    text   host                of application.server, empty for none; then int32 port
    int16  count of tags       each: text key, text value (client.tag.*)
    int16  request             MemberRequest
    -- from version 3 on
    text   rack                client.rack, empty for none

Assignment (leader to member)::

    int16  version
    int16  least version
    int16  error code          AssignmentError
    tasks  active
    -- from version 2 on
    tasks  standby             standby and warm-up tasks
    int32  count of topics     each: text
    int32  count of hosts      each: text host, int32 port, partitions active, partitions standby
    int64  probe after         ms until this member shall join again to see who has caught up, -1 for never

``text`` is int16 length and UTF-8; ``tasks`` is int32 count and by task int32 sub-topology, int32 partition;
``partitions`` is int32 count and by partition int32 index of its topic, int32 number.

A later version only appends. So a reader knows every message whose *least* version it knows; any other is refused
with a sentence that says which side is to be upgraded. A member that is refused so, and can still write the leader's
version, joins again with that one (version probing).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from headrace.errors import StreamsException
from headrace.records import HostInfo, HostPartitions, TaskId, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LATEST_VERSION = 3
LEAST_VERSION = 1
_WITH_RACK = 3

RUNNING_OFFSET = -2
"""In place of an offset sum: the task runs here, so nothing is as new as this copy (Java's ``LATEST_OFFSET``)."""

_HEAD = struct.Struct(">hh")
_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_TASK = struct.Struct(">ii")
_TASK_OFFSET = struct.Struct(">iiq")
_PROCESS_ID_SIZE = 16


class AssignmentError(IntEnum):
    """Why a member gets no tasks."""

    NONE = 0
    """There is no error."""
    VERSION_TOO_NEW = 1
    """The leader does not know the member's wire version: upgrade the older instances first."""
    TOPOLOGY_MISMATCH = 2
    """The member's topology is not the leader's: instances of one application id must run the same topology."""
    UNREADABLE = 3
    """The leader could not read the member's user data."""
    SHUTDOWN_REQUESTED = 4
    """A member has asked that the whole application ends."""


class MemberRequest(IntEnum):
    """What a member asks of the group beside its tasks."""

    NONE = 0
    """Nothing."""
    SHUTDOWN_APPLICATION = 1
    """That every instance ends."""


@dataclass(frozen=True, slots=True)
class SubscriptionInfo:
    """What a member tells of itself; see the module for the layout."""

    process_id: bytes
    owned: frozenset[TaskId] = frozenset()
    stored: frozenset[TaskId] = frozenset()
    fingerprint: bytes = b""
    offsets: Mapping[TaskId, int] = field(default_factory=dict["TaskId", int])
    standbys: frozenset[TaskId] = frozenset()
    host: HostInfo | None = None
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    request: int = MemberRequest.NONE
    rack: str = ""
    version: int = LATEST_VERSION
    least_version: int = LEAST_VERSION


@dataclass(frozen=True, slots=True)
class AssignmentInfo:
    """What a member is told; see the module for the layout."""

    active: frozenset[TaskId] = frozenset()
    error: int = AssignmentError.NONE
    standby: frozenset[TaskId] = frozenset()
    hosts: Mapping[HostInfo, HostPartitions] = field(default_factory=dict["HostInfo", "HostPartitions"])
    probe_after_ms: int = -1
    version: int = LATEST_VERSION
    least_version: int = LEAST_VERSION


class UnsupportedWireVersionException(StreamsException):
    """User data of a version that this release cannot read: upgrade the older instances first."""


def encode_subscription(info: SubscriptionInfo) -> bytes:
    """The bytes of a subscription, in the layout of its ``version``.

    Raises:
        ValueError: the process id is not 16 bytes.
    """
    if len(info.process_id) != _PROCESS_ID_SIZE:
        raise ValueError(f"a process id has {_PROCESS_ID_SIZE} bytes, not {len(info.process_id)}")
    first = (
        _HEAD.pack(info.version, info.least_version),
        info.process_id,
        _SHORT.pack(len(info.fingerprint)),
        info.fingerprint,
        _tasks(info.owned),
        _tasks(info.stored),
    )
    if info.version < 2:  # the layouts are told apart by their numbers
        return b"".join(first)
    host = info.host or HostInfo("", 0)
    return b"".join(
        (
            *first,
            _INT.pack(len(info.offsets)),
            *(_TASK_OFFSET.pack(*task, offset) for task, offset in sorted(info.offsets.items())),
            _tasks(info.standbys),
            _text(host.host),
            _INT.pack(host.port),
            _SHORT.pack(len(info.tags)),
            *(_text(part) for pair in sorted(info.tags.items()) for part in pair),
            _SHORT.pack(info.request),
            _text(info.rack) if info.version >= _WITH_RACK else b"",
        )
    )


def decode_subscription(data: bytes) -> SubscriptionInfo:
    """The subscription of these bytes.

    Raises:
        UnsupportedWireVersionException: its least version is above ours.
        StreamsException: the bytes end early.
    """
    reader = _Reader(data, "subscription")
    version, least = reader.versions()
    process_id = reader.take(_PROCESS_ID_SIZE)
    fingerprint = reader.take(reader.short())
    owned, stored = reader.tasks(), reader.tasks()
    if version < 2:  # as above
        return SubscriptionInfo(process_id, owned, stored, fingerprint, version=version, least_version=least)
    body = reader.take(reader.number() * _TASK_OFFSET.size)
    offsets = {TaskId(sub, partition): offset for sub, partition, offset in _TASK_OFFSET.iter_unpack(body)}
    standbys, host = reader.tasks(), HostInfo(reader.text(), reader.number())
    tags = {reader.text(): reader.text() for _ in range(reader.short())}
    return SubscriptionInfo(
        process_id,
        owned,
        stored,
        fingerprint,
        offsets,
        standbys,
        host if host.host else None,
        tags,
        reader.short(),
        reader.text() if version >= _WITH_RACK else "",
        version,
        least,
    )


def encode_assignment(info: AssignmentInfo) -> bytes:
    """The bytes of an assignment, in the layout of its ``version``."""
    first = _HEAD.pack(info.version, info.least_version) + _SHORT.pack(info.error) + _tasks(info.active)
    if info.version < 2:  # as above
        return first
    topics = sorted({tp.topic for host in info.hosts.values() for tps in host for tp in tps})
    index = {topic: number for number, topic in enumerate(topics)}
    parts = [first, _tasks(info.standby), _INT.pack(len(topics)), *map(_text, topics), _INT.pack(len(info.hosts))]
    for host, has in sorted(info.hosts.items()):
        parts += [_text(host.host), _INT.pack(host.port)]
        for partitions in has:
            parts.append(_INT.pack(len(partitions)))
            parts += [_TASK.pack(index[topic], number) for topic, number in sorted(partitions)]
    return b"".join((*parts, _LONG.pack(info.probe_after_ms)))


def decode_assignment(data: bytes) -> AssignmentInfo:
    """The assignment of these bytes.

    Raises:
        UnsupportedWireVersionException: its least version is above ours.
        StreamsException: the bytes end early.
    """
    reader = _Reader(data, "assignment")
    version, least = reader.versions()
    error, active = reader.short(), reader.tasks()
    if version < 2:  # as above
        return AssignmentInfo(active, error, version=version, least_version=least)
    standby = reader.tasks()
    topics = [reader.text() for _ in range(reader.number())]
    hosts: dict[HostInfo, HostPartitions] = {}
    for _ in range(reader.number()):
        host = HostInfo(reader.text(), reader.number())
        hosts[host] = HostPartitions(reader.partitions(topics), reader.partitions(topics))
    return AssignmentInfo(active, error, standby, hosts, reader.long(), version, least)


def describe_error(code: int) -> str:
    """What an assignment's error code means and what to do."""
    return {
        AssignmentError.VERSION_TOO_NEW: (
            "the group's leader runs an older release that cannot read this instance's subscription; "
            "upgrade the older instances first"
        ),
        AssignmentError.TOPOLOGY_MISMATCH: (
            "this instance's topology differs from the leader's; all instances of one application.id have to run the "
            "same topology (stop the others, or use another application.id)"
        ),
        AssignmentError.UNREADABLE: (
            "the group's leader could not read this instance's subscription; another program may use this group id"
        ),
        AssignmentError.SHUTDOWN_REQUESTED: "an instance has asked that the whole application ends",
    }.get(AssignmentError(code) if code in set(AssignmentError) else AssignmentError.NONE, f"unknown error {code}")


def _tasks(tasks: Iterable[TaskId]) -> bytes:
    ordered = sorted(tasks)
    return _INT.pack(len(ordered)) + b"".join(_TASK.pack(*task) for task in ordered)


def _text(text: str) -> bytes:
    raw = text.encode("utf-8")
    return _SHORT.pack(len(raw)) + raw


class _Reader:
    """Takes fields off the front; an early end is an error that says what was being read."""

    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._at = 0
        self._what = what

    def take(self, size: int) -> bytes:
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise StreamsException(
                f"the user data of a {self._what} ends early: {len(self._data)} bytes, {end} expected. "
                "Another program may use this group id"
            )
        part = self._data[self._at : end]
        self._at = end
        return part

    def short(self) -> int:
        return int(_SHORT.unpack(self.take(_SHORT.size))[0])

    def number(self) -> int:
        return int(_INT.unpack(self.take(_INT.size))[0])

    def long(self) -> int:
        return int(_LONG.unpack(self.take(_LONG.size))[0])

    def text(self) -> str:
        return self.take(self.short()).decode("utf-8", "replace")

    def versions(self) -> tuple[int, int]:
        version, least = _HEAD.unpack(self.take(_HEAD.size))
        if least > LATEST_VERSION or version < LEAST_VERSION:
            raise UnsupportedWireVersionException(
                f"a {self._what} has version {version}, readable from version {least}; this release reads "
                f"{LEAST_VERSION} to {LATEST_VERSION}. Upgrade the older instances of the application first"
            )
        return version, least

    def tasks(self) -> frozenset[TaskId]:
        return frozenset(TaskId(*pair) for pair in self.pairs())

    def partitions(self, topics: list[str]) -> frozenset[TopicPartition]:
        return frozenset(TopicPartition(topics[index], number) for index, number in self.pairs())

    def pairs(self) -> Iterable[tuple[int, int]]:
        return _TASK.iter_unpack(self.take(self.number() * _TASK.size))
