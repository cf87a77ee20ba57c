"""Where the tokens of SASL/OAUTHBEARER come from, as the settings say it. ``headrace.kafka`` gets the tokens.

Settings are Java's (KIP-768, KIP-1139), and so are the options of ``OAuthBearerLoginModule`` that do the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import unquote, urlsplit

from headrace.config.jaas import LoginModule, login_module
from headrace.errors import ConfigException

if TYPE_CHECKING:
    from collections.abc import Callable

MODULE: Final = "OAuthBearerLoginModule"
HANDLER_KEY: Final = "sasl.login.callback.handler.class"
_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
HANDLERS: Final = (f"{_PACKAGE}OAuthBearerLoginCallbackHandler", f"{_PACKAGE}secured.OAuthBearerLoginCallbackHandler")
"""Java classes that get tokens from an endpoint or a file. Whatever else is named has to be Python."""
UNSECURED_HANDLER: Final = f"{_PACKAGE}internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"
RETRIEVERS: Final = tuple(
    f"{_PACKAGE}{name}" for name in ("DefaultJwtRetriever", "ClientCredentialsJwtRetriever", "FileJwtRetriever")
)
_ENDPOINT_KEY = "sasl.oauthbearer.token.endpoint.url"
_RETRIEVER_KEY = "sasl.oauthbearer.jwt.retriever.class"
_EXTENSION = "extension_"
_UNSECURED = "unsecuredLogin"


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """The client credentials grant (RFC 6749, 4.4) at a token endpoint.

    Attributes:
        endpoint: URL, http or https.
        client_id, client_secret: of this client.
        scope: asked for, empty for none.
        urlencode: encode id and secret before they go into the header, as RFC 6749 has it and few endpoints want it.
        ca_location, ca_pem: certificates that an https endpoint is checked by, a file or text; None for the system's.
        timeout_s: of connecting, and of each wait for data.
        retry_s, retry_max_s: first pause before the endpoint is asked again, and how long that goes on.
    """

    endpoint: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str
    urlencode: bool
    ca_location: str | None
    ca_pem: str | None = field(repr=False)
    timeout_s: float
    retry_s: float
    retry_max_s: float


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A file that holds a token, written anew by somebody else before it expires."""

    path: str


@dataclass(frozen=True, slots=True)
class UnsecuredToken:
    """A token that nobody signed, for tests: Kafka's brokers take it unless they are told to check tokens."""

    subject: str
    lifetime_s: int


@dataclass(frozen=True, slots=True)
class UserTokens:
    """A function of the user's that gives tokens, or its ``module:attribute``."""

    given: Any = field(repr=False)
    setting: str


TokenOrigin: TypeAlias = ClientCredentials | TokenFile | UnsecuredToken | UserTokens


@dataclass(frozen=True, slots=True)
class OAuthSettings:
    """Where tokens come from, and the SASL extensions that go with them."""

    origin: TokenOrigin
    extensions: tuple[tuple[str, str], ...] = ()


def oauth_settings(value: Callable[..., Any], spelled: Callable[[str], str]) -> OAuthSettings:
    """What the settings of one client say.

    Args:
        value: The typed value of a setting by Java's name, or the second argument.
        spelled: The key by which a setting was given, for messages.

    Raises:
        ConfigException: Something is missing, or is not in this version.
    """
    module = _login_module(value, spelled)
    extensions = tuple(
        (name.removeprefix(_EXTENSION), text) for name, text in module.options.items() if name.startswith(_EXTENSION)
    )
    return OAuthSettings(_origin(value, spelled, module), extensions)


def _login_module(value: Callable[..., Any], spelled: Callable[[str], str]) -> LoginModule:
    text = value("sasl.jaas.config")
    module = LoginModule(MODULE, {}) if text is None else login_module(text)
    if module is None or module.name != MODULE:
        raise ConfigException(
            f"Setting '{spelled('sasl.jaas.config')}' must read '{_PACKAGE}{MODULE} required;' for "
            "sasl.mechanism=OAUTHBEARER, with options before the semicolon if need be (its value is not shown)"
        )
    return module


