"""The simulation can fail: with one rule of the product broken, some seed of those that are tested notices.

Each mutant takes one rule away. ``test_seeds`` runs the same seeds on the product as it is.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from headrace.assignment import availability
from headrace.engine.queues import PartitionQueue
from headrace.engine.task import StreamTask
from headrace.errors import TaskCorruptedException, TaskMigratedException
from headrace.kafka import classic, producer
from headrace.kafka.classic import ClassicMembership
from headrace.kafka.group_client import GroupConnection
from headrace.kafka.streams_member import StreamsMember
from headrace.records import GroupIdentity
from headrace.runtime import state_updater
from headrace.runtime.committer import Committer
from headrace.state.buffer import BufferedStore
from simulation.clients import Consumer, GroupAdmin, TopicAdmin
from simulation.run import SEEDS, simulate
from simulation.world import APPLICATION, Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Mutant = contextlib.AbstractContextManager[Any]


@contextlib.contextmanager
def a_member_that_is_none_commits_as_nobody() -> Iterator[None]:
    identity = ClassicMembership.identity

    def mutant(self: ClassicMembership) -> GroupIdentity:
        try:
            return identity(self)
        except TaskMigratedException:
            return GroupIdentity(APPLICATION, -1, "")

    with (
        patch.object(ClassicMembership, "identity", mutant),
        patch.object(producer, "_check_member", lambda group: None),
    ):
        yield


def a_restore_stops_at_the_last_stable_offset() -> Mutant:
    return patch.object(TopicAdmin, "_end", lambda self, log: log.stable)


def a_restore_ends_where_the_brokers_first_said() -> Mutant:
    return patch.object(state_updater, "_Changelog", functools.partial(state_updater._Changelog, confirmed=True))


def a_restore_does_not_wait_for_offsets_in_a_transaction() -> Mutant:
    offsets = GroupAdmin.offsets
    return patch.object(
        GroupAdmin,
        "offsets",
        lambda self, group_id, partitions, *, stable, timeout_s: offsets(
            self, group_id, partitions, stable=False, timeout_s=timeout_s
        ),
    )


def stores_are_written_before_the_commit() -> Mutant:
    prepare = StreamTask.prepare_commit

    def mutant(self: StreamTask, position: Any) -> Any:
        moved = prepare(self, position)
        for store in self.stores.values():
            store.rows.apply(None)
        return moved

    return patch.object(StreamTask, "prepare_commit", mutant)


def an_old_changelog_offset_is_written() -> Mutant:
    def mutant(self: BufferedStore, offset: int | None) -> None:
        self.body.write(list(self._sealed.rows.items()), offset)
        self._sealed = type(self._sealed)()

    return patch.object(BufferedStore, "apply", mutant)


def a_commit_of_unknown_outcome_counts_as_done() -> Mutant:
    commit = Committer._commit_transaction

    def mutant(self: Committer, offsets: Any) -> None:
        with contextlib.suppress(TaskCorruptedException):
            commit(self, offsets)

    return patch.object(Committer, "_commit_transaction", mutant)


def offsets_are_committed_beside_the_transaction() -> Mutant:
    commit = Committer._commit_transaction

    def mutant(self: Committer, offsets: Any) -> None:
        commit(self, {})
        if offsets:
            self._membership.commit_offsets(offsets, 10.0)

    return patch.object(Committer, "_commit_transaction", mutant)


def offsets_of_waiting_records_are_committed() -> Mutant:
    return patch.object(PartitionQueue, "head_offset", lambda self: None)


def aborted_records_are_read() -> Mutant:
    init = Consumer.__init__

    def mutant(self: Consumer, world: Any, process: Any, settings: Any) -> None:
        init(self, world, process, {**settings, "isolation.level": "read_uncommitted"})

    return patch.object(Consumer, "__init__", mutant)


def tasks_are_given_before_they_are_given_up() -> Mutant:
    return patch.object(availability, "cooperative", lambda target, claimants: target)


def a_wish_to_join_again_is_forgotten() -> Mutant:
    return patch.object(GroupConnection, "request_rejoin", lambda self: self._coordinator.request_rejoin())


def nobody_looks_again_whether_copies_have_caught_up() -> Mutant:
    joined = classic._Share.joined

    def mutant(self: Any, generation: int, assignment: Any) -> None:
        joined(self, generation, assignment)
        self._probe_after_ms = None

    return patch.object(classic._Share, "joined", mutant)


def a_new_epoch_is_lent_to_old_tasks() -> Mutant:
    fall_out = StreamsMember._fall_out

    def mutant(self: StreamsMember, reason: str) -> None:
        fall_out(self, reason)
        self._begin(self._last_poll)

    return patch.object(StreamsMember, "_fall_out", mutant)


def a_streams_member_says_that_tasks_are_closed_which_are_not() -> Mutant:
    return patch.object(StreamsMember, "_owned", lambda self: self._held)


def a_streams_member_repeats_only_what_has_changed() -> Mutant:
    def mutant(self: StreamsMember, now_s: float) -> None:
        self._retrying = True
        self._next_at = now_s + self._pause_s

    return patch.object(StreamsMember, "_again", mutant)


NOTICED_BY: dict[Callable[[], Mutant], tuple[int, ...]] = {
    a_member_that_is_none_commits_as_nobody: (12,),
    a_restore_stops_at_the_last_stable_offset: (11,),
    a_restore_ends_where_the_brokers_first_said: (11,),
    a_restore_does_not_wait_for_offsets_in_a_transaction: (61,),
    stores_are_written_before_the_commit: (1,),
    an_old_changelog_offset_is_written: (946,),
    a_commit_of_unknown_outcome_counts_as_done: (586,),
    offsets_are_committed_beside_the_transaction: (2,),
    offsets_of_waiting_records_are_committed: (11,),
    aborted_records_are_read: (1,),
    tasks_are_given_before_they_are_given_up: (1,),
    a_wish_to_join_again_is_forgotten: (671,),
    nobody_looks_again_whether_copies_have_caught_up: (17,),
    a_new_epoch_is_lent_to_old_tasks: (69,),
    a_streams_member_says_that_tasks_are_closed_which_are_not: (11,),
    a_streams_member_repeats_only_what_has_changed: (390,),
}
"""Seeds that do, to be tried first; another change of the product or of the world may make others do."""


def noticed(mutant: Callable[[], Mutant], seed: int) -> bool:
    """Whether something does not hold in this seed's schedule."""
    with mutant():
        try:
            simulate(seed)
        except Violation:
            return True
    return False


@pytest.mark.parametrize("mutant", NOTICED_BY, ids=lambda mutant: mutant.__name__)
def test_a_seed_notices_when(mutant: Callable[[], Mutant]) -> None:
    if any(noticed(mutant, seed) for seed in NOTICED_BY[mutant]):
        return
    found = next((seed for seed in range(SEEDS) if noticed(mutant, seed)), None)
    assert found is not None
    warnings.warn(f"{mutant.__name__}: seed {found} notices, those in NOTICED_BY no longer do", stacklevel=1)
