"""Contexts for unit tests of processors, without a topology: what a processor asked for is kept to be looked at.

Source: ``org.apache.kafka.streams.processor.api.{MockProcessorContext,MockFixedKeyProcessorContext}`` (4.4).
"""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace.api.engine import RecordContext
from headrace.api.options import checked
from headrace.api.processor import PunctuationType
from headrace.api.record import FixedKeyRecord, Record, RecordMetadata
from headrace.api.times import epoch_ms, milliseconds
from headrace.config import StreamsConfig, settings_of
from headrace.errors import IllegalStateException, TopologyException
from headrace.records import TaskId
from headrace.state.builders import StoreBuilder
from headrace.state.context import StoreContext

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.api.processor import Punctuator
    from headrace.api.serde import Serde
    from headrace.api.times import Moment, Span
    from headrace.records import Headers

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R", bound="Record[Any, Any] | FixedKeyRecord[Any, Any]")


@dataclass(slots=True)
class CapturedPunctuator:
    """A punctuation that was scheduled. Nothing calls it by itself: a test calls ``punctuator(timestamp)``.

    Attributes:
        interval_ms: Between calls.
        kind: The clock.
        punctuator: What was to be called.
        start_ms: The anchored start (epoch ms), if one was given.
        cancelled: Whether it was cancelled.
    """

    interval_ms: int
    kind: PunctuationType
    punctuator: Punctuator
    start_ms: int | None = None
    cancelled: bool = False

    def cancel(self) -> None:
        """See :class:`headrace.api.processor.Cancellable`."""
        self.cancelled = True


@dataclass(frozen=True, slots=True)
class CapturedForward(Generic[R]):
    """A record that was forwarded; ``child_name`` is None when it was to go to every child."""

    record: R
    child_name: str | None = None


