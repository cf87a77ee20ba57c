"""Run a topology without a broker and without threads: the same engine, one record at a time.

All sub-topologies run in one task, ``0_0``, with one partition (:mod:`headrace.testing.one_task`), or, with
``partitions``, in the tasks that a real application has, on simulated instances (:mod:`headrace.testing.simulation`).
Wall-clock time moves only by :meth:`TopologyTestDriver.advance_wall_clock_time`.
Source: ``org.apache.kafka.streams.TopologyTestDriver`` (4.4).
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections import Counter, deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar

from headrace.api.serde import Serde
from headrace.api.times import epoch_ms, milliseconds
from headrace.config import StreamsConfig, settings_of
from headrace.engine.serdes import check_serdes
from headrace.errors import IllegalStateException, StreamsException
from headrace.runtime.classes import engine_settings
from headrace.runtime.client_metrics import metrics_registry
from headrace.runtime.task_metrics import TaskMeters
from headrace.state import (
    KeyValueStore,
    SessionStore,
    SessionStoreWithHeaders,
    TimestampedKeyValueStore,
    TimestampedKeyValueStoreWithHeaders,
    TimestampedWindowStore,
    TimestampedWindowStoreWithHeaders,
    VersionedKeyValueStore,
    WindowStore,
)
from headrace.state.keyvalue import PairedKeyValueStore
from headrace.testing.one_task import OneTask
from headrace.testing.simulation import Brokers, SimulatedApplication, Written
from headrace.testing.views import KeyValueView, SessionView, WindowView, timestamped, value_of
from headrace.topology import check_topology

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

    from headrace.api.serde import Deserializer, Serializer
    from headrace.api.times import Moment, Span
    from headrace.engine.settings import EngineSettings
    from headrace.metrics import Metric, MetricName
    from headrace.records import Headers, TaskId
    from headrace.topology import Topology
    from headrace.topology.built import BuiltTopology

K = TypeVar("K")
V = TypeVar("V")

_UNTHROTTLED: Final = {
    "__emit.interval.ms.kstreams.windowed.aggregation__": 0,
    "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__": 0,
}
"""Results that a running application looks for once a second come at once here: the clock stands still."""


class TestRecord(Generic[K, V]):
    """A record for a test topic, or from one; equal when key, value, timestamp and headers are."""

    __test__ = False
    __slots__ = ("headers", "key", "timestamp", "value")

    def __init__(self, key: K, value: V, timestamp: Moment | None = None, headers: Headers | None = None) -> None:
        self.key = key
        self.value = value
        self.timestamp = None if timestamp is None else epoch_ms(timestamp)
        self.headers: Headers = list(headers or [])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TestRecord):
            return NotImplemented
        record: TestRecord[Any, Any] = other  # pyright: ignore[reportUnknownVariableType]  # of any types
        return self._fields() == record._fields()

    def _fields(self) -> tuple[K, V, int | None, Headers]:
        return self.key, self.value, self.timestamp, self.headers

    __hash__ = None  # type: ignore[assignment]  # headers and values may be mutable

    def __repr__(self) -> str:
        return f"TestRecord(key={self.key!r}, value={self.value!r}, timestamp={self.timestamp}, headers={self.headers})"


class TopologyTestDriver:
    """Pipes records into a topology and hands out what it produced.

    Args:
        topology: What to run.
        config: Settings over the defaults; ``application.id`` and ``bootstrap.servers`` may be missing.
        initial_wall_clock_ms: The wall clock at the start (epoch ms or an aware datetime); now when left out.
        partitions: Beyond what the Java driver does: topics have that many partitions (or as many as a mapping says,
            others one), every sub-topology has a task for each, and ``instances`` share the tasks. Without it there is
            one task for everything, as in Java.
        instances: How many run from the start, named ``"1"``, ``"2"``, … Needs ``partitions``.
        commit_every_record: False leaves commits to :meth:`commit`, so that a crash has something to lose. Needs
            ``partitions``.
        seed: Shuffles which instance goes first, the same way each time. Needs ``partitions``.

    Used as a context manager, or closed with :meth:`close`, it removes its state.

    Example:
        >>> from headrace import Serdes, StreamsBuilder
        >>> builder, text = StreamsBuilder(), Serdes.String()
        >>> builder.stream("in").map_values(str.upper).to("out")
        >>> with TopologyTestDriver(
        ...     builder.build(), {"default.key.serde": text, "default.value.serde": text}
        ... ) as driver:
        ...     driver.create_input_topic("in", text.serializer, text.serializer).pipe_input("k", "v")
        ...     driver.create_output_topic("out", text.deserializer, text.deserializer).read_value()
        'V'
    """

    def __init__(
        self,
        topology: Topology,
        config: Mapping[str, Any] | StreamsConfig | None = None,
        initial_wall_clock_ms: Moment | None = None,
        *,
        partitions: int | Mapping[str, int] | None = None,
        instances: int = 1,
        commit_every_record: bool = True,
        seed: int | None = None,
    ) -> None:
        check_topology(topology)
        self._now = time.time_ns() // 1_000_000 if initial_wall_clock_ms is None else epoch_ms(initial_wall_clock_ms)
        originals = settings_of(config)
        originals.setdefault(StreamsConfig.APPLICATION_ID_CONFIG, "topology-test-driver")
        originals.setdefault(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "localhost:9092")
        originals = {**_UNTHROTTLED, **originals}
        self._config = StreamsConfig.load(originals)
        built = topology.build(self._config[StreamsConfig.APPLICATION_ID_CONFIG])
        self._produced: dict[str, deque[Written]] = {}
        settings = engine_settings(self._config, lambda: self._now, lambda: self._now)
        check_serdes(built, settings)
        self._directory = Path(tempfile.mkdtemp(prefix="headrace-driver-"))
        self._closed = False
        self._world: OneTask | SimulatedApplication
        try:
            if partitions is None:
                if instances != 1 or not commit_every_record or seed is not None:
                    raise ValueError("instances, commit_every_record and seed need partitions: partitions=1 at least")
                cache_bytes = self._config[StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG]
                self._world = OneTask(built, settings, self._directory, cache_bytes, self._capture)
            else:
                self._world = self._simulated(built, settings, partitions, commit_every_record, seed)
                for number in range(1, instances + 1):
                    self._world.start(str(number))
        except BaseException:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._closed = True
            raise

    def _simulated(
        self,
        built: BuiltTopology,
        settings: EngineSettings,
        partitions: int | Mapping[str, int],
        commit_every_record: bool,
        seed: int | None,
    ) -> SimulatedApplication:
        counts: Mapping[str, int] = {} if isinstance(partitions, int) else partitions
        default = partitions if isinstance(partitions, int) else 1
        if min(default, *counts.values(), default) < 1:
            raise ValueError("a topic has at least one partition")
        return SimulatedApplication(
            built,
            settings,
            Brokers(counts, default, self._capture),
            self._directory,
            cache_bytes=self._config[StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG],
            exactly_once=self._config.exactly_once,
            reset_policy=self._config.auto_offset_reset,
            commit_every_round=commit_every_record,
            seed=seed,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def create_input_topic(
        self,
        topic_name: str,
        key_serializer: Serializer[K],
        value_serializer: Serializer[V],
        start_timestamp: Moment | None = None,
        auto_advance: Span = 0,
    ) -> TestInputTopic[K, V]:
        """A handle to pipe records into ``topic_name``.

        Args:
            topic_name: A source topic of the topology.
            key_serializer: Encodes keys.
            value_serializer: Encodes values.
            start_timestamp: Time of records piped without one; the driver's wall clock when left out.
            auto_advance: How far that time moves after each such record.

        Raises:
            TypeError: A serde was given for one of its halves.
        """
        _check_halves("serializer", key_serializer, value_serializer)
        start = self._now if start_timestamp is None else epoch_ms(start_timestamp)
        return TestInputTopic(self, topic_name, key_serializer, value_serializer, start, milliseconds(auto_advance))

    def create_output_topic(
        self, topic_name: str, key_deserializer: Deserializer[K], value_deserializer: Deserializer[V]
    ) -> TestOutputTopic[K, V]:
        """A handle to read what was written to ``topic_name``, internal topics included.

        Raises:
            TypeError: A serde was given for one of its halves.
        """
        _check_halves("deserializer", key_deserializer, value_deserializer)
        return TestOutputTopic(self, topic_name, key_deserializer, value_deserializer)

    @property
    def wall_clock_ms(self) -> int:
        """The wall clock (epoch ms)."""
        return self._now

    def produced_topic_names(self) -> frozenset[str]:
        """Topics that anything was written to, internal ones included."""
        return frozenset(self._produced)

    def advance_wall_clock_time(self, advance: Span) -> None:
        """Move the wall clock on by milliseconds or a timedelta, and process what waited for it."""
        self._now += milliseconds(advance)
        self._world.punctuate_wall_clock()

    def get_all_state_stores(self, partition: int | None = None) -> dict[str, Any]:
        """Every store by name; with several partitions those of one of them."""
        found = {
            name: store
            for task_id, task in self._world.tasks().items()
            if partition is None or task_id.partition == partition
            for name, store in task.stores.items()
        }
        return {**found, **self._world.global_stores()}

    def get_state_store(self, name: str, partition: int | None = None) -> Any:
        """The store of that name, or None.

        Args:
            name: Of the store.
            partition: Which of several partitions' stores; needed where there are several.

        Raises:
            ValueError: Several tasks have such a store, and no partition was given.
        """
        found = {
            task_id.partition: task.stores[name]
            for task_id, task in self._world.tasks().items()
            if name in task.stores and (partition is None or task_id.partition == partition)
        }
        if name in self._world.global_stores():
            return self._world.global_stores()[name]
        if len(found) > 1:
            raise ValueError(f"store {name} has partitions {', '.join(map(str, found))}: say which")
        return next(iter(found.values()), None)

    def get_key_value_store(
        self, name: str, partition: int | None = None
    ) -> KeyValueStore[Any, Any] | KeyValueView | None:
        """The key-value store of that name with plain values (one with times or headers is shown without them).

        Returns None when there is no such store, as do the methods below.
        """
        store = self.get_state_store(name, partition)
        if isinstance(store, PairedKeyValueStore):
            return KeyValueView(store, value_of, self._clock)  # pyright: ignore[reportUnknownArgumentType]  # any key and value
        found: KeyValueStore[Any, Any] | None = _if(KeyValueStore, store)
        return found

    def get_timestamped_key_value_store(
        self, name: str, partition: int | None = None
    ) -> TimestampedKeyValueStore[Any, Any] | KeyValueView | None:
        """The timestamped key-value store of that name (one with headers is shown without them)."""
        store = self.get_state_store(name, partition)
        if isinstance(store, TimestampedKeyValueStoreWithHeaders):
            return KeyValueView(store, timestamped, self._clock)  # pyright: ignore[reportUnknownArgumentType]  # any key and value
        found: TimestampedKeyValueStore[Any, Any] | None = _if(TimestampedKeyValueStore, store)
        return found

    def get_timestamped_key_value_store_with_headers(
        self, name: str, partition: int | None = None
    ) -> TimestampedKeyValueStoreWithHeaders[Any, Any] | None:
        """The key-value store of that name whose rows have headers."""
        found: TimestampedKeyValueStoreWithHeaders[Any, Any] | None = _if(
            TimestampedKeyValueStoreWithHeaders, self.get_state_store(name, partition)
        )
        return found

    def get_versioned_key_value_store(
        self, name: str, partition: int | None = None
    ) -> VersionedKeyValueStore[Any, Any] | None:
        """The versioned key-value store of that name."""
        found: VersionedKeyValueStore[Any, Any] | None = _if(
            VersionedKeyValueStore, self.get_state_store(name, partition)
        )
        return found

    def get_window_store(self, name: str, partition: int | None = None) -> WindowStore[Any, Any] | WindowView | None:
        """The window store of that name with plain values (one with times or headers is shown without them)."""
        store = self.get_state_store(name, partition)
        if isinstance(store, TimestampedWindowStore | TimestampedWindowStoreWithHeaders):
            return WindowView(store, value_of, self._clock)  # pyright: ignore[reportUnknownArgumentType]  # any key and value
        found: WindowStore[Any, Any] | None = _if(WindowStore, store)
        return found

    def get_timestamped_window_store(
        self, name: str, partition: int | None = None
    ) -> TimestampedWindowStore[Any, Any] | WindowView | None:
        """The timestamped window store of that name (one with headers is shown without them)."""
        store = self.get_state_store(name, partition)
        if isinstance(store, TimestampedWindowStoreWithHeaders):
            return WindowView(store, timestamped, self._clock)  # pyright: ignore[reportUnknownArgumentType]  # any key and value
        found: TimestampedWindowStore[Any, Any] | None = _if(TimestampedWindowStore, store)
        return found

    def get_timestamped_window_store_with_headers(
        self, name: str, partition: int | None = None
    ) -> TimestampedWindowStoreWithHeaders[Any, Any] | None:
        """The window store of that name whose rows have headers."""
        found: TimestampedWindowStoreWithHeaders[Any, Any] | None = _if(
            TimestampedWindowStoreWithHeaders, self.get_state_store(name, partition)
        )
        return found

    def get_session_store(self, name: str, partition: int | None = None) -> SessionStore[Any, Any] | SessionView | None:
        """The session store of that name (one with headers is shown without them)."""
        store = self.get_state_store(name, partition)
        if isinstance(store, SessionStoreWithHeaders):
            return SessionView(store)  # pyright: ignore[reportUnknownArgumentType]  # any key and value
        found: SessionStore[Any, Any] | None = _if(SessionStore, store)
        return found

    def get_session_store_with_headers(
        self, name: str, partition: int | None = None
    ) -> SessionStoreWithHeaders[Any, Any] | None:
        """The session store of that name whose rows have headers."""
        found: SessionStoreWithHeaders[Any, Any] | None = _if(
            SessionStoreWithHeaders, self.get_state_store(name, partition)
        )
        return found

    def _clock(self) -> int:
        return self._now

    def metrics(self) -> Mapping[MetricName, Metric]:
        """The metrics of the tasks that ``metrics.recording.level`` asks for, as :meth:`headrace.KafkaStreams.metrics`.

        Totals are exact. There is no thread whose time could be measured, so rates and times tell nothing.
        """
        registry = metrics_registry(self._config, lambda: self._now / 1000)
        for task in self._world.tasks().values():
            TaskMeters(registry, threading.current_thread().name, task)
        return registry.read()

    def dropped_records(self) -> dict[str, int]:
        """Number of dropped records by reason, such as ``null key`` or ``processing error``."""
        drops: Counter[str] = Counter()
        for task in self._world.tasks().values():
            drops.update(task.metrics.dropped)
        return dict(drops + self._world.global_drops())

    def close(self) -> None:
        """Close processors and stores and remove the state. Closing twice does nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            self._world.close()
        finally:
            shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def instances(self) -> tuple[str, ...]:
        """Names of the instances that run; ``"1"``, ``"2"`` and so on at first."""
        return tuple(self._simulation().instances)

    def start_instance(self, name: str) -> None:
        """Start an instance, or start a stopped one again on what its directory holds; it gets its share of the tasks.

        Raises:
            IllegalStateException: It runs, or the driver has no ``partitions``.
        """
        self._simulation().start(name)

    def stop_instance(self, name: str) -> None:
        """Stop an instance in good order: it commits and leaves, and the others take its tasks over.

        Raises:
            IllegalStateException: It does not run, or the driver has no ``partitions``.
        """
        self._simulation().stop(name)

    def kill_instance(self, name: str, *, during_commit: bool = False) -> None:
        """End an instance as ``kill -9`` does: uncommitted work is lost, its directory stays.

        Args:
            name: Of the instance.
            during_commit: At the worst moment: the brokers have committed, its stores do not know of it.

        Raises:
            IllegalStateException: It does not run, or the driver has no ``partitions``.
        """
        self._simulation().kill(name, during_commit=during_commit)

    def tasks_of(self, name: str) -> frozenset[TaskId]:
        """The tasks that an instance runs."""
        return frozenset(self._simulation().instance(name).tasks)

    def restored_records(self, name: str) -> dict[TaskId, int]:
        """How many changelog records each task of an instance read when it came there last."""
        instance = self._simulation().instance(name)
        return {task_id: instance.restored[task_id] for task_id in instance.tasks}

    def _simulation(self) -> SimulatedApplication:
        if not isinstance(self._world, SimulatedApplication):
            raise IllegalStateException("this driver runs everything in one task: give it partitions for instances")
        return self._world

    def pipe_raw(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: Moment | None = None,
        headers: Headers | None = None,
    ) -> None:
        """Pipe one record of bytes and process until the topology is quiet.

        Args:
            topic: A source topic of the topology.
            key: Bytes, or None.
            value: Bytes, or None.
            timestamp: Its time; the driver's wall clock when left out.
            headers: Names with bytes or None.

        Raises:
            IllegalStateException: The topology does not read ``topic``, or the driver is closed.
            StreamsException: What the topology failed with.
        """
        if self._closed:
            raise IllegalStateException("the driver is closed")
        if not self._world.reads(topic):
            raise IllegalStateException(
                f"Unknown topic: {topic}. The topology reads {', '.join(sorted(self._world.sources))}"
            )
        self._world.pipe(topic, key, value, self._now if timestamp is None else epoch_ms(timestamp), headers)

    def read_raw(self, topic: str) -> Written | None:
        """The oldest unread record of ``topic``, whatever its partition, or None."""
        waiting = self._produced.get(topic)
        return waiting.popleft() if waiting else None

    def queue_size(self, topic: str) -> int:
        """Unread records of ``topic``."""
        return len(self._produced.get(topic, ()))

    def commit(self) -> None:
        """Commit: caches are flushed, and with ``partitions`` what was written becomes visible downstream."""
        self._world.commit()

    def _capture(self, written: Written) -> None:
        self._produced.setdefault(written.topic, deque()).append(written)


