"""Every setting of Java's consumer, producer and admin client (4.4): what becomes of it here.

Two clients stand behind headrace: librdkafka moves records and administers topics, kafka-python keeps the group
membership. A row says which of them gets the setting, under which name. What concerns connections and security is named
for librdkafka; the membership takes it from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from headrace.config.definition import ConfigKey, ConfigType, Importance, Validator, at_least, one_of
from headrace.resets import AutoOffsetReset

if TYPE_CHECKING:
    from collections.abc import Callable


class ClientKind(Enum):
    """A kind of Java client; the value is its prefix in the configuration."""

    CONSUMER = "consumer."
    PRODUCER = "producer."
    ADMIN = "admin."


class Action(Enum):
    """What becomes of a client setting."""

    TRANSLATE = "passed on"
    """Handed to librdkafka, to the group membership, or to both."""
    OWN = "used by headrace"
    """Read by headrace itself, with the meaning it has in Java."""
    FIXED = "set by headrace"
    """A value other than headrace's own is ignored with a warning, as in Java."""
    IGNORE = "ignored"
    """A value other than Java's default is ignored with a warning: it changes no result."""
    REFUSE = "refused"
    """A value other than Java's default is refused: ignoring it could change results or security."""


@dataclass(frozen=True, slots=True)
class ClientKey:
    """One row.

    Attributes:
        name: Java's name, without prefix.
        kinds: Kinds of client that have it: letters out of C(onsumer), P(roducer), A(dmin).
        type: Type of its value.
        action: What becomes of it.
        default: Java's default as text; for FIXED the value headrace sets.
        librdkafka: librdkafka's name, where it is handed over one to one.
        membership: The group member's name for it (kafka-python's), where it is handed over one to one.
        convert: From the parsed value to the one handed to librdkafka.
        validator: Test of parsed values.
        note: Why, or how.
    """

    name: str
    kinds: str
    type: ConfigType
    action: Action
    default: str | None = None
    librdkafka: str | None = None
    membership: str | None = None
    convert: Callable[[Any], Any] | None = None
    validator: Validator | None = None
    note: str = ""

    def applies_to(self, kind: ClientKind) -> bool:
        """Whether that kind of client has the setting."""
        return kind.name[0] in self.kinds

    def parse(self, value: object, spelled: str) -> Any:
        """The typed value.

        Args:
            value: As given.
            spelled: The key as the user wrote it, prefix included.

        Raises:
            ConfigException: The value is not allowed.
        """
        if self.type is ConfigType.CLASS:
            # Only Java's clients would load it: what it names does not matter here.
            return value.strip() if isinstance(value, str) else value
        return ConfigKey(spelled, self.type, None, Importance.LOW, "", self.validator).parse(value)

    @property
    def is_default(self) -> Callable[[Any], bool]:
        """A test whether a parsed value is Java's default (or headrace's own)."""
        default = None if self.default is None else self.parse(self.default, self.name)
        return lambda value: bool(value == default or (value in ("", ()) and default in (None, "", ())))


_BOOLEAN, _STRING, _INT, _LONG = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.LONG
_DOUBLE, _LIST, _CLASS, _PASSWORD = ConfigType.DOUBLE, ConfigType.LIST, ConfigType.CLASS, ConfigType.PASSWORD
_TRANSLATE, _OWN, _FIXED, _IGNORE, _REFUSE = Action.TRANSLATE, Action.OWN, Action.FIXED, Action.IGNORE, Action.REFUSE


def _within(low: int, high: int) -> Callable[[int], int]:
    return lambda value: min(max(value, low), high)


def _socket_buffer(value: int) -> int:
    return 0 if value == -1 else min(value, 100_000_000)


