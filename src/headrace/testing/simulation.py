"""A whole application in one thread: topics with partitions, instances that share the tasks, and a clock that jumps.

The tasks, stores, assignment and commit steps are the real ones; the brokers are lists. Everything happens in a fixed
order, or in the one that ``seed`` gives, so that a failure happens again.

What holds of the brokers is what Kafka gives. Under exactly-once the records of a transaction appear when it commits,
offsets with them, and a crash leaves what was committed and nothing else; under at-least-once records appear when they
are sent. A member that goes gives its tasks to the others, which restore from the changelogs what their own directories
do not have.
"""

from __future__ import annotations

import hashlib
import random
import shutil
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.assignment.sticky import MemberState, assign
from headrace.engine.global_task import GlobalTask
from headrace.engine.task import StreamTask, TaskState
from headrace.errors import IllegalStateException, StreamsException, TaskIdFormatException
from headrace.partitioning import partition_for_key
from headrace.records import OffsetAndMetadata, TaskId, TopicPartition
from headrace.resets import AutoOffsetReset
from headrace.state.cache import CacheBudget
from headrace.topology.built import SourceSpec
from headrace.topology.copartition import plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from headrace.api.engine import ChangelogSend, Send
    from headrace.engine.settings import EngineSettings
    from headrace.records import Headers, RawRecord
    from headrace.topology.built import BuiltTopology, GlobalStores


class Written(NamedTuple):
    """A record as a topic has it."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    """None in a changelog: the producer's own time, which a test has no use for."""
    key: bytes | None
    value: bytes | None
    headers: Headers | None


class Brokers:
    """Topics as lists, and the committed offsets of one group."""

    def __init__(
        self, partition_counts: Mapping[str, int], default_count: int, on_write: Callable[[Written], None]
    ) -> None:
        self._counts = dict(partition_counts)
        self._default = default_count
        self._on_write = on_write
        self._logs: dict[TopicPartition, list[RawRecord]] = {}
        self._keyless = 0
        self.committed: dict[TopicPartition, OffsetAndMetadata] = {}

    def partition_count(self, topic: str) -> int:
        """Number of partitions; topics that nobody has counted have the default."""
        return self._counts.get(topic, self._default)

    def set_counts(self, partition_counts: Mapping[str, int]) -> None:
        """Partition counts of topics, internal ones among them."""
        self._counts |= partition_counts

    def partition_for(self, topic: str, key: bytes | None) -> TopicPartition:
        """Where a record without a chosen partition goes: by its key as in Kafka, one after the other without one."""
        number = self.partition_count(topic)
        if key is not None:
            return TopicPartition(topic, partition_for_key(key, number))
        self._keyless += 1
        return TopicPartition(topic, (self._keyless - 1) % number)

    def log(self, partition: TopicPartition) -> Sequence[RawRecord]:
        """What a partition holds; offsets count from 0."""
        return self._logs.setdefault(partition, [])

    def append(
        self,
        partition: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers | None,
        *,
        is_input: bool = False,
    ) -> int:
        """Write a record that readers see at once. Returns its offset.

        Raises:
            StreamsException: The topic has no such partition.
        """
        number = self.partition_count(partition.topic)
        if not 0 <= partition.partition < number:
            raise StreamsException(f"topic {partition.topic} has {number} partitions, not {partition.partition}")
        log = self._logs.setdefault(partition, [])
        offset = len(log)
        log.append((offset, timestamp, key, value, headers))
        if not is_input:
            self._on_write(Written(*partition, offset, timestamp, key, value, headers))
        return offset