def _checked_headers(headers: Iterable[object]) -> Headers:
    own: Headers = []
    for header in headers:
        match header:
            case (str(name), None | bytes() as value):
                own.append((name, value))
            case _:
                raise TypeError(f"headers are a list of (name, bytes or None), which {header!r} is not")
    return own


def _check_halves(half: str, *given: object) -> None:
    for one in given:
        if isinstance(one, Serde):
            raise TypeError(f"a {half} is expected here, not {one!r}: give its .{half}")


class TestInputTopic(Generic[K, V]):
    """Pipes records into one topic. Made by :meth:`TopologyTestDriver.create_input_topic`."""

    __test__ = False

    def __init__(
        self,
        driver: TopologyTestDriver,
        topic: str,
        key_serializer: Serializer[K],
        value_serializer: Serializer[V],
        start: int,
        auto_advance_ms: int,
    ) -> None:
        if auto_advance_ms < 0:
            raise ValueError("auto_advance must not be negative")
        self._driver = driver
        self._topic = topic
        self._key = key_serializer
        self._value = value_serializer
        self._time = start
        self._advance = auto_advance_ms

    def advance_time(self, advance: Span) -> None:
        """Move the topic's own time on (milliseconds or a timedelta, not negative)."""
        step = milliseconds(advance)
        if step < 0:
            raise ValueError("time can only be advanced")
        self._time += step

    def pipe_input(
        self, key: K | None, value: V | None, timestamp: Moment | None = None, headers: Headers | None = None
    ) -> None:
        """Pipe one record; without ``timestamp`` it gets the topic's time, which then auto-advances."""
        if timestamp is None:
            at = self._time
            self._time += self._advance
        else:
            at = epoch_ms(timestamp)
        own = _checked_headers(headers or ())
        self._driver.pipe_raw(
            self._topic,
            self._key.serialize_with_headers(self._topic, own, key),
            self._value.serialize_with_headers(self._topic, own, value),
            at,
            own or None,
        )

    def pipe_value(self, value: V | None, timestamp: Moment | None = None) -> None:
        """Pipe a record without a key."""
        self.pipe_input(None, value, timestamp)

    def pipe_record(self, record: TestRecord[K | None, V | None] | TestRecord[K, V]) -> None:
        """Pipe a :class:`TestRecord`."""
        self.pipe_input(record.key, record.value, record.timestamp, record.headers)

    def pipe_record_list(self, records: Iterable[TestRecord[K | None, V | None] | TestRecord[K, V]]) -> None:
        """Pipe each record."""
        for record in records:
            self.pipe_record(record)

    def pipe_key_value_list(
        self, pairs: Iterable[tuple[K | None, V | None]], start_timestamp: Moment | None = None, advance: Span = 0
    ) -> None:
        """Pipe each (key, value); with ``start_timestamp`` the times are ``start``, ``start + advance`` and so on."""
        at = None if start_timestamp is None else epoch_ms(start_timestamp)
        step = milliseconds(advance)
        for key, value in pairs:
            self.pipe_input(key, value, at)
            if at is not None:
                at += step

    def pipe_value_list(
        self, values: Iterable[V | None], start_timestamp: Moment | None = None, advance: Span = 0
    ) -> None:
        """Pipe each value without a key; times as in :meth:`pipe_key_value_list`."""
        at = None if start_timestamp is None else epoch_ms(start_timestamp)
        step = milliseconds(advance)
        for value in values:
            self.pipe_input(None, value, at)
            if at is not None:
                at += step


