"""Every setting of the Java library's ``StreamsConfig`` (4.4), one row each, and their names as constants."""

from __future__ import annotations

import re
from typing import Final

from headrace.config import class_names
from headrace.config.definition import ConfigKey, ConfigType, Importance, Support, Validator, at_least, one_of

AT_LEAST_ONCE: Final = "at_least_once"
EXACTLY_ONCE_V2: Final = "exactly_once_v2"

_BOOLEAN, _STRING, _INT, _LONG = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.LONG
_LIST, _CLASS = ConfigType.LIST, ConfigType.CLASS
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_NO_EFFECT, _REFUSED = Support.NO_EFFECT, Support.REFUSED

_OPTIMIZATIONS = ("reuse.ktable.source.topics", "merge.repartition.topics", "single.store.self.join")
_APPLICATION_ID = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,200}")
_APPLICATION_SERVER = re.compile(r"(.+):([0-9]{1,5})")


def _check_optimization(value: str) -> str:
    if value not in ("none", "all") and not all(part.strip() in _OPTIMIZATIONS for part in value.split(",")):
        raise ValueError
    return value


def _check_guarantee(value: str) -> str:
    if value in ("exactly_once", "exactly_once_beta"):
        raise ValueError(f"'{value}' was removed in Kafka 4.0: write exactly_once_v2")
    if value not in (AT_LEAST_ONCE, EXACTLY_ONCE_V2):
        raise ValueError
    return value


_GREATEST_PORT = 65_535
_SERVER = re.compile(r"(?:[A-Za-z_]+://)?(?:\[[0-9A-Fa-f:.%]+\]|[0-9A-Za-z._%-]+):[0-9]{1,5}")


def _check_servers(value: tuple[str, ...]) -> tuple[str, ...]:
    if not value:
        raise ValueError
    for server in value:
        if not _SERVER.fullmatch(server) or int(server.rpartition(":")[2]) > _GREATEST_PORT:
            raise ValueError(f"'{server}' is not host:port")
    return tuple(dict.fromkeys(value))


def _check_application_id(value: str) -> str:
    if not _APPLICATION_ID.fullmatch(value):
        raise ValueError
    return value


def _check_application_server(value: str) -> str:
    # a port that no host has would end the member as it joins, where it is told in 16 bits
    if value and (not _APPLICATION_SERVER.fullmatch(value) or int(value.rpartition(":")[2]) > _GREATEST_PORT):
        raise ValueError
    return value


def _check_replication(value: int) -> int:
    if value != -1 and not 1 <= value <= 32767:
        raise ValueError
    return value


def _check_tags(value: tuple[str, ...]) -> tuple[str, ...]:
    if len(value) > 5:
        raise ValueError
    return value


