"""What runs where. Sources: ``org.apache.kafka.streams.{ThreadMetadata,TaskMetadata}`` (4.4)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.records import TaskId, TopicPartition


@dataclass(frozen=True, slots=True)
class TaskMetadata:
    """One task of a thread.

    Attributes:
        task_id: Which.
        topic_partitions: The input partitions; of a standby task, those that the active one reads.
        committed_offsets: By input partition the last committed offset, -1 where there is none; of an active task.
        end_offsets: By input partition the greatest offset that has come from it, -1 before the first; likewise.
        time_current_idling_started: Since when (epoch ms) the task has had nothing to do, or has waited for records of
            a partition; None while it is busy.
    """

    task_id: TaskId
    topic_partitions: frozenset[TopicPartition]
    committed_offsets: Mapping[TopicPartition, int] = field(default_factory=dict["TopicPartition", int], hash=False)
    end_offsets: Mapping[TopicPartition, int] = field(default_factory=dict["TopicPartition", int], hash=False)
    time_current_idling_started: int | None = None


@dataclass(frozen=True, slots=True)
class ThreadMetadata:
    """One stream thread.

    Attributes:
        thread_name: Its name.
        thread_state: Its state, such as ``RUNNING``.
        active_tasks: Tasks that it runs or restores.
        standby_tasks: Tasks whose state it keeps a copy of.
        main_consumer_client_id: ``client.id`` of the consumer that reads the input.
        restore_consumer_client_id: Of the one that reads changelogs.
        producer_client_ids: Of its producer.
        admin_client_id: Of its admin client.
    """

    thread_name: str
    thread_state: str
    active_tasks: frozenset[TaskMetadata]
    standby_tasks: frozenset[TaskMetadata]
    main_consumer_client_id: str
    restore_consumer_client_id: str
    producer_client_ids: frozenset[str]
    admin_client_id: str
