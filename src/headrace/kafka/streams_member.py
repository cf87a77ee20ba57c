"""A member of a streams group without its connection: what it says, what it makes of answers, what it tells its thread.

Two threads meet here. The IO thread asks ``wait_s`` and ``next_heartbeat`` and reports ``answered`` or ``unanswered``;
the stream thread takes events and reports closed tasks. The lock is only held to set fields; every time is a parameter.

What is kept apart, and why:

* ``held``: active tasks that the stream thread has been given by events so far; ``closing``: those it was asked to give
  up and has not reported closed. Both together are what the brokers are told we own, so nobody else is given any of it.
  An answer that takes a task away is acknowledged by the heartbeat after it was closed.
* Who fell out joins again only after ``take`` has handed out the ``Lost``: so no new epoch is lent to old tasks.
* ``life``: an answer to a heartbeat of an earlier life of the member means nothing.
* Brokers take a heartbeat whose epoch is the one before the last only if it says what the member owns. So after every
  heartbeat without an answer the lists are sent again.

Sources: ``StreamsMembershipManager``, ``StreamsGroupHeartbeatRequestManager``,
``StreamThread.handleStreamsRebalanceData`` (4.4).
"""

from __future__ import annotations

import base64
import logging
import threading
import uuid
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from headrace.assignment import RUNNING_OFFSET
from headrace.errors import KafkaException, MissingSourceTopicException, TopologyException
from headrace.kafka.membership import (
    Assigned,
    Lost,
    MembershipEvent,
    Revoked,
    ShutdownRequested,
    TaskOffsets,
)
from headrace.kafka.streams_protocol import JOIN_EPOCH, LEAVE_EPOCH, Heartbeat, HeartbeatAnswer, Status, TaskSets
from headrace.kafka.streams_refusals import creation_denied, describe_status, refusal, takes_the_instance_id
from headrace.records import GroupIdentity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from headrace.kafka.streams_protocol import MemberDescription
    from headrace.records import HostInfo, HostPartitions, TaskId, TopicPartition

log = logging.getLogger(__name__)

_DELAYED_S = 0.5
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 1.0
_NOT_READY = frozenset(
    {
        Status.MISSING_SOURCE_TOPICS,
        Status.INCORRECTLY_PARTITIONED_TOPICS,
        Status.MISSING_INTERNAL_TOPICS,
        Status.ASSIGNMENT_DELAYED,
    }
)
"""With one of these a group gives out no tasks."""
_LEVELS: Mapping[int, int] = {
    Status.MISSING_INTERNAL_TOPICS: logging.INFO,
    Status.ASSIGNMENT_DELAYED: logging.INFO,
}
"""Of what is said of them in the log; that of the others is a warning."""
_TRY_AGAIN = frozenset({14, 15, 16})
"""Numbers of COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR."""
_UNKNOWN_SERVER_ERROR = -1
_UNKNOWN_ERRORS_S = 30.0
"""How long a broker may fail by itself. One of 4.4 does for a member with a host while a source topic is missing."""
_MISSING_S = 2.0
"""How long source topics are missing at least before that is an error."""
_FELL_OUT = {25: "UNKNOWN_MEMBER_ID", 110: "FENCED_MEMBER_EPOCH"}
_GROUP_ID_NOT_FOUND = 69
"""To a member it means that its group was deleted (a reset); to one that joins, that the group is of another kind."""


class Phase(Enum):
    """Where a member is in its life."""

    OUT = "out"
    """Not in the group, and not on the way there: not started, left, or failed."""
    FELL_OUT = "fell out"
    """Not in the group; joins once the stream thread knows."""
    JOINING = "joining"
    """The next heartbeat joins."""
    MEMBER = "member"
    """It has an epoch."""


class Sent(NamedTuple):
    """A heartbeat on its way, and the life of the member that it is of."""

    heartbeat: Heartbeat
    life: int


