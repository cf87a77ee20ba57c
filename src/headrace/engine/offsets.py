"""Metadata of committed offsets, as Java writes it: the partition time survives a restart in it.

``base64( 0x02 ‖ i64 partition time [‖ i32 n {i32 length, utf-8 key, i64 value}] )``; an older ``0x01 ‖ i64`` is read
too. The first 12 characters are the version and the time, whatever follows. Source:
``processor.internals.TopicPartitionMetadata``.
"""

from __future__ import annotations

import base64
import binascii
import struct

_TEXT = 12
"""Characters of base64 that hold the 9 bytes of version and partition time."""


def encode_metadata(partition_time: int) -> str:
    """The text to commit beside an offset."""
    return base64.b64encode(struct.pack(">bq", 2, partition_time)).decode("ascii")


def decode_metadata(text: str | None) -> int:
    """The partition time (epoch ms) of a committed offset's metadata; -1 when there is none or it is not ours.

    No more than the first 12 characters are looked at; entries of processors may follow.
    """
    if not text:
        return -1
    try:
        raw = base64.b64decode(text[:_TEXT], validate=True)
    except (binascii.Error, ValueError):
        return -1
    if len(raw) < 9 or raw[0] not in (1, 2):
        return -1
    return int(struct.unpack_from(">q", raw, 1)[0])
