from __future__ import annotations

import base64
import socket
import ssl
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from unit.serdes.registry.server import RegistryServer

from headrace.errors import AuthorizationException, ConfigException, TimeoutException
from headrace.serdes.registry import (
    InMemoryRegistry,
    RegistryAuthorizationException,
    RegistryException,
    RegistryUnavailableException,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
)
from headrace.serdes.registry.client import shared_client
from headrace.serdes.registry.http import HttpTransport
from headrace.serdes.registry.settings import ClientSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STRING = Schema('"string"')
FAST = {"retries.wait.ms": 0}


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as running:
        yield running


def client_of(*urls: str, **settings: Any) -> SchemaRegistryClient:
    return SchemaRegistryClient(
        {"schema.registry.url": ",".join(urls), **FAST, **{k.replace("_", "."): v for k, v in settings.items()}}
    )


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_schemas_subjects_and_versions(server: RegistryServer) -> None:
    client = client_of(server.url)
    first = client.register_schema("a/b-value", STRING)
    assert (first.id, first.version, first.subject) == (1, 1, "a/b-value")
    assert client.register_schema("a/b-value", Schema('"long"')).version == 2
    assert client.register_schema("other", STRING).id == 1
    assert client.get_subjects() == ["a/b-value", "other"]
    assert client.get_versions("a/b-value") == [1, 2]
    assert client.get_version("a/b-value", 1).schema == STRING
    assert client.get_latest_version("a/b-value").id == 2
    assert client.lookup_schema("a/b-value", Schema('"long"')).version == 2
    assert client.get_schema(2) == Schema('"long"')
    assert client.get_schema_by_guid(str(first.guid)) == STRING
    assert client.test_compatibility("other", STRING)
    assert client.get_compatibility() == "BACKWARD"
    client.set_compatibility("FULL", "other")
    assert client.get_compatibility("other") == "FULL"
    client.set_compatibility("NONE")
    assert client.get_compatibility("a/b-value") == "NONE"
    assert client.delete_version("a/b-value", 1) == 1
    assert client.delete_subject("other", permanent=True) == [1]
    assert client.get_subjects() == ["a/b-value"]
    assert ("POST", "/subjects/a%2Fb-value/versions") in server.requests


def test_schemas_and_ids_are_asked_for_once(server: RegistryServer) -> None:
    client = client_of(server.url)
    for _ in range(3):
        client.register_schema("s", STRING)
        client.lookup_schema("s", STRING)
        client.get_schema(1)
        client.get_latest_version("s")
    assert len(server.requests) == 4


def test_the_latest_version_may_be_asked_for_again(server: RegistryServer) -> None:
    client = client_of(server.url, latest_cache_ttl_sec=0)
    client.register_schema("s", STRING)
    assert client.get_latest_version("s").version == 1
    client.register_schema("s", Schema('"int"'))
    assert client.get_latest_version("s").version == 2


def test_many_schemas_do_not_stay_for_ever() -> None:
    client = SchemaRegistryClient("mock://many")
    for number in range(1100):
        client.register_schema("s", Schema(str(number)))
    assert client.get_version("s", "latest").version == 1100
    assert len(client._cache) == 1000


def test_normal_forms_are_the_registrys(server: RegistryServer) -> None:
    client_of(server.url).register_schema("s", STRING, normalize=True)
    assert server.requests == [("POST", "/subjects/s/versions?normalize=true")]


def test_references_are_resolved_what_is_used_first() -> None:
    client = SchemaRegistryClient("mock://references")
    client.register_schema("c", Schema("c"))
    used = SchemaReference("C", "c", 1)
    client.register_schema("b", Schema("b", references=(used,)))
    top = Schema("a", references=(SchemaReference("B", "b", 1), used))
    assert [(reference.name, schema.text) for reference, schema in client.resolve(top)] == [("C", "c"), ("B", "b")]
    registered = client.register_schema("a", top)
    assert client.get_schema(registered.id) == top


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda client: client.get_schema(99), 40403),
        (lambda client: client.get_schema_by_guid("x"), 40403),
        (lambda client: client.get_latest_version("nope"), 40401),
        (lambda client: client.get_version("s", 7), 40402),
        (lambda client: client.lookup_schema("s", Schema('"int"')), 40403),
        (lambda client: client.lookup_schema("nope", STRING), 40401),
    ],
)
def test_what_the_registry_does_not_have(
    server: RegistryServer, call: Callable[[SchemaRegistryClient], object], code: int
) -> None:
    client = client_of(server.url)
    client.register_schema("s", STRING)
    with pytest.raises(RegistryException, match=server.url) as raised:
        call(client)
    assert (raised.value.status, raised.value.error_code) == (404, code)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_an_answer_that_may_change_is_asked_for_again(server: RegistryServer, status: int) -> None:
    server.failing = status
    with pytest.raises(RegistryUnavailableException, match=f"HTTP status {status}; asked 4 times") as raised:
        client_of(server.url).get_schema(1)
    assert isinstance(raised.value, TimeoutException)
    assert len(server.requests) == 4


