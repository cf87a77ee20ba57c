"""Whole numbers in as few bytes as they need: zigzag, seven bits a byte, the lowest first.

Source: ``org.apache.kafka.common.utils.ByteUtils``.
"""

from __future__ import annotations

from headrace.errors import SerializationException

_MAX_BYTES = 5


def encode_varint(number: int) -> bytes:
    """The bytes of a 32-bit number."""
    rest = number << 1 if number >= 0 else (-number << 1) - 1
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def decode_varint(data: bytes, at: int, what: str) -> tuple[int, int]:
    """The number that begins at ``at``, and where what follows it begins.

    Args:
        data: The bytes.
        at: Where the number begins.
        what: What it is, for the error.

    Raises:
        SerializationException: It is cut off or longer than 5 bytes.
    """
    number = 0
    for used, byte in enumerate(data[at : at + _MAX_BYTES]):
        number |= (byte & 0x7F) << 7 * used
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at + used + 1
    raise SerializationException(f"{what} is cut off or longer than {_MAX_BYTES} bytes")
