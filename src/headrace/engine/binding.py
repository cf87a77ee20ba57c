"""From a sub-topology to closures: stores are opened, operators bound from the sinks up, sources given their queues."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headrace.api.engine import ProcessorMetadata, RecordContext
from headrace.engine.codecs import bind_decoders, bind_encoders
from headrace.engine.failures import TaskFailures
from headrace.engine.punctuation import Punctuations
from headrace.engine.queues import make_queue
from headrace.engine.serdes import SerdeContextOf, TaskSerdes
from headrace.engine.sinks import bind_dynamic_sink, bind_sink
from headrace.engine.stores import TaskStores
from headrace.engine.tracing import ReleasingCollector, change_in_own_context, in_own_context, traced_source
from headrace.engine.traffic import CountingCollector
from headrace.errors import IllegalStateException, StreamsException
from headrace.metrics import TaskMetrics
from headrace.processors.stateless import PassThrough, StreamBranch
from headrace.records import TopicPartition
from headrace.topology.built import ProcessorSpec, SinkSpec, SourceSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from headrace.api.engine import ChangelogSend, Process, ProcessChange, RecordCollector
    from headrace.api.processor import Cancellable, PunctuationType, Punctuator
    from headrace.api.serde import SerdeContext
    from headrace.api.stores import KeyValueBody
    from headrace.engine.punctuation import Schedule
    from headrace.engine.queues import PartitionQueue
    from headrace.engine.settings import EngineSettings
    from headrace.engine.sinks import ChooserError
    from headrace.records import Headers, TaskId
    from headrace.state.base import StoreBase
    from headrace.state.cache import CacheBudget
    from headrace.topology.built import SubTopology

_FRAMES_PER_NODE: Final = 12
"""Calls within each other that an operator takes at most: a processor inside a few wrappers."""
_FRAMES_BESIDE: Final = 500
"""Calls outside of the operators: the application's own, the user's functions, a codec."""
_MOST_FRAMES: Final = 5000
"""The limit holds for C too: at some 15,000 a decoder overflows the stack on nested JSON, which kills the process."""


class BoundTask:
    """A sub-topology bound for one partition: its queues, stores and the one record context.

    Attributes:
        failures: Errors and drops.
        commit_requested: A processor has asked for a commit.
        metadata: What operators keep with the committed offsets.
        peers: What operators have for each other.
        before_commit: What operators do at each commit, after the caches.
        source_names: By topic the source that reads it.
        punctuations: What processors have scheduled.
    """

    def __init__(
        self,
        sub: SubTopology,
        task_id: TaskId,
        settings: EngineSettings,
        collector: RecordCollector,
        budget: CacheBudget | None,
        store_path: Callable[[str], Path],
        partitions: Collection[TopicPartition] | None = None,
        global_stores: Mapping[str, Any] | None = None,
        bodies: Mapping[str, KeyValueBody] | None = None,
    ) -> None:
        """See :class:`headrace.engine.task.StreamTask`."""
        self.sub = sub
        self._partitions = partitions
        self.global_stores = global_stores or {}
        self.task_id = task_id
        self.settings = settings
        self.record = RecordContext()
        self.metrics = TaskMetrics()
        self.metadata = ProcessorMetadata()
        self.peers: dict[str, Callable[..., Any]] = {}
        self.before_commit: list[Callable[[], bool]] = []
        self._traced = settings.traces_sources or bool(sub.error_policies)
        dead_letters = None if task_id.partition < 0 else collector.sender
        self.failures = TaskFailures(task_id, settings, self.record, self.metrics, sub.error_policies, dead_letters)
        self.commit_requested = False
        self.punctuations = Punctuations(self.record, settings.system_time_ms)
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        self.source_names: dict[str, str] = {}
        self._sources: list[tuple[SourceSpec, Process]] = []
        self._lives: list[tuple[Callable[[], None] | None, Callable[[], None] | None]] = []
        self._closers: list[Callable[[], None]] = []
        self._serdes = TaskSerdes(sub, settings)
        self._collector: RecordCollector = ReleasingCollector(collector, self.record) if self._traced else collector
        self._stores = TaskStores(
            sub,
            task_id,
            settings,
            self._serdes,
            self.record,
            store_path,
            budget=budget,
            drop=self.failures.drop,
            logger=self._logger,
            partitions=partitions,
            bodies=bodies,
        )
        self.stores: Mapping[str, StoreBase[Any, Any]] = self._stores.by_name
        self.changelogs: Mapping[TopicPartition, StoreBase[Any, Any]] = self._stores.changelogs
        try:
            self._stores.open_all()
            self._bind_nodes()
        except BaseException:
            self.close()
            raise

    def initialize(self) -> None:
        """Run the operators' ``init``, parents before children. The stores must be restored by now."""
        while self._lives:
            init, close = self._lives.pop()
            if init is not None:
                init()
            if close is not None:
                self._closers.append(close)

    def add_life(self, init: Callable[[], None] | None, close: Callable[[], None] | None) -> None:
        """Have a part of an operator initialized and closed with the task."""
        self._lives.append((init, close))

    def dirty(self) -> bool:
        """Whether a cache holds rows that a commit must send on."""
        return any(store.dirty for store in self.stores.values())

    def settle(self) -> bool:
        """Have operators do what waits for a commit; returns whether one has sent something on."""
        sent = False
        for settle in self.before_commit:
            sent |= settle()
        return sent

    def close(self) -> None:
        """Close processors, then stores. The first error is raised after all have been tried."""
        try:
            self.close_operators()
        finally:
            self._stores.close()

    def close_operators(self) -> None:
        """Close processors only, parents before children. The first error is raised after all have been tried."""
        first: BaseException | None = None
        # as in Java: what one forwards as it closes meets children that are open still
        for close in self._closers:
            try:
                close()
            except BaseException as e:  # one that calls sys.exit keeps the others from nothing
                first = first or e
        self._closers.clear()
        self.punctuations.clear()
        if first is not None:
            raise first

    def detach(self) -> dict[str, KeyValueBody]:
        """End the stores and give their bodies, which stay open."""
        return self._stores.detach()

    def punctuate(self, due: Schedule, timestamp: int) -> None:
        """Call a punctuator, outside of any record: at ``timestamp``, without metadata and headers."""
        record = self.record
        record.topic, record.partition, record.offset = None, -1, -1
        record.timestamp, record.headers = timestamp, None
        began = self.settings.steady_time_ms()
        try:
            due.punctuator(timestamp)
        except Exception as e:
            self.failures.punctuation_error(due.node, e, timestamp)
        finally:
            record.timestamp = -1
            self.metrics.punctuated += 1
            self.metrics.punctuation_ms += self.settings.steady_time_ms() - began
        if self.failures.failure is not None:
            raise self.failures.failure

    def _logger(self, changelog: str) -> ChangelogSend:
        send = self._collector.changelog_sender(changelog, self.task_id.partition)

        def log(key: bytes, value: bytes | None, timestamp: int | None, headers: Headers | None) -> None:
            try:
                send(key, value, timestamp, headers)
            except Exception as e:
                # a store whose changelog lacks a record is wrong from then on: no handler may pass over it
                raise self.failures.fail(e)  # noqa: B904  # it is the same error, or an earlier one

        return log

    def _bind_nodes(self) -> None:
        _make_room(self.sub)
        process: dict[str, Process] = {}
        process_change: dict[str, ProcessChange] = {}
        sinks = {spec.name for spec in self.sub.nodes if isinstance(spec, SinkSpec)}
        for spec in reversed(self.sub.nodes):
            children = self.sub.children.get(spec.name, ())
            if isinstance(spec, SinkSpec):
                process[spec.name] = self._bind_sink(spec)
                continue
            node = _Node(
                self,
                spec,
                {name: process[name] for name in children if name in process},
                [process_change[name] for name in children if name in process_change],
            )
            if isinstance(spec, ProcessorSpec):
                bound = spec.operator.bind(node)
                above_sink = not sinks.isdisjoint(children)
                if bound.process is not None:
                    own = bound.process
                    process[spec.name] = self.failures.from_sink(spec.name, own) if above_sink else own
                if bound.process_change is not None:
                    changes = bound.process_change
                    process_change[spec.name] = (
                        self.failures.changes_from_sink(spec.name, changes) if above_sink else changes
                    )
                self.add_life(bound.init, bound.close)
            else:
                self._sources.insert(0, (spec, node.forward))
        for spec, child in self._sources:
            for topic in spec.topics:
                self._bind_source(spec, topic, child)

    def add_partition(self, partition: TopicPartition) -> bool:
        """Read one more partition, of a topic that a source has by name or pattern; returns whether there is one."""
        for spec, child in self._sources:
            if partition.topic in spec.topics or (spec.pattern is not None and spec.pattern.fullmatch(partition.topic)):
                self._partitions = [*(self._partitions or self.queues), partition]
                self._bind_source(spec, partition.topic, child)
                return True
        return False

    def _bind_source(self, spec: SourceSpec, topic: str, child: Process) -> None:
        settings = self.settings
        key, value = self._serdes.of_source(spec)
        self.source_names[topic] = spec.name
        given = self._partitions
        partitions = [TopicPartition(topic, self.task_id.partition)] if given is None else given
        for partition in partitions:
            if partition.topic == topic and partition not in self.queues:
                self.queues[partition] = make_queue(
                    partition,
                    self.record,
                    spec.timestamp_extractor or settings.timestamp_extractor,
                    bind_decoders(key, value, topic),
                    traced_source(child, self.record, partial(self.queues.__getitem__, partition))
                    if self._traced
                    else child,
                    partial(self.failures.decode_error, spec.name, topic, partition.partition),
                    self.failures.drop,
                )
                if settings.counts_traffic:
                    self.queues[partition].taken_bytes = 0

    def _bind_sink(self, spec: SinkSpec) -> Process:
        key, value = self._serdes.of_sink(spec)
        collector = self._collector
        if self.settings.counts_traffic:
            collector = CountingCollector(collector, spec.name, self.metrics.produced)
        topic, rest = spec.topic, (spec.partitioner, collector, self.failures, self._chooser_error(spec.name))
        if isinstance(topic, str):
            return bind_sink(spec.name, topic, bind_encoders(key, value, topic), *rest)
        return bind_dynamic_sink(spec.name, topic, partial(bind_encoders, key, value), *rest, self.record)

    def _chooser_error(self, sink: str) -> ChooserError:
        # as in Java the node above answers for the functions of a sink that choose topic and partitions
        above = [spec.name for spec in self.sub.nodes if sink in self.sub.children.get(spec.name, ())]
        able = [spec.name for spec in self.sub.nodes if spec.name in above and isinstance(spec, ProcessorSpec)]
        if sink in self.sub.error_policies or able:
            return partial(self.failures.user_error, sink if sink in self.sub.error_policies else able[0])
        return partial(self.failures.unhandled, sink)

    @property
    def is_traced(self) -> bool:
        """Whether the bytes of the input record are kept for whoever decides about errors."""
        return self._traced

    def request_commit(self) -> None:
        """Ask for a commit after the record in work."""
        self.commit_requested = True
        self.record.interrupt = True


