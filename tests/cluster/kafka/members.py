"""A group member for tests: a membership driven as a stream thread drives it, with the tasks it holds."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

from headrace import Consumed, Materialized, Serdes, StreamsBuilder
from headrace.assignment import SubscriptionInfo, TaskAssignor, encode_subscription
from headrace.assignment.wire import LATEST_VERSION
from headrace.kafka import Assigned, ClassicMembership, Lost, MembershipEvent, Revoked, StreamsMembership
from headrace.kafka.admin import TopicAdmin
from headrace.records import HostInfo, TaskId, TopicPartition
from headrace.topology.group import group_topology

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headrace.kafka import Membership
    from headrace.records import HostPartitions

ALL = {TaskId(0, partition) for partition in range(6)}
"""The tasks of the topic that the fixtures make."""


def partition_count(bootstrap: str, topic: str) -> int:
    """Of a topic that was just made."""
    admin = TopicAdmin({"bootstrap.servers": bootstrap})
    while not (counts := admin.partition_counts([topic])):
        time.sleep(0.02)  # a new topic is not known at once
    admin.close()
    return counts[topic]


class Member:
    """Closes what is revoked at once unless ``hold_revoked``; keeps every event it saw."""

    def __init__(self, membership: Membership) -> None:
        self.membership = membership
        self.tasks: set[TaskId] = set()
        self.partitions: set[TopicPartition] = set()
        self.events: list[MembershipEvent] = []
        self.hold_revoked = False
        self.held_back: set[TaskId] = set()

    def kill(self) -> str:
        """End as a process does that is killed; the id under which the group goes on to have it."""
        member_id, membership = self.membership.member_id(), self.membership
        assert member_id is not None
        assert isinstance(membership, ClassicMembership | StreamsMembership)
        connection, membership._connection = membership._connection, None
        assert connection is not None
        connection.close()
        return member_id

    def poll(self) -> list[MembershipEvent]:
        events = self.membership.poll(int(time.monotonic() * 1000))
        for event in events:
            match event:
                case Assigned():
                    assert not self.tasks & event.tasks
                    self.tasks |= event.tasks
                    self.partitions |= event.partitions
                case Revoked():
                    if self.hold_revoked:
                        self.held_back |= event.tasks
                    else:
                        self.tasks -= event.tasks
                        self.partitions -= event.partitions
                        self.membership.revoked(event.tasks)
                case Lost():
                    assert self.tasks <= event.tasks
                    self.tasks.clear()
                    self.partitions.clear()
        self.events += events
        return events

    @property
    def hosts(self) -> Mapping[HostInfo, HostPartitions]:
        """Where members are and what they have, as it was last told."""
        assigned = [event for event in self.events if isinstance(event, Assigned)]
        return assigned[-1].hosts if assigned else {}

    def count(self, kind: type[MembershipEvent]) -> int:
        return sum(isinstance(event, kind) for event in self.events)


def classic_member(
    bootstrap: str,
    group: str,
    topic: str,
    *,
    session_timeout_ms: int = 6_000,
    heartbeat_interval_ms: int = 300,
    max_poll_interval_ms: int = 60_000,
    group_instance_id: str | None = None,
    fingerprint: bytes = b"",
    version: int = LATEST_VERSION,
    host: HostInfo | None = None,
    former: str | None = None,
) -> Member:
    """A member of a classic group that reads a topic, a task for each partition."""
    process_id = uuid.uuid4().bytes
    tasks = {TaskId(0, number): [TopicPartition(topic, number)] for number in range(partition_count(bootstrap, topic))}
    return Member(
        ClassicMembership(
            {"bootstrap.servers": bootstrap},
            group,
            f"{group}-client",
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=heartbeat_interval_ms,
            max_poll_interval_ms=max_poll_interval_ms,
            group_instance_id=group_instance_id,
            topics=lambda: [topic],
            subscription_userdata=lambda claims: encode_subscription(
                SubscriptionInfo(
                    process_id,
                    claims.owned,
                    fingerprint=fingerprint,
                    host=host,
                    request=claims.request,
                    version=min(version, claims.version),
                )
            ),
            assignor=TaskAssignor(tasks),
            former=former,
        )
    )


def streams_member(
    bootstrap: str,
    group: str,
    topic: str,
    *,
    max_poll_interval_ms: int = 60_000,
    group_instance_id: str | None = None,
    host: HostInfo | None = None,
    store: str | None = None,
    process_id: str | None = None,
    former: str | None = None,
) -> Member:
    """A member of a streams group that reads a topic, a task for each partition, with a store if one is named."""
    builder = StreamsBuilder()
    lines = builder.stream(topic, Consumed.with_(Serdes.String(), Serdes.String()))
    if store is None:
        lines.to(f"{topic}-copy")
    else:
        lines.group_by_key().count(Materialized.as_(store))
    return Member(
        StreamsMembership(
            {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 1000},
            group,
            f"{group}-client",
            process_id=process_id or str(uuid.uuid4()),
            topology=group_topology(builder.build().build(group), -1),
            partitions=lambda task: [TopicPartition(topic, task.partition)],
            max_poll_interval_ms=max_poll_interval_ms,
            group_instance_id=group_instance_id,
            host=host,
            former=former,
        )
    )


def drive(
    members: Sequence[Member], until: Callable[[], bool], timeout_s: float = 20.0, *, exclusive: bool = True
) -> None:
    """Poll the members in turn until the condition holds; where it is ``exclusive`` no task may have two owners."""
    deadline = time.monotonic() + timeout_s
    while not until():
        assert time.monotonic() < deadline, [(sorted(m.tasks), m.events[-3:]) for m in members]
        for member in members:
            member.poll()
        held = [task for member in members for task in member.tasks]
        assert not exclusive or len(held) == len(set(held)), (
            f"a task has two owners: {[sorted(m.tasks) for m in members]}"
        )
        time.sleep(0.005)


def drive_until_hosts_are_known(join: Callable[..., Member]) -> None:
    """Two members that share the tasks: each is told where both are, and which partitions they have."""
    here, there = HostInfo("here", 8080), HostInfo("there", 65_000)
    first, second = join(host=here), join(host=there)

    def known() -> bool:
        shared = {here: first.partitions, there: second.partitions}
        return len(first.tasks) == len(second.tasks) == 3 and all(
            {host: has.active for host, has in member.hosts.items()} == shared for member in (first, second)
        )

    drive([first, second], known)