class Instance:
    """One process of the application: its tasks, its directory, its open transaction."""

    def __init__(self, name: str, directory: Path, cache_bytes: int, brokers: Brokers, exactly_once: bool) -> None:
        self.name = name
        self.directory = directory
        self.process_id = hashlib.md5(name.encode(), usedforsecurity=False).digest()
        self.budget = CacheBudget(cache_bytes)
        self.tasks: dict[TaskId, StreamTask] = {}
        self.positions: dict[TopicPartition, int] = {}
        self.global_task: GlobalTask | None = None
        self.restored: dict[TaskId, int] = {}
        """Changelog records that each task read when it came here last."""
        self._brokers = brokers
        self._exactly_once = exactly_once
        self._open: list[tuple[TopicPartition, bytes | None, bytes | None, int, Headers | None, bool]] = []
        self._acked: dict[TopicPartition, int] = {}

    def sender(self, topic: str) -> Send:
        """See :class:`headrace.api.engine.RecordCollector`."""
        brokers = self._brokers

        def send(
            partition: int | None,
            key: bytes | None,
            value: bytes | None,
            timestamp: int | None,
            headers: Headers | None,
        ) -> None:
            to = brokers.partition_for(topic, key) if partition is None else TopicPartition(topic, partition)
            self._send(to, key, value, timestamp, headers, tracked=False)

        return send

    def changelog_sender(self, topic: str, partition: int) -> ChangelogSend:
        """See :class:`headrace.api.engine.RecordCollector`."""
        to = TopicPartition(topic, partition)
        return lambda key, value, timestamp, headers: self._send(to, key, value, timestamp, headers, tracked=True)

    def partition_count(self, topic: str) -> int:
        """See :class:`headrace.api.engine.RecordCollector`."""
        return self._brokers.partition_count(topic)

    def feed(self) -> bool:
        """Hand the tasks what their partitions have to read. Returns whether there was anything."""
        anything = self.feed_global()
        for task in self.tasks.values():
            for partition in task.partitions:
                log, position = self._brokers.log(partition), self.positions[partition]
                if position < len(log):
                    task.add_records(partition, list(log[position:]))
                    self.positions[partition] = len(log)
                    anything = True
        return anything

    def feed_global(self, *, starting: bool = False) -> bool:
        """Have the global stores take in what their topics have. Returns whether there was anything."""
        task = self.global_task
        if task is None:
            return False
        anything = False
        for partition in task.partitions:
            log, position = self._brokers.log(partition), self.positions.setdefault(partition, 0)
            if position < len(log):
                # a record that cannot be decoded yet waits in the task
                self.positions[partition] = len(log)
                (task.restore if starting else task.process)(partition, list(log[position:]))
                anything = True
        return anything

    def caught_up(self, partition: TopicPartition) -> bool:
        """Whether everything there is of a partition has been handed to its task."""
        return self.positions.get(partition, 0) >= len(self._brokers.log(partition))

    def commit(self, *, crash_before_stores: bool = False) -> None:
        """Commit all tasks. With ``crash_before_stores`` the brokers know of it and the local stores do not."""
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        for task in self.tasks.values():
            offsets |= task.prepare_commit(self.positions.get)
        sent, self._open = self._open, []
        for partition, key, value, timestamp, headers, tracked in sent:
            self._append(partition, key, value, timestamp, headers, tracked)
        self._brokers.committed |= offsets
        if not crash_before_stores:
            for task in self.tasks.values():
                task.post_commit(self._acked)

    def open(self, task: StreamTask, start: Callable[[TopicPartition], int]) -> None:
        """Take a task over: restore its stores, and go on from its committed offsets."""
        task.transition(TaskState.RESTORING)
        count = 0
        for changelog, store in task.changelogs.items():
            log, known = self._brokers.log(changelog), store.rows.body.offset() or 0
            end = len(log)
            if changelog in task.source_changelogs:
                entry = self._brokers.committed.get(changelog)
                end = 0 if entry is None else entry.offset
            if known < end:
                task.restore(changelog, list(log[known:end]), end)
                count += end - known
        self.restored[task.id] = count
        committed = {partition: self._brokers.committed.get(partition) for partition in task.partitions}
        for partition, entry in committed.items():
            self.positions[partition] = start(partition) if entry is None else entry.offset
        task.resume_from(committed)
        task.complete_restoration()
        self.tasks[task.id] = task
        self.tasks = dict(sorted(self.tasks.items()))

    def close(self, task_ids: Iterable[TaskId]) -> None:
        """Close tasks; what they have not committed is forgotten."""
        for task_id in task_ids:
            self.tasks.pop(task_id).close()

    def crash(self) -> None:
        """The process is gone: uncommitted work with it, the directory stays."""
        self._open.clear()
        self.close(list(self.tasks))
        if self.global_task is not None:
            self.global_task.close()

    def stored_tasks(self) -> frozenset[TaskId]:
        """Tasks that have a directory here."""
        found: set[TaskId] = set()
        for entry in self.directory.iterdir() if self.directory.exists() else ():
            try:
                found.add(TaskId.parse(entry.name))
            except TaskIdFormatException:
                continue
        return frozenset(found)

    def _send(
        self,
        to: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        timestamp: int | None,
        headers: Headers | None,
        *,
        tracked: bool,
    ) -> None:
        if self._exactly_once:
            self._open.append((to, key, value, timestamp or 0, headers, tracked))
        else:
            self._append(to, key, value, timestamp or 0, headers, tracked)

    def _append(
        self,
        to: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers | None,
        tracked: bool,
    ) -> None:
        offset = self._brokers.append(to, key, value, timestamp, headers)
        if tracked:
            self._acked[to] = offset


