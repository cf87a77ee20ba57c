"""A serde that needs something which does not answer now: the record waits, whatever the handlers would say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from unit.engine.harness import TEXT, Bench

from headrace.api.handlers import (
    LogAndContinueExceptionHandler,
    LogAndContinueProcessingExceptionHandler,
    Response,
)
from headrace.api.options import Consumed, Materialized, Produced
from headrace.api.serde import Deserializer, Serde, Serializer
from headrace.api.stores import StoreType
from headrace.dsl import StreamsBuilder
from headrace.errors import (
    AuthorizationException,
    ConfigException,
    StreamsException,
    TaskCorruptedException,
    TimeoutException,
)
from headrace.testing import TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.api.timestamps import ConsumerRecord
    from headrace.records import Headers
    from headrace.topology import Topology


class Register:
    """What the serdes below ask. Answers with text in upper case, or raises ``error``."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.asked = 0

    def ask(self, text: str) -> str:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return text.upper()


class AskingSerializer(Serializer[str]):
    def __init__(self, register: Register) -> None:
        self.register = register

    def serialize(self, topic: str, data: str | None) -> bytes | None:
        return None if data is None else self.register.ask(data).encode()


class AskingDeserializer(Deserializer[str]):
    """Asks only for values that begin with a question mark."""

    def __init__(self, register: Register) -> None:
        self.register = register

    def deserialize(self, topic: str, data: bytes | None) -> str | None:
        if data is None or not data.startswith(b"?"):
            return None if data is None else data.decode()
        return self.register.ask(data.decode())


class ByValue:
    def extract(self, record: ConsumerRecord, partition_time: int) -> int:
        return int(record.value.strip("?"))


