from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.api.options import Consumed, Materialized, Produced
from headrace.api.processor import Processor
from headrace.config import StreamsConfig
from headrace.dsl import StreamsBuilder
from headrace.errors import (
    ConfigException,
    FailedProcessingException,
    IllegalStateException,
    SerializationException,
    StreamsException,
    TopologyException,
)
from headrace.serdes import Serdes
from headrace.state.builders import Stores
from headrace.state.keyvalue import KeyValueStore, TimestampedKeyValueStore
from headrace.testing import TestRecord, TopologyTestDriver
from headrace.testing.views import KeyValueView
from headrace.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.api.record import Record

TEXT, LONG = Serdes.String(), Serdes.Long()
CONFIG = {"default.key.serde": TEXT, "default.value.serde": TEXT}


def passing() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    return builder.build()


@pytest.fixture
def driver() -> Iterator[TopologyTestDriver]:
    with TopologyTestDriver(passing(), CONFIG, initial_wall_clock_ms=1000) as made:
        yield made


def topics(driver: TopologyTestDriver, *how: Any) -> tuple[Any, Any]:
    return (
        driver.create_input_topic("in", TEXT.serializer, TEXT.serializer, *how),
        driver.create_output_topic("out", TEXT.deserializer, TEXT.deserializer),
    )


# time


def test_a_topics_time_starts_at_the_wall_clock_and_stands_still(driver: TopologyTestDriver) -> None:
    source, out = topics(driver)
    driver.advance_wall_clock_time(500)
    for _ in range(2):
        source.pipe_input("k", "v")
    assert [r.timestamp for r in out.read_records_to_list()] == [1000, 1000]
    late, _ = topics(driver)
    late.pipe_input("k", "v")
    assert out.read_record().timestamp == 1500


@pytest.mark.parametrize("advance", [10, timedelta(milliseconds=10)])
def test_auto_advance_moves_after_each_record_without_a_time(driver: TopologyTestDriver, advance: Any) -> None:
    source, out = topics(driver, 100, advance)
    source.pipe_input("k", "1")
    source.pipe_input("k", "2", 7)
    source.pipe_value("3")
    source.advance_time(timedelta(seconds=1))
    source.pipe_record(TestRecord("k", "4"))
    source.advance_time(5)
    source.pipe_record(TestRecord("k", "5", 8))
    source.pipe_input("k", "6")
    assert [r.timestamp for r in out.read_records_to_list()] == [100, 7, 110, 1120, 8, 1135]


def test_time_only_goes_forward(driver: TopologyTestDriver) -> None:
    source, _ = topics(driver)
    with pytest.raises(ValueError, match="only be advanced"):
        source.advance_time(-1)
    with pytest.raises(ValueError, match="must not be negative"):
        topics(driver, 0, -1)


def test_moments_are_milliseconds_floored_or_aware_datetimes(driver: TopologyTestDriver) -> None:
    moment = datetime(2023, 11, 14, 22, 13, 20, 5999, tzinfo=UTC)
    assert TestRecord("k", "v", moment).timestamp == 1700000000005
    assert TestRecord("k", "v", datetime(1970, 1, 1, 2, tzinfo=UTC)).timestamp == 7_200_000
    source, out = topics(driver, moment)
    source.pipe_input("k", "v")
    assert out.read_record().timestamp == 1700000000005
    with pytest.raises(ValueError, match="time zone"):
        source.pipe_input("k", "v", datetime(2023, 1, 1))  # noqa: DTZ001  # that is the point
    with pytest.raises(ValueError, match="64 bits"):
        source.pipe_input("k", "v", 2**63)
    with pytest.raises(ValueError, match="64 bits"):
        source.advance_time(2**63)
    source.advance_time(2**62)
    source.advance_time(2**62)
    with pytest.raises(ValueError, match="64 bits"):
        source.pipe_input("k", "v")
    with TopologyTestDriver(passing(), CONFIG, initial_wall_clock_ms=moment) as other:
        assert other.wall_clock_ms == 1700000000005


