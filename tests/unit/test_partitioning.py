from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.partitioning import StreamPartitioner, murmur2, partition_for_key, to_positive

VECTORS = json.loads((Path(__file__).parents[2] / "conformance" / "vectors.json").read_text("utf-8"))


@pytest.mark.parametrize("vector", VECTORS["murmur2"], ids=lambda v: v["key_hex"][:24] or "empty")
def test_hash_and_partitions_are_the_java_librarys(vector: dict[str, Any]) -> None:
    key = bytes.fromhex(vector["key_hex"])
    assert murmur2(key) == vector["murmur2"]
    for count, partition in vector["partition"].items():
        assert partition_for_key(key, int(count)) == partition


def test_to_positive_keeps_31_bits() -> None:
    assert [to_positive(n) for n in (0, 1, -1, -(2**31))] == [0, 1, 2**31 - 1, 0]


class EvenOnly:
    def partitions(self, topic: str, key: int | None, value: object, num_partitions: int) -> frozenset[int] | None:
        if key is None:
            return None
        return frozenset({key % num_partitions}) if key % 2 == 0 else frozenset()


def test_a_partitioner_chooses_defers_or_drops() -> None:
    partitioner: StreamPartitioner[int, str] = EvenOnly()
    assert partitioner.partitions("t", 4, "v", 3) == frozenset({1})
    assert partitioner.partitions("t", 3, "v", 3) == frozenset()
    assert partitioner.partitions("t", None, "v", 3) is None
