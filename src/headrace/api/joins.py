"""Options of joins of two streams: how far apart records may be, and where they wait for each other.

Sources: ``org.apache.kafka.streams.kstream.{JoinWindows,StreamJoined}`` (4.4).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace.api.option_parts import HasName, HasSerdes, check_serde
from headrace.api.windows import MAX_TIMESTAMP, duration_ms
from headrace.naming import validate_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.api.serde import Serde
    from headrace.api.stores import DslStoreSuppliers, StoreType, WindowBytesStoreSupplier
    from headrace.api.windows import Duration

K = TypeVar("K")
V = TypeVar("V")
VO = TypeVar("VO")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
VO2 = TypeVar("VO2")


@dataclass(frozen=True, slots=True)
class JoinWindows:
    """Which records of two streams meet: those of one key whose times are close enough.

    A record of the left stream with time ``t`` meets those of the right stream with times in
    ``t - before_ms … t + after_ms``, both bounds inside. One of the two may be negative, which moves the window away
    from ``t``. A record that comes later than stream time by more than the window and its grace meets nothing.

    Attributes:
        before_ms: How much earlier a record of the right stream may be.
        after_ms: How much later it may be.
        grace_ms: How long after its end a window takes late records, and so how much longer a left or outer join waits
            before it gives a record that met none.

    Raises:
        ValueError: ``before_ms + after_ms`` or ``grace_ms`` is negative.
    """

    before_ms: int
    after_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        # a sum of more than 64 bits is negative in Java, and refused there too
        if not 0 <= self.before_ms + self.after_ms <= MAX_TIMESTAMP:
            raise ValueError(
                "the window of a join (before + after) must not be negative and must fit into 64 bits, "
                f"but before is {self.before_ms} ms and after is {self.after_ms} ms"
            )
        if self.grace_ms < 0:
            raise ValueError(f"the grace period of a join must not be negative, but it is {self.grace_ms} ms")

    @staticmethod
    def of_time_difference_with_no_grace(time_difference: Duration) -> JoinWindows:
        """Records whose times differ by at most this; windows take no late records."""
        return JoinWindows.of_time_difference_and_grace(time_difference, 0)

    @staticmethod
    def of_time_difference_and_grace(time_difference: Duration, after_window_end: Duration) -> JoinWindows:
        """Records whose times differ by at most this; windows take late records for a while after their end."""
        difference_ms = duration_ms(time_difference, "time_difference")
        return JoinWindows(difference_ms, difference_ms, duration_ms(after_window_end, "after_window_end"))

    def before(self, time_difference: Duration) -> JoinWindows:
        """Records of the right stream may be this much earlier; what they may be later stays."""
        return replace(self, before_ms=duration_ms(time_difference, "time_difference"))

    def after(self, time_difference: Duration) -> JoinWindows:
        """Records of the right stream may be this much later; what they may be earlier stays."""
        return replace(self, after_ms=duration_ms(time_difference, "time_difference"))

    @property
    def size_ms(self) -> int:
        """Length of the window: before plus after."""
        return self.before_ms + self.after_ms


@dataclass(frozen=True, slots=True)
class StreamJoined(HasName, HasSerdes[K, V], Generic[K, V, VO]):
    """Serdes, names and stores of a join of two streams. What is None comes from the configuration, or is generated.

    Each side keeps its records in a window store of its own; a left or outer join keeps those that have met none yet in
    a third one, which both sides share. ``name`` is the base name of the nodes (``{name}-this-join``, …) and of the
    repartition topics (``-left``, ``-right``).
    """

    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    other_value_serde: Serde[VO] | None = None
    name: str | None = None
    store_name: str | None = None
    this_store_supplier: WindowBytesStoreSupplier | None = None
    other_store_supplier: WindowBytesStoreSupplier | None = None
    store_type: StoreType | DslStoreSuppliers | None = None
    logging_enabled: bool = True
    topic_config: Mapping[str, str] = field(default_factory=lambda: dict[str, str]())

    def __post_init__(self) -> None:
        HasName.__post_init__(self)
        check_serde(self.other_value_serde)
        if self.store_name is not None:
            validate_name(self.store_name)

    @staticmethod
    def with_(
        key_serde: Serde[K2] | None = None,
        value_serde: Serde[V2] | None = None,
        other_value_serde: Serde[VO2] | None = None,
    ) -> StreamJoined[K2, V2, VO2]:
        """Serdes of the key and of both sides' values."""
        return StreamJoined(key_serde, value_serde, other_value_serde)

    @staticmethod
    def with_stores(
        this_store_supplier: WindowBytesStoreSupplier | None, other_store_supplier: WindowBytesStoreSupplier | None
    ) -> StreamJoined[Any, Any, Any]:
        """Stores of both sides. Java's ``with`` of two suppliers; see :meth:`with_this_store_supplier`."""
        return StreamJoined(this_store_supplier=this_store_supplier, other_store_supplier=other_store_supplier)

    @staticmethod
    def as_(store_name: str) -> StreamJoined[Any, Any, Any]:
        """Base name of the stores: ``{store_name}-this-join-store``, ``-other-join-store`` and so on."""
        return StreamJoined(store_name=store_name)

    def with_store_name(self, store_name: str) -> StreamJoined[K, V, VO]:
        """Another base name of the stores, see :meth:`as_`."""
        return replace(self, store_name=store_name)

    def with_other_value_serde(self, other_value_serde: Serde[VO] | None) -> StreamJoined[K, V, VO]:
        """Another serde of the other stream's values."""
        return replace(self, other_value_serde=other_value_serde)

    def with_this_store_supplier(self, supplier: WindowBytesStoreSupplier | None) -> StreamJoined[K, V, VO]:
        """The store of this stream's records.

        It must keep duplicates, its window must be the join's, and its retention the window plus the grace period:
        joining raises StreamsException otherwise.
        """
        return replace(self, this_store_supplier=supplier)

    def with_other_store_supplier(self, supplier: WindowBytesStoreSupplier | None) -> StreamJoined[K, V, VO]:
        """The store of the other stream's records, see :meth:`with_this_store_supplier`."""
        return replace(self, other_store_supplier=supplier)

    def with_store_type(self, store_type: StoreType | DslStoreSuppliers | None) -> StreamJoined[K, V, VO]:
        """Where stores for which there is no supplier keep their rows. Java's ``withDslStoreSuppliers``."""
        return replace(self, store_type=store_type)

    def with_logging_enabled(self, topic_config: Mapping[str, str] | None = None) -> StreamJoined[K, V, VO]:
        """Write changelog topics (the default), with these topic settings over the usual ones."""
        return replace(self, logging_enabled=True, topic_config=dict(topic_config or {}))

    def with_logging_disabled(self) -> StreamJoined[K, V, VO]:
        """Write no changelogs: what waits is lost with its directory."""
        return replace(self, logging_enabled=False, topic_config={})
