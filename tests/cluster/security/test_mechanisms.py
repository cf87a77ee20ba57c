"""An application runs end to end, exactly once, by each way of proving who it is, from one set of Java's settings."""

from __future__ import annotations

import subprocess
import sys
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from cluster.runtime.counting import counting
from cluster.security.broker import CLIENT_ID, CLIENT_SECRET, USER, oauth_module, unsigned_token
from cluster.security.certificates import CLIENT, KEY_PASSWORD

from headrace import KafkaStreams, OAuthToken, StreamsConfig
from headrace.config.oauth import HANDLERS
from headrace.config.sources import read_properties_file
from headrace.errors import AuthorizationException
from headrace.kafka import TopicAdmin
from headrace.kafka.connections import group_client_config
from headrace.kafka.group_admin import GroupAdmin
from headrace.serdes import LongDeserializer, StringDeserializer
from headrace.topics import LatestByKey, NewTopic, TopicWriter, ensure_topics

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cluster.security.broker import SecureBroker, TokenEndpoint

KEYS, RECORDS = 5, 50
LIFETIME_S = 8.0
ODD_USER = "a=p,p"
"""A name that SCRAM has to escape."""


def count(
    security: dict[str, Any], unique: Callable[[str], str], state: Path, done: Callable[[], bool] = lambda: True
) -> None:
    """Run an application that counts, with these settings for everything: topics, records, membership, outputs.

    Args:
        security: the settings.
        unique: makes names.
        state: its directory.
        done: what has to hold, too, before it ends.
    """
    source, out = unique("in"), unique("out")
    config = StreamsConfig.load(
        {
            "application.id": unique("app"),
            "processing.guarantee": "exactly_once_v2",
            "state.dir": str(state),
            "auto.offset.reset": "earliest",
            **security,
        }
    )
    servers, client = ",".join(config.bootstrap_servers), config.admin_config()
    ensure_topics(servers, [NewTopic(source, 2), NewTopic(out, 2)], client=client)
    with TopicWriter(servers, client=client) as writer:
        for i in range(RECORDS):
            writer.send(source, f"k{i % KEYS}".encode(), b"v")
    streams = KafkaStreams(counting(source, out), config)
    streams.start()
    try:
        with LatestByKey(servers, out, StringDeserializer(), LongDeserializer(), client=client) as totals:
            deadline = time.monotonic() + 120
            wanted = dict.fromkeys((f"k{i}" for i in range(KEYS)), RECORDS // KEYS)
            while totals.values != wanted or not done():
                totals.poll()
                assert time.monotonic() < deadline, f"{streams.state()}: {dict(totals.values)}"
    finally:
        assert streams.close(60.0)


@pytest.fixture(autouse=True, scope="module")
def everything_allowed(broker: SecureBroker) -> None:
    """What it takes at least is the subject of another module."""
    for user in (USER, ODD_USER, CLIENT):
        broker.allow(user, [("All", kind, "*") for kind in ("topic", "group", "transactional-id")])
    broker.make_user(ODD_USER)


@pytest.mark.parametrize(("digest", "protocol"), [(256, "streams"), (512, "classic")])
def test_scram(broker: SecureBroker, unique: Callable[[str], str], tmp_path: Path, digest: int, protocol: str) -> None:
    count({**broker.scram_user(ODD_USER, digest=digest), "group.protocol": protocol}, unique, tmp_path)


@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_plain(broker: SecureBroker, unique: Callable[[str], str], tmp_path: Path, protocol: str) -> None:
    count({**broker.plain_user(), "group.protocol": protocol}, unique, tmp_path)


def test_tls(broker: SecureBroker, unique: Callable[[str], str], tmp_path: Path) -> None:
    count({"bootstrap.servers": broker.tls, "security.protocol": "SSL", **broker.trust}, unique, tmp_path)


def test_a_client_certificate_of_a_file_with_an_encrypted_key(
    broker: SecureBroker, unique: Callable[[str], str], tmp_path: Path
) -> None:
    security = {
        "bootstrap.servers": broker.mutual,
        "security.protocol": "SSL",
        **broker.trust,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(broker.certificates.client),
        "ssl.key.password": KEY_PASSWORD,
    }
    count(security, unique, tmp_path)


def test_a_client_certificate_of_text_in_a_properties_file(
    broker: SecureBroker, unique: Callable[[str], str], tmp_path: Path
) -> None:
    key, _, chain = broker.certificates.client.read_text().partition("-----BEGIN CERTIFICATE")
    rows = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": broker.certificates.authority.read_text(),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": key,
        "ssl.keystore.certificate.chain": f"-----BEGIN CERTIFICATE{chain}",
        "ssl.key.password": KEY_PASSWORD,
    }
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={' '.join(text.splitlines())}\n" for name, text in rows.items()))
    security = {
        **read_properties_file(file),
        "bootstrap.servers": broker.mutual,
        "security.protocol": "SSL",
        "group.protocol": "streams",
    }
    count(security, unique, tmp_path)


