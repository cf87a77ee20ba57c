"""Functions between a topic's bytes and values; those that have to do with headers find them in a cell.

Hardly any serde needs headers, so the functions that run for every record take a value and nothing else. Where one
does, whoever runs it puts the record's headers into the cell first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.api.serde import Deserializer, Serializer
    from headrace.records import Headers


class HeaderCell:
    """The headers of the record in work. For encoders always a list, which they may change."""

    __slots__ = ("headers",)

    def __init__(self) -> None:
        self.headers: Headers | None = None


class Encoders(NamedTuple):
    """A topic's encoders. ``cell`` is None where neither has to do with headers; the names are the serializers'."""

    key: Callable[[Any], bytes | None]
    value: Callable[[Any], bytes | None]
    cell: HeaderCell | None
    key_name: str
    value_name: str


class Decoders(NamedTuple):
    """A topic's decoders. ``cell`` is None where neither has to do with headers."""

    key: Callable[[bytes], Any]
    value: Callable[[bytes], Any]
    cell: HeaderCell | None


def bind_encoders(key: Serializer[Any], value: Serializer[Any], topic: str) -> Encoders:
    """The encoders of a sink's topic."""
    cell = HeaderCell()
    for_key, for_value = key.bind_with_headers(topic), value.bind_with_headers(topic)
    return Encoders(
        key.bind(topic) if for_key is None else _encoder(for_key, cell),
        value.bind(topic) if for_value is None else _encoder(for_value, cell),
        None if for_key is None and for_value is None else cell,
        type(key).__name__,
        type(value).__name__,
    )


def bind_decoders(key: Deserializer[Any], value: Deserializer[Any], topic: str) -> Decoders:
    """The decoders of a source's topic."""
    cell = HeaderCell()
    for_key, for_value = key.bind_with_headers(topic), value.bind_with_headers(topic)
    return Decoders(
        key.bind(topic) if for_key is None else _decoder(for_key, cell),
        value.bind(topic) if for_value is None else _decoder(for_value, cell),
        None if for_key is None and for_value is None else cell,
    )


def _encoder(function: Callable[[Any, Headers], bytes], cell: HeaderCell) -> Callable[[Any], bytes]:
    def bound(data: Any) -> bytes:
        assert cell.headers is not None
        return function(data, cell.headers)

    return bound


def _decoder(function: Callable[[bytes, Headers | None], Any], cell: HeaderCell) -> Callable[[bytes], Any]:
    def bound(data: bytes) -> Any:
        return function(data, cell.headers)

    return bound
