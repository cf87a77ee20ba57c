"""``StreamsConfig``: the application's settings, checked and typed."""

from __future__ import annotations

import difflib
import logging
import tempfile
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from headrace.config.class_names import HIGH_AVAILABILITY_TASK_ASSIGNOR, STICKY_TASK_ASSIGNOR
from headrace.config.client_keys import CLIENT_KEYS, ClientKind
from headrace.config.clients import (
    Role,
    admin_settings,
    client_settings,
    consumer_settings,
    membership_settings,
    producer_settings,
)
from headrace.config.definition import ConfigKey, Support
from headrace.config.keys import EXACTLY_ONCE_V2, STREAMS_KEYS, KeyNames
from headrace.config.own_keys import OWN_KEYS
from headrace.config.registry_keys import HEADER_PREFIX, REGISTRY_KEYS
from headrace.config.sources import Source, read_properties_file, read_source
from headrace.errors import ConfigException
from headrace.records import HostInfo
from headrace.resets import AutoOffsetReset

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping

_log = logging.getLogger("headrace.config")

_STREAMS_ROWS = {key.name: key for key in (*STREAMS_KEYS, *OWN_KEYS)}
_CLIENT_PREFIXES = {
    "consumer.": ClientKind.CONSUMER,
    "main.consumer.": ClientKind.CONSUMER,
    "restore.consumer.": ClientKind.CONSUMER,
    "global.consumer.": ClientKind.CONSUMER,
    "producer.": ClientKind.PRODUCER,
    "admin.": ClientKind.ADMIN,
}
_OLD_NAMES = {
    "statestore.cache.max.bytes": "cache.max.bytes.buffering",
    "deserialization.exception.handler": "default.deserialization.exception.handler",
    "production.exception.handler": "default.production.exception.handler",
}
_EXACTLY_ONCE_COMMIT_INTERVAL_MS = 100
_TEMPORARY = "${java.io.tmpdir}"
_LONGEST_TAG = 20
_LONGEST_TAG_VALUE = 30
_SIMILAR = 0.7

_BROKERS_DECIDE: Mapping[str, str] = {
    "acceptable.recovery.lag": "streams.acceptable.recovery.lag",
    "heartbeat.interval.ms": "streams.heartbeat.interval.ms",
    "max.warmup.replicas": "streams.num.warmup.replicas",
    "num.standby.replicas": "streams.num.standby.replicas",
    "probing.rebalance.interval.ms": "",
    "rack.aware.assignment.non_overlap_cost": "",
    "rack.aware.assignment.strategy": "",
    "rack.aware.assignment.tags": "streams.rack.aware.assignment.tags",
    "rack.aware.assignment.traffic_cost": "",
    "session.timeout.ms": "streams.session.timeout.ms",
    "task.assignor.class": "streams.assignor.name",
}
"""Settings that mean nothing under the streams protocol, each with the group's own that stands for it, if any."""


