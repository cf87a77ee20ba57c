from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace import (
    Consumed,
    ErrorPolicy,
    KStream,
    LogAndContinueExceptionHandler,
    LogAndContinueProcessingExceptionHandler,
    Processor,
    ProducerRecord,
    Record,
    Response,
    Result,
    Serdes,
    StreamsBuilder,
    Topology,
    dead_letter,
)
from headrace.errors import FailedProcessingException, StreamsException
from headrace.testing.driver import TestRecord, TopologyTestDriver

if TYPE_CHECKING:
    from headrace import ErrorHandlerContext

TEXT, LONG, BYTES = Serdes.String(), Serdes.Long(), Serdes.ByteArray()


def fail_at(bad: str) -> Any:
    def checked(value: str) -> str:
        if value == bad:
            raise ValueError(f"the user's own {value}")
        return value

    return checked


def run(
    topology: Topology, *records: TestRecord[bytes, bytes], **config: object
) -> dict[str, list[TestRecord[Any, Any]]]:
    settings = {
        "default.key.serde": TEXT,
        "default.value.serde": TEXT,
        **{name.replace("_", "."): value for name, value in config.items()},
    }
    with TopologyTestDriver(topology, settings, 0) as driver:
        topic = driver.create_input_topic("in", BYTES.serializer, BYTES.serializer)
        topic.pipe_record_list(records)
        names = driver.produced_topic_names()
        return {
            name: driver.create_output_topic(name, BYTES.deserializer, BYTES.deserializer).read_records_to_list()
            for name in names
        }


def record(value: bytes, timestamp: int = 5, key: bytes = b"k") -> TestRecord[bytes, bytes]:
    return TestRecord(key, value, timestamp, [("own", b"1")])


def test_headers_tell_what_happened_in_javas_order() -> None:
    builder = StreamsBuilder()
    builder.stream("in").map_values(fail_at("bad")).to("out")
    sent = run(
        builder.build(),
        record(b"ok"),
        record(b"bad"),
        processing_exception_handler=LogAndContinueProcessingExceptionHandler(),
        errors_dead_letter_queue_topic_name="dlq",
    )
    (letter,) = sent["dlq"]
    assert (letter.key, letter.value, letter.timestamp) == (b"k", b"bad", 5)
    assert letter.headers[0] == ("own", b"1")
    about = dict(letter.headers[1:])
    assert list(about) == [
        f"__streams.errors.{name}" for name in ("exception", "message", "stacktrace", "topic", "partition", "offset")
    ]
    assert about["__streams.errors.exception"] == b"ValueError"
    assert about["__streams.errors.message"] == b"the user's own bad"
    assert b"in checked" in (about["__streams.errors.stacktrace"] or b"")
    assert [about[f"__streams.errors.{name}"] for name in ("topic", "partition", "offset")] == [b"in", b"0", b"1"]


def test_bytes_that_do_not_decode_arrive_as_they_are() -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, LONG)).filter(lambda k, v: True).to("out")
    sent = run(
        builder.build(),
        record(b"\xff\x00"),
        deserialization_exception_handler=LogAndContinueExceptionHandler(),
        errors_dead_letter_queue_topic_name="dlq",
    )
    assert [(r.key, r.value) for r in sent["dlq"]] == [(b"k", b"\xff\x00")]


class Answering:
    def __init__(self, result: Result) -> None:
        self._result = result
        self.raw: list[tuple[bytes | None, bytes | None]] = []

    def handle_error(self, context: ErrorHandlerContext, record: Any, exception: Exception) -> Response:
        self.raw.append((context.source_raw_key, context.source_raw_value))
        one, two = dead_letter("first", context, exception), ProducerRecord("second", None, b"x", b"y", 77, None)
        return Response(self._result, (one, two))


def test_a_handlers_records_are_sent_wherever_it_says() -> None:
    builder = StreamsBuilder()
    builder.stream("in").map_values(fail_at("bad")).to("out")
    handler = Answering(Result.RESUME)
    sent = run(builder.build(), record(b"bad"), record(b"ok"), processing_exception_handler=handler)
    assert [r.value for r in sent["first"]] == [b"bad"]
    assert [(r.key, r.value, r.timestamp) for r in sent["second"]] == [(b"x", b"y", 77)]
    assert [r.value for r in sent["out"]] == [b"ok"]
    assert handler.raw == [(b"k", b"bad")]


