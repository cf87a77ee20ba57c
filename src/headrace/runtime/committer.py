"""The one producer of a stream thread, and how what its tasks wrote is committed.

What becomes of an error, whoever notices it first (a send, a flush, the commit itself):

=====================================================  =========================================================
error                                                  raised
=====================================================  =========================================================
fenced, a stale generation, no member any more         :class:`TaskMigratedException`: join anew
a batch refused for what a record of it is             :class:`RecordRefusedException`: the tasks are made again, and
                                                       send one record at a time until the next commit. So the one at
                                                       fault is refused where it is sent: at-least-once the production
                                                       handler decides about it; exactly-once the thread ends
a record lost on the way, an aborted transaction,      :class:`TaskCorruptedException`: the tasks are made again and
an unknown outcome, a plain producer's broken          go on from what is committed
sequence
nothing but time                                       tried again, for up to ``task.timeout.ms``
=====================================================  =========================================================

All tasks of the thread commit in one transaction. A task's senders belong to the producer it was bound with: a new
producer (:meth:`Committer.give_up`) means new tasks.
"""

from __future__ import annotations

import logging
import time
from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

from headrace.errors import (
    AuthorizationException,
    KafkaException,
    RecordRefusedException,
    StreamsException,
    TaskCorruptedException,
    TaskMigratedException,
    TimeoutException,
    TransactionAbortableException,
)
from headrace.kafka import CommitOutcomeUnknownException, RecordProducer, SendFailedException
from headrace.runtime.collector import ProducerCollector
from headrace.runtime.patience import Patience

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Collection, Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from headrace.engine.task import StreamTask
    from headrace.kafka import Membership
    from headrace.records import OffsetAndMetadata, TopicPartition
    from headrace.runtime.client import ClientSettings

P = TypeVar("P")

_log = logging.getLogger(__name__)

_ATTEMPT_S = 10.0
"""How long one attempt of a broker call may take before the membership is shown a sign of life."""
_LAST_SENDS_S = 5.0
_LAST_ABORT_S = 3.0
"""Brokers that did not answer before are not waited for long: whoever comes next ends the transaction by its id."""
_DOUBT_PAUSE_S = 0.005


def end_transaction(shared: ClientSettings, index: int) -> None:
    """End what a dead thread of this number left in a transaction, if it did: nobody else has to wait for it then."""
    transactional_id = shared.transactional_id(index)
    settings = shared.config.producer_config(transactional_id, client_id=f"{shared.client_id}-left-over-producer")
    try:
        with closing(RecordProducer(settings, shared.config.max_block_ms)) as producer:
            producer.init_transactions(_LAST_ABORT_S)
    except KafkaException as e:
        _log.warning("the transaction of %s is left to end by its time-out: %s", transactional_id, e)