class _MockContext(Generic[R]):
    def __init__(
        self,
        config: Mapping[str, Any] | StreamsConfig | None = None,
        task_id: TaskId | None = None,
        state_dir: Path | None = None,
    ) -> None:
        self._config = settings_of(config)
        self._task_id = task_id or TaskId(0, 0)
        self._state_dir = state_dir
        self._metadata: RecordMetadata | None = None
        self._stream_time_ms = -1
        self._system_time_ms = 0
        self._forwarded: list[CapturedForward[R]] = []
        self._punctuators: list[CapturedPunctuator] = []
        self._committed = False
        self._dropped: Counter[str] = Counter()
        self._stores: dict[str, Any] = {}
        self._record = RecordContext()

    # what a processor may ask

    @property
    def application_id(self) -> str:
        """The ``application.id`` of the settings, or an empty text."""
        return str(self._config.get("application.id", ""))

    @property
    def task_id(self) -> TaskId:
        """The task given at the start, ``0_0`` by default."""
        return self._task_id

    def app_configs(self) -> Mapping[str, Any]:
        """The settings."""
        return self._config

    def record_metadata(self) -> RecordMetadata | None:
        """What :meth:`set_record_metadata` said, None before."""
        return self._metadata

    def current_stream_time_ms(self) -> int:
        """What :meth:`set_current_stream_time_ms` said, -1 before."""
        return self._stream_time_ms

    def current_system_time_ms(self) -> int:
        """What :meth:`set_current_system_time_ms` said, 0 before."""
        return self._system_time_ms

    def get_state_store(self, name: str) -> Any:
        """The store that :meth:`add_state_store` added.

        Raises:
            IllegalStateException: There is none of that name.
        """
        if name not in self._stores:
            raise IllegalStateException(
                f"no store {name} was added to the mock context (there are: {', '.join(self._stores) or 'none'})"
            )
        return self._stores[name]

    def schedule(
        self, interval: Span, kind: PunctuationType, callback: Punctuator, start_time: Moment | None = None
    ) -> CapturedPunctuator:
        """Keep a punctuation, see :meth:`scheduled_punctuators`."""
        checked(kind, PunctuationType)
        start_ms = None if start_time is None else epoch_ms(start_time)
        captured = CapturedPunctuator(milliseconds(interval), kind, callback, start_ms)
        self._punctuators.append(captured)
        return captured

    def commit(self) -> None:
        """Note that a commit was asked for, see :meth:`committed`."""
        self._committed = True

    def drop_record(self, reason: str) -> None:
        """Count a dropped record, see :meth:`dropped_records`."""
        self._dropped[reason] += 1

    def forward(self, record: R, child_name: str | None = None) -> None:
        """Keep a record, see :meth:`forwarded`."""
        self._forwarded.append(CapturedForward(record, child_name))

    # what a test says and asks

    def set_record_metadata(self, topic: str, partition: int, offset: int) -> None:
        """Say where the record in work lies."""
        self._metadata = RecordMetadata(topic, partition, offset)
        self._record.topic, self._record.partition, self._record.offset = topic, partition, offset

    def set_current_stream_time_ms(self, stream_time_ms: int) -> None:
        """Say what stream time is (epoch ms)."""
        self._stream_time_ms = self._record.stream_time = stream_time_ms

    def set_current_system_time_ms(self, system_time_ms: int) -> None:
        """Say what the wall clock shows (epoch ms)."""
        self._system_time_ms = system_time_ms

    def add_state_store(self, store: Any, name: str | None = None) -> Any:
        """Give the processor a store; returns it.

        Args:
            store: A builder, whose store is opened without a changelog and without a cache; or any object that stands
                for a store.
            name: Its name, where the object has none.
        """
        if isinstance(store, StoreBuilder):
            builder: StoreBuilder[Any, Any] = store  # pyright: ignore[reportUnknownVariableType]  # any key and value
            made: Any = builder.build(self._store_context(builder.name))
        else:
            made = store
        self._stores[name or made.name] = made
        return made

    def forwarded(self, child_name: str | None = None) -> list[CapturedForward[R]]:
        """What was forwarded so far; with ``child_name`` only what that child would have got."""
        if child_name is None:
            return list(self._forwarded)
        return [one for one in self._forwarded if one.child_name in (None, child_name)]

    def reset_forwards(self) -> None:
        """Forget what was forwarded."""
        self._forwarded.clear()

    def scheduled_punctuators(self) -> list[CapturedPunctuator]:
        """Every punctuation that was scheduled, those that were cancelled too."""
        return list(self._punctuators)

    def dropped_records(self) -> dict[str, int]:
        """Number of dropped records by reason."""
        return dict(self._dropped)

    def committed(self) -> bool:
        """Whether a commit was asked for since the last :meth:`reset_commit`."""
        return self._committed

    def reset_commit(self) -> None:
        """Forget that a commit was asked for."""
        self._committed = False

    @property
    def state_dir(self) -> Path:
        """Where stores on disk lie: the directory given at the start, else one of its own (the test's to remove)."""
        if self._state_dir is None:
            self._state_dir = Path(tempfile.mkdtemp(prefix="headrace-mock-"))
        return self._state_dir

    def _store_context(self, name: str) -> StoreContext:
        def serde(given: Serde[Any] | None) -> Serde[Any]:
            if given is None:
                raise TopologyException(f"store {name} of a mock context needs serdes of its own")
            return given

        dropped: list[str] = []
        return StoreContext(
            serde_topic=f"{self.application_id}-{name}-changelog",
            path=self.state_dir / name,
            log=None,
            key_serde=serde,
            value_serde=serde,
            record=self._record,
            budget=None,
            drop=dropped.append,
        )


class MockProcessorContext(_MockContext["Record[K, V]"], Generic[K, V]):
    """A :class:`~headrace.ProcessorContext` for a unit test.

    Args:
        config: Settings by their dotted names.
        task_id: The task that the processor believes it is in.
        state_dir: Where stores on disk lie.

    Example:
        >>> from headrace import Processor, Record
        >>> from headrace.testing import MockProcessorContext
        >>> class Shout(Processor[str, str, str, str]):
        ...     def process(self, record):
        ...         self.context.forward(record.with_value(record.value.upper()))
        >>> context, shout = MockProcessorContext(), Shout()
        >>> shout.init(context)
        >>> shout.process(Record("k", "hello", 0))
        >>> [captured.record.value for captured in context.forwarded()]
        ['HELLO']
    """


class MockFixedKeyProcessorContext(_MockContext["FixedKeyRecord[K, V]"], Generic[K, V]):
    """A :class:`~headrace.FixedKeyProcessorContext` for a unit test, see :class:`MockProcessorContext`.

    Records for the processor are made by :func:`fixed_key_record`.
    """


def fixed_key_record(key: K, value: V, timestamp: int = 0, headers: Headers | None = None) -> FixedKeyRecord[K, V]:
    """A record as a fixed-key processor gets it (``InternalFixedKeyRecordFactory`` in Java)."""
    return FixedKeyRecord(key, value, timestamp, headers)
