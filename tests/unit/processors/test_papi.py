from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from headrace.api.options import Materialized
from headrace.api.processor import FixedKeyProcessor, Processor
from headrace.api.record import FixedKeyRecord, Record, RecordMetadata
from headrace.dsl import StreamsBuilder
from headrace.errors import FailedProcessingException, IllegalStateException, StreamsException, TopologyException
from headrace.records import TaskId
from headrace.serdes import Serdes
from headrace.state.builders import StoreBuilder, Stores
from headrace.testing.driver import TestRecord, TopologyTestDriver
from headrace.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TEXT, LONG = Serdes.String(), Serdes.Long()
CONFIG = {"default.key.serde": TEXT, "default.value.serde": TEXT, "my.setting": "yes"}

Handler = "Callable[[Any, Any], None]"


def made(body: Callable[[Any, Any], None], **more: Callable[..., Any]) -> Callable[[], Processor[Any, Any, Any, Any]]:
    """A supplier of processors that run ``body(context, record)``."""

    class Made(Processor[Any, Any, Any, Any]):
        def process(self, record: Record[Any, Any]) -> None:
            body(self.context, record)

    for name, method in more.items():
        setattr(Made, name, method)
    return lambda: Made()


@pytest.fixture
def drive() -> Iterator[Callable[..., TopologyTestDriver]]:
    drivers: list[TopologyTestDriver] = []

    def start(topology: Topology, config: dict[str, Any] | None = None) -> TopologyTestDriver:
        drivers.append(TopologyTestDriver(topology, {**CONFIG, **(config or {})}, initial_wall_clock_ms=500))
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.close()


def one(body: Callable[[Any, Any], None], *stores: StoreBuilder[Any, Any], **more: Any) -> Topology:
    topology = Topology().add_source("s", "in").add_processor("p", made(body, **more), "s").add_sink("k", "out", "p")
    for store in stores:
        topology.add_state_store(store, "p")
    return topology


def pipe(driver: TopologyTestDriver, *rows: tuple[Any, ...]) -> None:
    topic = driver.create_input_topic("in", TEXT.serializer, TEXT.serializer)
    for row in rows:
        topic.pipe_input(*row)


def read(driver: TopologyTestDriver, topic: str = "out", value: Any = TEXT) -> list[TestRecord[Any, Any]]:
    return driver.create_output_topic(topic, TEXT.deserializer, value.deserializer).read_records_to_list()


def key_value(name: str = "s1", **how: Any) -> StoreBuilder[Any, Any]:
    return Stores.key_value_store_builder(Stores.in_memory_key_value_store(name), TEXT, TEXT)


def test_forward_to_all_children_or_to_one_by_name(drive: Any) -> None:
    def body(context: Any, record: Any) -> None:
        if record.value == "all":
            context.forward(record)
        else:
            context.forward(record, record.value)

    topology = Topology().add_source("s", "in").add_processor("p", made(body), "s")
    for name in ("b", "a"):
        topology.add_sink(name, name, "p")
    driver = drive(topology)
    pipe(driver, ("k", "all"), ("k", "a"))
    assert [r.value for r in read(driver, "a")] == ["all", "a"]
    assert [r.value for r in read(driver, "b")] == ["all"]
    with pytest.raises(
        FailedProcessingException, match=r"Unknown downstream node: c .*processor p; its children are: b, a"
    ) as e:
        pipe(driver, ("k", "c"))
    assert isinstance(e.value.__cause__, StreamsException)


@pytest.mark.parametrize("what", ["text", None, FixedKeyRecord("k", "v", 1), ("k", "v")])
def test_forward_takes_a_record(what: Any, drive: Any) -> None:
    driver = drive(one(lambda context, record: context.forward(what)))
    with pytest.raises(FailedProcessingException, match=r"forward\(\) takes a Record, not"):
        pipe(driver, ("k", "v"))


@pytest.mark.parametrize("timestamp", [1.5, "7", None, -1, 2**63])
def test_a_record_of_no_time_is_refused_where_it_is_made_or_forwarded(timestamp: Any, drive: Any) -> None:
    def body(context: Any, record: Any) -> None:
        if record.value == "set":
            record.timestamp = timestamp
            context.forward(record)
        else:
            context.forward(record.with_timestamp(timestamp))

    for value in ("set", "made"):
        driver = drive(one(body))
        with pytest.raises(FailedProcessingException, match="a record") as e:
            pipe(driver, ("k", value))
        assert isinstance(e.value.__cause__, ValueError | TypeError)
        assert read(driver) == []


