"""How long a table's changes are held back, and how much of them.

Source: ``org.apache.kafka.streams.kstream.Suppressed`` (4.4). Its nested types ``BufferConfig``, ``StrictBufferConfig``
and ``EagerBufferConfig`` are top-level here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from headrace.api.option_parts import HasName
from headrace.api.windows import MAX_TIMESTAMP, Windowed, duration_ms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.api.windows import Duration

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class BufferConfig:
    """How much a buffer may hold, and whether it has a changelog.

    Attributes:
        record_limit: Greatest number of keys.
        byte_limit: Greatest size in bytes, counted as Java counts it: keys, values, and what is kept of the records.
        logging_enabled: Whether a changelog topic makes the buffer survive; without one its content is lost on a stop.
        topic_config: Topic settings that go over the usual ones of the changelog.
    """

    record_limit: int = MAX_TIMESTAMP
    byte_limit: int = MAX_TIMESTAMP
    logging_enabled: bool = True
    topic_config: Mapping[str, str] = field(default_factory=lambda: dict[str, str]())

    @staticmethod
    def max_records(record_limit: int) -> EagerBufferConfig:
        """A buffer of so many keys, which emits the oldest when there are more."""
        return EagerBufferConfig(record_limit=record_limit)

    @staticmethod
    def max_bytes(byte_limit: int) -> EagerBufferConfig:
        """A buffer of so many bytes, which emits the oldest when there are more."""
        return EagerBufferConfig(byte_limit=byte_limit)

    @staticmethod
    def unbounded() -> StrictBufferConfig:
        """A buffer as large as memory is."""
        return StrictBufferConfig()

    def with_max_records(self, record_limit: int) -> Self:
        """Another greatest number of keys."""
        return replace(self, record_limit=record_limit)

    def with_max_bytes(self, byte_limit: int) -> Self:
        """Another greatest size."""
        return replace(self, byte_limit=byte_limit)

    def with_no_bound(self) -> StrictBufferConfig:
        """A buffer as large as memory is."""
        return StrictBufferConfig(logging_enabled=self.logging_enabled, topic_config=self.topic_config)

    def shut_down_when_full(self) -> StrictBufferConfig:
        """Rather stop the stream thread than emit something early."""
        return StrictBufferConfig(self.record_limit, self.byte_limit, self.logging_enabled, self.topic_config)

    def emit_early_when_full(self) -> EagerBufferConfig:
        """Emit the oldest when there is more than the buffer may hold."""
        return EagerBufferConfig(self.record_limit, self.byte_limit, self.logging_enabled, self.topic_config)

    def with_logging_disabled(self) -> Self:
        """No changelog: what waits in the buffer is lost on a stop."""
        return replace(self, logging_enabled=False, topic_config={})

    def with_logging_enabled(self, topic_config: Mapping[str, str] | None = None) -> Self:
        """A changelog (the default), with these topic settings over the usual ones."""
        return replace(self, logging_enabled=True, topic_config=dict(topic_config or {}))


@dataclass(frozen=True, slots=True)
class StrictBufferConfig(BufferConfig):
    """A buffer that emits nothing early: what it may not hold stops the stream thread."""


@dataclass(frozen=True, slots=True)
class EagerBufferConfig(BufferConfig):
    """A buffer that emits the oldest when it is full."""


@dataclass(frozen=True, slots=True)
class Suppressed(HasName, Generic[K]):
    """Which changes of a table with keys ``K`` go on, and when.

    Attributes:
        buffer: Where they wait meanwhile.
        wait_ms: How long stream time goes on after a change before it is emitted; None: until its window closes.
        name: Name of the node, and with ``-store`` behind it of the buffer.
    """

    buffer: BufferConfig
    wait_ms: int | None
    name: str | None = None

    @staticmethod
    def until_window_closes(buffer_config: StrictBufferConfig) -> Suppressed[Windowed[Any]]:
        """Only the last result of each window, when the window takes no more records.

        Only for windowed tables; the grace period of their windows says when they close.

        Raises:
            TypeError: The buffer would emit results early.
        """
        if not isinstance(buffer_config, StrictBufferConfig):  # pyright: ignore[reportUnnecessaryIsInstance]  # a user's object
            raise TypeError(
                "until_window_closes emits nothing early, so its buffer must be a strict one: "
                f"shut_down_when_full() or unbounded(), not a {type(buffer_config).__name__}"
            )
        return Suppressed(buffer_config, None)

    @staticmethod
    def until_time_limit(time_to_wait_for_more_events: Duration, buffer_config: BufferConfig) -> Suppressed[Any]:
        """The latest change of each key, so long after the first one that waited."""
        return Suppressed(buffer_config, duration_ms(time_to_wait_for_more_events, "time_to_wait_for_more_events"))