def _origin(value: Callable[..., Any], spelled: Callable[[str], str], module: LoginModule) -> TokenOrigin:
    handler = value(HANDLER_KEY)
    if handler is not None and handler not in (*HANDLERS, UNSECURED_HANDLER):
        if isinstance(handler, str) and ":" not in handler:
            raise ConfigException(
                f"Setting '{spelled(HANDLER_KEY)}' has the value '{handler}', a Java class, which cannot run here: it "
                f"must be {HANDLERS[0]}, or module:attribute of a Python function that returns a headrace.OAuthToken"
            )
        return UserTokens(handler, spelled(HANDLER_KEY))
    retriever = value(_RETRIEVER_KEY, RETRIEVERS[0])
    if retriever not in RETRIEVERS:
        raise ConfigException(
            f"Setting '{spelled(_RETRIEVER_KEY)}' has the value '{retriever}', but must be one of "
            f"{', '.join(RETRIEVERS)}; for another way to get tokens name a Python function by '{HANDLER_KEY}'"
        )
    endpoint = value(_ENDPOINT_KEY)
    if endpoint is not None and handler != UNSECURED_HANDLER:
        return _of_url(endpoint, value, spelled, module)
    subject = module.options.get(f"{_UNSECURED}StringClaim_sub")
    if subject is not None:
        return UnsecuredToken(subject, int(module.options.get(f"{_UNSECURED}LifetimeSeconds", "3600")))
    raise ConfigException(
        f"Setting '{_ENDPOINT_KEY}' is missing: sasl.mechanism=OAUTHBEARER needs it, or '{HANDLER_KEY}' with a Python "
        f"function that gives tokens, or the option {_UNSECURED}StringClaim_sub in 'sasl.jaas.config' for tests"
    )


def _of_url(
    endpoint: str, value: Callable[..., Any], spelled: Callable[[str], str], module: LoginModule
) -> ClientCredentials | TokenFile:
    url = urlsplit(endpoint)
    if url.scheme == "file" and url.path:
        return TokenFile(unquote(url.path))
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ConfigException(
            f"Setting '{spelled(_ENDPOINT_KEY)}' has the value '{endpoint}', but must be a URL that begins with "
            "https://, http:// or file:///"
        )
    options = module.options
    client_id = value("sasl.oauthbearer.client.credentials.client.id", options.get("clientId"))
    secret = value("sasl.oauthbearer.client.credentials.client.secret", options.get("clientSecret"))
    if not client_id or secret is None:
        raise ConfigException(
            f"Settings 'sasl.oauthbearer.client.credentials.client.id' and '….client.secret' are missing (or clientId "
            f"and clientSecret in 'sasl.jaas.config'): '{spelled(_ENDPOINT_KEY)}' needs them"
        )
    location, text = options.get("ssl.truststore.location"), options.get("ssl.truststore.certificates")
    if (location or text) and options.get("ssl.truststore.type", "JKS").upper() != "PEM":
        raise ConfigException(
            f"Setting '{spelled('sasl.jaas.config')}' names a trust store for the token endpoint: it must be PEM, with "
            'ssl.truststore.type="PEM" beside it'
        )
    times = (value("sasl.login.connect.timeout.ms"), value("sasl.login.read.timeout.ms"))
    return ClientCredentials(
        endpoint,
        client_id,
        secret,
        value("sasl.oauthbearer.scope", options.get("scope")) or "",
        value("sasl.oauthbearer.header.urlencode", False),
        location,
        text,
        max((ms for ms in times if ms), default=10_000) / 1000,
        value("sasl.login.retry.backoff.ms", 100) / 1000,
        value("sasl.login.retry.backoff.max.ms", 10_000) / 1000,
    )