@pytest.mark.parametrize("header", [("h", "text"), ("h", 1), (None, b"x"), (b"h", b"x")])
def test_a_header_that_is_no_text_with_bytes_is_refused(header: Any, drive: Any) -> None:
    driver = drive(one(lambda context, record: context.forward(record.with_headers([header]))))
    with pytest.raises(FailedProcessingException, match="a record's header is a str with bytes or None, not "):
        pipe(driver, ("k", "v"))


def test_a_record_goes_through_more_processors_than_python_has_frames_for(drive: Any) -> None:
    topology = Topology().add_source("0", "in")
    for number in range(1, 601):
        topology.add_processor(str(number), made(lambda context, record: context.forward(record)), str(number - 1))
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000)  # a test before this one may have had it raised
    try:
        driver = drive(topology.add_sink("k", "out", "600"))
        pipe(driver, ("k", "v"))
        assert [r.value for r in read(driver)] == ["v"]
        # deeply nested input must not overflow the stack of a decoder in C
        assert 1_000 < sys.getrecursionlimit() <= 5_000
    finally:
        sys.setrecursionlimit(before)


def test_what_a_processor_may_ask_of_its_context(drive: Any) -> None:
    seen: list[Any] = []

    def body(context: Any, record: Any) -> None:
        seen.append(
            (
                context.application_id,
                context.task_id,
                context.record_metadata(),
                context.current_stream_time_ms(),
                context.current_system_time_ms(),
                context.app_configs()["my.setting"],
            )
        )

    before: list[Any] = []

    def init(self: Any, context: Any) -> None:
        Processor.init(self, context)
        before.append((context.record_metadata(), context.current_stream_time_ms()))

    driver = drive(one(body, init=init))
    assert before == [(None, -1)]
    pipe(driver, ("k", "v", 50), ("k", "v", 40))
    driver.advance_wall_clock_time(11)
    pipe(driver, ("k", "v", 60))
    common = ("topology-test-driver", TaskId(0, 0))
    assert seen == [
        (*common, RecordMetadata("in", 0, 0), 50, 500, "yes"),
        (*common, RecordMetadata("in", 0, 1), 50, 500, "yes"),
        (*common, RecordMetadata("in", 0, 2), 60, 511, "yes"),
    ]


def test_headers_of_a_forwarded_record_are_its_own(drive: Any) -> None:
    kept: list[Any] = []

    def first(context: Any, record: Any) -> None:
        context.forward(record)
        record.headers.append(("after", b""))
        kept.append(list(record.headers))

    def second(context: Any, record: Any) -> None:
        record.headers.append(("mine", b""))
        context.forward(record)

    topology = (
        Topology()
        .add_source("s", "in")
        .add_processor("p", made(first), "s")
        .add_processor("one", made(second), "p")
        .add_processor("two", made(second), "p")
        .add_sink("k", "out", "one", "two")
    )
    driver = drive(topology)
    topic = driver.create_input_topic("in", TEXT.serializer, TEXT.serializer)
    given = [("h", b"1")]
    topic.pipe_input("k", "v", 1, given)
    assert given == [("h", b"1")]
    assert kept == [[("h", b"1"), ("after", b"")]]
    assert [r.headers for r in read(driver)] == [[("h", b"1"), ("mine", b"")]] * 2


def test_headers_added_behind_a_forward_do_not_reach_the_sink(drive: Any) -> None:
    def body(context: Any, record: Any) -> None:
        record.headers.append(("before", b""))
        context.forward(record)
        record.headers.append(("after", b""))
        record.headers.clear()

    driver = drive(one(body))
    pipe(driver, ("k", "v"))
    assert [r.headers for r in read(driver)] == [[("before", b"")]]


def test_the_context_of_a_forward_is_undone_behind_it(drive: Any) -> None:
    """Writes to a plain store take the time of the record in work, not of what was forwarded in between."""

    def body(context: Any, record: Any) -> None:
        context.get_state_store("s1").put("before", record.value)
        context.forward(record.with_timestamp(9000).with_headers([("x", b"")]))
        context.get_state_store("s1").put("after", record.value)

    driver = drive(one(body, key_value()))
    pipe(driver, ("k", "v", 70))
    assert [(r.key, r.timestamp) for r in read(driver, "topology-test-driver-s1-changelog")] == [
        ("before", 70),
        ("after", 70),
    ]
    assert [(r.timestamp, r.headers) for r in read(driver)] == [(9000, [("x", b"")])]


