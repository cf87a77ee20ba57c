"""Exception handlers: what happens to a record that cannot be decoded, processed, encoded or sent.

A handler sees where the record lies and what went wrong and answers with a :class:`Response`. The built-in ones never
log keys or values. A handler class may have ``configure(configs)``, called once with all settings.
Source: ``org.apache.kafka.streams.errors.*ExceptionHandler`` (KIP-1033, KIP-1034, KIP-1065).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from headrace.api.record import Record
    from headrace.records import Headers, TaskId

_log = logging.getLogger(__name__)


class Result(Enum):
    """What the engine does next."""

    RESUME = "resume"
    """Skip the record, count it as dropped, go on."""
    FAIL = "fail"
    """Stop the stream thread; nothing of this record or after it is committed."""
    RETRY = "retry"
    """Send again; only a production handler may say so, and only of a retriable error."""


@dataclass(frozen=True, slots=True)
class Response:
    """A handler's answer."""

    result: Result

    @classmethod
    def resume(cls) -> Response:
        """Skip the record and go on."""
        return cls(Result.RESUME)

    @classmethod
    def fail(cls) -> Response:
        """Stop the stream thread."""
        return cls(Result.FAIL)

    @classmethod
    def retry(cls) -> Response:
        """Send the record again."""
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
    """Key bytes of the input record; known to deserialization handlers only."""
    source_raw_value: bytes | None = None
    """Value bytes of the input record; known to deserialization handlers only."""


class ProducerRecord(NamedTuple):
    """A record that could not be encoded or sent: bytes where they exist, else the objects."""

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


class LogAndFailExceptionHandler:
    """Logs where and stops. The default for bytes that do not decode."""

    def handle_error(self, context: ErrorHandlerContext, exception: Exception) -> Response:
        """See :class:`DeserializationExceptionHandler`."""
        _log.error("Record cannot be decoded, stopping (%s): %s", _where(context), type(exception).__name__)
        return Response.fail()


class LogAndContinueExceptionHandler:
    """Logs where and skips the record."""

    def handle_error(self, context: ErrorHandlerContext, exception: Exception) -> Response:
        """See :class:`DeserializationExceptionHandler`."""
        _log.warning("Record cannot be decoded and is skipped (%s): %s", _where(context), type(exception).__name__)
        return Response.resume()


class LogAndFailProcessingExceptionHandler:
    """Logs where and stops. The default for errors of users' functions."""

    def handle_error(
        self, context: ErrorHandlerContext, record: Record[Any, Any] | None, exception: Exception
    ) -> Response:
        """See :class:`ProcessingExceptionHandler`."""
        _log.error("Processing failed, stopping (%s)", _where(context), exc_info=exception)
        return Response.fail()


class LogAndContinueProcessingExceptionHandler:
    """Logs where and skips the record."""

    def handle_error(
        self, context: ErrorHandlerContext, record: Record[Any, Any] | None, exception: Exception
    ) -> Response:
        """See :class:`ProcessingExceptionHandler`."""
        _log.warning("Processing failed, the record is skipped (%s)", _where(context), exc_info=exception)
        return Response.resume()


class DefaultProductionExceptionHandler:
    """Stops on every error. Retriable ones never come here: the client retries them by itself."""

    def handle_error(self, context: ErrorHandlerContext, record: ProducerRecord, exception: Exception) -> Response:
        """See :class:`ProductionExceptionHandler`."""
        return Response.fail()

    def handle_serialization_error(
        self,
        context: ErrorHandlerContext,
        record: ProducerRecord,
        exception: Exception,
        origin: SerializationExceptionOrigin,
    ) -> Response:
        """See :class:`ProductionExceptionHandler`."""
        return Response.fail()