def test_retry_is_no_answer_to_a_processing_error() -> None:
    builder = StreamsBuilder()
    builder.stream("in").map_values(fail_at("bad")).to("out")
    with pytest.raises(FailedProcessingException, match="only Response"):
        run(builder.build(), record(b"bad"), processing_exception_handler=Answering(Result.RETRY))


def test_a_policy_decides_for_what_is_described_in_its_block_only() -> None:
    builder = StreamsBuilder()
    lines: KStream[str, str] = builder.stream("in", Consumed.with_(TEXT, TEXT))
    with builder.on_error(ErrorPolicy.resume("bad-lines")):
        checked = lines.map_values(fail_at("bad"))
        with builder.on_error(ErrorPolicy.resume()):
            checked = checked.filter(lambda key, value: bool(fail_at("worse")(value)))
    checked.map_values(fail_at("worst")).to("out")
    topology = builder.build()
    sent = run(topology, record(b"bad"), record(b"worse"), record(b"ok"))
    assert [r.value for r in sent["bad-lines"]] == [b"bad"]
    assert [r.value for r in sent["out"]] == [b"ok"]
    with pytest.raises(FailedProcessingException, match="own worst"):
        run(topology, record(b"worst"))


def test_policies_of_sources_sinks_and_aggregations() -> None:
    builder = StreamsBuilder()
    with builder.on_error(ErrorPolicy.resume("undecoded")):
        numbers: KStream[str, int] = builder.stream("in", Consumed.with_(TEXT, LONG))

    def total(key: str, value: int, so_far: int) -> int:
        if value == 13:
            raise ValueError("unlucky")
        return so_far + value

    with builder.on_error(ErrorPolicy.resume("unlucky")):
        totals = numbers.group_by_key().aggregate(int, total)
    with builder.on_error(ErrorPolicy.resume("unencoded")):
        totals.to_stream().map_values(lambda x: x if x < 100 else "much").to("out")  # type: ignore[misc,unused-ignore]
    encoded = [b"?", *(n.to_bytes(8, "big") for n in (1, 13, 5))]
    sent = run(builder.build(), *(record(raw) for raw in encoded), default_value_serde=LONG)
    assert [r.value for r in sent["undecoded"]] == [b"?"]
    assert [r.value for r in sent["unlucky"]] == [encoded[2]]
    assert [int.from_bytes(r.value, "big") for r in sent["out"]] == [1, 6]
    sent = run(builder.build(), record((200).to_bytes(8, "big")), default_value_serde=LONG)
    assert len(sent["unencoded"]) == 1


class Picky(ErrorPolicy):
    def decide(self, context: ErrorHandlerContext, exception: Exception) -> Response:
        if "bad" in str(exception):
            return Response.resume([dead_letter("dlq", context, exception)])
        return Response.fail()


class Checking(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        if record.value.startswith("b"):
            raise ValueError(record.value)
        self.context.forward(record)


def test_a_policy_of_ones_own_and_the_processor_api() -> None:
    topology = (
        Topology().add_source("source", "in").add_processor("check", Checking, "source", on_error=Picky(Result.FAIL))
    )
    topology.add_sink("sink", "out", "check")
    sent = run(topology, record(b"bad"), record(b"ok"))
    assert [r.value for r in sent["dlq"]] == [b"bad"]
    with pytest.raises(FailedProcessingException, match=r"processor=check.*boom"):
        run(topology, record(b"boom"))


class Failing:
    def handle_error(self, context: ErrorHandlerContext, record: Any, exception: Exception) -> Response:
        raise LookupError("the handler's own words")


def test_a_handler_that_fails_is_named_and_not_asked_where_a_policy_decides() -> None:
    builder = StreamsBuilder()
    lines: KStream[str, str] = builder.stream("in", Consumed.with_(TEXT, TEXT))
    with builder.on_error(ErrorPolicy.resume("dlq")):
        lines = lines.map_values(fail_at("bad"))
    lines.map_values(fail_at("worse")).to("out")
    topology = builder.build()
    assert run(topology, record(b"bad"), processing_exception_handler=Failing())["dlq"]
    with pytest.raises(StreamsException, match="handler itself failed"):
        run(topology, record(b"worse"), processing_exception_handler=Failing())
