"""The client libraries' producer, consumer and administrator, as far as the product uses them.

The producer has librdkafka's ways: records are sent in the background, each partition's batches in order, and again
after a broken connection; a commit waits for them; an error is fatal, asks for an abort, or may be tried again.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import KafkaError
from confluent_kafka import KafkaException as ClientException

from headrace.errors import TimeoutException
from headrace.partitioning import partition_for_key
from headrace.records import TopicPartition
from simulation.clock import Signal
from simulation.log import Refused
from simulation.network import Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from headrace.kafka import NewTopic
    from headrace.records import GroupIdentity, Headers, OffsetAndMetadata, RawRecord
    from simulation.log import PartitionLog, Sent
    from simulation.process import Process
    from simulation.world import World

T = TypeVar("T")

_LINGER_S = 0.005
_FENCED = frozenset({KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED})
_AGAIN = frozenset(
    {KafkaError.CONCURRENT_TRANSACTIONS, KafkaError.NOT_COORDINATOR, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER}
)


def _error(code: int, *, fatal: bool = False, retriable: bool = False, abort: bool = False) -> ClientException:
    return ClientException(KafkaError(code, "simulated", fatal, retriable, abort))


class Message:
    """A message of the clients: a record, an acknowledgement, an event of a partition."""

    __slots__ = ("_error", "_headers", "_key", "_offset", "_partition", "_timestamp", "_topic", "_value")

    def __init__(
        self,
        partition: TopicPartition,
        offset: int,
        key: bytes | None = None,
        value: bytes | None = None,
        timestamp: int = 0,
        headers: Headers | None = None,
        error: KafkaError | None = None,
    ) -> None:
        self._topic, self._partition = partition
        self._offset = offset
        self._key = key
        self._value = value
        self._timestamp = timestamp
        self._headers = headers
        self._error = error

    def error(self) -> KafkaError | None:
        return self._error

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, self._timestamp

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> Headers | None:
        return self._headers


class _Queued:
    __slots__ = ("callback", "sent")

    def __init__(self, sent: Sent, callback: Callable[[KafkaError | None, Message], None] | None) -> None:
        self.sent = sent
        self.callback = callback


class _Lane:
    """What goes to one partition."""

    def __init__(self) -> None:
        self.queue: list[_Queued] = []
        self.flying: list[_Queued] = []
        self.sequence = 0


class Producer:
    """``confluent_kafka.Producer``."""

    def __init__(self, world: World, process: Process, settings: Mapping[str, Any]) -> None:
        self._world = world
        self._clock = world.clock
        self._process = process
        self._transactional_id: str | None = settings.get("transactional.id")
        self._timeout_s = int(settings.get("transaction.timeout.ms", 60_000)) / 1000
        self._producer_id = -1 if self._transactional_id else world.transactions.producer_id()
        self._epoch = -1 if self._transactional_id else 0
        self._lanes: dict[TopicPartition, _Lane] = {}
        self._acks: list[tuple[Callable[[KafkaError | None, Message], None], KafkaError | None, Message]] = []
        self._signal = Signal()
        self._touched = False
        self._fatal: KafkaError | None = None
        self._closed = False

    # What the product calls.

    def init_transactions(self, timeout: float) -> None:
        tid = str(self._transactional_id)
        self._producer_id, self._epoch = self._asked(
            lambda: self._world.transactions.initialise(tid, self._timeout_s), self._clock.now + timeout
        )

    def begin_transaction(self) -> None:
        self._raise_fatal()

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        callback: Callable[[KafkaError | None, Message], None] | None,
        _: None,
        timestamp: int,
        headers: Headers | None,
    ) -> None:
        self._process.check()
        if self._fatal is not None:
            raise ClientException(KafkaError(KafkaError._FATAL, "simulated", True, False, False))
        if partition < 0:
            number = self._world.partition_counts[topic]
            partition = partition_for_key(key, number) if key is not None else self._clock.random.randrange(number)
        timestamp = timestamp or self._world.wall_ms()
        self._touched = True
        tp = TopicPartition(topic, partition)
        lane = self._lanes.get(tp)
        if lane is None:
            lane = self._lanes[tp] = _Lane()
        if not lane.queue and not lane.flying:
            self._clock.at(self._clock.random.uniform(0, _LINGER_S), lambda: self._pump(tp), self._process)
        lane.queue.append(_Queued((key, value, timestamp, headers), callback))

    def poll(self, timeout: float) -> int:
        self._process.check()
        self._raise_fatal()
        acks, self._acks = self._acks, []
        for callback, error, message in acks:
            callback(error, message)
        return len(acks)

    def flush(self, timeout: float) -> int:
        deadline = self._clock.now + timeout
        while self._waiting() and self._fatal is None and self._clock.now < deadline:
            self._clock.wait(self._signal, deadline - self._clock.now)
        self.poll(0.0)
        return self._waiting()

    def commit_transaction(self, timeout: float) -> None:
        self._end(timeout, commit=True)

    def abort_transaction(self, timeout: float) -> None:
        for lane in self._lanes.values():
            lane.queue.clear()
        self._end(timeout, commit=False)

    def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupIdentity, timeout_s: float
    ) -> None:
        """In place of ``send_offsets_to_transaction``."""
        offsets = dict(offsets)
        self._touched = True
        tid, epoch = str(self._transactional_id), self._epoch
        self._asked(
            lambda: self._world.transactions.add_offsets(tid, epoch, group, offsets), self._clock.now + timeout_s
        )

    def list_topics(self, *, timeout: float) -> Any:
        try:
            names = self._world.network.ask(self._process, lambda: list(self._world.partition_counts))
        except Unreachable:
            raise _error(KafkaError._TRANSPORT, retriable=True) from None
        return SimpleNamespace(topics=dict.fromkeys(names))

    def purge(self, *, in_queue: bool = True, in_flight: bool = True, blocking: bool = True) -> None:
        for lane in self._lanes.values():
            lane.queue.clear()

    def close(self) -> None:
        self._closed = True

    # What goes on below.

    def _waiting(self) -> int:
        return sum(len(lane.queue) + len(lane.flying) for lane in self._lanes.values())

    def _raise_fatal(self) -> None:
        if self._fatal is not None:
            raise ClientException(self._fatal)

    def _fail(self, code: int) -> None:
        self._fatal = KafkaError(KafkaError._FENCED if code in _FENCED else code, "simulated", True, False, False)
        self._clock.notify(self._signal)

    def _end(self, timeout: float, *, commit: bool) -> None:
        deadline = self._clock.now + timeout
        if self.flush(max(deadline - self._clock.now, 0.0)):
            raise _error(KafkaError._TIMED_OUT, retriable=True)
        self._raise_fatal()
        if self._touched:
            tid, epoch = str(self._transactional_id), self._epoch
            try:
                self._asked(lambda: self._world.transactions.end(tid, epoch, commit), deadline)
            except ClientException as e:
                # what was to be aborted may never have arrived
                if commit or e.args[0].code() != KafkaError.INVALID_TXN_STATE:
                    raise
        self._touched = False

    def _asked(self, work: Callable[[], Any], deadline: float) -> Any:
        """An answer of the brokers; connections that break, and what passes by itself, are tried again."""
        random = self._clock.random
        while True:
            self._raise_fatal()
            try:
                return self._world.network.ask(self._process, work)
            except Unreachable:
                pass
            except Refused as e:
                if e.code in _FENCED:
                    self._fail(e.code)
                    continue
                if e.code not in _AGAIN:
                    raise _error(e.code, abort=True) from None
            if self._clock.now >= deadline:
                raise _error(KafkaError._TIMED_OUT, retriable=True)
            self._clock.sleep(random.uniform(0.01, 0.1))

    def _pump(self, tp: TopicPartition) -> None:
        lane = self._lanes[tp]
        if lane.flying or not lane.queue or self._fatal is not None or self._epoch < 0 or self._closed:
            return
        random = self._clock.random
        size = len(lane.queue) if random.random() < 0.8 else random.randint(1, len(lane.queue))
        lane.flying, lane.queue = lane.queue[:size], lane.queue[size:]
        self._transmit(tp, lane)

    def _transmit(self, tp: TopicPartition, lane: _Lane) -> None:
        if self._closed or self._fatal is not None:
            return
        tid, producer_id, epoch, first = self._transactional_id, self._producer_id, self._epoch, lane.sequence
        records = [queued.sent for queued in lane.flying]
        produce = self._world.transactions.produce
        clock = self._clock

        def answered(answer: Any) -> None:
            if isinstance(answer, Refused) and answer.code not in _AGAIN:
                self._fail(answer.code)
            elif isinstance(answer, Exception):
                pause_s = clock.random.uniform(0.02, 0.3)
                clock.at(pause_s, lambda: self._transmit(tp, lane), self._process)
            else:
                done, lane.flying = lane.flying, []
                lane.sequence += len(done)
                # of a batch that was written before, the broker still knows the offset
                base = answer if answer >= 0 else self._world.batches[producer_id, epoch, tp, first]
                for number, queued in enumerate(done):
                    if queued.callback is not None:
                        self._acks.append((queued.callback, None, Message(tp, base + number)))
                self._pump(tp)
                clock.notify(self._signal)

        def work(reply: Callable[[Any], None]) -> None:
            offset = produce(tid, producer_id, epoch, tp, first, records)
            if offset >= 0:
                self._world.batches[producer_id, epoch, tp, first] = offset
            reply(offset)

        self._world.network.call(self._process, work, answered)
        if clock.random.random() < self._world.network.loss / 3:
            # the connection breaks behind it, and the first one still arrives, after the second or even later
            clock.at(clock.random.uniform(0.0, 8.0), lambda: self._straggle(work))

    def _straggle(self, work: Callable[[Callable[[Any], None]], None]) -> None:
        try:
            work(lambda _: None)
        except Refused:
            return


class _Reading:
    def __init__(self, log: PartitionLog, position: int) -> None:
        self.log = log
        self.position = position
        self.start = position
        self.told_end = -1
        self.consumed = False


class Consumer:
    """``confluent_kafka.Consumer``."""

    def __init__(self, world: World, process: Process, settings: Mapping[str, Any]) -> None:
        self._world = world
        self._clock = world.clock
        self._process = process
        self._committed = settings.get("isolation.level", "read_committed") == "read_committed"
        self._reading: dict[TopicPartition, _Reading] = {}
        self._paused: set[TopicPartition] = set()
        """As in librdkafka a partition stays in it when it is unassigned."""
        self._signal = Signal()

    def incremental_assign(self, partitions: Iterable[Any]) -> None:
        for entry in partitions:
            tp = TopicPartition(entry.topic, entry.partition)
            assert tp not in self._reading
            log = self._world.log(tp)
            self._reading[tp] = _Reading(log, entry.offset)
            self._world.watchers.setdefault(tp, []).append(self._signal)
        self._reading = dict(sorted(self._reading.items()))

    def incremental_unassign(self, partitions: Iterable[Any]) -> None:
        for entry in partitions:
            tp = TopicPartition(entry.topic, entry.partition)
            if self._reading.pop(tp, None) is not None:
                self._world.watchers[tp].remove(self._signal)

    def pause(self, partitions: Iterable[Any]) -> None:
        self._paused.update(TopicPartition(entry.topic, entry.partition) for entry in partitions)

    def resume(self, partitions: Iterable[Any]) -> None:
        self._paused.difference_update(TopicPartition(entry.topic, entry.partition) for entry in partitions)

    def consume(self, limit: int, timeout: float) -> list[Message]:
        self._process.check()
        found = self._take(limit)
        if not found and timeout > 0:
            self._clock.wait(self._signal, timeout)
            found = self._take(limit)
        return found

    def list_topics(self, topic: str, timeout: float) -> None:
        """Every topic is known."""

    def position(self, partitions: Iterable[Any]) -> list[Any]:
        found = list(partitions)
        for entry in found:
            reading = self._reading[TopicPartition(entry.topic, entry.partition)]
            entry.offset = reading.position if reading.consumed else -1001
        return found

    def get_watermark_offsets(self, partition: Any, timeout: float = 0.0, cached: bool = False) -> tuple[int, int]:
        log = self._world.log(TopicPartition(partition.topic, partition.partition))
        return log.start, log.end

    def close(self) -> None:
        for tp in list(self._reading):
            self._reading.pop(tp)
            self._world.watchers[tp].remove(self._signal)

    def _take(self, limit: int) -> list[Message]:
        found: list[Message] = []
        if self._process.cut_until > self._clock.now or self._world.network.outage_until > self._clock.now:
            return found
        random = self._clock.random
        for tp, reading in self._reading.items():
            if tp in self._paused:
                continue
            if reading.position < reading.log.start or reading.position > reading.log.end:
                error = KafkaError(KafkaError._AUTO_OFFSET_RESET, "simulated", False, False, False)
                found.append(Message(tp, reading.position, error=error))
                continue
            left = limit - len(found)
            if left <= 0:
                break
            most = left if random.random() < 0.7 else random.randint(0, min(left, 3))
            if not most:
                continue
            records, position = reading.log.read(reading.position, most, self._committed)
            if position > reading.position:
                reading.position, reading.consumed = position, True
            found += [Message(tp, *_message_parts(record)) for record in records]
            end = reading.log.stable if self._committed else reading.log.end
            if position >= end and reading.told_end != position:
                reading.told_end = position
                error = KafkaError(KafkaError._PARTITION_EOF, "simulated", False, False, False)
                found.append(Message(tp, position, error=error))
        return found


def _message_parts(
    record: RawRecord,
) -> tuple[int, bytes | None, bytes | None, int, Headers | None]:
    offset, timestamp, key, value, headers = record
    return offset, key, value, timestamp, headers


class GroupAdmin:
    """``headrace.kafka.group_admin.GroupAdmin``."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process

    def offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], *, stable: bool, timeout_s: float
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        clock, asked = self._world.clock, sorted(partitions)
        deadline = clock.now + timeout_s
        while True:
            try:
                return self._world.network.ask(self._process, lambda: self._world.group.fetch(asked, stable=stable))
            except (Refused, Unreachable):
                if clock.now + 0.05 >= deadline:
                    raise TimeoutException(f"offsets of group {group_id} are not known within {timeout_s} s") from None
                clock.sleep(0.05)

    def close(self) -> None:
        pass


