"""The Processor API: what a user implements to see single records, time and stores."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from headrace.errors import IllegalStateException

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.api.record import FixedKeyRecord, Record, RecordMetadata
    from headrace.api.times import Moment, Span
    from headrace.records import Headers, TaskId

KIn = TypeVar("KIn")
VIn = TypeVar("VIn")
KOut = TypeVar("KOut")
VOut = TypeVar("VOut")
KForward = TypeVar("KForward")
VForward = TypeVar("VForward")


class PunctuationType(Enum):
    """Which clock a punctuation goes by."""

    STREAM_TIME = "stream_time"
    """The task's stream time: it only moves with records."""
    WALL_CLOCK_TIME = "wall_clock_time"
    """The system's time, looked at between records: the driver's own clock under test."""


Punctuator: TypeAlias = "Callable[[int], None]"
"""Called with the time (epoch ms) that the clock has reached."""


class Cancellable(Protocol):
    """A punctuation that is scheduled."""

    def cancel(self) -> None:
        """Do not call it any more; allowed from within the punctuator, and more than once."""
        ...


class ProcessorWrapper(Protocol):
    """Puts something of one's own round every processor of a topology, the library's own included (KIP-1112).

    Named by ``processor.wrapper.class`` in the settings given to :class:`~headrace.StreamsBuilder` or
    :class:`~headrace.Topology` when they are made, as in Java. A class may have ``configure(configs)``. A wrapper calls
    the supplier it is given, once for each processor that it makes, and hands ``init``, ``process`` and ``close`` on.
    The supplier that it returns may have ``stores()``.
    """

    def wrap_processor_supplier(
        self, name: str, supplier: Callable[[], Processor[Any, Any, Any, Any]], /
    ) -> Callable[[], Processor[Any, Any, Any, Any]]:
        """The supplier to use for the node ``name`` instead. On a table's edge values are ``Change`` tuples."""
        ...

    def wrap_fixed_key_processor_supplier(
        self, name: str, supplier: Callable[[], FixedKeyProcessor[Any, Any, Any]], /
    ) -> Callable[[], FixedKeyProcessor[Any, Any, Any]]:
        """As :meth:`wrap_processor_supplier`, for a user's fixed-key processor."""
        ...


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
        """Topic, partition and offset of the input record, or None outside of one: in ``init``, in a punctuator."""
        ...

    def current_stream_time_ms(self) -> int:
        """Greatest record timestamp the task has seen (epoch ms), -1 before the first record."""
        ...

    def current_system_time_ms(self) -> int:
        """Wall-clock time (epoch ms): the driver's own clock under test."""
        ...

    def schedule(
        self,
        interval: Span,
        kind: PunctuationType,
        callback: Punctuator,
        start_time: Moment | None = None,
    ) -> Cancellable:
        """Have ``callback(timestamp)`` called whenever the clock has moved on by ``interval``.

        By stream time it is called right after the record that moves the clock there, for the first time with the
        first record; by the wall clock first after one interval. Times that the clock jumps over are left out: there is
        one call, and the next is due at the next multiple. What the callback forwards has no input record: no metadata,
        no headers. What it raises goes to the processing exception handler, with None for the record.

        Args:
            interval: At least 1 ms: milliseconds or a timedelta.
            kind: The clock.
            callback: Called with the time (epoch ms) that the clock has reached.
            start_time: Epoch ms or an aware datetime: due times are this plus multiples of the interval, so that they
                do not depend on when the task started (KIP-1146). When it has passed, the first call is at the next
                multiple.

        Raises:
            ValueError: The interval is less than 1 ms, or the start is before 1970.
        """
        ...

    def drop_record(self, reason: str) -> None:
        """Count the record in work as dropped for a reason, and say in the log where it lies, without its content.

        Call it when a record is passed over on purpose; forwarding or not stays the processor's choice. Of one
        processor and reason no more than one record is logged every ten seconds, with the number of the others. The
        counts are those of :meth:`KafkaStreams.dropped_records`. Not in Java.

        Args:
            reason: A few fixed words, such as ``duplicate``; never something of the record.
        """
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
