"""How both clients reach the brokers and prove who we are, from one set of settings: those of librdkafka.

``headrace.config`` writes librdkafka's names, with the source of OAuth tokens under a name of its own. Here they become
what confluent_kafka and kafka-python take. Passwords are shown by no log line: kafka-python's say all of its settings.
"""

# ruff: noqa: SLF001 - the use of half internal parts of kafka-python is confined to this package
# pyright: reportPrivateUsage=false

from __future__ import annotations

import logging
import math
import re
import ssl
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError
from kafka.net.compat import KafkaNetClient as UntypedNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector as UntypedSelector

from headrace.config.security import OAUTH
from headrace.errors import AuthorizationException, ConfigException, KafkaException
from headrace.kafka.errors import CHECK_TLS, kp
from headrace.kafka.native import add_brokers
from headrace.kafka.oauth import MemberTokens, token_source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

log = logging.getLogger(__name__)

KafkaNetClient: Any = UntypedNetClient
NetworkSelector: Any = UntypedSelector

_CLIENT_SETTINGS: Final[Mapping[str, str]] = {
    "bootstrap.servers": "bootstrap_servers",
    "client.id": "client_id",
    "client.dns.lookup": "client_dns_lookup",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "ssl.crl.location": "ssl_crlfile",
    "socket.timeout.ms": "request_timeout_ms",
    "socket.connection.setup.timeout.ms": "socket_connection_setup_timeout_ms",
    "reconnect.backoff.ms": "reconnect_backoff_ms",
    "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
    "connections.max.idle.ms": "connections_max_idle_ms",
    "topic.metadata.refresh.interval.ms": "metadata_max_age_ms",
}
_STRATEGY: Final = "metadata.recovery.strategy"
_NEVER_MS: Final = 2_147_483_647
_NEVER: Final = {"connections_max_idle_ms": 0, "metadata_max_age_ms": -1}  # librdkafka's word for it
_SECRETS: Final = ("sasl_plain_password", "ssl_password")
_TEXTS: Final = ("ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem")
_LOOK_EVERY_MS: Final = 100
_GRACE_S: Final = 2.0
_TELL_AFTER_S: Final = 3.0
"""When whoever waits for a first contact is told that no broker answers, in seconds."""
STOP_TIMEOUT_MS: Final = 5_000
"""How long a network client, or a member that leaves, is waited for."""
_TLS_REFUSAL: Final = re.compile(r"CERTIFICATE|UNKNOWN_CA|HANDSHAKE_FAILURE|WRONG_VERSION_NUMBER")


def data_client_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings for a client of ``confluent_kafka``.

    librdkafka's own way to begin again from ``bootstrap.servers`` stays off: while no broker answers it connects 40
    times a second and reports each try, and the offsets of the next transaction find no coordinator until their time
    is over (2.16). :class:`Bootstrap` does it instead.

    Raises:
        AuthorizationException, TimeoutException, ConfigException: there is no token for SASL/OAUTHBEARER.
    """
    settings = {**config, _STRATEGY: "none"}
    oauth = settings.pop(OAUTH, None)
    if oauth is not None:
        source = token_source(oauth)
        source.token()  # the client itself only says that there is none
        settings["oauth_cb"] = source.for_data_client
    return settings


class Bootstrap:
    """Beginning again from ``bootstrap.servers`` when no broker that is known answers (KIP-899, KIP-1102).

    All of them may have got other addresses meanwhile. Brokers that only went away for a while come back by themselves.

    Args:
        config: librdkafka's settings. With ``metadata.recovery.strategy`` none nothing is done, nor for a client with
            ``transactional.id``: one that fails for long is replaced by a new one.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        again = str(config.get(_STRATEGY, "rebootstrap")).lower() == "rebootstrap" and not config.get(
            "transactional.id"
        )
        self._servers: str | None = config.get("bootstrap.servers") if again else None

    def on_error(self, client: object, error: KafkaError) -> None:
        """Tell of each error that ``client`` reports."""
        if self._servers and error.code() == KafkaError._ALL_BROKERS_DOWN:
            add_brokers(client, self._servers)


