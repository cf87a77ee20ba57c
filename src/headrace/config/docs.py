"""The reference page of all settings, written from the rows.

``python -m headrace.config.docs > docs/configuration.md`` writes it anew.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from headrace.config.client_keys import CLIENT_KEYS, Action, ClientKey
from headrace.config.keys import STREAMS_KEYS
from headrace.config.own_keys import OWN_KEYS
from headrace.config.registry_keys import CLIENT_KEYS as REGISTRY_CLIENT_KEYS
from headrace.config.registry_keys import CLIENT_PREFIX, SERDE_KEYS, SSL_KEYS

if TYPE_CHECKING:
    from headrace.config.definition import ConfigKey

_HEAD = """\
# Configuration

Keys are Kafka's own. `StreamsConfig.load(*sources)` takes any number of sources, later ones winning key by key:

- the path of a Java `.properties` file, read as `java.util.Properties` reads it (ISO-8859-1, `\\uXXXX` escapes);
- `Environment(os.environ)`: variables that begin with `HEADRACE_`, the rest in lower case with `.` written `_`, `-`
  written `__` and `_` written `___`. `HEADRACE_CONSUMER_MAX_POLL_RECORDS` is `consumer.max.poll.records`;
- a mapping, whose values may be text or typed.

Everything is checked when it is loaded. A bad value is an error that names key, value and what is allowed. An unknown
key is kept for the application's own use and answered with one warning that names the nearest known one; declare keys
of your own with `extra=[ConfigKey(...)]`.

A class is given as the Java name of a built-in one, as a Python `module:attribute`, or as the object itself.

## Application

"Support" is *yes*; *no effect* where a value other than the default loads with one warning; or *default only* where it
is refused, because ignoring it would change results.
"""

_OWN_HEAD = """
## headrace's own

Settings that the Java library does not have. [Metrics](metrics.md) tells what the HTTP port answers.
"""

_CLIENT_HEAD = """
## Clients

A client setting is written bare or with a prefix; the more specific one wins: `main.consumer.`, `restore.consumer.` and
`global.consumer.` before `consumer.`, then `producer.` and `admin.`, all before the bare key. `topic.` sets
configurations of internal topics. Two clients stand behind the application: librdkafka moves records and administers
topics, kafka-python keeps the group membership and connects with the main consumer's settings. C, P and A say which of
Java's clients (consumer, producer, admin) have the key. *Ignored* means: with a warning, unless the value is the
default; *refused* likewise with an error.
"""


_REGISTRY_HEAD = """
## Schema registry

Settings of the serdes in `headrace.serdes.registry`, under Confluent's names; give them with the application's own, or
where a serde is made. Those from `basic.auth.credentials.source` on are the client's and may have `schema.registry.` in
front, which wins; its `ssl.` settings always have, so that they are not the brokers'. `request.header.NAME` sends an
HTTP header. [Serdes](serdes.md) tells how they are used.
"""


def configuration_page() -> str:
    """The page as Markdown."""
    lines = [_HEAD, "| key | type | default | support | what it does |", "| --- | --- | --- | --- | --- |"]
    lines += [_streams_row(key) for key in sorted(STREAMS_KEYS, key=lambda key: key.name)]
    lines += [_OWN_HEAD, "| key | type | default | support | what it does |", "| --- | --- | --- | --- | --- |"]
    lines += [_streams_row(key) for key in OWN_KEYS]
    lines += [_CLIENT_HEAD, "| key | of | default | here | becomes | note |", "| --- | --- | --- | --- | --- | --- |"]
    lines += [_client_row(key) for key in CLIENT_KEYS.values()]
    lines += [_REGISTRY_HEAD, "| key | type | default | what it does |", "| --- | --- | --- | --- |"]
    lines += [_registry_row(key.name, key) for key in (*SERDE_KEYS, *REGISTRY_CLIENT_KEYS)]
    lines += [_registry_row(CLIENT_PREFIX + key.name, key) for key in SSL_KEYS]
    return "\n".join(lines) + "\n"


def _streams_row(key: ConfigKey) -> str:
    default = "required" if key.required else _code(key.default)
    return _row(_code(key.name), key.type.value, default, key.support.value, _about(key))


def _about(key: ConfigKey) -> str:
    about = [key.doc]
    if key.classes:
        about.append(f"Java classes known: {', '.join(f'`{name}`' for name in key.classes)}.")
    elif key.validator is not None:
        about.append(f"Allowed: {key.validator.allowed}.")
    if key.note:
        about.append(f"*{key.note}*")
    return " ".join(about)


def _client_row(key: ClientKey) -> str:
    targets: list[str] = []
    if key.action is Action.TRANSLATE:
        targets += [f"librdkafka `{key.librdkafka}`"] if key.librdkafka else []
        targets += [f"membership `{key.membership}`"] if key.membership else []
    default = "" if key.default is None else _code(key.default)
    return _row(_code(key.name), key.kinds, default, key.action.value, ", ".join(targets), key.note)


def _registry_row(name: str, key: ConfigKey) -> str:
    return _row(_code(name), key.type.value, _code(key.default), _about(key))


def _code(text: str | None) -> str:
    if text is None:
        return "none"
    return f"`{text}`" if text else "empty"


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    sys.stdout.write(configuration_page())