def test_lists_with_a_start_and_a_step(driver: TopologyTestDriver) -> None:
    source, out = topics(driver, 50)
    source.pipe_key_value_list([("a", "1"), ("b", "2")], 10, timedelta(milliseconds=3))
    source.pipe_value_list(["3", "4"], 20)
    source.pipe_key_value_list([("c", "5")])
    source.pipe_record_list([TestRecord("d", "6", 9), TestRecord("e", "7")])
    assert [(r.key, r.value, r.timestamp) for r in out.read_records_to_list()] == [
        ("a", "1", 10),
        ("b", "2", 13),
        (None, "3", 20),
        (None, "4", 20),
        ("c", "5", 50),
        ("d", "6", 9),
        ("e", "7", 50),
    ]


class Clock(Processor[Any, Any, Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record.with_value(str(self.context.current_system_time_ms())))


def test_the_wall_clock_moves_by_hand_only() -> None:
    topology = Topology().add_source("s", "in").add_processor("p", Clock, "s").add_sink("k", "out", "p")
    with TopologyTestDriver(topology, CONFIG, initial_wall_clock_ms=1000) as driver:
        source, out = topics(driver)
        source.pipe_input("k", "v")
        driver.advance_wall_clock_time(timedelta(seconds=2))
        source.pipe_input("k", "v")
        assert out.read_values_to_list() == ["1000", "3000"]


def test_advancing_the_clock_releases_records_that_waited() -> None:
    builder = StreamsBuilder()
    builder.stream(["in", "other"]).to("out")
    with TopologyTestDriver(builder.build(), {**CONFIG, "max.task.idle.ms": 100}, 0) as driver:
        source, out = topics(driver)
        source.pipe_input("k", "v")
        assert out.is_empty()
        driver.advance_wall_clock_time(99)
        assert out.is_empty()
        driver.advance_wall_clock_time(1)
        assert out.read_value() == "v"


# reading


def test_every_way_of_reading(driver: TopologyTestDriver) -> None:
    source, out = topics(driver, 5)
    for number in range(6):
        source.pipe_input("a" if number % 2 else "b", str(number), headers=[("n", bytes([number]))])
    assert (out.get_queue_size(), out.is_empty()) == (6, False)
    assert out.read_value() == "0"
    assert out.read_key_value() == ("a", "1")
    assert out.read_record() == TestRecord("b", "2", 5, [("n", b"\x02")])
    assert out.read_key_values_to_map() == {"a": "5", "b": "4"}
    assert out.is_empty()
    for call in (out.read_value, out.read_key_value, out.read_record):
        with pytest.raises(LookupError, match="no unread record in topic out"):
            call()
    assert out.read_records_to_list() == out.read_values_to_list() == out.read_key_values_to_list() == []
    assert out.read_key_values_to_map() == {}
    source.pipe_key_value_list([("a", "6"), ("a", None)])
    assert out.read_values_to_list() == ["6", None]
    source.pipe_input("a", "7")
    assert out.read_key_values_to_list() == [("a", "7")]


def test_a_map_needs_keys(driver: TopologyTestDriver) -> None:
    source, out = topics(driver)
    source.pipe_value("x")
    with pytest.raises(StreamsException, match="topic out has no key"):
        out.read_key_values_to_map()


def test_two_handles_of_a_topic_share_its_records(driver: TopologyTestDriver) -> None:
    source, out = topics(driver)
    _, again = topics(driver)
    source.pipe_value_list(["1", "2"])
    assert (out.read_value(), again.read_value()) == ("1", "2")


def test_a_topic_nobody_wrote_is_empty(driver: TopologyTestDriver) -> None:
    nothing = driver.create_output_topic("nothing", TEXT.deserializer, TEXT.deserializer)
    assert nothing.is_empty()
    with pytest.raises(LookupError, match="no unread record in topic nothing"):
        nothing.read_value()


def test_bytes_that_do_not_decode_are_told_on_reading(driver: TopologyTestDriver) -> None:
    source, _ = topics(driver)
    source.pipe_input("k", "v")
    wrong = driver.create_output_topic("out", TEXT.deserializer, LONG.deserializer)
    with pytest.raises(SerializationException):
        wrong.read_value()


def test_records_compare_by_content() -> None:
    record = TestRecord("k", "v", 5, [("h", b"1")])
    assert record == TestRecord("k", "v", 5, [("h", b"1")])
    for other in (
        TestRecord("j", "v", 5, [("h", b"1")]),
        TestRecord("k", "w", 5, [("h", b"1")]),
        TestRecord("k", "v", 6, [("h", b"1")]),
        TestRecord("k", "v", 5),
        "text",
    ):
        assert record != other
    assert "timestamp=5" in repr(record)


# topics


def test_topics_that_the_topology_does_not_read(driver: TopologyTestDriver) -> None:
    handle = driver.create_input_topic("nope", TEXT.serializer, TEXT.serializer)
    with pytest.raises(IllegalStateException, match=r"Unknown topic: nope\. The topology reads in"):
        handle.pipe_input("k", "v")
    with pytest.raises(IllegalStateException, match="Unknown topic: out"):
        driver.pipe_raw("out", None, None, 0)


def test_produced_topic_names_include_internal_ones() -> None:
    builder = StreamsBuilder()
    builder.stream("in").group_by(lambda k, v: v).count(Materialized.as_("rows").with_value_serde(LONG))
    with TopologyTestDriver(builder.build(), {**CONFIG, "application.id": "app"}) as driver:
        assert driver.produced_topic_names() == frozenset()
        topics(driver)[0].pipe_input("k", "v")
        assert driver.produced_topic_names() == {"app-rows-repartition", "app-rows-changelog"}
        driver.pipe_raw("app-rows-repartition", b"v", b"x", 0)
        assert driver.get_key_value_store("rows").get("v") == 2  # type: ignore[union-attr]


def test_an_output_topic_that_is_also_read_goes_round_until_it_is_quiet() -> None:
    builder = StreamsBuilder()
    stream: Any = builder.stream("in")
    stream.filter(lambda k, v: len(v) < 4).map_values(lambda v: v + "x").to("in")
    with TopologyTestDriver(builder.build(), CONFIG) as driver:
        topics(driver)[0].pipe_input("k", "x")
        read = driver.create_output_topic("in", TEXT.deserializer, TEXT.deserializer)
        assert read.read_values_to_list() == ["xx", "xxx", "xxxx"]


def test_all_sub_topologies_are_one_task() -> None:
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    builder.stream("in2").to("out")
    with TopologyTestDriver(builder.build(), CONFIG) as driver:
        source, out = topics(driver)
        source.pipe_input("k", "1")
        driver.create_input_topic("in2", TEXT.serializer, TEXT.serializer).pipe_input("k", "2")
        assert out.read_values_to_list() == ["1", "2"]
        totals = {name.name: metric.metric_value() for name, metric in driver.metrics().items() if "topic" in name.tags}
        assert totals == {"records-consumed-total": 1}
        assert driver.dropped_records() == {}


def test_what_a_topic_gave_and_got_is_told_with_the_debug_level_in_bytes_as_java_counts_them() -> None:
    builder = StreamsBuilder()
    texts = builder.stream("in", Consumed.with_(TEXT, TEXT).with_name("source"))
    texts.to("out", Produced.with_(TEXT, TEXT).with_name("sink"))
    texts.filter(lambda k, v: v == "long").to(
        lambda k, v, record: f"out-{k}", Produced.with_(TEXT, TEXT).with_name("chosen")
    )
    settings = CONFIG | {"metrics.recording.level": "DEBUG"}
    with TopologyTestDriver(builder.build(), settings) as driver:
        source, _ = topics(driver)
        source.pipe_input("k", "1")
        source.pipe_input("k", "long", headers=[("header", b"12"), ("empty", None)])
        told = {
            (
                name.tags["processor-node-id"],
                name.tags["topic"],
                name.name.removesuffix("-total"),
            ): metric.metric_value()
            for name, metric in driver.metrics().items()
            if "topic" in name.tags
        }
    with_headers = 20 + 1 + 4 + 8 + 5
    assert told == {
        ("source", "in", "records-consumed"): 2,
        ("source", "in", "bytes-consumed"): (2 + 20 + 1 + 1) + (2 + with_headers),
        ("sink", "out", "records-produced"): 2,
        ("sink", "out", "bytes-produced"): (3 + 20 + 1 + 1) + (3 + with_headers),
        ("chosen", "out-k", "records-produced"): 1,
        ("chosen", "out-k", "bytes-produced"): 5 + with_headers,
    }


# stores


@pytest.fixture
def stored() -> Iterator[TopologyTestDriver]:
    builder = StreamsBuilder()
    builder.table("in", Consumed.with_(TEXT, TEXT), Materialized.as_("table"))
    plain = Stores.key_value_store_builder(Stores.persistent_key_value_store("plain"), TEXT, TEXT)
    builder.add_state_store(plain)
    stream: Any = builder.stream("other")
    stream.process(Clock, "plain").to("out", Produced.with_(TEXT, TEXT))
    with TopologyTestDriver(builder.build(), {"application.id": "app"} | CONFIG, 1000) as driver:
        yield driver


def test_stores_by_kind(stored: TopologyTestDriver) -> None:
    assert set(stored.get_all_state_stores()) == {"table", "plain"}
    assert isinstance(stored.get_state_store("plain"), KeyValueStore)
    assert isinstance(stored.get_key_value_store("plain"), KeyValueStore)
    assert isinstance(stored.get_key_value_store("table"), KeyValueView)
    assert isinstance(stored.get_timestamped_key_value_store("table"), TimestampedKeyValueStore)
    assert stored.get_timestamped_key_value_store("plain") is None
    for get in (stored.get_state_store, stored.get_key_value_store, stored.get_timestamped_key_value_store):
        assert get("nothing") is None


def test_a_timestamped_store_without_its_timestamps(stored: TopologyTestDriver) -> None:
    topics(stored, 7)[0].pipe_key_value_list([("a", "1"), ("b", "2"), ("ab", "3")])
    store = stored.get_key_value_store("table")
    assert isinstance(store, KeyValueView)
    assert store.name == "table"
    assert list(store.all()) == [("a", "1"), ("ab", "3"), ("b", "2")]
    assert list(store.reverse_all()) == [("b", "2"), ("ab", "3"), ("a", "1")]
    assert list(store.range("ab", "b")) == [("ab", "3"), ("b", "2")]
    assert list(store.reverse_range(None, "ab")) == [("ab", "3"), ("a", "1")]
    assert list(store.prefix_scan("a", TEXT.serializer)) == [("a", "1"), ("ab", "3")]
    assert store.approximate_num_entries() >= 3
    assert (store.get("a"), store.get("x")) == ("1", None)
    store.put("a", "new")
    assert store.put_if_absent("a", "other") == "new"
    assert store.put_if_absent("c", "4") is None
    store.put_all([("d", "5"), ("e", "6")])
    assert store.delete("e") == "6"
    assert store.delete("e") is None
    assert [key for key, _ in store.all()] == ["a", "ab", "b", "c", "d"]
    raw: Any = stored.get_timestamped_key_value_store("table")
    assert raw.get("a") == ("new", 1000)
    assert raw.get("b") == ("2", 7)


def test_writes_through_a_store_reach_its_changelog(stored: TopologyTestDriver) -> None:
    table, plain = stored.get_key_value_store("table"), stored.get_key_value_store("plain")
    assert table is not None
    assert plain is not None
    table.put("a", "1")
    plain.put("b", "2")
    stored.commit()
    read = {
        name: stored.create_output_topic(f"app-{name}-changelog", TEXT.deserializer, TEXT.deserializer)
        for name in ("table", "plain")
    }
    assert read["table"].read_record() == TestRecord("a", "1", 1000)
    assert read["plain"].read_key_value() == ("b", "2")


# life


def test_close_removes_the_state_and_ends_everything() -> None:
    builder = StreamsBuilder()
    builder.table("in", materialized=Materialized.as_("rows"))
    driver = TopologyTestDriver(builder.build(), CONFIG)
    source, _ = topics(driver)
    source.pipe_input("k", "v")
    store: Any = driver.get_timestamped_key_value_store("rows")
    path = Path(driver._directory)
    assert list(path.rglob("CURRENT"))
    driver.close()
    driver.close()
    assert not path.exists()
    assert not store.is_open
    with pytest.raises(IllegalStateException, match="the driver is closed"):
        source.pipe_input("k", "v")


def test_state_goes_too_when_a_processor_does_not_close() -> None:
    class Stuck(Clock):
        def close(self) -> None:
            raise OSError("stuck")

    driver = TopologyTestDriver(Topology().add_source("s", "in").add_processor("p", Stuck, "s"), CONFIG)
    path = driver._directory
    with pytest.raises(StreamsException, match="failed to close processor p"):
        driver.close()
    assert not path.exists()
    driver.close()


def test_a_driver_that_cannot_be_made_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(TopologyException, match="no serde"):
        TopologyTestDriver(passing(), {})
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConfigException):
        TopologyTestDriver(passing(), {**CONFIG, "max.task.idle.ms": "soon"})
    assert list(tmp_path.iterdir()) == []