class _Node:
    """Body of :class:`headrace.api.engine.NodeContext`."""

    def __init__(
        self,
        task: BoundTask,
        spec: SourceSpec | ProcessorSpec,
        children: dict[str, Process],
        change_children: list[ProcessChange],
    ) -> None:
        self.name = spec.name
        self.record = task.record
        self.children: Mapping[str, Process] = children
        self.forward = _fan_out(list(children.values()))
        self.forward_change = _fan_out_changes(change_children)
        self.task_id = task.task_id
        self.application_id = task.settings.application_id
        self.serdes: SerdeContext = SerdeContextOf(task.settings, f"node {spec.name}")
        self.app_configs = task.settings.app_configs
        self.metadata = task.metadata
        self.peers = task.peers
        self.before_commit = task.before_commit
        self.drop = task.failures.drop
        self.drop_late = partial(task.failures.drop_late, spec.name)
        self.drop_one_of_many = partial(task.failures.drop_one_of_many, spec.name)
        self.request_commit = task.request_commit
        self.system_time_ms = task.settings.system_time_ms
        self.steady_time_ms = task.settings.steady_time_ms
        self.user_error = partial(task.failures.user_error, spec.name)
        is_global = task.task_id.partition < 0
        self.schedule = _cannot_schedule if is_global else partial(task.punctuations.schedule, spec.name)
        if task.is_traced and not _hands_on(spec):
            self.forward = in_own_context(self.forward, self.record)
            self.forward_change = change_in_own_context(self.forward_change, self.record)
            self.children = {name: in_own_context(child, self.record) for name, child in children.items()}
        self._task = task
        self._connected = spec.stores if isinstance(spec, ProcessorSpec) else ()

    def store(self, name: str) -> Any:
        shared = self._task.global_stores.get(name)
        if shared is not None:
            return shared
        if name not in self._connected or name not in self._task.stores:
            raise StreamsException(
                f"Processor {self.name} has no access to StateStore {name}: connect it by name where the processor is "
                f"added (connected: {', '.join(self._connected) or 'none'})",
                self.task_id,
            )
        return self._task.stores[name]

    def add_life(self, init: Callable[[], None], close: Callable[[], None]) -> None:
        self._task.add_life(init, close)


