"""The orders in which the Java library walks its unordered collections.

``describe()`` prints successors and stores in the order of Java's hash sets, and of tree sets whose order depends on
what was compared at the moment of insertion; some changelogs are written in the order of hash sets. Both are compared
byte for byte with Java's, so those orders are computed here. Sources: ``java.lang.String.hashCode``,
``java.util.Arrays.hashCode``, ``java.util.HashMap``, ``java.util.TreeMap``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")

_MASK = 0xFFFFFFFF
_LEAST_CAPACITY = 16


def string_hash(text: str) -> int:
    """``String.hashCode`` as an unsigned 32-bit number."""
    result = 0
    units = text.encode("utf-16-be")
    for i in range(0, len(units), 2):
        result = (31 * result + (units[i] << 8 | units[i + 1])) & _MASK
    return result


def bytes_hash(data: bytes) -> int:
    """``Arrays.hashCode(byte[])``, which is that of Kafka's ``Bytes``, as an unsigned 32-bit number."""
    result = 1
    for byte in data:
        result = (31 * result + (byte ^ 0x80) - 0x80) & _MASK
    return result


def hash_capacity(count: int, least: int = _LEAST_CAPACITY) -> int:
    """Size of the table of a ``HashMap`` that had ``least`` buckets and then took ``count`` keys."""
    while count > least * 3 // 4:
        least *= 2
    return least


def copied_capacity(count: int) -> int:
    """Size of the table of a ``HashSet`` that is made in one piece from a collection of ``count`` items."""
    capacity, wanted = _LEAST_CAPACITY, int(count / 0.75) + 1
    while capacity < wanted:
        capacity *= 2
    return capacity


def hash_order(names: Iterable[str], *, copied: bool = False) -> list[str]:
    """Distinct names in the order of a ``HashSet`` that they were added to in this order.

    Args:
        names: The names in the order of insertion.
        copied: The set was made in one piece from another collection, which chooses its size beforehand.
    """
    distinct = list(dict.fromkeys(names))
    capacity = copied_capacity(len(distinct)) if copied else _LEAST_CAPACITY
    return in_buckets(distinct, string_hash, hash_capacity(len(distinct), capacity))


def in_buckets(distinct: Iterable[T], hash_of: Callable[[T], int], capacity: int) -> list[T]:
    """Distinct keys in the order of a ``HashMap`` with that many buckets, to which they were added in this order."""
    buckets: dict[int, list[T]] = {}
    for key in distinct:
        h = hash_of(key)
        buckets.setdefault((h ^ h >> 16) & (capacity - 1), []).append(key)
    return [key for index in sorted(buckets) for key in buckets[index]]


class _Entry(Generic[T]):
    __slots__ = ("item", "left", "parent", "red", "right")

    def __init__(self, item: T, parent: _Entry[T] | None) -> None:
        self.item = item
        self.parent = parent
        self.left: _Entry[T] | None = None
        self.right: _Entry[T] | None = None
        self.red = True


class TreeSet(Generic[T]):
    """A sorted set whose keys may change after insertion, as nodes' sizes do while a topology is described.

    It is a red-black tree: with changing keys the place of a new item depends on the very shape of the tree.
    """

    def __init__(self, key: Callable[[T], tuple[int, str]]) -> None:
        self._key = key
        self._root: _Entry[T] | None = None

    def add(self, item: T) -> None:
        """Insert an item that is not in the set, comparing by the keys of this moment."""
        at = self._root
        if at is None:
            self._root = _Entry(item, None)
            self._root.red = False
            return
        key = self._key(item)
        while True:
            smaller = key < self._key(at.item)
            below = at.left if smaller else at.right
            if below is None:
                break
            at = below
        entry = _Entry(item, at)
        if smaller:
            at.left = entry
        else:
            at.right = entry
        self._balance(entry)

    def __iter__(self) -> Iterator[T]:
        stack: list[_Entry[T]] = []
        at = self._root
        while stack or at is not None:
            while at is not None:
                stack.append(at)
                at = at.left
            entry = stack.pop()
            yield entry.item
            at = entry.right

    def _balance(self, entry: _Entry[T]) -> None:
        while (parent := entry.parent) is not None and parent.red:
            grand = parent.parent
            assert grand is not None, "the root is never red"
            on_left = parent is grand.left
            uncle = grand.right if on_left else grand.left
            if uncle is not None and uncle.red:
                parent.red = uncle.red = False
                grand.red = True
                entry = grand
                continue
            if entry is (parent.right if on_left else parent.left):
                self._rotate(parent, to_left=on_left)
                parent = entry
            parent.red = False
            grand.red = True
            self._rotate(grand, to_left=not on_left)
            break
        assert self._root is not None
        self._root.red = False

    def _rotate(self, entry: _Entry[T], *, to_left: bool) -> None:
        up = entry.right if to_left else entry.left
        assert up is not None
        inner = up.left if to_left else up.right
        if to_left:
            entry.right, up.left = inner, entry
        else:
            entry.left, up.right = inner, entry
        if inner is not None:
            inner.parent = entry
        above = entry.parent
        up.parent = above
        if above is None:
            self._root = up
        elif above.left is entry:
            above.left = up
        else:
            above.right = up
        entry.parent = up
