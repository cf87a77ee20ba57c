"""Values of the vocabulary: Java's number types, texts and serdes under their names."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.api.serde import Deserializer, Serde, Serializer
from headrace.api.windows import SessionWindow, TimeWindow, Windowed
from headrace.errors import IllegalStateException, SerializationException
from headrace.serdes import JsonSerde, Serdes, WindowedSerdes

if TYPE_CHECKING:
    from collections.abc import Mapping

_DECIMAL: Final = re.compile(r"[+-]?[0-9]+")


class LaterStep(Exception):
    """The case uses an operation or setting that the library does not have yet; the text names it."""


class Int(int):
    """A 32-bit integer, Java's ``Integer``: arithmetic keeps the type of its left operand. Plain ints are 64-bit."""


@dataclass(frozen=True, slots=True)
class JsonText:
    """A JSON value that is a text: no ``String``, and written with its quotes."""

    text: str


class JsonInt(int):
    """A JSON value that is a whole number: no ``Long`` and no ``Integer``."""


class JsonDouble(float):
    """A JSON value that is another number: no ``Double``."""

    __slots__ = ()


def as_json(value: Any) -> Any:
    """What JSON was read, as a value that knows so."""
    if isinstance(value, str):
        return JsonText(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return JsonInt(value)
    return JsonDouble(value) if isinstance(value, float) else value


def only_json(value: Any) -> Any:
    """A JSON value as JSON writes it.

    Raises:
        TypeError: It is a value of another kind.
    """
    if not isinstance(value, dict | list | bool | JsonText | JsonInt | JsonDouble | None):
        raise TypeError(f"{type(value).__name__} is no JSON")
    return to_json(value)


def in_range(number: int, like: int) -> int:
    """``number`` in the type of ``like``.

    Raises:
        OverflowError: It does not fit.
    """
    bits = 32 if isinstance(like, Int) else 64
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise OverflowError(f"{number} does not fit {bits} bits")
    return Int(number) if isinstance(like, Int) else number


def wrapped(number: int) -> int:
    """``number`` as Java's ``long`` holds it, without a look at its bounds."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def parse(text: str, like: int) -> int:
    """The integer written in ``text``, in the type of ``like``.

    Raises:
        ValueError: It is not a decimal integer that fits.
    """
    if not _DECIMAL.fullmatch(text):
        raise ValueError(f"'{text}' is not a decimal integer")
    try:
        return in_range(int(text), like)
    except OverflowError as e:
        # as Java says it
        raise ValueError(str(e)) from None


def text(value: object) -> str:
    """``str(x)`` of the vocabulary, as ``String.valueOf`` writes it."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return value
    if isinstance(value, bool | dict | list | JsonText):
        return json.dumps(to_json(value), ensure_ascii=False, separators=(",", ":"))
    if isinstance(value, float):
        return _double_text(value)
    if isinstance(value, Windowed):
        key: Windowed[Any] = value  # pyright: ignore[reportUnknownVariableType]  # any key
        return f"{text(key.key)}@{key.window.start}/{key.window.end}"
    return str(value)


def number(value: object) -> int:
    """``num(x)`` of the vocabulary.

    Raises:
        TypeError: It is no number.
    """
    if value is None:
        return 0
    if isinstance(value, int | float) and not isinstance(value, bool | JsonInt | JsonDouble):
        return int(value)
    raise TypeError(f"{type(value).__name__} is no number")


def _double_text(value: float) -> str:
    if value != value or value in {float("inf"), float("-inf")}:
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value) if "e" not in repr(value) else f"{value:f}".rstrip("0")
    digits, _, exponent = f"{value:.17e}".partition("e")
    for precision in range(1, 18):
        digits, _, exponent = f"{value:.{precision}e}".partition("e")
        if float(f"{digits}e{exponent}") == value:
            break
    whole, _, fraction = digits.partition(".")
    return f"{whole}.{fraction.rstrip('0') or '0'}E{int(exponent)}"


class _IntDeserializer(Deserializer[int]):
    """32-bit integers that know their width."""

    def deserialize(self, topic: str, data: bytes | None) -> int | None:
        """See :class:`headrace.api.serde.Deserializer`."""
        value = Serdes.Integer().deserializer.deserialize(topic, data)
        return None if value is None else Int(value)


class _JsonDeserializer(Deserializer[Any]):
    """JSON whose texts and numbers know that they are JSON."""

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        """See :class:`headrace.api.serde.Deserializer`."""
        return as_json(JsonSerde().deserializer.deserialize(topic, data))


