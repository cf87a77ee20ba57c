"""Sending records to a topic, outside of any application."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Self

from headrace.errors import KafkaException
from headrace.kafka import RecordProducer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from headrace.records import Headers

_POLL_EVERY = 1_000
_BULK: Mapping[str, Any] = {"linger.ms": 20, "batch.size": 262_144, "compression.type": "lz4"}


class TopicWriter:
    """Sends records, idempotent and in order, to the partitions that Java's default partitioner would choose.

    Used by one thread. As a context manager it flushes at the end of a block that did not fail, and closes.

    Args:
        bootstrap_servers: ``host:port`` list of the brokers.
        client: more librdkafka settings, such as security; the defaults suit bulk loads.
    """

    def __init__(self, bootstrap_servers: str, *, client: Mapping[str, Any] | None = None) -> None:
        self._producer = RecordProducer({**_BULK, **(client or {}), "bootstrap.servers": bootstrap_servers})
        self._sent = 0

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        timestamp_ms: int | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
    ) -> None:
        """Queues one record.

        Args:
            topic: must exist.
            key: its murmur2 hash chooses the partition; None chooses one at random.
            value: None is a tombstone.
            timestamp_ms: epoch ms; None is now.
            headers: in order, names may repeat.
            partition: instead of the key's.

        Raises:
            SendFailedException: the record, or one before it, was refused.
            TimeoutException: the brokers take nothing any more.
        """
        self._producer.send(topic, partition, key, value, timestamp_ms, headers)
        self._sent += 1
        if self._sent % _POLL_EVERY == 0:
            self._producer.poll()
            self._producer.check()

    def flush(self, timeout_s: float = 60.0) -> None:
        """Waits until every record has arrived.

        Raises:
            SendFailedException: the first record that did not.
            TimeoutException: some are still on their way after ``timeout_s`` seconds.
        """
        self._producer.flush(timeout_s)

    def close(self) -> None:
        """Free the client; what is still queued is dropped."""
        self._producer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.flush()
        finally:
            self.close()


class TransactionalWriter:
    """Sends records to topics in transactions: those of one are seen together, or never.

    Opening it ends whatever an earlier writer of the same transactional id has left open, and makes that one useless.
    Used by one thread. As a context manager it commits at the end of a block that did not fail, aborts after one that
    did, and closes.

    Args:
        bootstrap_servers: ``host:port`` list of the brokers.
        transactional_id: who writes; only one at a time writes under one id.
        client: more librdkafka settings, such as security.
        timeout_s: of each wait for the brokers, in seconds.

    Raises:
        TimeoutException: the brokers did not answer in time, as when their transaction log is not available.
        AuthorizationException: Write on the transactional id is missing.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        transactional_id: str,
        *,
        client: Mapping[str, Any] | None = None,
        timeout_s: float = 60.0,
    ) -> None:
        self._timeout_s = timeout_s
        self._producer = RecordProducer(
            {**(client or {}), "bootstrap.servers": bootstrap_servers, "transactional.id": transactional_id}
        )
        try:
            self._producer.init_transactions(timeout_s)
        except BaseException:
            self.close()
            raise

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        timestamp_ms: int | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
    ) -> None:
        """Queues one record, beginning a transaction if none is open; arguments and errors as :class:`TopicWriter`'s.

        Raises:
            TransactionAbortableException: the transaction has failed already.
            TaskMigratedException: another writer has taken over the transactional id.
        """
        self._producer.send(topic, partition, key, value, timestamp_ms, headers)

    def commit(self) -> None:
        """Makes what was sent visible. Does nothing when nothing was.

        Raises:
            TimeoutException: no answer in time: nobody knows yet whether it is committed. May be called again.
            TransactionAbortableException: a record did not arrive; nothing is visible.
            TaskMigratedException: another writer has taken over the transactional id; nothing is visible.
        """
        self._producer.commit_transaction(self._timeout_s)

    def abort(self) -> None:
        """Drops what was sent since the last commit.

        Raises:
            TimeoutException: no answer in time; may be called again.
        """
        self._producer.abort_transaction(self._timeout_s)

    def close(self) -> None:
        """Free the client; an open transaction is aborted by the brokers once its time is up."""
        self._producer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.commit()
            else:
                with contextlib.suppress(KafkaException):  # what happened first is what is told
                    self.abort()
        finally:
            self.close()
