"""Membership in a group: who this member is, which tasks it is given, which it has to give up.

One protocol with a body per group protocol. Everything is called by one thread, the stream thread, which calls ``poll``
in every round; joins, heartbeats and rebalances go on in the background and never stop it.

What the stream thread owes the membership:

* it handles the events of one ``poll`` in their order before it commits anything;
* after a ``Revoked`` it commits and closes those tasks, then calls ``revoked`` with them: only then does the group give
  them to others (and the membership joins again by itself);
* after a ``Lost`` it closes every task without committing; standby tasks, which disturb nobody, may go on;
* after a ``ShutdownRequested`` the whole client closes: another member had an error that no instance can survive;
* it calls ``poll`` (or ``note_poll``, when it has no time for events) at least every ``max.poll.interval.ms``, or the
  member leaves and all is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from headrace.records import TaskId

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from headrace.records import GroupIdentity, HostInfo, HostPartitions, OffsetAndMetadata, TopicPartition

TaskOffsets: TypeAlias = Callable[[], Mapping[TaskId, int]]
"""How far this process's copies of the tasks' state are: by task the sum of the next changelog offsets of its stores,
or ``assignment.RUNNING_OFFSET``. Of every thread of the process, and of task directories that nobody has open. A task
without state here is not in it. Called on whatever thread the membership likes: it must not block."""


class Assigned(NamedTuple):
    """A rebalance ended. Comes after each one, also when nothing was added.

    Attributes:
        tasks: newly given; start them.
        partitions: newly given source partitions, those of ``tasks``.
        all_tasks: every active task that is this member's now, tasks being revoked not included.
        standbys: every standby and warm-up task that is this member's now: start those that are new, close others.
        hosts: which partitions every instance with an ``application.server`` has, this one too.
        generation: of the group.
    """

    tasks: frozenset[TaskId]
    partitions: frozenset[TopicPartition]
    all_tasks: frozenset[TaskId]
    standbys: frozenset[TaskId]
    hosts: Mapping[HostInfo, HostPartitions]
    generation: int


class Revoked(NamedTuple):
    """Commit and close these tasks, then call ``Membership.revoked``. They are still this member's until then."""

    tasks: frozenset[TaskId]
    partitions: frozenset[TopicPartition]


class Lost(NamedTuple):
    """This member fell out of the group: others may run its tasks already. Close all, commit nothing.

    ``tasks`` and ``partitions`` are all that it had: those being revoked too, and those of an ``Assigned`` that was
    never handed out. It joins again by itself.
    """

    tasks: frozenset[TaskId]
    partitions: frozenset[TopicPartition]
    reason: str


class ShutdownRequested(NamedTuple):
    """A member, perhaps this one, has asked that every instance of the application ends."""

    reason: str


MembershipEvent: TypeAlias = Assigned | Revoked | Lost | ShutdownRequested


class Membership(Protocol):
    """See the module. Not thread-safe: one thread calls it."""

    def start(self) -> None:
        """Begin to join; after ``leave`` begin anew.

        Raises:
            TimeoutException: no broker reached.
            AuthorizationException: the brokers refused the connection.
        """
        ...

    def poll(self, now_ms: int) -> list[MembershipEvent]:
        """What happened since the last call, in order; never blocks. Counts as ``note_poll``.

        Args:
            now_ms: the caller's clock, in ms; only differences matter.

        Raises:
            FencedInstanceIdException: another member uses this ``group.instance.id``.
            AuthorizationException: Read on the group is missing.
            StreamsException: the group cannot be joined; the message says why.
        """
        ...

    def note_poll(self) -> None:
        """Say that the stream thread is alive, as ``poll`` does."""
        ...

    def identity(self) -> GroupIdentity:
        """Who this member is, for committing the offsets of tasks it owns. Valid also during a rebalance.

        Raises:
            TaskMigratedException: it is no member now, or has a ``Lost`` that ``poll`` has not handed out.
        """
        ...

    def generation_in_doubt(self) -> bool:
        """Whether a JoinGroup is unanswered, so that the brokers may have a newer generation than ``identity``.

        A transaction committed just then can fail by ``ILLEGAL_GENERATION`` though nothing is lost but the work since
        the last commit: better commit a little later. It lasts until every member has joined, usually one heartbeat
        interval, at most ``max.poll.interval.ms``; wait no longer than the transaction may stay open.
        """
        ...

    def member_id(self) -> str | None:
        """What the brokers know this member by, also while it joins for the first time; None before that."""
        ...

    def take_over(self, member_ids: Collection[str]) -> bool:
        """Make members that a dead process left behind leave, so that nobody waits for their sessions to run out.

        They leave only when this member is in the group: a group without members would make the next one wait for the
        brokers' initial delay.

        Args:
            member_ids: theirs; those that are gone already are passed over.

        Returns:
            Whether it is done; False when this member is not there yet, or nobody answered: call again.
        """
        ...

    def owned(self) -> frozenset[TaskId]:
        """The tasks that this member tells the group it owns, those being revoked included."""
        ...

    def revoked(self, tasks: Iterable[TaskId]) -> None:
        """These tasks of a ``Revoked`` are closed; when all are, the member joins again so that others get them."""
        ...

    def request_rejoin(self, reason: str) -> None:
        """Start a rebalance at the next ``poll``; tasks go on meanwhile."""
        ...

    def rejoin_anew(self, reason: str) -> None:
        """Leave and join as a new member, after a ``TaskMigratedException`` that the membership did not raise.

        The next ``poll`` gives ``Lost``. Waits for the brokers' answer, at most a few seconds.
        """
        ...

    def shutdown_application(self) -> None:
        """Ask every instance of the application to end; goes out with the next ``poll`` calls.

        Each member, this one too, gets ``ShutdownRequested``. Call ``poll`` until it has come, then ``leave``.
        """
        ...

    def commit_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_s: float = 60.0) -> None:
        """Commit read positions as this member (at-least-once).

        Raises:
            TaskMigratedException: no member any more.
            TimeoutException: no answer within ``timeout_s`` seconds; may be called again.
        """
        ...

    def leave(self, reason: str) -> bool:
        """Leave the group now, static members too. ``identity`` is invalid from here on; ``start`` joins anew.

        Returns:
            Whether the brokers know that the member is gone; False when none answered, or when it never came so far as
            to be one: whose place it was to take (``former``) may be in the group still.
        """
        ...

    def close(self, leave_group: bool) -> bool:
        """Stop heartbeats and free the connections, leaving the group or letting the session run out.

        Returns:
            As ``leave``; False when the group is not left.
        """
        ...
