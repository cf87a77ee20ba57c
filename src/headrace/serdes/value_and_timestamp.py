"""How timestamped stores keep a value: its timestamp in front of its bytes.

Layout: 8 bytes timestamp (epoch ms, big-endian, signed), then the value's own bytes. Changelog records hold the bare
value; their record timestamp is the other half. Source: ``state.internals.ValueAndTimestampSerializer``.
"""

from __future__ import annotations

import struct

from headrace.errors import SerializationException

_TIMESTAMP = struct.Struct(">q")
TIMESTAMP_SIZE_BYTES = 8


def join_value_and_timestamp(value: bytes, timestamp: int) -> bytes:
    """The stored form of a serialized value and its timestamp (epoch ms)."""
    return _TIMESTAMP.pack(timestamp) + value


def split_value_and_timestamp(data: bytes) -> tuple[bytes, int]:
    """The serialized value and the timestamp (epoch ms) of a stored form.

    Raises:
        SerializationException: ``data`` is shorter than a timestamp.
    """
    return data[TIMESTAMP_SIZE_BYTES:], timestamp_of(data)


def timestamp_of(data: bytes) -> int:
    """The timestamp (epoch ms) of a stored form.

    Raises:
        SerializationException: ``data`` is shorter than a timestamp.
    """
    try:
        timestamp: int = _TIMESTAMP.unpack_from(data)[0]
    except struct.error:
        raise SerializationException(
            f"A stored value with timestamp has at least {TIMESTAMP_SIZE_BYTES} bytes, but this one has {len(data)}"
        ) from None
    return timestamp
