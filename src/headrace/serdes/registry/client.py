"""A client of Confluent's schema registry API (also Apicurio's, under ``/apis/ccompat/v7``). Source: RestService."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from headrace.errors import ConfigException
from headrace.serdes.registry.errors import RegistryAuthorizationException, RegistryException
from headrace.serdes.registry.http import HttpTransport
from headrace.serdes.registry.memory import InMemoryRegistry
from headrace.serdes.registry.settings import ClientSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

T = TypeVar("T")

AVRO: Final = "AVRO"
JSON: Final = "JSON"
PROTOBUF: Final = "PROTOBUF"

_MOST_CACHED: Final = 1000
_SCHEMA_UNKNOWN: Final = frozenset({40401, 40402, 40403})


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """A schema that another one uses: under ``name`` in it, registered as ``version`` of ``subject``."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema's text with its type (``AVRO``, ``JSON``, ``PROTOBUF``) and what it refers to."""

    text: str
    type: str = AVRO
    references: tuple[SchemaReference, ...] = ()


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema with what the registry calls it.

    ``version`` and ``guid`` are None where the registry does not tell them (GUIDs: Confluent 8 and newer).
    """

    subject: str
    id: int
    schema: Schema
    version: int | None = None
    guid: str | None = None


class Transport(Protocol):
    """Something that answers the registry's requests."""

    @property
    def where(self) -> str:
        """Address, for messages."""
        ...

    def request(self, method: str, path: str, body: bytes | None, /) -> tuple[int, bytes]:
        """Status and content of the answer."""
        ...


