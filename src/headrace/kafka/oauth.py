"""Tokens for SASL/OAUTHBEARER: one source for every client of the process that has the same settings.

A token is asked for when the first client is made, so that what is wrong is said at once, and again when three quarters
of its life are over: librdkafka's threads come by then, earlier than the membership's IO thread needs it. While a new
one cannot be had the old one is used to its end.
"""

from __future__ import annotations

import base64
import binascii
import http.client
import json
import logging
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafka.net.sasl import oauth as untyped_oauth

from headrace.api.oauth import OAuthToken
from headrace.config.loading import make
from headrace.config.oauth import ClientCredentials, OAuthSettings, TokenFile, UnsecuredToken, UserTokens
from headrace.errors import AuthorizationException, ConfigException, KafkaException, TimeoutException

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

log = logging.getLogger(__name__)

AbstractTokenProvider: Any = untyped_oauth.AbstractTokenProvider

_RENEWED_AFTER: Final = 0.75  # librdkafka asks after 0.8 of a token's life, which has to be late enough for a new one
_PAUSE_AFTER_FAILURE_S: Final = 10.0
_REFUSED: Final = frozenset({400, 401, 403, 404, 405})
_SHOWN: Final = 200


class TokenSource:
    """A token that is good now, renewed in time. Any thread may ask.

    Args:
        fetch: gets a new token; raises a KafkaException that says why there is none.
        extensions: sent with every token, besides its own.
    """

    def __init__(self, fetch: Callable[[], OAuthToken], extensions: Mapping[str, str]) -> None:
        self._fetch = fetch
        self._extensions = extensions
        self._lock = threading.Lock()
        self._token: OAuthToken | None = None
        self._renew_at = 0.0

    def token(self) -> OAuthToken:
        """A token; waits for a new one if there is none that is good.

        Raises:
            AuthorizationException: the token endpoint refused us.
            TimeoutException: it does not answer.
            ConfigException: what gives tokens is of no use.
        """
        token = self._token
        if token is not None and time.time() < self._renew_at:
            return token
        good = token is not None and token.expires_at > time.time()
        if not self._lock.acquire(blocking=not good):
            assert token is not None  # another thread renews it, and it is good until then
            return token
        try:
            if self._token is None or time.time() >= self._renew_at:
                self._renew()
            assert self._token is not None  # _renew has raised otherwise
            return self._token
        finally:
            self._lock.release()

    def for_data_client(self, _config: str) -> tuple[str, float, str, dict[str, str]]:
        """What ``confluent_kafka`` wants of its ``oauth_cb``."""
        try:
            token = self.token()
        except Exception as error:
            log.error("no token for SASL/OAUTHBEARER: %s", error)  # the client drops what is raised
            raise
        return token.value, token.expires_at, token.principal, self.extensions(token)

    def extensions(self, token: OAuthToken) -> dict[str, str]:
        """The SASL extensions that go with a token."""
        return {**self._extensions, **token.extensions}

    def _renew(self) -> None:
        before, now = self._token, time.time()
        try:
            token = self._fetch()
            if token.expires_at <= now:
                raise AuthorizationException(
                    "the token for SASL/OAUTHBEARER has expired already; check the clocks, and that it is renewed"
                )
        except KafkaException as error:
            if before is None or before.expires_at <= now:
                raise
            log.warning("the token for SASL/OAUTHBEARER is not renewed, trying again: %s", error)
            self._renew_at = min(now + _PAUSE_AFTER_FAILURE_S, before.expires_at)
            return
        self._token = token
        self._renew_at = now + (token.expires_at - now) * _RENEWED_AFTER


