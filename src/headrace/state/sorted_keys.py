"""Keys in order, sorted only when somebody looks."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_FEW = 16
"""So many new keys are put in their places one by one; more are sorted in together."""


class SortedKeys:
    """A growing collection of byte strings, read in ranges.

    Adding costs an append. A look sorts in what was added since the last one: a few by insertion, many by a merge of
    two sorted runs. Keys are never taken out one by one: whoever deletes rows looks them up before use, and a key that
    is added again appears twice.
    """

    __slots__ = ("_keys", "_new", "add")

    def __init__(self, keys: Iterable[bytes] = ()) -> None:
        self._keys = sorted(keys)
        self._new: list[bytes] = []
        self.add = self._new.append
        """Add a key."""

    def __len__(self) -> int:
        return len(self._keys) + len(self._new)

    def between(self, low: bytes | None, high: bytes | None) -> list[bytes]:
        """Keys with ``low <= key <= high`` (None: no bound), in order."""
        keys = self._settled()
        start = 0 if low is None else bisect_left(keys, low)
        return keys[start : len(keys) if high is None else bisect_right(keys, high)]

    def take_below(self, bound: bytes) -> list[bytes]:
        """Take out the keys less than ``bound``, and give them."""
        keys = self._settled()
        stop = bisect_left(keys, bound)
        taken = keys[:stop]
        del keys[:stop]
        return taken

    def _settled(self) -> list[bytes]:
        keys, new = self._keys, self._new
        if new:
            if len(new) <= _FEW:
                for key in new:
                    insort(keys, key)
            else:
                new.sort()
                in_order = not keys or keys[-1] <= new[0]
                keys.extend(new)
                if not in_order:
                    keys.sort()
            new.clear()
        return keys