def test_a_registry_that_is_down_is_unavailable() -> None:
    port = closed_port()
    with pytest.raises(RegistryUnavailableException, match=rf"http://localhost:{port}: .*[Rr]efused.*asked 3 times"):
        client_of(f"http://localhost:{port}", max_retries=2).get_schema(1)


def test_a_registry_that_does_not_answer_in_time_is_unavailable() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(RegistryUnavailableException, match="timed out"):
            client_of(url, max_retries=0, http_read_timeout_ms=20).get_schema(1)
        # the wait is not done again at once: a stream thread with an open transaction may be behind it
        with pytest.raises(RegistryUnavailableException, match="asked 1 times"):
            client_of(url, max_retries=3, http_read_timeout_ms=20).get_schema(1)


def test_a_connection_that_is_cut_is_unavailable(server: RegistryServer) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        transport = HttpTransport(ClientSettings((address,), max_retries=1), lambda _: None)

        def cut() -> None:
            for _ in range(2):
                listening.accept()[0].close()

        cutting = threading.Thread(target=cut)
        cutting.start()
        with pytest.raises(RegistryUnavailableException, match="asked 2 times"):
            transport.request("GET", "/subjects", None)
        cutting.join()


def test_the_next_address_is_asked_and_then_asked_first(server: RegistryServer) -> None:
    down = f"http://localhost:{closed_port()}"
    with RegistryServer() as second:
        client = client_of(down, server.url, second.url, max_retries=0)
        client.register_schema("s", STRING)
        client.register_schema("t", STRING)
        assert len(server.requests) == 2
        server.failing = 503
        client.register_schema("u", STRING)
        client.register_schema("v", STRING)
        assert len(server.requests) == 3
        assert len(second.requests) == 2


def test_pauses_double_up_to_the_longest() -> None:
    pauses: list[float] = []
    settings = ClientSettings((f"http://localhost:{closed_port()}",), max_retries=5, retries_max_wait_ms=450)
    with pytest.raises(RegistryUnavailableException):
        HttpTransport(settings, pauses.append).request("GET", "/subjects", None)
    assert pauses == [0.1, 0.2, 0.4, 0.45, 0.45]


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_is_not_tried_again_and_names_no_secret(server: RegistryServer, status: int) -> None:
    server.failing, server.answer = status, b'{"error_code": 40301, "message": "not you"}'
    url = server.url.replace("://", "://user:secret@")
    with pytest.raises(RegistryAuthorizationException, match=rf"status {status}\): not you. Check its cred") as raised:
        client_of(url).get_schema(1)
    assert isinstance(raised.value, AuthorizationException)
    assert "secret" not in str(raised.value)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, None),
        ({"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": "u:p:q"}, "Basic u:p:q"),
        (
            {
                "schema.registry.basic.auth.credentials.source": "USER_INFO",
                "schema.registry.basic.auth.user.info": "a:b",
                "basic.auth.user.info": "other:one",
            },
            "Basic a:b",
        ),
        ({"bearer.auth.credentials.source": "STATIC_TOKEN", "bearer.auth.token": "tok"}, "Bearer tok"),
        (
            {"bearer.auth.credentials.source": "CUSTOM", "bearer.auth.custom.provider.class": lambda: "fresh"},
            "Bearer fresh",
        ),
    ],
)
def test_credentials(server: RegistryServer, settings: dict[str, Any], expected: str | None) -> None:
    SchemaRegistryClient({"schema.registry.url": server.url, **settings}).get_subjects()
    sent = server.headers[0].get("Authorization")
    if sent is not None and sent.startswith("Basic "):
        sent = f"Basic {base64.b64decode(sent[6:]).decode()}"
    assert sent == expected


def test_credentials_in_the_address(server: RegistryServer) -> None:
    client_of(server.url.replace("://", "://us%40er:p%3Aw@")).get_subjects()
    assert base64.b64decode(server.headers[0]["Authorization"][6:]) == b"us@er:p:w"