class StreamsMember:
    """See the module.

    Args:
        description: What it tells the brokers when it joins.
        max_poll_interval_s: Without a sign of life of the stream thread for so long, it leaves.
        partitions: Source partitions of a task.
        offsets: How far this process's copies of tasks are.
        end_offsets: How far their changelogs are.
        member_id: Of a dead member whose place this one takes; None for one of its own.
    """

    def __init__(
        self,
        description: MemberDescription,
        max_poll_interval_s: float,
        partitions: Callable[[TaskId], Iterable[TopicPartition]],
        offsets: TaskOffsets,
        end_offsets: TaskOffsets,
        member_id: str | None = None,
    ) -> None:
        self.description = description
        # as Java's members call themselves
        self.member_id = member_id or base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._max_poll_interval_s = max_poll_interval_s
        self._partitions = partitions
        self._offsets = offsets
        self._end_offsets = end_offsets
        self._lock = threading.Lock()
        self._phase = Phase.OUT
        self._life = 0
        self._epoch = JOIN_EPOCH
        self._events: list[MembershipEvent] = []
        self._failure: KafkaException | None = None
        self._held = TaskSets()
        self._closing: frozenset[TaskId] = frozenset()
        self._reported: TaskSets | None = None
        self._ready = False
        self._statuses: tuple[tuple[int, str], ...] = ()
        self._missing_since: float | None = None
        self._hosts: Mapping[HostInfo, HostPartitions] = {}
        self._endpoint_epoch = -1
        self._shutdown_asked = self._shutdown_told = False
        self._interval_s = 5.0
        self._offset_interval_s = 60.0
        self._acceptable_lag = -1
        self._reported_offsets: tuple[Mapping[TaskId, int], Mapping[TaskId, int]] | None = None
        self._offsets_at = 0.0
        self._pause_s = _FIRST_PAUSE_S
        self._next_at = 0.0
        self._last_poll = 0.0
        self._retrying = False
        self._failing_since: float | None = None
        self._in_flight = False
        self.description_wanted = False
        """The brokers have asked for the topology's description. The IO thread's own."""

    # The stream thread's side.

    def join(self, now_s: float) -> None:
        """Begin to join."""
        with self._lock:
            self._last_poll = now_s
            if self._phase in (Phase.OUT, Phase.FELL_OUT) and self._failure is None:
                self._begin(now_s)

    def take(self, now_s: float) -> tuple[list[MembershipEvent], KafkaException | None, bool]:
        """The events since the last call, the final failure if there is one, and whether it begins to join again."""
        with self._lock:
            self._last_poll = now_s
            events, self._events = self._events, []
            joins = self._phase is Phase.FELL_OUT and self._failure is None
            if joins:
                self._begin(now_s)
            return events, self._failure, joins

    def note_poll(self, now_s: float) -> None:
        """The stream thread is alive."""
        with self._lock:
            self._last_poll = now_s

    def identity(self) -> GroupIdentity | None:
        """Who may commit; None if nobody."""
        with self._lock:
            if self._phase is not Phase.MEMBER or self._failure is not None:
                return None
            return GroupIdentity(self.description.group_id, self._epoch, self.member_id, self.description.instance_id)

    def in_doubt(self) -> bool:
        """A heartbeat is on its way: the brokers may have a newer epoch than this member."""
        with self._lock:
            return self._in_flight and self._phase is Phase.MEMBER

    def owned(self) -> frozenset[TaskId]:
        """Active tasks that the brokers are told of."""
        with self._lock:
            return self._held.active | self._closing

    def closed(self, tasks: frozenset[TaskId]) -> bool:
        """Take these off what is being closed; True if they were the last."""
        with self._lock:
            if not self._closing:
                return False
            self._closing -= tasks
            return not self._closing

    def hurry(self, now_s: float) -> None:
        """Send the next heartbeat without waiting for its time."""
        with self._lock:
            self._next_at = min(self._next_at, now_s)

    def ask_shutdown(self, now_s: float) -> None:
        """Ask that the whole application ends, with the next heartbeat."""
        with self._lock:
            self._shutdown_asked = True
            self._next_at = min(self._next_at, now_s)

    def leave(self, reason: str, *, rejoin: bool) -> bool:
        """Stop being a member. Returns whether the brokers may know it as one.

        Args:
            reason: For the ``Lost`` that follows if it had tasks.
            rejoin: Join again after the next ``take``.
        """
        with self._lock:
            known = self._phase in (Phase.JOINING, Phase.MEMBER)
            self._fall_out(reason)
            self._phase = Phase.FELL_OUT if rejoin else Phase.OUT
            return known

    # The IO thread's side.

    def wait_s(self, now_s: float) -> float | None:
        """Seconds until there is something to do, 0 for now, None for never (until it is woken)."""
        with self._lock:
            if self._phase not in (Phase.JOINING, Phase.MEMBER) or self._failure is not None:
                return None
            due = self._next_at
            if not self._retrying and not self._closing and self._owned() != self._reported:
                due = now_s
            return max(0.0, min(due, self._last_poll + self._max_poll_interval_s) - now_s)

    def expired(self, now_s: float) -> Heartbeat | None:
        """The heartbeat to leave with, because the stream thread gives no sign of life; None if it does."""
        with self._lock:
            silent_s = now_s - self._last_poll
            if self._phase not in (Phase.JOINING, Phase.MEMBER) or silent_s <= self._max_poll_interval_s:
                return None
            log.warning(
                "group %s: no sign of life of the stream thread for %.0f s (max.poll.interval.ms): leaving the group",
                self.description.group_id,
                silent_s,
            )
            self._fall_out(f"the stream thread gave no sign of life for {silent_s:.0f} s (max.poll.interval.ms)")
            return Heartbeat(self.member_id, LEAVE_EPOCH)

    def next_heartbeat(self, now_s: float) -> Sent | None:
        """The heartbeat to send now; None if nothing is due."""
        offsets = self._offsets_now(), dict(self._end_offsets())
        with self._lock:
            if self._phase not in (Phase.JOINING, Phase.MEMBER) or self._failure is not None:
                return None
            self._in_flight = True
            self._next_at = now_s + self._interval_s
            owned = self._owned()
            tasks = owned if owned != self._reported else None
            self._reported = owned
            due = tasks is not None or now_s - self._offsets_at >= self._offset_interval_s or self._caught_up(*offsets)
            changed: tuple[Mapping[TaskId, int] | None, Mapping[TaskId, int] | None] = None, None
            if due and offsets != self._reported_offsets:
                changed = self._reported_offsets = offsets
                self._offsets_at = now_s
            heartbeat = Heartbeat(
                self.member_id,
                self._epoch,
                self._endpoint_epoch,
                tasks,
                offsets=changed[0],
                end_offsets=changed[1],
                shutdown=self._shutdown_asked,
            )
            return Sent(heartbeat, self._life)

    def unanswered(self, sent: Sent, now_s: float) -> None:
        """No answer, or one that says to try again."""
        with self._lock:
            self._in_flight = False
            if sent.life == self._life:
                self._again(now_s)

    def failed(self, error: KafkaException) -> None:
        """This member is of no more use: what it failed with comes after its events."""
        with self._lock:
            self._fail(error)

    def answered(self, sent: Sent, answer: HeartbeatAnswer, now_s: float) -> None:
        """Act on an answer."""
        with self._lock:
            self._in_flight = False
            if sent.life != self._life:
                return
            if answer.error_code:
                self._refused(answer, now_s)
                return
            self._retrying = False
            self._failing_since = None
            self._pause_s = _FIRST_PAUSE_S
            if answer.epoch < JOIN_EPOCH:
                return
            if self._phase is Phase.JOINING:
                log.info("group %s: joined as %s", self.description.group_id, self.member_id)
            self._phase = Phase.MEMBER
            self._epoch = answer.epoch
            self._interval_s = answer.interval_ms / 1000
            self._offset_interval_s = answer.offset_interval_ms / 1000
            self._acceptable_lag = answer.acceptable_lag
            self._next_at = min(self._next_at, now_s + self._interval_s)
            if sent.heartbeat.shutdown:
                self._shutdown_asked = False
            self.description_wanted = answer.description_wanted
            self._take_in(answer, now_s)
            if any(code == Status.ASSIGNMENT_DELAYED for code, _ in self._statuses):
                # the brokers assign a second or so later, and a heartbeat's interval is long beside that
                self._next_at = min(self._next_at, now_s + _DELAYED_S)

    # Below, the lock is held.

    def _begin(self, now_s: float) -> None:
        self._phase = Phase.JOINING
        self._epoch = JOIN_EPOCH
        self._retrying = False
        self._reported = None
        self._endpoint_epoch = -1
        self._ready = False
        self._statuses = ()
        self._missing_since = None
        self._offsets_at = now_s - self._offset_interval_s
        self._reported_offsets = None
        self._next_at = now_s

    def _owned(self) -> TaskSets:
        return self._held._replace(active=self._held.active | self._closing)

    def _offsets_now(self) -> dict[TaskId, int]:
        return {task: offset for task, offset in self._offsets().items() if offset != RUNNING_OFFSET}

    def _caught_up(self, offsets: Mapping[TaskId, int], ends: Mapping[TaskId, int]) -> bool:
        """Whether a warm-up task is as far as it has to be to become active."""
        return any(
            task in offsets and task in ends and ends[task] - offsets[task] <= self._acceptable_lag
            for task in self._held.warmup
        )

    def _again(self, now_s: float) -> None:
        self._retrying = True
        self._reported = None
        self._reported_offsets = None
        self._next_at = now_s + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)

    def _take_in(self, answer: HeartbeatAnswer, now_s: float) -> None:
        was_ready, hosts_before = self._ready, self._hosts
        if answer.statuses is not None:
            self._note_statuses(answer.statuses, now_s)
        self._endpoint_epoch = answer.endpoint_epoch
        if answer.hosts is not None:
            self._hosts = answer.hosts
        target, held = answer.tasks or self._held, self._held
        gone, added = held.active - target.active, target.active - held.active
        self._held = target
        if gone:
            self._closing |= gone
            self._events.append(Revoked(gone, self._partitions_of(gone)))
        changed = added or target.followed != held.followed
        if changed or (self._ready and (gone or not was_ready or self._hosts != hosts_before)):
            self._events.append(
                Assigned(added, self._partitions_of(added), target.active, target.followed, self._hosts, self._epoch)
            )

    def _note_statuses(self, statuses: tuple[tuple[int, str], ...], now_s: float) -> None:
        codes = {code for code, _ in statuses}
        if statuses != self._statuses:
            for code, text in statuses:
                level = _LEVELS.get(code, logging.WARNING)
                log.log(level, "group %s: %s", self.description.group_id, describe_status(code, text))
        self._statuses = statuses
        self._ready = not codes & _NOT_READY
        texts = dict(statuses)
        if Status.SHUTDOWN_APPLICATION in codes and not self._shutdown_told:
            self._shutdown_told = True
            self._events.append(ShutdownRequested(texts[Status.SHUTDOWN_APPLICATION]))
        denied = creation_denied(self.description.group_id, texts.get(Status.MISSING_INTERNAL_TOPICS, ""))
        if denied is not None:
            self._fail(denied)
        if Status.INCORRECTLY_PARTITIONED_TOPICS in codes:
            code = Status.INCORRECTLY_PARTITIONED_TOPICS
            self._fail(TopologyException(describe_status(code, texts[code])))
        if Status.MISSING_SOURCE_TOPICS not in codes:
            self._missing_since = None
            return
        self._missing_since = now_s if self._missing_since is None else self._missing_since
        # a topic may just be being made; Java waits for two intervals, but a broker may be slower than short ones
        if now_s - self._missing_since >= max(2 * self._interval_s, _MISSING_S):
            code = Status.MISSING_SOURCE_TOPICS
            self._fail(
                MissingSourceTopicException(f"group {self.description.group_id}: {describe_status(code, texts[code])}")
            )

    def _refused(self, answer: HeartbeatAnswer, now_s: float) -> None:
        code, text = answer.error_code, answer.error_text
        if code in _TRY_AGAIN or (code == _UNKNOWN_SERVER_ERROR and self._may_pass(now_s)):
            self._again(now_s)
        elif code == _GROUP_ID_NOT_FOUND and self._phase is Phase.MEMBER:
            self._fall_out("the group was deleted (a reset)")
        elif code in _FELL_OUT:
            self._fall_out(f"the group no longer has this member ({_FELL_OUT[code]}: {text})")
        else:
            if takes_the_instance_id(code):
                self._fall_out("another member took over this group.instance.id")
            about, topics = (
                self.description,
                [topic for sub in self.description.topology for topic in sub.source_topics],
            )
            self._fail(refusal(about.group_id, about.instance_id, code, text, topics))

    def _may_pass(self, now_s: float) -> bool:
        if self._failing_since is None:
            self._failing_since = now_s
        return now_s - self._failing_since < _UNKNOWN_ERRORS_S

    def _fall_out(self, reason: str) -> None:
        # Events not handed out yet never will be. Those of this life are covered by what is held; an older Lost among
        # them is of an earlier one, whose tasks the stream thread may still run.
        earlier = [event for event in self._events if isinstance(event, Lost)]
        shutdown = [event for event in self._events if isinstance(event, ShutdownRequested)]
        if self._phase is Phase.MEMBER or earlier:
            tasks = self._held.active.union(self._closing, *(event.tasks for event in earlier))
            self._events = [Lost(tasks, self._partitions_of(tasks), reason), *shutdown]
        self._life += 1
        self._phase = Phase.FELL_OUT
        self._epoch = JOIN_EPOCH
        self._held = TaskSets()
        self._closing = frozenset()
        self._in_flight = False

    def _fail(self, error: KafkaException) -> None:
        if self._failure is None:
            self._failure = error

    def _partitions_of(self, tasks: Iterable[TaskId]) -> frozenset[TopicPartition]:
        return frozenset(tp for task in tasks for tp in self._partitions(task))
