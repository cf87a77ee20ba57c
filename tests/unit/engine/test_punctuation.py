from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from unit.engine.harness import Bench

from headrace import Consumed, Serdes, StreamsBuilder
from headrace.api.handlers import Response
from headrace.api.processor import Processor, PunctuationType
from headrace.api.record import Record
from headrace.errors import FailedProcessingException
from headrace.testing.driver import TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.api.handlers import ErrorHandlerContext
    from headrace.api.processor import Cancellable, ProcessorContext

STREAM, WALL = PunctuationType.STREAM_TIME, PunctuationType.WALL_CLOCK_TIME
TEXT = Serdes.String()


class Timed(Processor[str, str, str, str]):
    """Runs ``on_init`` with its context, forwards records."""

    def __init__(self, on_init: Callable[[ProcessorContext[str, str]], object]) -> None:
        self._on_init = on_init

    def init(self, context: ProcessorContext[str, str]) -> None:
        super().init(context)
        self._on_init(context)

    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record)


def driver(
    on_init: Callable[[ProcessorContext[str, str]], object], clock: int = 0, handler: object = None
) -> TopologyTestDriver:
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, TEXT)).process(lambda: Timed(on_init)).to("out")
    settings: dict[str, Any] = {"default.key.serde": TEXT, "default.value.serde": TEXT}
    if handler is not None:
        settings["processing.exception.handler"] = handler
    return TopologyTestDriver(builder.build(), settings, clock)


def pipe(at: TopologyTestDriver, *times: int) -> None:
    topic = at.create_input_topic("in", TEXT.serializer, TEXT.serializer)
    for time in times:
        topic.pipe_input("k", "v", time)


def test_stream_time_is_looked_at_after_each_record_and_jumps_call_once() -> None:
    calls: list[int] = []
    with driver(lambda context: context.schedule(10, STREAM, calls.append)) as run:
        pipe(run, 3, 9, 10, 19, 45, 30, 51, 60)
    assert calls == [3, 10, 45, 51, 60]


def test_what_a_record_schedules_is_due_before_the_next_record_of_its_run() -> None:
    seen: list[str] = []

    class Scheduling(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            seen.append(record.value)
            if record.value == "first":
                self.context.schedule(10, STREAM, lambda time: seen.append(f"tick {time}"))

    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, TEXT)).process(Scheduling)
    bench = Bench(builder.build())
    bench.add_values("in", ("first", 7), ("second", 7), ("third", 3))
    bench.process()
    assert seen == ["first", "tick 7", "second", "third"]


def test_wall_clock_waits_for_one_interval() -> None:
    calls: list[int] = []
    with driver(lambda context: context.schedule(timedelta(milliseconds=10), WALL, calls.append), 5) as run:
        for step in (9, 1, 35, 4, 1):
            run.advance_wall_clock_time(step)
    assert calls == [15, 50, 55]


@pytest.mark.parametrize(
    ("start", "expected"), [(7, [7, 17, 28]), (5, [5, 15, 25]), (datetime(1970, 1, 1, tzinfo=UTC), [3, 15, 20])]
)
def test_an_anchored_start_decides_the_due_times(start: int | datetime, expected: list[int]) -> None:
    calls: list[int] = []
    with driver(lambda context: context.schedule(10, STREAM, calls.append, start)) as run:
        pipe(run, 3, 4, 5, 7, 15, 17, 20, 25, 28)
    assert calls == expected


def test_an_anchor_in_the_past_moves_to_the_next_multiple() -> None:
    calls: list[int] = []
    with driver(lambda context: context.schedule(10, WALL, calls.append, 3), 100) as run:
        run.advance_wall_clock_time(2)
        assert calls == []
        run.advance_wall_clock_time(1)
    assert calls == [103]


def test_cancelling_from_within_and_from_outside() -> None:
    calls: list[tuple[str, int]] = []
    held: dict[str, Cancellable] = {}

    def on_init(context: ProcessorContext[str, str]) -> None:
        def first(time: int) -> None:
            calls.append(("first", time))
            held["first"].cancel()
            held["second"].cancel()

        held["first"] = context.schedule(10, STREAM, first)
        held["second"] = context.schedule(15, STREAM, lambda time: calls.append(("second", time)))

    with driver(on_init) as run:
        pipe(run, 1, 50, 100)
    assert calls == [("first", 1)]


