"""Serdes that keep their schemas in a schema registry with Confluent's API.

Avro is in :mod:`headrace.serdes.registry.avro` (extra ``avro``), JSON with JSON Schema in
:mod:`headrace.serdes.registry.json_schema`, Protobuf in :mod:`headrace.serdes.registry.protobuf` (extra ``protobuf``).
"""

from __future__ import annotations

from typing import Final

from headrace.serdes.registry.client import (
    AVRO,
    JSON,
    PROTOBUF,
    RegisteredSchema,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
)
from headrace.serdes.registry.errors import (
    RegistryAuthorizationException,
    RegistryException,
    RegistryUnavailableException,
)
from headrace.serdes.registry.memory import InMemoryRegistry
from headrace.serdes.registry.subjects import (
    RecordNameStrategy,
    SubjectNameStrategy,
    TopicNameStrategy,
    TopicRecordNameStrategy,
)
from headrace.serdes.registry.wire import IdReader, IdWriter

PrefixSchemaIdSerializer: Final = IdWriter.PREFIX
HeaderSchemaIdSerializer: Final = IdWriter.HEADER
DualSchemaIdDeserializer: Final = IdReader.DUAL
PrefixSchemaIdDeserializer: Final = IdReader.PREFIX

__all__ = [
    "AVRO",
    "JSON",
    "PROTOBUF",
    "DualSchemaIdDeserializer",
    "HeaderSchemaIdSerializer",
    "IdReader",
    "IdWriter",
    "InMemoryRegistry",
    "PrefixSchemaIdDeserializer",
    "PrefixSchemaIdSerializer",
    "RecordNameStrategy",
    "RegisteredSchema",
    "RegistryAuthorizationException",
    "RegistryException",
    "RegistryUnavailableException",
    "Schema",
    "SchemaReference",
    "SchemaRegistryClient",
    "SubjectNameStrategy",
    "TopicNameStrategy",
    "TopicRecordNameStrategy",
]
