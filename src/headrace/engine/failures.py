"""What becomes of an error at an operator of a task: a handler decides, once, at the innermost one.

A fatal error is remembered before it is raised, because a user's ``except Exception`` round a forward may swallow it:
whoever runs the task looks at :attr:`TaskFailures.failure` after every run, and nothing of that run is committed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.api.handlers import (
    ErrorHandlerContext,
    LogAndFailProcessingExceptionHandler,
    ProducerRecord,
    Result,
    SerializationExceptionOrigin,
)
from headrace.api.record import Record
from headrace.engine.tracing import raw_source
from headrace.errors import (
    AuthorizationException,
    ConfigException,
    FailedProcessingException,
    KafkaException,
    RecordRefusedException,
    SerializationException,
    StreamsException,
    TaskCorruptedException,
    TaskMigratedException,
    TimeoutException,
    TransactionAbortableException,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.api.engine import Process, ProcessChange, RecordContext, Send
    from headrace.api.handlers import ErrorPolicy
    from headrace.engine.settings import EngineSettings
    from headrace.metrics import TaskMetrics
    from headrace.records import Headers, RawRecord, TaskId

_log = logging.getLogger(__name__)

_CROWD_LOG_INTERVAL_MS = 10_000

_NOT_FOR_HANDLERS = (
    FailedProcessingException,
    RecordRefusedException,
    TaskMigratedException,
    TaskCorruptedException,
    TransactionAbortableException,
)
"""Errors about the thread's own standing, not about the record in work: no handler may skip them."""

_WRONG_SETUP = (AuthorizationException, ConfigException)
"""Errors of a serde about what it was given, not about the record in work: no handler may skip them either."""


class Source(NamedTuple):
    """Where the input record lies. ``topic`` is None, and the numbers -1, outside of a record."""

    topic: str | None
    partition: int
    offset: int