def _kilobytes(value: int) -> int:
    return min(max(value // 1024, 1), 2_147_483_647)


def _endpoint_identification(value: str) -> str:
    return value.lower() or "none"


FETCH_WAIT_MAX_MS: Final = 50
"""Longest wait of a fetch: the end of a partition is seen that late, and tasks wait for it."""

_SECURITY = "With TLS or SASL only."
_PEM_ONLY = "Only PEM files: ssl.{0}.type=PEM."
_NOT_JAVA = "Belongs to the Java virtual machine."
_OAUTH = "With sasl.mechanism=OAUTHBEARER only."
_BROKERS_CHECK = "Brokers check tokens; the client does not."
_ASSERTION = (
    "Tokens are asked for with a client's id and secret; for another grant see sasl.login.callback.handler.class."
)
_ENDPOINT_WAIT = "Of the token endpoint; the greater of the two holds for both."
_RENEWAL = "Tokens are renewed after three quarters of their life."
_KERBEROS = "SASL/GSSAPI is not in this version."

_COMMON: Final = (
    ClientKey("bootstrap.resolve.timeout.ms", "CPA", _LONG, _IGNORE, "0",
              note="Brokers are looked up in the background."),
    ClientKey("bootstrap.servers", "CPA", _LIST, _OWN, note="Always the application's own setting."),
    ClientKey("client.dns.lookup", "CPA", _STRING, _TRANSLATE, "use_all_dns_ips", "client.dns.lookup",
              validator=one_of("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")),
    ClientKey("client.id", "CPA", _STRING, _OWN, note="The application's client.id is the prefix of every client's."),
    ClientKey("client.rack", "CP", _STRING, _TRANSLATE, "", "client.rack"),
    ClientKey("config.providers", "CPA", _LIST, _REFUSE, "", note="Values are taken literally."),
    ClientKey("connections.max.idle.ms", "CPA", _LONG, _TRANSLATE, "540000", "connections.max.idle.ms", None,
              _within(0, 2_147_483_647)),
    ClientKey("default.api.timeout.ms", "CA", _INT, _IGNORE, "60000", validator=at_least(0),
              note="Calls have time limits of their own."),
    ClientKey("enable.metrics.push", "CPA", _BOOLEAN, _TRANSLATE, "true", "enable.metrics.push"),
    ClientKey("metadata.cluster.check.enable", "CPA", _BOOLEAN, _IGNORE, "true", note="There is no such check."),
    ClientKey("metadata.max.age.ms", "CPA", _LONG, _TRANSLATE, "300000", "topic.metadata.refresh.interval.ms",
              None, _within(10, 3_600_000), at_least(0)),
    ClientKey("metadata.recovery.rebootstrap.trigger.ms", "CPA", _LONG, _IGNORE, "300000", validator=at_least(0),
              note="bootstrap.servers are tried again as soon as no broker that is known can be reached."),
    ClientKey("metadata.recovery.strategy", "CPA", _STRING, _TRANSLATE, "rebootstrap", "metadata.recovery.strategy",
              validator=one_of("rebootstrap", "none", case_insensitive=True)),
    ClientKey("metric.reporters", "CPA", _LIST, _IGNORE, "org.apache.kafka.common.metrics.JmxReporter", note=_NOT_JAVA),
    ClientKey("metrics.num.samples", "CPA", _INT, _IGNORE, "2", note="The clients' metrics are librdkafka's."),
    ClientKey("metrics.recording.level", "CPA", _STRING, _IGNORE, "INFO",
              note="The clients' metrics are librdkafka's."),
    ClientKey("metrics.sample.window.ms", "CPA", _LONG, _IGNORE, "30000",
              note="The clients' metrics are librdkafka's."),
    ClientKey("receive.buffer.bytes", "CPA", _INT, _TRANSLATE, "65536", "socket.receive.buffer.bytes", None,
              _socket_buffer, at_least(-1)),
    ClientKey("reconnect.backoff.max.ms", "CPA", _LONG, _TRANSLATE, "1000", "reconnect.backoff.max.ms", None,
              _within(0, 3_600_000), at_least(0)),
    ClientKey("reconnect.backoff.ms", "CPA", _LONG, _TRANSLATE, "50", "reconnect.backoff.ms", None,
              _within(0, 3_600_000), at_least(0)),
    ClientKey("request.timeout.ms", "CPA", _INT, _TRANSLATE, "30000", "socket.timeout.ms", None,
              _within(10, 300_000), at_least(0)),
    ClientKey("retry.backoff.max.ms", "CPA", _LONG, _TRANSLATE, "1000", "retry.backoff.max.ms", None,
              _within(1, 300_000), at_least(0)),
    ClientKey("retry.backoff.ms", "CPA", _LONG, _TRANSLATE, "100", "retry.backoff.ms", None,
              _within(1, 300_000), at_least(0)),
    ClientKey("send.buffer.bytes", "CPA", _INT, _TRANSLATE, "131072", "socket.send.buffer.bytes", None,
              _socket_buffer, at_least(-1)),
    ClientKey("socket.connection.setup.timeout.max.ms", "CPA", _LONG, _IGNORE, "30000",
              note="The time does not grow: socket.connection.setup.timeout.ms holds for every try."),
    ClientKey("socket.connection.setup.timeout.ms", "CPA", _LONG, _TRANSLATE, "10000",
              "socket.connection.setup.timeout.ms", None, _within(1000, 2_147_483_647), at_least(0)),
)  # fmt: skip

_SECURITY_KEYS: Final = (
    ClientKey("security.protocol", "CPA", _STRING, _TRANSLATE, "PLAINTEXT", "security.protocol",
              validator=one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", case_insensitive=True)),
    ClientKey("security.providers", "CPA", _STRING, _REFUSE, note=_NOT_JAVA),
    ClientKey("ssl.cipher.suites", "CPA", _LIST, _REFUSE, "", note="OpenSSL has other names for them."),
    ClientKey("ssl.enabled.protocols", "CPA", _LIST, _IGNORE, "TLSv1.2,TLSv1.3",
              note="OpenSSL negotiates the version."),
    ClientKey("ssl.endpoint.identification.algorithm", "CPA", _STRING, _TRANSLATE, "https",
              "ssl.endpoint.identification.algorithm", None, _endpoint_identification,
              one_of("https", "", case_insensitive=True), "Empty turns the check of host names off. " + _SECURITY),
    ClientKey("ssl.engine.factory.class", "CPA", _CLASS, _REFUSE, note=_NOT_JAVA),
    ClientKey("ssl.key.password", "CPA", _PASSWORD, _TRANSLATE, None, "ssl.key.password", note=_SECURITY),
    ClientKey("ssl.keymanager.algorithm", "CPA", _STRING, _IGNORE, "SunX509", note=_NOT_JAVA),
    ClientKey("ssl.keystore.certificate.chain", "CPA", _PASSWORD, _TRANSLATE, None, "ssl.certificate.pem",
              note="PEM text, with ssl.keystore.type=PEM."),
    ClientKey("ssl.keystore.key", "CPA", _PASSWORD, _TRANSLATE, None, "ssl.key.pem",
              note="PEM text, with ssl.keystore.type=PEM."),
    ClientKey("ssl.keystore.location", "CPA", _STRING, _TRANSLATE, None, "ssl.certificate.location",
              note="Also ssl.key.location: the file holds both. " + _PEM_ONLY.format("keystore")),
    ClientKey("ssl.keystore.password", "CPA", _PASSWORD, _OWN, note="Refused with TLS: see ssl.key.password."),
    ClientKey("ssl.keystore.type", "CPA", _STRING, _OWN, "JKS", note=_PEM_ONLY.format("keystore")),
    ClientKey("ssl.protocol", "CPA", _STRING, _IGNORE, "TLSv1.3", note="OpenSSL negotiates the version."),
    ClientKey("ssl.provider", "CPA", _STRING, _REFUSE, note=_NOT_JAVA),
    ClientKey("ssl.secure.random.implementation", "CPA", _STRING, _IGNORE, note=_NOT_JAVA),
    ClientKey("ssl.trustmanager.algorithm", "CPA", _STRING, _IGNORE, "PKIX", note=_NOT_JAVA),
    ClientKey("ssl.truststore.certificates", "CPA", _PASSWORD, _TRANSLATE, None, "ssl.ca.pem",
              note="PEM text, with ssl.truststore.type=PEM."),
    ClientKey("ssl.truststore.location", "CPA", _STRING, _TRANSLATE, None, "ssl.ca.location",
              note=_PEM_ONLY.format("truststore")),
    ClientKey("ssl.truststore.password", "CPA", _PASSWORD, _OWN,
              note="Refused with TLS: a PEM file of certificates has no password."),
    ClientKey("ssl.truststore.type", "CPA", _STRING, _OWN, "JKS", note=_PEM_ONLY.format("truststore")),
    ClientKey("sasl.mechanism", "CPA", _STRING, _TRANSLATE, "GSSAPI", "sasl.mechanism",
              note="PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER. " + _SECURITY),
    ClientKey("sasl.jaas.config", "CPA", _PASSWORD, _TRANSLATE, None, "sasl.username",
              note="The text for Java's PlainLoginModule, ScramLoginModule or OAuthBearerLoginModule."),
    ClientKey("sasl.client.callback.handler.class", "CPA", _CLASS, _REFUSE, note=_NOT_JAVA),
    ClientKey("sasl.login.callback.handler.class", "CPA", _CLASS, _OWN,
              note="Java's OAuthBearerLoginCallbackHandler, or a Python function that returns a headrace.OAuthToken. "
              + _OAUTH),
    ClientKey("sasl.login.class", "CPA", _CLASS, _REFUSE, note=_NOT_JAVA),
    ClientKey("sasl.kerberos.kinit.cmd", "CPA", _STRING, _REFUSE, "/usr/bin/kinit", note=_KERBEROS),
    ClientKey("sasl.kerberos.min.time.before.relogin", "CPA", _LONG, _REFUSE, "60000", note=_KERBEROS),
    ClientKey("sasl.kerberos.service.name", "CPA", _STRING, _REFUSE, note=_KERBEROS),
    ClientKey("sasl.kerberos.ticket.renew.jitter", "CPA", _DOUBLE, _REFUSE, "0.05", note=_KERBEROS),
    ClientKey("sasl.kerberos.ticket.renew.window.factor", "CPA", _DOUBLE, _REFUSE, "0.8", note=_KERBEROS),
    ClientKey("sasl.login.connect.timeout.ms", "CPA", _INT, _OWN, note=_ENDPOINT_WAIT),
    ClientKey("sasl.login.read.timeout.ms", "CPA", _INT, _OWN, note=_ENDPOINT_WAIT),
    ClientKey("sasl.login.refresh.buffer.seconds", "CPA", _INT, _IGNORE, "300", note=_RENEWAL),
    ClientKey("sasl.login.refresh.min.period.seconds", "CPA", _INT, _IGNORE, "60", note=_RENEWAL),
    ClientKey("sasl.login.refresh.window.factor", "CPA", _DOUBLE, _IGNORE, "0.8", note=_RENEWAL),
    ClientKey("sasl.login.refresh.window.jitter", "CPA", _DOUBLE, _IGNORE, "0.05", note=_RENEWAL),
    ClientKey("sasl.login.retry.backoff.max.ms", "CPA", _LONG, _OWN, "10000", note="Of the token endpoint."),
    ClientKey("sasl.login.retry.backoff.ms", "CPA", _LONG, _OWN, "100", note="Of the token endpoint."),
    ClientKey("sasl.oauthbearer.client.credentials.client.id", "CPA", _STRING, _OWN,
              note="Or clientId in sasl.jaas.config."),
    ClientKey("sasl.oauthbearer.client.credentials.client.secret", "CPA", _PASSWORD, _OWN,
              note="Or clientSecret in sasl.jaas.config."),
    ClientKey("sasl.oauthbearer.header.urlencode", "CPA", _BOOLEAN, _OWN, "false",
              note="Encodes the client's id and secret."),
    ClientKey("sasl.oauthbearer.jwt.retriever.class", "CPA", _STRING, _OWN,
              "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
              note="For client credentials, or for a file."),
    ClientKey("sasl.oauthbearer.scope", "CPA", _STRING, _OWN, note="Or scope in sasl.jaas.config."),
    ClientKey("sasl.oauthbearer.token.endpoint.url", "CPA", _STRING, _OWN, note="https://, http:// or file:///."),
    *(
        ClientKey(f"sasl.oauthbearer.{name}", "CPA", type_, _REFUSE, default, note=_ASSERTION)
        for name, type_, default in (
            ("assertion.algorithm", _STRING, "RS256"),
            ("assertion.claim.aud", _STRING, None),
            ("assertion.claim.exp.seconds", _INT, "300"),
            ("assertion.claim.iss", _STRING, None),
            ("assertion.claim.jti.include", _BOOLEAN, "false"),
            ("assertion.claim.nbf.seconds", _INT, "60"),
            ("assertion.claim.sub", _STRING, None),
            ("assertion.file", _STRING, None),
            ("assertion.private.key.file", _STRING, None),
            ("assertion.private.key.passphrase", _PASSWORD, None),
            ("assertion.template.file", _STRING, None),
        )
    ),
    *(
        ClientKey(f"sasl.oauthbearer.{name}", "CPA", type_, _IGNORE, default, note=_BROKERS_CHECK)
        for name, type_, default in (
            ("allow.unverified.audience", _BOOLEAN, "false"),
            ("allow.unverified.issuer", _BOOLEAN, "false"),
            ("clock.skew.seconds", _INT, "30"),
            ("expected.audience", _LIST, ""),
            ("expected.issuer", _STRING, None),
            ("jwks.endpoint.refresh.ms", _LONG, "3600000"),
            ("jwks.endpoint.retry.backoff.max.ms", _LONG, "10000"),
            ("jwks.endpoint.retry.backoff.ms", _LONG, "100"),
            ("jwks.endpoint.url", _STRING, None),
            ("jwt.validator.class", _STRING, "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator"),
            ("scope.claim.name", _STRING, "scope"),
            ("sub.claim.name", _STRING, "sub"),
        )
    ),
)  # fmt: skip


def _check_reset(value: str) -> str:
    return AutoOffsetReset(value).value


_RESET: Final = Validator("earliest, latest, none or by_duration:<ISO-8601 duration>", _check_reset)

_CONSUMER: Final = (
    ClientKey("allow.auto.create.topics", "C", _BOOLEAN, _FIXED, "false"),
    ClientKey("auto.commit.interval.ms", "C", _INT, _IGNORE, "5000", note="Nothing is committed automatically."),
    ClientKey("auto.offset.reset", "C", _STRING, _OWN, "earliest", validator=_RESET,
              note="For sources that do not say."),
    ClientKey("check.crcs", "C", _BOOLEAN, _TRANSLATE, "true", "check.crcs"),
    ClientKey("enable.auto.commit", "C", _BOOLEAN, _FIXED, "false"),
    ClientKey("exclude.internal.topics", "C", _BOOLEAN, _IGNORE, "true", note="Topics are read by their names."),
    ClientKey("fetch.max.bytes", "C", _INT, _TRANSLATE, "52428800", "fetch.max.bytes", None,
              _within(1000, 2_147_483_135), at_least(0)),
    ClientKey("fetch.max.wait.ms", "C", _INT, _TRANSLATE, "500", "fetch.wait.max.ms", None,
              _within(0, FETCH_WAIT_MAX_MS),
              at_least(0), f"At most {FETCH_WAIT_MAX_MS}: the end of a partition is seen that late."),
    ClientKey("fetch.min.bytes", "C", _INT, _TRANSLATE, "1", "fetch.min.bytes", None, _within(1, 100_000_000),
              at_least(0)),
    ClientKey("group.id", "C", _STRING, _OWN, note="Always the application.id."),
    ClientKey("group.instance.id", "C", _STRING, _TRANSLATE, None, None, "group_instance_id",
              note="With the number of the thread behind it. A stopped instance's tasks wait for it."),
    ClientKey("group.protocol", "C", _STRING, _OWN, "classic", note="The application's own setting."),
    ClientKey("group.remote.assignor", "C", _STRING, _IGNORE, note="Only Java's consumer protocol has it."),
    ClientKey("heartbeat.interval.ms", "C", _INT, _TRANSLATE, "3000", None, "heartbeat_interval_ms", None, at_least(1)),
    ClientKey("interceptor.classes", "CP", _LIST, _REFUSE, "",
              note="An interceptor may change records, and Java's cannot run here."),
    ClientKey("internal.throw.on.fetch.stable.offset.unsupported", "C", _BOOLEAN, _IGNORE, "false",
              note="An internal switch of the Java client."),
    ClientKey("isolation.level", "C", _STRING, _TRANSLATE, "read_uncommitted", "isolation.level",
              validator=one_of("read_committed", "read_uncommitted"),
              note="Always read_committed under exactly_once_v2."),
    ClientKey("key.deserializer", "C", _CLASS, _IGNORE, note="Serdes decode."),
    ClientKey("max.partition.fetch.bytes", "C", _INT, _TRANSLATE, "1048576", "max.partition.fetch.bytes", None,
              _within(1, 1_000_000_000), at_least(0)),
    ClientKey("max.poll.interval.ms", "C", _INT, _TRANSLATE, "300000", None, "max_poll_interval_ms", None, at_least(1)),
    ClientKey("max.poll.records", "C", _INT, _OWN, "1000", validator=at_least(1)),
    ClientKey("partition.assignment.strategy", "C", _LIST, _FIXED, "headrace",
              note="Members are assigned tasks, not partitions: see task.assignor.class."),
    ClientKey("session.timeout.ms", "C", _INT, _TRANSLATE, "45000", None, "session_timeout_ms", None, at_least(1)),
    ClientKey("share.acknowledgement.mode", "C", _STRING, _IGNORE, "implicit", note="Only share consumers have it."),
    ClientKey("share.acquire.mode", "C", _STRING, _IGNORE, "BATCH_OPTIMIZED", note="Only share consumers have it."),
    ClientKey("value.deserializer", "C", _CLASS, _IGNORE, note="Serdes decode."),
)  # fmt: skip

_PRODUCER: Final = (
    ClientKey("acks", "P", _STRING, _TRANSLATE, "all", "acks", validator=one_of("all", "-1", "0", "1"),
              note="Anything but all turns idempotence off; refused under exactly_once_v2."),
    ClientKey("batch.size", "P", _INT, _TRANSLATE, "16384", "batch.size", None, _within(1, 2_147_483_647), at_least(0)),
    ClientKey("buffer.memory", "P", _LONG, _TRANSLATE, "33554432", "queue.buffering.max.kbytes", None, _kilobytes,
              at_least(0)),
    ClientKey("buffer.memory.allocation.strategy", "P", _STRING, _IGNORE, "full",
              note="An internal switch of the Java client."),
    ClientKey("compression.gzip.level", "P", _INT, _TRANSLATE, "-1", "compression.level",
              note="With compression.type=gzip."),
    ClientKey("compression.lz4.level", "P", _INT, _TRANSLATE, "9", "compression.level", None, _within(1, 12),
              note="With compression.type=lz4; at most 12."),
    ClientKey("compression.type", "P", _STRING, _TRANSLATE, "none", "compression.type",
              validator=one_of("none", "gzip", "snappy", "lz4", "zstd")),
    ClientKey("compression.zstd.level", "P", _INT, _TRANSLATE, "3", "compression.level", None, _within(-1, 12),
              note="With compression.type=zstd; at most 12."),
    ClientKey("delivery.timeout.ms", "P", _INT, _TRANSLATE, "120000", "delivery.timeout.ms", validator=at_least(0),
              note="Under exactly_once_v2 at most transaction.timeout.ms."),
    ClientKey("enable.idempotence", "P", _BOOLEAN, _TRANSLATE, "true", "enable.idempotence",
              note="Always true under exactly_once_v2."),
    ClientKey("key.serializer", "P", _CLASS, _IGNORE, note="Serdes encode."),
    ClientKey("linger.ms", "P", _LONG, _TRANSLATE, "100", "linger.ms", None, _within(0, 900_000), at_least(0)),
    ClientKey("max.block.ms", "P", _LONG, _OWN, "60000", validator=at_least(0)),
    ClientKey("max.in.flight.requests.per.connection", "P", _INT, _TRANSLATE, "5",
              "max.in.flight.requests.per.connection", None, _within(1, 1_000_000), at_least(1),
              "More than 5 turns idempotence off; refused under exactly_once_v2."),
    ClientKey("max.request.size", "P", _INT, _TRANSLATE, "1048576", "message.max.bytes", None,
              _within(1000, 1_000_000_000), at_least(0)),
    ClientKey("metadata.max.idle.ms", "P", _LONG, _IGNORE, "300000",
              note="librdkafka forgets unused topics by itself."),
    ClientKey("partitioner.adaptive.partitioning.enable", "P", _BOOLEAN, _IGNORE, "true",
              note="Only records without key are concerned."),
    ClientKey("partitioner.availability.timeout.ms", "P", _LONG, _IGNORE, "0",
              note="Only records without key are concerned."),
    ClientKey("partitioner.class", "P", _CLASS, _REFUSE, note="Give the sink a StreamPartitioner instead."),
    ClientKey("partitioner.ignore.keys", "P", _BOOLEAN, _REFUSE, "false", note="Records with a key go by its hash."),
    ClientKey("partitioner.rack.aware", "P", _BOOLEAN, _IGNORE, "false",
              note="Only records without key are concerned."),
    ClientKey("retries", "PA", _INT, _TRANSLATE, "2147483647", "retries", validator=at_least(0),
              note="The producer's only; the admin client does not take it."),
    ClientKey("transaction.timeout.ms", "P", _INT, _TRANSLATE, "10000", "transaction.timeout.ms", None,
              # librdkafka adds 100 to it, in 32 bits
              _within(1000, 2_147_483_547), at_least(1), "At least 1000. May not be below commit.interval.ms."),
    ClientKey("transaction.two.phase.commit.enable", "P", _BOOLEAN, _REFUSE, "false",
              note="Transactions are headrace's own."),
    ClientKey("transactional.id", "P", _STRING, _FIXED, note="Named after application, process and thread."),
    ClientKey("value.serializer", "P", _CLASS, _IGNORE, note="Serdes encode."),
)  # fmt: skip

_ADMIN: Final = (
    ClientKey("bootstrap.controllers", "A", _LIST, _REFUSE, "", note="The admin client talks to brokers."),
)  # fmt: skip

CLIENT_KEYS: Final[dict[str, ClientKey]] = {
    key.name: key for key in sorted((*_COMMON, *_SECURITY_KEYS, *_CONSUMER, *_PRODUCER, *_ADMIN), key=lambda k: k.name)
}
"""The rows by name."""
