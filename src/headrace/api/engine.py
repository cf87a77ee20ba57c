"""The engine's narrow protocols: how operators are bound into closures, and what a task is given from outside.

An operator is a frozen description made while the topology is built. For every task it is bound once: it gets its
children's closures and returns its own. At run time there is only the closure: no node object, no look-up, no record
object on the DSL path.

Two kinds of edges exist. A stream edge carries ``process(key, value, timestamp, headers)``; a table edge carries
``process_change(key, new, old, is_latest, timestamp, headers)``, where ``old`` is None unless the operator was built
with ``send_old_values``, and ``is_latest`` is False only for a late write to a versioned table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.api.processor import Cancellable, PunctuationType, Punctuator
    from headrace.api.serde import SerdeContext
    from headrace.records import Headers, TaskId

NEVER: Final = 1 << 63
"""Later than every time that a record can have."""

Process: TypeAlias = "Callable[[Any, Any, int, Headers | None], None]"
ProcessChange: TypeAlias = "Callable[[Any, Any, Any, bool, int, Headers | None], None]"


class RecordContext:
    """The one mutable description of the record in work; each task has exactly one.

    The source closure moves ``offset`` along; ``timestamp`` and ``headers`` are set by whoever crosses into code that
    has no parameters for them (the Processor API, a plain key-value store) and restored after it. ``interrupt`` ends
    the run after the current record (a commit was asked for, a punctuation is due, something failed).
    ``punctuate_at`` is the stream time at which the next punctuation is due.
    """

    __slots__ = ("headers", "interrupt", "offset", "partition", "punctuate_at", "stream_time", "timestamp", "topic")

    def __init__(self) -> None:
        self.topic: str | None = None
        self.partition = -1
        self.offset = -1
        self.timestamp = -1
        self.headers: Headers | None = None
        self.stream_time = -1
        self.interrupt = False
        self.punctuate_at = NEVER


class ProcessorMetadata:
    """Numbers that operators of a task keep with its committed offsets, by name. Source: KIP-825.

    Each partition's committed offset carries all of them; after a restart the greatest of each name counts.
    """

    __slots__ = ("changed", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, int] = {}
        self.changed = False
        """Whether something was set since the last commit."""

    def get(self, name: str) -> int | None:
        """The number of that name, or None."""
        return self.entries.get(name)

    def set(self, name: str, number: int) -> None:
        """Keep a number with the next commit."""
        self.entries[name] = number
        self.changed = True

    def merge(self, entries: Mapping[str, int]) -> None:
        """Take over what a partition's committed offset carried."""
        for name, number in entries.items():
            self.entries[name] = max(number, self.entries.get(name, number))


class Bound(NamedTuple):
    """An operator's closures for one task.

    ``init`` runs once the task's stores are restored, before its first record; ``close`` when the task closes, unless
    ``init`` was never reached.
    """

    process: Process | None = None
    process_change: ProcessChange | None = None
    init: Callable[[], None] | None = None
    close: Callable[[], None] | None = None


ValueGetter: TypeAlias = "Callable[[Any], tuple[Any, ...] | None]"
"""``get(key)`` gives a table's row ``(value, timestamp, …)``, or None."""
ValueGetterAsOf: TypeAlias = "Callable[[Any, int], tuple[Any, ...] | None]"
"""``get(key, timestamp)`` gives the row as it was at that time (epoch ms), or None."""