def test_a_store_below_a_forward_gets_the_forwarded_time(drive: Any) -> None:
    def below(context: Any, record: Any) -> None:
        context.get_state_store("s1").put(record.key, record.value)

    topology = (
        Topology()
        .add_source("s", "in")
        .add_processor("p", made(lambda context, record: context.forward(record.with_timestamp(123))), "s")
        .add_processor("q", made(below), "p")
        .add_state_store(key_value(), "q")
    )
    driver = drive(topology)
    pipe(driver, ("k", "v", 70))
    assert [r.timestamp for r in read(driver, "topology-test-driver-s1-changelog")] == [123]


@pytest.mark.parametrize("name", ["s2", "nothing"])
def test_a_store_that_is_not_connected_cannot_be_had(name: str, drive: Any) -> None:
    topology = one(lambda context, record: context.get_state_store(name), key_value("s1"))
    topology.add_processor("q", made(lambda context, record: None), "s").add_state_store(key_value("s2"), "q")
    driver = drive(topology)
    with pytest.raises(
        FailedProcessingException, match=rf"Processor p has no access to StateStore {name}: .*connected: s1"
    ):
        pipe(driver, ("k", "v"))


def test_stores_can_be_had_in_init(drive: Any) -> None:
    def init(self: Any, context: Any) -> None:
        Processor.init(self, context)
        self.rows = context.get_state_store("s1")

    driver = drive(one(lambda context, record: None, key_value(), init=init))
    assert driver.get_state_store("s1") is not None
    with pytest.raises(StreamsException, match="has no access to StateStore s1"):
        drive(one(lambda context, record: None, init=init))


def test_a_processor_that_hides_init_is_told(drive: Any) -> None:
    driver = drive(one(lambda context, record: None, init=lambda self, context: None))
    with pytest.raises(FailedProcessingException, match=r"call super\(\).init\(context\)") as caught:
        pipe(driver, ("k", "v"))
    assert isinstance(caught.value.__cause__, IllegalStateException)


def test_suppliers_make_one_processor_a_task_and_it_is_closed_once() -> None:
    events: list[str] = []

    class Counted(Processor[Any, Any, Any, Any]):
        def init(self, context: Any) -> None:
            super().init(context)
            events.append("init")

        def process(self, record: Any) -> None:
            events.append("process")

        def close(self) -> None:
            events.append("close")

    topology = Topology().add_source("s", "in").add_processor("p", Counted, "s")
    driver = TopologyTestDriver(topology, CONFIG)
    pipe(driver, ("k", "1"), ("k", "2"))
    driver.close()
    driver.close()
    assert events == ["init", "process", "process", "close"]


def test_what_a_processor_forwards_as_it_closes_meets_children_that_are_open_still() -> None:
    events: list[str] = []

    class Told(Processor[Any, Any, Any, Any]):
        def __init__(self, name: str) -> None:
            self._name = name

        def process(self, record: Record[Any, Any]) -> None:
            events.append(f"{self._name} gets {record.value}")

        def close(self) -> None:
            self.context.forward(Record("k", f"the last of {self._name}", 0))
            events.append(f"{self._name} closes")

    topology = (
        Topology()
        .add_source("s", "in")
        .add_processor("parent", lambda: Told("parent"), "s")
        .add_processor("child", lambda: Told("child"), "parent")
    )
    TopologyTestDriver(topology, CONFIG).close()
    assert events == ["child gets the last of parent", "parent closes", "child closes"]


def test_a_failed_task_closes_its_processors_too() -> None:
    closed: list[bool] = []

    def fails(context: Any, record: Any) -> None:
        raise ValueError("no")

    driver = TopologyTestDriver(one(fails, close=lambda self: closed.append(True)), CONFIG)
    with pytest.raises(FailedProcessingException):
        pipe(driver, ("k", "v"))
    driver.close()
    assert closed == [True]


def test_a_supplier_that_gives_one_object_twice_is_refused() -> None:
    same = made(lambda context, record: None)()
    with pytest.raises(TopologyException, match="gave the same object twice"):
        Topology().add_source("s", "in").add_processor("p", lambda: same, "s")
    with pytest.raises(TopologyException, match="gave the same object twice"):
        StreamsBuilder().stream("in").process(lambda: same)


