"""The open stores of one task, whoever feeds them: operators, or the changelog alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.naming import changelog_topic
from headrace.records import TopicPartition
from headrace.state.context import StoreContext

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from headrace.api.engine import ChangelogSend, RecordContext
    from headrace.api.stores import KeyValueBody
    from headrace.engine.serdes import TaskSerdes
    from headrace.engine.settings import EngineSettings
    from headrace.records import TaskId
    from headrace.state.base import StoreBase
    from headrace.state.builders import AnyStoreBuilder
    from headrace.state.cache import CacheBudget
    from headrace.topology.built import SubTopology


class TaskStores:
    """See the module.

    Attributes:
        by_name: Stores in registration order.
        changelogs: Those with a changelog, by the partition that they are restored from.
    """

    def __init__(
        self,
        sub: SubTopology,
        task_id: TaskId,
        settings: EngineSettings,
        serdes: TaskSerdes,
        record: RecordContext,
        store_path: Callable[[str], Path],
        *,
        budget: CacheBudget | None = None,
        drop: Callable[[str], None],
        logger: Callable[[str], ChangelogSend] | None,
        partitions: Collection[TopicPartition] | None = None,
        bodies: Mapping[str, KeyValueBody] | None = None,
    ) -> None:
        """Nothing is open before :meth:`open_all`.

        Args:
            sub: Whose stores.
            task_id: Sub-topology and partition.
            settings: The application's settings.
            serdes: Of the task.
            record: The task's record context.
            store_path: Directory of a store by its name.
            budget: The thread's cache memory, or None for no caching.
            drop: Counts one write as dropped for a reason.
            logger: Makes what writes a changelog topic; None: the stores follow their changelogs and write none, and
                those without a changelog are left out.
            partitions: The input partitions that exist; None for all.
            bodies: Open bodies by store name, taken over from a task that was here before.
        """
        self._sub = sub
        self._task_id = task_id
        self._settings = settings
        self._serdes = serdes
        self._record = record
        self._store_path = store_path
        self._budget = budget
        self._drop = drop
        self._logger = logger
        self._partitions = partitions
        self._bodies = dict(bodies or {})
        self.by_name: dict[str, StoreBase[Any, Any]] = {}
        self.changelogs: dict[TopicPartition, StoreBase[Any, Any]] = {}

    def open_all(self) -> None:
        """Open every store. After an error :meth:`close` closes what is open.

        Raises:
            TopologyException, ProcessorStateException: A store cannot be opened.
        """
        for builder in self._sub.stores:
            if self._logger is not None or builder.name in self._sub.store_changelogs:
                self._open(builder)
        self._close_unused()

    def close(self) -> None:
        """Close all. The first error is raised after all have been tried."""
        first: Exception | None = None
        for store in self.by_name.values():
            try:
                store.close()
            except Exception as e:
                first = first or e
        self._close_unused()
        if first is not None:
            raise first

    def detach(self) -> dict[str, KeyValueBody]:
        """End the stores and give their bodies, which stay open, with committed rows only."""
        return {name: store.detach() for name, store in self.by_name.items()}

    def _close_unused(self) -> None:
        while self._bodies:
            self._bodies.popitem()[1].close()

    def _open(self, builder: AnyStoreBuilder) -> None:
        name = builder.name
        changelog = self._sub.store_changelogs.get(name)
        log: ChangelogSend | None = None
        if self._logger is not None and changelog is not None and changelog not in self._sub.source_changelogs:
            log = self._logger(changelog)
        key_serde, value_serde = self._serdes.of_store(builder)
        store = builder.build(
            StoreContext(
                serde_topic=changelog or changelog_topic(self._settings.application_id, name),
                path=self._store_path(name),
                log=log,
                key_serde=key_serde,
                value_serde=value_serde,
                record=self._record,
                budget=self._budget,
                drop=self._drop,
                place=self._serdes.place_of(name),
                body=self._bodies.get(name),
            )
        )
        self._bodies.pop(name, None)
        self.by_name[name] = store
        if changelog is not None:
            partition = TopicPartition(changelog, self._task_id.partition)
            is_input = changelog in self._sub.source_changelogs
            # an input topic may have fewer partitions than others of the sub-topology: nothing to restore from then
            if not is_input or self._partitions is None or partition in self._partitions:
                self.changelogs[partition] = store
