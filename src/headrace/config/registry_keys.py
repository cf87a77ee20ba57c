"""Settings of serdes that use a schema registry, one row each: Confluent's names.

Those of the client (from ``basic.auth.…`` on) may be written with ``schema.registry.`` in front, which wins. The
client's ``ssl.…`` settings are Kafka's own, always with that prefix, so that they are not the brokers'.
Sources: ``AbstractKafkaSchemaSerDeConfig``, ``SchemaRegistryClientConfig`` (Confluent 8).
"""

from __future__ import annotations

from typing import Final

from headrace.config.definition import ConfigKey, ConfigType, Importance, Validator, at_least, one_of

URL: Final = "schema.registry.url"
CLIENT_PREFIX: Final = "schema.registry."
HEADER_PREFIX: Final = "request.header."

_BOOLEAN, _STRING, _INT, _LONG = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.LONG
_LIST, _CLASS, _PASSWORD = ConfigType.LIST, ConfigType.CLASS, ConfigType.PASSWORD
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW

_REGISTRY = "headrace.serdes.registry:"
_SUBJECT = "io.confluent.kafka.serializers.subject."
_SCHEMA_ID = "io.confluent.kafka.serializers.schema.id."
SUBJECT_STRATEGIES: Final = {
    _SUBJECT + name: _REGISTRY + name for name in ("TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy")
}
ID_SERIALIZERS: Final = {
    _SCHEMA_ID + name: _REGISTRY + name for name in ("PrefixSchemaIdSerializer", "HeaderSchemaIdSerializer")
}
ID_DESERIALIZERS: Final = {
    _SCHEMA_ID + name: _REGISTRY + name for name in ("DualSchemaIdDeserializer", "PrefixSchemaIdDeserializer")
}


def _check_urls(value: tuple[str, ...]) -> tuple[str, ...]:
    if not value or not all(url.startswith(("http://", "https://", "mock://")) for url in value):
        raise ValueError
    return tuple(url.rstrip("/") for url in value)


def _for_key_and_value(
    name: str, type_: ConfigType, default: str | None, doc: str, classes: dict[str, str] | None = None
) -> tuple[ConfigKey, ConfigKey]:
    key, value = (
        ConfigKey(name.format(half), type_, default, _MEDIUM, doc.format(half), classes=classes or {})
        for half in ("key", "value")
    )
    return key, value


SERDE_KEYS: Final[tuple[ConfigKey, ...]] = (
    ConfigKey(
        URL, _LIST, None, _HIGH,
        "Addresses of the registry; the next one is asked when one does not answer. mock://NAME is a registry in "
        "memory, one for each name, for tests.",
        Validator("one or more URLs (http, https, or mock for one in memory), separated by commas", _check_urls),
    ),
    ConfigKey(
        "auto.register.schemas", _BOOLEAN, "true", _MEDIUM, "Register a schema when a value of it is first written."
    ),
    ConfigKey(
        "use.latest.version", _BOOLEAN, "false", _LOW,
        "Write values by the latest schema of the subject; needs auto.register.schemas=false.",
    ),
    ConfigKey(
        "use.schema.id", _INT, "-1", _LOW,
        "Write values by the schema with this id; needs auto.register.schemas=false.",
        at_least(-1),
    ),
    ConfigKey(
        "normalize.schemas", _BOOLEAN, "false", _MEDIUM,
        "Let the registry bring schemas into a normal form when they are registered or looked up.",
    ),
    ConfigKey(
        "latest.cache.ttl.sec", _LONG, "-1", _LOW,
        "Seconds for which the latest schema of a subject is taken to be the latest; -1 for ever.",
        at_least(-1),
    ),
    *_for_key_and_value(
        "{}.subject.name.strategy", _CLASS, _SUBJECT + "TopicNameStrategy",
        "Makes the subject of a {}'s schema of topic and record name.", SUBJECT_STRATEGIES,
    ),
    *_for_key_and_value(
        "{}.schema.id.serializer", _CLASS, _SCHEMA_ID + "PrefixSchemaIdSerializer",
        "Where the id of a {}'s schema is written: 4 bytes in front of it, or a GUID in a header.", ID_SERIALIZERS,
    ),
    *_for_key_and_value(
        "{}.schema.id.deserializer", _CLASS, _SCHEMA_ID + "DualSchemaIdDeserializer",
        "Where the id of a {}'s schema is read: in a header if there is one, else in front of it.", ID_DESERIALIZERS,
    ),
    *_for_key_and_value(
        "specific.avro.{}.type", _CLASS, None, "Class of {}s that SpecificAvroSerde and ReflectionAvroSerde read."
    ),
    *_for_key_and_value("json.{}.type", _CLASS, None, "Class of {}s that KafkaJsonSchemaSerde reads."),
    ConfigKey(
        "json.fail.invalid.schema", _BOOLEAN, "false", _MEDIUM,
        "Check JSON against its schema, written or read; needs the extra jsonschema.",
    ),
    *_for_key_and_value(
        "specific.protobuf.{}.type", _CLASS, None, "Generated message class of {}s that KafkaProtobufSerde reads."
    ),
)  # fmt: skip

