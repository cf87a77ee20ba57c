"""Metadata of committed offsets, as Java writes it: the partition time survives a restart in it.

``base64( 0x02 ‖ i64 partition time [‖ i32 n {i32 length, utf-8 key, i64 value}] )``; an older ``0x01 ‖ i64`` is read
too. The entries are numbers that processors keep: names of stores with the time up to which closed windows were
emitted. Source: ``processor.internals.TopicPartitionMetadata``.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_HEAD = struct.Struct(">bq")
_HEAD_TEXT = 12
"""Characters of base64 that hold the 9 bytes of version and partition time."""
_BASE64 = re.compile("[A-Za-z0-9+/]*=*")
_COUNT = struct.Struct(">i")
_NUMBER = struct.Struct(">q")


def encode_metadata(partition_time: int, entries: Mapping[str, int] | None = None) -> str:
    """The text to commit beside an offset: the partition time, and the numbers that processors keep."""
    raw = bytearray(_HEAD.pack(2, partition_time))
    if entries:
        raw += _COUNT.pack(len(entries))
        for name, number in entries.items():
            text = name.encode()
            raw += _COUNT.pack(len(text)) + text + _NUMBER.pack(number)
    return base64.b64encode(raw).decode("ascii")


def decode_metadata(text: str | None) -> tuple[int, dict[str, int]]:
    """The partition time (epoch ms) of a committed offset's metadata, and the numbers of processors.

    The time is -1 and there are no numbers when there is no metadata or it is not ours. A text that was cut off, or
    that has something behind it, gives what can be read.
    """
    head = _decoded((text or "")[:_HEAD_TEXT])
    if len(head) < _HEAD.size or head[0] not in (1, 2):
        return -1, {}
    return int(_HEAD.unpack_from(head)[1]), _entries(_decoded(text or "")[_HEAD.size :])


def _decoded(text: str) -> bytes:
    clean = _BASE64.match(text)
    known = clean[0] if clean is not None else ""
    try:
        return base64.b64decode(known[: len(known) // 4 * 4], validate=True)
    except binascii.Error:
        return b""


def _entries(raw: bytes) -> dict[str, int]:
    entries: dict[str, int] = {}
    try:
        (count,) = _COUNT.unpack_from(raw)
        at = _COUNT.size
        for _ in range(count):
            (length,) = _COUNT.unpack_from(raw, at)
            at += _COUNT.size
            name = raw[at : at + length].decode()
            at += length
            (entries[name],) = _NUMBER.unpack_from(raw, at)
            at += _NUMBER.size
    except (struct.error, UnicodeDecodeError):
        pass
    return entries