class _JsonSerializer(Serializer[Any]):
    """JSON; texts and numbers alone only where they are JSON."""

    def serialize(self, topic: str, data: Any) -> bytes | None:
        """See :class:`headrace.api.serde.Serializer`."""
        return JsonSerde().serializer.serialize(topic, only_json(data))


class _Only(Serializer[Any]):
    """Refuses, as Java does, what is not exactly of the type."""

    def __init__(self, kind: type[Any], of: Serializer[Any]) -> None:
        self._kind = kind
        self._of = of

    def serialize(self, topic: str, data: Any) -> bytes | None:
        """See :class:`headrace.api.serde.Serializer`."""
        if data is not None and type(data) is not self._kind:
            raise TypeError(f"{type(data).__name__} where {self._kind.__name__} is wanted")
        return self._of.serialize(topic, data)


def _good(data: Any, bad: str) -> Any:
    if data == bad:
        raise SerializationException(f"except {bad}")
    return data


class _ExceptSerializer(Serializer[str]):
    """Texts but one, which does not encode."""

    def __init__(self, bad: str) -> None:
        self._bad = bad

    def serialize(self, topic: str, data: str | None) -> bytes | None:
        """See :class:`headrace.api.serde.Serializer`."""
        return _SERDES["string"].serializer.serialize(topic, _good(data, self._bad))


class _ExceptDeserializer(Deserializer[str]):
    """Texts but one, which does not decode."""

    def __init__(self, bad: str) -> None:
        self._bad = bad

    def deserialize(self, topic: str, data: bytes | None) -> str | None:
        """See :class:`headrace.api.serde.Deserializer`."""
        text: str | None = _good(_SERDES["string"].deserializer.deserialize(topic, data), self._bad)
        return text


class _HexSerializer(Serializer[str]):
    """Any bytes, seen as the text of their hexadecimal digits."""

    def serialize(self, topic: str, data: str | None) -> bytes | None:
        """See :class:`headrace.api.serde.Serializer`."""
        return None if data is None else bytes.fromhex(data)


class _HexDeserializer(Deserializer[str]):
    """See :class:`_HexSerializer`."""

    def deserialize(self, topic: str, data: bytes | None) -> str | None:
        """See :class:`headrace.api.serde.Deserializer`."""
        return None if data is None else data.hex()


def _only(kind: type[Any], of: Serde[Any], deserializer: Deserializer[Any] | None = None) -> Serde[Any]:
    return Serde(_Only(kind, of.serializer), deserializer or of.deserializer, immutable=True, exact=True)


_SERDES: Final[Mapping[str, Serde[Any]]] = {
    "string": _only(str, Serdes.String()),
    "long": _only(int, Serdes.Long()),
    "integer": _only(Int, Serdes.Integer(), _IntDeserializer()),
    "double": _only(float, Serdes.Double()),
    "json": Serde(_JsonSerializer(), _JsonDeserializer(), exact=False),
    "hex": Serde(_HexSerializer(), _HexDeserializer(), immutable=True, exact=True),
}


def serde(name: str | None) -> Serde[Any] | None:
    """The serde of that name; None for None.

    Raises:
        IllegalStateException: The vocabulary has no such serde.
    """
    if name is None:
        return None
    kind, _, size = name.partition(":")
    if kind == "except":
        return Serde(_ExceptSerializer(size), _ExceptDeserializer(size), immutable=True, exact=True)
    if kind == "time_windowed":
        return WindowedSerdes.time_windowed(_SERDES["string"], int(size))
    if kind == "session_windowed":
        return WindowedSerdes.session_windowed(_SERDES["string"])
    if name not in _SERDES:
        raise IllegalStateException(f"no serde named {name}")
    return _SERDES[name]


def to_json(value: Any) -> Any:
    """A value as JSON writes it."""
    if isinstance(value, Windowed):
        key: Windowed[Any] = value  # pyright: ignore[reportUnknownVariableType]  # any key
        return {"key": to_json(key.key), "start": key.window.start, "end": key.window.end}
    if isinstance(value, JsonText):
        return value.text
    if isinstance(value, JsonInt):
        return int(value)
    return float(value) if isinstance(value, JsonDouble) else value


def from_json(value: Any, serde_name: str) -> Any:
    """A value of an input, as the type of its serde."""
    if value is None:
        return None
    kind = serde_name.partition(":")[0]
    if kind == "time_windowed":
        return Windowed(value["key"], TimeWindow(value["start"], value["end"]))
    if kind == "session_windowed":
        return Windowed(value["key"], SessionWindow(value["start"], value["end"]))
    if serde_name == "integer":
        return Int(value)
    if serde_name == "json":
        return as_json(value)
    return float(value) if serde_name == "double" else value
