"""Kafka Streams for Python: the Java library's model, names, topics and bytes.

The house, from the ground up; a package imports only what stands above it in this list:

=====================  ===============================================================================
errors, records        the exception tree; partitions, task ids, header lists
config                 every setting: name, type, default, what it is translated to
naming, partitioning   generated names; murmur2
metrics                every metric; counters, meters, the registry
api                    what users implement or pass, and the engine's narrow protocols
serdes                 values to bytes and back
state                  stores: bodies, cache, uncommitted writes, the state directory
processors, topology   what each operator does; nodes, sub-topologies, internal topics, ``describe``
assignment             which member of a group runs which task
dsl, engine, kafka     fluent handles; tasks; the clients
topics, http           readers of topics for applications; the port with metrics and tasks
runtime                threads: stream threads, state updater, the client
testing, tools, cli    the driver, a local cluster; reset; the command line
=====================  ===============================================================================
"""

from headrace.api.handlers import (
    DefaultProductionExceptionHandler,
    DeserializationExceptionHandler,
    ErrorHandlerContext,
    ErrorPolicy,
    LogAndContinueExceptionHandler,
    LogAndContinueProcessingExceptionHandler,
    LogAndFailExceptionHandler,
    LogAndFailProcessingExceptionHandler,
    ProcessingExceptionHandler,
    ProducerRecord,
    ProductionExceptionHandler,
    Response,
    Result,
    dead_letter,
)
from headrace.api.joins import JoinWindows, StreamJoined
from headrace.api.metadata import TaskMetadata, ThreadMetadata
from headrace.api.oauth import OAuthToken
from headrace.api.options import (
    Branched,
    Consumed,
    Grouped,
    Joined,
    Materialized,
    Named,
    Produced,
    Repartitioned,
    TableJoined,
)
from headrace.api.printed import Printed
from headrace.api.processor import (
    Cancellable,
    FixedKeyProcessor,
    FixedKeyProcessorContext,
    Processor,
    ProcessorContext,
    ProcessorWrapper,
    PunctuationType,
    TransformerContext,
    ValueTransformerWithKey,
)
from headrace.api.record import (
    FixedKeyRecord,
    Record,
    RecordContext,
    RecordMetadata,
)
from headrace.api.restore import LagInfo, StandbyUpdateListener, StateRestoreListener, SuspendReason
from headrace.api.stores import (
    DslStoreSuppliers,
    StoreSupplier,
)
from headrace.api.suppressed import BufferConfig, EagerBufferConfig, StrictBufferConfig, Suppressed
from headrace.api.timestamps import (
    ConsumerRecord,
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    TimestampExtractor,
    UsePartitionTimeOnInvalidTimestamp,
    WallclockTimestampExtractor,
)
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
from headrace.dsl import (
    BranchedKStream,
    CogroupedKStream,
    GlobalKTable,
    KGroupedStream,
    KGroupedTable,
    KStream,
    KTable,
    SessionWindowedCogroupedKStream,
    SessionWindowedKStream,
    StreamsBuilder,
    TimeWindowedCogroupedKStream,
    TimeWindowedKStream,
)
from headrace.partitioning import (
    StreamPartitioner,
)
from headrace.records import HostInfo, TaskId, TopicPartition
from headrace.resets import (
    AutoOffsetReset,
)
from headrace.runtime.states import State, StreamThreadExceptionResponse
from headrace.runtime.streams import KafkaStreams
from headrace.serdes import JsonSerde, Serde, Serdes, SessionWindowedSerde, TimeWindowedSerde, WindowedSerdes
from headrace.state import (
    AggregationWithHeaders,
    KeyValueStore,
    SessionStore,
    SessionStoreWithHeaders,
    StoreBuilder,
    Stores,
    StoreType,
    TimestampedKeyValueStore,
    TimestampedKeyValueStoreWithHeaders,
    TimestampedWindowStore,
    TimestampedWindowStoreWithHeaders,
    ValueAndTimestamp,
    ValueTimestampHeaders,
    VersionedKeyValueStore,
    VersionedRecord,
    WindowStore,
)
from headrace.topology import Topology

__all__ = [
    "AggregationWithHeaders",
    "AutoOffsetReset",
    "Branched",
    "BranchedKStream",
    "BufferConfig",
    "Cancellable",
    "CogroupedKStream",
    "Consumed",
    "ConsumerRecord",
    "DefaultProductionExceptionHandler",
    "DeserializationExceptionHandler",
    "DslStoreSuppliers",
    "EagerBufferConfig",
    "EmitStrategy",
    "ErrorHandlerContext",
    "ErrorPolicy",
    "FailOnInvalidTimestamp",
    "FixedKeyProcessor",
    "FixedKeyProcessorContext",
    "FixedKeyRecord",
    "GlobalKTable",
    "Grouped",
    "HostInfo",
    "JoinWindows",
    "Joined",
    "JsonSerde",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "KafkaStreams",
    "KeyValueStore",
    "LagInfo",
    "LogAndContinueExceptionHandler",
    "LogAndContinueProcessingExceptionHandler",
    "LogAndFailExceptionHandler",
    "LogAndFailProcessingExceptionHandler",
    "LogAndSkipOnInvalidTimestamp",
    "Materialized",
    "Named",
    "OAuthToken",
    "Printed",
    "ProcessingExceptionHandler",
    "Processor",
    "ProcessorContext",
    "ProcessorWrapper",
    "Produced",
    "ProducerRecord",
    "ProductionExceptionHandler",
    "PunctuationType",
    "Record",
    "RecordContext",
    "RecordMetadata",
    "Repartitioned",
    "Response",
    "Result",
    "Serde",
    "Serdes",
    "SessionStore",
    "SessionStoreWithHeaders",
    "SessionWindow",
    "SessionWindowedCogroupedKStream",
    "SessionWindowedKStream",
    "SessionWindowedSerde",
    "SessionWindows",
    "SlidingWindows",
    "StandbyUpdateListener",
    "State",
    "StateRestoreListener",
    "StoreBuilder",
    "StoreSupplier",
    "StoreType",
    "Stores",
    "StreamJoined",
    "StreamPartitioner",
    "StreamThreadExceptionResponse",
    "StreamsBuilder",
    "StreamsConfig",
    "StrictBufferConfig",
    "Suppressed",
    "SuspendReason",
    "TableJoined",
    "TaskId",
    "TaskMetadata",
    "ThreadMetadata",
    "TimeWindow",
    "TimeWindowedCogroupedKStream",
    "TimeWindowedKStream",
    "TimeWindowedSerde",
    "TimeWindows",
    "TimestampExtractor",
    "TimestampedKeyValueStore",
    "TimestampedKeyValueStoreWithHeaders",
    "TimestampedWindowStore",
    "TimestampedWindowStoreWithHeaders",
    "TopicPartition",
    "Topology",
    "TransformerContext",
    "UnlimitedWindow",
    "UnlimitedWindows",
    "UsePartitionTimeOnInvalidTimestamp",
    "ValueAndTimestamp",
    "ValueTimestampHeaders",
    "ValueTransformerWithKey",
    "VersionedKeyValueStore",
    "VersionedRecord",
    "WallclockTimestampExtractor",
    "Window",
    "WindowStore",
    "Windowed",
    "WindowedSerdes",
    "dead_letter",
]
