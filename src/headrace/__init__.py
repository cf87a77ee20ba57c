"""Kafka Streams for Python: the Java library's model, names, topics and bytes.

The house, from the ground up; a package imports only what stands above it in this list:

=====================  ===============================================================================
errors, records        the exception tree; partitions, task ids, header lists
config                 every setting: name, type, default, what it is translated to
naming, partitioning   generated names; murmur2
metrics                counters
api                    what users implement or pass, and the engine's narrow protocols
serdes                 values to bytes and back
state                  stores: bodies, cache, uncommitted writes, the state directory
processors, topology   what each operator does; nodes, sub-topologies, internal topics, ``describe``
assignment             which member of a group runs which task
dsl, engine, kafka     fluent handles; tasks; the clients
topics                 readers of topics for applications
runtime                threads: stream threads, state updater, the client
testing, tools, cli    the driver, a local cluster; reset; the command line
=====================  ===============================================================================
"""

from headrace.api.handlers import (
    DeserializationExceptionHandler,
    ErrorHandlerContext,
    LogAndContinueExceptionHandler,
    LogAndContinueProcessingExceptionHandler,
    LogAndFailExceptionHandler,
    LogAndFailProcessingExceptionHandler,
    ProcessingExceptionHandler,
    ProducerRecord,
    ProductionExceptionHandler,
    Response,
)
from headrace.api.options import (
    Branched,
    Consumed,
    Grouped,
    Joined,
    Materialized,
    Named,
    Produced,
    Repartitioned,
)
from headrace.api.processor import (
    FixedKeyProcessor,
    FixedKeyProcessorContext,
    Processor,
    ProcessorContext,
)
from headrace.api.record import FixedKeyRecord, Record, RecordMetadata
from headrace.api.windows import (
    EmitStrategy,
    SessionWindow,
    SessionWindows,
    SlidingWindows,
    TimeWindow,
    TimeWindows,
    UnlimitedWindow,
    UnlimitedWindows,
    Window,
    Windowed,
)
from headrace.config import StreamsConfig
from headrace.dsl import BranchedKStream, KGroupedStream, KStream, KTable, StreamsBuilder
from headrace.records import TaskId, TopicPartition
from headrace.runtime.states import State
from headrace.runtime.streams import KafkaStreams, StreamThreadExceptionResponse
from headrace.serdes import JsonSerde, Serde, Serdes
from headrace.state import KeyValueStore, Stores, TimestampedKeyValueStore, ValueAndTimestamp
from headrace.topology import Topology

__all__ = [
    "Branched",
    "BranchedKStream",
    "Consumed",
    "DeserializationExceptionHandler",
    "EmitStrategy",
    "ErrorHandlerContext",
    "FixedKeyProcessor",
    "FixedKeyProcessorContext",
    "FixedKeyRecord",
    "Grouped",
    "Joined",
    "JsonSerde",
    "KGroupedStream",
    "KStream",
    "KTable",
    "KafkaStreams",
    "KeyValueStore",
    "LogAndContinueExceptionHandler",
    "LogAndContinueProcessingExceptionHandler",
    "LogAndFailExceptionHandler",
    "LogAndFailProcessingExceptionHandler",
    "Materialized",
    "Named",
    "ProcessingExceptionHandler",
    "Processor",
    "ProcessorContext",
    "Produced",
    "ProducerRecord",
    "ProductionExceptionHandler",
    "Record",
    "RecordMetadata",
    "Repartitioned",
    "Response",
    "Serde",
    "Serdes",
    "SessionWindow",
    "SessionWindows",
    "SlidingWindows",
    "State",
    "Stores",
    "StreamThreadExceptionResponse",
    "StreamsBuilder",
    "StreamsConfig",
    "TaskId",
    "TimeWindow",
    "TimeWindows",
    "TimestampedKeyValueStore",
    "TopicPartition",
    "Topology",
    "UnlimitedWindow",
    "UnlimitedWindows",
    "ValueAndTimestamp",
    "Window",
    "Windowed",
]