class Committer:
    """See the module. Used by its stream thread only.

    Args:
        name: The thread's name, for messages.
        index: The thread's number.
        shared: The client's fixed parts.
        membership: Who may commit.
        partition_count: Partitions of a topic.
        missing: Which of some topics do not exist.
        check_transactions: Raises what is wrong with the brokers when they do not begin transactions.
        stopping: Set when the thread shall end: nothing is tried again from then on.
    """

    def __init__(
        self,
        name: str,
        index: int,
        shared: ClientSettings,
        membership: Membership,
        partition_count: Callable[[str], int],
        missing: Callable[[AbstractSet[str]], AbstractSet[str]],
        check_transactions: Callable[[], None],
        stopping: threading.Event,
    ) -> None:
        self._name = name
        self._index = index
        self._shared = shared
        self._membership = membership
        self._partition_count = partition_count
        self._missing = missing
        self._check_transactions = check_transactions
        self._stopping = stopping
        transaction_s = shared.config.transaction_timeout_ms / 1000
        spare_s = transaction_s - shared.commit_interval_ms / 1000
        self._longest_doubt_s = min(transaction_s / 4, spare_s / 2) if shared.exactly_once else 0.0
        self._last = time.monotonic()
        self._patience = Patience(shared.task_timeout_ms / 1000)
        self._careful = False
        self.commits = 0
        """Number of commits so far."""
        self.blocked_s = 0.0
        """Seconds that brokers were waited for: until they had what was sent, and the commit."""
        self._open()

    def _open(self) -> None:
        shared = self._shared
        transactional_id = shared.transactional_id(self._index) if shared.exactly_once else None
        settings = shared.config.producer_config(transactional_id, client_id=f"{self._name}-producer")
        self._producer = producer = RecordProducer(settings, shared.config.max_block_ms)
        producer.careful = self._careful
        self.collector = ProducerCollector(producer, self._partition_count)
        """Where tasks made from now on send to."""
        if transactional_id is not None:
            # fences a predecessor of this process and ends what it left open, which others may be waiting for
            self.retried("initialising transactions", lambda: self._initialise(producer))

    def _initialise(self, producer: RecordProducer) -> None:
        try:
            producer.init_transactions(_ATTEMPT_S)
        except TimeoutException:
            self._check_transactions()
            raise

    @property
    def careful(self) -> bool:
        """Whether tasks made from now on send one record at a time, until the next commit."""
        return self._careful

    @careful.setter
    def careful(self, value: bool) -> None:
        self._careful = self._producer.careful = value

    @property
    def in_transaction(self) -> bool:
        """Whether something was sent in a transaction that is open."""
        return self._producer.in_transaction

    def due_in(self) -> float:
        """Seconds until ``commit.interval.ms`` has passed since the last commit; negative when it is over."""
        return self._last + self._shared.commit_interval_ms / 1000 - time.monotonic()

    def wait(self) -> float:
        """Seconds until a commit should be made; 0 when it should be now.

        While a JoinGroup is unanswered the brokers may have a newer generation than this member, and a transaction
        with the old one fails: all tasks would start again. So a commit that is due waits a little for the answer.
        """
        due = self.due_in()
        if due > 0:
            return due
        if -due < self._longest_doubt_s and self._membership.generation_in_doubt():
            return _DOUBT_PAUSE_S
        return 0.0

    def serve(self) -> None:
        """Take in acknowledgements that have arrived, and act on what failed; see the module."""
        self._producer.poll(0.0)
        try:
            self._producer.check()
        except SendFailedException as e:
            self._raise_failed(e)

    def commit(self, tasks: Collection[StreamTask], position: Callable[[TopicPartition], int | None]) -> bool:
        """Commit what these tasks, all that run, have done. Returns whether there was anything.

        Raises:
            TaskMigratedException, TaskCorruptedException, StreamsException: See the module.
        """
        started = self._last = time.monotonic()
        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        for task in tasks:
            offsets |= task.prepare_commit(position)
        producer = self._producer
        anything = bool(offsets) or producer.in_transaction
        waits = time.monotonic()
        try:
            if self._shared.exactly_once:
                if anything:
                    self._commit_transaction(offsets or _any_committed(tasks))
            else:
                self._flush()
                if offsets:
                    self.retried("committing offsets", lambda: self._membership.commit_offsets(offsets, _ATTEMPT_S))
        finally:
            self.blocked_s += time.monotonic() - waits
        acked = producer.acked_offsets()
        for task in tasks:
            task.post_commit(acked)
        self.commits += 1
        if anything:
            self.careful = False
            self._patience.succeeded()
        _log.debug("%s: committed %d offsets in %.1f ms", self._name, len(offsets), 1e3 * (time.monotonic() - started))
        return anything

    def _commit_transaction(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        producer = self._producer
        try:
            self._flush()
            # asked for even when there are no offsets to check it by
            identity = self._membership.identity()
            if offsets:
                self.retried("adding offsets", lambda: producer.send_offsets(offsets, identity, _ATTEMPT_S))
            self.retried("committing", lambda: producer.commit_transaction(_ATTEMPT_S))
        except CommitOutcomeUnknownException as e:
            raise TaskCorruptedException(
                f"the outcome of a commit is unknown, so the tasks restart from what the brokers hold: {e}", ()
            ) from e
        except TransactionAbortableException as e:
            self._raise_failed(e)
            self._raise_missing(e)
            raise TaskCorruptedException(f"a transaction cannot commit: {e}", ()) from e
        except SendFailedException as e:
            self._raise_failed(e)

    def give_up(self, error: Exception | None) -> None:
        """Drop what was sent since the last commit: abort the transaction, with a new producer after an error.

        Without transactions the producer stays, unless it is of no more use.

        Args:
            error: Why; None when the member was lost.
        """
        producer = self._producer
        if not self._shared.exactly_once:
            if not producer.broken:
                producer.drop_unsent()
                producer.take_failures()
                return
        elif error is None:
            try:
                producer.abort_transaction(_ATTEMPT_S)
                return
            except KafkaException as e:
                _log.info("%s: the transaction could not be aborted, a new producer ends it: %s", self._name, e)
        # after a failed transaction librdkafka's producer may hang in the epoch it tries to get; a new one ends the
        # transaction of the old by its id
        producer.close()
        self._open()

    def pause_after(self, error: Exception) -> float:
        """Seconds to wait before tasks are made again after ``error``: longer each time without a commit between.

        Raises:
            StreamsException: There has been nothing but failures for ``task.timeout.ms``.
        """
        failing_s = self._patience.failed(time.monotonic())
        if failing_s > self._shared.task_timeout_ms / 1000:
            raise StreamsException(
                f"{self._name}: no commit has succeeded for {failing_s:.0f} s (task.timeout.ms): {error}"
            ) from error
        return self._patience.pause_s()

    def close(self, clean: bool) -> None:
        """Free the producer; an open transaction is aborted, also one that processors have begun as they were closed.

        Args:
            clean: Whether all was committed before the tasks were closed.
        """
        if self._shared.exactly_once or not clean:
            try:
                self._producer.abort_transaction(_LAST_ABORT_S)
            except KafkaException as e:
                _log.info("%s: the last transaction was not aborted: %s", self._name, e)
        # at least once, what was sent before the end may as well arrive: dead letters of what it ends by are among it,
        # and what processors send as they close
        self._producer.close(0.0 if self._shared.exactly_once else _LAST_SENDS_S)

    def retried(self, what: str, call: Callable[[], P]) -> P:
        """``call`` until it does not time out, for up to ``task.timeout.ms``; the membership stays alive meanwhile.

        Raises:
            TimeoutException: It still does, or the thread is to end.
        """
        deadline = time.monotonic() + self._shared.task_timeout_ms / 1000
        while True:
            try:
                return call()
            except TimeoutException as e:
                if time.monotonic() >= deadline or self._stopping.is_set():
                    raise
                _log.warning("%s: %s: %s; trying again", self._name, what, e)
                self._membership.note_poll()

    def _flush(self) -> None:
        try:
            self.retried("flushing", lambda: self._producer.flush(_ATTEMPT_S))
        except SendFailedException as e:
            self._raise_failed(e)

    def _raise_failed(self, error: KafkaException) -> None:
        """Raise what the records that have failed mean; returns when none has."""
        failures = self._producer.take_failures() or ([error] if isinstance(error, SendFailedException) else [])
        for failure in failures:
            if isinstance(failure, (TaskMigratedException, AuthorizationException)):
                raise failure
        for failure in failures:
            if isinstance(failure, SendFailedException) and failure.refused:
                raise RecordRefusedException(f"{failure}. Nothing of what followed the last commit is committed")
        if failures:
            raise TaskCorruptedException(f"records were not written: {failures[0]}", ()) from failures[0]

    def _raise_missing(self, error: KafkaException) -> None:
        """Raise what it means that a topic written to does not exist: trying again would not help.

        A transactional client only says that something was not delivered.
        """
        try:
            missing = self._missing(self.collector.topics)
        except AuthorizationException:
            raise  # who may not see a topic may not write to it
        except KafkaException as e:
            _log.info("%s: whether all topics exist is not known: %s", self._name, e)
            return
        if missing:
            raise StreamsException(
                f"{self._name}: a transaction cannot commit, because topics that it writes to do not exist: "
                f"{', '.join(sorted(missing))}. Topics of sinks and of dead letters are not made here: create them"
            ) from error


def _any_committed(tasks: Iterable[StreamTask]) -> dict[TopicPartition, OffsetAndMetadata]:
    # a transaction without offsets would not be checked against the group by the brokers: one that has been committed
    # is sent again, which changes nothing
    for task in tasks:
        for tp, entry in task.committed_offsets().items():
            return {tp: entry}
    return {}
