"""The Processor API: what a user implements to see single records, time and stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from headrace.errors import IllegalStateException

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.api.record import FixedKeyRecord, Record, RecordMetadata
    from headrace.records import Headers, TaskId

KIn = TypeVar("KIn")
VIn = TypeVar("VIn")
KOut = TypeVar("KOut")
VOut = TypeVar("VOut")
KForward = TypeVar("KForward")
VForward = TypeVar("VForward")


class ProcessingContext(Protocol):
    """What a processor may ask of its task. Source: ``processor.api.ProcessingContext``."""

    @property
    def application_id(self) -> str:
        """The ``application.id``."""
        ...

    @property
    def task_id(self) -> TaskId:
        """The task that runs this processor."""
        ...

    def get_state_store(self, name: str) -> Any:
        """The store of that name, which must be connected to this processor.

        Raises:
            StreamsException: The store is not connected, or not there.
        """
        ...

    def record_metadata(self) -> RecordMetadata | None:
        """Topic, partition and offset of the input record, or None outside of a record."""
        ...

    def current_stream_time_ms(self) -> int:
        """Greatest record timestamp the task has seen (epoch ms), -1 before the first record."""
        ...

    def current_system_time_ms(self) -> int:
        """Wall-clock time (epoch ms): the driver's own clock under test."""
        ...

    def app_configs(self) -> Mapping[str, Any]:
        """Every setting of the application, by its dotted name."""
        ...

    def commit(self) -> None:
        """Ask for a commit as soon as possible; it does not happen inside this call."""
        ...


class TransformerContext(ProcessingContext, Protocol):
    """Context of a :class:`ValueTransformerWithKey`: nothing can be forwarded from it."""

    def timestamp(self) -> int:
        """Time of the record or row in work (epoch ms)."""
        ...

    def headers(self) -> Headers:
        """A copy of the headers of the record in work; empty outside of one."""
        ...


class ProcessorContext(ProcessingContext, Protocol[KForward, VForward]):
    """Context of a :class:`Processor`."""

    def forward(self, record: Record[KForward, VForward], child_name: str | None = None) -> None:
        """Send a record to every child, or to the child named.

        Raises:
            StreamsException: No child of that name is connected.
        """
        ...


class FixedKeyProcessorContext(ProcessingContext, Protocol[KForward, VForward]):
    """Context of a :class:`FixedKeyProcessor`."""

    def forward(self, record: FixedKeyRecord[KForward, VForward], child_name: str | None = None) -> None:
        """Send a record to every child, or to the child named.

        Raises:
            StreamsException: No child of that name is connected.
        """
        ...


class Processor(Generic[KIn, VIn, KOut, VOut]):
    """Base of user processors. A supplier makes a new one for every task. Source: ``processor.api.Processor``."""

    _context: ProcessorContext[KOut, VOut] | None = None

    def init(self, context: ProcessorContext[KOut, VOut]) -> None:
        """Called once per task before the first record; overriders call ``super().init(context)``."""
        self._context = context

    @property
    def context(self) -> ProcessorContext[KOut, VOut]:
        """The context given to :meth:`init`.

        Raises:
            IllegalStateException: ``init`` was overridden without calling the base.
        """
        if self._context is None:
            raise IllegalStateException(f"{type(self).__name__} has no context: call super().init(context) in init()")
        return self._context

    def process(self, record: Record[KIn, VIn]) -> None:
        """Handle one record. Whatever it raises goes to the processing exception handler."""
        raise NotImplementedError

    def close(self) -> None:
        """Called when the task closes, also after failures. Stores are closed by the library."""


class FixedKeyProcessor(Generic[KIn, VIn, VOut]):
    """As :class:`Processor`, but the key stays. Source: ``processor.api.FixedKeyProcessor``."""

    _context: FixedKeyProcessorContext[KIn, VOut] | None = None

    def init(self, context: FixedKeyProcessorContext[KIn, VOut]) -> None:
        """Called once per task before the first record; overriders call ``super().init(context)``."""
        self._context = context

    @property
    def context(self) -> FixedKeyProcessorContext[KIn, VOut]:
        """The context given to :meth:`init`.

        Raises:
            IllegalStateException: ``init`` was overridden without calling the base.
        """
        if self._context is None:
            raise IllegalStateException(f"{type(self).__name__} has no context: call super().init(context) in init()")
        return self._context

    def process(self, record: FixedKeyRecord[KIn, VIn]) -> None:
        """Handle one record. Whatever it raises goes to the processing exception handler."""
        raise NotImplementedError

    def close(self) -> None:
        """Called when the task closes, also after failures. Stores are closed by the library."""


class ValueTransformerWithKey(Generic[KIn, VIn, VOut]):
    """Computes a table's values with state. Source: ``kstream.ValueTransformerWithKey``.

    A supplier makes a new one for every task, and for everybody who looks rows up in a table that keeps none.
    """

    def init(self, context: TransformerContext) -> None:
        """Called once before the first row."""

    def transform(self, key: KIn, value: VIn | None) -> VOut | None:
        """The new value of a row, or None for no row. ``value`` is None where a row was deleted."""
        raise NotImplementedError

    def close(self) -> None:
        """Called when the task closes, also after failures."""


if TYPE_CHECKING:
    ProcessorSupplier = Callable[[], Processor[KIn, VIn, KOut, VOut]]
    FixedKeyProcessorSupplier = Callable[[], FixedKeyProcessor[KIn, VIn, VOut]]
    ValueTransformerWithKeySupplier = Callable[[], ValueTransformerWithKey[KIn, VIn, VOut]]
