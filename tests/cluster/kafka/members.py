"""A group member for tests: a membership driven as a stream thread drives it, with the tasks it holds."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

from headrace.assignment import SubscriptionInfo, TaskAssignor, encode_subscription
from headrace.assignment.wire import LATEST_VERSION
from headrace.kafka import Assigned, ClassicMembership, Lost, MembershipEvent, Revoked
from headrace.kafka.admin import TopicAdmin
from headrace.records import TaskId, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Member:
    """Closes what is revoked at once unless ``hold_revoked``; keeps every event it saw."""

    def __init__(
        self,
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
    ) -> None:
        config = {"bootstrap.servers": bootstrap}
        admin = TopicAdmin(config)
        while not (counts := admin.partition_counts([topic])):
            time.sleep(0.02)  # a new topic is not known at once
        admin.close()
        self.process_id = uuid.uuid4().bytes
        self.fingerprint = fingerprint
        reads = {TaskId(0, number): [TopicPartition(topic, number)] for number in range(counts[topic])}
        self.membership = ClassicMembership(
            config,
            group,
            f"{group}-client",
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=heartbeat_interval_ms,
            max_poll_interval_ms=max_poll_interval_ms,
            group_instance_id=group_instance_id,
            topics=lambda: [topic],
            subscription_userdata=lambda claims: encode_subscription(
                SubscriptionInfo(
                    self.process_id,
                    claims.owned,
                    fingerprint=self.fingerprint,
                    request=claims.request,
                    version=min(version, claims.version),
                )
            ),
            assignor=TaskAssignor(reads),
        )
        self.tasks: set[TaskId] = set()
        self.partitions: set[TopicPartition] = set()
        self.events: list[MembershipEvent] = []
        self.hold_revoked = False
        self.held_back: set[TaskId] = set()

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

    def count(self, kind: type[MembershipEvent]) -> int:
        return sum(isinstance(event, kind) for event in self.events)


def drive(members: Sequence[Member], until: Callable[[], bool], timeout_s: float = 20.0) -> None:
    """Poll the members in turn until the condition holds; no task may ever have two owners."""
    deadline = time.monotonic() + timeout_s
    while not until():
        assert time.monotonic() < deadline, [(sorted(m.tasks), m.events[-3:]) for m in members]
        for member in members:
            member.poll()
        held = [task for member in members for task in member.tasks]
        assert len(held) == len(set(held)), f"a task has two owners: {[sorted(m.tasks) for m in members]}"
        time.sleep(0.005)
