from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from kafka.coordinator.base import BaseCoordinator
from kafka.net.manager import KafkaConnectionManager

from headrace.config import StreamsConfig
from headrace.config.client_keys import CLIENT_KEYS, Action
from headrace.config.definition import ConfigType
from headrace.config.oauth import HANDLERS, TokenFile, UnsecuredToken, UserTokens
from headrace.config.security import OAUTH
from headrace.errors import ConfigException, TimeoutException
from headrace.kafka.connections import group_client_config
from headrace.kafka.group_admin import GroupAdmin

JAVA_KEYS = json.loads((Path(__file__).parent / "java_client_keys.json").read_text("utf-8"))
KINDS = "CPA"
BASE = {"application.id": "app", "bootstrap.servers": "127.0.0.1:1,127.0.0.1:2"}
EXACTLY_ONCE = {"processing.guarantee": "exactly_once_v2"}
# Where headrace's own default differs from the client's, as Java's StreamsConfig overrides it.
OVERRIDDEN = {
    "allow.auto.create.topics": "false",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": "false",
    "linger.ms": "100",
    "max.poll.records": "1000",
    "partition.assignment.strategy": "headrace",
    "transaction.timeout.ms": "10000",
}


def config(values: dict[str, Any] | None = None) -> StreamsConfig:
    return StreamsConfig({**BASE, **(values or {})})


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "headrace.config"]


def test_every_key_of_every_java_client_has_a_row() -> None:
    java = {name: "".join(k for k in KINDS if name in JAVA_KEYS[k]) for k in KINDS for name in JAVA_KEYS[k]}
    assert {name: row.kinds for name, row in CLIENT_KEYS.items()} == java


@pytest.mark.parametrize("name", sorted(CLIENT_KEYS))
def test_row_has_javas_type_and_default(name: str) -> None:
    row = CLIENT_KEYS[name]
    java_type, java_default = JAVA_KEYS[row.kinds[0]][name]
    same = {"SHORT": "INT", "CLASS": row.type.name if row.type is ConfigType.STRING else "CLASS"}
    assert row.type.name == same.get(java_type, java_type)
    default = OVERRIDDEN.get(name, java_default)
    if row.type is ConfigType.LIST and default:
        default = default.strip("[]").replace(" ", "")
    assert (row.default or "") == (default or "")
    assert row.action is Action.TRANSLATE or row.note or row.action in (Action.FIXED, Action.OWN)


def open_clients(c: StreamsConfig, kinds: str = KINDS) -> None:
    """Make each real client with its settings: librdkafka refuses a name or value it does not know."""
    quiet = {"log_level": 0}
    if "C" in kinds:
        Consumer({**c.main_consumer_config("m"), **quiet}).close()
    if "P" in kinds:
        Producer({**c.producer_config("t-0" if c.exactly_once else None, "p"), **quiet})
    if "A" in kinds:
        AdminClient({**c.admin_config("a"), **quiet})


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_real_clients_take_the_defaults(guarantee: str) -> None:
    open_clients(config({"processing.guarantee": guarantee}))


VALUES_FOR_REAL_CLIENTS: dict[str, list[Any]] = {
    "client.dns.lookup": ["resolve_canonical_bootstrap_servers_only"],
    "client.rack": ["a"],
    "metadata.recovery.strategy": ["NONE", "rebootstrap"],
    "isolation.level": ["read_committed", "read_uncommitted"],
    "acks": ["all", "-1", "1", "0"],
    "compression.type": ["none", "gzip", "snappy", "lz4", "zstd"],
    "connections.max.idle.ms": [-1, 540000, 2**40],
    "receive.buffer.bytes": [-1, 0, 2**31 - 1],
    "send.buffer.bytes": [-1, 0, 2**31 - 1],
    "max.in.flight.requests.per.connection": [1, 5, 6, 2**31 - 1],
    "fetch.max.bytes": [0, 2**31 - 1],
    "heartbeat.interval.ms": [],
    "security.protocol": [],
    "group.instance.id": [],
}
TRANSLATED = [
    name
    for name, row in CLIENT_KEYS.items()
    if row.action is Action.TRANSLATE and not name.startswith(("ssl.", "sasl.")) and not name.endswith(".level")
]