def test_commit_is_a_request(drive: Any) -> None:
    cached = key_value().with_caching_enabled()
    seen: list[int] = []

    def body(context: Any, record: Any) -> None:
        context.get_state_store("s1").put(record.key, record.value)
        context.commit()
        seen.append(len(logged))

    logged: list[Any] = []
    driver = drive(one(body, cached))
    pipe(driver, ("k", "1"), ("k", "2"))
    logged += read(driver, "topology-test-driver-s1-changelog")
    assert [r.value for r in logged] == ["1", "2"]
    assert seen == [0, 0]


class Shout(FixedKeyProcessor[str, str, str]):
    def process(self, record: FixedKeyRecord[str, str]) -> None:
        if record.value == "rekey":
            record.key = "other"  # type: ignore[misc]
        if record.value == "record":
            self.context.forward(Record("other", "v", 1))  # type: ignore[arg-type]
        self.context.forward(record.with_value(record.value.upper()).with_timestamp(9).with_headers([("h", b"")]))


def test_a_fixed_key_processor_changes_all_but_the_key(drive: Any) -> None:
    builder = StreamsBuilder()
    source: Any = builder.stream("in")
    stream = source.process_values(Shout)
    stream.group_by_key().count(Materialized.as_("rows").with_value_serde(LONG))
    stream.to("out")
    driver = drive(builder.build())
    pipe(driver, ("k", "v", 5))
    assert read(driver) == [TestRecord("k", "V", 9, [("h", b"")])]
    assert not any(name.endswith("-repartition") for name in driver.produced_topic_names())
    with pytest.raises(FailedProcessingException) as caught:
        pipe(driver, ("k", "rekey", 5))
    assert isinstance(caught.value.__cause__, AttributeError)
    other = drive(builder.build())
    with pytest.raises(FailedProcessingException, match=r"forward\(\) takes a FixedKeyRecord, not Record"):
        pipe(other, ("k", "record", 5))


def test_a_processor_in_the_dsl_counts_as_another_key(drive: Any) -> None:
    builder = StreamsBuilder()
    builder.add_state_store(key_value())

    def body(context: Any, record: Any) -> None:
        if context.get_state_store("s1").put_if_absent(record.key, record.value) is None:
            context.forward(record)

    stream: Any = builder.stream("in").process(made(body), "s1")
    stream.group_by_key().count(Materialized.as_("rows").with_value_serde(LONG))
    driver = drive(builder.build())
    pipe(driver, ("k", "1"), ("k", "2"), ("j", "3"))
    store = driver.get_key_value_store("rows")
    assert list(store.all()) == [("j", 1), ("k", 1)]
    assert "topology-test-driver-rows-repartition" in driver.produced_topic_names()


def test_a_processor_may_write_the_store_whose_flush_called_it(drive: Any) -> None:
    """The row being sent is read back, and a write to it is kept and sent in its turn."""
    builder = StreamsBuilder()

    def body(context: Any, record: Any) -> None:
        rows = context.get_state_store("rows")
        if record.value is not None and not record.value.endswith("!"):
            rows.put(record.key, rows.get(record.key)._replace(value=record.value + "!"))
        context.forward(record)

    table: Any = builder.table("in", materialized=Materialized.as_("rows"))
    table.to_stream().process(made(body), "rows").to("out")
    for cache_bytes in (1 << 20, 1):
        driver = drive(builder.build(), {"statestore.cache.max.bytes": cache_bytes})
        pipe(driver, ("a", "x", 1), ("b", "y", 2))
        assert driver.get_key_value_store("rows").get("a") == "x!"
        assert sorted(r.value for r in read(driver)) == ["x", "x!", "y", "y!"]


def test_records_refuse_negative_times_and_copy_headers() -> None:
    headers: list[Any] = [("h", b"1")]
    record = Record("k", "v", 0, headers)
    headers.append(("x", b""))
    assert record.headers == [("h", b"1")]
    other = record.with_value("w")
    other.headers.append(("y", b""))
    assert record.headers == [("h", b"1")]
    for make in (lambda: Record("k", "v", -1), lambda: record.with_timestamp(-5), lambda: FixedKeyRecord("k", "v", -1)):
        with pytest.raises(ValueError, match="must not be negative"):
            make()
    assert record == Record("k", "v", 0, [("h", b"1")])
    assert record != record.with_key("j")
    assert record != FixedKeyRecord("k", "v", 0, [("h", b"1")])
    with pytest.raises(TypeError):
        hash(record)
