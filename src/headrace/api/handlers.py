"""Exception handlers: what happens to a record that cannot be decoded, processed, encoded or sent.

A handler sees where the record lies and what went wrong and answers with a :class:`Response`. The built-in ones never
log keys or values. A handler class may have ``configure(configs)``, called once with all settings.
Source: ``org.apache.kafka.streams.errors.*ExceptionHandler`` (KIP-1033, KIP-1034, KIP-1065).
"""

from __future__ import annotations

import logging
import traceback
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from headrace.errors import KafkaException

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.api.record import Record
    from headrace.records import Headers, TaskId

_log = logging.getLogger(__name__)

DEAD_LETTER_TOPIC: Final = "errors.dead.letter.queue.topic.name"


class Result(Enum):
    """What the engine does next."""

    RESUME = "resume"
    """Skip the record, count it as dropped, go on."""
    FAIL = "fail"
    """Stop the stream thread; nothing of this record or after it is committed."""
    RETRY = "retry"
    """Do the record again; only a production handler may say so. Of an error that is not retriable it means FAIL."""


@dataclass(frozen=True, slots=True)
class Response:
    """A handler's answer, with records to send: dead letters, see :func:`dead_letter`.

    They are sent by the thread's producer, so exactly-once they belong to the transaction: those of a FAIL are then
    aborted with it.
    """

    result: Result
    records: tuple[ProducerRecord, ...] = ()

    @classmethod
    def resume(cls, records: Iterable[ProducerRecord] = ()) -> Response:
        """Send the records, skip the one that failed and go on."""
        return cls(Result.RESUME, tuple(records))

    @classmethod
    def fail(cls, records: Iterable[ProducerRecord] = ()) -> Response:
        """Send the records and stop the stream thread."""
        return cls(Result.FAIL, tuple(records))

    @classmethod
    def retry(cls) -> Response:
        """Send the record again, by doing again all since the last commit."""
        return cls(Result.RETRY)


@dataclass(frozen=True, slots=True)
class ErrorHandlerContext:
    """Where it happened. ``topic`` is None, and partition and offset -1, outside of a record."""

    topic: str | None
    partition: int
    offset: int
    headers: Headers | None
    processor_node_id: str
    task_id: TaskId
    timestamp: int
    source_raw_key: bytes | None = None
    """Key bytes of the input record. None too once something made of it was sent, and outside of a record."""
    source_raw_value: bytes | None = None
    """Value bytes of the input record, as the key."""


class ProducerRecord(NamedTuple):
    """A record to send, or one that could not be encoded or sent: bytes where they exist, else the objects."""

    topic: str
    partition: int | None
    key: Any
    value: Any
    timestamp: int
    headers: Headers | None


class SerializationExceptionOrigin(Enum):
    """Which half of a record could not be encoded."""

    KEY = "key"
    VALUE = "value"


def dead_letter(topic: str, context: ErrorHandlerContext, exception: Exception) -> ProducerRecord:
    """The record that tells of an error: the input record's bytes, time and headers, and what happened to it.

    Headers after the record's own (KIP-1034), all UTF-8 text: ``__streams.errors.exception`` (the class),
    ``.message`` (null when there is none), ``.stacktrace``, ``.topic`` (null outside of a record), ``.partition``,
    ``.offset``.

    Args:
        topic: The dead letter queue, which must exist.
        context: What the handler was given.
        exception: What the handler was given.
    """
    kind, message = type(exception), str(exception)
    about = {
        "exception": kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}",
        "message": message or None,
        "stacktrace": "".join(traceback.format_exception(exception)),
        "topic": context.topic,
        "partition": str(context.partition),
        "offset": str(context.offset),
    }
    headers = list(context.headers or ())
    headers += [(f"__streams.errors.{name}", None if x is None else x.encode()) for name, x in about.items()]
    return ProducerRecord(
        topic, None, context.source_raw_key, context.source_raw_value, max(context.timestamp, 0), headers
    )


@dataclass(frozen=True, slots=True)
class ErrorPolicy:
    """What becomes of the errors of one operator, source or sink, in place of the configured handlers.

    Given by ``StreamsBuilder.on_error`` and by ``on_error=`` of the Processor API. Subclass it and override
    :meth:`decide` to look at the error first.

    Attributes:
        result: RESUME or FAIL.
        dead_letter_topic: Where a :func:`dead_letter` goes, None for nowhere.
    """

    result: Result
    dead_letter_topic: str | None = None

    @staticmethod
    def resume(dead_letter_topic: str | None = None) -> ErrorPolicy:
        """Skip what fails and go on, with a dead letter if a topic is given."""
        return ErrorPolicy(Result.RESUME, dead_letter_topic)

    @staticmethod
    def fail(dead_letter_topic: str | None = None) -> ErrorPolicy:
        """Stop the stream thread, with a dead letter if a topic is given."""
        return ErrorPolicy(Result.FAIL, dead_letter_topic)

    def decide(self, context: ErrorHandlerContext, exception: Exception) -> Response:
        """The answer to an error."""
        topic = self.dead_letter_topic
        return Response(self.result, () if topic is None else (dead_letter(topic, context, exception),))


