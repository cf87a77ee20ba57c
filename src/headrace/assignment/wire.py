"""The user data of subscriptions and assignments under the assignor name ``headrace``; big-endian throughout.

Subscription (member to leader)::

    int16  version             layout of what follows; LATEST_VERSION of the writer
    int16  least version       oldest layout by which a reader may take it (it then ignores what follows the known)
    16 B   process id          UUID bytes
    int16  length + bytes      topology fingerprint, may be empty
    int32  count of owned      each: int32 sub-topology, int32 partition
    int32  count of stored     each: int32 sub-topology, int32 partition

Assignment (leader to member)::

    int16  version
    int16  least version
    int16  error code          AssignmentError
    int32  count of active     each: int32 sub-topology, int32 partition

A later version only appends. So a reader knows every message whose *least* version it knows; any other is refused
with a sentence that says which side is to be upgraded.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from headrace.errors import StreamsException
from headrace.records import TaskId

if TYPE_CHECKING:
    from collections.abc import Iterable

LATEST_VERSION = 1
LEAST_VERSION = 1

_HEAD = struct.Struct(">hh")
_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")
_TASK = struct.Struct(">ii")
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


@dataclass(frozen=True, slots=True)
class SubscriptionInfo:
    """What a member tells of itself; see the module for the layout."""

    process_id: bytes
    owned: frozenset[TaskId] = frozenset()
    stored: frozenset[TaskId] = frozenset()
    fingerprint: bytes = b""
    version: int = LATEST_VERSION
    least_version: int = LEAST_VERSION


@dataclass(frozen=True, slots=True)
class AssignmentInfo:
    """What a member is told; see the module for the layout."""

    active: frozenset[TaskId] = frozenset()
    error: int = AssignmentError.NONE
    version: int = LATEST_VERSION
    least_version: int = LEAST_VERSION


class UnsupportedWireVersionException(StreamsException):
    """User data of a version that this release cannot read: upgrade the older instances first."""


def encode_subscription(info: SubscriptionInfo) -> bytes:
    """The bytes of a subscription.

    Raises:
        ValueError: the process id is not 16 bytes.
    """
    if len(info.process_id) != _PROCESS_ID_SIZE:
        raise ValueError(f"a process id has {_PROCESS_ID_SIZE} bytes, not {len(info.process_id)}")
    return b"".join(
        (
            _HEAD.pack(info.version, info.least_version),
            info.process_id,
            _SHORT.pack(len(info.fingerprint)),
            info.fingerprint,
            _tasks(info.owned),
            _tasks(info.stored),
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
    return SubscriptionInfo(process_id, reader.tasks(), reader.tasks(), fingerprint, version, least)


def encode_assignment(info: AssignmentInfo) -> bytes:
    """The bytes of an assignment."""
    return _HEAD.pack(info.version, info.least_version) + _SHORT.pack(info.error) + _tasks(info.active)


def decode_assignment(data: bytes) -> AssignmentInfo:
    """The assignment of these bytes.

    Raises:
        UnsupportedWireVersionException: its least version is above ours.
        StreamsException: the bytes end early.
    """
    reader = _Reader(data, "assignment")
    version, least = reader.versions()
    error = reader.short()
    return AssignmentInfo(reader.tasks(), error, version, least)


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
    }.get(AssignmentError(code) if code in set(AssignmentError) else AssignmentError.NONE, f"unknown error {code}")


def _tasks(tasks: Iterable[TaskId]) -> bytes:
    ordered = sorted(tasks)
    return _INT.pack(len(ordered)) + b"".join(_TASK.pack(*task) for task in ordered)


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

    def versions(self) -> tuple[int, int]:
        version, least = _HEAD.unpack(self.take(_HEAD.size))
        if least > LATEST_VERSION or version < LEAST_VERSION:
            raise UnsupportedWireVersionException(
                f"a {self._what} has version {version}, readable from version {least}; this release reads "
                f"{LEAST_VERSION} to {LATEST_VERSION}. Upgrade the older instances of the application first"
            )
        return version, least

    def tasks(self) -> frozenset[TaskId]:
        count = int(_INT.unpack(self.take(_INT.size))[0])
        body = self.take(count * _TASK.size)
        return frozenset(TaskId(*pair) for pair in _TASK.iter_unpack(body))
