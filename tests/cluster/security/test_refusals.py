"""What an application says when brokers do not let it in, or do not let it do something."""

from __future__ import annotations

import re
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cluster.instances import wait_until
from cluster.runtime.counting import counting, deaths_of
from cluster.security.broker import CLIENT_ID, USER, Grant, oauth_module
from confluent_kafka import Producer

from headrace import KafkaStreams, State, StreamsConfig
from headrace.config.oauth import HANDLERS
from headrace.errors import AuthorizationException
from headrace.kafka import RecordProducer, TopicAdmin
from headrace.kafka.connections import group_client_config
from headrace.kafka.group_admin import GroupAdmin
from headrace.records import GroupIdentity, OffsetAndMetadata, TopicPartition
from headrace.topics import NewTopic, TopicReader, TopicWriter, ensure_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cluster.security.broker import SecureBroker, TokenEndpoint

PAGE = Path(__file__).parents[3] / "docs" / "security.md"
_COMMAND = re.compile(
    r"^kafka-acls .* --add .*--allow-principal User:NAME(?P<operations>(?: --operation \w+)+) "
    r"--(?P<resource>[\w-]+)(?: (?P<name>\S+))?(?: --resource-pattern-type (?P<kind>\w+))?$",
    re.MULTILINE,
)


def documented(names: dict[str, str]) -> list[Grant]:
    """What the commands of the page on security grant, with these names in place of the page's."""
    grants: list[Grant] = []
    needs = PAGE.read_text("utf-8").partition("## What an application needs")[2]
    for command in _COMMAND.finditer(needs.partition("```sh")[2].partition("```")[0]):
        name = command["name"] or ""
        for word, instead in names.items():
            name = name.replace(word, instead)
        suffix = "*" if command["kind"] == "prefixed" else ""
        operations = command["operations"].split("--operation")[1:]
        grants += [(operation.strip(), command["resource"], name + suffix) for operation in operations]
    return grants


