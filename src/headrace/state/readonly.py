"""A store that may only be read: what processors see of a global store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.errors import IllegalStateException

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

_CHANGING: Final = frozenset(
    {
        "clear",
        "close",
        "delete",
        "drop_uncommitted",
        "flush",
        "put",
        "put_all",
        "put_if_absent",
        "put_pair",
        "remove",
        "set_flush_listener",
    }
)


class ReadOnlyStore:
    """Any store without the methods that change it. A scan is a snapshot of the moment in which it begins.

    Args:
        store: The store.
        guard: Held during each call, so that another thread may write the store meanwhile.
    """

    __slots__ = ("_guard", "_store")

    def __init__(self, store: object, guard: AbstractContextManager[object]) -> None:
        self._store = store
        self._guard = guard

    def __getattr__(self, name: str) -> Any:
        if name in _CHANGING:
            raise IllegalStateException(f"Global store {self._store_name()} is read only: {name}() is not allowed")
        found = getattr(self._store, name)
        if not callable(found):
            return found
        guard = self._guard

        def guarded(*args: Any, **options: Any) -> Any:
            with guard:
                return found(*args, **options)

        return guarded

    def _store_name(self) -> str:
        return str(getattr(self._store, "name", "?"))
