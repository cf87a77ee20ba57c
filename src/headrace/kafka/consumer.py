"""Reading records: batches of raw records by partition, positions, watermarks, committed offsets.

Invariants:

* Partitions are assigned by hand only; group membership lives elsewhere (:mod:`headrace.kafka.membership`).
* The offset reset policy is the caller's: librdkafka is told ``auto.offset.reset=error``, and an offset out of range
  comes back as an exception with the gap's size. Such a partition is dead until it is unassigned and assigned anew.
* librdkafka keeps the high watermark of a partition that is unassigned; of a new assignment it tells something only
  once something was fetched in it.
* ``pause`` throws away what was prefetched; the next fetch after ``resume`` reads it again.
* librdkafka remembers that a partition was paused when it is unassigned, and keeps silent about it when it is assigned
  anew. So whatever goes is resumed first.
"""

# ruff: noqa: SLF001 - librdkafka names its local error codes with a leading underscore
# pyright: reportPrivateUsage=false

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, Message
from confluent_kafka import KafkaException as ClientException
from confluent_kafka import TopicPartition as ClientPartition

from headrace.errors import (
    IllegalStateException,
    KafkaException,
    OffsetOutOfRangeException,
    StreamsException,
)
from headrace.kafka.acls import Acl, reading
from headrace.kafka.connections import Bootstrap, data_client_config
from headrace.kafka.errors import client_error, refuses_entry, translate, translate_config_error
from headrace.kafka.group_admin import LazyGroupAdmin
from headrace.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from headrace.records import OffsetAndMetadata, RawRecord

log = logging.getLogger(__name__)

_FORCED: Mapping[str, Any] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "allow.auto.create.topics": False,
}
_NO_GROUP = "headrace-unassigned"
_DEFAULTS: Mapping[str, Any] = {
    "group.id": _NO_GROUP,  # the client insists on one, and looks for its coordinator; nothing else is sent for it
    "fetch.queue.backoff.ms": 5,
    "queued.min.messages": 100_000,
    "fetch.wait.max.ms": 50,
}
_WATERMARK_QUERY_TIMEOUT_S = 10.0
_GROUP_CONNECT_MS = 10_000
_LEARN_TIMEOUT_S = 1.0


@dataclass(slots=True)
class PolledBatch:
    """What one ``poll`` brought.

    Attributes:
        records: raw records by partition, in offset order; only partitions with at least one record.
        eof: partitions whose end was reached (for a ``read_committed`` reader: the last stable offset).
        errors: what went wrong, with its partition where there is one. An ``OffsetOutOfRangeException`` comes once and
            leaves the partition assigned but silent. After any other error of a partition the client tries to fetch
            again by itself, and says so again if it goes on: going on is right for a ``TimeoutException``, the others
            (such as a missing topic or permission) rarely pass by themselves.
    """

    records: dict[TopicPartition, list[RawRecord]] = field(default_factory=dict[TopicPartition, "list[RawRecord]"])
    eof: list[TopicPartition] = field(default_factory=list[TopicPartition])
    errors: list[tuple[TopicPartition | None, KafkaException]] = field(
        default_factory=list["tuple[TopicPartition | None, KafkaException]"]
    )


