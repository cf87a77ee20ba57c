"""A standby task: the stores of a task that runs elsewhere, kept up by its changelogs. No operator is bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.api.engine import RecordContext
from headrace.engine.serdes import TaskSerdes
from headrace.engine.stores import TaskStores

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from headrace.api.stores import KeyValueBody
    from headrace.engine.settings import EngineSettings
    from headrace.records import RawRecord, TaskId, TopicPartition
    from headrace.state.base import StoreBase
    from headrace.topology.built import SubTopology


class StandbyTask:
    """See the module. Used by one thread at a time.

    Attributes:
        id: Sub-topology and partition.
        ends: Where the log of each changelog ended when last looked at; to be read from any thread.
    """

    def __init__(
        self,
        sub: SubTopology,
        task_id: TaskId,
        settings: EngineSettings,
        store_path: Callable[[str], Path],
        partitions: Collection[TopicPartition],
        bodies: Mapping[str, KeyValueBody] | None = None,
    ) -> None:
        """Open the stores.

        Args:
            sub: Whose stores.
            task_id: Sub-topology and partition.
            settings: The application's settings.
            store_path: Directory of a store by its name.
            partitions: The task's input partitions.
            bodies: Open bodies by store name, taken over from the active task that was here before.

        Raises:
            TopologyException, ProcessorStateException: A store cannot be opened.
        """
        self.id = task_id
        self.ends: dict[TopicPartition, int] = {}
        self._stores = TaskStores(
            sub,
            task_id,
            settings,
            TaskSerdes(sub, settings),
            RecordContext(),
            store_path,
            drop=_nothing,
            logger=None,
            partitions=partitions,
            bodies=bodies,
        )
        try:
            self._stores.open_all()
        except BaseException:
            self._stores.close()
            raise
        self.source_changelogs = frozenset(tp for tp in self._stores.changelogs if tp.topic in sub.source_changelogs)

    @property
    def stores(self) -> Mapping[str, StoreBase[Any, Any]]:
        """Stores by name."""
        return self._stores.by_name

    @property
    def changelogs(self) -> Mapping[TopicPartition, StoreBase[Any, Any]]:
        """Stores by the changelog partition that they follow."""
        return self._stores.changelogs

    def restore(self, changelog: TopicPartition, records: list[RawRecord], offset: int) -> None:
        """Take in committed records of a changelog partition, in order, and ``offset``, the next one to read."""
        self._stores.changelogs[changelog].restore(records, offset)

    def detach(self) -> dict[str, KeyValueBody]:
        """End the task and give its open bodies by store name, for the active task that takes its place."""
        return self._stores.detach()

    def close(self) -> None:
        """Close the stores. Closing twice does nothing."""
        self._stores.close()


def _nothing(reason: str) -> None:
    """A record that does not count was counted where the active task runs."""
