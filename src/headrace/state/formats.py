"""How a stored row is made of a value's bytes, its timestamp and its headers.

The changelog always has the bare value; timestamp and headers are the record's own. So a row can be made of a changelog
record, and says the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from headrace.records import Headers

NO_TIMESTAMP: Final = -1
"""Timestamp of a value that a plain store supplier holds for a timestamped store."""


class RowFormat(Protocol):
    """Makes rows, and takes them apart."""

    headers: bool
    """Whether rows, and so changelog records, carry headers."""

    def join(self, raw: bytes | None, timestamp: int, headers: Headers | None, /) -> bytes | None:
        """The row of a value's bytes; None for None."""
        ...

    def split(self, stored: bytes, /) -> tuple[bytes, int, Headers | None]:
        """A row's value bytes, timestamp (:data:`NO_TIMESTAMP`: it has none) and headers (None: it has none)."""
        ...


class _Plain:
    headers = False

    @staticmethod
    def join(raw: bytes | None, timestamp: int, headers: Headers | None) -> bytes | None:
        return raw

    @staticmethod
    def split(stored: bytes) -> tuple[bytes, int, Headers | None]:
        return stored, NO_TIMESTAMP, None


class _Timestamped:
    headers = False

    @staticmethod
    def join(raw: bytes | None, timestamp: int, headers: Headers | None) -> bytes | None:
        return None if raw is None else timestamp.to_bytes(8, "big", signed=True) + raw

    @staticmethod
    def split(stored: bytes) -> tuple[bytes, int, Headers | None]:
        return stored[8:], int.from_bytes(stored[:8], "big", signed=True), None


PLAIN: Final[RowFormat] = _Plain()
"""The value's bytes as they are."""
TIMESTAMPED: Final[RowFormat] = _Timestamped()
"""8-byte big-endian timestamp, then the value. Source: ``ValueAndTimestampSerializer``."""
