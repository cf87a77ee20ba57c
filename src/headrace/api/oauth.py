"""Tokens for SASL/OAUTHBEARER, given by a function of the user's."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class OAuthToken(NamedTuple):
    """What a function named by ``sasl.login.callback.handler.class`` returns.

    It is called without arguments when a first token is needed and again when three quarters of the last one's life
    are over, never by two threads at once. It may take some seconds.

    Attributes:
        value: The token as it is sent.
        expires_at: Seconds since the epoch.
        principal: Whose token it is; for messages only.
        extensions: SASL extensions to send with it.
    """

    value: str
    expires_at: float
    principal: str = ""
    extensions: Mapping[str, str] = MappingProxyType({})

    def __repr__(self) -> str:
        return f"OAuthToken(principal={self.principal!r}, expires_at={self.expires_at})"
