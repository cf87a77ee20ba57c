"""A broker with TLS, mutual TLS, every SASL mechanism and ACLs, and an endpoint that gives tokens."""

from __future__ import annotations

import json
import threading
import time
import urllib.parse
from base64 import b64decode, urlsafe_b64encode
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from cluster.conftest import STREAMS_GROUPS
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its __init__ re-exports it
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from headrace.testing.broker import Listener
from headrace.testing.cluster import LocalCluster
from headrace.testing.processes import free_port

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from cluster.security.certificates import Certificates

_MODULES = "org.apache.kafka.common.security"
USER = "app"
PASSWORD = 'pa"ss,wo=rd'  # of users that exist as long as a test
CLIENT_ID, CLIENT_SECRET = "client", "of-the-client"  # of the token endpoint
SESSION_MS = 2_500
"""How long a connection with a token may go on without showing a new one."""

Grant = tuple[str, str, str]
"""Operation, resource type and name, in the words of ``kafka-acls``; ``x*`` is all names that begin with x."""

_RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
    "cluster": ResourceType.BROKER,
}


@dataclass(frozen=True, slots=True)
class SecureBroker:
    """Where the broker listens.

    Attributes:
        plain: Where everybody is a super user.
        sasl: SASL over TLS.
        tls: TLS; clients need no certificate.
        mutual: TLS; clients need one.
        certificates: Those of the broker and for clients.
    """

    plain: str
    sasl: str
    tls: str
    mutual: str
    certificates: Certificates

    @property
    def trust(self) -> dict[str, str]:
        """Settings that trust the broker's certificate."""
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.certificates.authority)}

    def sasl_settings(self, mechanism: str, jaas: str) -> dict[str, str]:
        """Settings for a mechanism at ``sasl``."""
        return {
            "bootstrap.servers": self.sasl,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": jaas,
            **self.trust,
        }

    def plain_user(self, user: str = USER, password: str = PASSWORD) -> dict[str, str]:
        """Settings of a user with a password, by PLAIN."""
        return self.sasl_settings("PLAIN", password_module("plain.PlainLoginModule", user, password))

    def scram_user(self, user: str = USER, password: str = PASSWORD, digest: int = 512) -> dict[str, str]:
        """Settings of a user with a password, by SCRAM."""
        module = password_module("scram.ScramLoginModule", user, password)
        return self.sasl_settings(f"SCRAM-SHA-{digest}", module)

    def admin(self) -> AdminClient:
        """A client that may do everything."""
        return AdminClient({"bootstrap.servers": self.plain})

    def make_user(self, user: str) -> None:
        """A user with the password, for both kinds of SCRAM."""
        wanted = [
            UserScramCredentialUpsertion(user, ScramCredentialInfo(kind, 4096), PASSWORD.encode())
            for kind in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        ]
        admin = self.admin()
        for wish in wanted:  # the brokers take a user once in a request
            for future in admin.alter_user_scram_credentials([wish]).values():
                future.result(timeout=30)

    def allow(self, user: str, grants: Iterable[Grant]) -> None:
        """Grant something to a principal."""
        admin = self.admin()
        for future in admin.create_acls([AclBinding(*_entry(user, grant)) for grant in grants]).values():
            future.result(timeout=30)

    def forbid(self, user: str, grants: Iterable[Grant]) -> None:
        """Take grants back."""
        admin, gone = self.admin(), [AclBindingFilter(*_entry(user, grant)) for grant in grants]
        for future in admin.delete_acls(gone).values():
            assert future.result(timeout=30), "no such grant"


def password_module(module: str, user: str, password: str) -> str:
    """A login module with a user and a password."""
    return f"{_MODULES}.{module} required username={_quoted(user)} password={_quoted(password)};"


