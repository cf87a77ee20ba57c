"""Java class names and their counterparts here, as ``module:attribute``. Only names: nothing is imported by them."""

from __future__ import annotations

_ERRORS = "org.apache.kafka.streams.errors."
_PROCESSOR = "org.apache.kafka.streams.processor."
_SERDES = "org.apache.kafka.common.serialization.Serdes$"
_STORES = "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$"

DESERIALIZATION_HANDLERS = {
    _ERRORS + name: f"headrace.api.handlers:{name}"
    for name in ("LogAndFailExceptionHandler", "LogAndContinueExceptionHandler")
}
PROCESSING_HANDLERS = {
    _ERRORS + name: f"headrace.api.handlers:{name}"
    for name in ("LogAndFailProcessingExceptionHandler", "LogAndContinueProcessingExceptionHandler")
}
PRODUCTION_HANDLERS = {
    _ERRORS + "DefaultProductionExceptionHandler": "headrace.api.handlers:DefaultProductionExceptionHandler"
}
TIMESTAMP_EXTRACTORS = {
    _PROCESSOR + name: f"headrace.api.timestamps:{name}"
    for name in (
        "FailOnInvalidTimestamp",
        "LogAndSkipOnInvalidTimestamp",
        "UsePartitionTimeOnInvalidTimestamp",
        "WallclockTimestampExtractor",
    )
}
_REGISTRY_SERDES = {
    "avro.GenericAvroSerde": "avro:GenericAvroSerde",
    "avro.SpecificAvroSerde": "avro:SpecificAvroSerde",
    "avro.ReflectionAvroSerde": "avro:SpecificAvroSerde",
    "avro.PrimitiveAvroSerde": "avro:PrimitiveAvroSerde",
    "json.KafkaJsonSchemaSerde": "json_schema:KafkaJsonSchemaSerde",
    "protobuf.KafkaProtobufSerde": "protobuf:KafkaProtobufSerde",
}
SERDES: dict[str, str] = (
    {
        f"{_SERDES}{name}Serde": f"headrace.serdes:{name}Serde"
        for name in (
            "String",
            "Bytes",
            "ByteArray",
            "Long",
            "Integer",
            "Short",
            "Double",
            "Float",
            "Boolean",
            "UUID",
            "Void",
            "ByteBuffer",
            "List",
        )
    }
    | {
        f"org.apache.kafka.streams.kstream.WindowedSerdes${name}WindowedSerde": f"headrace.serdes:{name}WindowedSerde"
        for name in ("Time", "Session")
    }
    | {
        f"io.confluent.kafka.streams.serdes.{name}": f"headrace.serdes.registry.{reference}"
        for name, reference in _REGISTRY_SERDES.items()
    }
)
LIST_CLASSES = {"java.util.ArrayList": "builtins:list", "java.util.LinkedList": "builtins:list"}
DSL_STORE_SUPPLIERS = {
    _STORES + "RocksDBDslStoreSuppliers": "headrace.state:RocksDBDslStoreSuppliers",
    _STORES + "InMemoryDslStoreSuppliers": "headrace.state:InMemoryDslStoreSuppliers",
}
STICKY_TASK_ASSIGNOR = "headrace.assignment:StickyTaskAssignor"
HIGH_AVAILABILITY_TASK_ASSIGNOR = "headrace.assignment:HighAvailabilityTaskAssignor"
TASK_ASSIGNORS = {
    _PROCESSOR + "assignment.assignors.StickyTaskAssignor": STICKY_TASK_ASSIGNOR,
    _PROCESSOR + "internals.assignment.LegacyStickyTaskAssignor": STICKY_TASK_ASSIGNOR,
    _PROCESSOR + "internals.assignment.HighAvailabilityTaskAssignor": HIGH_AVAILABILITY_TASK_ASSIGNOR,
}
# Parts that have no counterpart: the default alone is known, and stands for "the built-in one".
CLIENT_SUPPLIERS = {
    _PROCESSOR + "internals.DefaultKafkaClientSupplier": _PROCESSOR + "internals.DefaultKafkaClientSupplier"
}
PROCESSOR_WRAPPERS = {_PROCESSOR + "internals.NoOpProcessorWrapper": _PROCESSOR + "internals.NoOpProcessorWrapper"}
