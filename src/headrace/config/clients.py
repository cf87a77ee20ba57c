"""From the user's settings to those of the real clients.

As in Java, a client takes a setting from the key with the most specific prefix: ``main.consumer.`` before
``consumer.`` before the bare key. What becomes of each is in :mod:`headrace.config.client_keys`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from headrace.config.client_keys import CLIENT_KEYS, FETCH_WAIT_MAX_MS, Action, ClientKey, ClientKind
from headrace.config.keys import STREAMS_KEYS
from headrace.config.security import SECURITY_NAMES, security_settings
from headrace.errors import ConfigException

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_STREAMS_NAMES = frozenset(key.name for key in STREAMS_KEYS)


class Role(Enum):
    """One of the application's clients: its kind, and the prefixes it listens to, later ones winning."""

    MAIN_CONSUMER = (ClientKind.CONSUMER, ("", "consumer.", "main.consumer."))
    RESTORE_CONSUMER = (ClientKind.CONSUMER, ("", "consumer.", "restore.consumer."))
    GLOBAL_CONSUMER = (ClientKind.CONSUMER, ("", "consumer.", "global.consumer."))
    PRODUCER = (ClientKind.PRODUCER, ("", "producer."))
    ADMIN = (ClientKind.ADMIN, ("", "admin."))

    @property
    def kind(self) -> ClientKind:
        """The kind of client."""
        kind: ClientKind = self.value[0]
        return kind

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The prefixes it listens to."""
        prefixes: tuple[str, ...] = self.value[1]
        return prefixes


@dataclass(frozen=True, slots=True)
class Given:
    """A client setting the user gave: its row, its typed value, and the key as it was spelled."""

    row: ClientKey
    value: Any
    spelled: str


@dataclass(slots=True)
class ClientSettings:
    """What the user gave for one client, checked.

    Attributes:
        given: By Java's name without prefix.
        librdkafka: What librdkafka gets of it.
        membership: What the group membership gets of it besides the connection.
    """

    given: dict[str, Given] = field(default_factory=dict[str, Given])
    librdkafka: dict[str, Any] = field(default_factory=dict[str, Any])
    membership: dict[str, Any] = field(default_factory=dict[str, Any])

    def value(self, name: str, default: Any = None) -> Any:
        """The typed value given for Java's ``name``, or ``default``."""
        given = self.given.get(name)
        return default if given is None else given.value

    def spelled(self, name: str) -> str:
        """The key by which ``name`` was given, for messages."""
        given = self.given.get(name)
        return name if given is None else given.spelled


def client_settings(originals: Mapping[str, Any], role: Role, warn: Callable[[str, str], None]) -> ClientSettings:
    """Collect, check and translate what the user gave for one client.

    Args:
        originals: Every setting the user gave.
        role: The client.
        warn: Called with the key as spelled and a sentence for each setting that is ignored.

    Raises:
        ConfigException: A value is not allowed, or a setting is refused.
    """
    settings = ClientSettings()
    for prefix in role.prefixes:
        for name, row in CLIENT_KEYS.items():
            spelled = prefix + name
            if row.applies_to(role.kind) and originals.get(spelled) is not None:
                settings.given[name] = Given(row, row.parse(originals[spelled], spelled), spelled)
    for given in settings.given.values():
        _translate(given, settings, warn)
    settings.librdkafka |= security_settings(settings.value, settings.spelled)
    _add_compression_level(settings)
    return settings


def _translate(given: Given, settings: ClientSettings, warn: Callable[[str, str], None]) -> None:
    row = given.row
    note = f": {row.note[0].lower()}{row.note[1:].rstrip('.')}" if row.note else ""
    match row.action:
        case Action.OWN:
            pass
        case Action.IGNORE if given.spelled in _STREAMS_NAMES:
            # without a prefix it is a setting of the application, which says itself when it has no effect
            pass
        case Action.FIXED | Action.IGNORE:
            if not row.is_default(given.value):
                reason = "is set by headrace and cannot be changed" if row.action is Action.FIXED else "has no effect"
                warn(given.spelled, f"Setting '{given.spelled}' {reason}{note}")
        case Action.REFUSE:
            if not row.is_default(given.value):
                raise ConfigException(f"Setting '{given.spelled}' is not supported in this version{note}")
        case Action.TRANSLATE:
            if row.name in SECURITY_NAMES or row.name.endswith(".level"):
                return
            if row.librdkafka is not None:
                value = row.convert(given.value) if row.convert else given.value
                settings.librdkafka[row.librdkafka] = value
                if row.name == "fetch.max.wait.ms" and given.value > FETCH_WAIT_MAX_MS:
                    warn(given.spelled, f"Setting '{given.spelled}' is lowered to {FETCH_WAIT_MAX_MS}{note}")
            if row.membership is not None:
                settings.membership[row.membership] = given.value


def _add_compression_level(settings: ClientSettings) -> None:
    codec = settings.value("compression.type", "none")
    given = settings.given.get(f"compression.{codec}.level")
    if given is not None:
        settings.librdkafka["compression.level"] = given.row.convert(given.value) if given.row.convert else given.value