class SchemaRegistryClient:
    """Registers and looks up schemas, and keeps what cannot change: schemas by id and GUID, ids by schema.

    Safe for several threads. Every method may raise :class:`RegistryUnavailableException` (try again later),
    :class:`RegistryAuthorizationException`, and :class:`RegistryException` for any other refusal.

    Args:
        configs: Settings by Confluent's dotted names (``schema.registry.url`` and others), or the address alone.

    Raises:
        ConfigException: The address is missing, or a setting is not allowed.

    Example:
        >>> from headrace.serdes.registry import Schema, SchemaRegistryClient
        >>> client = SchemaRegistryClient("mock://docs-client")
        >>> client.register_schema("orders-value", Schema('"string"')).version
        1
        >>> client.get_subjects()
        ['orders-value']
    """

    def __init__(self, configs: Mapping[str, Any] | ClientSettings | str) -> None:
        if isinstance(configs, str):
            configs = {"schema.registry.url": configs}
        settings = configs if isinstance(configs, ClientSettings) else ClientSettings.of(configs)
        self._transport: Transport = _transport(settings)
        self._latest_ttl_s = settings.latest_ttl_s
        self._lock = threading.Lock()
        self._cache: dict[Hashable, Any] = {}

    @property
    def where(self) -> str:
        """The registry's addresses."""
        return self._transport.where

    def get_schema(self, schema_id: int) -> Schema:
        """The schema with this id."""
        return self._cached(("id", schema_id), lambda: _schema(self._call("GET", f"/schemas/ids/{schema_id}")))

    def get_schema_by_guid(self, guid: str) -> Schema:
        """The schema with this GUID (Confluent 8 and newer)."""
        return self._cached(("guid", guid), lambda: _schema(self._call("GET", f"/schemas/guids/{guid}")))

    def register_schema(self, subject: str, schema: Schema, normalize: bool = False) -> RegisteredSchema:
        """Register a schema under a subject; one that is there already keeps its id.

        Raises:
            RegistryException: Status 409 when it is not compatible with earlier versions, 422 when it is not valid.
        """

        def register() -> RegisteredSchema:
            path = f"/subjects/{_quoted(subject)}/versions{_normalized(normalize)}"
            answer = self._call("POST", path, _request(schema))
            return RegisteredSchema(subject, answer["id"], schema, answer.get("version"), answer.get("guid"))

        return self._cached(("register", subject, schema, normalize), register)

    def lookup_schema(self, subject: str, schema: Schema, normalize: bool = False) -> RegisteredSchema:
        """Id and version of a schema that is registered under a subject.

        Raises:
            RegistryException: Code 40401 when the subject is unknown, 40403 when it does not have this schema.
        """
        path = f"/subjects/{_quoted(subject)}{_normalized(normalize)}"
        return self._cached(
            ("lookup", subject, schema, normalize),
            lambda: _registered(self._call("POST", path, _request(schema)), schema),
        )

    def get_latest_version(self, subject: str) -> RegisteredSchema:
        """The newest schema of a subject, as of ``latest.cache.ttl.sec`` ago at most."""
        with self._lock:
            known = self._cache.get(("latest", subject))
        now = time.monotonic()
        if known is not None and (self._latest_ttl_s < 0 or now - known[0] < self._latest_ttl_s):
            found: RegisteredSchema = known[1]
            return found
        found = self.get_version(subject, "latest")
        self._keep(("latest", subject), (now, found))
        return found

    def get_version(self, subject: str, version: int | str) -> RegisteredSchema:
        """A version of a subject."""
        return _registered(self._call("GET", f"/subjects/{_quoted(subject)}/versions/{version}"))

    def get_versions(self, subject: str) -> list[int]:
        """Numbers of a subject's versions."""
        versions: list[int] = self._call("GET", f"/subjects/{_quoted(subject)}/versions")
        return versions

    def get_subjects(self) -> list[str]:
        """Every subject."""
        subjects: list[str] = self._call("GET", "/subjects")
        return subjects

    def delete_subject(self, subject: str, permanent: bool = False) -> list[int]:
        """Delete a subject; gives the versions that it had. ``permanent`` needs a deletion without it before."""
        suffix = "?permanent=true" if permanent else ""
        versions: list[int] = self._call("DELETE", f"/subjects/{_quoted(subject)}{suffix}")
        self._forget()
        return versions

    def delete_version(self, subject: str, version: int | str, permanent: bool = False) -> int:
        """Delete one version of a subject; gives its number."""
        suffix = "?permanent=true" if permanent else ""
        number: int = self._call("DELETE", f"/subjects/{_quoted(subject)}/versions/{version}{suffix}")
        self._forget()
        return number

    def get_compatibility(self, subject: str | None = None) -> str:
        """What new versions of a subject must be compatible with (``BACKWARD``, ``FULL``, ``NONE``, …).

        The level of all that have none of their own when ``subject`` is None.
        """
        path = "/config" if subject is None else f"/config/{_quoted(subject)}?defaultToGlobal=true"
        level: str = self._call("GET", path)["compatibilityLevel"]
        return level

    def set_compatibility(self, level: str, subject: str | None = None) -> None:
        """Set the level of a subject, or of all that have none of their own."""
        path = "/config" if subject is None else f"/config/{_quoted(subject)}"
        self._call("PUT", path, {"compatibility": level})

    def test_compatibility(self, subject: str, schema: Schema, version: int | str = "latest") -> bool:
        """Whether a schema could be registered beside a version of a subject."""
        path = f"/compatibility/subjects/{_quoted(subject)}/versions/{version}"
        compatible: bool = self._call("POST", path, _request(schema))["is_compatible"]
        return compatible

    def resolve(self, schema: Schema) -> tuple[tuple[SchemaReference, Schema], ...]:
        """Everything that a schema refers to, directly or not; what is referred to comes before what refers to it."""
        found: dict[str, tuple[SchemaReference, Schema]] = {}

        def visit(references: tuple[SchemaReference, ...]) -> None:
            for reference in references:
                if reference.name not in found:
                    key = ("version", reference.subject, reference.version)
                    used = self._cached(key, lambda ref=reference: self.get_version(ref.subject, ref.version).schema)  # type: ignore[misc]  # bound at once
                    visit(used.references)
                    found[reference.name] = (reference, used)

        visit(schema.references)
        return tuple(found.values())

    def _cached(self, key: Hashable, ask: Callable[[], T]) -> T:
        with self._lock:
            known: T | None = self._cache.get(key)
        if known is not None:
            return known
        found = ask()
        self._keep(key, found)
        return found

    def _keep(self, key: Hashable, value: object) -> None:
        with self._lock:
            self._cache[key] = value
            while len(self._cache) > _MOST_CACHED:
                del self._cache[next(iter(self._cache))]

    def _forget(self) -> None:
        with self._lock:
            self._cache.clear()

    def _call(self, method: str, path: str, body: object = None) -> Any:
        status, content = self._transport.request(method, path, None if body is None else msgspec.json.encode(body))
        if 200 <= status < 300:
            try:
                return msgspec.json.decode(content)
            except msgspec.DecodeError as e:
                raise ConfigException(f"{self.where}{path} answers, but not as a schema registry does: {e}") from e
        code, text = _error(content)
        if status in (401, 403):
            raise RegistryAuthorizationException(
                f"The schema registry at {self.where} refused {method} {path} (HTTP status {status}): "
                f"{text or 'no reason given'}. Check its credentials (basic.auth.… or bearer.auth.…)."
            )
        if status == 404 and code < 0:
            raise ConfigException(
                f"{self.where} has no {path} (HTTP status 404): is schema.registry.url the address of the Confluent "
                "API? Apicurio's ends with /apis/ccompat/v7."
            )
        raise RegistryException(
            f"The schema registry at {self.where} answered {method} {path} with HTTP status {status}, "
            f"error code {code}: {text}",
            status,
            code,
        )