class RecordConsumer:
    """A reader of hand-assigned partitions. Used by one thread.

    Args:
        config: librdkafka settings (dotted names); ``bootstrap.servers`` is required, ``group.id`` only for
            ``committed``. Offset storing, automatic commits, reset policy and end-of-partition events are fixed.

    Raises:
        ConfigException: librdkafka does not know or allow a setting.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._pending_errors: list[KafkaException] = []
        settings: dict[str, Any] = {**_DEFAULTS, **config, **_FORCED, "error_cb": self._on_client_error}
        self._bootstrap = Bootstrap(settings)
        try:
            self._client: Consumer = Consumer(data_client_config(settings), logger=log)
        except ClientException as error:
            raise translate_config_error(error, "consumer") from error
        self._config = settings
        self._needs = (Acl("Read", "group", settings["group.id"]),)  # the client looks for its coordinator by itself
        self._groups = LazyGroupAdmin(settings, _GROUP_CONNECT_MS)
        self._consume = self._client.consume
        self._start: dict[TopicPartition, int] = {}
        self._unfetched: set[TopicPartition] = set()  # assigned, and neither a record nor the end came since
        self._at_end: set[TopicPartition] = set()
        self._drained = False  # the last poll took all that was prefetched
        self._out_of_range: set[TopicPartition] = set()
        self._paused: set[TopicPartition] = set()
        self._learned: set[str] = set()
        self._closed = False

    def learn(self, topics: Iterable[str]) -> None:
        """Look topics up ahead of their assignment, which does it too: else the client would get to it within a second.

        Waits for the brokers' answers, but not for brokers that give none.
        """
        for topic in sorted(set(topics) - self._learned):
            try:
                self._client.list_topics(topic, timeout=_LEARN_TIMEOUT_S)
            except ClientException as error:
                # it is only slower
                log.debug("consumer: looking up topic %s: %s", topic, error)
                return
            self._learned.add(topic)

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read exactly these partitions, each from its offset; others are dropped."""
        self.learn(tp.topic for tp in offsets)
        self.resume(set(self._paused))
        try:
            self._client.assign([_client_partition(tp, offset) for tp, offset in offsets.items()])
        except ClientException as error:
            raise translate(error, f"assigning {_names(offsets)}") from error
        self._start = dict(offsets)
        self._unfetched = set(offsets)
        self._at_end.clear()
        self._out_of_range.clear()

    def incremental_assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read these partitions too, each from its offset. None of them may be assigned already."""
        if not offsets:
            return
        self.learn(tp.topic for tp in offsets)
        try:
            self._client.incremental_assign([_client_partition(tp, offset) for tp, offset in offsets.items()])
        except ClientException as error:
            raise translate(error, f"assigning {_names(offsets)}") from error
        self._start.update(offsets)
        self._unfetched.update(offsets)

    def incremental_unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop reading these partitions; what was prefetched from them is dropped."""
        gone = list(partitions)
        if not gone:
            return
        self.resume(self._paused.intersection(gone))
        try:
            self._client.incremental_unassign([ClientPartition(tp.topic, tp.partition) for tp in gone])
        except ClientException as error:
            raise translate(error, f"unassigning {_names(gone)}") from error
        for tp in gone:
            self._start.pop(tp, None)
            self._unfetched.discard(tp)
            self._at_end.discard(tp)
            self._out_of_range.discard(tp)

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions assigned now."""
        return frozenset(self._start)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out no records of these partitions until ``resume``, or until they are unassigned.

        Costs what was prefetched of them.
        """
        quiet = list(partitions)
        self._client.pause([ClientPartition(tp.topic, tp.partition) for tp in quiet])
        self._paused.update(quiet)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out records of these partitions again."""
        again = list(partitions)
        if again:
            self._client.resume([ClientPartition(tp.topic, tp.partition) for tp in again])
            self._paused.difference_update(again)

    def poll(self, timeout_s: float, max_records: int) -> PolledBatch:
        """Wait up to ``timeout_s`` seconds for up to ``max_records`` records and events.

        Returns early as soon as ``max_records`` are there; with a timeout of 0 takes what is prefetched.

        Raises:
            StreamsException: a record's headers cannot be read. What came with it is lost: this consumer is of no use.
        """
        batch = PolledBatch()
        self._drained = False
        try:
            messages = self._consume(max_records, timeout_s)
        except (ClientException, SystemError) as failure:
            batch.errors.append((None, translate(client_error(failure), "polling", self._needs)))
            return batch
        except RuntimeError as failure:
            raise IllegalStateException(f"poll on a closed consumer: {failure}") from failure
        self._drained = len(messages) < max_records
        # The hottest loop of the runtime. Records come in runs of one partition, so only a change of partition pays
        # for a TopicPartition and its hash; a plain loop beats map/zip pipelines here (0.26 against 0.32 us).
        run_partition = -1
        run_topic: str | None = None
        records = batch.records
        append: Callable[[RawRecord], None] = _nowhere
        for message in messages:
            error = message.error()
            if error is not None:
                self._event(message, error, batch)
                run_partition = -1  # a record after the end of its partition is the start of a run
                continue
            partition = message.partition()
            topic = message.topic()
            if partition != run_partition or topic != run_topic:
                run_partition = partition  # type: ignore[assignment]  # a record always has topic and partition
                run_topic = topic
                tp = TopicPartition(topic, partition)  # type: ignore[arg-type]
                self._at_end.discard(tp)
                self._unfetched.discard(tp)
                run = records.get(tp)
                if run is None:
                    run = records[tp] = []
                append = run.append
            try:
                headers = message.headers()
                if headers is not None:
                    # the client leaves an error set when it cannot make a name, and a hole in its place: without a call
                    # that sees the error here, any other would fail by it later on
                    all(map(len, headers))
                append((message.offset(), message.timestamp()[1], message.key(), message.value(), headers))  # type: ignore[arg-type]
            except SystemError as failure:
                raise StreamsException(
                    f"The record at {topic}-{partition} offset {message.offset()} cannot be read: the name of a header "
                    "is not UTF-8. To go on without it, stop the application and move its committed offset past the "
                    "record (headrace reset --from-file)"
                ) from failure
        if self._pending_errors:
            batch.errors.extend((None, error) for error in self._pending_errors)
            self._pending_errors.clear()
        return batch

    def position(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The next offset that ``poll`` would hand out, past transaction markers; no broker is asked.

        A partition of which nothing was read yet is at the offset it was assigned with.

        Raises:
            KeyError: a partition is not assigned.
        """
        asked = list(partitions)
        found = self._client.position([ClientPartition(tp.topic, tp.partition) for tp in asked])
        return {
            tp: entry.offset if entry.offset >= 0 else self._start[tp] for tp, entry in zip(asked, found, strict=True)
        }

    def is_caught_up(self, partition: TopicPartition) -> bool:
        """Whether all that is known to be in the partition was handed out; decides ``max.task.idle.ms``.

        True when the position has reached the high watermark of the last fetch, or when the end was reached, no record
        came since, and the last ``poll`` left nothing behind that might be of this partition. (The second is for
        ``read_committed``: the end is below the high watermark while a transaction is open.) Unknown (nothing fetched
        since it was assigned) is False: it may hold data.
        """
        if partition in self._unfetched:
            return False
        if self._drained and partition in self._at_end:
            return True
        high = self.watermarks(partition, cached=True)[1]
        return high >= 0 and self.position((partition,))[partition] >= high

    def watermarks(
        self, partition: TopicPartition, cached: bool, timeout_s: float = _WATERMARK_QUERY_TIMEOUT_S
    ) -> tuple[int, int]:
        """The log start and end of a partition.

        Args:
            partition: need not be assigned when ``cached`` is False.
            cached: True takes those of the last fetch (the end is the high watermark; -1001 or -1 where unknown).
                False asks the brokers, and the end is the last stable offset for a ``read_committed`` consumer: a
                restore needs ``TopicAdmin.list_offsets`` instead.
            timeout_s: for the brokers' answer, in seconds.

        Raises:
            TimeoutException: no answer in time.
        """
        try:
            found: Any = self._client.get_watermark_offsets(
                ClientPartition(partition.topic, partition.partition), timeout=timeout_s, cached=cached
            )
        except ClientException as error:
            raise translate(
                error, f"reading the watermarks of {partition}", (Acl("Describe", "topic", partition.topic),)
            ) from error
        return (OFFSET_INVALID, OFFSET_INVALID) if found is None else found

    def committed(
        self, partitions: Iterable[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The group's committed offsets (``group.id`` of the config); None where nothing was committed.

        A ``read_committed`` consumer waits for offsets inside unfinished transactions, so what is returned is final.

        Raises:
            TimeoutException: no answer, or a transaction unfinished for ``timeout_s`` seconds.
        """
        asked = list(partitions)
        if not asked:
            return {}
        stable = self._config.get("isolation.level", "read_committed") == "read_committed"
        found = self._groups.offsets(self._config["group.id"], asked, stable=stable, timeout_s=timeout_s)
        return {tp: found.get(tp) for tp in asked}

    def close(self) -> None:
        """Free the client and its threads. Calling it again does nothing."""
        if not self._closed:
            self._closed = True
            self._client.close()
            self._groups.close()

    def _event(self, message: Message, error: KafkaError, batch: PolledBatch) -> None:
        topic, partition = message.topic(), message.partition()
        tp = None if topic is None or partition is None or partition < 0 else TopicPartition(topic, partition)
        code = error.code()
        if tp is None:
            if code == KafkaError.GROUP_AUTHORIZATION_FAILED and self._config["group.id"] == _NO_GROUP:
                return  # whoever reads in no group needs no permission for one
            batch.errors.append((None, translate(error, "polling", self._needs)))
        elif code == KafkaError._PARTITION_EOF:
            self._at_end.add(tp)
            self._unfetched.discard(tp)
            batch.eof.append(tp)
        elif code == KafkaError._AUTO_OFFSET_RESET:
            if tp not in self._out_of_range:
                self._out_of_range.add(tp)
                batch.errors.append((tp, self._out_of_range_error(tp, message.offset(), error)))
        else:
            batch.errors.append((tp, translate(error, f"fetching from {tp}", reading(tp.topic))))

    def _out_of_range_error(self, tp: TopicPartition, asked: int | None, error: KafkaError) -> KafkaException:
        offset = asked if asked is not None and asked >= 0 else self._start.get(tp, OFFSET_INVALID)
        advice = "Reset the application's offsets on purpose (headrace reset), or restore the topic"
        try:
            low, high = self.watermarks(tp, cached=False, timeout_s=_WATERMARK_QUERY_TIMEOUT_S)
        except KafkaException as failure:
            return OffsetOutOfRangeException(
                f"{tp}: offset {offset} is out of range ({error.str()}); how many records are missing is not known, as "
                f"{failure}. {advice}",
                tp,
                offset,
                -1,
                -1,
            )
        if 0 <= offset < low:
            what = f"{low - offset} records were deleted before they were read"
        else:
            what = "the offset lies past the end; the topic may have been deleted and made anew"
        return OffsetOutOfRangeException(
            f"{tp}: offset {offset} is out of range, the log holds {low} to {high}: {what}. {advice}",
            tp,
            offset,
            low,
            high,
        )

    def _on_client_error(self, error: KafkaError) -> None:
        # Broker connections that come and go are librdkafka's to retry; only what cannot heal reaches the caller.
        if error.fatal() or refuses_entry(error):
            self._pending_errors.append(translate(error, "connecting to the brokers"))
        else:
            self._bootstrap.on_error(self._client, error)
            log.warning("consumer: %s: %s", error.name(), error.str())


def _nowhere(record: RawRecord) -> None:
    raise AssertionError(f"a record before its partition: {record[0]}")


def _client_partition(tp: TopicPartition, offset: int) -> ClientPartition:
    return ClientPartition(tp.topic, tp.partition, offset)


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(str(tp) for tp in sorted(partitions))
