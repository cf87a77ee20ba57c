"""One secured broker for all tests of this directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cluster.security.broker import SecureBroker, TokenEndpoint, secure_broker
from cluster.security.certificates import make_certificates

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    """The broker."""
    certificates = make_certificates(tmp_path_factory.mktemp("certificates"))
    with secure_broker(tmp_path_factory.mktemp("secure-kafka"), certificates) as running:
        yield running


@pytest.fixture
def token_endpoint() -> Iterator[TokenEndpoint]:
    """An endpoint that gives tokens."""
    endpoint = TokenEndpoint()
    yield endpoint
    endpoint.close()
