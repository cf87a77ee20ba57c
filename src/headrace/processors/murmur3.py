"""The 128-bit hash by which a foreign-key join tells whether an answer is about the row as it is now.

Murmur3, x64 variant, with the seed of the Java library. Source: ``state.internals.Murmur3.hash128``.
"""

from __future__ import annotations

import struct
from typing import Final

_MASK: Final = 0xFFFFFFFFFFFFFFFF
_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F
_SEED: Final = 104729
_PAIR: Final = struct.Struct("<QQ")
_HASH: Final = struct.Struct(">QQ")


def murmur3_128(data: bytes) -> bytes:
    """The hash as 16 bytes: two big-endian 64-bit numbers, as they are sent."""
    h1 = h2 = _SEED
    whole = len(data) & ~15
    for k1, k2 in _PAIR.iter_unpack(data[:whole]):
        h1 ^= _mixed(k1, _C1, 31, _C2)
        h1 = (_rotated(h1, 27) + h2) * 5 + 0x52DCE729 & _MASK
        h2 ^= _mixed(k2, _C2, 33, _C1)
        h2 = (_rotated(h2, 31) + h1) * 5 + 0x38495AB5 & _MASK
    k1, k2 = _PAIR.unpack(data[whole:].ljust(16, b"\0"))
    h2 ^= _mixed(k2, _C2, 33, _C1) ^ len(data)
    h1 ^= _mixed(k1, _C1, 31, _C2) ^ len(data)
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    h1, h2 = _finished(h1), _finished(h2)
    h1 = h1 + h2 & _MASK
    return _HASH.pack(h1, h2 + h1 & _MASK)


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> 64 - bits) & _MASK


def _mixed(number: int, one: int, bits: int, other: int) -> int:
    return _rotated(number * one & _MASK, bits) * other & _MASK


def _finished(number: int) -> int:
    number = (number ^ number >> 33) * 0xFF51AFD7ED558CCD & _MASK
    number = (number ^ number >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return number ^ number >> 33