def _make_room(sub: SubTopology) -> None:
    """Let a record go through the longest chain of operators: each calls the next one from within.

    Past the interpreter's limit every record would fail, and a handler that goes on would drop them all.
    """
    below: dict[str, int] = {}
    for spec in reversed(sub.nodes):
        below[spec.name] = 1 + max((below.get(child, 0) for child in sub.children.get(spec.name, ())), default=0)
    needed = min(_FRAMES_BESIDE + _FRAMES_PER_NODE * max(below.values(), default=0), _MOST_FRAMES)
    if needed > sys.getrecursionlimit():
        sys.setrecursionlimit(needed)


def _hands_on(spec: SourceSpec | ProcessorSpec) -> bool:
    """Whether a node hands on the records that it gets, rather than making new ones."""
    return isinstance(spec, SourceSpec) or isinstance(spec.operator, StreamBranch | PassThrough)


def _cannot_schedule(
    interval_ms: int, kind: PunctuationType, punctuator: Punctuator, start_ms: int | None
) -> Cancellable:
    raise IllegalStateException("the processor of a global store has no task: it cannot schedule punctuations")


def _fan_out(children: list[Process]) -> Process:
    if not children:
        return lambda key, value, timestamp, headers: None
    if len(children) == 1:
        return children[0]
    targets = tuple(children)

    def forward(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
        for child in targets:
            child(key, value, timestamp, headers)

    return forward


def _fan_out_changes(children: list[ProcessChange]) -> ProcessChange:
    if not children:
        return lambda key, new, old, is_latest, timestamp, headers: None
    if len(children) == 1:
        return children[0]
    targets = tuple(children)

    def forward(key: Any, new: Any, old: Any, is_latest: bool, timestamp: int, headers: Headers | None) -> None:
        for child in targets:
            child(key, new, old, is_latest, timestamp, headers)

    return forward