def test_after_a_failure_every_record_raises_it_again() -> None:
    builder = StreamsBuilder()
    builder.stream("in").map_values(lambda v: v[10]).to("out")
    with TopologyTestDriver(builder.build(), CONFIG) as driver:
        source, out = topics(driver)
        for _ in range(2):
            with pytest.raises(FailedProcessingException, match="offset=0"):
                source.pipe_input("k", "v")
        assert out.is_empty()


def test_two_drivers_do_not_share_state() -> None:
    builder = StreamsBuilder()
    builder.table("in", materialized=Materialized.as_("rows"))
    with TopologyTestDriver(builder.build(), CONFIG) as one, TopologyTestDriver(builder.build(), CONFIG) as two:
        topics(one)[0].pipe_input("k", "v")
        assert two.get_key_value_store("rows").get("k") is None  # type: ignore[union-attr]


def test_a_ready_configuration_is_taken() -> None:
    config = StreamsConfig.load({**CONFIG, "application.id": "mine", "bootstrap.servers": "nowhere:1"})
    with TopologyTestDriver(passing(), config) as driver:
        source, out = topics(driver)
        source.pipe_input("k", "v")
        assert out.read_value() == "v"


@pytest.mark.parametrize("headers", [{"from": b"mail"}, [("from", "mail")], [("from", b"mail", 1)], ["from"]])
def test_headers_that_are_none(driver: TopologyTestDriver, headers: Any) -> None:
    source, _ = topics(driver)
    with pytest.raises(TypeError, match=r"headers are a list of \(name, bytes or None\)"):
        source.pipe_input("k", "v", headers=headers)