class TopicAdmin:
    """``headrace.kafka.TopicAdmin``, as far as stream threads use it."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process
        self._stale: set[TopicPartition] = set()

    def partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        counts = self._world.partition_counts
        names = sorted(set(topics))
        return self._ask(lambda: {name: counts[name] for name in names if name in counts})

    def check_transactions(self) -> None:
        """These brokers can have them."""

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        return {name: f"id of {name}" for name in sorted(set(topics))}

    def create_topics(self, topics: Iterable[NewTopic]) -> frozenset[str]:
        wanted = {topic.name: topic.partitions for topic in topics}
        counts = self._world.partition_counts

        def work() -> frozenset[str]:
            existed = frozenset(wanted.keys() & counts.keys())
            counts.update({name: number for name, number in wanted.items() if name not in existed})
            return existed

        return self._ask(work)

    def topic_configs(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        return {name: {"cleanup.policy": "compact"} for name in topics}

    def list_offsets(self, partitions: Iterable[TopicPartition], spec: str | int) -> dict[TopicPartition, int]:
        asked = sorted(partitions)
        if not asked:
            return {}
        log = self._world.log
        assert spec in ("earliest", "latest")
        return self._ask(lambda: {tp: log(tp).start if spec == "earliest" else self._told(log(tp)) for tp in asked})

    def committed(self, group_id: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        asked = sorted(partitions)
        if not asked:
            return {}
        found = self._ask(lambda: self._world.group.fetch(asked, stable=False))
        return {tp: found[tp].offset if tp in found else -1 for tp in asked}

    def delete_records(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        wanted = dict(sorted(offsets.items()))

        def work() -> dict[TopicPartition, int]:
            for tp, offset in wanted.items():
                self._world.log(tp).delete_before(offset)
            return {tp: self._world.log(tp).start for tp in wanted}

        return self._ask(work)

    def close(self) -> None:
        pass

    def _told(self, log: PartitionLog) -> int:
        """The end; from a broker that has just lost its leadership an older one, but not twice in a row."""
        rnd, end = self._world.clock.random, self._end(log)
        if log.partition in self._stale or rnd.random() >= self._world.plan.stale_ends:
            self._stale.discard(log.partition)
            return end
        self._stale.add(log.partition)
        return max(log.start, end - rnd.randint(1, 6))

    def _end(self, log: PartitionLog) -> int:
        return log.end

    def _ask(self, work: Callable[[], T]) -> T:
        clock = self._world.clock
        if clock.current.owner is not self._process:
            # on the membership's own thread, which is no strand here
            if clock.random.random() < self._world.network.loss:
                raise TimeoutException("simulated")
            return work()
        try:
            return self._world.network.ask(self._process, work)
        except Unreachable:
            raise TimeoutException("the brokers do not answer") from None
