"""From a sub-topology to closures: stores are opened, operators bound from the sinks up, sources given their queues."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from headrace.api.engine import RecordContext
from headrace.api.handlers import (
    ErrorHandlerContext,
    ProducerRecord,
    Result,
    SerializationExceptionOrigin,
)
from headrace.api.record import Record
from headrace.engine.queues import make_queue
from headrace.errors import (
    FailedProcessingException,
    KafkaException,
    SerializationException,
    StreamsException,
    TaskCorruptedException,
    TaskMigratedException,
    TimeoutException,
    TopologyException,
)
from headrace.metrics import TaskMetrics
from headrace.records import TopicPartition
from headrace.state.buffer import BufferedStore
from headrace.state.builders import StoreKind, StoreType
from headrace.state.keyvalue import KeyValueStore, StoreBase, TimestampedKeyValueStore
from headrace.state.memory import InMemoryBody
from headrace.state.rocksdb import RocksDBBody
from headrace.topology.built import ProcessorSpec, SinkSpec, SourceSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from headrace.api.engine import Process, ProcessChange, RecordCollector
    from headrace.api.serde import Serde
    from headrace.engine.queues import PartitionQueue
    from headrace.engine.settings import EngineSettings
    from headrace.records import Headers, RawRecord, TaskId
    from headrace.state.builders import StoreBuilder
    from headrace.state.cache import CacheBudget
    from headrace.topology.built import SubTopology

_log = logging.getLogger(__name__)

_NOT_FOR_HANDLERS = (FailedProcessingException, TaskMigratedException, TaskCorruptedException, TimeoutException)
"""Errors about the thread's own standing, never about one record: no handler may skip them."""


