"""Stores as the driver shows them: rows without what the caller did not ask for (times, headers).

Writes go through the store, to its changelog as in production; what they do not say is the driver's wall clock and no
headers. Source: ``TopologyTestDriver.{KeyValueStoreFacade,WindowStoreFacade,SessionStoreFacade}`` (4.4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.state.keyvalue import ValueAndTimestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from headrace.api.serde import Serializer
    from headrace.api.windows import Windowed
    from headrace.state.keyvalue import PairedKeyValueStore
    from headrace.state.session import SessionFacade
    from headrace.state.window import WindowFacade


def value_of(row: Any) -> Any:
    """The value of a row that has more than it."""
    return row[0]


def timestamped(row: Any) -> ValueAndTimestamp:
    """Value and time of a row that has more than them."""
    return ValueAndTimestamp(row[0], row[1])


class KeyValueView:
    """A key-value store with less in its rows.

    Args:
        store: A store of values with timestamps, perhaps headers.
        show: What of a row is shown: :func:`value_of` or :func:`timestamped`.
        now: Time of values that are put without one (epoch ms).
    """

    def __init__(
        self, store: PairedKeyValueStore[Any, Any, Any], show: Callable[[Any], Any], now: Callable[[], int]
    ) -> None:
        self._store = store
        self._show = show
        self._now = now

    @property
    def name(self) -> str:
        """The store's name."""
        return self._store.name

    def get(self, key: Any) -> Any:
        """The row under ``key``, or None."""
        row: Any = self._store.get(key)
        return None if row is None else self._show(row)

    def put(self, key: Any, value: Any) -> None:
        """Set or delete (None) the row under ``key``."""
        bare, timestamp = _split(value, self._show, self._now)
        self._store.put_pair(key, bare, timestamp, None)

    def put_if_absent(self, key: Any, value: Any) -> Any:
        """Set the row when there is none. Returns the one that was there, or None when it was set."""
        old = self.get(key)
        if old is None:
            self.put(key, value)
        return old

    def put_all(self, entries: Iterable[tuple[Any, Any]]) -> None:
        """Put each pair, in order."""
        for key, value in entries:
            self.put(key, value)

    def delete(self, key: Any) -> Any:
        """Delete the row. Returns the one that was there, or None."""
        old = self.get(key)
        self.put(key, None)
        return old

    def range(self, low: Any, high: Any) -> Iterator[tuple[Any, Any]]:
        """Rows from ``low`` to ``high``, both included."""
        return self._shown(self._store.range(low, high))

    def reverse_range(self, low: Any, high: Any) -> Iterator[tuple[Any, Any]]:
        """As :meth:`range`, from high to low."""
        return self._shown(self._store.reverse_range(low, high))

    def all(self) -> Iterator[tuple[Any, Any]]:
        """Every row in key order."""
        return self.range(None, None)

    def reverse_all(self) -> Iterator[tuple[Any, Any]]:
        """Every row in reverse key order."""
        return self.reverse_range(None, None)

    def prefix_scan(self, prefix: Any, prefix_serializer: Serializer[Any]) -> Iterator[tuple[Any, Any]]:
        """Rows whose key's bytes begin with the serialized ``prefix``, in key order."""
        return self._shown(self._store.prefix_scan(prefix, prefix_serializer))

    def approximate_num_entries(self) -> int:
        """Number of rows, roughly."""
        return self._store.approximate_num_entries()

    def _shown(self, rows: Iterator[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
        show = self._show
        return ((key, show(row)) for key, row in rows)


class WindowView:
    """A window store with less in its rows. See :class:`KeyValueView` for the arguments."""

    def __init__(self, store: WindowFacade[Any, Any, Any], show: Callable[[Any], Any], now: Callable[[], int]) -> None:
        self._store = store
        self._show = show
        self._now = now

    @property
    def name(self) -> str:
        """The store's name."""
        return self._store.name

    def put(self, key: Any, value: Any, window_start: int) -> None:
        """Set or delete (None) the row of a key and window."""
        bare, timestamp = _split(value, self._show, self._now)
        self._store.put_pair(key, bare, window_start, timestamp, None)

    def fetch(self, key: Any, time_from: int, time_to: int | None = None) -> Any:
        """The row of the window that starts at ``time_from``; with ``time_to`` all ``(window start, row)`` between."""
        if time_to is not None:
            return self._shown(self._store.fetch(key, time_from, time_to))
        row: Any = self._store.fetch(key, time_from)
        return None if row is None else self._show(row)

    def backward_fetch(self, key: Any, time_from: int, time_to: int) -> Iterator[tuple[int, Any]]:
        """As :meth:`fetch` of a time range, descending."""
        return self._shown(self._store.backward_fetch(key, time_from, time_to))

    def fetch_range(
        self, key_from: Any, key_to: Any, time_from: int, time_to: int
    ) -> Iterator[tuple[Windowed[Any], Any]]:
        """Rows of a range of keys (both included, None: no bound) in a time range."""
        return self._shown(self._store.fetch_range(key_from, key_to, time_from, time_to))

    def backward_fetch_range(
        self, key_from: Any, key_to: Any, time_from: int, time_to: int
    ) -> Iterator[tuple[Windowed[Any], Any]]:
        """As :meth:`fetch_range`, backwards."""
        return self._shown(self._store.backward_fetch_range(key_from, key_to, time_from, time_to))

    def fetch_all(self, time_from: int, time_to: int) -> Iterator[tuple[Windowed[Any], Any]]:
        """Rows of every key in a time range."""
        return self._shown(self._store.fetch_all(time_from, time_to))

    def backward_fetch_all(self, time_from: int, time_to: int) -> Iterator[tuple[Windowed[Any], Any]]:
        """As :meth:`fetch_all`, backwards."""
        return self._shown(self._store.backward_fetch_all(time_from, time_to))

    def all(self) -> Iterator[tuple[Windowed[Any], Any]]:
        """Every row."""
        return self._shown(self._store.all())

    def backward_all(self) -> Iterator[tuple[Windowed[Any], Any]]:
        """Every row, backwards."""
        return self._shown(self._store.backward_all())

    def _shown(self, rows: Iterator[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
        show = self._show
        return ((key, show(row)) for key, row in rows)


class SessionView:
    """A session store with headers without them."""

    def __init__(self, store: SessionFacade[Any, Any, Any]) -> None:
        self._store = store

    @property
    def name(self) -> str:
        """The store's name."""
        return self._store.name

    def put(self, session_key: Windowed[Any], aggregate: Any) -> None:
        """Set or delete (None) a session."""
        window = session_key.window
        self._store.put_pair(session_key.key, window.start, window.end, aggregate, window.end, None)

    def remove(self, session_key: Windowed[Any]) -> None:
        """Delete a session."""
        self._store.remove(session_key)

    def fetch_session(self, key: Any, session_start: int, session_end: int) -> Any:
        """The aggregate of a session, or None."""
        row: Any = self._store.fetch_session(key, session_start, session_end)
        return None if row is None else row[0]

    def find_sessions(self, key: Any, earliest_end: int, latest_start: int) -> Iterator[tuple[Windowed[Any], Any]]:
        """Sessions of a key that touch a span of time."""
        return _values(self._store.find_sessions(key, earliest_end, latest_start))

    def backward_find_sessions(
        self, key: Any, earliest_end: int, latest_start: int
    ) -> Iterator[tuple[Windowed[Any], Any]]:
        """As :meth:`find_sessions`, backwards."""
        return _values(self._store.backward_find_sessions(key, earliest_end, latest_start))

    def fetch(self, key: Any) -> Iterator[tuple[Windowed[Any], Any]]:
        """All sessions of a key."""
        return _values(self._store.fetch(key))

    def backward_fetch(self, key: Any) -> Iterator[tuple[Windowed[Any], Any]]:
        """As :meth:`fetch`, backwards."""
        return _values(self._store.backward_fetch(key))

    def fetch_range(self, key_from: Any, key_to: Any) -> Iterator[tuple[Windowed[Any], Any]]:
        """All sessions of a range of keys (both included, None: no bound)."""
        return _values(self._store.fetch_range(key_from, key_to))

    def backward_fetch_range(self, key_from: Any, key_to: Any) -> Iterator[tuple[Windowed[Any], Any]]:
        """As :meth:`fetch_range`, backwards."""
        return _values(self._store.backward_fetch_range(key_from, key_to))


def _values(rows: Iterator[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    return ((key, row[0]) for key, row in rows)


def _split(value: Any, show: Callable[[Any], Any], now: Callable[[], int]) -> tuple[Any, int]:
    if value is None or show is value_of:
        return value, now()
    return value[0], value[1]