@pytest.mark.parametrize(
    ("name", "guarantee"),
    [(name, "at_least_once") for name in TRANSLATED]
    + [(name, "exactly_once_v2") for name in TRANSLATED if "P" in CLIENT_KEYS[name].kinds],
)
def test_real_clients_take_every_translated_setting(name: str, guarantee: str) -> None:
    row = CLIENT_KEYS[name]
    bounds: dict[ConfigType, list[Any]] = {
        ConfigType.BOOLEAN: [True, False],
        ConfigType.INT: [0, 1, 2**31 - 1],
        ConfigType.LONG: [0, 2**62],
    }
    kinds = row.kinds if guarantee == "at_least_once" else "P"
    opened = 0
    for value in VALUES_FOR_REAL_CLIENTS.get(name, bounds.get(row.type, [])):
        try:
            c = config({"processing.guarantee": guarantee, "commit.interval.ms": 0, name: value})
        except ConfigException as error:
            assert "has the value" in str(error)  # noqa: PT017  # what is refused names a setting; others must open
            continue
        open_clients(c, kinds)
        opened += 1
    assert opened or not VALUES_FOR_REAL_CLIENTS.get(name, [1])


def test_main_consumer() -> None:
    plain = config().main_consumer_config("cid")
    assert plain == {
        "bootstrap.servers": "127.0.0.1:1,127.0.0.1:2",
        "client.id": "cid",
        "group.id": "app",
        "isolation.level": "read_uncommitted",
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "allow.auto.create.topics": False,
        "fetch.queue.backoff.ms": 5,
        "fetch.wait.max.ms": 50,
        "queued.min.messages": 100_000,
        "check.crcs": True,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1000,
        "retry.backoff.ms": 5,
        "socket.nagle.disable": True,
        "socket.timeout.ms": 30_000,
        "security.protocol": "PLAINTEXT",
        "max.poll.interval.ms": 86_400_000,
    }
    assert config(EXACTLY_ONCE).main_consumer_config()["isolation.level"] == "read_committed"
    forced = config({**EXACTLY_ONCE, "consumer.isolation.level": "read_uncommitted"})
    assert forced.restore_consumer_config()["isolation.level"] == "read_committed"


def test_the_most_specific_prefix_wins() -> None:
    c = config(
        {
            "fetch.max.bytes": 1000,
            "consumer.fetch.max.bytes": "2000",
            "restore.consumer.fetch.max.bytes": 3000,
            "main.consumer.fetch.min.bytes": 9,
            "producer.linger.ms": 7,
            "linger.ms": 8,
            "admin.request.timeout.ms": 5000,
        }
    )
    assert c.main_consumer_config()["fetch.max.bytes"] == 2000
    assert c.restore_consumer_config()["fetch.max.bytes"] == 3000
    assert c.main_consumer_config()["fetch.min.bytes"] == 9
    assert "fetch.min.bytes" not in c.restore_consumer_config()
    assert c.producer_config()["linger.ms"] == 7
    assert c.admin_config()["socket.timeout.ms"] == 5000
    assert c.producer_config()["socket.timeout.ms"] == 30_000


def test_producer() -> None:
    plain = config().producer_config()
    assert plain["partitioner"] == "murmur2_random"
    assert (plain["linger.ms"], plain["acks"], plain["enable.idempotence"]) == (100, "all", True)
    assert plain["delivery.timeout.ms"] == 120_000
    assert "transactional.id" not in plain
    assert "transaction.timeout.ms" not in plain
    transactional = config({**EXACTLY_ONCE, "request.timeout.ms": 40000}).producer_config("app-p-1")
    assert transactional["transactional.id"] == "app-p-1"
    assert transactional["transaction.timeout.ms"] == 10_000
    assert transactional["delivery.timeout.ms"] == 10_000
    assert transactional["socket.timeout.ms"] == 10_000
    java_maximum = config({**EXACTLY_ONCE, "producer.delivery.timeout.ms": 2**31 - 1})
    assert java_maximum.producer_config("t")["delivery.timeout.ms"] == 10_000


def test_what_contradicts_idempotence() -> None:
    assert config({"acks": "1"}).producer_config()["enable.idempotence"] is False
    assert config({"producer.retries": "0"}).producer_config()["enable.idempotence"] is False
    assert config({"enable.idempotence": "false"}).producer_config()["enable.idempotence"] is False
    assert config({**EXACTLY_ONCE, "enable.idempotence": "false"}).producer_config()["enable.idempotence"] is True
    with pytest.raises(ConfigException, match=r"'acks' has the value '0', but must be all while 'enable\.idempotence'"):
        config({"acks": "0", "enable.idempotence": "true"})
    with pytest.raises(ConfigException, match=r"'producer\.acks' has the value '1', but must be all under"):
        config({**EXACTLY_ONCE, "producer.acks": "1"})
    with pytest.raises(ConfigException, match="has the value 6, but must be at most 5 under"):
        config({**EXACTLY_ONCE, "max.in.flight.requests.per.connection": "6"})
    with pytest.raises(ConfigException, match=r"'linger\.ms' has the value 20000, but must be below"):
        config({**EXACTLY_ONCE, "linger.ms": "20000"})