class BoundTask:
    """A sub-topology bound for one partition: its queues, stores and the one record context.

    Attributes:
        failure: The first fatal error. Set before it is raised, because a user's ``except Exception`` round a forward
            may swallow it: whoever runs the task looks here after every run, and nothing of it is committed.
        commit_requested: A processor has asked for a commit.
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
    ) -> None:
        self.sub = sub
        self._partitions = partitions
        self.task_id = task_id
        self.settings = settings
        self.record = RecordContext()
        self.metrics = TaskMetrics()
        self.failure: Exception | None = None
        self.commit_requested = False
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        self.stores: dict[str, StoreBase[Any, Any]] = {}
        self.changelogs: dict[TopicPartition, StoreBase[Any, Any]] = {}
        self._lives: list[tuple[Callable[[], None] | None, Callable[[], None] | None]] = []
        self._closers: list[Callable[[], None]] = []
        self._collector = collector
        try:
            for builder in sub.stores:
                self._open_store(builder, budget, store_path)
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

    def fail(self, error: Exception) -> Exception:
        """Remember the first fatal error. Returns what to raise."""
        if self.failure is None:
            self.failure = error
            # when a user's code swallows it, the run ends with this record all the same
            self.record.interrupt = True
        return self.failure

    def fail_here(self, error: Exception) -> Exception:
        """As :meth:`fail`, for whatever came up through the operators: an error that is not ours gets its place."""
        if self.failure is None and not isinstance(error, KafkaException):
            record = self.record
            wrapped = StreamsException(
                f"{type(error).__name__} while processing (taskId={self.task_id}, topic={record.topic}, "
                f"partition={record.partition}, offset={record.offset}): {error}",
                self.task_id,
            )
            wrapped.__cause__ = error
            return self.fail(wrapped)
        return self.fail(error)

    def dirty(self) -> bool:
        """Whether a cache holds rows that a commit must send on."""
        return any(store.cache is not None and store.cache.dirty for store in self.stores.values())

    def close(self) -> None:
        """Close processors, then stores. The first error is raised after all have been tried."""
        first: Exception | None = None
        stores = [store.close for store in self.stores.values()]
        for close in [*reversed(self._closers), *stores]:
            try:
                close()
            except Exception as e:
                first = first or e
        self._closers.clear()
        if first is not None:
            raise first

    def _open_store(
        self, builder: StoreBuilder[Any, Any], budget: CacheBudget | None, store_path: Callable[[str], Path]
    ) -> None:
        name = builder.name
        changelog = self.sub.store_changelogs.get(name)
        log = None if changelog is None else self._logger(changelog)
        in_memory = builder.store_type is StoreType.IN_MEMORY
        rows = BufferedStore(name, InMemoryBody() if in_memory else RocksDBBody(store_path(name)), log)
        topic = changelog or f"{self.settings.application_id}-{name}-changelog"
        key_serde = self._serde(builder.key_serde, self.settings.default_key_serde, f"key of store {name}", "key")
        value_serde = self._serde(
            builder.value_serde, self.settings.default_value_serde, f"value of store {name}", "value"
        )
        cache = budget if builder.caching and budget is not None and budget.max_bytes > 0 else None
        store: StoreBase[Any, Any]
        if builder.kind is StoreKind.TIMESTAMPED_KEY_VALUE:
            store = TimestampedKeyValueStore(
                rows, topic, key_serde, value_serde, self.record, cache, plain_body=builder.plain_body
            )
        else:
            store = KeyValueStore(rows, topic, key_serde, value_serde, self.record, cache)
        self.stores[name] = store
        if changelog is not None:
            self.changelogs[TopicPartition(changelog, self.task_id.partition)] = store

    def _logger(self, changelog: str) -> Callable[[bytes, bytes | None, int | None], None]:
        send = self._collector.changelog_sender(changelog, self.task_id.partition)

        def log(key: bytes, value: bytes | None, timestamp: int | None) -> None:
            try:
                send(key, value, timestamp)
            except Exception as e:
                # a store whose changelog lacks a record is wrong from then on: no handler may pass over it
                raise self.fail(e)  # noqa: B904  # it is the same error, or an earlier one

        return log

    def _serde(self, given: Serde[Any] | None, default: Serde[Any] | None, what: str, part: str) -> Serde[Any]:
        serde = given if given is not None else default
        if serde is None:
            raise TopologyException(
                f"no serde for the {what}, and default.{part}.serde is not set: pass one, or set the default"
            )
        return serde

    def _bind_nodes(self) -> None:
        process: dict[str, Process] = {}
        process_change: dict[str, ProcessChange] = {}
        sources: list[SourceSpec] = []
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
                if bound.process is not None:
                    process[spec.name] = bound.process
                if bound.process_change is not None:
                    process_change[spec.name] = bound.process_change
                self.add_life(bound.init, bound.close)
            else:
                process[spec.name] = node.forward
                sources.append(spec)
        for spec in reversed(sources):
            for topic in spec.topics:
                self._bind_source(spec, topic, process[spec.name])

    def _bind_source(self, spec: SourceSpec, topic: str, child: Process) -> None:
        settings = self.settings
        key = spec.key_deserializer or self._default(settings.default_key_serde, spec.name, "key").deserializer
        value = spec.value_deserializer or self._default(settings.default_value_serde, spec.name, "value").deserializer
        partition = TopicPartition(topic, self.task_id.partition)
        if self._partitions is not None and partition not in self._partitions:
            return

        def on_decode_error(error: Exception, half: str, raw: RawRecord) -> None:
            if not isinstance(error, SerializationException):
                wrapped = SerializationException(f"{half} cannot be decoded: {type(error).__name__}")
                wrapped.__cause__ = error
                error = wrapped
            context = self._error_context(spec.name, raw[1], raw[4], raw[2], raw[3])
            if self._ask(lambda: settings.deserialization_handler.handle_error(context, error), error, context):
                self._count_drop("deserialization error")
                return
            raise self.fail(
                StreamsException(
                    f"The {half} of the record at {topic}-{partition.partition} offset {raw[0]} does not decode, and "
                    "the deserialization exception handler chose to fail. Nothing at or past this offset is committed. "
                    "To skip such records set deserialization.exception.handler to LogAndContinueExceptionHandler.",
                    self.task_id,
                )
            ) from error

        self.queues[partition] = make_queue(
            partition,
            self.record,
            spec.timestamp_extractor or settings.timestamp_extractor,
            key.bind(topic),
            value.bind(topic),
            child,
            on_decode_error,
            self._count_drop,
        )

    def _default(self, serde: Serde[Any] | None, node: str, part: str) -> Serde[Any]:
        return self._serde(None, serde, f"{part} at node {node}", part)

    def _bind_sink(self, spec: SinkSpec) -> Process:
        settings = self.settings
        topic = spec.topic
        key_serializer = spec.key_serializer or self._default(settings.default_key_serde, spec.name, "key").serializer
        value_serializer = (
            spec.value_serializer or self._default(settings.default_value_serde, spec.name, "value").serializer
        )
        encode_key, encode_value = key_serializer.bind(topic), value_serializer.bind(topic)
        send = self._collector.sender(topic)
        partitioner = spec.partitioner

        def process(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            try:
                raw_key = None if key is None else encode_key(key)
            except Exception as e:
                self._encode_error(
                    spec.name, topic, SerializationExceptionOrigin.KEY, e, key, value, timestamp, headers
                )
                return
            try:
                raw_value = None if value is None else encode_value(value)
            except Exception as e:
                origin = SerializationExceptionOrigin.VALUE
                self._encode_error(spec.name, topic, origin, e, key, value, timestamp, headers)
                return
            try:
                send(None, raw_key, raw_value, timestamp, headers)
            except Exception as e:
                self._send_error(spec.name, topic, None, e, raw_key, raw_value, timestamp, headers)

        if partitioner is None:
            return process

        count = self._collector.partition_count

        def process_partitioned(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            partition_count = count(topic)
            try:
                chosen = partitioner.partitions(topic, key, value, partition_count)
            except Exception as e:
                self.user_error(spec.name, e, key, value, timestamp, headers)
                return
            if chosen is None:
                process(key, value, timestamp, headers)
                return
            if not chosen:
                self._count_drop("partitioner chose no partition")
                return
            try:
                raw_key = None if key is None else encode_key(key)
            except Exception as e:
                self._encode_error(
                    spec.name, topic, SerializationExceptionOrigin.KEY, e, key, value, timestamp, headers
                )
                return
            try:
                raw_value = None if value is None else encode_value(value)
            except Exception as e:
                origin = SerializationExceptionOrigin.VALUE
                self._encode_error(spec.name, topic, origin, e, key, value, timestamp, headers)
                return
            for partition in sorted(chosen):
                try:
                    send(partition, raw_key, raw_value, timestamp, headers)
                except Exception as e:
                    self._send_error(spec.name, topic, partition, e, raw_key, raw_value, timestamp, headers)

        return process_partitioned

    def _encode_error(
        self,
        node: str,
        topic: str,
        origin: SerializationExceptionOrigin,
        error: Exception,
        key: Any,
        value: Any,
        timestamp: int,
        headers: Headers | None,
    ) -> None:
        if self.failure is not None:
            raise self.failure
        if not isinstance(error, SerializationException):
            wrapped = SerializationException(
                f"the {origin.value} for topic {topic} cannot be encoded: {type(error).__name__} "
                f"(its type is {type(key if origin is SerializationExceptionOrigin.KEY else value).__name__})"
            )
            wrapped.__cause__ = error
            error = wrapped
        context = self._error_context(node, timestamp, headers)
        record = ProducerRecord(topic, None, key, value, timestamp, headers)
        handler = self.settings.production_handler
        if self._ask(lambda: handler.handle_serialization_error(context, record, error, origin), error, context):
            self._count_drop("serialization error")
            return
        raise self.fail(
            StreamsException(
                f"The {origin.value} of a record for {topic} cannot be encoded ({self._place(node)}). Pass the serde "
                "that fits its type (Produced, Grouped, Repartitioned) or set the default serdes.",
                self.task_id,
            )
        ) from error

    def _send_error(
        self,
        node: str,
        topic: str,
        partition: int | None,
        error: Exception,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers | None,
    ) -> None:
        if self.failure is not None:
            raise self.failure
        if isinstance(error, _NOT_FOR_HANDLERS):
            raise self.fail(error)
        context = self._error_context(node, timestamp, headers)
        record = ProducerRecord(topic, partition, key, value, timestamp, headers)
        handler = self.settings.production_handler
        if self._ask(lambda: handler.handle_error(context, record, error), error, context):
            self._count_drop("production error")
            return
        raise self.fail(
            StreamsException(f"A record for {topic} cannot be sent ({self._place(node)}): {error}", self.task_id)
        ) from error

    def user_error(
        self, node: str, error: Exception, key: Any, value: Any, timestamp: int, headers: Headers | None
    ) -> None:
        """See :meth:`headrace.api.engine.NodeContext.user_error`."""
        if self.failure is not None:
            raise self.failure
        if isinstance(error, _NOT_FOR_HANDLERS):
            raise self.fail(error)
        context = self._error_context(node, timestamp, headers)
        record: Record[Any, Any] = Record(key, value, max(timestamp, 0), headers)
        if self._ask(lambda: self.settings.processing_handler.handle_error(context, record, error), error, context):
            self._count_drop("processing error")
            return
        raise self.fail(
            FailedProcessingException(f"Exception caught in process ({self._place(node)}): {error}", self.task_id)
        ) from error

    def _ask(self, handler: Callable[[], Any], error: Exception, context: ErrorHandlerContext) -> bool:
        # True: go on without the record
        try:
            response = handler()
        except Exception as e:
            raise self.fail(
                FailedProcessingException(
                    f"The exception handler itself failed for an error at processor {context.processor_node_id}, topic "
                    f"{context.topic}, partition {context.partition}, offset {context.offset}: {e}",
                    self.task_id,
                )
            ) from e
        result = getattr(response, "result", None)
        if result is Result.RETRY or not isinstance(result, Result):
            raise self.fail(
                FailedProcessingException(
                    f"An exception handler answered {response!r} to {type(error).__name__}: only Response.fail() and "
                    "Response.resume() are answers to it.",
                    self.task_id,
                )
            ) from error
        return result is Result.RESUME

    def _error_context(
        self,
        node: str,
        timestamp: int,
        headers: Headers | None,
        raw_key: bytes | None = None,
        raw_value: bytes | None = None,
    ) -> ErrorHandlerContext:
        record = self.record
        return ErrorHandlerContext(
            record.topic,
            record.partition,
            record.offset,
            headers,
            node,
            self.task_id,
            timestamp,
            raw_key,
            raw_value,
        )

    def _place(self, node: str) -> str:
        record = self.record
        return (
            f"taskId={self.task_id}, processor={node}, topic={record.topic}, partition={record.partition}, "
            f"offset={record.offset}"
        )

    def _count_drop(self, reason: str) -> None:
        self.metrics.dropped[reason] += 1
        record = self.record
        _log.warning(
            "Record dropped: %s (taskId=%s, topic=%s, partition=%d, offset=%d)",
            reason,
            self.task_id,
            record.topic,
            record.partition,
            record.offset,
        )

    def count_drop(self, reason: str) -> None:
        """Count one record as dropped and log where it lies."""
        self._count_drop(reason)

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
        self.app_configs = task.settings.app_configs
        self.drop = task.count_drop
        self.request_commit = task.request_commit
        self.system_time_ms = task.settings.system_time_ms
        self._task = task
        self._connected = spec.stores if isinstance(spec, ProcessorSpec) else ()

    def store(self, name: str) -> Any:
        if name not in self._connected or name not in self._task.stores:
            raise StreamsException(
                f"Processor {self.name} has no access to StateStore {name}: connect it by name where the processor is "
                f"added (connected: {', '.join(self._connected) or 'none'})",
                self.task_id,
            )
        return self._task.stores[name]

    def add_life(self, init: Callable[[], None], close: Callable[[], None]) -> None:
        self._task.add_life(init, close)

    def user_error(self, error: Exception, key: object, value: object, timestamp: int, headers: Headers | None) -> None:
        self._task.user_error(self.name, error, key, value, timestamp, headers)


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
