"""Java's ``.properties`` format, read as ``java.util.Properties.load`` reads it."""

from __future__ import annotations

import re

from headrace.errors import ConfigException

_BLANKS = " \t\f"
_NEWLINE = re.compile(r"\r\n|\n|\r")
_HEX4 = re.compile(r"[0-9a-fA-F]{4}")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str, source: str = "properties") -> dict[str, str]:
    r"""The keys and values of a properties text.

    A line is ``key=value``, ``key:value`` or ``key value``; blanks before the key and around the separator do not
    count, those at the end of the value do. ``#`` and ``!`` begin a comment line. A backslash at the end joins the next
    line without its leading blanks; elsewhere it escapes a separator, makes ``\t \n \r \f`` or ``\uXXXX``, or vanishes.
    The last of several equal keys wins.

    Args:
        text: The text.
        source: What to call the text in an error.

    Raises:
        ConfigException: A ``\u`` escape is not followed by four hexadecimal digits.
    """
    result: dict[str, str] = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        try:
            result[_unescape(key)] = _unescape(value)
        except ValueError:
            raise ConfigException(
                rf"{source}, line {number}: \u must be followed by four hexadecimal digits, near key '{key}'"
            ) from None
    return result


def _logical_lines(text: str) -> list[tuple[int, str]]:
    lines: list[tuple[int, str]] = []
    joined: str | None = None
    start = 0
    for number, natural in enumerate(_NEWLINE.split(text), 1):
        part = natural.lstrip(_BLANKS)
        if not joined:
            # also below a backslash alone: the line that it continues has nothing yet
            if part.startswith(("#", "!")):
                continue
            joined, start = "", number
        continues = (len(part) - len(part.rstrip("\\"))) % 2 == 1
        joined += part[:-1] if continues else part
        if continues:
            continue
        if joined:
            lines.append((start, joined))
        joined = None
    if joined:
        lines.append((start, joined))
    return lines


def _split(line: str) -> tuple[str, str]:
    i = 0
    while i < len(line) and line[i] not in "=:" + _BLANKS:
        i += 2 if line[i] == "\\" else 1
    key, rest = line[:i], line[i:].lstrip(_BLANKS)
    if rest.startswith(("=", ":")):
        rest = rest[1:].lstrip(_BLANKS)
    return key, rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    i = 0
    while i < len(text):
        char = text[i]
        i += 1
        if char == "\\" and i < len(text):
            char = text[i]
            i += 1
            if char == "u":
                digits = text[i : i + 4]
                if not _HEX4.fullmatch(digits):
                    raise ValueError
                char = chr(int(digits, 16))
                i += 4
            else:
                char = _ESCAPES.get(char, char)
        out.append(char)
    # Two escapes can be the halves of one character.
    return "".join(out).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
