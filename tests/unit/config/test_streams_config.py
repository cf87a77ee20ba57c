from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

from headrace.config import (
    STREAMS_KEYS,
    ConfigKey,
    ConfigType,
    Importance,
    StreamsConfig,
    Support,
    at_least,
    java_client_configs,
)
from headrace.config.definition import java_text
from headrace.config.docs import configuration_page
from headrace.config.keys import KeyNames
from headrace.config.own_keys import OWN_KEYS
from headrace.errors import ConfigException
from headrace.records import HostInfo

ROOT = Path(__file__).parents[3]
VECTORS = json.loads((ROOT / "conformance" / "vectors.json").read_text("utf-8"))
JAVA_CLIENTS = json.loads((Path(__file__).parent / "java_clients.json").read_text("utf-8"))
ROWS = {key.name: key for key in STREAMS_KEYS}
BASE = {"application.id": "app", "bootstrap.servers": "b:1"}
SERDES = "org.apache.kafka.common.serialization.Serdes$"
OWN_KEY = ConfigKey("my.own.limit", ConfigType.INT, "3", Importance.LOW, "A limit.", at_least(0))


def config(values: dict[str, Any] | None = None, **kwargs: Any) -> StreamsConfig:
    return StreamsConfig({**BASE, **(values or {})}, **kwargs)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "headrace.config"]


def test_every_java_key_is_a_row_and_a_constant() -> None:
    assert set(ROWS) == set(VECTORS["streams_config"])
    assert len(ROWS) == len(STREAMS_KEYS)
    constants = {v for k, v in vars(KeyNames).items() if k.isupper() and not k.endswith("_PREFIX")}
    assert constants - {"at_least_once", "exactly_once_v2"} == set(ROWS)
    assert StreamsConfig.APPLICATION_ID_CONFIG == "application.id"


@pytest.mark.parametrize("name", sorted(VECTORS["streams_config"]))
def test_type_importance_and_default_are_the_java_librarys(name: str) -> None:
    expected = VECTORS["streams_config"][name]
    row = ROWS[name]
    assert row.type.name == expected["type"]
    assert row.importance.name == expected["importance"]
    assert row.required == expected.get("required", False)
    if not row.required:
        default = tuple(filter(None, (row.default or "").split(","))) if row.type is ConfigType.LIST else row.default
        assert (None if default is None else java_text(default)) == expected["default"]
    assert row.doc
    assert row.support is Support.FULL or row.note


def test_defaults_are_typed() -> None:
    c = config()
    assert (c.num_stream_threads, c.commit_interval_ms, c.poll_ms, c.max_task_idle_ms) == (1, 30000, 100, 0)
    assert (c.cache_max_bytes, c.uncommitted_max_bytes, c.replication_factor) == (10485760, 67108864, -1)
    assert (c.exactly_once, c["default.dsl.store"], c.auto_offset_reset.value, c.max_poll_records) == (
        False,
        "rocksDB",
        "earliest",
        1000,
    )
    assert c.state_dir == Path(tempfile.gettempdir()) / "kafka-streams"
    assert c["default.key.serde"] is None
    assert c["default.timestamp.extractor"] == "headrace.api.timestamps:FailOnInvalidTimestamp"
    assert c["processing.exception.handler"] == "headrace.api.handlers:LogAndFailProcessingExceptionHandler"
    assert c["production.exception.handler"] == "headrace.api.handlers:DefaultProductionExceptionHandler"
    assert c["config.providers"] == ()
    assert c["enable.metrics.push"] is True


@pytest.mark.parametrize("missing", ["application.id", "bootstrap.servers"])
def test_required_keys(missing: str) -> None:
    with pytest.raises(ConfigException, match=f"'{missing}' is missing"):
        StreamsConfig({k: v for k, v in BASE.items() if k != missing})


