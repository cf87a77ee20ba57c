"""Typed settings of a registry's client and of serdes that use it, taken from a configuration's texts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from headrace.config.loading import load, make
from headrace.config.registry_keys import (
    CLIENT_KEYS,
    CLIENT_PREFIX,
    HEADER_PREFIX,
    ID_DESERIALIZERS,
    ID_SERIALIZERS,
    SERDE_KEYS,
    SSL_KEYS,
    SUBJECT_STRATEGIES,
    URL,
)
from headrace.errors import ConfigException
from headrace.serdes.registry.subjects import SubjectNameStrategy, TopicNameStrategy
from headrace.serdes.registry.wire import IdReader, IdWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_SERDE_ROWS: Final = {row.name: row for row in SERDE_KEYS}
_CLIENT_ROWS: Final = {row.name: row for row in (*CLIENT_KEYS, *SSL_KEYS)}


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How a registry is reached. Equal settings share one client with its cache."""

    urls: tuple[str, ...]
    user_info: str | None = None
    """``user:password``; None takes it from the URL, if it is there."""
    token: Callable[[], str] | str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    connect_timeout_ms: int = 3_000
    read_timeout_ms: int = 3_000
    max_retries: int = 3
    retries_wait_ms: int = 100
    retries_max_wait_ms: int = 20_000
    latest_ttl_s: int = -1
    proxy: str | None = None
    ca_file: str | None = None
    certificate_file: str | None = None
    key_password: str | None = None
    check_host_name: bool = True

    @classmethod
    def of(cls, configs: Mapping[str, Any]) -> ClientSettings:
        """From settings by their dotted names; others among them are ignored.

        Raises:
            ConfigException: ``schema.registry.url`` is missing, or a value is not allowed.
        """
        if configs.get(URL) is None:
            raise ConfigException(
                f"Setting '{URL}' is missing: a serde that uses a schema registry must be configured with its address"
            )

        def value(name: str) -> Any:
            row = _CLIENT_ROWS[name]
            for spelled in (CLIENT_PREFIX + name, name):
                # the brokers' own ssl.… settings are not the registry's
                if spelled in configs and not spelled.startswith("ssl."):
                    return row.parse(configs[spelled])
            return row.parse_default()

        user_info = None
        if value("basic.auth.credentials.source") == "USER_INFO":
            user_info = value("basic.auth.user.info")
            if ":" not in user_info:
                raise ConfigException("Setting 'basic.auth.user.info' must be user:password")
        proxy_host, proxy_port = value("proxy.host"), value("proxy.port")
        return cls(
            urls=_SERDE_ROWS[URL].parse(configs[URL]),
            user_info=user_info,
            token=_token(value),
            headers=_headers(configs, value),
            connect_timeout_ms=value("http.connect.timeout.ms"),
            read_timeout_ms=value("http.read.timeout.ms"),
            max_retries=value("max.retries"),
            retries_wait_ms=value("retries.wait.ms"),
            retries_max_wait_ms=value("retries.max.wait.ms"),
            latest_ttl_s=_serde_value(configs, "latest.cache.ttl.sec"),
            proxy=f"{proxy_host}:{proxy_port}" if proxy_host else None,
            ca_file=value("ssl.truststore.location"),
            certificate_file=value("ssl.keystore.location"),
            key_password=value("ssl.key.password"),
            check_host_name=value("ssl.endpoint.identification.algorithm") == "https",
        )


def _token(value: Callable[[str], Any]) -> Callable[[], str] | str | None:
    source = value("bearer.auth.credentials.source")
    if source is None:
        return None
    name = "bearer.auth.token" if source == "STATIC_TOKEN" else "bearer.auth.custom.provider.class"
    given = value(name)
    if not given:
        raise ConfigException(f"Setting '{name}' is missing: bearer.auth.credentials.source={source} needs it")
    if source == "STATIC_TOKEN":
        token: str = given
        return token
    provider: Callable[[], str] = load(given, name)
    if not callable(provider):
        raise ConfigException(f"{name}: {given} is not a function")
    return provider


def _headers(configs: Mapping[str, Any], value: Callable[[str], Any]) -> tuple[tuple[str, str], ...]:
    headers = [
        (name[len(HEADER_PREFIX) :], str(text)) for name, text in configs.items() if name.startswith(HEADER_PREFIX)
    ]
    for name, header in (
        ("bearer.auth.logical.cluster", "target-sr-cluster"),
        ("bearer.auth.identity.pool.id", "Confluent-Identity-Pool-Id"),
    ):
        if value(name) is not None:
            headers.append((header, value(name)))
    return tuple(sorted(headers))


def _serde_value(configs: Mapping[str, Any], name: str) -> Any:
    row = _SERDE_ROWS[name]
    return row.parse(configs[name]) if configs.get(name) is not None else row.parse_default()


@dataclass(frozen=True, slots=True)
class SerdeSettings:
    """What a serde does with the registry."""

    auto_register: bool = True
    use_latest: bool = False
    use_schema_id: int = -1
    normalize: bool = False
    latest_ttl_s: int = -1
    subject_strategy: SubjectNameStrategy = field(default_factory=TopicNameStrategy)
    write_id: IdWriter = IdWriter.PREFIX
    read_id: IdReader = IdReader.DUAL

    @classmethod
    def of(cls, configs: Mapping[str, Any], *, is_key: bool) -> SerdeSettings:
        """From settings by their dotted names; others among them are ignored.

        Raises:
            ConfigException: A value is not allowed, or two settings contradict each other.
        """
        half = "key" if is_key else "value"

        def chosen(name: str, names: Mapping[str, str], kind: type[Any], what: str) -> Any:
            spelled = name.format(half)
            found = make(_serde_value(configs, spelled), spelled, names)
            if not isinstance(found, kind):
                raise ConfigException(f"{spelled}: {configs[spelled]} is not {what}")
            return found

        auto_register = _serde_value(configs, "auto.register.schemas")
        use_latest = _serde_value(configs, "use.latest.version")
        use_schema_id = _serde_value(configs, "use.schema.id")
        for name, wanted in (("use.latest.version", use_latest), ("use.schema.id", use_schema_id >= 0)):
            if auto_register and wanted:
                raise ConfigException(
                    f"Setting '{name}' has no effect while auto.register.schemas is true: set that to false"
                )
        return cls(
            auto_register,
            use_latest,
            use_schema_id,
            _serde_value(configs, "normalize.schemas"),
            _serde_value(configs, "latest.cache.ttl.sec"),
            chosen("{}.subject.name.strategy", SUBJECT_STRATEGIES, SubjectNameStrategy, "a SubjectNameStrategy"),
            chosen("{}.schema.id.serializer", ID_SERIALIZERS, IdWriter, f"one of {', '.join(ID_SERIALIZERS)}"),
            chosen("{}.schema.id.deserializer", ID_DESERIALIZERS, IdReader, f"one of {', '.join(ID_DESERIALIZERS)}"),
        )