class SimulatedApplication:
    """A topology on several instances.

    Args:
        built: The topology.
        settings: The engine's settings.
        brokers: Where topics are.
        directory: Each instance has its own below it; they outlive crashes.
        cache_bytes: Cache memory of an instance.
        exactly_once: Whether records appear with their transaction.
        reset_policy: Where a source begins that does not say.
        commit_every_round: Commit whenever something was processed; else on demand.
        seed: Shuffles who goes first in each round; None goes by name.
    """

    def __init__(
        self,
        built: BuiltTopology,
        settings: EngineSettings,
        brokers: Brokers,
        directory: Path,
        *,
        cache_bytes: int,
        exactly_once: bool,
        reset_policy: AutoOffsetReset,
        commit_every_round: bool,
        seed: int | None,
    ) -> None:
        self._built = built
        self._settings = settings
        self._brokers = brokers
        self._directory = directory
        self._cache_bytes = cache_bytes
        self._exactly_once = exactly_once
        self._commit_every_round = commit_every_round
        self._random = None if seed is None else random.Random(seed)
        self._reset_policy = reset_policy
        self._found: set[str] = set()
        self._lay_out(built)
        self.instances: dict[str, Instance] = {}
        """Those that live, by name."""

    def _lay_out(self, built: BuiltTopology) -> None:
        brokers = self._brokers
        self._subtopologies = {sub.id: sub for sub in built.subtopologies}
        internal = {name for sub in built.subtopologies for name in sub.repartition_topics}
        sources = {topic for sub in built.subtopologies for topic in sub.source_topics} - internal
        self.plan = plan(built, {topic: brokers.partition_count(topic) for topic in sources})
        brokers.set_counts(self.plan.partition_counts)
        self._resets = {
            topic: spec.offset_reset or self._reset_policy
            for sub in built.subtopologies
            for spec in sub.nodes
            if isinstance(spec, SourceSpec)
            for topic in spec.topics
        }
        kept = built.global_stores.part.source_topics if built.global_stores is not None else frozenset[str]()
        self.sources = frozenset(self._resets) | kept
        """Topics that are read."""

    def reads(self, topic: str) -> bool:
        """Whether anything reads a topic. One that matches a pattern for the first time changes the tasks."""
        if topic not in self.sources and self._built.has_patterns:
            wider = self._built.with_topics({*self._found, topic})
            if any(topic in sub.source_topics for sub in wider.subtopologies):
                self._found.add(topic)
                former = self.plan.tasks
                self._lay_out(wider)
                for instance in self.instances.values():
                    changed = [id_ for id_ in instance.tasks if self.plan.tasks.get(id_) != former[id_]]
                    instance.commit()
                    instance.close(changed)
                self._rebalance()
        return topic in self.sources

    def global_stores(self) -> Mapping[str, Any]:
        """The global stores of the first instance by name."""
        task = next((instance.global_task for instance in self.instances.values()), None)
        return {} if task is None else task.stores

    def global_drops(self) -> Counter[str]:
        """Records that the processors of the first instance's global stores dropped, by reason."""
        task = next((instance.global_task for instance in self.instances.values()), None)
        return Counter() if task is None else task.dropped

    def start(self, name: str) -> None:
        """Start an instance: it gets its share of the tasks.

        Raises:
            IllegalStateException: It runs already.
        """
        if name in self.instances:
            raise IllegalStateException(f"instance {name} runs already")
        instance = Instance(name, self._directory / name, self._cache_bytes, self._brokers, self._exactly_once)
        if self._built.global_stores is not None:
            instance.global_task = self._make_global(self._built.global_stores, instance.directory)
            instance.feed_global(starting=True)
        self.instances[name] = instance
        self._rebalance()

    def stop(self, name: str) -> None:
        """Stop an instance in good order: it commits, leaves, and the others take over."""
        instance = self.instance(name)
        instance.commit()
        instance.crash()
        del self.instances[name]
        self._rebalance()

    def kill(self, name: str, *, during_commit: bool = False) -> None:
        """End an instance without warning.

        Args:
            name: Which.
            during_commit: After the brokers have committed and before its stores know of it.
        """
        instance = self.instance(name)
        if during_commit:
            instance.commit(crash_before_stores=True)
        instance.crash()
        del self.instances[name]
        self._rebalance()

    def instance(self, name: str) -> Instance:
        """A live instance.

        Raises:
            IllegalStateException: There is none of that name.
        """
        if name not in self.instances:
            raise IllegalStateException(f"no instance {name} runs; there are {', '.join(self.instances) or 'none'}")
        return self.instances[name]

    def pipe(self, topic: str, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers | None) -> None:
        """Write one input record and process until it is quiet."""
        self._brokers.append(self._brokers.partition_for(topic, key), key, value, timestamp, headers, is_input=True)
        self.run()

    def run(self) -> None:
        """Process until everything is quiet."""
        moved = True
        while moved:
            moved = False
            for instance in self._in_turn():
                moved = self._round(instance) or moved

    def commit(self) -> None:
        """Commit every instance, and process what that lets downstream see."""
        for instance in self._in_turn():
            instance.commit()
        self.run()

    def punctuate_wall_clock(self) -> None:
        """Let every task call the punctuators that are due by the clock."""
        for instance in self._in_turn():
            called = [task.punctuate_wall_clock() for task in instance.tasks.values()]
            if any(called) and self._commit_every_round:
                instance.commit()
        self.run()

    def tasks(self) -> dict[TaskId, StreamTask]:
        """Every task that runs, in order."""
        return dict(sorted((id_, task) for one in self.instances.values() for id_, task in one.tasks.items()))

    def close(self) -> None:
        """Close everything without committing."""
        for instance in self.instances.values():
            instance.crash()
        self.instances.clear()

    def _round(self, instance: Instance) -> bool:
        moved = instance.feed()
        done = sum(task.process(1) for task in instance.tasks.values())
        waiting = next((task.stalled for task in instance.tasks.values() if task.stalled is not None), None)
        if waiting is not None:
            raise waiting
        asked = any(task.wants_commit() for task in instance.tasks.values())
        if asked or (done and self._commit_every_round):
            instance.commit()
        return moved or done > 0

    def _in_turn(self) -> list[Instance]:
        order = list(self.instances.values())
        if self._random is not None:
            self._random.shuffle(order)
        return order

    def _rebalance(self) -> None:
        members = {
            one.name: MemberState(one.process_id, frozenset(one.tasks), one.stored_tasks())
            for one in self.instances.values()
        }
        target = assign(list(self.plan.tasks), members)
        # as in a cooperative rebalance, everybody gives up before anybody takes
        for instance in self.instances.values():
            leaving = instance.tasks.keys() - target[instance.name]
            if leaving:
                instance.commit()
                instance.close(sorted(leaving))
        for instance in self.instances.values():
            for task_id in sorted(target[instance.name] - instance.tasks.keys()):
                instance.open(self._make(instance, task_id), self._start_offset)
        self.run()

    def _make(self, instance: Instance, task_id: TaskId) -> StreamTask:
        directory = instance.directory / str(task_id) / "rocksdb"
        return StreamTask(
            self._subtopologies[task_id.subtopology],
            task_id,
            self._settings,
            instance,
            instance.budget,
            lambda store: directory / store,
            instance.caught_up,
            self.plan.tasks[task_id],
            None if instance.global_task is None else instance.global_task.views,
        )

    def _make_global(self, stores: GlobalStores, directory: Path) -> GlobalTask:
        root = directory / "global" / "rocksdb"
        # its stores are filled anew at every start
        shutil.rmtree(root, ignore_errors=True)
        counts = {topic: self._brokers.partition_count(topic) for topic in stores.part.source_topics}
        return GlobalTask(stores, self._settings, lambda store: root / store, counts)

    def _start_offset(self, partition: TopicPartition) -> int:
        log = self._brokers.log(partition)
        policy = self._resets.get(partition.topic, AutoOffsetReset.EARLIEST)
        if policy == AutoOffsetReset.NONE:
            raise StreamsException(f"no committed offset for {partition}, and auto.offset.reset=none")
        if policy.age is None:
            return 0 if policy == AutoOffsetReset.EARLIEST else len(log)
        since = self._settings.system_time_ms() - policy.age // timedelta(milliseconds=1)
        return next((record[0] for record in log if record[1] >= since), len(log))
