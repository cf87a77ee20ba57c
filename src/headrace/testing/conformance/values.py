"""Values of the vocabulary: Java's number types, texts and serdes under their names."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from headrace.api.serde import Deserializer, Serde, Serializer
from headrace.api.windows import SessionWindow, TimeWindow, Windowed
from headrace.errors import IllegalStateException
from headrace.serdes import IntegerSerializer, JsonSerde, Serdes, WindowedSerdes

if TYPE_CHECKING:
    from collections.abc import Mapping

_DECIMAL: Final = re.compile(r"[+-]?[0-9]+")


class LaterStep(Exception):
    """The case uses an operation or setting that the library does not have yet; the text names it."""


class Int(int):
    """A 32-bit integer, Java's ``Integer``: arithmetic keeps the type of its left operand. Plain ints are 64-bit."""


class JsonText(str):
    """A JSON value that is a text: as such it is written with its quotes."""

    __slots__ = ()


def in_range(number: int, like: int) -> int:
    """``number`` in the type of ``like``.

    Raises:
        OverflowError: It does not fit.
    """
    bits = 32 if isinstance(like, Int) else 64
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise OverflowError(f"{number} does not fit {bits} bits")
    return Int(number) if isinstance(like, Int) else number


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
        raise ValueError(str(e)) from e


def text(value: object) -> str:
    """``str(x)`` of the vocabulary, as ``String.valueOf`` writes it."""
    if value is None:
        return "null"
    if isinstance(value, str) and not isinstance(value, JsonText):
        return value
    if isinstance(value, bool | dict | list | JsonText):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
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
    if isinstance(value, int | float) and not isinstance(value, bool):
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


class _LongSerializer(Serializer[int]):
    """64-bit integers; a 32-bit one is refused, as in Java."""

    def serialize(self, topic: str, data: int | None) -> bytes | None:
        """See :class:`headrace.api.serde.Serializer`."""
        if isinstance(data, Int):
            raise TypeError("a 32-bit integer where a 64-bit one is wanted")
        return Serdes.Long().serializer.serialize(topic, data)


class _JsonDeserializer(Deserializer[Any]):
    """JSON whose texts know that they are JSON."""

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        """See :class:`headrace.api.serde.Deserializer`."""
        value = JsonSerde().deserializer.deserialize(topic, data)
        return JsonText(value) if isinstance(value, str) else value


_SERDES: Final[Mapping[str, Serde[Any]]] = {
    "string": Serdes.String(),
    "long": Serde(_LongSerializer(), Serdes.Long().deserializer, immutable=True, exact=True),
    "integer": Serde(IntegerSerializer(), _IntDeserializer(), immutable=True, exact=True),
    "double": Serdes.Double(),
    "json": Serde(JsonSerde().serializer, _JsonDeserializer(), exact=False),
}


def serde(name: str | None) -> Serde[Any] | None:
    """The serde of that name; None for None.

    Raises:
        IllegalStateException: The vocabulary has no such serde.
    """
    if name is None:
        return None
    kind, _, size = name.partition(":")
    if kind == "time_windowed":
        return WindowedSerdes.time_windowed(_SERDES["string"], int(size))
    if kind == "session_windowed":
        return WindowedSerdes.session_windowed(_SERDES["string"])
    if name not in _SERDES:
        raise IllegalStateException(f"no serde named {name}")
    return _SERDES[name]


def to_json(value: Any) -> Any:
    """A value of an output, as JSON writes it."""
    if isinstance(value, Windowed):
        key: Windowed[Any] = value  # pyright: ignore[reportUnknownVariableType]  # any key
        return {"key": key.key, "start": key.window.start, "end": key.window.end}
    return value


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
    return float(value) if serde_name == "double" else value
