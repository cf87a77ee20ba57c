"""Settings that the Java library does not have, one row each. All begin with ``headrace.``, unlike any of Java's."""

from __future__ import annotations

from typing import Final

from headrace.config.definition import ConfigKey, ConfigType, Importance, Validator

HTTP_HOST: Final = "headrace.http.host"
HTTP_PORT: Final = "headrace.http.port"
HTTP_SOCKET: Final = "headrace.http.socket"


def _check_port(value: int) -> int:
    if not 0 <= value <= 65_535:
        raise ValueError
    return value


def _check_filled(value: str) -> str:
    if not value:
        raise ValueError
    return value


OWN_KEYS: Final[tuple[ConfigKey, ...]] = (
    ConfigKey(
        HTTP_HOST, ConfigType.STRING, "127.0.0.1", Importance.LOW,
        "Interface that the HTTP port listens at; 0.0.0.0 is all of them, and lets everybody on the network look.",
        Validator("a host name or address", _check_filled),
    ),
    ConfigKey(
        HTTP_PORT, ConfigType.INT, None, Importance.MEDIUM,
        "Port for /metrics, /live, /ready and /tasks; 0 takes any free one, not set has none. Needs the extra "
        "`metrics`. `--instances N` has one port for all instances.",
        Validator("a port from 0 to 65535", _check_port),
    ),
    ConfigKey(
        HTTP_SOCKET, ConfigType.STRING, None, Importance.LOW,
        "Path of a Unix socket that answers instead of a port, also where one is set.",
        Validator("a path", _check_filled),
    ),
)  # fmt: skip
