"""The transaction coordinator: producer ids and epochs, who is fenced, and how transactions end.

A transaction that ends is decided first, which the client is told; then the markers are written, each partition's and
the group's when it pleases. Until all are written the producer's next one does not begin.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError

from simulation.log import PartitionLog, Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headrace.records import GroupIdentity, OffsetAndMetadata, TopicPartition
    from simulation.clock import Clock
    from simulation.groups import GroupCoordinator
    from simulation.log import Sent


@dataclass(slots=True)
class _Entry:
    producer_id: int
    timeout_s: float
    epoch: int = 0
    state: str = "complete"
    """ongoing, commit or abort (being completed), complete."""
    committed: bool | None = None
    """How the last one ended, of this epoch."""
    number: int = 0
    partitions: set[TopicPartition] = field(default_factory=set["TopicPartition"])
    with_offsets: bool = False


class TransactionCoordinator:
    """See the module.

    Args:
        clock: Of the world.
        log: A partition's log.
        group: Takes the offsets.
        slow_markers: Share of markers that come late.
    """

    def __init__(
        self, clock: Clock, log: Callable[[TopicPartition], PartitionLog], group: GroupCoordinator, slow_markers: float
    ) -> None:
        self._clock = clock
        self._log = log
        self._group = group
        self._slow_markers = slow_markers
        self._entries: dict[str, _Entry] = {}
        self._ids = 100
        self.timed_out = 0
        self.fenced = 0

    def producer_id(self) -> int:
        """An id for an idempotent producer."""
        self._ids += 1
        return self._ids

    def initialise(self, transactional_id: str, timeout_s: float) -> tuple[int, int]:
        """Producer id and epoch; what an older producer has left open is aborted first."""
        entry = self._entries.get(transactional_id)
        if entry is None:
            entry = self._entries[transactional_id] = _Entry(self.producer_id(), timeout_s)
        elif entry.state == "ongoing":
            self.fenced += 1
            entry.epoch += 1
            self._finish(entry, commit=False)
            raise Refused(KafkaError.CONCURRENT_TRANSACTIONS)
        elif entry.state != "complete":
            raise Refused(KafkaError.CONCURRENT_TRANSACTIONS)
        else:
            entry.epoch += 1
        entry.committed = None
        entry.timeout_s = timeout_s
        return entry.producer_id, entry.epoch

    def produce(
        self,
        transactional_id: str | None,
        producer_id: int,
        epoch: int,
        partition: TopicPartition,
        sequence: int,
        records: Sequence[Sent],
    ) -> int:
        """Write a batch; returns the offset of its first record, -1 when it was written before."""
        log = self._log(partition)
        entry = None
        if transactional_id is not None:
            entry = self._current(transactional_id, epoch)
        known_epoch, expected = log.sequences.get(producer_id, (epoch, 0))
        if epoch > known_epoch:
            expected = 0
        if sequence < expected:
            return -1
        if sequence > expected:
            raise Refused(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER)
        if entry is not None:
            self._begin(entry)
            entry.partitions.add(partition)
        elif producer_id < max(log.sequences, default=0):
            log.disordered = True
        log.sequences[producer_id] = (epoch, sequence + len(records))
        return log.append(records, None if entry is None else producer_id)

    def add_offsets(
        self,
        transactional_id: str,
        epoch: int,
        identity: GroupIdentity,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
    ) -> None:
        """Put offsets into the transaction."""
        entry = self._current(transactional_id, epoch)
        if entry.state in ("commit", "abort"):
            raise Refused(KafkaError.CONCURRENT_TRANSACTIONS)
        self._group.check_commit(identity, offsets, transactional=True)
        self._begin(entry)
        entry.with_offsets = True
        self._group.pending.setdefault(entry.producer_id, {}).update(offsets)

    def end(self, transactional_id: str, epoch: int, commit: bool) -> None:
        """Decide a transaction."""
        entry = self._current(transactional_id, epoch)
        if entry.state == "ongoing":
            self._finish(entry, commit)
        elif entry.state in ("commit", "abort"):
            if entry.state != ("commit" if commit else "abort"):
                raise Refused(KafkaError.INVALID_TXN_STATE)
            raise Refused(KafkaError.CONCURRENT_TRANSACTIONS)
        elif entry.committed is not commit:
            raise Refused(KafkaError.INVALID_TXN_STATE)

    @property
    def unfinished(self) -> bool:
        """Whether any transaction is not complete."""
        return any(entry.state != "complete" for entry in self._entries.values())

    def _current(self, transactional_id: str, epoch: int) -> _Entry:
        entry = self._entries[transactional_id]
        if epoch != entry.epoch:
            raise Refused(KafkaError.INVALID_PRODUCER_EPOCH)
        return entry

    def _begin(self, entry: _Entry) -> None:
        if entry.state in ("commit", "abort"):
            raise Refused(KafkaError.CONCURRENT_TRANSACTIONS)
        if entry.state == "ongoing":
            return
        entry.state = "ongoing"
        entry.number = number = entry.number + 1

        def expire() -> None:
            if entry.number == number and entry.state == "ongoing":
                self.timed_out += 1
                entry.epoch += 1
                self._finish(entry, commit=False)

        self._clock.at(entry.timeout_s, expire)

    def _finish(self, entry: _Entry, commit: bool) -> None:
        entry.state = "commit" if commit else "abort"
        entry.committed = commit
        partitions = sorted(entry.partitions)
        left = len(partitions) + entry.with_offsets
        random = self._clock.random

        def done() -> None:
            nonlocal left
            left -= 1
            if left <= 0:
                entry.state = "complete"

        def write(partition: TopicPartition) -> None:
            self._log(partition).mark(entry.producer_id, commit)
            done()

        def end_offsets() -> None:
            self._group.end_transaction(entry.producer_id, commit)
            done()

        def delay() -> float:
            return random.uniform(0.2, 2.0) if random.random() < self._slow_markers else random.uniform(0.0005, 0.006)

        for partition in partitions:
            self._clock.at(delay(), lambda partition=partition: write(partition))  # type: ignore[misc]
        if entry.with_offsets:
            self._clock.at(delay(), end_offsets)
        entry.partitions.clear()
        entry.with_offsets = False
        if left == 0:
            entry.state = "complete"