class NodeContext(Protocol):
    """What an operator is given when it is bound."""

    name: str
    """Name of the node."""
    record: RecordContext
    """The task's record context."""
    forward: Process
    """Stream edge to all children, in the order in which they were added."""
    forward_change: ProcessChange
    """Table edge to all children."""
    children: Mapping[str, Process]
    """Stream edge to each child by name."""
    task_id: TaskId
    application_id: str
    app_configs: Mapping[str, Any]
    metadata: ProcessorMetadata
    """What the task keeps with its committed offsets; complete from ``init`` on."""
    serdes: SerdeContext
    """The configured defaults, for serdes that the operator binds itself."""
    peers: dict[str, Callable[..., Any]]
    """Functions that operators of the task have for each other, where no edge says so; complete from ``init`` on."""
    before_commit: list[Callable[[], bool]]
    """Run at each commit once no cache of the task holds anything back; each says whether it has sent something on."""

    def store(self, name: str) -> Any:
        """The live store of that name, which must be connected to this node.

        Raises:
            StreamsException: The store is not connected to this node.
        """
        ...

    def user_error(self, error: Exception, key: object, value: object, timestamp: int, headers: Headers | None) -> None:
        """Let the processing exception handler decide about what a user's function raised.

        Returns when the record is to be skipped (counted as dropped).

        Raises:
            FailedProcessingException: The handler chose FAIL, or the error is one already handled further in.
        """
        ...

    def drop(self, reason: str) -> None:
        """Count one record as dropped for ``reason`` and log where it lies, without its content."""
        ...

    def drop_late(self, timestamp: int, window: str, expiration: int, stream_time: int) -> None:
        """Count one record as dropped because its window is closed.

        Such records come in crowds: a node logs no more than one of them every ten seconds, and their number.

        Args:
            timestamp: Of the record.
            window: Its bounds, as text.
            expiration: What the window's end lies before.
            stream_time: The node's.
        """
        ...

    def drop_one_of_many(self, reason: str) -> None:
        """As :meth:`drop`, of whose kind many may come: of a node and reason one is logged every ten seconds."""
        ...

    def add_life(self, init: Callable[[], None], close: Callable[[], None]) -> None:
        """Have something the operator holds live as long as the node: see :class:`Bound` for when both run."""
        ...

    def request_commit(self) -> None:
        """Ask the thread to commit after this record."""
        ...

    def schedule(
        self, interval_ms: int, kind: PunctuationType, punctuator: Punctuator, start_ms: int | None
    ) -> Cancellable:
        """Have ``punctuator`` called from time to time, see ``ProcessingContext.schedule``."""
        ...

    def system_time_ms(self) -> int:
        """The wall clock the engine was given (epoch ms)."""
        ...

    def steady_time_ms(self) -> int:
        """A clock that never jumps (ms from anywhere)."""
        ...


class Operator(Protocol):
    """A node's behaviour, described once and bound per task."""

    def bind(self, node: NodeContext, /) -> Bound:
        """Make the closures for one task."""
        ...


@runtime_checkable
class UsesSerdes(Protocol):
    """An operator that binds serdes itself, beside those of sources, sinks and stores."""

    def check_serdes(self, serdes: SerdeContext, /) -> None:
        """Ask for the configured defaults that ``bind`` will ask for.

        Raises:
            TopologyException: There is none.
        """
        ...


class ValueGetterSupplier(Protocol):
    """How other operators read a table's rows: from its store, or by computing them from the rows of others."""

    @property
    def store_names(self) -> tuple[str, ...]:
        """The stores that it reads, to be connected to whoever binds it."""
        ...

    def bind(self, node: NodeContext, /) -> ValueGetter:
        """The function that reads, for one task."""
        ...

    def bind_as_of(self, node: NodeContext, /) -> ValueGetterAsOf | None:
        """The function that reads former rows, for one task; None when the table is not versioned."""
        ...


Send: TypeAlias = "Callable[[int | None, bytes | None, bytes | None, int | None, Headers | None], None]"
"""``send(partition or None for the key's own, key, value, timestamp ms, headers)`` to one topic."""

ChangelogSend: TypeAlias = "Callable[[bytes, bytes | None, int | None, Headers | None], None]"
"""``send(key, value, timestamp ms, headers)`` to one partition of a changelog."""


class RecordCollector(Protocol):
    """Where a task's output goes: the producer, or the driver's queues."""

    def sender(self, topic: str, /) -> Send:
        """A function that sends to ``topic``."""
        ...

    def changelog_sender(self, topic: str, partition: int, /) -> ChangelogSend:
        """A function that writes to a changelog partition and has the offset tracked."""
        ...

    def partition_count(self, topic: str, /) -> int:
        """Number of partitions of ``topic``; asked for a custom partitioner, and of topics that records choose.

        Raises:
            StreamsException: There is no such topic; the message names it.
        """
        ...