def is_unknown(error: RegistryException) -> bool:
    """Whether the registry says that it does not have the schema, version or subject."""
    return error.status == 404 and error.error_code in _SCHEMA_UNKNOWN


_clients: dict[ClientSettings, SchemaRegistryClient] = {}
_clients_lock = threading.Lock()


def shared_client(configs: Mapping[str, Any]) -> SchemaRegistryClient:
    """The one client of all serdes of this process with the same settings.

    Raises:
        ConfigException: The address is missing, or a setting is not allowed.
    """
    settings = ClientSettings.of(configs)
    with _clients_lock:
        client = _clients.get(settings)
        if client is None:
            client = _clients[settings] = SchemaRegistryClient(settings)
        return client


def _transport(settings: ClientSettings) -> Transport:
    scopes = [url.removeprefix("mock://") for url in settings.urls if url.startswith("mock://")]
    if not scopes:
        return HttpTransport(settings)
    if len(settings.urls) > 1:
        raise ConfigException("Setting 'schema.registry.url' names a mock:// registry, which must be the only one")
    return InMemoryRegistry.of(scopes[0])


def _quoted(subject: str) -> str:
    return quote(subject, safe="")


def _normalized(normalize: bool) -> str:
    return "?" + urlencode({"normalize": "true"}) if normalize else ""


def _request(schema: Schema) -> dict[str, Any]:
    request: dict[str, Any] = {"schema": schema.text}
    if schema.type != AVRO:
        request["schemaType"] = schema.type
    if schema.references:
        request["references"] = [
            {"name": ref.name, "subject": ref.subject, "version": ref.version} for ref in schema.references
        ]
    return request


def _schema(answer: Mapping[str, Any]) -> Schema:
    return Schema(
        answer["schema"],
        answer.get("schemaType") or AVRO,
        tuple(SchemaReference(ref["name"], ref["subject"], ref["version"]) for ref in answer.get("references") or ()),
    )


def _registered(answer: Mapping[str, Any], schema: Schema | None = None) -> RegisteredSchema:
    return RegisteredSchema(
        answer["subject"], answer["id"], schema or _schema(answer), answer.get("version"), answer.get("guid")
    )


def _error(content: bytes) -> tuple[int, str]:
    try:
        answer: Any = msgspec.json.decode(content)
        return int(answer["error_code"]), str(answer.get("message", ""))
    except (msgspec.DecodeError, KeyError, TypeError, ValueError):
        return -1, ""
