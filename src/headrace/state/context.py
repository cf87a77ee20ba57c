"""What a store is opened with: all that it may know of its task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headrace.api.engine import RecordContext
    from headrace.api.serde import Serde
    from headrace.api.stores import KeyValueBody, StoreSupplier
    from headrace.state.buffer import Log
    from headrace.state.cache import CacheBudget


@dataclass(frozen=True, slots=True)
class StoreContext:
    """What a store is opened with, for one task.

    Attributes:
        serde_topic: Topic that the store's serdes are bound to: its changelog, or what would be its name.
        path: Directory that the store may use.
        log: Writes the changelog, or None when there is none.
        key_serde: The builder's own key serde made ready for use, or the default for None. Raises a TopologyException
            when there is neither.
        value_serde: Likewise for values.
        record: The task's record context.
        budget: The thread's cache memory; None: no caching.
        drop: Counts one write as dropped for a reason.
        place: The store with its topic and operators, for messages.
        body: An open body that the store goes on with; None: it opens its own.
    """

    serde_topic: str
    path: Path
    log: Log | None
    key_serde: Callable[[Serde[Any] | None], Serde[Any]]
    value_serde: Callable[[Serde[Any] | None], Serde[Any]]
    record: RecordContext
    budget: CacheBudget | None
    drop: Callable[[str], None]
    place: str = "store"
    body: KeyValueBody | None = None

    def open(self, supplier: StoreSupplier) -> KeyValueBody:
        """The body for the store: the one that is open already, or a new one."""
        return supplier.open(self.path) if self.body is None else self.body
