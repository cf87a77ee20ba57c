"""Watching state come and go: restores of active tasks, copies that follow, and how far behind stores are.

Sources: ``org.apache.kafka.streams.processor.{StateRestoreListener,StandbyUpdateListener}``, ``streams.LagInfo`` (4.4).
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from headrace.records import TaskId, TopicPartition


class StateRestoreListener:
    """Told of the restores of an instance's stores; subclass it and override what is of interest.

    Called on the threads that restore, several of them at a time. What it raises ends the stream thread.
    """

    def on_restore_start(
        self, topic_partition: TopicPartition, store_name: str, starting_offset: int, ending_offset: int
    ) -> None:
        """A store begins to be restored.

        Args:
            topic_partition: The changelog partition.
            store_name: The store.
            starting_offset: The first offset that is read.
            ending_offset: The offset after the last one.
        """

    def on_batch_restored(
        self, topic_partition: TopicPartition, store_name: str, batch_end_offset: int, num_restored: int
    ) -> None:
        """Records were taken in.

        Args:
            topic_partition: The changelog partition.
            store_name: The store.
            batch_end_offset: Offset of the last of them.
            num_restored: How many they were.
        """

    def on_restore_end(self, topic_partition: TopicPartition, store_name: str, total_restored: int) -> None:
        """A store is restored, by ``total_restored`` records."""

    def on_restore_suspended(self, topic_partition: TopicPartition, store_name: str, total_restored: int) -> None:
        """The task left, or its restore failed, before its store was restored, after ``total_restored`` records."""


class SuspendReason(Enum):
    """Why a standby task no longer follows."""

    MIGRATED = "MIGRATED"
    """It is kept elsewhere, or nowhere."""
    PROMOTED = "PROMOTED"
    """It has become the active task."""


class StandbyUpdateListener:
    """Told of the standby tasks of an instance; subclass it and override what is of interest.

    Called on the threads that read changelogs, several of them at a time. What it raises ends the stream thread.
    """

    def on_update_start(self, topic_partition: TopicPartition, store_name: str, starting_offset: int) -> None:
        """A store of a standby task begins to follow its changelog from an offset."""

    def on_batch_loaded(
        self,
        topic_partition: TopicPartition,
        store_name: str,
        task_id: TaskId,
        batch_end_offset: int,
        batch_size: int,
        current_end_offset: int,
    ) -> None:
        """Records were taken in.

        Args:
            topic_partition: The changelog partition.
            store_name: The store.
            task_id: The task.
            batch_end_offset: Offset of the last of them.
            batch_size: How many they were.
            current_end_offset: Where the changelog ended when they were fetched.
        """

    def on_update_suspended(
        self,
        topic_partition: TopicPartition,
        store_name: str,
        store_offset: int,
        current_end_offset: int,
        reason: SuspendReason,
    ) -> None:
        """A store no longer follows.

        Args:
            topic_partition: The changelog partition.
            store_name: The store.
            store_offset: The next offset that it would have read.
            current_end_offset: Where the changelog ended when it was last read, -1 if it never was.
            reason: Why.
        """


class LagInfo(NamedTuple):
    """How far a store partition is behind its changelog."""

    current_offset_position: int
    """The next offset that it reads; of an active task the end."""
    end_offset_position: int
    """The end of the changelog."""
    offset_lag: int
    """Records between the two, transaction markers counted."""
