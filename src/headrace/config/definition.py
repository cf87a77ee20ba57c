"""What a setting is: its row, its types, how text becomes a value. Semantics of Java's ``ConfigDef``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from headrace.errors import ConfigException

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class ConfigType(Enum):
    """Type of a setting's value. Text is trimmed before it is read."""

    BOOLEAN = "boolean"
    """``true`` or ``false`` in any case, or a bool."""
    STRING = "string"
    """Text."""
    INT = "int"
    """A signed 32-bit decimal number, or an int."""
    LONG = "long"
    """A signed 64-bit decimal number, or an int."""
    DOUBLE = "double"
    """A decimal number, or a float."""
    LIST = "list"
    """Texts separated by commas, or a list or tuple of str. Becomes a tuple."""
    CLASS = "class"
    """A Java class name that has a counterpart here, a Python ``module:attribute``, or the object itself."""
    PASSWORD = "password"  # noqa: S105  # the name of a type
    """Text that is never shown."""


class Importance(Enum):
    """How likely a user is to need the setting."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Support(Enum):
    """What this version does with a setting. The row's ``note`` gives the reason."""

    FULL = "yes"
    """Does what it does in the Java library, or what the note says."""
    NO_EFFECT = "accepted, no effect"
    """Loads; a value other than the default is answered with one warning."""
    REFUSED = "default only"
    """A value other than the default is refused, because ignoring it would change results."""


@dataclass(frozen=True, slots=True)
class Validator:
    """A test of parsed values.

    ``check`` returns the value in its canonical form or raises ValueError; ``allowed`` says in words what passes.
    """

    allowed: str
    check: Callable[[Any], Any]


def at_least(minimum: int) -> Validator:
    """Numbers of ``minimum`` or more."""

    def check(value: int) -> int:
        if value < minimum:
            raise ValueError
        return value

    return Validator(f"a number of at least {minimum}", check)


def one_of(*values: str, case_insensitive: bool = False) -> Validator:
    """One of ``values``; the canonical form is as spelled here."""
    table = {(v.lower() if case_insensitive else v): v for v in values}

    def check(value: str) -> str:
        found = table.get(value.lower() if case_insensitive else value)
        if found is None:
            raise ValueError
        return found

    return Validator(f"one of {', '.join(values)}" + (" (in any case)" if case_insensitive else ""), check)


_INTEGER = re.compile(r"[+-]?[0-9]+")
_MODULE_ATTRIBUTE = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_BITS = {ConfigType.INT: 32, ConfigType.LONG: 64}
_EXPECTED = {
    ConfigType.BOOLEAN: "true or false",
    ConfigType.STRING: "text",
    ConfigType.PASSWORD: "text",
    ConfigType.INT: "a whole number of 32 bits",
    ConfigType.LONG: "a whole number of 64 bits",
    ConfigType.DOUBLE: "a number",
    ConfigType.LIST: "a comma-separated list",
    ConfigType.CLASS: "a class name",
}


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One row: everything there is to know about a setting.

    Attributes:
        name: Dotted name.
        type: Type of its value.
        default: Default as text, as Java writes it; None means "not set".
        importance: How likely a user is to need it.
        doc: One or two sentences.
        validator: Test of parsed values.
        required: Has no default and must be given.
        support: What this version does with it.
        note: What ``support`` means here.
        classes: Java class names that it takes, each with its ``module:attribute`` here.
    """

    name: str
    type: ConfigType
    default: str | None
    importance: Importance
    doc: str
    validator: Validator | None = None
    required: bool = False
    support: Support = Support.FULL
    note: str = ""
    classes: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def allowed(self) -> str:
        """What values pass, in words."""
        if self.classes:
            return f"a Python 'module:attribute', or one of {', '.join(self.classes)}"
        return self.validator.allowed if self.validator else _EXPECTED[self.type]

    def parse(self, value: object) -> Any:
        """The typed value of ``value``.

        Args:
            value: Text, a value of the type itself, or None for "not set".

        Raises:
            ConfigException: The value is not allowed; the message names key, value and what is allowed.
        """
        if value is None:
            if self.required:
                raise ConfigException(f"Setting '{self.name}' is required and has no value")
            return None
        try:
            parsed = self._parse_type(value.strip() if isinstance(value, str) else value)
            return self.validator.check(parsed) if self.validator else parsed
        except ValueError as e:
            shown = "(hidden)" if self.type is ConfigType.PASSWORD else repr(value)
            detail = f" ({e})" if str(e) else ""
            raise ConfigException(
                f"Setting '{self.name}' has the value {shown}, but must be {self.allowed}{detail}"
            ) from None

    def parse_default(self) -> Any:
        """The typed default."""
        return None if self.default is None else self.parse(self.default)

    def _parse_type(self, value: object) -> Any:
        if self.classes:
            return self._parse_class(value)
        match self.type:
            case ConfigType.BOOLEAN:
                return _parse_boolean(value)
            case ConfigType.INT | ConfigType.LONG:
                return _parse_integer(value, _BITS[self.type])
            case ConfigType.DOUBLE:
                if isinstance(value, bool) or not isinstance(value, str | int | float):
                    raise ValueError
                return float(value)
            case ConfigType.LIST:
                return _parse_list(value)
            case ConfigType.CLASS:
                return self._parse_class(value)
            case ConfigType.STRING | ConfigType.PASSWORD:
                if not isinstance(value, str):
                    raise ValueError
                return value

    def _parse_class(self, value: object) -> Any:
        if not isinstance(value, str):
            if value is None or isinstance(value, bool | int | float | bytes | list | dict | tuple | set):
                raise ValueError
            return value
        if value in self.classes:
            return self.classes[value]
        if _MODULE_ATTRIBUTE.fullmatch(value):
            return value
        raise ValueError("a Java class of one's own cannot run here" if "." in value else "")


def _parse_boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise ValueError


def _parse_integer(value: object, bits: int) -> int:
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ValueError
    return value


def _parse_list(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",")) if value else ()
    if isinstance(value, list | tuple):
        parts: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]  # elements are checked below
        if all(isinstance(part, str) for part in parts):
            return tuple(parts)
    raise ValueError


def java_text(value: object) -> str:
    """A value as Java prints it: ``true``, ``null``, ``[a, b]``."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(str, value))}]"  # pyright: ignore[reportUnknownArgumentType]  # printed only
    return str(value)
