"""A buffered change of a table in bytes, as the changelog of its buffer has it.

Values of changelog records carry the header ``v`` with the byte 3, and are::

    i64 timestamp, i64 offset, i32 size, topic, i32 partition, i32 number of headers
    per header: i32 size, key, i32 size or -1, value
    i32 size or -1, prior value
    i32 size, -1 or -2 (the same as prior), old value
    i32 size or -1, new value
    i64 buffer time

The prior value is the one that was emitted last; the old value, the one before the new. Versions 0 to 2, of Java's
library before 2.5.1, are read too. Sources: ``state.internals.{BufferValue,
TimeOrderedKeyValueBufferChangelogDeserializationHelper}``, ``processor.internals.ProcessorRecordContext`` (4.4).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from headrace.records import Headers

_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")
_TIMES: Final = struct.Struct(">qq")
_SAME: Final = -2
VERSION: Final = "v"
"""Header with the version of a changelog record."""


class Buffered(NamedTuple):
    """A buffered change, in bytes: where its record lay, and the values."""

    timestamp: int
    offset: int
    topic: str
    partition: int
    headers: Headers
    prior: bytes | None
    old: bytes | None
    new: bytes | None

    def encoded(self, time: int) -> bytes:
        """The row, see the module."""
        topic = self.topic.encode()
        parts = [
            _TIMES.pack(self.timestamp, self.offset),
            _sized(topic),
            _I32.pack(self.partition),
            _I32.pack(len(self.headers)),
        ]
        for name, value in self.headers:
            parts += (_sized(name.encode()), _sized(value))
        parts.append(_sized(self.prior))
        same = self.old is not None and self.old == self.prior
        parts += (_I32.pack(_SAME) if same else _sized(self.old), _sized(self.new), _I64.pack(time))
        return b"".join(parts)

    def size_bytes(self, key: bytes) -> int:
        """What Java says that it takes in memory, under ``key``."""
        context = 8 + 8 + 4 + _length(self.topic)
        context += sum(_length(name) + len(value or b"") for name, value in self.headers)
        old = 0 if self.old is None or self.old == self.prior else len(self.old)
        return 8 + len(key) + context + len(self.prior or b"") + old + len(self.new or b"")


def _length(text: str) -> int:
    # Java counts UTF-16 units
    return len(text) if text.isascii() else len(text.encode("utf-16-be")) // 2


def _sized(data: bytes | None) -> bytes:
    return _I32.pack(-1) if data is None else _I32.pack(len(data)) + data


class _Reader:
    """Takes numbers and sized bytes off the front of some bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def i32(self) -> int:
        number: int = _I32.unpack_from(self._data, self._at)[0]
        self._at += 4
        return number

    def i64(self) -> int:
        number: int = _I64.unpack_from(self._data, self._at)[0]
        self._at += 8
        return number

    def taken(self, size: int) -> bytes:
        if size < 0 or self._at + size > len(self._data):
            raise ValueError(f"{size} bytes at {self._at} of {len(self._data)}")
        self._at += size
        return self._data[self._at - size : self._at]

    def sized(self) -> bytes | None:
        size = self.i32()
        return None if size == -1 else self.taken(size)

    def rest(self) -> bytes:
        return self.taken(len(self._data) - self._at)

    def context(self) -> tuple[int, int, str, int, Headers]:
        timestamp, offset = self.i64(), self.i64()
        topic, partition, count = (self.sized() or b"").decode(), self.i32(), self.i32()
        headers: Headers = [((self.sized() or b"").decode(), self.sized()) for _ in range(max(0, count))]
        return timestamp, offset, topic, partition, headers


def decode_buffered(data: bytes) -> tuple[Buffered, int]:
    """A row's change and its buffer time.

    Raises:
        ValueError, struct.error: It is no row.
    """
    reader = _Reader(data)
    context, prior = reader.context(), reader.sized()
    size = reader.i32()
    old = prior if size == _SAME else None if size == -1 else reader.taken(size)
    new = reader.sized()
    return Buffered(*context, prior, old, new), reader.i64()


def _legacy_change(data: bytes | None) -> tuple[bytes | None, bytes | None]:
    """``(old, new)`` of ``i32 size or -1, old, i32 size or -1, new``; all of it may be missing."""
    if data is None:
        return None, None
    reader = _Reader(data)
    return reader.sized(), reader.sized()


def read_changelog(
    value: bytes, headers: Headers | None, known_prior: tuple[bytes | None] | None, offset: int, timestamp: int
) -> tuple[Buffered, int]:
    """The change of a changelog record of any version, and its buffer time.

    Args:
        value: Value of the record.
        headers: Its headers.
        known_prior: The prior value of what is buffered under the key so far, in a tuple; None when nothing is.
        offset: Of the record.
        timestamp: Of the record.

    Raises:
        ValueError, struct.error: It is no buffered change.
    """
    version = next((data for name, data in reversed(headers or []) if name == VERSION), b"\0")
    if version == b"\x03":
        return decode_buffered(value)
    if version == b"\x02":
        return _version_2(value)
    if version not in (b"\x00", b"\x01"):
        raise ValueError(f"version {version!r}")
    reader = _Reader(value)
    time = reader.i64()
    context = reader.context() if version == b"\x01" else (timestamp, offset, "", -1, list(headers or []))
    old, new = _legacy_change(reader.sized() if version == b"\x01" else reader.rest())
    return Buffered(*context, old if known_prior is None else known_prior[0], old, new), time


def _version_2(value: bytes) -> tuple[Buffered, int]:
    try:
        reader = _Reader(value)
        context = reader.context()
        old, new = _legacy_change(reader.sized())
        return Buffered(*context, reader.sized(), old, new), reader.i64()
    except (ValueError, struct.error):
        # 2.4 and 2.5.0 wrote version 3 under this number
        return decode_buffered(value)
