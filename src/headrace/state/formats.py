"""How a stored row is made of a value's bytes, its timestamp and its headers.

The changelog always has the bare value; timestamp and headers are the record's own. So a row can be made of a changelog
record, and says the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from headrace.serdes.varints import decode_varint, encode_varint

if TYPE_CHECKING:
    from headrace.records import Headers

NO_TIMESTAMP: Final = -1
"""Timestamp of a value that a plain store supplier holds for a timestamped store."""


class RowFormat(Protocol):
    """Makes rows, and takes them apart."""

    def join(self, raw: bytes | None, timestamp: int, headers: Headers | None, /) -> bytes | None:
        """The row of a value's bytes; None for None."""
        ...

    def split(self, stored: bytes, /) -> tuple[bytes, int, Headers | None]:
        """A row's value bytes, timestamp (:data:`NO_TIMESTAMP`: it has none) and headers (None: it has none)."""
        ...

    def logged(self, raw: bytes | None, headers: Headers | None, /) -> Headers | None:
        """The headers of the changelog record."""
        ...

    def shown(self, headers: Headers | None, /) -> Headers | None:
        """The headers that a flush of the cache forwards."""
        ...


class _WithoutHeaders:
    @staticmethod
    def logged(raw: bytes | None, headers: Headers | None) -> Headers | None:
        return None

    @staticmethod
    def shown(headers: Headers | None) -> Headers | None:
        return headers


class _Plain(_WithoutHeaders):
    @staticmethod
    def join(raw: bytes | None, timestamp: int, headers: Headers | None) -> bytes | None:
        return raw

    @staticmethod
    def split(stored: bytes) -> tuple[bytes, int, Headers | None]:
        return stored, NO_TIMESTAMP, None


class _LoggedHeaders(_Plain):
    @staticmethod
    def logged(raw: bytes | None, headers: Headers | None) -> Headers | None:
        return headers


class _Timestamped(_WithoutHeaders):
    @staticmethod
    def join(raw: bytes | None, timestamp: int, headers: Headers | None) -> bytes | None:
        return None if raw is None else timestamp.to_bytes(8, "big", signed=True) + raw

    @staticmethod
    def split(stored: bytes) -> tuple[bytes, int, Headers | None]:
        return stored[8:], int.from_bytes(stored[:8], "big", signed=True), None


class _Headers:
    """Headers before what another format makes."""

    def __init__(self, inner: RowFormat) -> None:
        self._join, self._split = inner.join, inner.split

    def join(self, raw: bytes | None, timestamp: int, headers: Headers | None) -> bytes | None:
        rest = self._join(raw, timestamp, None)
        return None if rest is None else _encode(headers) + rest

    def split(self, stored: bytes) -> tuple[bytes, int, Headers | None]:
        size, at = decode_varint(stored, 0, "the size of a row's headers")
        raw, timestamp, _ = self._split(stored[at + size :])
        return raw, timestamp, _decode(stored[at : at + size]) if size else None

    def logged(self, raw: bytes | None, headers: Headers | None) -> Headers | None:
        return headers

    def shown(self, headers: Headers | None) -> Headers | None:
        return headers


class _DslHeaders(_Headers):
    """Room for headers that the DSL leaves empty: only deletions tell the changelog about those of the record."""

    def join(self, raw: bytes | None, timestamp: int, headers: Headers | None) -> bytes | None:
        return super().join(raw, timestamp, None)

    def logged(self, raw: bytes | None, headers: Headers | None) -> Headers | None:
        return headers if raw is None else None


class _DslSessionHeaders(_DslHeaders):
    """As its base. What is forwarded has the row's own headers, which are none."""

    def shown(self, headers: Headers | None) -> Headers | None:
        return None


PLAIN: Final[RowFormat] = _Plain()
"""The value's bytes as they are."""
LOGGED_HEADERS: Final[RowFormat] = _LoggedHeaders()
"""The value's bytes as they are; headers are in the changelog only."""
TIMESTAMPED: Final[RowFormat] = _Timestamped()
"""8-byte big-endian timestamp, then the value. Source: ``ValueAndTimestampSerializer``."""
HEADERS: Final[RowFormat] = _Headers(TIMESTAMPED)
"""Length of the headers (varint), headers, 8-byte timestamp, value. Source: ``ValueTimestampHeadersSerializer``."""
SESSION_HEADERS: Final[RowFormat] = _Headers(PLAIN)
"""Length of the headers (varint), headers, value. Source: ``AggregationWithHeadersSerializer``."""
DSL_HEADERS: Final[RowFormat] = _DslHeaders(TIMESTAMPED)
""":data:`HEADERS` as the DSL uses it under ``dsl.store.format=HEADERS``."""
DSL_SESSION_HEADERS: Final[RowFormat] = _DslSessionHeaders(PLAIN)
""":data:`SESSION_HEADERS` as the DSL uses it under ``dsl.store.format=HEADERS``."""


def _encode(headers: Headers | None) -> bytes:
    """Size in bytes, then number, names and values of headers, each length a varint; -1 for a value of None."""
    if not headers:
        return b"\0"
    parts = [encode_varint(len(headers))]
    for name, value in headers:
        raw = name.encode()
        parts += (encode_varint(len(raw)), raw)
        parts += (encode_varint(-1),) if value is None else (encode_varint(len(value)), value)
    body = b"".join(parts)
    return encode_varint(len(body)) + body


def _decode(data: bytes) -> Headers:
    what = "a row's headers"
    headers: Headers = []
    count, at = decode_varint(data, 0, what)
    for _ in range(count):
        size, at = decode_varint(data, at, what)
        name = data[at : at + size].decode()
        size, at = decode_varint(data, at + size, what)
        headers.append((name, None if size < 0 else data[at : at + size]))
        at += max(size, 0)
    return headers