class Application:
    """An application of a user who may do what the page says, less what a test takes away."""

    def __init__(self, broker: SecureBroker, unique: Callable[[str], str], state: Path) -> None:
        self.broker = broker
        self.user, self.id, self.source, self.out = (unique(name) for name in ("user", "app", "in", "out"))
        self.grants = documented({"my-application": self.id, "my-input": self.source, "my-output": self.out})
        self._state = state
        self._runs = 0
        broker.make_user(self.user)
        broker.allow(self.user, self.grants)
        ensure_topics(broker.plain, [NewTopic(self.source, 1), NewTopic(self.out, 1)])

    @contextmanager
    def without(self, *grant: *Grant) -> Iterator[None]:
        """One grant less."""
        self.broker.forbid(self.user, [grant])
        yield
        self.broker.allow(self.user, [grant])

    def started(self, **settings: str) -> tuple[KafkaStreams, list[Exception]]:
        """It runs, and what its stream thread ends with comes into the list."""
        self._runs += 1
        config = {
            "application.id": self.id,
            "state.dir": str(self._state / str(self._runs)),
            **self.broker.scram_user(self.user),
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        streams = KafkaStreams(counting(self.source, self.out), StreamsConfig.load(config))
        raised = deaths_of(streams)
        streams.start()
        return streams, raised

    def failure(self, **settings: str) -> Exception | None:
        """What its stream thread ends with; None when a record came through and was committed."""
        producer = Producer({"bootstrap.servers": self.broker.plain})
        producer.produce(self.source, b"value", b"key")
        assert producer.flush(30) == 0
        streams, raised = self.started(
            **{"processing_guarantee": "exactly_once_v2", "commit_interval_ms": "100", **settings}
        )
        admin, read = TopicAdmin({"bootstrap.servers": self.broker.plain}), TopicPartition(self.source, 0)
        try:
            deadline = time.monotonic() + 120
            while not raised and admin.committed(self.id, [read])[read] < self._runs:
                assert time.monotonic() < deadline, streams.state()
                time.sleep(0.05)
        finally:
            streams.close(30.0)
            admin.close()
        return raised[0] if raised else None


def denied(error: BaseException | None) -> bool:
    """Whether it comes of a missing permission; where a record was to be sent, the error says more around that."""
    return error is not None and (isinstance(error, AuthorizationException) or denied(error.__cause__))


def hidden(admin: TopicAdmin, topic: str) -> bool:
    """Whether the brokers refuse to describe a topic, which who may write to it may."""
    try:
        admin.partition_counts([topic])
    except AuthorizationException:
        return True
    return False


@pytest.fixture
def application(broker: SecureBroker, unique: Callable[[str], str], tmp_path: Path) -> Application:
    """One with topics and a user of its own."""
    return Application(broker, unique, tmp_path)


def test_each_missing_acl_is_named_with_the_command_that_adds_it(application: Application) -> None:
    app, internal = application.id, f"{application.id}-counts-changelog"
    with application.without("Create", "topic", f"{app}-*"):
        error = application.failure()
        assert isinstance(error, AuthorizationException)
        assert f"lacks Create on topic {internal}: kafka-acls" in str(error)
        assert str(error).endswith(f"--add --allow-principal User:NAME --operation Create --topic {internal}")
    assert application.failure() is None
    for operation, resource, name, says in (
        ("Read", "topic", application.source, f"lacks Describe on topic {application.source}"),
        ("Write", "topic", application.out, f"lacks (Describe|Write) on topic {application.out}"),
        ("Read", "topic", f"{app}-*", f"lacks Read on topic {internal}"),
        ("Write", "topic", f"{app}-*", f"lacks Write on topic {internal}"),
        ("DescribeConfigs", "topic", f"{app}-*", f"lacks DescribeConfigs on topic {internal}"),
        ("Read", "group", app, f"lacks Read on group {app}"),
        ("Write", "transactional-id", f"{app}-*", f"lacks Write on transactional id {app}-"),
    ):
        with application.without(operation, resource, name):
            error = application.failure()
            assert denied(error), (operation, resource, error)
            assert re.search(says, str(error)), error
    assert application.failure() is None


def test_a_missing_acl_is_named_under_the_streams_protocol(application: Application) -> None:
    app, internal = application.id, f"{application.id}-counts-changelog"
    settings = {"group_protocol": "streams", "processing_guarantee": "at_least_once"}
    for operation, resource, name, says in (
        ("Create", "topic", f"{app}-*", f"lacks Create on topic {internal}"),
        ("Read", "group", app, f"lacks Read on group {app}"),
        ("Write", "topic", application.out, f"lacks Write on topic {application.out}"),
    ):
        with application.without(operation, resource, name):
            error = application.failure(**settings)
            assert denied(error), (operation, resource, error)
            assert re.search(says, str(error)), error
    assert application.failure(**settings) is None


def test_a_grant_that_is_taken_away_in_a_transaction_is_named_whatever_is_asked_next(application: Application) -> None:
    """Adding offsets said that Read on each source topic was missing: the transaction had failed before."""
    broker, topic = application.broker, application.out
    exactly = {"application.id": application.id, "processing.guarantee": "exactly_once_v2"}
    config = StreamsConfig.load({**exactly, **broker.scram_user(application.user)})
    offsets = {TopicPartition(application.source, 0): OffsetAndMetadata(1)}
    producer = RecordProducer(config.producer_config(f"{application.id}-1"))
    producer.init_transactions(30.0)
    producer.send(topic, 0, b"key", b"value")
    producer.flush(30.0)
    with application.without("Write", "topic", topic):
        admin = TopicAdmin(config.admin_config())
        wait_until(lambda: hidden(admin, topic), "the grant is gone")
        admin.close()
        producer.send(topic, 0, b"key", b"value")
        producer.flush(30.0)
        with pytest.raises(AuthorizationException, match=f"adding offsets .* lacks Write on topic {topic}: kafka-acls"):
            producer.send_offsets(offsets, GroupIdentity(application.id, 1, "member"))
    producer.close()


@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_an_idle_application_ends_when_its_group_is_taken_away(application: Application, protocol: str) -> None:
    """By heartbeats alone; a classic member asked on and on, and the client stayed RUNNING."""
    streams, raised = application.started(group_protocol=protocol, heartbeat_interval_ms="300")
    wait_until(lambda: streams.state() is State.RUNNING, "it runs")
    with application.without("Read", "group", application.id):
        wait_until(lambda: raised, "it ends", 20)
    assert streams.close(30.0)
    assert f"lacks Read on group {application.id}: kafka-acls" in str(raised[0])


def test_a_reader_beside_an_application_needs_read_on_its_topic_and_no_group(
    broker: SecureBroker, unique: Callable[[str], str]
) -> None:
    user, topic = unique("reader"), unique("in")
    broker.make_user(user)
    broker.allow(user, [("Read", "topic", topic)])
    ensure_topics(broker.plain, [NewTopic(topic, 1)])
    with TopicWriter(broker.plain) as writer:
        writer.send(topic, b"key", b"value")
    client = StreamsConfig.load({"application.id": "app", **broker.scram_user(user)}).admin_config()
    with TopicReader(broker.sasl, topic, client=client) as reader:
        assert [record.value for record in reader.to_end()] == [b"value"]


def refusals(security: dict[str, Any]) -> tuple[str, str]:
    """What the two clients say when they are not let in; at once, not when their time is up."""
    config = StreamsConfig.load({"application.id": "app", **security}).admin_config()
    started = time.monotonic()
    admin = TopicAdmin(config)
    with pytest.raises(AuthorizationException) as by_data_client:
        admin.partition_counts(["in"])
    with pytest.raises(AuthorizationException):
        admin.list_topics()
    with pytest.raises(AuthorizationException) as by_member:
        GroupAdmin(group_client_config(config), 60_000)
    assert time.monotonic() - started < 50
    return str(by_data_client.value), str(by_member.value)


@pytest.mark.parametrize("mechanism", ["plain_user", "scram_user"])
def test_a_wrong_password(broker: SecureBroker, mechanism: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    for message in refusals(getattr(broker, mechanism)(USER, "hunter2")):
        assert "check the s" in message
        assert "hunter2" not in message
    assert "SaslHandshake" not in caplog.text
    assert "ApiVersionsRequest" in caplog.text
    assert "hunter2" not in caplog.text


def test_a_certificate_of_an_authority_that_is_not_trusted(broker: SecureBroker) -> None:
    stranger = {"ssl.truststore.location": str(broker.certificates.stranger)}
    for message in refusals(broker.plain_user() | stranger):
        assert "certificate verify failed" in message
        assert "check that ssl.truststore.* holds the certificate" in message


def test_a_client_without_the_certificate_that_brokers_want(broker: SecureBroker) -> None:
    for message in refusals({"bootstrap.servers": broker.mutual, "security.protocol": "SSL", **broker.trust}):
        assert "ssl.keystore.* if they want a certificate" in message


def test_a_token_endpoint_that_refuses(broker: SecureBroker, token_endpoint: TokenEndpoint) -> None:
    security = {
        **broker.sasl_settings("OAUTHBEARER", oauth_module(clientId=CLIENT_ID, clientSecret="hunter2", scope="kafka")),
        "sasl.oauthbearer.token.endpoint.url": token_endpoint.url,
        "sasl.login.callback.handler.class": HANDLERS[0],
    }
    with pytest.raises(AuthorizationException, match=r"HTTP 401 \(invalid_client: no such client.*check sasl") as error:
        TopicAdmin(StreamsConfig.load({"application.id": "app", **security}).admin_config())
    assert "hunter2" not in str(error.value)
