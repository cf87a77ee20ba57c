"""Keeps the global stores of a client: a thread and a consumer of its own, in no group.

The stores are brought up to the ends that their topics had when it started; then it says that it is ready, and only
then the stream threads begin. From there on it follows the topics. It dies of any error, loudly: a store that stands
still would give wrong results. Source: ``processor.internals.GlobalStreamThread`` (4.4).
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar

from headrace.engine.global_task import GlobalTask
from headrace.errors import MissingSourceTopicException, StreamsException, TimeoutException
from headrace.kafka import RecordConsumer, TopicAdmin
from headrace.state.checkpoint import GlobalCheckpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.kafka import PolledBatch
    from headrace.records import RawRecord, TopicPartition
    from headrace.runtime.client import ClientSettings
    from headrace.state.readonly import ReadOnlyStore
    from headrace.topology.built import GlobalStores

T = TypeVar("T")

_log = logging.getLogger(__name__)

_ADMIN_TIMEOUT_MS = 10_000
_POLL_RECORDS = 10_000
_RETRY_S = 0.5


class GlobalStreamThread:
    """See the module.

    Args:
        stores: What to keep.
        shared: What all threads of the client share.
        on_ready: Called on this thread when the stores are complete, unless it was asked to stop before.
        on_error: Called on this thread with the fatal error, when its loop has ended by one. The stores stay open until
            :meth:`shutdown`.
    """

    def __init__(
        self,
        stores: GlobalStores,
        shared: ClientSettings,
        on_ready: Callable[[], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        self.name = f"{shared.client_id}-GlobalStreamThread"
        self.views: Mapping[str, ReadOnlyStore] = {}
        """The stores by name, once they are complete."""
        self._stores = stores
        self._shared = shared
        self._on_ready = on_ready
        self._on_error = on_error
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._cleanup = ExitStack()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def shutdown(self) -> None:
        """Ask the thread to close its stores and end."""
        self._stop.set()

    def join(self, timeout_s: float | None) -> bool:
        """Wait for the end; returns whether it came."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def is_current(self) -> bool:
        """Whether this is the thread that asks."""
        return threading.current_thread() is self._thread

    def _run(self) -> None:
        error: Exception | None = None
        try:
            self._follow()
        except Exception as e:
            error = e
        except BaseException as e:
            error = StreamsException(f"global thread {self.name} was stopped: {e!r}")
        if error is not None and not self._stop.is_set():
            _log.error("%s ends: %s", self.name, error, exc_info=error)
            self._on_error(error)
            # tasks read the stores until they are closed: closed under them, a join would fail for every record, which
            # a handler that goes on would drop
            self._stop.wait()
        try:
            self._cleanup.close()
        except Exception as e:
            _log.warning("%s did not close in good order: %s", self.name, e)

    def _follow(self) -> None:
        config, later = self._shared.config, self._cleanup.callback
        client_id = f"{self._shared.client_id}-global-consumer"
        admin = TopicAdmin(config.admin_config(client_id=f"{client_id}-admin"), _ADMIN_TIMEOUT_MS)
        later(admin.close)
        counts = self._retried("looking its topics up", lambda: self._partition_counts(admin))
        directory = self._shared.directory
        task = GlobalTask(self._stores, self._shared.engine, directory.global_store_path, counts, threading.RLock())
        later(task.close)
        ids = self._retried("looking its topics up", lambda: admin.topic_ids(self._stores.part.source_topics))
        checkpoint = GlobalCheckpoint(directory.global_checkpoint(), task.stores, self._stores.topics, ids)
        ends = self._retried("reading offsets", lambda: admin.list_offsets(task.partitions, "latest"))
        starts = self._starts(admin, task, checkpoint, ends)
        settings = config.global_consumer_config(client_id=client_id)
        if settings["isolation.level"] == "read_committed":
            # as in Java: what lies in an unfinished transaction of whoever writes the topic comes when that has ended
            ends = self._retried(
                "reading offsets", lambda: admin.list_offsets(task.partitions, "latest", read_committed=True)
            )
        consumer = RecordConsumer(settings)
        later(consumer.close)
        consumer.assign(starts)
        self._restore(task, consumer, ends)
        checkpoint.save(consumer.position(task.partitions))
        self.views = task.views
        if not self._stop.is_set():
            self._on_ready()
        saved = time.monotonic()
        while not self._stop.is_set():
            batch = self._poll(consumer)
            for partition, records in batch.records.items():
                self._take(task.process, partition, records)
            if time.monotonic() - saved >= self._shared.commit_interval_ms / 1000:
                checkpoint.save(consumer.position(task.partitions))
                saved = time.monotonic()
        checkpoint.save(consumer.position(task.partitions))

    def _starts(
        self, admin: TopicAdmin, task: GlobalTask, checkpoint: GlobalCheckpoint, ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        known = checkpoint.load()
        starts = self._retried("reading offsets", lambda: admin.list_offsets(task.partitions, "earliest"))
        gone = {tp.topic for tp, offset in known.items() if not starts.get(tp, -1) <= offset <= ends.get(tp, -1)}
        for topic in sorted(gone):
            _log.warning(
                "%s: topic %s no longer has all that its store would go on from: it is filled anew", self.name, topic
            )
            checkpoint.forget(topic)
        return starts | {tp: offset for tp, offset in known.items() if tp.topic not in gone and tp in starts}

    def _restore(self, task: GlobalTask, consumer: RecordConsumer, ends: Mapping[TopicPartition, int]) -> None:
        started = time.monotonic()
        deadline, count = started + self._shared.task_timeout_ms / 1000, 0
        listener, names = self._shared.listeners.restore, {topic: name for name, topic in self._stores.topics.items()}
        done = dict.fromkeys(ends, 0)
        for tp, position in consumer.position(ends).items():
            listener.on_restore_start(tp, names[tp.topic], position, ends[tp])
        while not self._stop.is_set():
            behind = [tp for tp, position in consumer.position(ends).items() if position < ends[tp]]
            if not behind:
                break
            batch = self._poll(consumer)
            for partition, records in batch.records.items():
                last, number = records[-1][0], len(records)
                self._take(task.restore, partition, records)
                count += number
                done[partition] += number
                listener.on_batch_restored(partition, names[partition.topic], last, number)
            if batch.records:
                deadline = time.monotonic() + self._shared.task_timeout_ms / 1000
            elif time.monotonic() > deadline:
                raise TimeoutException(
                    f"{self.name}: no record of {', '.join(map(str, behind))} came for "
                    f"{self._shared.task_timeout_ms / 1000:.0f} s (task.timeout.ms), and the stores are not complete"
                )
        for tp, number in done.items():
            listener.on_restore_end(tp, names[tp.topic], number)
        _log.info("%s: global stores are complete: %d records, %.3f s", self.name, count, time.monotonic() - started)

    def _take(
        self,
        take: Callable[[TopicPartition, list[RawRecord]], None],
        partition: TopicPartition,
        records: list[RawRecord],
    ) -> None:
        def attempt() -> None:
            nonlocal records
            given, records = records, []
            take(partition, given)

        # a record whose serde waits for something goes on where it is, without being given again
        self._retried(f"taking in records of {partition.topic}-{partition.partition}", attempt)

    def _poll(self, consumer: RecordConsumer) -> PolledBatch:
        batch = consumer.poll(0.0, _POLL_RECORDS)
        if not batch.records:
            self._check(batch)
            batch = consumer.poll(self._shared.poll_ms / 1000, 1)
        self._check(batch)
        return batch

    def _check(self, batch: PolledBatch) -> None:
        for tp, error in batch.errors:
            if not isinstance(error, TimeoutException):
                raise error
            _log.warning("%s: %s%s", self.name, "" if tp is None else f"{tp}: ", error)

    def _partition_counts(self, admin: TopicAdmin) -> dict[str, int]:
        topics = self._stores.part.source_topics
        counts = admin.partition_counts(topics)
        missing = sorted(topics - counts.keys())
        if missing:
            raise MissingSourceTopicException(
                f"Topics of global stores do not exist: {', '.join(missing)}. Create them"
            )
        return counts

    def _retried(self, what: str, call: Callable[[], T]) -> T:
        deadline = time.monotonic() + self._shared.task_timeout_ms / 1000
        while True:
            try:
                return call()
            except TimeoutException as e:
                if time.monotonic() >= deadline or self._stop.is_set():
                    raise
                _log.warning("%s: %s: %s; trying again", self.name, what, e)
                self._stop.wait(_RETRY_S)
