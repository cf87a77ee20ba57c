"""Certificates for tests, made by openssl: an authority, the broker's, a client's, and an authority nobody trusts."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

KEY_PASSWORD = "of-the-key"  # of a key that exists as long as a test
CLIENT = "CN=app"
"""The name in the client's certificate, which is its principal: ``User:CN=app``."""


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files.

    Attributes:
        authority: Certificate that signed the broker's and the client's.
        stranger: Certificate of another authority.
        broker: Key and certificate of the broker, for 127.0.0.1 alone.
        client: Key, encrypted with ``KEY_PASSWORD``, and certificate of the client.
    """

    authority: Path
    stranger: Path
    broker: Path
    client: Path


def make_certificates(directory: Path) -> Certificates:
    """Make them all in a directory."""
    authority = _authority(directory, "authority")
    stranger = _authority(directory, "stranger")
    broker = _signed(directory, "broker", "/CN=broker", "subjectAltName=IP:127.0.0.1", ())
    client = _signed(
        directory, "client", f"/{CLIENT}", "extendedKeyUsage=clientAuth", ("-aes256", "-pass", f"pass:{KEY_PASSWORD}")
    )
    return Certificates(authority, stranger, broker, client)


def openssl(directory: Path, *arguments: str) -> None:
    """Run it in a directory; what goes wrong is shown."""
    done = subprocess.run(
        ["openssl", *arguments], cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def _authority(directory: Path, name: str) -> Path:
    key = directory / f"{name}.key"
    _key(directory, key, ())
    openssl(
        directory, "req", "-x509", "-new", "-key", key.name, "-subj", f"/CN={name}", "-days", "2", "-out", f"{name}.pem"
    )
    return directory / f"{name}.pem"


def _key(directory: Path, file: Path, encryption: tuple[str, ...]) -> None:
    curve = ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
    openssl(directory, "genpkey", *curve, *encryption, "-out", file.name)


def _signed(directory: Path, name: str, subject: str, extension: str, encryption: tuple[str, ...]) -> Path:
    key, certificate, whole = (directory / f"{name}.{end}" for end in ("key", "crt", "pem"))
    _key(directory, key, encryption)
    opened = ("-passin", encryption[-1]) if encryption else ()
    openssl(directory, "req", "-new", "-key", key.name, *opened, "-subj", subject, "-out", f"{name}.csr")
    (directory / f"{name}.ext").write_text(extension)
    authority = ("-CA", "authority.pem", "-CAkey", "authority.key", "-CAcreateserial")
    files = ("-in", f"{name}.csr", "-extfile", f"{name}.ext", "-out", certificate.name)
    openssl(directory, "x509", "-req", *files, *authority, "-days", "2")
    whole.write_text(key.read_text() + certificate.read_text())
    return whole
