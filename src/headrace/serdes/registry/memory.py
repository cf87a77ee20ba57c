"""A registry in memory, for tests and examples: ``schema.registry.url=mock://NAME``.

It answers the requests of :class:`~headrace.serdes.registry.client.SchemaRegistryClient` as a real one does, except
that every schema counts as compatible and text is compared as it is. Source: Confluent's ``MockSchemaRegistry``.
"""

from __future__ import annotations

import hashlib
import threading
import uuid
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

import msgspec


class InMemoryRegistry:
    """Subjects, versions and ids of one scope. :meth:`of` gives the one of a name."""

    _scopes: ClassVar[dict[str, InMemoryRegistry]] = {}
    _scopes_lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, name: str = "") -> None:
        self._name = name
        self._lock = threading.Lock()
        self._schemas: list[dict[str, Any]] = []
        self._subjects: dict[str, dict[int, int]] = {}
        self._levels: dict[str | None, str] = {None: "BACKWARD"}

    @classmethod
    def of(cls, name: str) -> InMemoryRegistry:
        """The registry that ``mock://NAME`` stands for, in this process."""
        with cls._scopes_lock:
            return cls._scopes.setdefault(name, cls(name))

    @property
    def where(self) -> str:
        """Its address."""
        return f"mock://{self._name}"

    def request(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        """Status and JSON of the answer to a request of the REST API."""
        given: Any = None if body is None else msgspec.json.decode(body)
        parts = [unquote(part) for part in urlsplit(path).path.strip("/").split("/")]
        with self._lock:
            status, answer = self._answer(method, parts, given)
        return status, msgspec.json.encode(answer)

    def _answer(self, method: str, parts: list[str], given: Any) -> tuple[int, Any]:
        match method, parts:
            case "GET", ["schemas", "ids", schema_id]:
                return self._found([int(schema_id)] if int(schema_id) <= len(self._schemas) else [])
            case "GET", ["schemas", "guids", guid]:
                return self._found(
                    [number for number, schema in enumerate(self._schemas, start=1) if _guid(schema) == guid]
                )
            case "GET", ["subjects"]:
                return 200, sorted(self._subjects)
            case "POST", ["subjects", subject, "versions"]:
                return self._register(subject, given)
            case (("GET" | "PUT"), ["config", *rest]):
                return self._level(rest[0] if rest else None, given)
            case "POST", ["compatibility", "subjects", _, "versions", _]:
                return 200, {"is_compatible": True}
            case _, ["subjects", subject, *rest]:
                if subject not in self._subjects:
                    return _unknown(40401, f"Subject '{subject}' not found.")
                return self._of_subject(method, subject, rest, given)
            case _:
                return 405, {"error_code": 405, "message": f"{method} /{'/'.join(parts)} is not known here"}

    def _found(self, numbers: list[int]) -> tuple[int, Any]:
        return (200, self._public(numbers[0])) if numbers else _unknown(40403, "Schema not found")

    def _register(self, subject: str, given: Any) -> tuple[int, Any]:
        schema = _content(given)
        if schema not in self._schemas:
            self._schemas.append(schema)
        number = self._schemas.index(schema) + 1
        versions = self._subjects.setdefault(subject, {})
        if number not in versions.values():
            versions[max(versions, default=0) + 1] = number
        version = next(version for version, known in versions.items() if known == number)
        return 200, {"id": number, "version": version, "guid": _guid(schema)}

    def _of_subject(self, method: str, subject: str, rest: list[str], given: Any) -> tuple[int, Any]:
        versions = self._subjects[subject]
        match method, rest:
            case "GET", ["versions"]:
                return 200, sorted(versions)
            case "DELETE", []:
                return 200, sorted(self._subjects.pop(subject))
            case "POST", []:
                schema = _content(given)
                for version, number in versions.items():
                    if self._schemas[number - 1] == schema:
                        return 200, self._versioned(subject, version)
                return _unknown(40403, "Schema not found")
            case (("GET" | "DELETE"), ["versions", wanted]):
                version = max(versions) if wanted in ("latest", "-1") else int(wanted)
                if version not in versions:
                    return _unknown(40402, f"Version {wanted} not found.")
                if method == "GET":
                    return 200, self._versioned(subject, version)
                del versions[version]
                if not versions:
                    del self._subjects[subject]
                return 200, version
            case _:
                return 405, {"error_code": 405, "message": f"{method} is not known here"}

    def _level(self, subject: str | None, given: Any) -> tuple[int, Any]:
        if given is None:
            return 200, {"compatibilityLevel": self._levels.get(subject, self._levels[None])}
        self._levels[subject] = given["compatibility"]
        return 200, {"compatibility": given["compatibility"]}

    def _public(self, number: int) -> dict[str, Any]:
        schema = self._schemas[number - 1]
        return {**schema, "guid": _guid(schema)}

    def _versioned(self, subject: str, version: int) -> dict[str, Any]:
        number = self._subjects[subject][version]
        return {"subject": subject, "version": version, "id": number, **self._public(number)}


def _content(given: Any) -> dict[str, Any]:
    return {
        "schema": given["schema"],
        "schemaType": given.get("schemaType", "AVRO"),
        "references": given.get("references", []),
    }


def _guid(schema: dict[str, Any]) -> str:
    return str(uuid.UUID(bytes=hashlib.md5(msgspec.json.encode(schema), usedforsecurity=False).digest()))


def _unknown(code: int, message: str) -> tuple[int, Any]:
    return 404, {"error_code": code, "message": message}