_UPGRADE_FROM = one_of(
    *("2.4", "2.5", "2.6", "2.7", "2.8", "3.0", "3.1", "3.2", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9"),
    *("4.0", "4.1", "4.2", "4.3"),
)
_NOT_YET_QUERY = "Interactive queries are not in this version."

STREAMS_KEYS: Final[tuple[ConfigKey, ...]] = (
    ConfigKey(
        "acceptable.recovery.lag", _LONG, "10000", _MEDIUM,
        "Records by which a task's state may lag behind its changelog and still count as caught up.",
        at_least(0),
    ),
    ConfigKey(
        "allow.os.group.write.access", _BOOLEAN, "false", _LOW,
        "Let the operating system's group write in the state directory.",
        support=_NO_EFFECT, note="Directories get the process's own umask.",
    ),
    ConfigKey(
        "application.id", _STRING, None, _HIGH,
        "Name of the application: its consumer group, the prefix of its internal topics and its state directory.",
        Validator("1 to 200 ASCII letters, digits, '.', '_' or '-'", _check_application_id), required=True,
    ),
    ConfigKey(
        "application.server", _STRING, "", _LOW,
        "host:port under which other instances reach this one's state.",
        Validator("empty or host:port", _check_application_server),
    ),
    ConfigKey(
        "bootstrap.servers", _LIST, None, _HIGH,
        "Brokers to connect to first, as host:port.",
        Validator("one or more host:port, separated by commas", _check_servers), required=True,
    ),
    ConfigKey(
        "buffered.records.per.partition", _INT, "1000", _LOW,
        "Records of one partition that a task holds in memory before the partition is paused.",
        at_least(1),
    ),
    ConfigKey(
        "built.in.metrics.version", _STRING, "latest", _LOW, "Version of the built-in metrics.", one_of("latest")
    ),
    ConfigKey(
        "cache.max.bytes.buffering", _LONG, "10485760", _MEDIUM,
        "Old name of statestore.cache.max.bytes, which wins when both are set.",
        at_least(0),
    ),
    ConfigKey(
        "client.id", _STRING, "", _MEDIUM,
        "Prefix of the clients' ids; empty for the application id with the process id.",
    ),
    ConfigKey(
        "commit.interval.ms", _LONG, "30000", _LOW,
        "Milliseconds between commits. Under exactly_once_v2 the default is 100, and it may not exceed the producer's "
        "transaction.timeout.ms.",
        at_least(0),
    ),
    ConfigKey(
        "config.providers", _LIST, "", _LOW,
        "Aliases of classes that resolve ${...} in values.",
        support=_REFUSED, note="Values are taken literally. Give secrets by environment variables instead.",
    ),
    ConfigKey(
        "connections.max.idle.ms", _LONG, "540000", _LOW,
        "Milliseconds after which an unused connection is closed; handed to the clients when it is set.",
    ),
    ConfigKey(
        "default.client.supplier", _CLASS,
        "org.apache.kafka.streams.processor.internals.DefaultKafkaClientSupplier", _LOW,
        "Class that makes the clients.",
        support=_REFUSED, note="The clients are built in.", classes=class_names.CLIENT_SUPPLIERS,
    ),
    ConfigKey(
        "default.deserialization.exception.handler", _CLASS,
        "org.apache.kafka.streams.errors.LogAndFailExceptionHandler", _MEDIUM,
        "Old name of deserialization.exception.handler, which wins when both are set.",
        classes=class_names.DESERIALIZATION_HANDLERS,
    ),
    ConfigKey(
        "default.dsl.store", _STRING, "rocksDB", _LOW,
        "Where stores of the DSL keep their rows when the topology does not say.",
        one_of("rocksDB", "in_memory"),
    ),
    ConfigKey(
        "default.interactive.query.isolation.level", _STRING, "READ_UNCOMMITTED", _LOW,
        "Whether queries see writes that are not committed yet.",
        one_of("READ_UNCOMMITTED", "READ_COMMITTED", case_insensitive=True),
        support=_NO_EFFECT, note=_NOT_YET_QUERY,
    ),
    ConfigKey(
        "default.key.serde", _CLASS, None, _MEDIUM,
        "Serde of keys where the topology gives none.",
        classes=class_names.SERDES,
    ),
    ConfigKey(
        "default.list.key.serde.inner", _CLASS, None, _MEDIUM,
        "Serde of the elements, where default.key.serde is the list serde.",
        classes=class_names.SERDES,
    ),
    ConfigKey(
        "default.list.key.serde.type", _CLASS, None, _MEDIUM,
        "Class of the lists, where default.key.serde is the list serde.",
        note="builtins:list, builtins:tuple, or a class that takes an iterable.", classes=class_names.LIST_CLASSES,
    ),
    ConfigKey(
        "default.list.value.serde.inner", _CLASS, None, _MEDIUM,
        "Serde of the elements, where default.value.serde is the list serde.",
        classes=class_names.SERDES,
    ),
    ConfigKey(
        "default.list.value.serde.type", _CLASS, None, _MEDIUM,
        "Class of the lists, where default.value.serde is the list serde.",
        note="builtins:list, builtins:tuple, or a class that takes an iterable.", classes=class_names.LIST_CLASSES,
    ),
    ConfigKey(
        "default.production.exception.handler", _CLASS,
        "org.apache.kafka.streams.errors.DefaultProductionExceptionHandler", _MEDIUM,
        "Old name of production.exception.handler, which wins when both are set.",
        classes=class_names.PRODUCTION_HANDLERS,
    ),
    ConfigKey(
        "default.timestamp.extractor", _CLASS, "org.apache.kafka.streams.processor.FailOnInvalidTimestamp", _MEDIUM,
        "Gives source records their time where the topology names no extractor.",
        classes=class_names.TIMESTAMP_EXTRACTORS,
    ),
    ConfigKey(
        "default.value.serde", _CLASS, None, _MEDIUM,
        "Serde of values where the topology gives none.",
        classes=class_names.SERDES,
    ),
    ConfigKey(
        "deserialization.exception.handler", _CLASS,
        "org.apache.kafka.streams.errors.LogAndFailExceptionHandler", _MEDIUM,
        "Decides what happens to a record whose key or value cannot be decoded.",
        classes=class_names.DESERIALIZATION_HANDLERS,
    ),
    ConfigKey(
        "dsl.store.format", _STRING, "DEFAULT", _LOW,
        "Format of the DSL's stores; HEADERS gives those in RocksDB room for record headers (KIP-1285).",
        one_of("DEFAULT", "HEADERS", case_insensitive=True),
    ),
    ConfigKey(
        "dsl.store.suppliers.class", _CLASS,
        "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$RocksDBDslStoreSuppliers", _LOW,
        "Supplies the DSL's stores; goes over default.dsl.store when set. A built-in one, or module:Class of your own.",
        classes=class_names.DSL_STORE_SUPPLIERS,
    ),
    ConfigKey(
        "enable.metrics.push", _BOOLEAN, "true", _LOW,
        "Let brokers collect the clients' metrics (KIP-714).",
        note="The clients' own metrics only.",
    ),
    ConfigKey(
        "enable.transactional.statestores", _BOOLEAN, "false", _LOW,
        "Keep uncommitted writes out of the stores.",
        note="Stores always do, whatever is set.",
    ),
    ConfigKey(
        "ensure.explicit.internal.resource.naming", _BOOLEAN, "false", _HIGH,
        "Refuse a topology whose internal topics or stores have generated names.",
        note="As in Java, it counts where it is given to StreamsBuilder.",
    ),
    ConfigKey(
        "errors.dead.letter.queue.topic.name", _STRING, None, _MEDIUM,
        "Topic to which the built-in handlers send the input record of what failed.",
    ),
    ConfigKey(
        "group.protocol", _STRING, "classic", _MEDIUM,
        "Who assigns tasks: classic, a member of the group; streams, the brokers (KIP-1071), from Kafka 4.2 on.",
        one_of("classic", "streams", case_insensitive=True),
    ),
    ConfigKey(
        "log.summary.interval.ms", _LONG, "120000", _LOW,
        "Milliseconds between summary lines in the log.",
        support=_NO_EFFECT, note="No summary lines are written in this version.",
    ),
    ConfigKey(
        "max.task.idle.ms", _LONG, "0", _MEDIUM,
        "How long a task waits for an empty partition before it goes on with the others: -1 never, 0 only for records "
        "known to be there, more for that many milliseconds in addition.",
        at_least(-1),
    ),
    ConfigKey(
        "max.warmup.replicas", _INT, "2", _MEDIUM,
        "Greatest number of extra replicas that restore a task's state before it moves.",
        at_least(1),
    ),
    ConfigKey(
        "metadata.cluster.check.enable", _BOOLEAN, "true", _LOW,
        "Check that metadata comes from the right cluster.",
        support=_NO_EFFECT, note="The clients have no such check.",
    ),
    ConfigKey(
        "metadata.max.age.ms", _LONG, "300000", _LOW,
        "Milliseconds after which metadata is fetched anew; handed to the clients when it is set.",
        at_least(0),
    ),
    ConfigKey(
        "metadata.recovery.rebootstrap.trigger.ms", _LONG, "300000", _LOW,
        "Milliseconds without metadata after which a client starts from bootstrap.servers again.",
        at_least(0), support=_NO_EFFECT,
        note="bootstrap.servers are tried again as soon as no broker that is known can be reached.",
    ),
    ConfigKey(
        "metadata.recovery.strategy", _STRING, "rebootstrap", _LOW,
        "What a client does when none of the brokers it knows can be reached.",
        one_of("rebootstrap", "none", case_insensitive=True),
    ),
    ConfigKey(
        "metric.reporters", _LIST, "org.apache.kafka.common.metrics.JmxReporter", _LOW,
        "Classes that report metrics.",
        support=_NO_EFFECT, note="Java's reporters cannot run here.",
    ),
    ConfigKey(
        "metrics.num.samples", _INT, "2", _LOW, "Samples that rates, averages and maxima are computed from.",
        at_least(1),
    ),
    ConfigKey(
        "metrics.recording.level", _STRING, "INFO", _LOW, "Greatest level of metrics that are recorded.",
        one_of("INFO", "DEBUG", "TRACE"),
    ),
    ConfigKey(
        "metrics.sample.window.ms", _LONG, "30000", _LOW, "Milliseconds of one sample.",
        at_least(0),
    ),
    ConfigKey(
        "num.standby.replicas", _INT, "0", _HIGH,
        "Copies of each task's state kept ready on other instances.",
        at_least(0),
    ),
    ConfigKey(
        "num.stream.threads", _INT, "1", _MEDIUM,
        "Threads that process tasks. More processes, not threads, use more cores.",
        at_least(1),
    ),
    ConfigKey("poll.ms", _LONG, "100", _LOW, "Milliseconds a thread waits for new records.", at_least(0)),
    ConfigKey(
        "probing.rebalance.interval.ms", _LONG, "600000", _LOW,
        "Milliseconds between rebalances that look whether a warm-up has caught up.",
        at_least(60000),
    ),
    ConfigKey(
        "processing.exception.handler", _CLASS,
        "org.apache.kafka.streams.errors.LogAndFailProcessingExceptionHandler", _MEDIUM,
        "Decides what happens when user code raises.",
        classes=class_names.PROCESSING_HANDLERS,
    ),
    ConfigKey(
        "processing.exception.handler.global.enabled", _BOOLEAN, "false", _HIGH,
        "Ask the processing handler about errors in global stores, too.",
    ),
    ConfigKey(
        "processing.guarantee", _STRING, AT_LEAST_ONCE, _MEDIUM,
        "at_least_once, or exactly_once_v2 for one transaction per commit over outputs, state and offsets.",
        Validator("one of at_least_once, exactly_once_v2", _check_guarantee),
    ),
    ConfigKey(
        "processor.wrapper.class", _CLASS, "org.apache.kafka.streams.processor.internals.NoOpProcessorWrapper", _LOW,
        "Class that wraps every processor.",
        note="Counts when it is given to StreamsBuilder or Topology.", classes=class_names.PROCESSOR_WRAPPERS,
    ),
    ConfigKey(
        "production.exception.handler", _CLASS,
        "org.apache.kafka.streams.errors.DefaultProductionExceptionHandler", _MEDIUM,
        "Decides what happens to a record that cannot be encoded or sent.",
        classes=class_names.PRODUCTION_HANDLERS,
    ),
    ConfigKey(
        "rack.aware.assignment.non_overlap_cost", _INT, None, _LOW,
        "Cost of moving a task with state, against traffic_cost.",
        note="1; 10 with StickyTaskAssignor.",
    ),
    ConfigKey(
        "rack.aware.assignment.strategy", _STRING, "none", _LOW, "How racks count when tasks are placed.",
        one_of("none", "min_traffic", "balance_subtopology"),
        note="Needs client.rack on every instance and broker.rack on every broker. The leader's value counts.",
    ),
    ConfigKey(
        "rack.aware.assignment.tags", _LIST, "", _LOW,
        "Client tags in which a task and its standbys should differ.",
        Validator("a list of at most 5 tags", _check_tags),
    ),
    ConfigKey(
        "rack.aware.assignment.traffic_cost", _INT, None, _LOW, "Cost of reading a partition across racks.",
        note="10; 1 with StickyTaskAssignor.",
    ),
    ConfigKey(
        "receive.buffer.bytes", _INT, "32768", _LOW,
        "Size of a socket's receive buffer, -1 for the system's; handed to the clients when it is set.",
        at_least(-1),
    ),
    ConfigKey(
        "reconnect.backoff.max.ms", _LONG, "1000", _LOW,
        "Longest pause before connecting to a broker again, in milliseconds.",
        at_least(0),
    ),
    ConfigKey(
        "reconnect.backoff.ms", _LONG, "50", _LOW,
        "First pause before connecting to a broker again, in milliseconds.",
        at_least(0),
    ),
    ConfigKey(
        "repartition.purge.interval.ms", _LONG, "30000", _LOW,
        "Milliseconds between deletions of consumed records from repartition topics; they happen at a commit.",
        at_least(0),
    ),
    ConfigKey(
        "replication.factor", _INT, "-1", _MEDIUM,
        "Replicas of internal topics; -1 for the brokers' default.",
        Validator("-1, or a number from 1 to 32767", _check_replication),
    ),
    ConfigKey(
        "request.timeout.ms", _INT, "40000", _LOW,
        "Milliseconds to wait for a broker's answer; handed to the clients when it is set.",
        at_least(0),
    ),
    ConfigKey(
        "retry.backoff.ms", _LONG, "100", _LOW,
        "Pause before a failed request is sent again, in milliseconds.",
        at_least(0), note="Unless it is set the clients use 5 ms, which commits of transactions need.",
    ),
    ConfigKey(
        "rocksdb.config.setter", _CLASS, None, _LOW, "Class that tunes RocksDB.",
        support=_NO_EFFECT, note="RocksDB runs with built-in options in this version.",
    ),
    ConfigKey(
        "security.protocol", _STRING, "PLAINTEXT", _MEDIUM, "How to talk to the brokers.",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", case_insensitive=True),
    ),
    ConfigKey(
        "send.buffer.bytes", _INT, "131072", _LOW,
        "Size of a socket's send buffer, -1 for the system's; handed to the clients when it is set.",
        at_least(-1),
    ),
    ConfigKey(
        "state.cleanup.delay.ms", _LONG, "600000", _LOW,
        "Milliseconds after which the directory of a task that moved away is deleted.",
        at_least(1),
    ),
    ConfigKey(
        "state.cleanup.dir.max.age.ms", _LONG, "-1", _LOW,
        "Age in milliseconds at which a task directory is deleted at the start; -1 for never.",
    ),
    ConfigKey(
        "state.dir", _STRING, "${java.io.tmpdir}/kafka-streams", _HIGH,
        "Directory of local state. The default lies in the system's directory for temporary files.",
    ),
    ConfigKey(
        "statestore.cache.max.bytes", _LONG, "10485760", _MEDIUM,
        "Memory for record caches, over all threads, in bytes; 0 forwards every update.",
        at_least(0),
    ),
    ConfigKey(
        "statestore.uncommitted.max.bytes", _LONG, "67108864", _LOW,
        "Memory for writes that are not committed yet; reaching it commits early. -1 for no limit.",
        at_least(-1),
    ),
    ConfigKey(
        "task.assignor.class", _STRING, None, _MEDIUM,
        "How tasks are placed.",
        note="HighAvailabilityTaskAssignor, the default, or StickyTaskAssignor. Tasks stay where they run as far as "
        "balance allows.",
        classes=class_names.TASK_ASSIGNORS,
    ),
    ConfigKey(
        "task.timeout.ms", _LONG, "300000", _MEDIUM,
        "Milliseconds a task may stall on timeouts before they become an error.",
        at_least(0),
    ),
    ConfigKey(
        "topology.description.push.enabled", _BOOLEAN, "true", _MEDIUM,
        "Send the topology's description to the group coordinator.",
        note="Under group.protocol=streams, to brokers that ask for it.",
    ),
    ConfigKey(
        "topology.optimization", _STRING, "none", _MEDIUM,
        "Optimizations of the DSL's topology.",
        Validator(f"none, all, or a list of {', '.join(_OPTIMIZATIONS)}", _check_optimization),
        note="As in Java, it counts where it is given to StreamsBuilder.build.",
    ),
    ConfigKey(
        "upgrade.from", _STRING, None, _LOW,
        "Version of the Java library from which a rolling upgrade starts.",
        _UPGRADE_FROM,
    ),
    ConfigKey(
        "window.size.ms", _LONG, None, _LOW, "Window size that windowed deserializers assume.",
    ),
    ConfigKey(
        "windowed.inner.class.serde", _STRING, None, _LOW, "Serde inside windowed serdes.",
    ),
    ConfigKey(
        "windowstore.changelog.additional.retention.ms", _LONG, "86400000", _LOW,
        "Milliseconds by which a window store's changelog is kept longer than the store.",
    ),
)  # fmt: skip


class KeyNames:
    """Names of the settings under the Java library's constants."""

    ACCEPTABLE_RECOVERY_LAG_CONFIG: Final = "acceptable.recovery.lag"
    ALLOW_OS_GROUP_WRITE_ACCESS_CONFIG: Final = "allow.os.group.write.access"
    APPLICATION_ID_CONFIG: Final = "application.id"
    APPLICATION_SERVER_CONFIG: Final = "application.server"
    BOOTSTRAP_SERVERS_CONFIG: Final = "bootstrap.servers"
    BUFFERED_RECORDS_PER_PARTITION_CONFIG: Final = "buffered.records.per.partition"
    BUILT_IN_METRICS_VERSION_CONFIG: Final = "built.in.metrics.version"
    CACHE_MAX_BYTES_BUFFERING_CONFIG: Final = "cache.max.bytes.buffering"
    CLIENT_ID_CONFIG: Final = "client.id"
    COMMIT_INTERVAL_MS_CONFIG: Final = "commit.interval.ms"
    CONFIG_PROVIDERS_CONFIG: Final = "config.providers"
    CONNECTIONS_MAX_IDLE_MS_CONFIG: Final = "connections.max.idle.ms"
    DEFAULT_CLIENT_SUPPLIER_CONFIG: Final = "default.client.supplier"
    DEFAULT_DESERIALIZATION_EXCEPTION_HANDLER_CLASS_CONFIG: Final = "default.deserialization.exception.handler"
    DEFAULT_DSL_STORE_CONFIG: Final = "default.dsl.store"
    DEFAULT_INTERACTIVE_QUERY_ISOLATION_LEVEL_CONFIG: Final = "default.interactive.query.isolation.level"
    DEFAULT_KEY_SERDE_CLASS_CONFIG: Final = "default.key.serde"
    DEFAULT_LIST_KEY_SERDE_INNER_CONFIG: Final = "default.list.key.serde.inner"
    DEFAULT_LIST_KEY_SERDE_TYPE_CONFIG: Final = "default.list.key.serde.type"
    DEFAULT_LIST_VALUE_SERDE_INNER_CONFIG: Final = "default.list.value.serde.inner"
    DEFAULT_LIST_VALUE_SERDE_TYPE_CONFIG: Final = "default.list.value.serde.type"
    DEFAULT_PRODUCTION_EXCEPTION_HANDLER_CLASS_CONFIG: Final = "default.production.exception.handler"
    DEFAULT_TIMESTAMP_EXTRACTOR_CLASS_CONFIG: Final = "default.timestamp.extractor"
    DEFAULT_VALUE_SERDE_CLASS_CONFIG: Final = "default.value.serde"
    DESERIALIZATION_EXCEPTION_HANDLER_CLASS_CONFIG: Final = "deserialization.exception.handler"
    DSL_STORE_FORMAT_CONFIG: Final = "dsl.store.format"
    DSL_STORE_SUPPLIERS_CLASS_CONFIG: Final = "dsl.store.suppliers.class"
    ENABLE_METRICS_PUSH_CONFIG: Final = "enable.metrics.push"
    TRANSACTIONAL_STATE_STORES_CONFIG: Final = "enable.transactional.statestores"
    ENSURE_EXPLICIT_INTERNAL_RESOURCE_NAMING_CONFIG: Final = "ensure.explicit.internal.resource.naming"
    ERRORS_DEAD_LETTER_QUEUE_TOPIC_NAME_CONFIG: Final = "errors.dead.letter.queue.topic.name"
    GROUP_PROTOCOL_CONFIG: Final = "group.protocol"
    LOG_SUMMARY_INTERVAL_MS_CONFIG: Final = "log.summary.interval.ms"
    MAX_TASK_IDLE_MS_CONFIG: Final = "max.task.idle.ms"
    MAX_WARMUP_REPLICAS_CONFIG: Final = "max.warmup.replicas"
    METADATA_CLUSTER_CHECK_ENABLE_CONFIG: Final = "metadata.cluster.check.enable"
    METADATA_MAX_AGE_CONFIG: Final = "metadata.max.age.ms"
    METADATA_RECOVERY_REBOOTSTRAP_TRIGGER_MS_CONFIG: Final = "metadata.recovery.rebootstrap.trigger.ms"
    METADATA_RECOVERY_STRATEGY_CONFIG: Final = "metadata.recovery.strategy"
    METRIC_REPORTER_CLASSES_CONFIG: Final = "metric.reporters"
    METRICS_NUM_SAMPLES_CONFIG: Final = "metrics.num.samples"
    METRICS_RECORDING_LEVEL_CONFIG: Final = "metrics.recording.level"
    METRICS_SAMPLE_WINDOW_MS_CONFIG: Final = "metrics.sample.window.ms"
    NUM_STANDBY_REPLICAS_CONFIG: Final = "num.standby.replicas"
    NUM_STREAM_THREADS_CONFIG: Final = "num.stream.threads"
    POLL_MS_CONFIG: Final = "poll.ms"
    PROBING_REBALANCE_INTERVAL_MS_CONFIG: Final = "probing.rebalance.interval.ms"
    PROCESSING_EXCEPTION_HANDLER_CLASS_CONFIG: Final = "processing.exception.handler"
    PROCESSING_EXCEPTION_HANDLER_GLOBAL_ENABLED_CONFIG: Final = "processing.exception.handler.global.enabled"
    PROCESSING_GUARANTEE_CONFIG: Final = "processing.guarantee"
    PROCESSOR_WRAPPER_CLASS_CONFIG: Final = "processor.wrapper.class"
    PRODUCTION_EXCEPTION_HANDLER_CLASS_CONFIG: Final = "production.exception.handler"
    RACK_AWARE_ASSIGNMENT_NON_OVERLAP_COST_CONFIG: Final = "rack.aware.assignment.non_overlap_cost"
    RACK_AWARE_ASSIGNMENT_STRATEGY_CONFIG: Final = "rack.aware.assignment.strategy"
    RACK_AWARE_ASSIGNMENT_TAGS_CONFIG: Final = "rack.aware.assignment.tags"
    RACK_AWARE_ASSIGNMENT_TRAFFIC_COST_CONFIG: Final = "rack.aware.assignment.traffic_cost"
    RECEIVE_BUFFER_CONFIG: Final = "receive.buffer.bytes"
    RECONNECT_BACKOFF_MAX_MS_CONFIG: Final = "reconnect.backoff.max.ms"
    RECONNECT_BACKOFF_MS_CONFIG: Final = "reconnect.backoff.ms"
    REPARTITION_PURGE_INTERVAL_MS_CONFIG: Final = "repartition.purge.interval.ms"
    REPLICATION_FACTOR_CONFIG: Final = "replication.factor"
    REQUEST_TIMEOUT_MS_CONFIG: Final = "request.timeout.ms"
    RETRY_BACKOFF_MS_CONFIG: Final = "retry.backoff.ms"
    ROCKSDB_CONFIG_SETTER_CLASS_CONFIG: Final = "rocksdb.config.setter"
    SECURITY_PROTOCOL_CONFIG: Final = "security.protocol"
    SEND_BUFFER_CONFIG: Final = "send.buffer.bytes"
    STATE_CLEANUP_DELAY_MS_CONFIG: Final = "state.cleanup.delay.ms"
    STATE_CLEANUP_DIR_MAX_AGE_MS_CONFIG: Final = "state.cleanup.dir.max.age.ms"
    STATE_DIR_CONFIG: Final = "state.dir"
    STATESTORE_CACHE_MAX_BYTES_CONFIG: Final = "statestore.cache.max.bytes"
    STATESTORE_UNCOMMITTED_MAX_BYTES_CONFIG: Final = "statestore.uncommitted.max.bytes"
    TASK_ASSIGNOR_CLASS_CONFIG: Final = "task.assignor.class"
    TASK_TIMEOUT_MS_CONFIG: Final = "task.timeout.ms"
    TOPOLOGY_DESCRIPTION_PUSH_ENABLED_CONFIG: Final = "topology.description.push.enabled"
    TOPOLOGY_OPTIMIZATION_CONFIG: Final = "topology.optimization"
    UPGRADE_FROM_CONFIG: Final = "upgrade.from"
    WINDOW_SIZE_MS_CONFIG: Final = "window.size.ms"
    WINDOWED_INNER_CLASS_SERDE: Final = "windowed.inner.class.serde"
    WINDOW_STORE_CHANGE_LOG_ADDITIONAL_RETENTION_MS_CONFIG: Final = "windowstore.changelog.additional.retention.ms"

    AT_LEAST_ONCE: Final = AT_LEAST_ONCE
    EXACTLY_ONCE_V2: Final = EXACTLY_ONCE_V2
    CONSUMER_PREFIX: Final = "consumer."
    MAIN_CONSUMER_PREFIX: Final = "main.consumer."
    RESTORE_CONSUMER_PREFIX: Final = "restore.consumer."
    GLOBAL_CONSUMER_PREFIX: Final = "global.consumer."
    PRODUCER_PREFIX: Final = "producer."
    ADMIN_CLIENT_PREFIX: Final = "admin."
    TOPIC_PREFIX: Final = "topic."
    CLIENT_TAG_PREFIX: Final = "client.tag."