class MemberTokens(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python is untyped
    """A source as kafka-python wants it."""

    def __init__(self, source: TokenSource) -> None:
        self._source = source

    def token(self) -> str:
        """The token to send."""
        return self._source.token().value

    def extensions(self) -> dict[str, str]:
        """The extensions to send with it."""
        return self._source.extensions(self._source.token())


@cache
def token_source(settings: OAuthSettings) -> TokenSource:
    """The process's source of the tokens that these settings describe."""
    origin = settings.origin
    fetch: Callable[[], OAuthToken]
    match origin:
        case ClientCredentials():
            fetch = partial(_by_client_credentials, origin)
        case TokenFile():
            fetch = partial(_of_file, origin)
        case UnsecuredToken():
            fetch = partial(_unsecured, origin)
        case UserTokens():
            fetch = _of_user(origin)
    return TokenSource(fetch, dict(settings.extensions))


def _of_user(origin: UserTokens) -> Callable[[], OAuthToken]:
    function: Any = make(origin.given, origin.setting)
    if not callable(function):
        raise ConfigException(f"{origin.setting}: {origin.given} is not a function without arguments")

    def fetch() -> OAuthToken:
        try:
            token: object = function()
        except KafkaException:
            raise
        except Exception as error:
            raise AuthorizationException(
                f"the function named by {origin.setting} gave no token: {type(error).__name__}: {error}"
            ) from error
        if not isinstance(token, OAuthToken):
            raise ConfigException(
                f"the function named by {origin.setting} returned a {type(token).__name__}, not a headrace.OAuthToken"
            )
        return token

    return fetch


def _unsecured(origin: UnsecuredToken) -> OAuthToken:
    now = int(time.time())
    end = now + origin.lifetime_s
    value = ".".join((_encoded({"alg": "none"}), _encoded({"sub": origin.subject, "iat": now, "exp": end}), ""))
    return OAuthToken(value, end, origin.subject)


def _of_file(origin: TokenFile) -> OAuthToken:
    try:
        value = Path(origin.path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise AuthorizationException(f"reading the token of {origin.path} failed: {error}") from error
    return _of_text(value, None, origin.path)


def _by_client_credentials(origin: ClientCredentials) -> OAuthToken:
    doing = f"getting a token for SASL/OAUTHBEARER as client {origin.client_id} from {origin.endpoint}"
    deadline = time.monotonic() + origin.retry_max_s
    pause = origin.retry_s
    while True:
        try:
            answer = _asked(origin)
        except urllib.error.HTTPError as error:
            text = f"{doing} failed: HTTP {error.code}{_reason(error)}"
            if error.code in _REFUSED:
                raise AuthorizationException(
                    f"{text}; check sasl.oauthbearer.token.endpoint.url, and the client's id, secret and scope"
                ) from error
            failure: Exception = error
        except ssl.SSLCertVerificationError as error:
            raise _untrusted(doing, error) from error
        except (OSError, http.client.HTTPException) as error:
            cause = error.reason if isinstance(error, urllib.error.URLError) else error
            if isinstance(cause, ssl.SSLCertVerificationError):
                raise _untrusted(doing, cause) from error
            text, failure = f"{doing} failed: {cause}", error
        else:
            return _of_answer(answer, doing)
        if time.monotonic() + pause >= deadline:
            raise TimeoutException(f"{text}. It may be tried again") from failure
        time.sleep(pause)
        pause = min(2 * pause, origin.retry_max_s)


def _untrusted(doing: str, error: ssl.SSLCertVerificationError) -> AuthorizationException:
    return AuthorizationException(
        f"{doing} failed: {error.verify_message}; give the certificates to trust by the options "
        'ssl.truststore.type="PEM" and ssl.truststore.location of sasl.jaas.config'
    )


def _asked(origin: ClientCredentials) -> bytes:
    user, secret = origin.client_id, origin.client_secret
    if origin.urlencode:
        user, secret = urllib.parse.quote_plus(user), urllib.parse.quote_plus(secret)
    form = {"grant_type": "client_credentials"}
    if origin.scope:
        form["scope"] = origin.scope
    request = urllib.request.Request(  # noqa: S310  # http or https, which is checked with the settings
        origin.endpoint,
        data=urllib.parse.urlencode(form).encode("ascii"),
        headers={
            "Authorization": "Basic " + base64.b64encode(f"{user}:{secret}".encode()).decode("ascii"),
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
        },
    )
    context: ssl.SSLContext | None = None
    if origin.endpoint.startswith("https"):
        context = ssl.create_default_context(cafile=origin.ca_location, cadata=origin.ca_pem)
    with urllib.request.urlopen(request, timeout=origin.timeout_s, context=context) as response:  # noqa: S310
        body: bytes = response.read()
    return body


def _reason(error: urllib.error.HTTPError) -> str:
    """What an endpoint says of a refusal (RFC 6749, 5.2)."""
    try:
        found: Any = json.loads(error.read())
        return f" ({': '.join(found[name] for name in ('error', 'error_description') if name in found)})"[:_SHOWN]
    except (OSError, http.client.HTTPException, ValueError, TypeError, KeyError):
        return ""


def _of_answer(answer: bytes, doing: str) -> OAuthToken:
    try:
        found: Any = json.loads(answer)
        value, lifetime = found["access_token"], found.get("expires_in")
    except (ValueError, TypeError, KeyError, AttributeError):
        raise AuthorizationException(f"{doing} failed: the answer is not JSON with an access_token") from None
    return _of_text(str(value), None if lifetime is None else time.time() + float(lifetime), doing)


def _of_text(value: str, expires_at: float | None, where: str) -> OAuthToken:
    claims = _claims(value)
    expiry = claims.get("exp", expires_at)
    if not isinstance(expiry, int | float):
        raise AuthorizationException(f"{where}: the token does not say when it expires (neither exp nor expires_in)")
    return OAuthToken(value, float(expiry), str(claims.get("sub", "")))


def _claims(value: str) -> Mapping[str, Any]:
    """The claims of a JWT; none of a token that is something else."""
    try:
        part = value.split(".")[1]
        found: Any = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (IndexError, ValueError, binascii.Error):
        return {}
    return dict(found) if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownArgumentType]  # of JSON


def _encoded(part: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode("ascii")
