"""Writing records: one producer, transactional or plain idempotent, with its delivery errors kept.

How a transaction goes: ``init_transactions`` once; the first send (or ``send_offsets``) begins one; ``flush`` waits
for every acknowledgement, after which ``acked_offsets`` names the last offset of each tracked partition;
``send_offsets`` puts the read positions in; ``commit_transaction``, or ``abort_transaction``.

Invariants:

* A delivery callback costs 0.3 us a record, 0.6 if it asks for the offset: more than half of a send. In a transaction a
  failed record fails the commit, so only a plain producer gives each record a callback (to notice its failure).
* Of tracked records only the last one of a partition needs its offset known. So each waits in a slot until the next one
  of its partition comes, and the one left there is sent, with a callback, by ``flush`` or the commit.
* What waits in a slot when the tasks are lost must never be written: their next owner has written behind it by then.
  ``abort_transaction`` and ``drop_unsent`` empty the slots without sending.
* Offsets are only sent for a real member: the broker accepts generation -1 with an empty member id while the group
  has members, which would let a zombie commit (see ``send_offsets``).
* librdkafka writes timestamp 0 as "now" without a word; 1 ms is sent in its place, with one warning.
"""

# ruff: noqa: SLF001 - librdkafka names its local error codes with a leading underscore
# pyright: reportPrivateUsage=false

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka import KafkaException as ClientException

from headrace.errors import (
    AuthorizationException,
    IllegalStateException,
    KafkaException,
    RecordRefusedException,
    StreamsException,
    TaskCorruptedException,
    TaskMigratedException,
    TimeoutException,
    TransactionAbortableException,
)
from headrace.kafka.acls import Acl, missing, writing
from headrace.kafka.connections import Bootstrap, data_client_config
from headrace.kafka.errors import (
    REFUSED_IN_TRANSACTION,
    REFUSED_RECORD,
    ClosedClient,
    CommitOutcomeUnknownException,
    SendFailedException,
    client_error,
    refuses_entry,
    translate,
    translate_config_error,
)
from headrace.kafka.transaction_offsets import send_offsets_to_transaction
from headrace.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.records import GroupIdentity, Headers, OffsetAndMetadata

log = logging.getLogger(__name__)

DeliveryCallback: TypeAlias = Callable[[KafkaError | None, Message], None]
DeliveryFailure: TypeAlias = SendFailedException | TaskMigratedException | AuthorizationException
_Slot: TypeAlias = "tuple[bytes | None, bytes | None, int | None, Headers | None]"

_DEFAULTS: Mapping[str, Any] = {
    "enable.idempotence": True,
    "partitioner": "murmur2_random",
    "retry.backoff.ms": 5,
}
_BROKEN_SEQUENCE = frozenset(
    {
        KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
        KafkaError.UNKNOWN_PRODUCER_ID,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError._INCONSISTENT,
    }
)
"""A broker and a plain producer do not agree on what was written, as when a leader was chosen that lacks some of it."""
_PURGED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
_RETRY_PAUSE_S = 0.05
_NOT_ADDED = re.compile(r'Failed to add partition "([^"]+)" \[\d+\] to transaction: .*authorization failed')
_NOT_WRITTEN = re.compile(r"ProduceRequest for (\S+) \[\d+\] .*Topic authorization failed")
_KEPT_FAILURES = 1000
_LOOK_S = 1.0
"""Longest wait for what only makes a message clearer, in seconds."""


class SendFunction(Protocol):
    """A send bound to one topic; positional arguments only."""

    def __call__(
        self,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        timestamp: int | None,
        headers: Headers | None,
        /,
    ) -> None:
        """Queue one record; see ``RecordProducer.send`` for what it may raise."""
        ...