class _WithDeadLetters:
    """What the built-in handlers have in common: ``errors.dead.letter.queue.topic.name``."""

    _dead_letter_topic: str | None = None

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Take the topic for dead letters from the application's settings."""
        self._dead_letter_topic = configs.get(DEAD_LETTER_TOPIC)

    def _letters(self, context: ErrorHandlerContext, exception: Exception) -> tuple[ProducerRecord, ...]:
        topic = self._dead_letter_topic
        return () if topic is None else (dead_letter(topic, context, exception),)


class DeserializationExceptionHandler(Protocol):
    """Decides about a record whose bytes do not decode."""

    def handle_error(self, context: ErrorHandlerContext, exception: Exception) -> Response:
        """Answer FAIL or RESUME."""
        ...


class ProcessingExceptionHandler(Protocol):
    """Decides about what a user's function or processor raised."""

    def handle_error(
        self, context: ErrorHandlerContext, record: Record[Any, Any] | None, exception: Exception
    ) -> Response:
        """Answer FAIL or RESUME. ``record`` is the operator's input, None for a punctuator."""
        ...


class ProductionExceptionHandler(Protocol):
    """Decides about a record that could not be encoded or that the brokers refused."""

    def handle_error(self, context: ErrorHandlerContext, record: ProducerRecord, exception: Exception) -> Response:
        """Answer FAIL, RESUME or, for a retriable error, RETRY."""
        ...

    def handle_serialization_error(
        self,
        context: ErrorHandlerContext,
        record: ProducerRecord,
        exception: Exception,
        origin: SerializationExceptionOrigin,
    ) -> Response:
        """Answer FAIL or RESUME."""
        ...


def _where(context: ErrorHandlerContext) -> str:
    if context.topic is None:
        return f"taskId: {context.task_id}, processor: {context.processor_node_id}, outside of a record"
    return (
        f"taskId: {context.task_id}, processor: {context.processor_node_id}, topic: {context.topic}, "
        f"partition: {context.partition}, offset: {context.offset}"
    )


class LogAndFailExceptionHandler(_WithDeadLetters):
    """Logs where and stops. The default for bytes that do not decode."""

    def handle_error(self, context: ErrorHandlerContext, exception: Exception) -> Response:
        """See :class:`DeserializationExceptionHandler`."""
        _log.error("Record cannot be decoded, stopping (%s): %s", _where(context), type(exception).__name__)
        return Response.fail(self._letters(context, exception))


class LogAndContinueExceptionHandler(_WithDeadLetters):
    """Logs where and skips the record."""

    def handle_error(self, context: ErrorHandlerContext, exception: Exception) -> Response:
        """See :class:`DeserializationExceptionHandler`."""
        _log.warning("Record cannot be decoded and is skipped (%s): %s", _where(context), type(exception).__name__)
        return Response.resume(self._letters(context, exception))


class LogAndFailProcessingExceptionHandler(_WithDeadLetters):
    """Logs where and stops. The default for errors of users' functions."""

    def handle_error(
        self, context: ErrorHandlerContext, record: Record[Any, Any] | None, exception: Exception
    ) -> Response:
        """See :class:`ProcessingExceptionHandler`."""
        _log.error("Processing failed, stopping (%s)", _where(context), exc_info=exception)
        return Response.fail(self._letters(context, exception))


class LogAndContinueProcessingExceptionHandler(_WithDeadLetters):
    """Logs where and skips the record."""

    def handle_error(
        self, context: ErrorHandlerContext, record: Record[Any, Any] | None, exception: Exception
    ) -> Response:
        """See :class:`ProcessingExceptionHandler`."""
        _log.warning("Processing failed, the record is skipped (%s)", _where(context), exc_info=exception)
        return Response.resume(self._letters(context, exception))


class DefaultProductionExceptionHandler(_WithDeadLetters):
    """Has what may pass by itself done again, and stops on every other error."""

    def handle_error(self, context: ErrorHandlerContext, record: ProducerRecord, exception: Exception) -> Response:
        """See :class:`ProductionExceptionHandler`."""
        retriable = isinstance(exception, KafkaException) and exception.retriable
        return Response.retry() if retriable else Response.fail(self._letters(context, exception))

    def handle_serialization_error(
        self,
        context: ErrorHandlerContext,
        record: ProducerRecord,
        exception: Exception,
        origin: SerializationExceptionOrigin,
    ) -> Response:
        """See :class:`ProductionExceptionHandler`."""
        return Response.fail(self._letters(context, exception))
