"""What a task's changelogs are on the brokers: their ends, and whether a local store is of them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, Protocol

from headrace.assignment import Places
from headrace.records import TaskId, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.kafka import TopicAdmin
    from headrace.state.base import StoreBase
    from headrace.topology.copartition import Plan

_log = logging.getLogger(__name__)

_DOUBT_S: Final = 2.0


class Restorable(Protocol):
    """A task whose stores are fed from changelogs: active before it runs, or standby."""

    id: TaskId

    @property
    def changelogs(self) -> Mapping[TopicPartition, StoreBase[Any, Any]]:
        """Stores by changelog partition."""
        ...


def check_origins(task: Restorable, topic_ids: Mapping[str, str]) -> None:
    """Drop stores whose changelog topic was deleted and made anew (a reset): what it holds is not theirs."""
    for tp, store in task.changelogs.items():
        topic_id, known = topic_ids.get(tp.topic), store.rows.body.origin()
        if topic_id is None or known == topic_id:
            continue
        if known is not None:
            _log.warning(
                "task %s: the changelog topic of store %s was deleted and made anew (a reset): the local rows are "
                "dropped and restored from the new one",
                task.id,
                store.name,
            )
            store.clear()
        store.rows.body.remember_origin(topic_id)


def fits(store: StoreBase[Any, Any], start: int, end: int) -> bool:
    """Whether what a store reflects lies within its changelog; one that reflects nothing does."""
    known = store.rows.body.offset()
    return known is None or start <= known <= end


class Doubt:
    """How long a log that does not fit its store is asked about again, before the store is given up.

    A broker that has lost its leadership without knowing (it was frozen, or cut off) answers with an old end.
    """

    def __init__(self) -> None:
        self._since: float | None = None

    def lasts(self, now_s: float, *, fit: bool) -> bool:
        """Whether to ask again, after a look that found log and store to fit or not; times are of one clock."""
        if fit:
            self._since = None
            return False
        if self._since is None:
            self._since = now_s
        return now_s - self._since < _DOUBT_S


def offset_sum(task: Restorable, *, persistent_only: bool = False) -> int:
    """The sum of the next changelog offsets of a task's stores. May be called from any thread."""
    return sum(
        store.rows.body.offset() or 0 for store in task.changelogs.values() if store.persistent or not persistent_only
    )


def stateful_tasks(plan: Plan) -> frozenset[TaskId]:
    """Tasks with a store that has a changelog."""
    with_state = {sub.id for sub in plan.built.subtopologies if sub.store_changelogs}
    return frozenset(task_id for task_id in plan.tasks if task_id.subtopology in with_state)


def changelog_partitions(plan: Plan, task_ids: Iterable[TaskId]) -> dict[TaskId, list[TopicPartition]]:
    """The changelog partitions of tasks, those that are input too included."""
    subtopologies = {sub.id: sub for sub in plan.built.subtopologies}
    return {
        task_id: [
            TopicPartition(topic, task_id.partition)
            for topic in sorted(subtopologies[task_id.subtopology].changelog_topics)
            if task_id.partition < plan.partition_counts[topic]
        ]
        for task_id in task_ids
    }


def changelog_ends(
    admin: TopicAdmin, plan: Plan, group_id: str, task_ids: Iterable[TaskId]
) -> dict[TopicPartition, int]:
    """Up to where changelogs of tasks can be restored: their ends, of an input topic what is committed.

    Raises:
        KafkaException: The brokers do not answer, or refuse.
    """
    input_too = {topic for sub in plan.built.subtopologies for topic in sub.source_changelogs}
    partitions = [tp for tps in changelog_partitions(plan, task_ids).values() for tp in tps]
    ends = admin.list_offsets([tp for tp in partitions if tp.topic not in input_too], "latest")
    of_inputs = [tp for tp in partitions if tp.topic in input_too]
    return ends | {tp: max(offset, 0) for tp, offset in admin.committed(group_id, of_inputs).items()}


def places(admin: TopicAdmin, plan: Plan) -> Places:
    """In which racks the topics are that tasks read, and their changelogs. Raises as :func:`changelog_ends`."""
    changelogs = changelog_partitions(plan, stateful_tasks(plan))
    topics = {tp.topic for tps in (*plan.tasks.values(), *changelogs.values()) for tp in tps}
    return Places(admin.partition_racks(topics), changelogs)


def end_sums(admin: TopicAdmin, plan: Plan, group_id: str) -> dict[TaskId, int]:
    """By task with state the sum of its changelogs' ends. Raises as :func:`changelog_ends`."""
    by_task = changelog_partitions(plan, stateful_tasks(plan))
    ends = changelog_ends(admin, plan, group_id, by_task)
    return {task_id: sum(ends[tp] for tp in partitions) for task_id, partitions in by_task.items()}
