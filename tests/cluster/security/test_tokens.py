"""Where tokens come from, and how long they are used; without a broker."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from cluster.security.broker import CLIENT_ID, CLIENT_SECRET, USER, TokenEndpoint, oauth_module, unsigned_token

from headrace import OAuthToken, StreamsConfig
from headrace.config.security import OAUTH
from headrace.errors import AuthorizationException, ConfigException, TimeoutException
from headrace.kafka.oauth import TokenSource, token_source

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def source(values: dict[str, Any]) -> TokenSource:
    """The source that settings describe."""
    settings = {
        "application.id": "app",
        "bootstrap.servers": "127.0.0.1:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        **values,
    }
    return token_source(StreamsConfig.load(settings).admin_config()[OAUTH])


def at(endpoint: TokenEndpoint, **values: Any) -> TokenSource:
    module = oauth_module(clientId=CLIENT_ID, clientSecret=CLIENT_SECRET, scope="kafka", extension_pool="p")
    return source(
        {"sasl.jaas.config": module, "sasl.oauthbearer.token.endpoint.url": endpoint.url}
        | {name.replace("_", "."): value for name, value in values.items()}
    )


def of_function(function: Callable[[], Any]) -> TokenSource:
    return source({"sasl.login.callback.handler.class": function})


def test_a_busy_endpoint_is_asked_again(token_endpoint: TokenEndpoint) -> None:
    token_endpoint.busy = 2
    tokens = at(token_endpoint, sasl_login_retry_backoff_ms=1)
    token = tokens.token()
    assert token.principal == USER
    assert tokens.token() is token
    assert tokens.extensions(token) == {"pool": "p"}
    assert token_endpoint.asked == 1
    assert tokens is at(token_endpoint, sasl_login_retry_backoff_ms=1)


def test_an_endpoint_that_stays_away_is_named(token_endpoint: TokenEndpoint) -> None:
    token_endpoint.busy = 1_000_000
    tokens = at(token_endpoint, sasl_login_retry_backoff_ms=1, sasl_login_retry_backoff_max_ms=20)
    with pytest.raises(TimeoutException, match=f"as client {CLIENT_ID} from {token_endpoint.url} failed: HTTP 503"):
        tokens.token()


def test_the_old_token_is_used_to_its_end_while_there_is_no_new_one(caplog: pytest.LogCaptureFixture) -> None:
    lifetime_s, given = 0.4, 0

    def once() -> OAuthToken:
        nonlocal given
        given += 1
        if given > 1:
            raise OSError("the vault is closed")
        return OAuthToken("first", time.time() + lifetime_s)

    tokens = of_function(once)
    first = tokens.token()
    while not caplog.records:
        assert time.time() < first.expires_at + 5, "it was never renewed"
        if time.time() < first.expires_at - 0.05:
            assert tokens.token() is first
    assert "is not renewed, trying again: the function named by sasl.login.callback.handler.class" in caplog.text
    while time.time() <= first.expires_at:
        time.sleep(0.01)
    with pytest.raises(AuthorizationException, match="gave no token: OSError: the vault is closed"):
        tokens.token()


def test_what_is_no_token_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigException, match=r"returned a str, not a headrace\.OAuthToken"):
        of_function(lambda: "token").token()
    with pytest.raises(AuthorizationException, match="has expired already"):
        of_function(lambda: OAuthToken("old", 1.0)).token()
    with pytest.raises(ConfigException, match="cannot be loaded"):
        source({"sasl.login.callback.handler.class": "no_such_module:token"})
    file = tmp_path / "token"
    by_file = source({"sasl.oauthbearer.token.endpoint.url": file.as_uri()})
    with pytest.raises(AuthorizationException, match=f"reading the token of {file} failed"):
        by_file.token()
    file.write_text("opaque\n")
    with pytest.raises(AuthorizationException, match="does not say when it expires"):
        by_file.token()
    file.write_text(unsigned_token("me", 60) + "\n")
    assert by_file.token().principal == "me"
    assert unsigned_token("me", 60) not in repr(by_file.token())
