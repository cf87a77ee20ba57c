"""The text of ``sasl.jaas.config``: one login module and its options (Java's ``JaasConfig``)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

_TEXT = re.compile(r"\s*([\w.$]+)\s+(?:required|requisite|sufficient|optional)\b(.*);\s*", re.IGNORECASE | re.DOTALL)
_QUOTED = r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'"""
_OPTION = re.compile(rf"""\s*([\w.-]+)\s*=\s*({_QUOTED}|[^\s"';]+)""", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


class LoginModule(NamedTuple):
    """What the text says: the module's class without its package, and the options in the order given."""

    name: str
    options: Mapping[str, str]


def login_module(text: str) -> LoginModule | None:
    """The one login module of a JAAS configuration; None when the text is something else."""
    whole = _TEXT.fullmatch(text)
    if whole is None:
        return None
    options: dict[str, str] = {}
    given, position = whole[2], 0
    while match := _OPTION.match(given, position):
        options[match[1]] = _unquoted(match[2])
        position = match.end()
    if given[position:].strip():
        return None
    return LoginModule(whole[1].rpartition(".")[2], options)


def _unquoted(text: str) -> str:
    return _ESCAPED.sub(r"\1", text[1:-1]) if text[0] in "\"'" else text