@pytest.mark.parametrize(
    ("key", "value", "effective"),
    [
        ("commit.interval.ms", " 5 ", 5),
        ("commit.interval.ms", "+5", 5),
        ("commit.interval.ms", 5, 5),
        ("enable.metrics.push", "TRUE", True),
        ("enable.metrics.push", False, False),
        ("bootstrap.servers", "a:1 , b:1,a:1", ("a:1", "b:1")),
        ("bootstrap.servers", ["a:1", "b:1"], ("a:1", "b:1")),
        ("statestore.uncommitted.max.bytes", "-1", -1),
        ("group.protocol", "CLASSIC", "classic"),
        ("security.protocol", "plaintext", "PLAINTEXT"),
        ("default.interactive.query.isolation.level", "read_committed", "READ_COMMITTED"),
        ("upgrade.from", "4.3", "4.3"),
        ("client.id", " x ", "x"),
        (
            "default.key.serde",
            "org.apache.kafka.common.serialization.Serdes$StringSerde",
            "headrace.serdes:StringSerde",
        ),
        ("default.value.serde", "my.serdes:Purchase", "my.serdes:Purchase"),
        ("default.value.serde", int, int),
        (
            "processing.exception.handler",
            "org.apache.kafka.streams.errors.LogAndContinueProcessingExceptionHandler",
            "headrace.api.handlers:LogAndContinueProcessingExceptionHandler",
        ),
        (
            "default.timestamp.extractor",
            "org.apache.kafka.streams.processor.WallclockTimestampExtractor",
            "headrace.api.timestamps:WallclockTimestampExtractor",
        ),
        (
            "task.assignor.class",
            "org.apache.kafka.streams.processor.assignment.assignors.StickyTaskAssignor",
            "headrace.assignment:StickyTaskAssignor",
        ),
    ],
)
def test_values_are_read_as_java_reads_them(key: str, value: Any, effective: Any) -> None:
    assert config({key: value})[key] == effective


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("commit.interval.ms", "5L", "a number of at least 0"),
        ("commit.interval.ms", "1_0", "a number of at least 0"),
        ("commit.interval.ms", "٣", "a number of at least 0"),
        ("commit.interval.ms", "-1", "a number of at least 0"),
        ("commit.interval.ms", "", "a number of at least 0"),
        ("commit.interval.ms", str(2**63), "a number of at least 0"),
        ("commit.interval.ms", True, "a number of at least 0"),
        ("commit.interval.ms", 1.5, "a number of at least 0"),
        ("num.stream.threads", "2.0", "a number of at least 1"),
        ("num.stream.threads", 2**31, "a number of at least 1"),
        ("log.summary.interval.ms", "x", "a whole number of 64 bits"),
        ("enable.metrics.push", "yes", "true or false"),
        ("bootstrap.servers", "", "one or more host:port"),
        ("bootstrap.servers", "a:1, ,b:1", "one or more host:port"),
        ("default.dsl.store", "ROCKSDB", "one of rocksDB, in_memory"),
        ("metrics.recording.level", "debug", "one of INFO, DEBUG, TRACE"),
        ("processing.guarantee", "EXACTLY_ONCE_V2", "one of at_least_once, exactly_once_v2"),
        ("processing.guarantee", "exactly_once", "write exactly_once_v2"),
        ("processing.guarantee", "exactly_once_beta", "write exactly_once_v2"),
        ("statestore.uncommitted.max.bytes", "-2", "at least -1"),
        ("replication.factor", "0", "-1, or a number from 1 to 32767"),
        ("topology.optimization", "none,merge.repartition.topics", "none, all, or a list"),
        ("probing.rebalance.interval.ms", "59999", "at least 60000"),
        ("application.id", "a/b", "ASCII letters"),
        ("application.id", "..", "ASCII letters"),
        ("application.server", "host", "host:port"),
        ("application.server", "host:65536", "host:port"),
        ("client.id", 5, "text"),
        ("default.key.serde", "com.example.MySerde", "a Python 'module:attribute', or one of"),
        ("deserialization.exception.handler", "com.example.Mine", "LogAndContinueExceptionHandler"),
        ("default.key.serde", 5, "module:attribute"),
        ("auto.offset.reset", "bogus", "earliest, latest, none or by_duration"),
        ("consumer.session.timeout.ms", "abc", "a number of at least 1"),
        ("producer.acks", "2", "one of all, -1, 0, 1"),
    ],
)
def test_a_bad_value_names_key_value_and_what_is_allowed(key: str, value: Any, allowed: str) -> None:
    with pytest.raises(ConfigException) as error:
        config({key: value})
    assert f"'{key}'" in str(error.value)
    assert repr(value) in str(error.value)
    assert allowed in str(error.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("config.providers", "file"),
        ("default.client.supplier", "my.module:Supplier"),
        ("partitioner.class", "org.apache.kafka.clients.producer.RoundRobinPartitioner"),
        ("producer.interceptor.classes", "a.B"),
        ("consumer.ssl.engine.factory.class", "my:Factory"),
        ("sasl.oauthbearer.assertion.file", "/x"),
    ],
)
def test_what_would_change_results_is_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigException, match=f"'{key}'") as error:
        config({key: value})
    assert "this version" in str(error.value) or "must be" in str(error.value)