def group_client_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """kafka-python's settings from librdkafka's: where the brokers are, how to reach them and to prove who we are.

    The one place where the two are matched. Settings that only concern records are left out.

    Raises:
        ConfigException: security that kafka-python has in another form (key stores, OAuth by librdkafka), or PEM text
            that OpenSSL does not take.
    """
    if config.get("ssl.keystore.location"):
        raise ConfigException(
            "ssl.keystore.location is not available for the group connection; give PEM files by ssl.ca.location, "
            "ssl.certificate.location and ssl.key.location"
        )
    result: dict[str, Any] = {}
    for key, value in config.items():
        name = _CLIENT_SETTINGS.get(key)
        if name is not None and value is not None:
            result[name] = _NEVER_MS if value == _NEVER.get(name) else value
    if "bootstrap_servers" not in result:
        raise ConfigException("bootstrap.servers is not set: name at least one broker as host:port")
    if isinstance(result["bootstrap_servers"], str):
        result["bootstrap_servers"] = [part.strip() for part in result["bootstrap_servers"].split(",") if part.strip()]
    if "security_protocol" in result:
        result["security_protocol"] = str(result["security_protocol"]).upper()
    if str(config.get("ssl.endpoint.identification.algorithm", "https")).lower() in ("", "none"):
        result["ssl_check_hostname"] = False
    if any(config.get(name) for name in _TEXTS):
        result["ssl_context"] = _context_of_texts(config, check_hostname=result.get("ssl_check_hostname", True))
    _add_sasl(config, result)
    for name in _SECRETS:
        if name in result:
            result[name] = _Hidden(result[name])
    return result


def _add_sasl(config: Mapping[str, Any], result: dict[str, Any]) -> None:
    mechanism = str(result.get("sasl_mechanism", "")).upper()
    oauth = config.get(OAUTH)
    if oauth is not None:
        result["sasl_oauth_token_provider"] = MemberTokens(token_source(oauth))
    elif mechanism == "OAUTHBEARER":
        raise ConfigException(
            "sasl.mechanism OAUTHBEARER needs the settings of a StreamsConfig; librdkafka's own for tokens are not "
            "available for the group connection"
        )
    if mechanism.startswith("SCRAM-") and "sasl_plain_username" in result:
        # RFC 5802, 5.1: kafka-python sends the name as it is given
        result["sasl_plain_username"] = result["sasl_plain_username"].replace("=", "=3D").replace(",", "=2C")


class _Hidden(str):
    """Text that a log line does not show."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'(hidden)'"


def _context_of_texts(config: Mapping[str, Any], *, check_hostname: bool) -> ssl.SSLContext:
    """Certificates and key of PEM text, which kafka-python has no settings for."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = check_hostname
    try:
        if config.get("ssl.ca.pem"):
            context.load_verify_locations(cadata=config["ssl.ca.pem"])
        elif config.get("ssl.ca.location"):
            context.load_verify_locations(config["ssl.ca.location"])
        else:
            context.load_default_certs()
        password = config.get("ssl.key.password")
        if config.get("ssl.certificate.pem"):
            _load_chain(context, config["ssl.key.pem"] + config["ssl.certificate.pem"], password)
        elif config.get("ssl.certificate.location"):
            context.load_cert_chain(config["ssl.certificate.location"], config.get("ssl.key.location"), password)
    except OSError as error:  # ssl.SSLError is one
        raise ConfigException(
            f"the certificates or the key of ssl.truststore.* and ssl.keystore.* cannot be used: {error}; check that "
            "the key belongs to the first certificate of the chain, and ssl.key.password"
        ) from None
    return context


def _load_chain(context: ssl.SSLContext, text: str, password: str | None) -> None:
    # Python reads a key from a file only; the directory is the user's alone, and gone at once
    with tempfile.TemporaryDirectory(prefix="headrace-") as directory:
        file = Path(directory) / "client.pem"
        file.touch(mode=0o600)
        file.write_text(text, encoding="ascii")
        # without a password to give, OpenSSL would ask at the terminal
        context.load_cert_chain(file, password=password or "")