class Continuing:
    """Answers RESUME to everything, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def handle_error(self, *asked: Any) -> Response:
        self.asked.append(asked)
        return Response.resume()

    def handle_serialization_error(self, *asked: Any) -> Response:
        self.asked.append(asked)
        return Response.resume()


AWAY = TimeoutException("the register does not answer")


def waits_for(bench: Bench) -> Exception | None:
    return bench.task.stalled


def asking(register: Register) -> Serde[str]:
    return Serde(AskingSerializer(register), AskingDeserializer(register))


def reading(register: Register, *topics: str, extractor: Any = None) -> Topology:
    builder = StreamsBuilder()
    consumed = Consumed.with_(TEXT, asking(register))
    if extractor is not None:
        consumed = consumed.with_timestamp_extractor(extractor)
    builder.stream(topics or ("in",), consumed).to("out", Produced.with_(TEXT, TEXT))
    return builder.build()


def test_a_record_that_cannot_be_read_yet_waits_and_is_not_skipped() -> None:
    register = Register()
    register.error = AWAY
    bench = Bench(reading(register), deserialization_handler=LogAndContinueExceptionHandler())
    bench.add_values("in", ("a", 1), ("?b", 2), ("c", 3))
    assert bench.process() == 1
    assert bench.collector.values() == ["a"]
    assert waits_for(bench) is AWAY
    assert bench.commit() == {"in": 1}
    assert not bench.task.metrics.dropped
    register.error = None
    assert bench.process() == 0, "it is tried again after a pause only"
    assert bench.task.must_wait()
    bench.now += 100
    assert bench.process() == 2
    assert bench.collector.values() == ["a", "?B", "c"]
    assert waits_for(bench) is None
    assert not bench.task.must_wait()
    assert bench.commit() == {"in": 3}


def test_pauses_grow_up_to_five_seconds() -> None:
    register = Register()
    register.error = AWAY
    bench = Bench(reading(register))
    bench.add_values("in", ("?a", 1))
    attempts: list[int] = []
    for _ in range(20_000):
        before = register.asked
        bench.process()
        if register.asked > before:
            attempts.append(bench.now - 1000)
        bench.now += 1
    assert attempts == [0, 100, 300, 700, 1500, 3100, 6300, 11300, 16300]


def test_after_the_task_timeout_it_is_an_error_of_the_thread() -> None:
    register = Register()
    register.error = AWAY
    bench = Bench(reading(register), task_timeout_ms=1000, deserialization_handler=LogAndContinueExceptionHandler())
    bench.add("in", ("k", "?a", 1), first_offset=40)
    for _ in range(2):
        assert bench.process() == 0
        bench.now += 700
    with pytest.raises(StreamsException, match=r"in-0 offset 40 has waited for .* not committed: the register"):
        bench.process()
    assert bench.task.failure is not None


def test_the_pause_begins_anew_once_records_went_on() -> None:
    register = Register()
    register.error = AWAY
    bench = Bench(reading(register), task_timeout_ms=1000)
    bench.add_values("in", ("?a", 1), ("?b", 2))
    bench.process()
    bench.now += 900
    register.error = None
    assert bench.process(1) == 1
    register.error = AWAY
    assert bench.process() == 0
    bench.now += 900
    assert bench.process() == 0
    assert bench.task.failure is None


def test_other_partitions_wait_for_the_record_so_that_order_is_kept() -> None:
    register = Register()
    register.error = AWAY
    bench = Bench(reading(register, "one", "two"))
    bench.add_values("one", ("?1", 10))
    bench.add_values("two", ("2", 20), ("0", 5))
    assert bench.process() == 0
    register.error = None
    bench.now += 100
    assert bench.process() == 3
    assert bench.collector.values() == ["?1", "2", "0"]


def test_a_record_whose_time_is_in_its_value_waits_too() -> None:
    register = Register()
    register.error = AWAY
    bench = Bench(
        reading(register, "one", "two", extractor=ByValue()),
        deserialization_handler=LogAndContinueExceptionHandler(),
    )
    bench.add_values("one", ("3", 0), ("?7", 0), ("9", 0))
    bench.add_values("two", ("?5", 0), ("8", 0))
    assert bench.process() == 0
    assert register.asked == 1
    bench.add_values("two", ("10", 0))
    bench.now += 100
    assert bench.process() == 0
    register.error = None
    bench.now += 200
    assert bench.process() == 6
    assert bench.collector.values() == ["3", "?5", "?7", "8", "9", "10"]
    assert bench.commit() == {"one": 3, "two": 3}


def test_dropping_what_is_uncommitted_ends_the_wait() -> None:
    register = Register()
    register.error = AWAY
    bench = Bench(reading(register))
    bench.add_values("in", ("?a", 1))
    bench.process()
    bench.task.drop_uncommitted()
    assert bench.task.stalled is None


@pytest.mark.parametrize("error", [AuthorizationException("401"), ConfigException("no such address")])
def test_a_serde_that_is_not_set_up_ends_the_thread_and_no_handler_skips_the_record(error: Exception) -> None:
    register = Register()
    register.error = error
    handler = Continuing()
    bench = Bench(reading(register), deserialization_handler=handler)
    bench.add("in", ("k", "?a", 1), first_offset=7)
    with pytest.raises(StreamsException, match=r"in-0 offset 7 cannot be read, through no fault of the record"):
        bench.process()
    assert handler.asked == []
    with pytest.raises(StreamsException):
        bench.offsets()


def writing(register: Register) -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, TEXT)).to("out", Produced.with_(TEXT, asking(register)))
    return builder.build()


def storing(register: Register) -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed.with_(TEXT, TEXT)).group_by_key()
    grouped.reduce(
        lambda old, new: new, Materialized.with_(TEXT, asking(register)).with_store_type(StoreType.IN_MEMORY)
    )
    return builder.build()


@pytest.mark.parametrize("topology", [writing, storing])
def test_a_record_that_cannot_be_written_yet_is_done_again_from_the_last_commit(
    topology: Callable[[Register], Topology],
) -> None:
    register = Register()
    register.error = AWAY
    handler = Continuing()
    bench = Bench(
        topology(register), production_handler=handler, processing_handler=LogAndContinueProcessingExceptionHandler()
    )
    bench.add_values("in", ("a", 1))
    with pytest.raises(TaskCorruptedException, match="does not answer") as raised:
        bench.process()
    assert raised.value.task_ids == {bench.task.id}
    assert raised.value.__cause__ is AWAY
    assert handler.asked == []


def test_a_serializer_that_is_not_set_up_ends_the_thread() -> None:
    register = Register()
    register.error = AuthorizationException("401")
    handler = Continuing()
    bench = Bench(writing(register), production_handler=handler)
    bench.add_values("in", ("a", 1))
    with pytest.raises(AuthorizationException):
        bench.process()
    assert handler.asked == []


@pytest.mark.parametrize("partitions", [None, 2])
def test_the_driver_says_so_and_goes_on_when_the_clock_is_moved(partitions: int | None) -> None:
    register = Register()
    register.error = AWAY
    more: Mapping[str, Any] = {} if partitions is None else {"partitions": partitions}
    with TopologyTestDriver(reading(register), initial_wall_clock_ms=0, **more) as driver:
        topic = driver.create_input_topic("in", TEXT.serializer, TEXT.serializer)
        out = driver.create_output_topic("out", TEXT.deserializer, TEXT.deserializer)
        with pytest.raises(TimeoutException):
            topic.pipe_input("k", "?a", 1)
        register.error = None
        driver.advance_wall_clock_time(100)
        topic.pipe_input("k", "b", 2)
        assert out.read_values_to_list() == ["?A", "b"]


def raw(driver: TopologyTestDriver, topic: str) -> tuple[Any, ...]:
    written = driver.read_raw(topic)
    assert written is not None
    return written.key, written.value, written.timestamp, written.headers


class HeaderSerializer(Serializer[str]):
    """The value's text goes into a header; the bytes are its length."""

    def serialize(self, topic: str, data: str | None) -> bytes | None:
        return None if data is None else b"plain " + data.encode()

    def bind_with_headers(self, topic: str) -> Callable[[str, Headers], bytes]:
        def bound(data: str, headers: Headers) -> bytes:
            headers.append((topic, data.encode()))
            return bytes((len(data),))

        return bound