def test_headers_of_ones_own(server: RegistryServer) -> None:
    SchemaRegistryClient(
        {
            "schema.registry.url": server.url,
            "request.header.X-Team": "rivers",
            "bearer.auth.logical.cluster": "lsrc-1",
            "bearer.auth.identity.pool.id": "pool-1",
        }
    ).get_subjects()
    sent = {name.lower(): value for name, value in server.headers[0].items()}
    assert sent["x-team"] == "rivers"
    assert sent["target-sr-cluster"] == "lsrc-1"
    assert sent["confluent-identity-pool-id"] == "pool-1"


def test_a_proxy(server: RegistryServer) -> None:
    client_of("http://registry.invalid", proxy_host="localhost", proxy_port=server.port).get_subjects()
    assert server.requests == [("GET", "http://registry.invalid/subjects")]


@pytest.mark.parametrize(
    ("status", "answer", "text"),
    [
        (404, b"<html>", "address of the Confluent API"),
        (200, b"<html>", "not as a schema registry does"),
    ],
)
def test_an_address_of_something_else(server: RegistryServer, status: int, answer: bytes, text: str) -> None:
    server.failing, server.answer = status, answer
    with pytest.raises(ConfigException, match=text):
        client_of(server.url).get_subjects()


def test_tls() -> None:
    # self-signed for localhost, with its key
    certificate = Path(__file__).with_name("localhost.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    context.load_verify_locations(certificate)
    context.verify_mode = ssl.CERT_OPTIONAL
    with RegistryServer(context) as server:
        trusting = {
            "schema.registry.url": server.url,
            "schema.registry.ssl.truststore.location": str(certificate),
            "schema.registry.ssl.keystore.location": str(certificate),
            # the brokers'
            "ssl.truststore.location": "/nowhere",
        }
        assert SchemaRegistryClient(trusting).get_subjects() == []
        with pytest.raises(ConfigException, match=r"not trusted.*ssl\.truststore\.location"):
            SchemaRegistryClient(server.url).get_subjects()
        other_name = {**trusting, "schema.registry.url": server.url.replace("localhost", "127.0.0.1")}
        with pytest.raises(ConfigException, match="not trusted"):
            SchemaRegistryClient(other_name).get_subjects()
        unchecked = {**other_name, "schema.registry.ssl.endpoint.identification.algorithm": ""}
        assert SchemaRegistryClient(unchecked).get_subjects() == []
    with pytest.raises(ConfigException, match="cannot be read from /nowhere"):
        SchemaRegistryClient({**trusting, "schema.registry.ssl.truststore.location": "/nowhere"})


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"schema.registry.url": None}, "must be configured with its address"),
        ({"schema.registry.url": "ftp://x"}, "one or more URLs"),
        ({"schema.registry.url": ""}, "one or more URLs"),
        ({"schema.registry.url": "mock://a,http://b"}, "only one"),
        ({"basic.auth.credentials.source": "USER_INFO"}, "user:password"),
        ({"basic.auth.credentials.source": "SASL_INHERIT"}, "one of URL, USER_INFO"),
        ({"bearer.auth.credentials.source": "STATIC_TOKEN"}, "'bearer.auth.token' is missing"),
        (
            {"bearer.auth.credentials.source": "CUSTOM", "bearer.auth.custom.provider.class": "math:pi"},
            "not a function",
        ),
        ({"max.retries": "many"}, "max.retries"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigException, match=text):
        SchemaRegistryClient({"schema.registry.url": "http://localhost:1", **settings})


def test_serdes_of_the_same_settings_share_a_client() -> None:
    one = shared_client({"schema.registry.url": "mock://shared", "other": 1})
    assert shared_client({"schema.registry.url": "mock://shared"}) is one
    assert shared_client({"schema.registry.url": "mock://shared", "max.retries": "1"}) is not one


def test_a_name_is_one_registry_in_memory() -> None:
    SchemaRegistryClient("mock://same").register_schema("s", STRING)
    assert SchemaRegistryClient("mock://same").get_subjects() == ["s"]
    assert SchemaRegistryClient("mock://another").get_subjects() == []
    assert InMemoryRegistry.of("same").where == "mock://same"
    assert InMemoryRegistry.of("same").request("PATCH", "/subjects/s", None)[0] == 405
    assert InMemoryRegistry.of("same").request("GET", "/mode", None)[0] == 405