class _Connections(KafkaConnectionManager):  # type: ignore[misc]  # kafka-python is untyped
    """kafka-python's, which tries for ever where brokers do not let it in: here that ends the first contact."""

    def __init__(self, net: Any, **configs: Any) -> None:
        super().__init__(net, **configs)  # pyright: ignore[reportUnknownMemberType]  # untyped base
        self._refusal: Exception | None = None
        self._last = "no connection"

    def bootstrap(self, timeout_ms: float | None = None, refresh: bool = True) -> None:  # theirs
        """Find the brokers.

        Raises:
            AuthorizationException: they do not let us in.
        """
        self._refusal, self._last = None, "no connection"
        base: Any = self
        base._net.run(self._first_contact, timeout_ms, refresh)

    async def _first_contact(self, timeout_ms: float | None, refresh: bool) -> None:  # passed on
        base: Any = self
        found = base.bootstrap_async(timeout_ms, refresh)
        tell_at = time.monotonic() + _TELL_AFTER_S
        latest = time.monotonic() + (timeout_ms or 0.0) / 1000 + _GRACE_S
        while True:
            try:
                await base.wait_for(found, _LOOK_EVERY_MS)
            except kp.KafkaTimeoutError:
                if found.is_done:
                    # it ended just when this wait for it did
                    if found.failed():
                        raise found.exception from None
                    return
                if self._refusal is not None:
                    raise self._refusal from None
                if time.monotonic() >= tell_at:
                    tell_at = math.inf
                    log.error(
                        "no broker has answered yet (%s), and they are tried again: look whether bootstrap.servers is "
                        "right, or start the brokers",
                        self._last,
                    )
                if timeout_ms is not None and time.monotonic() >= latest:
                    # it should have ended by itself; whoever waits for it would stand still without a word
                    connections = ", ".join(map(str, base._conns.values())) or "no connection"
                    log.warning(
                        "the first contact does not end, and is given up: %s, %s, a refresh of the metadata %s",
                        connections,
                        base._net,
                        "is under way" if base.cluster.metadata_refresh_in_progress else "is not under way",
                    )
                    raise kp.KafkaTimeoutError(f"no contact within {timeout_ms:.0f} ms") from None
            else:
                return

    async def _connect(
        self,
        node: Any,
        conn: Any,
        reset_backoff_on_connect: bool = True,
        timeout_at: float | None = None,  # theirs
    ) -> None:
        # it may fail after this has returned
        conn.init_future.add_errback(partial(self._note, f"{node.host}:{node.port}"))
        base: Any = super()
        await base._connect(node, conn, reset_backoff_on_connect, timeout_at)

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        base: Any = super()
        transport: Any = await base._build_transport(node, timeout_at)
        transport._sock_recv = _what_came_first(transport._sock_recv)
        return transport

    def _note(self, broker: str, error: Exception) -> None:
        self._refusal = _refusal_of(error, broker) or self._refusal
        self._last = f"{broker}: {error}"


def _what_came_first(receive: Callable[[], tuple[bytes, Any]]) -> Callable[[], tuple[bytes, Any]]:
    """A transport's ``_sock_recv`` that gives what came before the end of a connection, and the end with the next call.

    A broker that refuses a password says so and hangs up; kafka-python's own would drop the answer.
    """

    def received() -> tuple[bytes, Any]:
        data, error = receive()
        return (data, None) if data else (data, error)

    return received


class _WithoutSecrets(logging.Filter):
    """Keeps kafka-python's debug lines with passwords and tokens from being logged: SASL requests, and raw bytes."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line may be logged."""
        if record.levelno > logging.DEBUG:
            return True
        arguments = record.args if isinstance(record.args, tuple) else ()
        return not any(
            isinstance(argument, (bytes, bytearray, memoryview)) or type(argument).__name__.startswith("Sasl")
            for argument in arguments
        )


for _name in ("kafka.protocol.parser", "kafka.net.connection"):
    logging.getLogger(_name).addFilter(_WithoutSecrets())


def _refusal_of(error: Exception, broker: str) -> Exception | None:
    if isinstance(error, (KafkaException, kp.SaslAuthenticationFailedError, kp.UnsupportedSaslMechanismError)):
        return error
    text = str(error)
    if isinstance(error, kp.KafkaConnectionError) and "SSL" in text and _TLS_REFUSAL.search(text):
        return AuthorizationException(f"connecting to {broker} failed: {text}; {CHECK_TLS}")
    return None


def net_client(**configs: Any) -> Any:
    """kafka-python's network client, its IO thread not started, whose first contact says why it is refused."""
    net = NetworkSelector(**configs)
    return KafkaNetClient(net, _Connections(net, **configs), **configs)


def close_net_client(client: Any) -> None:
    """Free what :func:`net_client` made; waits for its IO thread, :data:`STOP_TIMEOUT_MS` at most."""
    # The IO thread first: what is closed after is then touched by one thread only.
    thread = client._net._io_thread
    client._net.stop(timeout_ms=STOP_TIMEOUT_MS)
    if thread is not None and thread.is_alive():
        log.warning("%s does not end, and is left behind: %s", thread.name, client._net)
    else:
        client.close()
