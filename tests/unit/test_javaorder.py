from __future__ import annotations

import random

import pytest

from headrace.javaorder import TreeSet, hash_order, string_hash


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("a", 97), ("hello", 99162322), ("KSTREAM-SOURCE-0000000000", None), ("polygenelubricants", 0x80000000)],
)
def test_string_hash_is_javas(text: str, expected: int | None) -> None:
    if expected is None:
        expected = 0
        for letter in text:
            expected = (expected * 31 + ord(letter)) % 2**32
    assert string_hash(text) == expected


def test_hash_order_walks_buckets() -> None:
    # one-letter strings hash to their code: buckets of a table of 16 are code mod 16
    assert hash_order(["p", "a", "q", "b"]) == ["p", "a", "q", "b"]  # 112 -> 0, 97 -> 1, 113 -> 1, 98 -> 2
    assert hash_order(["q", "a"]) == ["q", "a"]  # one bucket keeps the order of insertion
    assert hash_order(["b", "a", "b"]) == ["a", "b"]


def test_a_copied_set_of_twelve_has_a_larger_table() -> None:
    names = [chr(97 + i) for i in range(11)] + ["q"]  # a and q share a bucket of 16, not of 32
    assert hash_order(names) == ["a", "q", *names[1:11]]
    assert hash_order(names, copied=True) == [*names[:11], "q"]


def test_tree_set_sorts_by_fixed_keys() -> None:
    rng = random.Random(5)
    for _ in range(50):
        keys = {name: (rng.randrange(4), name) for name in {str(rng.randrange(1000)) for _ in range(rng.randrange(60))}}
        tree: TreeSet[str] = TreeSet(keys.__getitem__)
        for name in keys:
            tree.add(name)
        assert list(tree) == sorted(keys, key=keys.__getitem__)


def test_tree_set_compares_by_the_keys_of_the_moment() -> None:
    sizes = {"a": 1, "b": 1}
    tree: TreeSet[str] = TreeSet(lambda name: (-sizes[name], name))
    tree.add("b")
    sizes["a"] = 5
    tree.add("a")
    sizes["b"] = 9
    assert list(tree) == ["a", "b"]