class TestOutputTopic(Generic[K, V]):
    """Reads what the topology wrote to one topic. Made by :meth:`TopologyTestDriver.create_output_topic`."""

    __test__ = False

    def __init__(
        self,
        driver: TopologyTestDriver,
        topic: str,
        key_deserializer: Deserializer[K],
        value_deserializer: Deserializer[V],
    ) -> None:
        self._driver = driver
        self._topic = topic
        self._key = key_deserializer
        self._value = value_deserializer

    def read_record(self) -> TestRecord[K | None, V | None]:
        """The oldest unread record.

        Raises:
            LookupError: There is none.
        """
        raw = self._driver.read_raw(self._topic)
        if raw is None:
            written = ", ".join(sorted(self._driver.produced_topic_names())) or "none"
            raise LookupError(f"no unread record in topic {self._topic} (topics that were written to: {written})")
        return TestRecord(
            self._key.deserialize_with_headers(self._topic, raw.headers, raw.key),
            self._value.deserialize_with_headers(self._topic, raw.headers, raw.value),
            raw.timestamp,
            raw.headers,
        )

    def read_value(self) -> V | None:
        """The oldest unread record's value. Raises LookupError when there is none."""
        return self.read_record().value

    def read_key_value(self) -> tuple[K | None, V | None]:
        """The oldest unread record's key and value. Raises LookupError when there is none."""
        record = self.read_record()
        return record.key, record.value

    def read_records_to_list(self) -> list[TestRecord[K | None, V | None]]:
        """Every unread record."""
        return [self.read_record() for _ in range(self.get_queue_size())]

    def read_key_values_to_list(self) -> list[tuple[K | None, V | None]]:
        """Key and value of every unread record."""
        return [self.read_key_value() for _ in range(self.get_queue_size())]

    def read_key_values_to_map(self) -> dict[K, V | None]:
        """The latest value of each key among the unread records.

        Raises:
            StreamsException: A record has no key.
        """
        latest: dict[K, V | None] = {}
        for key, value in self.read_key_values_to_list():
            if key is None:
                raise StreamsException(f"a record of topic {self._topic} has no key: it cannot go into a map")
            latest[key] = value
        return latest

    def read_values_to_list(self) -> list[V | None]:
        """The value of every unread record."""
        return [self.read_value() for _ in range(self.get_queue_size())]

    def get_queue_size(self) -> int:
        """Number of unread records."""
        return self._driver.queue_size(self._topic)

    def is_empty(self) -> bool:
        """Whether nothing is left to read."""
        return self.get_queue_size() == 0


def _if(kind: type[Any], store: Any) -> Any:
    return store if isinstance(store, kind) else None