def oauth_module(**options: str) -> str:
    """The login module for tokens."""
    text = "".join(f" {name}={_quoted(value)}" for name, value in options.items())
    return f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required{text};"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _entry(user: str, grant: Grant) -> tuple[Any, ...]:
    operation, resource, name = grant
    prefix = name.endswith("*") and name != "*"
    kind = ResourcePatternType.PREFIXED if prefix else ResourcePatternType.LITERAL
    words = "".join(f"_{letter}" if letter.isupper() else letter for letter in operation).lstrip("_").upper()
    return (
        _RESOURCES[resource],
        (name.removesuffix("*") if prefix else name) or "kafka-cluster",
        kind,
        f"User:{user}",
        "*",
        AclOperation[words],
        AclPermissionType.ALLOW,
    )


@contextmanager
def secure_broker(directory: Path, certificates: Certificates) -> Iterator[SecureBroker]:
    """Run it."""
    ports = [free_port() for _ in range(3)]
    names = {"SECURE": "SASL_SSL", "TLS": "SSL", "MUTUAL": "SSL"}
    listeners = [Listener(name, {1: port}, kind) for (name, kind), port in zip(names.items(), ports, strict=True)]
    with LocalCluster(directory, settings=_settings(certificates), listeners=listeners, log=print) as cluster:
        sasl, tls, mutual = (f"127.0.0.1:{port}" for port in ports)
        yield SecureBroker(cluster.bootstrap_servers, sasl, tls, mutual, certificates)


def _settings(certificates: Certificates) -> dict[str, str]:
    secure = "listener.name.secure"
    users = "".join(f" user_{user}={_quoted(PASSWORD)}" for user in (USER, "nobody"))
    escaped = users.replace("\\", "\\\\")  # as a properties file has it
    return {
        **STREAMS_GROUPS,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        # who comes without a name: the plain listener's clients, the broker itself, and TLS without a certificate
        "super.users": "User:ANONYMOUS",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.broker),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        "listener.name.mutual.ssl.client.auth": "required",
        f"{secure}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        f"{secure}.plain.sasl.jaas.config": f"{_MODULES}.plain.PlainLoginModule required{escaped};",
        f"{secure}.scram-sha-256.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
        f"{secure}.scram-sha-512.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
        f"{secure}.oauthbearer.sasl.jaas.config": oauth_module(unsecuredLoginStringClaim_sub="broker"),
        f"{secure}.oauthbearer.connections.max.reauth.ms": str(SESSION_MS),
    }


class TokenEndpoint:
    """Gives tokens that nobody signed to the client ``CLIENT_ID``, over HTTP.

    Attributes:
        url: Where it listens.
        asked: How many tokens it gave.
        lifetime_s: Of the tokens that it gives.
        busy: How many requests it answers by 503 first.
    """

    def __init__(self) -> None:
        self.asked = 0
        self.lifetime_s = 3600
        self.busy = 0
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:  # the base class's name
                form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                user, _, secret = (
                    b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode().partition(":")
                )
                status, answer = endpoint.answer(form, user, secret)
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/token"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def answer(self, form: dict[str, list[str]], user: str, secret: str) -> tuple[int, dict[str, object]]:
        """Status and body for a request."""
        if self.busy:
            self.busy -= 1
            return 503, {}
        if (user, secret) != (CLIENT_ID, CLIENT_SECRET):
            return 401, {"error": "invalid_client", "error_description": "no such client, or another secret"}
        if form["grant_type"] != ["client_credentials"] or form["scope"] != ["kafka"]:
            return 400, {"error": "invalid_scope"}
        self.asked += 1
        return 200, {"access_token": unsigned_token(USER, self.lifetime_s), "expires_in": self.lifetime_s}

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()


def unsigned_token(subject: str, lifetime_s: float) -> str:
    """A token that nobody signed, which brokers take unless they are told to check."""
    now = time.time()
    parts = ({"alg": "none"}, {"sub": subject, "iat": now, "exp": now + lifetime_s})
    return ".".join(urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."