class TaskFailures:
    """Errors and drops of one task.

    Attributes:
        failure: The first fatal error.
        unready: Why the head record cannot be decoded yet, when that is so.
        processing_may_go_on: Whether what decides about processing is not known to fail always.
    """

    def __init__(
        self,
        task_id: TaskId,
        settings: EngineSettings,
        record: RecordContext,
        metrics: TaskMetrics,
        policies: Mapping[str, ErrorPolicy],
        sender: Callable[[str], Send] | None,
    ) -> None:
        """Decide for one task.

        Args:
            task_id: The task.
            settings: Has the handlers.
            record: The record in work.
            metrics: Where drops are counted.
            policies: What decides in place of the handlers, by node.
            sender: Sends to a topic: for dead letters. None where there are none (global stores).
        """
        self.failure: Exception | None = None
        self.unready: TimeoutException | None = None
        handler = settings.processing_handler
        self.processing_may_go_on = type(handler) is not LogAndFailProcessingExceptionHandler or bool(policies)
        self._task_id = task_id
        self._settings = settings
        self._record = record
        self._metrics = metrics
        self._policies = policies
        self._sender = sender
        self._senders: dict[str, Send] = {}
        self._crowds: dict[tuple[str, str], tuple[int, int]] = {}
        """By node and reason: when the next record dropped for it may be logged, and how many were not."""

    def fail(self, error: Exception) -> Exception:
        """Remember the first fatal error. Returns what to raise."""
        if self.failure is None:
            self.failure = error
            # when a user's code swallows it, the run ends with this record all the same
            self._record.interrupt = True
        return self.failure

    def fail_here(self, error: Exception) -> Exception:
        """As :meth:`fail`, for whatever came up through the operators: an error that is not ours gets its place."""
        if self.failure is None and (
            not isinstance(error, KafkaException) or isinstance(error, SerializationException)
        ):
            source = self._here()
            wrapped = StreamsException(
                f"{type(error).__name__} while processing (taskId={self._task_id}, topic={source.topic}, "
                f"partition={source.partition}, offset={source.offset}): {error}",
                self._task_id,
            )
            wrapped.__cause__ = error
            return self.fail(wrapped)
        return self.fail(self._again(error) if isinstance(error, TimeoutException) else error)

    def drop(self, reason: str) -> None:
        """Count the record in work as dropped for ``reason`` and log where it lies, without its content."""
        self._drop(reason, self._here())

    def drop_late(self, node: str, timestamp: int, window: str, expiration: int, stream_time: int) -> None:
        """See :meth:`headrace.api.engine.NodeContext.drop_late`."""
        unsaid = self._drop_of_a_crowd(node, "expired window")
        if unsaid is None:
            return
        _log.warning(
            "Record dropped: expired window (taskId=%s, processor=%s, topic=%s, partition=%d, offset=%d, timestamp=%d, "
            "window=%s, expiration=%d, streamTime=%d); %d more since the last such message",
            self._task_id,
            node,
            *self._here(),
            timestamp,
            window,
            expiration,
            stream_time,
            unsaid,
        )

    def drop_one_of_many(self, node: str, reason: str) -> None:
        """See :meth:`headrace.api.engine.NodeContext.drop_one_of_many`."""
        unsaid = self._drop_of_a_crowd(node, reason)
        if unsaid is not None:
            _log.warning(
                "Record dropped: %s (%s); %d more since the last such message",
                reason,
                self._place(node, self._here()),
                unsaid,
            )

    def _drop_of_a_crowd(self, node: str, reason: str) -> int | None:
        """Count a record as dropped; how many were not logged before it, None when it is not to be logged either."""
        self._metrics.dropped[reason] += 1
        now = self._settings.steady_time_ms()
        next_ms, unsaid = self._crowds.get((node, reason), (now, 0))
        if now < next_ms:
            self._crowds[node, reason] = (next_ms, unsaid + 1)
            return None
        self._crowds[node, reason] = (now + _CROWD_LOG_INTERVAL_MS, 0)
        return unsaid

    def decode_error(self, node: str, topic: str, partition: int, error: Exception, half: str, raw: RawRecord) -> bool:
        """The key or value of an input record cannot be decoded.

        Returns:
            True when it is skipped; False when it has to wait, and :attr:`unready` says for what.

        Raises:
            StreamsException: The deserialization handler chose to fail, or the deserializer is not set up.
        """
        if isinstance(error, TimeoutException):
            self.unready = error
            return False
        if isinstance(error, (*_WRONG_SETUP, MemoryError)):
            raise self.fail(
                StreamsException(
                    f"The {half} of the record at {topic}-{partition} offset {raw[0]} cannot be read, through no fault "
                    f"of the record, and is not skipped: {error}",
                    self._task_id,
                )
            ) from error
        if not isinstance(error, SerializationException):
            error = _caused(SerializationException(f"{half} cannot be decoded: {type(error).__name__}"), error)
        source = self._here()
        context = self._context(source, node, raw[1], raw[4], (raw[2], raw[3]))
        handler = self._settings.deserialization_handler
        if self._ask(lambda: handler.handle_error(context, error), error, context):
            self._drop("deserialization error", source)
            return True
        raise self.fail(
            StreamsException(
                f"The {half} of the record at {topic}-{partition} offset {raw[0]} does not decode, and "
                "the deserialization exception handler chose to fail. Nothing at or past this offset is committed. "
                "To skip such records set deserialization.exception.handler to LogAndContinueExceptionHandler.",
                self._task_id,
            )
        ) from error

    def user_error(
        self, node: str, error: Exception, key: Any, value: Any, timestamp: int, headers: Headers | None
    ) -> None:
        """See :meth:`headrace.api.engine.NodeContext.user_error`."""
        self._pass_on(error)
        source = self._here()
        context = self._context(source, node, timestamp, headers)
        record: Record[Any, Any] = Record(key, value, max(timestamp, 0), headers)
        handler = self._settings.processing_handler
        if self._ask(lambda: handler.handle_error(context, record, error), error, context):
            self._drop("processing error", source)
            return
        place = self._place(node, source)
        raise self.fail(
            FailedProcessingException(f"Exception caught in process ({place}): {error}", self._task_id)
        ) from error

    def unhandled(
        self, node: str, error: Exception, key: Any, value: Any, timestamp: int, headers: Headers | None
    ) -> None:
        """As :meth:`user_error`, where no handler is asked.

        Raises:
            FailedProcessingException: Always.
        """
        self._pass_on(error)
        place = self._place(node, self._here())
        raise self.fail(
            FailedProcessingException(f"Exception caught in process ({place}): {error}", self._task_id)
        ) from error

    def punctuation_error(self, node: str, error: Exception, timestamp: int) -> None:
        """A punctuator failed: there is no record that could be skipped. Returns when the handler lets it go on.

        Raises:
            FailedProcessingException: The handler chose FAIL, or the error is one already handled further in.
        """
        self._pass_on(error)
        source = self._here()
        context = self._context(source, node, timestamp, [])
        handler = self._settings.processing_handler
        if self._ask(lambda: handler.handle_error(context, None, error), error, context):
            self._drop("processing error", source)
            return
        raise self.fail(
            FailedProcessingException(
                f"Exception caught while punctuating (taskId={self._task_id}, processor={node}, "
                f"timestamp={timestamp}): {error}",
                self._task_id,
            )
        ) from error

    def encode_error(
        self,
        node: str,
        topic: str,
        origin: SerializationExceptionOrigin,
        error: Exception,
        key: Any,
        value: Any,
        timestamp: int,
        headers: Headers | None,
        serializer: str,
    ) -> None:
        """The key or value of a record for a sink cannot be encoded. Returns when it is skipped.

        Raises:
            StreamsException: The production handler chose to fail, or the serializer is not set up.
        """
        self._pass_on(error)
        given = type(key if origin is SerializationExceptionOrigin.KEY else value).__name__
        what = f"The {origin.value} of a record for {topic} is a {given} that {serializer} does not take"
        if isinstance(error, SerializationException):
            what = f"{what}: {error}"
        else:
            error = _caused(SerializationException(f"{what}: {type(error).__name__}"), error)
        source = self._here()
        context = self._context(source, node, timestamp, headers)
        record = ProducerRecord(topic, None, key, value, timestamp, headers)
        handler = self._settings.production_handler
        if self._ask(lambda: handler.handle_serialization_error(context, record, error, origin), error, context):
            self._drop("serialization error", source)
            return
        failed = StreamsException(
            f"{what} ({self._place(node, source)}). Pass the serde that fits its type (Produced, Grouped, "
            "Repartitioned) or set the default serdes.",
            self._task_id,
        )
        raise (failed if self.processing_may_go_on else self.fail(failed)) from error

    def from_sink(self, node: str, process: Process) -> Process:
        """``process`` of the operator above a sink: what the sink fails with is the operator's own error, as in Java.

        Only the processing handler that may go on makes a difference; with others ``process`` is given back.
        """
        if not self.processing_may_go_on:
            return process

        def caught(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            try:
                process(key, value, timestamp, headers)
            except StreamsException as e:
                self.user_error(node, e, key, value, timestamp, headers)

        return caught

    def changes_from_sink(self, node: str, process_change: ProcessChange) -> ProcessChange:
        """As :meth:`from_sink`, for the operator of a table."""
        if not self.processing_may_go_on:
            return process_change

        def caught(key: Any, new: Any, old: Any, is_latest: bool, timestamp: int, headers: Headers | None) -> None:
            try:
                process_change(key, new, old, is_latest, timestamp, headers)
            except StreamsException as e:
                self.user_error(node, e, key, new, timestamp, headers)

        return caught

    def send_error(
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
        """A record cannot be handed to the producer. Returns when it is skipped.

        Raises:
            StreamsException: The production handler chose to fail.
        """
        source = self._here()
        if isinstance(error, RecordRefusedException) and error.exact:
            # it is part of a transaction, which cannot commit, whatever a handler says
            raise self.fail(RecordRefusedException(self._unsent(node, topic, source, error), self._task_id)) from error
        if not isinstance(error, AuthorizationException):
            self._pass_on(error)
        context = self._context(source, node, timestamp, headers)
        record = ProducerRecord(topic, partition, key, value, timestamp, headers)
        handler = self._settings.production_handler
        if self._ask(lambda: handler.handle_error(context, record, error), error, context, may_retry=True):
            self._drop("production error", source)
            return
        raise self.fail(StreamsException(self._unsent(node, topic, source, error), self._task_id)) from error

    def _unsent(self, node: str, topic: str, source: Source, error: Exception) -> str:
        return f"A record for {topic} cannot be sent ({self._place(node, source)}): {error}"

    def _pass_on(self, error: Exception) -> None:
        if self.failure is not None:
            raise self.failure
        if isinstance(error, TimeoutException):
            raise self.fail(self._again(error)) from error
        if isinstance(error, _NOT_FOR_HANDLERS + _WRONG_SETUP):
            raise self.fail(error)
        if isinstance(error, MemoryError):
            # the machine's, and of every record after it: as in Java nobody may skip it
            raise self.fail_here(error) from error

    def _again(self, error: KafkaException) -> Exception:
        # in the middle of a record: what it has done is dropped, and it is read again
        return _caused(TaskCorruptedException(str(error), (self._task_id,)), error)

    def _ask(
        self, handler: Callable[[], Any], error: Exception, context: ErrorHandlerContext, *, may_retry: bool = False
    ) -> bool:
        # True: go on without the record
        policy = self._policies.get(context.processor_node_id)
        try:
            response = handler() if policy is None else policy.decide(context, error)
        except Exception as e:
            raise self.fail(
                FailedProcessingException(
                    f"The exception handler itself failed for an error at processor {context.processor_node_id}, topic "
                    f"{context.topic}, partition {context.partition}, offset {context.offset}: {e}",
                    self._task_id,
                )
            ) from e
        result = getattr(response, "result", None)
        if not isinstance(result, Result) or (result is Result.RETRY and not may_retry):
            raise self.fail(
                FailedProcessingException(
                    f"An exception handler answered {response!r} to {type(error).__name__}: only Response.fail() and "
                    "Response.resume() are answers to it.",
                    self._task_id,
                )
            ) from error
        if result is Result.RETRY:
            if isinstance(error, KafkaException) and error.retriable:
                raise self.fail(self._again(error)) from error
            _log.warning("The production exception handler answered RETRY to what cannot be retried: taken as FAIL")
        for letter in response.records:
            self._send_dead_letter(letter)
        return result is Result.RESUME

    def _send_dead_letter(self, letter: ProducerRecord) -> None:
        if self._sender is None:
            return
        try:
            send = self._senders.get(letter.topic)
            if send is None:
                self._senders[letter.topic] = send = self._sender(letter.topic)
            send(letter.partition, letter.key, letter.value, letter.timestamp, letter.headers)
        except TimeoutException as e:
            raise self.fail(self._again(e)) from e
        except Exception as e:
            raise self.fail(
                StreamsException(f"A dead letter cannot be sent to {letter.topic}: {e}", self._task_id)
            ) from e

    def _context(
        self,
        source: Source,
        node: str,
        timestamp: int,
        headers: Headers | None,
        raw: tuple[bytes | None, bytes | None] | None = None,
    ) -> ErrorHandlerContext:
        raw_key, raw_value = raw or raw_source(source.offset)
        return ErrorHandlerContext(*source, headers, node, self._task_id, timestamp, raw_key, raw_value)

    def _here(self) -> Source:
        record = self._record
        return Source(record.topic, record.partition, record.offset)

    def _place(self, node: str, source: Source) -> str:
        return (
            f"taskId={self._task_id}, processor={node}, topic={source.topic}, partition={source.partition}, "
            f"offset={source.offset}"
        )

    def _drop(self, reason: str, source: Source) -> None:
        self._metrics.dropped[reason] += 1
        _log.warning(
            "Record dropped: %s (taskId=%s, topic=%s, partition=%d, offset=%d)", reason, self._task_id, *source
        )


def _caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error