def test_tokens_of_an_endpoint(
    broker: SecureBroker, token_endpoint: TokenEndpoint, unique: Callable[[str], str], tmp_path: Path
) -> None:
    module = oauth_module(clientId=CLIENT_ID, clientSecret=CLIENT_SECRET, scope="kafka")
    security = {
        **broker.sasl_settings("OAUTHBEARER", module),
        "sasl.oauthbearer.token.endpoint.url": token_endpoint.url,
        "sasl.login.callback.handler.class": HANDLERS[0],
        "group.protocol": "streams",
    }
    count(security, unique, tmp_path)
    assert token_endpoint.asked == 1


def test_tokens_of_a_function_are_renewed_and_shown_again_on_open_connections(
    broker: SecureBroker, unique: Callable[[str], str], tmp_path: Path
) -> None:
    given: list[float] = []

    def give() -> OAuthToken:
        given.append(time.time())
        return OAuthToken(unsigned_token(USER, LIFETIME_S), time.time() + LIFETIME_S, USER)

    security = {
        **broker.sasl_settings("OAUTHBEARER", oauth_module()),
        "sasl.login.callback.handler.class": give,
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 500,
    }
    count(security, unique, tmp_path, lambda: len(given) >= 2)
    assert all(later - earlier > LIFETIME_S / 2 for earlier, later in pairwise(given))


def test_host_names_are_checked_unless_the_setting_is_empty(broker: SecureBroker) -> None:
    port = broker.tls.partition(":")[2]
    settings = {"application.id": "app", "bootstrap.servers": f"localhost:{port}", "security.protocol": "SSL"}
    config = StreamsConfig.load({**settings, **broker.trust})
    with pytest.raises(AuthorizationException, match=r"check that ssl\.truststore.*ssl\.endpoint\.identification"):
        TopicAdmin(config.admin_config()).list_topics()
    with pytest.raises(AuthorizationException, match=r"mismatch.*ssl\.endpoint\.identification"):
        GroupAdmin(group_client_config(config.admin_config()), 30_000)
    trusting = config.with_values({"ssl.endpoint.identification.algorithm": ""}).admin_config()
    TopicAdmin(trusting).list_topics()
    GroupAdmin(group_client_config(trusting), 30_000).close()


def test_the_products_commands_take_the_same_settings(
    broker: SecureBroker, unique: Callable[[str], str], tmp_path: Path
) -> None:
    rows = {
        **broker.scram_user(ODD_USER),
        **{f"course.revenue.topic.{name}": unique(name) for name in ("lines", "courses", "output", "rejected")},
    }
    file = tmp_path / "product.properties"
    file.write_text("".join(f"{name}={value.replace(chr(92), chr(92) * 2)}\n" for name, value in rows.items()))
    for command, says in (("topics", "created: "), ("load", "loaded 20 lines"), ("totals", "course_id")):
        options = ["--lines", "20", "--courses", "2"] if command == "load" else []
        done = subprocess.run(
            [sys.executable, "-m", "course_revenue", command, "--config", str(file), *options],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert says in done.stdout