def test_seconds_for_a_timestamp(driver: TopologyTestDriver) -> None:
    source, _ = topics(driver)
    with pytest.raises(TypeError, match=r"a timestamp is an int of milliseconds or a datetime, not 1796000000\.5"):
        source.pipe_input("k", "v", timestamp=1796000000.5)
    with pytest.raises(TypeError, match=r"a length of time is an int of milliseconds or a timedelta, not 0\.5"):
        source.advance_time(0.5)


def test_a_topic_that_nothing_was_written_to_names_those_that_were(driver: TopologyTestDriver) -> None:
    source, _ = topics(driver)
    source.pipe_input("k", "v")
    wrong = driver.create_output_topic("output", TEXT.deserializer, TEXT.deserializer)
    with pytest.raises(LookupError, match=r"no unread record in topic output \(topics that were written to: out\)"):
        wrong.read_value()


def test_bytes_without_a_timestamp_have_the_drivers_time(driver: TopologyTestDriver) -> None:
    driver.pipe_raw("in", b"k", b"v")
    written = driver.read_raw("out")
    assert written is not None
    assert written.timestamp == driver.wall_clock_ms


def test_a_text_for_the_kind_of_a_punctuation() -> None:
    class Ticking(Processor[str, str, str, str]):
        def init(self, context: Any) -> None:
            context.schedule(1000, "stream", lambda timestamp: None)

        def process(self, record: Record[str, str]) -> None: ...

    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, TEXT)).process(Ticking)
    with pytest.raises(StreamsException, match=r"a PunctuationType is expected here, not 'stream'"):
        TopologyTestDriver(builder.build(), CONFIG)