def consumer_settings(settings: ClientSettings, servers: str, group_id: str, *, exactly_once: bool) -> dict[str, Any]:
    """Librdkafka's settings of a consumer that is assigned by hand.

    Args:
        settings: What the user gave.
        servers: Brokers, separated by commas.
        group_id: The application's group, for committed offsets.
        exactly_once: Whether the guarantee is exactly_once_v2.
    """
    result: dict[str, Any] = {
        "fetch.queue.backoff.ms": 5,
        "fetch.wait.max.ms": FETCH_WAIT_MAX_MS,
        "queued.min.messages": 100_000,
        "check.crcs": True,
        "isolation.level": "read_uncommitted",
        **_connection_defaults(),
        **settings.librdkafka,
        "bootstrap.servers": servers,
        "group.id": group_id,
        "allow.auto.create.topics": False,
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        # Membership is not librdkafka's: its own watch on poll() would only end hand-assigned reading.
        "max.poll.interval.ms": 86_400_000,
    }
    if exactly_once:
        result["isolation.level"] = "read_committed"
    # librdkafka insists on message.max.bytes <= fetch.max.bytes <= receive.message.max.bytes - 512.
    fetch_max = result.get("fetch.max.bytes", 1_000_000)
    if fetch_max < 1_000_000:
        result["message.max.bytes"] = fetch_max
    if fetch_max + 512 > 100_000_000:
        result["receive.message.max.bytes"] = fetch_max + 512
    return _with_ordered_backoffs(result)


def producer_settings(
    settings: ClientSettings, servers: str, transactional_id: str | None, *, exactly_once: bool
) -> dict[str, Any]:
    """Librdkafka's settings of a producer.

    Args:
        settings: What the user gave.
        servers: Brokers, separated by commas.
        transactional_id: For a transactional producer.
        exactly_once: Whether the guarantee is exactly_once_v2.

    Raises:
        ConfigException: Settings contradict each other or the guarantee.
    """
    result: dict[str, Any] = {
        "linger.ms": 100,
        "acks": "all",
        "enable.idempotence": True,
        "delivery.timeout.ms": 120_000,
        **_connection_defaults(),
        **settings.librdkafka,
        "bootstrap.servers": servers,
        "partitioner": "murmur2_random",
        "allow.auto.create.topics": False,
    }
    conflict = _idempotence_conflict(settings)
    if exactly_once:
        if conflict is not None:
            raise ConfigException(f"{conflict} under processing.guarantee=exactly_once_v2")
        timeout = result.setdefault("transaction.timeout.ms", 10_000)
        result["enable.idempotence"] = True
        result["delivery.timeout.ms"] = min(settings.value("delivery.timeout.ms", timeout) or timeout, timeout)
        result["socket.timeout.ms"] = min(result["socket.timeout.ms"], timeout)
    else:
        result.pop("transaction.timeout.ms", None)
        if conflict is not None and result["enable.idempotence"]:
            if settings.value("enable.idempotence"):
                raise ConfigException(f"{conflict} while '{settings.spelled('enable.idempotence')}' is true")
            result["enable.idempotence"] = False
    if transactional_id is not None:
        result["transactional.id"] = transactional_id
    if 0 < result["delivery.timeout.ms"] <= result["linger.ms"]:
        raise ConfigException(
            f"Setting '{settings.spelled('linger.ms')}' has the value {result['linger.ms']}, but must be below the "
            f"delivery timeout of {result['delivery.timeout.ms']} ms"
        )
    return _with_ordered_backoffs(result)


def _idempotence_conflict(settings: ClientSettings) -> str | None:
    acks = settings.value("acks", "all")
    if acks not in ("all", "-1"):
        return f"Setting '{settings.spelled('acks')}' has the value '{acks}', but must be all"
    in_flight = settings.value("max.in.flight.requests.per.connection", 5)
    if in_flight > 5:
        name = settings.spelled("max.in.flight.requests.per.connection")
        return f"Setting '{name}' has the value {in_flight}, but must be at most 5"
    if settings.value("retries", 1) == 0:
        return f"Setting '{settings.spelled('retries')}' has the value 0, but must be at least 1"
    return None


def admin_settings(settings: ClientSettings, servers: str) -> dict[str, Any]:
    """Librdkafka's settings of the admin client.

    Args:
        settings: What the user gave.
        servers: Brokers, separated by commas.
    """
    given = {name: value for name, value in settings.librdkafka.items() if name != "retries"}
    return _with_ordered_backoffs({**_connection_defaults(), **given, "bootstrap.servers": servers})


def _connection_defaults() -> dict[str, Any]:
    # Java's pauses between connections, and its time for an answer, half of librdkafka's: a request that a broker took
    # as it went away holds up whatever it was for. The short retry pause is what back-to-back transactions need.
    return {
        "socket.timeout.ms": 30_000,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1_000,
        "retry.backoff.ms": 5,
        "socket.nagle.disable": True,
    }


def _with_ordered_backoffs(result: dict[str, Any]) -> dict[str, Any]:
    # librdkafka refuses a first pause above the longest one; Java takes the longest one then.
    result["reconnect.backoff.ms"] = min(result["reconnect.backoff.ms"], result["reconnect.backoff.max.ms"])
    result["retry.backoff.ms"] = min(result["retry.backoff.ms"], result.get("retry.backoff.max.ms", 1_000))
    return result


def membership_settings(settings: ClientSettings, thread_index: int | None) -> dict[str, Any]:
    """The member's own times and its static id. It reaches the brokers as the main consumer does.

    Args:
        settings: What the user gave for the main consumer.
        thread_index: Number of the stream thread, which a static member's instance id ends with.

    Raises:
        ConfigException: The heartbeat interval is not below the session timeout.
    """
    result: dict[str, Any] = {
        "session_timeout_ms": 45_000,
        "heartbeat_interval_ms": 3_000,
        "max_poll_interval_ms": 300_000,
        **settings.membership,
    }
    instance = result.get("group_instance_id")
    if instance is not None and thread_index is not None:
        result["group_instance_id"] = f"{instance}-{thread_index}"
    if result["heartbeat_interval_ms"] >= result["session_timeout_ms"]:
        raise ConfigException(
            f"Setting '{settings.spelled('heartbeat.interval.ms')}' has the value {result['heartbeat_interval_ms']}, "
            f"but must be below the session timeout of {result['session_timeout_ms']} ms"
        )
    return result