def test_a_task_assignor_of_ones_own_is_refused() -> None:
    with pytest.raises(ConfigException, match="HighAvailabilityTaskAssignor, the default, and StickyTaskAssignor"):
        config({"task.assignor.class": "my.module:Assignor"})


def test_every_tag_that_counts_is_a_client_tag() -> None:
    assert config({"rack.aware.assignment.tags": "zone", "client.tag.zone": "a"}).client_tags == {"zone": "a"}
    with pytest.raises(ConfigException, match=r"'client\.tag\.rack' is not set"):
        config({"rack.aware.assignment.tags": "zone,rack", "client.tag.zone": "a"})
    with pytest.raises(ConfigException, match="at most 30"):
        config({"client.tag.zone": "a" * 31})


def test_a_refused_or_idle_key_at_its_default_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    defaults = {row.name: row.default for row in STREAMS_KEYS if not row.required and row.default is not None}
    config(defaults | {"cache.max.bytes.buffering": None})
    assert [w for w in warnings(caplog) if "are both set" not in w] == []


@pytest.mark.parametrize("row", [r for r in STREAMS_KEYS if r.support is Support.NO_EFFECT], ids=lambda r: r.name)
def test_a_key_without_effect_warns_once(row: ConfigKey, caplog: pytest.LogCaptureFixture) -> None:
    by_type = {ConfigType.BOOLEAN: not row.parse_default(), ConfigType.LIST: "x", ConfigType.CLASS: "a:b"}
    by_name = {
        "upgrade.from": "4.3",
        "metrics.recording.level": "DEBUG",
        "default.interactive.query.isolation.level": "READ_COMMITTED",
    }
    c = config({row.name: by_name.get(row.name, by_type.get(row.type, 70000))})
    c.main_consumer_config()
    assert warnings(caplog) == [f"Setting '{row.name}' has no effect. {row.note}"]


def test_under_the_streams_protocol_the_brokers_settings_are_named(caplog: pytest.LogCaptureFixture) -> None:
    c = config({"group.protocol": "streams", "main.consumer.session.timeout.ms": 9_000, "heartbeat.interval.ms": 1_000})
    assert c.streams_protocol
    assert warnings(caplog) == [
        f"Setting '{key}' has no effect under group.protocol=streams: the brokers decide; set streams.{name} of the "
        "group (kafka-configs --entity-type groups)"
        for key, name in (
            ("heartbeat.interval.ms", "heartbeat.interval.ms"),
            ("main.consumer.session.timeout.ms", "session.timeout.ms"),
        )
    ]
    caplog.clear()
    assert not config({"session.timeout.ms": 9_000}).streams_protocol
    assert warnings(caplog) == []


def test_what_a_member_says_of_itself() -> None:
    c = config({"application.server": "here:8080", "client.tag.zone": "a", "main.consumer.client.rack": "r1"})
    assert (c.application_host, c.client_tags, c.rack_id) == (HostInfo("here", 8080), {"zone": "a"}, "r1")
    c = config({})
    assert (c.application_host, c.client_tags, c.rack_id) == (None, {}, None)


def test_new_names_win_over_old_ones(caplog: pytest.LogCaptureFixture) -> None:
    assert config({"cache.max.bytes.buffering": "5"}).cache_max_bytes == 5
    assert config({"cache.max.bytes.buffering": "5"})["statestore.cache.max.bytes"] == 5
    go_on = "org.apache.kafka.streams.errors.LogAndContinueExceptionHandler"
    c = config({"default.deserialization.exception.handler": go_on, "default.production.exception.handler": "a:b"})
    assert c["deserialization.exception.handler"] == "headrace.api.handlers:LogAndContinueExceptionHandler"
    assert c["production.exception.handler"] == "a:b"
    assert warnings(caplog) == []
    both = config({"cache.max.bytes.buffering": "5", "statestore.cache.max.bytes": "0"})
    assert both.cache_max_bytes == 0
    assert warnings(caplog) == [
        (
            "Settings 'statestore.cache.max.bytes' and 'cache.max.bytes.buffering' are both set: "
            "'statestore.cache.max.bytes' holds"
        )
    ]


EXACTLY_ONCE = {"processing.guarantee": "exactly_once_v2"}