CLIENT_KEYS: Final[tuple[ConfigKey, ...]] = (
    ConfigKey(
        "basic.auth.credentials.source", _STRING, "URL", _MEDIUM,
        "Where the user and password are: in the URL, or in basic.auth.user.info.",
        one_of("URL", "USER_INFO"),
    ),
    ConfigKey("basic.auth.user.info", _PASSWORD, "", _MEDIUM, "user:password."),
    ConfigKey(
        "bearer.auth.credentials.source", _STRING, None, _MEDIUM,
        "Where the token is: in bearer.auth.token, or what bearer.auth.custom.provider.class gives.",
        one_of("STATIC_TOKEN", "CUSTOM"),
    ),
    ConfigKey("bearer.auth.token", _PASSWORD, None, _MEDIUM, "The token."),
    ConfigKey(
        "bearer.auth.custom.provider.class", _CLASS, None, _LOW,
        "A function without arguments that gives the token; asked before every request.",
    ),
    ConfigKey("bearer.auth.logical.cluster", _STRING, None, _LOW, "Sent as target-sr-cluster."),
    ConfigKey("bearer.auth.identity.pool.id", _STRING, None, _LOW, "Sent as Confluent-Identity-Pool-Id."),
    ConfigKey(
        "http.connect.timeout.ms", _INT, "3000", _LOW,
        "Milliseconds to connect. Confluent's default is 60000; here a record that waits for the registry is tried "
        "again until task.timeout.ms anyway.",
        at_least(1),
    ),
    ConfigKey(
        "http.read.timeout.ms", _INT, "3000", _LOW,
        "Milliseconds to wait for an answer. Confluent's default is 60000.",
        at_least(1),
    ),
    ConfigKey("max.retries", _INT, "3", _LOW, "How often a request is sent again.", at_least(0)),
    ConfigKey(
        "retries.wait.ms", _INT, "100", _LOW,
        "Pause before the first of them; it doubles. Confluent's default is 1000.",
        at_least(0),
    ),
    ConfigKey("retries.max.wait.ms", _INT, "20000", _LOW, "Longest pause before a request is sent again.", at_least(0)),
    ConfigKey("proxy.host", _STRING, "", _LOW, "Proxy through which the registry is reached."),
    ConfigKey("proxy.port", _INT, "-1", _LOW, "Its port."),
)  # fmt: skip

SSL_KEYS: Final[tuple[ConfigKey, ...]] = (
    ConfigKey("ssl.truststore.location", _STRING, None, _MEDIUM, "PEM file of certificates that are trusted."),
    ConfigKey("ssl.truststore.type", _STRING, "PEM", _LOW, "Format of the trust store.", one_of("PEM")),
    ConfigKey("ssl.keystore.location", _STRING, None, _MEDIUM, "PEM file with the client's certificate and key."),
    ConfigKey("ssl.keystore.type", _STRING, "PEM", _LOW, "Format of the key store.", one_of("PEM")),
    ConfigKey("ssl.key.password", _PASSWORD, None, _MEDIUM, "Password of the client's key."),
    ConfigKey(
        "ssl.endpoint.identification.algorithm", _STRING, "https", _LOW,
        "https checks that the certificate is the host's; empty does not.",
        one_of("https", ""),
    ),
)  # fmt: skip

REGISTRY_KEYS: Final[dict[str, ConfigKey]] = {
    **{row.name: row for row in (*SERDE_KEYS, *CLIENT_KEYS)},
    **{CLIENT_PREFIX + row.name: row for row in (*CLIENT_KEYS, *SSL_KEYS)},
}
"""Every row by every name under which it may be set."""