class RecordProducer:
    """A producer of raw records. Used by one thread.

    Args:
        config: librdkafka settings (dotted names). With ``transactional.id`` every record belongs to a transaction.
        max_block_ms: longest wait of one send for room in the client's queue, in ms (Java's ``max.block.ms``).

    Raises:
        ConfigException: librdkafka does not know or allow a setting.
    """

    def __init__(self, config: Mapping[str, Any], max_block_ms: int = 60_000) -> None:
        self._fatal: KafkaException | None = None
        self._unwritable: set[str] = set()
        settings: dict[str, Any] = {**_DEFAULTS, **config, "error_cb": self._on_client_error}
        self._transactional_id: str | None = settings.get("transactional.id") or None
        self._max_block_s = max_block_ms / 1000
        self._bootstrap = Bootstrap(settings)
        try:
            # Any: the client's stub asks for headers of text or bytes in an invariant list, ours are bytes.
            self._client: Any = Producer(data_client_config(settings), logger=_Log(self._unwritable))
        except ClientException as error:
            raise translate_config_error(error, "producer") from error
        self._initialised = self._transactional_id is None
        # True when the next send has to begin a transaction first; read once per record.
        self._begin_needed = self._transactional_id is not None
        self._acked: dict[str, dict[int, int]] = {}
        self._slots: dict[str, dict[int, _Slot]] = {}
        self._topics: set[str] = set()
        self._delivered: DeliveryCallback | None = None if self._transactional_id else self._on_delivery
        self._failures: list[DeliveryFailure] = []
        self._failure_count = 0
        self._warned_zero = False
        self.careful = False
        """Each record is sent alone and waited for, by senders bound from now on: a broker refuses whole batches."""
        self._closed = False

    @property
    def broken(self) -> bool:
        """Whether a fatal error has ended the client: another one has to take its place."""
        return self._fatal is not None

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction was begun and neither committed nor aborted."""
        return self._transactional_id is not None and not self._begin_needed

    def init_transactions(self, timeout_s: float) -> None:
        """Fence older producers of this transactional id and finish what they left open.

        Raises:
            TimeoutException: no answer in time; may be called again.
            AuthorizationException: Write on the transactional id is missing.
        """
        self._retrying("initialising transactions", timeout_s, self._client.init_transactions, TimeoutException)
        self._initialised = True

    def send(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        timestamp: int | None = None,
        headers: Headers | None = None,
    ) -> None:
        """Queue one record, beginning a transaction if none is open.

        Args:
            topic: destination.
            partition: None lets librdkafka choose by murmur2 of the key, at random for a null key.
            key: bytes, or None.
            value: bytes, or None (a tombstone).
            timestamp: ms since the epoch; None is now. 0 is sent as 1 (see the module's text).
            headers: in order, names may repeat, values may be None; None for no headers.

        Raises:
            SendFailedException: the record was refused on the spot, such as one above ``message.max.bytes``.
            TransactionAbortableException: the transaction has failed already; abort it.
            RecordRefusedException: the same because a record before this one was refused for what it is.
            StreamsException: a negative timestamp.
            TimeoutException: the queue stayed full for ``max_block_ms``.
            TaskMigratedException: this producer was fenced.
        """
        self._bound(topic, self._delivered)(partition, key, value, timestamp, headers)

    def bind_send(self, topic: str) -> SendFunction:
        """A faster ``send`` for one topic: (partition, key, value, timestamp, headers).

        While the producer is ``careful``, it returns when the broker has the record.

        Raises:
            SendFailedException, RecordRefusedException: when sending carefully: the broker refused this very record;
                the latter inside a transaction, which cannot commit then.
        """
        if not self.careful:
            return self._bound(topic, self._delivered)
        return self._waiting(self._bound(topic, self._on_delivery))

    def bind_tracked_send(self, topic: str) -> SendFunction:
        """As ``bind_send``, for changelog records: their offsets are known to ``acked_offsets`` after a ``flush``.

        Each needs its partition, and is held back until the next one of that partition, ``flush`` or the commit; an
        error raised by a send may be about the one before it.
        """
        slots = self._slots.setdefault(topic, {})
        send_earlier = self._bound(topic, self._delivered)

        def send(
            partition: int | None,
            key: bytes | None,
            value: bytes | None,
            timestamp: int | None,
            headers: Headers | None,
            /,
        ) -> None:
            if self._begin_needed:
                self._begin()
            if partition is None:
                raise StreamsException(f"sending to {topic}: a tracked record needs its partition")
            earlier = slots.get(partition)
            slots[partition] = (key, value, timestamp, headers)
            if earlier is not None:
                send_earlier(partition, *earlier)

        return self._waiting(send) if self.careful else send

    def _waiting(self, send: SendFunction) -> SendFunction:
        """A send that waits for the broker's answer, as long as the producer is careful."""

        def send_and_wait(
            partition: int | None,
            key: bytes | None,
            value: bytes | None,
            timestamp: int | None,
            headers: Headers | None,
            /,
        ) -> None:
            send(partition, key, value, timestamp, headers)
            if not self.careful:
                return
            self._empty_slots()
            left = self._serve(self._client.flush, self._max_block_s)
            refused = next((f for f in self._failures if isinstance(f, SendFailedException) and f.refused), None)
            if refused is not None:
                self._failures.remove(refused)
                if self.in_transaction:
                    raise RecordRefusedException(f"{refused}. {REFUSED_IN_TRANSACTION}", exact=True) from refused
                raise refused
            self.check()
            if left:
                raise TimeoutException(f"a record is not acknowledged after {self._max_block_s} s (max.block.ms)")

        return send_and_wait

    def poll(self, timeout_s: float = 0.0) -> None:
        """Take in acknowledgements that have arrived; call it in every round of the loop, else the queue fills."""
        self._serve(self._client.poll, timeout_s)

    def flush(self, timeout_s: float) -> None:
        """Wait until every record sent is acknowledged or has failed.

        Raises:
            TimeoutException: records are still on their way after ``timeout_s`` seconds.
            SendFailedException: the first record that failed since the last ``take_failures`` or abort.
            AuthorizationException: it failed because Write on its topic is missing.
            TaskMigratedException: this producer was fenced.
        """
        self._empty_slots()
        left = self._serve(self._client.flush, timeout_s)
        self.check()
        if left:
            raise TimeoutException(
                f"{left} records are not acknowledged after {timeout_s} s{self._absent_topics()}. It may be tried again"
            )

    def check(self) -> None:
        """Raise the first delivery error, or the fatal error, there has been; cheap, asks nobody.

        Raises:
            TaskCorruptedException: A plain producer can no longer number its records (see :attr:`broken`).
            SendFailedException, AuthorizationException, TaskMigratedException, StreamsException: As ``flush``.
        """
        if self._fatal is not None:
            raise self._fatal
        if self._failures:
            raise self._failures[0]

    def take_failures(self) -> list[DeliveryFailure]:
        """The failed records (the first thousand) since the last call, which are forgotten by this."""
        failures, self._failures = self._failures, []
        self._failure_count = 0
        return failures

    def acked_offsets(self) -> dict[TopicPartition, int]:
        """The offset of the last tracked record of every partition, as of the last ``flush`` or commit.

        Kept through commits; forgotten by ``abort_transaction`` and ``drop_unsent``: when the tasks are lost, their
        topics may be made anew, with smaller offsets.
        """
        return {
            TopicPartition(topic, partition): offset
            for topic, offsets in self._acked.items()
            for partition, offset in offsets.items()
        }

    def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupIdentity, timeout_s: float = 60.0
    ) -> None:
        """Put read positions into the transaction, to be committed with it.

        Raises:
            TaskMigratedException: ``group`` is no member (generation below 0, or no member id; refused here, as the
                broker would accept it), its generation is over, or this producer was fenced.
            TimeoutException: no answer in time; may be called again.
            TransactionAbortableException: abort; or the client hangs, and a new producer has to take its place.
        """
        if self._transactional_id is None:
            raise IllegalStateException("send_offsets needs a producer with a transactional.id")
        _check_member(group)
        if not offsets:
            return
        if self._begin_needed:
            self._begin()
        self._retrying(
            f"adding offsets of group {group.group_id} to transaction {self._transactional_id}",
            timeout_s,
            lambda left: send_offsets_to_transaction(self._client, offsets, group, left),
            TimeoutException,
            (Acl("Read", "group", group.group_id), *(Acl("Read", "topic", tp.topic) for tp in offsets)),
        )

    def commit_transaction(self, timeout_s: float = 60.0) -> None:
        """Flush and commit; does nothing when no transaction was begun.

        Raises:
            CommitOutcomeUnknownException: no answer in time; call again, see there for what else.
            TransactionAbortableException: abort; a record failed, and the message names its topic if the client did.
            TaskMigratedException: this producer was fenced.
        """
        if not self.in_transaction:
            return
        self._empty_slots()
        self._retrying(
            f"committing transaction {self._transactional_id}",
            timeout_s,
            self._client.commit_transaction,
            CommitOutcomeUnknownException,
        )
        self._begin_needed = True

    def abort_transaction(self, timeout_s: float = 60.0) -> None:
        """Drop everything sent since the transaction began, the delivery errors with it, and all acked offsets.

        Asks the brokers nothing when no transaction was begun.

        Raises:
            TimeoutException: no answer in time; may be called again.
            TaskMigratedException: this producer was fenced (the transaction is aborted by that).
        """
        self._clear_slots()
        self._forget_acked()
        if not self.in_transaction:
            return
        self._retrying(
            f"aborting transaction {self._transactional_id}",
            timeout_s,
            self._client.abort_transaction,
            TimeoutException,
        )
        self._begin_needed = True
        self.take_failures()
        self._forget_acked()

    def drop_unsent(self) -> None:
        """Give up what no broker was sent yet, the delivery errors kept, and the acked offsets.

        For a plain producer whose tasks are lost.

        What is on its way to a broker is left alone. Does nothing to a transaction: that is ``abort_transaction``'s.
        """
        if self._transactional_id is not None:
            return
        self._clear_slots()
        # confluent_kafka has the sense of blocking turned round: False is what waits. Otherwise the client's threads go
        # on purging after the return, and take records that are sent next.
        self._client.purge(in_queue=True, in_flight=False, blocking=False)
        self.take_failures()
        self._forget_acked()

    def close(self, timeout_s: float = 0.0) -> None:
        """Free the client. Records still queued are waited for up to ``timeout_s`` seconds, then dropped.

        An open transaction is left to the next owner's ``init_transactions`` or the broker's timeout: abort it first.
        """
        if self._closed:
            return
        self._closed = True
        try:
            if timeout_s > 0:
                self._empty_slots()
                self._serve(self._client.flush, timeout_s)
            self._clear_slots()
            self._client.purge()
            self._serve(self._client.flush, 1.0)
        except KafkaException as error:
            log.info("closing the producer: %s", error)  # what could not be sent was said before, or is given up
        # The client's own close() aborts an open transaction first and waits for that without limit. Such a client is
        # freed with the last reference to it instead, which is ours once the senders bound to it are gone.
        if self._initialised and not self.in_transaction:
            try:
                self._client.close()
            except ClientException as error:
                log.info("closing the producer: %s", error)
        self._client = ClosedClient("producer")

    def _serve(self, call: Callable[[float], int], timeout_s: float) -> int:
        """Run poll or flush, both of which raise a fatal error as soon as the client has one."""
        try:
            return call(timeout_s)
        except (ClientException, SystemError) as error:
            self._fatal = self._translated(client_error(error))
            raise self._fatal from self._fatal.__cause__ or error

    def _translated(self, error: KafkaError | ClientException) -> KafkaException:
        doing = f"producer {self._transactional_id or ''}".rstrip()
        mapped = translate(error, doing, self._needed())
        told = error if isinstance(error, KafkaError) else error.args[0]
        if self._transactional_id is None and told.fatal() and told.code() in _BROKEN_SEQUENCE:
            return TaskCorruptedException(f"{mapped}. Another producer goes on from what is committed", ())
        return mapped

    def _needed(self) -> tuple[Acl, ...]:
        return writing(sorted(self._unwritable), self._transactional_id)

    def _forget_acked(self) -> None:
        for offsets in self._acked.values():
            offsets.clear()

    def _clear_slots(self) -> None:
        for slots in self._slots.values():
            slots.clear()

    def _empty_slots(self) -> None:
        """Send the last tracked record of each partition, asking for its offset."""
        for topic, slots in self._slots.items():
            if slots:
                send = self._bound(topic, self._tracker(topic))
                for partition, slot in slots.items():
                    send(partition, *slot)
                slots.clear()

    def _tracker(self, topic: str) -> DeliveryCallback:
        offsets = self._acked.setdefault(topic, {})

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                offsets[message.partition()] = message.offset()  # type: ignore[index,assignment]  # acknowledged: both known
            else:
                self._failed(error, message)

        return delivered

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed(error, message)

    def _absent_topics(self) -> str:
        """Which of the topics written to do not exist, or are hidden from this principal, for a message.

        The client waits for both without a word.
        """
        try:
            unlisted = sorted(self._topics.difference(self._client.list_topics(timeout=_LOOK_S).topics))
            # the list leaves out what may not be seen; who asks for the one topic is told so
            errors = {topic: self._client.list_topics(topic, timeout=_LOOK_S).topics[topic].error for topic in unlisted}
        except ClientException:
            return ""  # the brokers do not answer, which the caller tells
        refused = [
            topic
            for topic, error in errors.items()
            if error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        ]
        absent = [topic for topic in unlisted if topic not in refused]
        parts = [f"there is no topic {', '.join(absent)}: create it"] if absent else []
        parts += [missing(Acl("Write", "topic", topic) for topic in refused)] if refused else []
        return "".join(f"; {part}" for part in parts)

    def _bound(self, topic: str, delivered: DeliveryCallback | None) -> SendFunction:
        produce = self._client.produce
        self._topics.add(topic)

        def send(
            partition: int | None,
            key: bytes | None,
            value: bytes | None,
            timestamp: int | None,
            headers: Headers | None,
            /,
        ) -> None:
            if self._begin_needed:
                self._begin()
            if partition is None:
                partition = -1
            if timestamp is None:
                timestamp = 0
            elif timestamp <= 0:
                timestamp = self._odd_timestamp(topic, timestamp)
            try:
                produce(topic, value, key, partition, delivered, None, timestamp, headers)
            except BufferError:
                self._await_room(topic, partition, key, value, timestamp, headers, delivered)
            except ClientException as error:
                refused = self._refused(error, topic, partition, key)
                raise refused from refused.__cause__ or error

        return send

    def _await_room(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers | None,
        delivered: DeliveryCallback | None,
    ) -> None:
        deadline = time.monotonic() + self._max_block_s
        while True:
            self._serve(self._client.poll, _RETRY_PAUSE_S)
            try:
                self._client.produce(topic, value, key, partition, delivered, None, timestamp, headers)
            except BufferError as full:
                if time.monotonic() >= deadline:
                    raise TimeoutException(
                        f"sending to {topic}: the client's queue stayed full for {self._max_block_s} s "
                        "(max.block.ms); the brokers take records slower than they are sent, or not at all"
                    ) from full
            except ClientException as error:
                refused = self._refused(error, topic, partition, key)
                raise refused from refused.__cause__ or error
            else:
                return

    def _refused(self, error: ClientException, topic: str, partition: int, key: bytes | None) -> KafkaException:
        """What a produce that was turned down means: for the record itself, or for everything after what went before.

        The client answers with ``_FATAL`` or ``_STATE`` alone then, and keeps the reason to be asked for.
        """
        inner = error.args[0]
        if not inner.fatal() and inner.code() not in (KafkaError._STATE, KafkaError._FATAL):
            return _send_failed(inner, topic, partition, key)
        if self._fatal is None:
            try:
                self._serve(self._client.poll, 0.0)  # the fatal error is an event that may not have been served yet
            except KafkaException as fatal:
                return fatal
        if self._fatal is not None:
            return self._fatal
        if inner.code() == KafkaError._FATAL:
            return TaskMigratedException(
                f"sending to {topic} failed: {inner.str()}: the producer is of no more use, as one that was fenced. "
                "This instance no longer owns its tasks; it will join anew"
            )
        if self.in_transaction:
            return self._failed_transaction(topic)
        return translate(inner, f"sending to {topic}", writing((topic,), None))

    def _failed_transaction(self, topic: str) -> KafkaException:
        """Why the open transaction takes no more records."""
        doing = f"transaction {self._transactional_id} (found when sending to {topic})"
        try:
            # Of all calls that tell the reason the one that can do no harm: a transaction is open, so it never begins.
            self._client.begin_transaction()
        except ClientException as reason:
            if reason.args[0].txn_requires_abort() or reason.args[0].fatal():
                return self._transaction_error(reason.args[0], doing)
        return TransactionAbortableException(f"{doing} is being committed or aborted and takes no more records")

    def _odd_timestamp(self, topic: str, timestamp: int) -> int:
        if timestamp < 0:
            raise StreamsException(
                f"sending to {topic}: timestamp {timestamp} is negative; a record's timestamp is 0 or more"
            )
        if not self._warned_zero:
            self._warned_zero = True
            log.warning(
                "a record to %s has timestamp 0, which the client library would replace by the present time; "
                "it is sent with timestamp 1 ms. Said once",
                topic,
            )
        return 1

    def _begin(self) -> None:
        if not self._initialised:
            raise IllegalStateException("init_transactions has to be called before the first record is sent")
        try:
            self._client.begin_transaction()
        except ClientException as error:
            mapped = self._fatal or translate(error, f"beginning transaction {self._transactional_id}")
            raise mapped from mapped.__cause__ or error
        self._begin_needed = False

    def _failed(self, error: KafkaError, message: Message) -> None:
        if error.code() in _PURGED:
            # Given up on purpose: by drop_unsent, by close, or with a transaction that has failed for another reason,
            # which its commit tells.
            return
        failure = _send_failed(
            error,
            message.topic() or "",
            -1 if message.partition() is None else int(message.partition() or 0),
            message.key(),
        )
        self._failure_count += 1
        if len(self._failures) < _KEPT_FAILURES:
            self._failures.append(failure)

    def _retrying(
        self,
        doing: str,
        timeout_s: float,
        attempt: Callable[[float], None],
        late: type[TimeoutException],
        needs: Iterable[Acl] = (),
    ) -> None:
        """Run a transactional call, again while its error is retriable, until the deadline; raise ``late`` then."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                attempt(max(deadline - time.monotonic(), 0.001))
            except ClientException as error:
                inner = error.args[0]
                if inner.retriable():
                    if time.monotonic() + _RETRY_PAUSE_S < deadline:
                        time.sleep(_RETRY_PAUSE_S)
                        continue
                    raise late(f"{doing}: no outcome within {timeout_s} s: {inner.name()}: {inner.str()}") from error
                mapped = self._transaction_error(inner, doing, needs)
                raise mapped from mapped.__cause__ or error
            else:
                return

    def _transaction_error(self, error: KafkaError, doing: str, needs: Iterable[Acl] = ()) -> KafkaException:
        if found := _NOT_WRITTEN.search(error.str()):
            # whatever is asked next is told why the transaction has failed before it
            self._unwritable.add(found[1])
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED and not self._unwritable:
            self._serve(self._client.poll, _RETRY_PAUSE_S)  # the topic is in a log line that may be on its way
        mapped = translate(error, doing, self._needed() if self._unwritable else (*needs, *self._needed()))
        first = self._failures[0] if self._failures else None
        if isinstance(first, (TaskMigratedException, AuthorizationException)) and not isinstance(mapped, type(first)):
            return first
        if first is not None and isinstance(mapped, TransactionAbortableException):
            mapped = TransactionAbortableException(f"{mapped}; first of {self._failure_count} failed records: {first}")
            mapped.__cause__ = first
        elif error.code() == KafkaError._INCONSISTENT:
            # records failed, but in a transaction none of them has a callback that would tell which
            mapped = TransactionAbortableException(f"{mapped}{self._absent_topics()}")
        if error.fatal():
            self._fatal = mapped
        return mapped

    def _on_client_error(self, error: KafkaError) -> None:
        if error.fatal() or refuses_entry(error):
            self._fatal = self._translated(error)
        else:
            self._bootstrap.on_error(self._client, error)
            log.warning("producer: %s: %s", error.name(), error.str())


class _Log:
    """The client's log, of which one line is read: only it names the topics that a transaction may not write to."""

    def __init__(self, unwritable: set[str]) -> None:
        self._unwritable = unwritable

    def log(self, level: int, text: str, *args: object) -> None:
        """As a ``Logger``'s."""
        if found := _NOT_ADDED.search(str(args[-1]) if args else text):
            self._unwritable.add(found[1])
        log.log(level, text, *args)


def _check_member(group: GroupIdentity) -> None:
    if group.generation < 0 or not group.member_id:
        # the broker takes such a commit for one from outside any group and lets it through: stopped here or nowhere
        raise TaskMigratedException(
            f"group {group.group_id}: offsets of a member without generation or id (generation {group.generation}, "
            f"member '{group.member_id}') are not committed; its tasks belong to others by now"
        )


def _send_failed(error: KafkaError, topic: str, partition: int, key: bytes | None) -> DeliveryFailure:
    where = topic if partition < 0 else f"{topic}-{partition}"
    doing = f"writing a record with {'no key' if key is None else f'a key of {len(key)} bytes'} to {where}"
    mapped = translate(error, doing, writing((topic,), None))
    if isinstance(mapped, (TaskMigratedException, AuthorizationException)):
        return mapped
    # The client has tried again for as long as it may (delivery.timeout.ms), so a timeout's own advice is void here.
    message = f"{doing} failed: {error.name()}: {error.str()}" if isinstance(mapped, TimeoutException) else str(mapped)
    failed = SendFailedException(
        message, topic, partition, -1 if key is None else len(key), error.name(), error.code() in REFUSED_RECORD
    )
    failed.__cause__ = mapped
    return failed
