"""TLS and SASL: from Java's settings to librdkafka's names. The membership's are made of these, so that both agree.

One name is not librdkafka's: ``OAUTH``, whose value says where tokens come from. ``headrace.kafka`` puts a callback in
its place, so that every client of a process has its tokens from one source.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from headrace.config.jaas import login_module
from headrace.config.oauth import oauth_settings
from headrace.errors import ConfigException

if TYPE_CHECKING:
    from collections.abc import Callable

OAUTH: Final = "headrace.oauth"

SECURITY_NAMES: Final = frozenset(
    {
        "security.protocol",
        "sasl.mechanism",
        "sasl.jaas.config",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
    }
)
"""Settings that are translated here, together."""

_SASL_MODULES = {"PLAIN": "PlainLoginModule", "SCRAM-SHA-256": "ScramLoginModule", "SCRAM-SHA-512": "ScramLoginModule"}
_PEM = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_PEM_LINE = 64


def security_settings(value: Callable[..., Any], spelled: Callable[[str], str]) -> dict[str, Any]:
    """Librdkafka's settings of how to reach the brokers and to prove who we are.

    Args:
        value: The typed value of a setting by Java's name, or the second argument.
        spelled: The key by which a setting was given, for messages.

    Raises:
        ConfigException: Settings are missing, contradict each other or are not in this version. No message has a
            password or a key in it.
    """
    protocol: str = value("security.protocol", "PLAINTEXT")
    result: dict[str, Any] = {"security.protocol": protocol}
    if protocol.endswith("SSL"):
        result |= _truststore(value, spelled) | _keystore(value, spelled)
        checked = value("ssl.endpoint.identification.algorithm", "https") != ""
        result["ssl.endpoint.identification.algorithm"] = "https" if checked else "none"
    if protocol.startswith("SASL"):
        result |= _sasl(value, spelled)
    return result


def _truststore(value: Callable[..., Any], spelled: Callable[[str], str]) -> dict[str, Any]:
    text = value("ssl.truststore.certificates")
    location = _store("truststore", "ssl.truststore.certificates", value, spelled)
    if text is not None:
        return {"ssl.ca.pem": _pem(text, spelled("ssl.truststore.certificates"), "CERTIFICATE")}
    return {} if location is None else {"ssl.ca.location": location}


def _keystore(value: Callable[..., Any], spelled: Callable[[str], str]) -> dict[str, Any]:
    key, chain = value("ssl.keystore.key"), value("ssl.keystore.certificate.chain")
    location = _store("keystore", "ssl.keystore.key", value, spelled)
    result: dict[str, Any] = {}
    if (key is None) != (chain is None):
        missing = "ssl.keystore.key" if key is None else "ssl.keystore.certificate.chain"
        raise ConfigException(f"Setting '{missing}' is missing: a key and the chain of its certificates go together")
    if key is not None:
        result["ssl.key.pem"] = _pem(key, spelled("ssl.keystore.key"), "PRIVATE KEY")
        result["ssl.certificate.pem"] = _pem(chain, spelled("ssl.keystore.certificate.chain"), "CERTIFICATE")
    elif location is not None:
        # one file holds both, as in Java
        result["ssl.key.location"] = result["ssl.certificate.location"] = location
    password = value("ssl.key.password")
    if password is not None and result:
        result["ssl.key.password"] = password
    return result


def _store(store: str, text_name: str, value: Callable[..., Any], spelled: Callable[[str], str]) -> str | None:
    """The PEM file that is named, if any."""
    location: str | None = value(f"ssl.{store}.location")
    text, kind = value(text_name), str(value(f"ssl.{store}.type", "JKS")).upper()
    if kind != "PEM" and location is not None:
        raise ConfigException(
            f"Setting '{spelled(f'ssl.{store}.location')}' names a Java key store (ssl.{store}.type={kind}), which "
            f"cannot be read here: {_conversion(store, location, kind)}, then set ssl.{store}.location={store}.pem and "
            f"ssl.{store}.type=PEM without ssl.{store}.password"
        )
    if kind != "PEM" and text is not None:
        raise ConfigException(f"Setting '{spelled(text_name)}' is PEM text: set ssl.{store}.type=PEM with it")
    if location is not None and text is not None:
        raise ConfigException(
            f"Settings '{spelled(f'ssl.{store}.location')}' and '{spelled(text_name)}' are both set: give one of them"
        )
    if value(f"ssl.{store}.password") is not None:
        instead = "ssl.key.password is the one of its key" if store == "keystore" else "leave it out"
        raise ConfigException(
            f"Setting '{spelled(f'ssl.{store}.password')}' means nothing: PEM files of certificates have no password "
            f"({instead})"
        )
    return location


def _conversion(store: str, location: str, kind: str) -> str:
    if store == "truststore":
        return f"run 'keytool -list -rfc -keystore {location} > truststore.pem'"
    if kind == "PKCS12":
        return f"run 'openssl pkcs12 -in {location} -nodes -out keystore.pem'"
    return (
        f"run 'keytool -importkeystore -srckeystore {location} -destkeystore keystore.p12 -deststoretype PKCS12' and "
        "'openssl pkcs12 -in keystore.p12 -nodes -out keystore.pem'"
    )


def _pem(text: str, spelled: str, kind: str) -> str:
    """PEM text with its line breaks, which a properties file may have lost."""
    blocks = [
        f"-----BEGIN {match[1]}-----\n{_body(match[2])}\n-----END {match[1]}-----\n" for match in _PEM.finditer(text)
    ]
    if not blocks or not any(f"BEGIN {word}{kind}-----" in blocks[0] for word in ("", "ENCRYPTED ", "RSA ", "EC ")):
        raise ConfigException(
            f"Setting '{spelled}' must be PEM text that begins with -----BEGIN {kind}----- (its value is not shown)"
        )
    return "".join(blocks)


def _body(text: str) -> str:
    if ":" in text:
        return text.strip()  # the headers of a key that is encrypted in the old way need their lines
    data = "".join(text.split())
    return "\n".join(data[start : start + _PEM_LINE] for start in range(0, len(data), _PEM_LINE))


def _sasl(value: Callable[..., Any], spelled: Callable[[str], str]) -> dict[str, Any]:
    mechanism: str = value("sasl.mechanism", "GSSAPI")
    if mechanism == "OAUTHBEARER":
        return {"sasl.mechanism": mechanism, OAUTH: oauth_settings(value, spelled)}
    name = _SASL_MODULES.get(mechanism)
    if name is None:
        raise ConfigException(
            f"Setting '{spelled('sasl.mechanism')}' has the value '{mechanism}', but must be one of "
            f"{', '.join(_SASL_MODULES)}, OAUTHBEARER in this version"
        )
    module = login_module(value("sasl.jaas.config", ""))
    if module is None or module.name != name or not {"username", "password"} <= module.options.keys():
        raise ConfigException(
            f"Setting '{spelled('sasl.jaas.config')}' must read 'org.apache.kafka.common.security....{name} required "
            f'username="..." password="...";\' for sasl.mechanism={mechanism} (its value is not shown)'
        )
    return {
        "sasl.mechanism": mechanism,
        "sasl.username": module.options["username"],
        "sasl.password": module.options["password"],
    }