class StreamsConfig(KeyNames):
    """Settings of one application: every key of the Java library's ``StreamsConfig``, client keys, and one's own.

    Values may be text or typed. Everything is checked here, client settings included, so that nothing fails later for
    a bad value. What this version cannot do is refused where ignoring it would change results, else answered with one
    warning on the logger ``headrace.config``; so is an unknown key, with the nearest known one. Unknown keys are kept:
    ``originals()`` and ``[]`` give their values as they were set.

    Args:
        values: Settings by dotted name; a value of None counts as not set.
        extra: Rows of the application's own settings: they are typed, checked, and not unknown.

    Raises:
        ConfigException: A setting is missing, refused, or its value is not allowed.
    """

    def __init__(self, values: Mapping[str, Any], *, extra: Iterable[ConfigKey] = ()) -> None:
        self._extra = tuple(extra)
        self._rows = _STREAMS_ROWS | {key.name: key for key in self._extra}
        self._originals: dict[str, Any] = {str(key): value for key, value in values.items() if value is not None}
        self._warned: set[str] = set()
        self._values = self._parse()
        self._check_support()
        self._check_tags()
        self._apply_old_names()
        self._clients = {role: client_settings(self._originals, role, self._warn) for role in Role}
        self._apply_guarantee()
        self._check_protocol()
        self._check_clients()
        self._warn_unknown()

    @classmethod
    def from_properties(
        cls, path: str | os.PathLike[str], *, extra: Iterable[ConfigKey] = (), encoding: str = "iso-8859-1"
    ) -> StreamsConfig:
        """The settings of a Java ``.properties`` file.

        Args:
            path: The file.
            extra: Rows of the application's own settings.
            encoding: ISO-8859-1, as Kafka's own tools read such files.

        Raises:
            ConfigException: The file cannot be read, or a setting is missing, refused or not allowed.
        """
        return cls(read_properties_file(path, encoding), extra=extra)

    @classmethod
    def load(cls, *sources: Source, extra: Iterable[ConfigKey] = ()) -> StreamsConfig:
        """The settings of several sources, later ones winning key by key.

        Args:
            sources: Paths of properties files, :class:`Environment`, mappings.
            extra: Rows of the application's own settings.

        Raises:
            ConfigException: A source cannot be read, or a setting is missing, refused or not allowed.
        """
        merged: dict[str, Any] = {}
        for source in sources:
            merged.update(read_source(source))
        return cls(merged, extra=extra)

    def with_values(self, values: Mapping[str, Any]) -> StreamsConfig:
        """The same settings with some set anew; None unsets."""
        return StreamsConfig({**self._originals, **values}, extra=self._extra)

    def __getitem__(self, name: str) -> Any:
        """The effective value: typed for known keys, as given for others.

        Raises:
            KeyError: The key is neither known nor set.
        """
        return self._values[name]

    def get(self, name: str, default: Any = None) -> Any:
        """As ``[]``, with ``default`` for a key that is neither known nor set, or known and without value."""
        value = self._values.get(name)
        return default if value is None else value

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def is_set(self, name: str) -> bool:
        """Whether the user gave the key, rather than its default holding."""
        return name in self._originals

    def originals(self) -> dict[str, Any]:
        """Everything as the user gave it."""
        return dict(self._originals)

    def originals_with_prefix(self, prefix: str) -> dict[str, Any]:
        """What the user gave under keys that begin with ``prefix``, without it."""
        return {key[len(prefix) :]: value for key, value in self._originals.items() if key.startswith(prefix)}

    def values(self) -> Mapping[str, Any]:
        """Every effective value by key, the user's own keys included. Read-only."""
        return MappingProxyType(self._values)

    @property
    def application_id(self) -> str:
        """``application.id``."""
        value: str = self._values["application.id"]
        return value

    @property
    def bootstrap_servers(self) -> tuple[str, ...]:
        """``bootstrap.servers``."""
        value: tuple[str, ...] = self._values["bootstrap.servers"]
        return value

    @property
    def client_id(self) -> str:
        """``client.id``, perhaps empty."""
        value: str = self._values["client.id"]
        return value

    @property
    def state_dir(self) -> Path:
        """``state.dir``."""
        return Path(self._values["state.dir"])

    @property
    def exactly_once(self) -> bool:
        """Whether ``processing.guarantee`` is exactly_once_v2."""
        return bool(self._values["processing.guarantee"] == EXACTLY_ONCE_V2)

    @property
    def streams_protocol(self) -> bool:
        """Whether ``group.protocol`` is streams: the brokers assign tasks and make internal topics."""
        return bool(self._values["group.protocol"] == "streams")

    @property
    def application_host(self) -> HostInfo | None:
        """``application.server``: where other instances reach this one; None when it is not set."""
        host, _, port = self._values["application.server"].rpartition(":")
        return HostInfo(host, int(port)) if host else None

    @property
    def client_tags(self) -> dict[str, str]:
        """Tags of this instance (``client.tag.*``), without that prefix."""
        return {tag: str(value) for tag, value in self.originals_with_prefix("client.tag.").items()}

    @property
    def rack_id(self) -> str | None:
        """``client.rack`` of the main consumer; None when it is not set."""
        value: str = self._clients[Role.MAIN_CONSUMER].value("client.rack", "")
        return value or None

    @property
    def num_stream_threads(self) -> int:
        """``num.stream.threads``."""
        return self._int("num.stream.threads")

    @property
    def commit_interval_ms(self) -> int:
        """``commit.interval.ms``: 100 unless set under exactly_once_v2, else 30000."""
        return self._int("commit.interval.ms")

    @property
    def poll_ms(self) -> int:
        """``poll.ms``."""
        return self._int("poll.ms")

    @property
    def max_task_idle_ms(self) -> int:
        """``max.task.idle.ms``."""
        return self._int("max.task.idle.ms")

    @property
    def buffered_records_per_partition(self) -> int:
        """``buffered.records.per.partition``."""
        return self._int("buffered.records.per.partition")

    @property
    def task_timeout_ms(self) -> int:
        """``task.timeout.ms``."""
        return self._int("task.timeout.ms")

    @property
    def replication_factor(self) -> int:
        """``replication.factor``: -1 for the brokers' default."""
        return self._int("replication.factor")

    @property
    def repartition_purge_interval_ms(self) -> int:
        """``repartition.purge.interval.ms``."""
        return self._int("repartition.purge.interval.ms")

    @property
    def cache_max_bytes(self) -> int:
        """``statestore.cache.max.bytes``, or its old name's value."""
        return self._int("statestore.cache.max.bytes")

    @property
    def uncommitted_max_bytes(self) -> int:
        """``statestore.uncommitted.max.bytes``: -1 for no limit."""
        return self._int("statestore.uncommitted.max.bytes")

    @property
    def auto_offset_reset(self) -> AutoOffsetReset:
        """Where sources begin that have no committed offset and do not say (``auto.offset.reset``)."""
        return AutoOffsetReset(self._clients[Role.MAIN_CONSUMER].value("auto.offset.reset", "earliest"))

    @property
    def max_poll_records(self) -> int:
        """``max.poll.records`` of the main consumer."""
        value: int = self._clients[Role.MAIN_CONSUMER].value("max.poll.records", 1000)
        return value

    @property
    def sticky_assignor(self) -> bool:
        """Whether tasks move at once, wherever their state is (``task.assignor.class``)."""
        return bool(self._values["task.assignor.class"] == STICKY_TASK_ASSIGNOR)

    @property
    def max_poll_interval_ms(self) -> int:
        """``max.poll.interval.ms`` of the main consumer."""
        value: int = self._clients[Role.MAIN_CONSUMER].value("max.poll.interval.ms", 300_000)
        return value

    @property
    def max_block_ms(self) -> int:
        """``max.block.ms`` of the producer."""
        value: int = self._clients[Role.PRODUCER].value("max.block.ms", 60_000)
        return value

    @property
    def transaction_timeout_ms(self) -> int:
        """``transaction.timeout.ms`` of the producer."""
        value: int = self._clients[Role.PRODUCER].value("transaction.timeout.ms", 10_000)
        return value

    def main_consumer_config(self, client_id: str | None = None) -> dict[str, Any]:
        """Librdkafka's settings of the main consumer.

        Args:
            client_id: The client's full id.
        """
        return self._consumer_config(Role.MAIN_CONSUMER, client_id)

    def restore_consumer_config(self, client_id: str | None = None) -> dict[str, Any]:
        """Librdkafka's settings of the restore consumer.

        Args:
            client_id: The client's full id.
        """
        return self._consumer_config(Role.RESTORE_CONSUMER, client_id)

    def global_consumer_config(self, client_id: str | None = None) -> dict[str, Any]:
        """Librdkafka's settings of the global consumer.

        Args:
            client_id: The client's full id.
        """
        return self._consumer_config(Role.GLOBAL_CONSUMER, client_id)

    def producer_config(self, transactional_id: str | None = None, client_id: str | None = None) -> dict[str, Any]:
        """Librdkafka's settings of a producer.

        Args:
            transactional_id: For a transactional producer.
            client_id: The client's full id.
        """
        result = producer_settings(
            self._clients[Role.PRODUCER], self._servers, transactional_id, exactly_once=self.exactly_once
        )
        return _with_client_id(result, client_id)

    def admin_config(self, client_id: str | None = None) -> dict[str, Any]:
        """Librdkafka's settings of the admin client.

        Args:
            client_id: The client's full id.
        """
        return _with_client_id(admin_settings(self._clients[Role.ADMIN], self._servers), client_id)

    def membership_config(self, thread_index: int | None = None) -> dict[str, Any]:
        """The group member's own times and its static id; its connection is the main consumer's.

        Args:
            thread_index: Number of the stream thread; a static member's ``group.instance.id`` ends with it.
        """
        return membership_settings(self._clients[Role.MAIN_CONSUMER], thread_index)

    def topic_config(self) -> dict[str, str]:
        """Settings of internal topics (prefix ``topic.``), without the prefix."""
        return {key: _topic_text(value) for key, value in self.originals_with_prefix("topic.").items()}

    @property
    def _servers(self) -> str:
        return ",".join(self.bootstrap_servers)

    def _int(self, name: str) -> int:
        value: int = self._values[name]
        return value

    def _consumer_config(self, role: Role, client_id: str | None) -> dict[str, Any]:
        result = consumer_settings(
            self._clients[role], self._servers, self.application_id, exactly_once=self.exactly_once
        )
        return _with_client_id(result, client_id)

    def _parse(self) -> dict[str, Any]:
        values: dict[str, Any] = dict(self._originals)
        for name, row in self._rows.items():
            if name in self._originals:
                values[name] = row.parse(self._originals[name])
            elif row.required:
                raise ConfigException(f"Setting '{name}' is missing: it must be {row.allowed}")
            else:
                values[name] = row.parse_default()
        for name in self._originals.keys() & REGISTRY_KEYS.keys():
            values[name] = REGISTRY_KEYS[name].parse(self._originals[name])
        values["state.dir"] = values["state.dir"].replace(_TEMPORARY, tempfile.gettempdir())
        return values

    def _check_support(self) -> None:
        for name in self._originals:
            row = self._rows.get(name)
            if row is None or row.support is Support.FULL or self._values[name] == row.parse_default():
                continue
            if row.support is Support.REFUSED:
                raise ConfigException(
                    f"Setting '{name}' has the value {self._originals[name]!r}, which is not supported in this "
                    f"version. {row.note}"
                )
            self._warn(name, f"Setting '{name}' has no effect. {row.note}")
        assignor = self._values["task.assignor.class"]
        if assignor not in (None, STICKY_TASK_ASSIGNOR, HIGH_AVAILABILITY_TASK_ASSIGNOR):
            raise ConfigException(
                f"Setting 'task.assignor.class' has the value {self._originals['task.assignor.class']!r}, but task "
                "assignors of one's own are not supported: there are HighAvailabilityTaskAssignor, the default, and "
                "StickyTaskAssignor"
            )

    def _check_tags(self) -> None:
        tags = self.client_tags
        missing = [tag for tag in self._values["rack.aware.assignment.tags"] if tag not in tags]
        if missing:
            raise ConfigException(
                f"Setting 'rack.aware.assignment.tags' names {', '.join(missing)}, but 'client.tag.{missing[0]}' is "
                "not set: every instance says where it is by a client tag of each of these names"
            )
        for tag, value in tags.items():
            if len(tag) > _LONGEST_TAG or len(value) > _LONGEST_TAG_VALUE:
                raise ConfigException(
                    f"Setting 'client.tag.{tag}' is too long: a tag's name has at most {_LONGEST_TAG} characters, its "
                    f"value at most {_LONGEST_TAG_VALUE}"
                )

    def _apply_old_names(self) -> None:
        for new, old in _OLD_NAMES.items():
            if old not in self._originals:
                continue
            if new in self._originals:
                self._warn(old, f"Settings '{new}' and '{old}' are both set: '{new}' holds")
            else:
                self._values[new] = self._values[old]

    def _apply_guarantee(self) -> None:
        if not self.exactly_once:
            return
        if "commit.interval.ms" not in self._originals:
            self._values["commit.interval.ms"] = _EXACTLY_ONCE_COMMIT_INTERVAL_MS
        if self.transaction_timeout_ms < self.commit_interval_ms:
            name = self._clients[Role.PRODUCER].spelled("transaction.timeout.ms")
            raise ConfigException(
                f"Setting 'commit.interval.ms' has the value {self.commit_interval_ms}, but under "
                f"processing.guarantee=exactly_once_v2 it must be at most '{name}', which is "
                f"{self.transaction_timeout_ms}: transactions would time out before they are committed"
            )

    def _check_protocol(self) -> None:
        if not self.streams_protocol:
            return
        main = self._clients[Role.MAIN_CONSUMER]
        spelled = {name: name for name in _BROKERS_DECIDE if name in self._originals}
        spelled |= {name: main.spelled(name) for name in _BROKERS_DECIDE if name in main.given}
        for name, key in spelled.items():
            theirs = _BROKERS_DECIDE[name]
            instead = f"; set {theirs} of the group (kafka-configs --entity-type groups)" if theirs else ""
            self._warn(key, f"Setting '{key}' has no effect under group.protocol=streams: the brokers decide{instead}")

    def _check_clients(self) -> None:
        self.producer_config()
        self.membership_config()

    def _warn_unknown(self) -> None:
        for name in self._originals:
            if name in self._rows or name in CLIENT_KEYS or name in REGISTRY_KEYS:
                continue
            if name.startswith(("topic.", "client.tag.", HEADER_PREFIX, "__")):
                continue
            prefix = next((p for p in _CLIENT_PREFIXES if name.startswith(p)), "")
            kind = _CLIENT_PREFIXES.get(prefix)
            known = [key for key, row in CLIENT_KEYS.items() if kind is None or row.applies_to(kind)]
            known += self._rows if kind is None else ()
            rest = name[len(prefix) :]
            if kind is not None and rest in known:
                continue
            # Without the prefix, which would make every name look similar.
            nearest = difflib.get_close_matches(rest, known, n=1, cutoff=_SIMILAR)
            hint = f"did you mean '{prefix}{nearest[0]}'?" if nearest else "nothing reads it but the application itself"
            self._warn(name, f"Unknown setting '{name}': {hint}")

    def _warn(self, name: str, message: str) -> None:
        if name not in self._warned:
            self._warned.add(name)
            _log.warning("%s", message)


def _with_client_id(settings: dict[str, Any], client_id: str | None) -> dict[str, Any]:
    return settings if client_id is None else {**settings, "client.id": client_id}


def _topic_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def settings_of(config: Mapping[str, Any] | StreamsConfig | None) -> dict[str, Any]:
    """Settings as they were given, in whichever way: checked, as a mapping, or none."""
    return config.originals() if isinstance(config, StreamsConfig) else dict(config or {})
