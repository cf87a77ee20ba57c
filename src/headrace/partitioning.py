"""Which partition a record goes to: Kafka's murmur2 over the key bytes, and the contract of custom partitioners."""

from __future__ import annotations

from struct import unpack_from
from typing import Protocol, TypeVar

K_contra = TypeVar("K_contra", contravariant=True)
V_contra = TypeVar("V_contra", contravariant=True)

_MASK = 0xFFFFFFFF
_MULTIPLIER = 0x5BD1E995
_SEED = 0x9747B28C


def murmur2(data: bytes) -> int:
    """Murmur2 hash with Kafka's seed.

    Args:
        data: The serialized key, possibly empty.

    Returns:
        A signed 32-bit number, as ``org.apache.kafka.common.utils.Utils.murmur2`` returns it.
    """
    length = len(data)
    h = _SEED ^ length
    words = length >> 2
    for k in unpack_from(f"<{words}I", data):
        k = k * _MULTIPLIER & _MASK
        h = (h * _MULTIPLIER & _MASK) ^ ((k ^ k >> 24) * _MULTIPLIER & _MASK)
    rest = length & 3
    if rest:
        h = (h ^ int.from_bytes(data[words << 2 :], "little")) * _MULTIPLIER & _MASK
    h = (h ^ h >> 13) * _MULTIPLIER & _MASK
    h ^= h >> 15
    return h - 0x1_0000_0000 if h & 0x8000_0000 else h


def to_positive(number: int) -> int:
    """The low 31 bits: what Kafka takes in place of an absolute value (``Utils.toPositive``)."""
    return number & 0x7FFFFFFF


def partition_for_key(key: bytes, num_partitions: int) -> int:
    """The partition that Kafka's default partitioner chooses for a record with a key.

    Args:
        key: The serialized key.
        num_partitions: Partition count of the topic, at least 1.
    """
    return (murmur2(key) & 0x7FFFFFFF) % num_partitions


class StreamPartitioner(Protocol[K_contra, V_contra]):
    """Chooses partitions of a sink or repartition topic. Source: ``processor.StreamPartitioner`` (KIP-837)."""

    def partitions(
        self, topic: str, key: K_contra | None, value: V_contra | None, num_partitions: int
    ) -> frozenset[int] | None:
        """Partitions to which one record is written.

        Args:
            topic: Name of the topic.
            key: Key before serialization.
            value: Value before serialization.
            num_partitions: Partition count of the topic.

        Returns:
            None for the default partitioner's choice, an empty set to drop the record (counted), several members to
            write it several times.
        """
        ...
