"""The stores that every instance holds whole, and how they follow their topics.

One task for all of them: it reads every partition of their topics, belongs to no group, writes nothing but its stores
and commits no offsets anywhere. Source: ``processor.internals.{GlobalStateUpdateTask,GlobalStateManagerImpl}`` (4.4).
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from headrace.api.engine import NEVER
from headrace.api.timestamps import FailOnInvalidTimestamp
from headrace.engine.binding import BoundTask
from headrace.errors import IllegalStateException
from headrace.records import TaskId, TopicPartition
from headrace.state.readonly import ReadOnlyStore
from headrace.topology.built import SourceSpec

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from headrace.api.engine import ChangelogSend, Send
    from headrace.engine.settings import EngineSettings
    from headrace.errors import TimeoutException
    from headrace.records import RawRecord
    from headrace.state.base import StoreBase
    from headrace.topology.built import GlobalStores

_RUN = 100


class GlobalTask:
    """See the module. Used by one thread; others read :attr:`views`.

    Attributes:
        views: The stores by name, to be read by every processor of the application.
    """

    def __init__(
        self,
        stores: GlobalStores,
        settings: EngineSettings,
        store_path: Callable[[str], Path],
        partition_counts: Mapping[str, int],
        guard: AbstractContextManager[object] | None = None,
    ) -> None:
        """Open the stores and bind their processors.

        Args:
            stores: What to keep.
            settings: The application's settings.
            store_path: Directory of a store by its name.
            partition_counts: Partitions of the stores' topics.
            guard: Held while the stores change and while one of the views is read; none in a single thread.
        """
        self._guard = guard or nullcontext()
        # as in Java the extractors are not asked: there is no stream time to follow
        specs = (
            replace(spec, timestamp_extractor=FailOnInvalidTimestamp()) if isinstance(spec, SourceSpec) else spec
            for spec in stores.part.nodes
        )
        self.partitions = tuple(
            TopicPartition(topic, partition)
            for topic in sorted(stores.part.source_topics)
            for partition in range(partition_counts[topic])
        )
        self._bound = BoundTask(
            replace(stores.part, nodes=tuple(specs)),
            TaskId(-1, -1),
            replace(settings, processing_handler=settings.global_processing_handler),
            _Nowhere(),
            None,
            store_path,
            self.partitions,
        )
        self._copies = {
            topic: self._bound.stores[name] for name, topic in stores.topics.items() if name not in stores.reprocessed
        }
        self.views: Mapping[str, ReadOnlyStore] = MappingProxyType(
            {name: ReadOnlyStore(store, self._guard) for name, store in self._bound.stores.items()}
        )
        try:
            self._bound.initialize()
        except BaseException:
            self._bound.close()
            raise

    @property
    def stores(self) -> Mapping[str, StoreBase[Any, Any]]:
        """The stores themselves."""
        return self._bound.stores

    @property
    def dropped(self) -> Counter[str]:
        """Records dropped so far, by reason."""
        return self._bound.metrics.dropped

    def restore(self, partition: TopicPartition, records: list[RawRecord]) -> None:
        """Take in records that were there before the start: as they are, or by the processor where one was given."""
        copy = self._copies.get(partition.topic)
        if copy is None:
            self.process(partition, records)
            return
        copy.restore(records, None)

    def process(self, partition: TopicPartition, records: list[RawRecord]) -> None:
        """Take in new records of one partition.

        Raises:
            TimeoutException: A record cannot be decoded yet. It waits with what is behind it: the next call goes on
                with it, and may bring no record.
            StreamsException: What a processor failed with, or a record that does not decode when the handler fails.
        """
        bound = self._bound
        queue = bound.queues[partition]
        queue.add(records)
        unready: TimeoutException | None = None
        while queue.size and unready is None:
            # the tasks that read the stores come in between: a processor may be slow
            with self._guard:
                try:
                    queue.run(NEVER, _RUN)
                    if bound.failures.failure is not None:
                        raise bound.failures.failure
                    unready = bound.failures.unready
                except Exception as e:
                    raise bound.failures.fail_here(e)  # noqa: B904  # it is the same error, or has it as its cause
                for store in bound.stores.values():
                    store.seal()
                    store.rows.apply(None)
        bound.failures.unready = None
        if unready is not None:
            raise unready

    def close(self) -> None:
        """Close the processors and stores."""
        self._bound.close()


class _Nowhere:
    """Nothing is written by what keeps a global store."""

    def sender(self, topic: str) -> Send:
        self._refuse(topic)

    def changelog_sender(self, topic: str, partition: int) -> ChangelogSend:
        self._refuse(topic)

    def partition_count(self, topic: str) -> int:
        self._refuse(topic)

    @staticmethod
    def _refuse(topic: str) -> NoReturn:
        raise IllegalStateException(f"the processor of a global store cannot write to {topic}")