def test_a_punctuator_may_schedule_and_a_due_one_is_called_after_this_record() -> None:
    calls: list[tuple[str, int]] = []

    def on_init(context: ProcessorContext[str, str]) -> None:
        def first(time: int) -> None:
            calls.append(("first", time))
            if len(calls) == 1:
                context.schedule(100, STREAM, lambda at: calls.append(("later", at)))

        context.schedule(10, STREAM, first)

    with driver(on_init) as run:
        pipe(run, 1, 2)
        assert calls == [("first", 1), ("later", 1)]


def test_outside_of_a_record_there_is_no_metadata_and_forwards_carry_their_own_time() -> None:
    seen: list[Any] = []

    def on_init(context: ProcessorContext[str, str]) -> None:
        def tick(time: int) -> None:
            seen.append((context.record_metadata(), context.current_stream_time_ms(), context.current_system_time_ms()))
            context.forward(Record("tick", str(time), time + 1, [("h", b"x")]))

        context.schedule(10, STREAM, tick)
        seen.append(context.record_metadata())

    with driver(on_init, 77) as run:
        pipe(run, 12)
        out = run.create_output_topic("out", TEXT.deserializer, TEXT.deserializer)
        records = out.read_records_to_list()
    assert seen == [None, (None, 12, 77)]
    assert [(r.key, r.timestamp, r.headers) for r in records] == [("k", 12, []), ("tick", 13, [("h", b"x")])]


class Deciding:
    def __init__(self, answer: Response) -> None:
        self.answer = answer
        self.asked: list[tuple[ErrorHandlerContext, Any, Exception]] = []

    def handle_error(self, context: ErrorHandlerContext, record: Any, exception: Exception) -> Response:
        self.asked.append((context, record, exception))
        return self.answer


def failing(context: ProcessorContext[str, str]) -> None:
    def tick(time: int) -> None:
        raise ValueError("the user's own words")

    context.schedule(10, STREAM, tick)


def test_an_error_of_a_punctuator_goes_to_the_processing_handler_without_a_record() -> None:
    handler = Deciding(Response.resume())
    with driver(failing, handler=handler) as run:
        pipe(run, 12, 13, 20)
        assert sum(run.dropped_records().values()) == 2
    context, record, error = handler.asked[0]
    assert record is None
    assert isinstance(error, ValueError)
    assert (context.topic, context.partition, context.offset, context.headers) == (None, -1, -1, [])
    assert (context.processor_node_id, context.timestamp) == ("KSTREAM-PROCESSOR-0000000001", 12)


def test_a_failed_punctuator_ends_the_task_and_names_its_node() -> None:
    with (
        driver(failing) as run,
        pytest.raises(FailedProcessingException, match=r"PROCESSOR-0000000001.*own words") as e,
    ):
        pipe(run, 12)
    assert isinstance(e.value.__cause__, ValueError)


def test_a_swallowed_error_below_a_punctuator_still_ends_the_task() -> None:
    def on_init(context: ProcessorContext[str, str]) -> None:
        def tick(time: int) -> None:
            with contextlib.suppress(Exception):
                context.forward(Record("k", 5, time))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

        context.schedule(10, WALL, tick)

    with driver(on_init) as run, pytest.raises(Exception, match="does not take"):
        run.advance_wall_clock_time(10)


@pytest.mark.parametrize(("interval", "start"), [(0, None), (timedelta(microseconds=5), None), (1, -1)])
def test_impossible_schedules_are_refused(interval: int | timedelta, start: int | None) -> None:
    def on_init(context: ProcessorContext[str, str]) -> None:
        with pytest.raises(ValueError, match="punctuation"):
            context.schedule(interval, WALL, lambda time: None, start)

    driver(on_init).close()


def test_a_commit_asked_for_by_a_punctuator_happens() -> None:
    with driver(lambda context: context.schedule(5, STREAM, lambda time: context.commit())) as run:
        pipe(run, 1, 2, 10)
        assert not run.create_output_topic("out", TEXT.deserializer, TEXT.deserializer).is_empty()