class HeaderDeserializer(Deserializer[str]):
    def deserialize(self, topic: str, data: bytes | None) -> str | None:
        return None if data is None else data.decode().removeprefix("plain ")

    def bind_with_headers(self, topic: str) -> Callable[[bytes, Headers | None], str]:
        return lambda data, headers: str(dict(headers or [])) + str(data[0])


def test_serdes_may_see_and_change_headers() -> None:
    serde = Serde(HeaderSerializer(), HeaderDeserializer())
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(TEXT, serde))
    stream.to("out", Produced.with_(TEXT, serde))
    stream.to("plain", Produced.with_(TEXT, TEXT))
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_raw("in", b"k", b"\x05", 1, [("a", b"1")])
        driver.pipe_raw("in", b"k", b"\x06", 2, None)
        first, second = raw(driver, "out"), raw(driver, "out")
        text = "{'a': b'1'}5"
        assert first == (b"k", bytes((len(text),)), 1, [("a", b"1"), ("out", text.encode())])
        assert second == (b"k", b"\x03", 2, [("out", b"{}6")])
        # what one sink adds is not seen by another
        assert raw(driver, "plain") == (b"k", text.encode(), 1, [("a", b"1")])


def test_an_extractor_sees_what_was_read_with_headers() -> None:
    seen: list[Any] = []

    class Extractor:
        def extract(self, record: ConsumerRecord, partition_time: int) -> int:
            seen.append(record.value)
            return 5

    builder = StreamsBuilder()
    serde = Serde(HeaderSerializer(), HeaderDeserializer())
    builder.stream("in", Consumed.with_(TEXT, serde).with_timestamp_extractor(Extractor())).to(
        "out", Produced.with_(TEXT, TEXT)
    )
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe_raw("in", b"k", b"\x01", 1, [("h", None)])
        driver.pipe_raw("in", b"k", b"\x02", 1, [("i", None)])
    assert seen == ["{'h': None}1", "{'i': None}2"]


def test_a_store_takes_no_headers() -> None:
    serde = Serde(HeaderSerializer(), HeaderDeserializer())
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed.with_(TEXT, TEXT)).group_by_key()
    stored = Materialized.as_("kept").with_key_serde(TEXT).with_value_serde(serde)
    grouped.reduce(lambda old, new: old + new, stored.with_store_type(StoreType.IN_MEMORY))
    with TopologyTestDriver(builder.build(), {"application.id": "a"}) as driver:
        driver.pipe_raw("in", b"k", b"x", 1, [("a", b"1")])
        driver.pipe_raw("in", b"k", b"y", 2, None)
        assert [raw(driver, "a-kept-changelog") for _ in range(2)] == [
            (b"k", b"plain x", 1, None),
            (b"k", b"plain xy", 2, None),
        ]


@pytest.mark.parametrize("partitions", [None, 1])
def test_rows_of_a_global_table_wait_too(partitions: int | None) -> None:
    register = Register()
    more: Mapping[str, Any] = {} if partitions is None else {"partitions": partitions}
    builder = StreamsBuilder()
    rates = builder.global_table("rates", Consumed.with_(TEXT, asking(register)))
    joined = builder.stream("in", Consumed.with_(TEXT, TEXT)).join(rates, lambda k, v: k, lambda v, rate: f"{v} {rate}")
    joined.to("out", Produced.with_(TEXT, TEXT))
    skipping: Any = {"deserialization.exception.handler": LogAndContinueExceptionHandler()}
    with TopologyTestDriver(builder.build(), skipping, **more) as driver:
        topic = driver.create_input_topic("rates", TEXT.serializer, TEXT.serializer)
        topic.pipe_input("k", "before", 0)
        register.error = AWAY
        with pytest.raises(TimeoutException):
            topic.pipe_input("k", "?a", 1)
        stream = driver.create_input_topic("in", TEXT.serializer, TEXT.serializer)
        stream.pipe_input("k", "one", 2)
        register.error = None
        topic.pipe_input("other", "b", 3)
        stream.pipe_input("k", "two", 4)
        out = driver.create_output_topic("out", TEXT.deserializer, TEXT.deserializer)
        assert out.read_values_to_list() == ["one BEFORE", "two ?A"]