def test_compression_level_goes_with_its_codec() -> None:
    values = {"compression.type": "gzip", "compression.gzip.level": "5", "compression.lz4.level": "3"}
    assert config(values).producer_config()["compression.level"] == 5
    assert "compression.level" not in config({"compression.gzip.level": "5"}).producer_config()
    for codec, level in (("lz4", 17), ("zstd", 22), ("gzip", -1)):
        open_clients(config({"compression.type": codec, f"compression.{codec}.level": level}))


def test_membership() -> None:
    c = config({"session.timeout.ms": "6000", "consumer.heartbeat.interval.ms": 500, "group.instance.id": "host"})
    assert c.membership_config(2) == {
        "group_instance_id": "host-2",
        "session_timeout_ms": 6000,
        "heartbeat_interval_ms": 500,
        "max_poll_interval_ms": 300_000,
    }
    for name in ("session.timeout.ms", "group.instance.id"):
        assert name not in c.main_consumer_config()
    with pytest.raises(ConfigException, match=r"'heartbeat\.interval\.ms' has the value 9000, but must be below"):
        config({"session.timeout.ms": "6000", "heartbeat.interval.ms": 9000})


def test_the_membership_connects_as_the_main_consumer_does() -> None:
    values = {
        "consumer.request.timeout.ms": 4000,
        "main.consumer.metadata.max.age.ms": 60_000,
        "connections.max.idle.ms": -1,
        "reconnect.backoff.max.ms": 2000,
        "socket.connection.setup.timeout.ms": 3000,
    }
    member = group_client_config(config(values).main_consumer_config(client_id="cid"))
    assert member == {
        "bootstrap_servers": ["127.0.0.1:1", "127.0.0.1:2"],
        "client_id": "cid",
        "security_protocol": "PLAINTEXT",
        "request_timeout_ms": 4000,
        "metadata_max_age_ms": 60_000,
        "connections_max_idle_ms": 2_147_483_647,
        "reconnect_backoff_ms": 50,
        "reconnect_backoff_max_ms": 2000,
        "socket_connection_setup_timeout_ms": 3000,
    }
    assert set(member) <= set(KafkaConnectionManager.DEFAULT_CONFIG)


def test_membership_names_are_kafka_pythons() -> None:
    known = set(BaseCoordinator.DEFAULT_CONFIG)
    assert {row.membership for row in CLIENT_KEYS.values() if row.membership} <= known
    assert set(config().membership_config()) <= known


def test_fixed_and_idle_keys_warn_once_and_defaults_are_silent(caplog: pytest.LogCaptureFixture) -> None:
    c = config(
        {
            "enable.auto.commit": "true",
            "consumer.partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor",
            "producer.key.serializer": "org.apache.kafka.common.serialization.StringSerializer",
            "fetch.max.wait.ms": "500",
            "check.crcs": "true",
            "allow.auto.create.topics": "false",
            "partitioner.ignore.keys": "false",
            "interceptor.classes": "",
        }
    )
    assert c.main_consumer_config()["fetch.wait.max.ms"] == 50
    assert c.main_consumer_config()["enable.auto.commit"] is False
    assert sorted(warnings(caplog)) == sorted(
        [
            "Setting 'enable.auto.commit' is set by headrace and cannot be changed",
            (
                "Setting 'consumer.partition.assignment.strategy' is set by headrace and cannot be changed: "
                "members are assigned tasks, not partitions: see task.assignor.class"
            ),
            "Setting 'producer.key.serializer' has no effect: serdes encode",
            "Setting 'fetch.max.wait.ms' is lowered to 50: at most 50: the end of a partition is seen that late",
        ]
    )


def test_levels_of_metrics_are_said_to_have_no_effect_for_a_client_alone(caplog: pytest.LogCaptureFixture) -> None:
    """The warning stood under an application that recorded at the level it had asked for."""
    c = config({"metrics.recording.level": "DEBUG", "metrics.num.samples": "3", "metric.reporters": "a.Reporter"})
    c.main_consumer_config()
    assert warnings(caplog) == ["Setting 'metric.reporters' has no effect. Java's reporters cannot run here."]
    caplog.clear()
    config({"consumer.metrics.recording.level": "DEBUG"}).main_consumer_config()
    assert warnings(caplog) == [
        "Setting 'consumer.metrics.recording.level' has no effect: the clients' metrics are librdkafka's"
    ]


PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p\\"q;=";'
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required\n username=u password='p';"


def test_sasl_goes_to_both_clients() -> None:
    c = config({"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN})
    for settings in (c.main_consumer_config(), c.producer_config(), c.admin_config()):
        assert (settings["sasl.username"], settings["sasl.password"]) == ("u", 'p"q;=')
        assert (settings["security.protocol"], settings["sasl.mechanism"]) == ("SASL_PLAINTEXT", "PLAIN")
    member = group_client_config(c.main_consumer_config())
    assert (member["sasl_plain_username"], member["sasl_plain_password"]) == ("u", 'p"q;=')
    assert (member["security_protocol"], member["sasl_mechanism"]) == ("SASL_PLAINTEXT", "PLAIN")
    open_clients(c)
    scram = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": SCRAM}
    assert config(scram).admin_config()["sasl.password"] == "p"


@pytest.mark.parametrize(
    ("mechanism", "jaas"),
    [("PLAIN", SCRAM), ("SCRAM-SHA-256", PLAIN), ("PLAIN", "secret"), ("PLAIN", ""), ("PLAIN", PLAIN[:-1])],
)
def test_a_wrong_jaas_text_is_refused_without_showing_it(mechanism: str, jaas: str) -> None:
    values = {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, "consumer.sasl.jaas.config": jaas}
    with pytest.raises(ConfigException, match=r"'consumer\.sasl\.jaas\.config' must read") as error:
        config({**values, "producer.sasl.jaas.config": PLAIN})
    assert "secret" not in str(error.value)
    assert 'p\\"q' not in str(error.value)


def test_other_mechanisms_are_refused() -> None:
    with pytest.raises(ConfigException, match="must be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"):
        config({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"})


def test_tls_with_pem_files_goes_to_both_clients() -> None:
    values = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/tls/ca.pem",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": "/tls/client.pem",
        "ssl.key.password": "secret",
        "ssl.endpoint.identification.algorithm": "",
    }
    c = config(values)
    producer = c.producer_config()
    assert producer["ssl.ca.location"] == "/tls/ca.pem"
    assert producer["ssl.certificate.location"] == producer["ssl.key.location"] == "/tls/client.pem"
    assert producer["ssl.key.password"] == "secret"
    assert producer["ssl.endpoint.identification.algorithm"] == "none"
    member = group_client_config(c.main_consumer_config())
    assert member["ssl_cafile"] == "/tls/ca.pem"
    assert member["ssl_certfile"] == member["ssl_keyfile"] == "/tls/client.pem"
    assert member["ssl_password"] == "secret"
    assert member["ssl_check_hostname"] is False
    assert "ssl_check_hostname" not in group_client_config(config({"security.protocol": "SSL"}).main_consumer_config())


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (
            {"ssl.truststore.location": "/tls/ca.jks", "ssl.truststore.password": "hunter2"},
            r"names a Java key store \(ssl\.truststore\.type=JKS\).* run 'keytool -list -rfc -keystore /tls/ca\.jks > ",
        ),
        (
            {"ssl.keystore.location": "/tls/me.p12", "ssl.keystore.type": "PKCS12", "ssl.keystore.password": "hunter2"},
            "run 'openssl pkcs12 -in /tls/me.p12 -nodes -out keystore.pem', then set .*type=PEM without",
        ),
        ({"ssl.keystore.location": "/tls/me.jks"}, "run 'keytool -importkeystore .* and 'openssl pkcs12 -in"),
        (
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/a.pem", "ssl.truststore.password": "hunter2"},
            r"'ssl\.truststore\.password' means nothing",
        ),
        (
            {"ssl.keystore.type": "PEM", "ssl.keystore.location": "/a.pem", "ssl.keystore.password": "hunter2"},
            r"'ssl\.keystore\.password' means nothing.*ssl\.key\.password is",
        ),
    ],
)
def test_java_key_stores_are_refused_with_how_to_convert_them(values: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigException, match=says) as error:
        config({"security.protocol": "SSL", **values})
    assert "hunter2" not in str(error.value)
    config(values)  # without TLS they mean nothing


CERTIFICATE = "-----BEGIN CERTIFICATE----- " + "QUJD" * 20 + " -----END CERTIFICATE-----"
KEY = CERTIFICATE.replace("CERTIFICATE", "PRIVATE KEY")
STORES = {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.keystore.type": "PEM"}


def test_pem_text_gets_the_line_breaks_that_a_properties_file_lost() -> None:
    values = {
        **STORES,
        "ssl.truststore.certificates": CERTIFICATE + CERTIFICATE,
        "ssl.keystore.key": KEY,
        "ssl.keystore.certificate.chain": CERTIFICATE,
    }
    settings = config(values).producer_config()
    block = f"-----BEGIN CERTIFICATE-----\n{'QUJD' * 16}\n{'QUJD' * 4}\n-----END CERTIFICATE-----\n"
    assert settings["ssl.ca.pem"] == block + block
    assert settings["ssl.certificate.pem"] == block
    assert settings["ssl.key.pem"] == block.replace("CERTIFICATE", "PRIVATE KEY")


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"ssl.keystore.key": KEY}, r"'ssl\.keystore\.certificate\.chain' is missing"),
        ({"ssl.truststore.certificates": "hunter2"}, "must be PEM text that begins with -----BEGIN CERTIFICATE-----"),
        ({"ssl.truststore.certificates": KEY}, "must be PEM text that begins with -----BEGIN CERTIFICATE-----"),
        ({"ssl.truststore.certificates": CERTIFICATE, "ssl.truststore.type": "JKS"}, "is PEM text: set"),
        ({"ssl.truststore.certificates": CERTIFICATE, "ssl.truststore.location": "/a.pem"}, "are both set"),
    ],
)
def test_wrong_pem_text_is_refused_without_showing_it(values: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigException, match=says) as error:
        config({**STORES, **values})
    assert "hunter2" not in str(error.value)
    assert "QUJD" not in str(error.value)


OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
TOKENS = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
ENDPOINT = {"sasl.oauthbearer.token.endpoint.url": "https://id.example/token"}


def oauth_of(values: dict[str, Any]) -> Any:
    return config({**TOKENS, **values}).admin_config()[OAUTH]


def test_tokens_of_an_endpoint_by_settings_or_by_options_of_the_login_module() -> None:
    settings = {
        **ENDPOINT,
        "sasl.login.callback.handler.class": HANDLERS[0],
        "sasl.oauthbearer.client.credentials.client.id": "me",
        "sasl.oauthbearer.client.credentials.client.secret": "hunter2",
        "sasl.oauthbearer.scope": "kafka",
    }
    options = {
        **ENDPOINT,
        "sasl.jaas.config": f'{OAUTH_MODULE} clientId="me" clientSecret="hunter2" scope="kafka" extension_pool="p";',
    }
    assert oauth_of(settings).origin == oauth_of(options).origin
    assert oauth_of(options).extensions == (("pool", "p"),)
    assert "hunter2" not in repr(config({**TOKENS, **options}).admin_config())


def test_other_origins_of_tokens() -> None:
    assert oauth_of({"sasl.oauthbearer.token.endpoint.url": "file:///run/a%20token"}).origin == TokenFile(
        "/run/a token"
    )
    unsecured = f'{OAUTH_MODULE} unsecuredLoginStringClaim_sub="me" unsecuredLoginLifetimeSeconds="60";'
    assert oauth_of({"sasl.jaas.config": unsecured}).origin == UnsecuredToken("me", 60)
    own = oauth_of({"sasl.login.callback.handler.class": "my_app.tokens:give"})
    assert own.origin == UserTokens("my_app.tokens:give", "sasl.login.callback.handler.class")


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({}, r"'sasl\.oauthbearer\.token\.endpoint\.url' is missing"),
        (ENDPOINT, r"client\.id' and .* are missing"),
        ({"sasl.oauthbearer.token.endpoint.url": "ldap://x"}, "must be a URL that begins with https://"),
        ({"sasl.jaas.config": PLAIN}, r"must read '.*OAuthBearerLoginModule required;'"),
        ({"sasl.login.callback.handler.class": "com.mine.Handler"}, "a Java class, which cannot run here"),
        ({**ENDPOINT, "sasl.oauthbearer.jwt.retriever.class": "com.mine.Retriever"}, "for another way to get tokens"),
        (
            {**ENDPOINT, "sasl.oauthbearer.assertion.file": "/a"},
            r"'sasl\.oauthbearer\.assertion\.file' is not supported",
        ),
    ],
)
def test_tokens_that_cannot_be_had_are_refused(values: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigException, match=says) as error:
        oauth_of(values)
    assert 'p\\"q' not in str(error.value)


def test_no_log_line_shows_a_password(caplog: pytest.LogCaptureFixture) -> None:
    sasl = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": SCRAM}
    member = group_client_config(config(sasl).main_consumer_config())
    caplog.set_level("DEBUG")
    with pytest.raises(TimeoutException):
        GroupAdmin(member, 1)
    assert "Starting KafkaAdminClient" in caplog.text
    assert "sasl_plain_password': '(hidden)'" in caplog.text
