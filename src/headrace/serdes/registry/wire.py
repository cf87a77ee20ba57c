"""How the id of a schema travels with a record. Source: ``io.confluent.kafka.serializers.schema.id`` (Confluent 8).

* In front: byte 0, the id in 4 bytes big-endian, then the payload.
* In a header, ``__key_schema_id`` or ``__value_schema_id``: byte 1, the schema's GUID in 16 bytes. The record's key or
  value is the payload alone.

Protobuf has the place of its message in the schema behind id or GUID: the number of indexes and then each, as zig-zag
varints; a single zero byte stands for the first message of the file.
"""

from __future__ import annotations

import struct
import uuid
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.errors import SerializationException
from headrace.serdes.varints import decode_varint, encode_varint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.records import Headers

KEY_SCHEMA_ID_HEADER: Final = "__key_schema_id"
VALUE_SCHEMA_ID_HEADER: Final = "__value_schema_id"
PREFIX_SIZE: Final = 5
"""Bytes in front of a payload, without Protobuf's indexes."""
_MAGIC_ID: Final = 0
_MAGIC_GUID: Final = 1
_prefix = struct.Struct(">bI")


class IdWriter(Enum):
    """Where a serializer puts the id of the schema."""

    PREFIX = "prefix"
    """In front of the payload."""
    HEADER = "header"
    """The GUID in a header; in front where a record has no headers of its own, as in a store."""


class IdReader(Enum):
    """Where a deserializer looks for the id of the schema."""

    DUAL = "dual"
    """In the header, if there is one, else in front of the payload."""
    PREFIX = "prefix"
    """In front of the payload, whatever headers there are."""


class SchemaRef(NamedTuple):
    """What a record says of its schema: an id, or a GUID."""

    id: int | None
    guid: str | None

    def __str__(self) -> str:
        return f"id {self.id}" if self.guid is None else f"GUID {self.guid}"


def header_name(is_key: bool) -> str:
    """The header that holds a GUID."""
    return KEY_SCHEMA_ID_HEADER if is_key else VALUE_SCHEMA_ID_HEADER


def id_prefix(schema_id: int, indexes: bytes = b"") -> bytes:
    """What stands in front of the payload."""
    return _prefix.pack(_MAGIC_ID, schema_id) + indexes


def guid_header(guid: str, indexes: bytes = b"") -> bytes:
    """The value of the header."""
    return bytes((_MAGIC_GUID,)) + uuid.UUID(guid).bytes + indexes


def read_ref(data: bytes) -> tuple[SchemaRef, int]:
    """The schema that ``data`` begins with, and where its payload (or Protobuf's indexes) begin.

    Args:
        data: A key, a value, or the value of a header.

    Raises:
        SerializationException: It begins with neither form.
    """
    if len(data) >= PREFIX_SIZE and data[0] == _MAGIC_ID:
        return SchemaRef(_prefix.unpack_from(data)[1], None), PREFIX_SIZE
    if len(data) >= 17 and data[0] == _MAGIC_GUID:
        return SchemaRef(None, str(uuid.UUID(bytes=data[1:17]))), 17
    if len(data) < PREFIX_SIZE:
        raise SerializationException(
            f"{len(data)} bytes are too few to name a schema: this was not written by a serializer with a schema "
            "registry"
        )
    raise SerializationException(
        f"The first byte is {data[0]}, not 0 (a schema's id) or 1 (its GUID): this was not written by a serializer "
        "with a schema registry"
    )


def header_value(headers: Headers | None, name: str) -> bytes | None:
    """The last value of a header; None where it is not there or null."""
    if headers:
        for key, value in reversed(headers):
            if key == name:
                return value
    return None


def set_header(headers: Headers, name: str, value: bytes | None) -> None:
    """Replace every header ``name`` by one with ``value``, or by none."""
    headers[:] = [header for header in headers if header[0] != name]
    if value is not None:
        headers.append((name, value))


def encode_indexes(indexes: Sequence[int]) -> bytes:
    """Protobuf's place of a message in its file: of each message on the way down, its number among its siblings."""
    if list(indexes) == [0]:
        return b"\x00"
    return b"".join(map(encode_varint, (len(indexes), *indexes)))


def skip_indexes(data: bytes, at: int) -> int:
    """Where the payload begins that follows Protobuf's indexes.

    Raises:
        SerializationException: The indexes are cut off or not such.
    """
    count, at = decode_varint(data, at, "a message index of a Protobuf message")
    if count < 0:
        raise SerializationException(f"a Protobuf message has {count} message indexes")
    for _ in range(count):
        _, at = decode_varint(data, at, "a message index of a Protobuf message")
    return at