def test_commit_interval_under_exactly_once() -> None:
    assert config(EXACTLY_ONCE).commit_interval_ms == 100
    assert config({**EXACTLY_ONCE, "commit.interval.ms": "1000"}).commit_interval_ms == 1000
    with pytest.raises(ConfigException, match=r"has the value 30000.*at most 'transaction\.timeout\.ms'"):
        config({**EXACTLY_ONCE, "commit.interval.ms": "30000"})
    with pytest.raises(ConfigException, match=r"'producer\.transaction\.timeout\.ms', which is 50"):
        config({**EXACTLY_ONCE, "producer.transaction.timeout.ms": "50"})
    wide = {**EXACTLY_ONCE, "producer.transaction.timeout.ms": "50000", "commit.interval.ms": "40000"}
    assert config(wide).transaction_timeout_ms == 50000
    assert config({"commit.interval.ms": "30000"}).commit_interval_ms == 30000


def test_unknown_keys_warn_with_the_nearest_and_are_kept(caplog: pytest.LogCaptureFixture) -> None:
    c = config(
        {
            "num.stream.thread": "2",
            "consumer.max.poll.record": "5",
            "sesion.timeout.ms": "5",
            "zebra": [1],
            "topic.retention.ms": "-1",
            "client.tag.zone": "a",
            "__internal.setting__": 1,
        }
    )
    assert warnings(caplog) == [
        "Unknown setting 'num.stream.thread': did you mean 'num.stream.threads'?",
        "Unknown setting 'consumer.max.poll.record': did you mean 'consumer.max.poll.records'?",
        "Unknown setting 'sesion.timeout.ms': did you mean 'session.timeout.ms'?",
        "Unknown setting 'zebra': nothing reads it but the application itself",
    ]
    assert c["zebra"] == [1]
    assert c.get("zebra") == [1]
    assert c.get("zebr", 7) == 7
    with pytest.raises(KeyError):
        c["zebr"]
    assert c.topic_config() == {"retention.ms": "-1"}
    assert c.originals_with_prefix("client.tag.") == {"zone": "a"}


def test_an_applications_own_keys_are_typed_and_known(caplog: pytest.LogCaptureFixture) -> None:
    assert config(extra=[OWN_KEY])["my.own.limit"] == 3
    c = config({"my.own.limit": "5", "my.own.limits": "6"}, extra=[OWN_KEY])
    assert c["my.own.limit"] == 5
    assert warnings(caplog) == ["Unknown setting 'my.own.limits': did you mean 'my.own.limit'?"]
    with pytest.raises(ConfigException, match=r"'my\.own\.limit' has the value '-1'"):
        config({"my.own.limit": "-1"}, extra=[OWN_KEY])
    assert c.with_values({"my.own.limit": None, "my.own.limits": None})["my.own.limit"] == 3


def test_values_are_readable_as_a_mapping() -> None:
    c = config({"zebra": "1"})
    assert c.values()["zebra"] == "1"
    assert c.values()["poll.ms"] == 100
    assert set(c) == set(ROWS) | {row.name for row in OWN_KEYS} | {"zebra"}
    assert "poll.ms" in c
    assert not c.is_set("poll.ms")


@pytest.mark.parametrize("guarantee", sorted(VECTORS["client_configs"]))
def test_java_view_without_client_settings(guarantee: str) -> None:
    expected = dict(VECTORS["client_configs"][guarantee])
    c = config({"processing.guarantee": guarantee})
    assert c.commit_interval_ms == expected.pop("commit.interval.ms")
    assert java_client_configs(c, "CLIENT") == expected


@pytest.mark.parametrize("case", JAVA_CLIENTS, ids=lambda case: case["settings"]["processing.guarantee"])
def test_java_view_with_client_settings(case: dict[str, Any]) -> None:
    assert java_client_configs(StreamsConfig(case["settings"]), "C") == case["expected"]


def test_reference_page_is_up_to_date() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    assert page == configuration_page(), "run: python -m headrace.config.docs > docs/configuration.md"


@pytest.mark.parametrize("servers", ["foo", "a:9092,b", ":9092", "a:99999", "a:port", "http//x:1"])
def test_an_address_without_host_or_port_is_named(servers: str) -> None:
    with pytest.raises(ConfigException, match="is not host:port"):
        StreamsConfig.load({"application.id": "a", "bootstrap.servers": servers})


@pytest.mark.parametrize("servers", ["a:9092", "PLAINTEXT://a.b-c:9092,10.0.0.1:1", "[::1]:9092"])
def test_addresses_are_taken_as_java_takes_them(servers: str) -> None:
    assert StreamsConfig.load({"application.id": "a", "bootstrap.servers": servers}).bootstrap_servers == tuple(
        servers.split(",")
    )
