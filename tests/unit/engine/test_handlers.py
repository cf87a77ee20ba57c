"""Errors of records: who is asked, what the answers do, and what the error says."""

from __future__ import annotations

import logging
import traceback
from typing import TYPE_CHECKING, Any

import pytest
from unit.engine.harness import TEXT, Bench, Lists

from headrace.api.handlers import (
    DefaultProductionExceptionHandler,
    LogAndContinueExceptionHandler,
    LogAndContinueProcessingExceptionHandler,
    LogAndFailExceptionHandler,
    LogAndFailProcessingExceptionHandler,
    Response,
    SerializationExceptionOrigin,
)
from headrace.api.options import Consumed, Joined, Materialized, Named, Produced
from headrace.api.processor import Processor
from headrace.api.stores import StoreType
from headrace.dsl import StreamsBuilder
from headrace.errors import (
    FailedProcessingException,
    SerializationException,
    StreamsException,
    TaskCorruptedException,
    TimeoutException,
    TransactionAbortableException,
)
from headrace.processors.stateless import PassThrough
from headrace.records import TaskId, TopicPartition
from headrace.serdes import Serdes
from headrace.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.api.record import Record


class Answering:
    """A handler of every kind that keeps what it was asked and gives one answer."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[tuple[Any, ...]] = []

    def _respond(self, *asked: Any) -> Any:
        self.asked.append(asked)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def handle_error(self, *asked: Any) -> Any:
        return self._respond(*asked)

    def handle_serialization_error(self, *asked: Any) -> Any:
        return self._respond(*asked)


RESUME, FAIL = Response.resume(), Response.fail()


class Boom(Exception):
    pass


def boom(*_: Any) -> Any:
    raise Boom("the user's own words")


def failing_on(value: str, then: Callable[[str], Any] = str.upper) -> Callable[[str], Any]:
    def mapper(given: str) -> Any:
        if given == value:
            boom()
        return then(given)

    return mapper


def mapping() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in").map_values(failing_on("bad"), Named.as_("shout")).to("out")
    return builder.build()


# deserialization


@pytest.mark.parametrize("half", ["key", "value"])
def test_undecodable_bytes_fail_by_default_and_say_where(half: str) -> None:
    bench = Bench(mapping(), task_id=TaskId(0, 2))
    bad = b"\xff\xfe"
    bench.add("in", ("k", "x", 1), (bad if half == "key" else "k", bad if half == "value" else "x", 2), first_offset=40)
    with pytest.raises(StreamsException) as caught:
        bench.process()
    text = str(caught.value)
    assert f"The {half} of the record at in-2 offset 41 does not decode" in text
    assert "deserialization.exception.handler" in text
    assert isinstance(caught.value.__cause__, SerializationException)
    assert isinstance(caught.value.__cause__.__cause__, UnicodeDecodeError)
    assert caught.value.task_id == TaskId(0, 2)
    assert bench.task.failure is caught.value
    with pytest.raises(StreamsException):
        bench.offsets()


def test_undecodable_bytes_can_be_skipped() -> None:
    handler = Answering(RESUME)
    bench = Bench(mapping(), deserialization_handler=handler)
    bench.add("in", ("k", b"\xff", 7), ("k", "x", 8))
    assert bench.process() == 2
    assert bench.collector.values() == ["X"]
    assert bench.commit() == {"in": 2}
    ((context, error),) = handler.asked
    assert (context.topic, context.partition, context.offset, context.timestamp) == ("in", 0, 0, 7)
    assert context.processor_node_id == "KSTREAM-SOURCE-0000000000"
    assert context.task_id == TaskId(0, 0)
    assert (context.source_raw_key, context.source_raw_value) == (b"k", b"\xff")
    assert isinstance(error, SerializationException)


def test_builtin_handlers_answer_and_do_not_log_payloads(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(
        mapping(),
        deserialization_handler=LogAndContinueExceptionHandler(),
        processing_handler=LogAndContinueProcessingExceptionHandler(),
    )
    with caplog.at_level(logging.INFO):
        bench.add("in", ("secret-key", b"secret-value\xff", 1), ("secret-key", "bad", 1))
        bench.process()
    assert "topic: in, partition: 0, offset: 0" in caplog.text
    assert "topic: in, partition: 0, offset: 1" in caplog.text
    assert "secret" not in caplog.text
    context = Answering(RESUME)
    bench = Bench(mapping(), deserialization_handler=context)
    bench.add("in", ("k", b"\xff", 1))
    bench.process()
    ((where, error),) = context.asked
    assert LogAndFailExceptionHandler().handle_error(where, error) == FAIL
    assert LogAndFailProcessingExceptionHandler().handle_error(where, None, error) == FAIL
    production = DefaultProductionExceptionHandler()
    assert production.handle_error(where, None, error) == FAIL  # type: ignore[arg-type]
    assert (
        production.handle_serialization_error(where, None, error, SerializationExceptionOrigin.KEY)  # type: ignore[arg-type]
        == FAIL
    )


# processing


def test_a_users_error_fails_by_default_names_its_place_and_keeps_its_traceback() -> None:
    bench = Bench(mapping(), task_id=TaskId(0, 3))
    bench.add("in", ("k", "x", 1), ("k", "bad", 2), ("k", "y", 3), first_offset=5)
    with pytest.raises(FailedProcessingException) as caught:
        bench.process()
    text = str(caught.value)
    for part in ("taskId=0_3", "processor=shout", "topic=in", "partition=3", "offset=6", "the user's own words"):
        assert part in text
    cause = caught.value.__cause__
    assert isinstance(cause, Boom)
    assert "in boom" in "".join(traceback.format_tb(cause.__traceback__))
    assert bench.task.queues[TopicPartition("in", 3)].head_offset() == 6
    assert bench.collector.values() == ["X"]
    for attempt in (bench.process, bench.offsets):
        with pytest.raises(FailedProcessingException):
            attempt()
    assert bench.collector.values() == ["X"]


def test_a_users_error_can_be_skipped() -> None:
    handler = Answering(RESUME)
    bench = Bench(mapping(), processing_handler=handler)
    bench.add("in", ("k", "bad", 2), ("k", "x", 3))
    assert bench.process() == 2
    assert bench.collector.values() == ["X"]
    assert bench.commit() == {"in": 2}
    assert bench.task.metrics.dropped == {"processing error": 1}
    ((context, record, error),) = handler.asked
    assert isinstance(error, Boom)
    assert (record.key, record.value, record.timestamp) == ("k", "bad", 2)
    assert (context.processor_node_id, context.offset) == ("shout", 0)
    assert context.source_raw_key is None


MEMORY: Materialized[Any, Any] = Materialized.as_("rows").with_store_type(StoreType.IN_MEMORY)
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "filter": lambda s, t: s.filter(boom, Named.as_("op")),
    "filter_not": lambda s, t: s.filter_not(boom, Named.as_("op")),
    "map": lambda s, t: s.map(boom, Named.as_("op")),
    "map no pair": lambda s, t: s.map(lambda k, v: [k, v], Named.as_("op")),
    "select_key": lambda s, t: s.select_key(boom, Named.as_("op")),
    "map_values": lambda s, t: s.map_values(boom, Named.as_("op")),
    "map_values with key": lambda s, t: s.map_values(boom, Named.as_("op"), with_key=True),
    "flat_map": lambda s, t: s.flat_map(boom, Named.as_("op")),
    "flat_map generator": lambda s, t: s.flat_map(lambda k, v: (boom() for _ in range(2)), Named.as_("op")),
    "flat_map no pair": lambda s, t: s.flat_map(lambda k, v: ["xy"], Named.as_("op")),
    "flat_map_values": lambda s, t: s.flat_map_values(boom, Named.as_("op")),
    "flat_map_values none": lambda s, t: s.flat_map_values(lambda v: None, Named.as_("op")),
    "peek": lambda s, t: s.peek(boom, Named.as_("op")),
    "for_each": lambda s, t: s.for_each(boom, Named.as_("op")),
    "branch": lambda s, t: s.split(Named.as_("op")).branch(boom).default_branch(),
    "join": lambda s, t: s.join(t(), boom, Joined.as_("op")),
    "left_join": lambda s, t: s.left_join(t(), boom, Joined.as_("op")),
    "left_join with key": lambda s, t: s.left_join(t(), boom, Joined.as_("op"), with_key=True),
    "initializer": lambda s, t: s.group_by_key().aggregate(boom, lambda k, v, a: a, MEMORY, Named.as_("op")),
    "aggregator": lambda s, t: s.group_by_key().aggregate(str, boom, MEMORY, Named.as_("op")),
    "reducer": lambda s, t: s.group_by_key().reduce(boom, MEMORY, Named.as_("op")),
    "aggregate of a type the store cannot hold": lambda s, t: s.group_by_key().aggregate(
        str, lambda k, v, a: 5, MEMORY, Named.as_("op")
    ),
    "value of a type the store cannot hold": lambda s, t: (
        s.map_values(lambda v: 5).group_by_key().reduce(lambda a, b: a, MEMORY, Named.as_("op"))
    ),
    "row of a type the store cannot hold": lambda s, t: s.map_values(lambda v: 5).to_table(MEMORY, Named.as_("op")),
    "key of a type the table does not have": lambda s, t: s.process_values(Rekeyed).join(t(), boom, Joined.as_("op")),
}


class Rekeyed:
    """A fixed-key processor that cheats, to bring a key of a wrong type to a join without a repartition."""

    def init(self, context: Any) -> None:
        self.context = context

    def process(self, record: Any) -> None:
        record._key = 5
        self.context.forward(record)

    def close(self) -> None: ...


@pytest.mark.parametrize("what", OPERATORS)
@pytest.mark.parametrize("cache_bytes", [0, 1 << 20])
def test_every_operator_asks_the_handler_about_the_users_code(what: str, cache_bytes: int) -> None:
    def bench(**handlers: Any) -> Bench:
        builder = StreamsBuilder()
        rows: Materialized[Any, Any] = Materialized.as_("t").with_store_type(StoreType.IN_MEMORY)
        OPERATORS[what](builder.stream("in"), lambda: builder.table("table", materialized=rows))
        made = Bench(builder.build(), cache_bytes=cache_bytes, **handlers)
        if made.tp("table") in made.task.queues:
            made.add("table", ("k", "row", 0))
            made.process(1)
        made.add("in", ("k", "v", 1), ("k", "w", 2))
        return made

    handler = Answering(RESUME)
    skipping = bench(processing_handler=handler)
    assert skipping.process() == 2
    # the first value of a key is what a reducer starts with
    expected = [1] if what == "reducer" else [0, 1]
    assert [asked[0].offset for asked in handler.asked] == expected
    assert {asked[0].processor_node_id for asked in handler.asked} == {"op"}
    assert skipping.task.metrics.dropped == {"processing error": len(expected)}
    failing = bench()
    with pytest.raises(FailedProcessingException, match=r"processor=op, topic=in, partition=0, offset=") as caught:
        failing.process()
    assert caught.value.__cause__ is not None


def test_the_innermost_operator_decides_and_siblings_go_on() -> None:
    builder = StreamsBuilder()
    stream: Any = builder.stream("in").peek(lambda key, value: None, Named.as_("outer"))
    stream.map_values(boom, Named.as_("inner")).to("never")
    stream.to("out")
    handler = Answering(RESUME)
    bench = Bench(builder.build(), processing_handler=handler)
    bench.add_values("in", ("x", 1))
    bench.process()
    assert [asked[0].processor_node_id for asked in handler.asked] == ["inner"]
    assert bench.collector.values() == ["x"]


class Swallowing(Processor[Any, Any, Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        try:
            self.context.forward(record)
        except Exception:
            self.context.forward(record.with_value("swallowed"), "quiet")


def swallowing() -> Topology:
    return (
        Topology()
        .add_source("s", "in")
        .add_processor("p", Swallowing, "s")
        .add_processor("loud", Loud, "p")
        .add_sink("quiet", "quiet", "p")
    )


class Loud(Processor[Any, Any, Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        if record.value == "bad":
            boom()


def test_a_failure_that_user_code_swallows_still_fails_the_task_at_once() -> None:
    bench = Bench(swallowing())
    bench.add_values("in", ("bad", 1), ("next", 2))
    with pytest.raises(FailedProcessingException, match="processor=loud"):
        bench.process()
    assert bench.collector.values("quiet") == ["swallowed"], "the record after it must not be touched"
    with pytest.raises(FailedProcessingException, match="processor=loud"):
        bench.offsets()


def test_a_later_error_does_not_replace_the_first_one() -> None:
    lists = Lists()
    lists.refuse["quiet"] = OSError("second")
    bench = Bench(swallowing(), collector=lists)
    bench.add_values("in", ("bad", 1))
    with pytest.raises(FailedProcessingException, match="processor=loud") as caught:
        bench.process()
    assert isinstance(caught.value.__cause__, Boom)


@pytest.mark.parametrize("answer", [Response.retry(), None, "resume", True])
def test_other_answers_are_refused(answer: Any) -> None:
    handler = Answering(answer)
    for bench, value in (
        (Bench(mapping(), processing_handler=handler), "bad"),
        (Bench(mapping(), deserialization_handler=handler), b"\xff"),
    ):
        bench.add("in", ("k", value, 1))
        with pytest.raises(FailedProcessingException, match=r"only Response.fail\(\) and Response.resume\(\)"):
            bench.process()


def test_a_handler_that_raises_fails_the_task() -> None:
    own = ValueError("handler bug")
    bench = Bench(mapping(), processing_handler=Answering(own))
    bench.add("in", ("k", "bad", 1), first_offset=9)
    with pytest.raises(FailedProcessingException, match=r"handler itself failed .* shout, topic in, .* offset 9") as e:
        bench.process()
    assert e.value.__cause__ is own
    assert isinstance(own.__context__, Boom)


def test_no_handler_may_skip_errors_about_the_threads_standing() -> None:
    def late(*_: Any) -> Any:
        raise TimeoutException("brokers away")

    builder = StreamsBuilder()
    builder.stream("in").map_values(late)
    handler = Answering(RESUME)
    bench = Bench(builder.build(), processing_handler=handler)
    bench.add_values("in", ("x", 1))
    with pytest.raises(TaskCorruptedException, match="brokers away") as raised:
        bench.process()
    assert isinstance(raised.value.__cause__, TimeoutException)
    assert raised.value.task_ids == {bench.task.id}
    assert handler.asked == []


def test_no_handler_may_skip_a_record_because_memory_ran_out() -> None:
    def full(*_: Any) -> Any:
        raise MemoryError

    builder = StreamsBuilder()
    builder.stream("in").map_values(full)
    handler = Answering(RESUME)
    bench = Bench(builder.build(), processing_handler=handler)
    bench.add_values("in", ("x", 1))
    with pytest.raises(StreamsException, match=r"MemoryError while processing \(taskId=0_0, topic=in, ") as e:
        bench.process()
    assert isinstance(e.value.__cause__, MemoryError)
    assert handler.asked == []


def test_an_error_of_a_flushed_row_names_the_record_that_wrote_it() -> None:
    builder = StreamsBuilder()
    table: Any = builder.stream("in").group_by_key().reduce(lambda a, b: b, MEMORY)
    table.to_stream().map_values(failing_on("bad"), Named.as_("shout")).to("out")
    bench = Bench(builder.build(), cache_bytes=1 << 20)
    bench.add("in", ("a", "bad", 1), ("b", "x", 2), first_offset=30)
    assert bench.process() == 2
    with pytest.raises(FailedProcessingException, match=r"processor=shout, topic=in, partition=0, offset=30"):
        bench.offsets()
    with pytest.raises(FailedProcessingException):
        bench.offsets()


def test_a_flush_that_skips_goes_on_with_the_next_row() -> None:
    builder = StreamsBuilder()
    table: Any = builder.stream("in").group_by_key().reduce(lambda a, b: b, MEMORY)
    table.to_stream().map_values(failing_on("bad"), Named.as_("shout")).to("out")
    bench = Bench(builder.build(), cache_bytes=1 << 20, processing_handler=Answering(RESUME))
    bench.add("in", ("a", "bad", 1), ("b", "x", 2))
    bench.process()
    assert bench.commit() == {"in": 2}
    assert bench.collector.values() == ["X"]


def test_an_error_of_a_row_that_is_evicted_is_the_lower_operators_alone() -> None:
    def topology() -> Topology:
        builder = StreamsBuilder()
        table: Any = builder.stream("in").group_by_key().reduce(lambda a, b: b, MEMORY, Named.as_("upper"))
        table.to_stream().map_values(failing_on("bad"), Named.as_("shout")).to("out")
        return builder.build()

    bench = Bench(topology(), cache_bytes=450)
    bench.add("in", ("a", "bad", 1), ("b", "x", 2), ("c", "x", 3), first_offset=30)
    with pytest.raises(FailedProcessingException, match=r"processor=shout, topic=in, partition=0, offset=30"):
        bench.process()
    handler = Answering(RESUME)
    bench = Bench(topology(), cache_bytes=450, processing_handler=handler)
    bench.add("in", ("a", "bad", 1), ("b", "x", 2), ("c", "x", 3), first_offset=30)
    assert bench.process() == 3
    assert [(asked[0].processor_node_id, asked[0].offset) for asked in handler.asked] == [("shout", 30)]
    assert bench.collector.values() == ["X", "X"]
    assert bench.task.metrics.dropped == {"processing error": 1}


# production


@pytest.mark.parametrize(
    ("topology_args", "origin", "type_name"),
    [
        ({"key_serde": Serdes.Long()}, SerializationExceptionOrigin.KEY, "str"),
        ({"value_serde": Serdes.Long()}, SerializationExceptionOrigin.VALUE, "str"),
    ],
)
@pytest.mark.parametrize("partitioned", [False, True])
def test_records_that_do_not_encode(
    topology_args: dict[str, Any], origin: SerializationExceptionOrigin, type_name: str, partitioned: bool
) -> None:
    def topology() -> Topology:
        builder = StreamsBuilder()
        how: Produced[Any, Any] = Produced(name="sink", **topology_args)
        builder.stream("in").to("out", how.with_stream_partitioner(Fixed(frozenset({0}))) if partitioned else how)
        return builder.build()

    bench = Bench(topology())
    bench.add("in", ("k", "v", 1), first_offset=4)
    with pytest.raises(
        StreamsException, match=rf"{origin.value} of a record for out is a str that LongSerializer"
    ) as caught:
        bench.process()
    assert "processor=sink, topic=in, partition=0, offset=4" in str(caught.value)
    assert isinstance(caught.value.__cause__, SerializationException)
    handler = Answering(RESUME)
    bench = Bench(topology(), production_handler=handler)
    bench.add("in", ("k", "v", 1))
    bench.process()
    ((context, record, error, told),) = handler.asked
    assert told is origin
    assert isinstance(error, SerializationException)
    assert (record.topic, record.key, record.value, record.timestamp) == ("out", "k", "v", 1)
    assert context.processor_node_id == "sink"
    assert bench.task.metrics.dropped == {"serialization error": 1}
    assert bench.commit() == {"in": 1}


def test_a_codecs_own_error_is_wrapped_with_the_type_of_what_it_got() -> None:
    builder = StreamsBuilder()
    wrong: Any = Produced.with_(TEXT, TEXT)
    builder.stream("in", Consumed.with_(TEXT, TEXT)).map_values(len).to("out", wrong)
    handler = Answering(RESUME)
    bench = Bench(builder.build(), production_handler=handler)
    bench.add_values("in", ("x", 1))
    bench.process()
    error = handler.asked[0][2]
    assert isinstance(error, SerializationException)
    assert "is a int that StringSerializer does not take" in str(error)
    assert isinstance(error.__cause__, TypeError)


class Fixed:
    def __init__(self, answer: frozenset[int] | Exception | None) -> None:
        self.answer = answer
        self.asked: list[tuple[Any, ...]] = []

    def partitions(self, topic: str, key: Any, value: Any, num_partitions: int) -> frozenset[int] | None:
        self.asked.append((topic, key, value, num_partitions))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def sinking(partitioner: Any = None) -> Topology:
    builder = StreamsBuilder()
    builder.stream("in").to("out", Produced(partitioner=partitioner, name="sink"))
    return builder.build()


def test_a_refused_send() -> None:
    lists = Lists()
    lists.refuse["out"] = OSError("record too large")
    bench = Bench(sinking(), collector=lists)
    bench.add("in", ("k", "v", 1), first_offset=4)
    with pytest.raises(StreamsException, match=r"A record for out cannot be sent .*processor=sink.*offset=4") as caught:
        bench.process()
    assert caught.value.__cause__ is lists.refuse["out"]
    handler = Answering(RESUME)
    bench = Bench(sinking(), collector=lists, production_handler=handler)
    bench.add("in", ("k", "v", 1))
    bench.process()
    ((_, record, error),) = handler.asked
    assert (record.key, record.value, record.partition) == (b"k", b"v", None)
    assert error is lists.refuse["out"]
    assert bench.task.metrics.dropped == {"production error": 1}


def test_a_transaction_that_failed_is_not_the_records_fault_and_no_handler_is_asked() -> None:
    lists = Lists()
    lists.refuse["out"] = TransactionAbortableException("the transaction has to be aborted")
    everything = Answering(RESUME)
    bench = Bench(sinking(), collector=lists, production_handler=everything, processing_handler=everything)
    bench.add_values("in", ("x", 1))
    with pytest.raises(TransactionAbortableException):
        bench.process()
    assert everything.asked == []
    with pytest.raises(TransactionAbortableException):
        bench.offsets()


def test_a_refused_changelog_record_is_never_skipped() -> None:
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count(MEMORY.with_value_serde(Serdes.Long()))
    lists = Lists()
    lists.refuse["app-rows-changelog"] = OSError("gone")
    everything = Answering(RESUME)
    bench = Bench(builder.build(), collector=lists, production_handler=everything, processing_handler=everything)
    bench.add_values("in", ("x", 1))
    with pytest.raises(OSError, match="gone"):
        bench.process()
    assert everything.asked == []
    with pytest.raises(OSError, match="gone"):
        bench.offsets()


def test_a_partitioner_chooses_drops_and_multiplies() -> None:
    partitioner = Fixed(None)
    bench = Bench(sinking(partitioner), collector=Lists({"out": 5}))
    answers: list[frozenset[int] | None] = [None, frozenset({4}), frozenset(), frozenset({3, 0})]
    for number, answer in enumerate(answers):
        partitioner.answer = answer
        bench.add("in", ("k", str(number), number))
        bench.process()
    assert [(sent[1], sent[3]) for sent in bench.collector.sent] == [(None, b"0"), (4, b"1"), (0, b"3"), (3, b"3")]
    assert partitioner.asked[1] == ("out", "k", "1", 5)
    assert bench.task.metrics.dropped == {"partitioner chose no partition": 1}


@pytest.mark.parametrize("answer", [{5}, {-1, 2}, 3, True, {True}, {"1"}, "12", {None}, {1.0}, [0, 7]])
def test_a_partition_that_is_not_there_is_the_partitioners_error_and_not_tried_for_minutes(answer: Any) -> None:
    topology = Topology().add_source("source", "in").add_operator("above", PassThrough(), ["source"])
    topology.add_sink("sink", "out", "above", partitioner=Fixed(answer))
    bench = Bench(topology, collector=Lists({"out": 5}))
    bench.add_values("in", ("x", 1))
    with pytest.raises(FailedProcessingException, match=r"processor=above.*Fixed chose the partitions .* of topic out"):
        bench.process()
    handler = Answering(RESUME)
    bench = Bench(topology, collector=Lists({"out": 5}), processing_handler=handler)
    bench.add_values("in", ("x", 1), ("y", 2))
    bench.process()
    assert bench.collector.sent == []
    assert bench.task.metrics.dropped == {"processing error": 2}


def test_a_partitioners_error_is_answered_for_by_the_operator_above_as_in_java() -> None:
    handler = Answering(RESUME)
    topology = Topology().add_source("source", "in").add_operator("above", PassThrough(), ["source"])
    topology.add_sink("sink", "out", "above", partitioner=Fixed(Boom("which?")))
    bench = Bench(topology, processing_handler=handler)
    bench.add_values("in", ("x", 1))
    bench.process()
    assert [asked[0].processor_node_id for asked in handler.asked] == ["above"]


def test_below_a_source_a_partitioners_error_is_fatal_as_in_java() -> None:
    handler = Answering(RESUME)
    bench = Bench(sinking(Fixed(Boom("which?"))), processing_handler=handler)
    bench.add_values("in", ("x", 1))
    with pytest.raises(FailedProcessingException, match=r"processor=sink.*which\?"):
        bench.process()
    assert handler.asked == []


def test_a_sink_topic_whose_partitions_are_not_known_is_no_users_error() -> None:
    class Missing(Lists):
        def partition_count(self, topic: str) -> int:
            raise StreamsException(f"sink topic {topic} does not exist: create it")

    handler = Answering(RESUME)
    bench = Bench(sinking(Fixed(None)), collector=Missing(), processing_handler=handler)
    bench.add_values("in", ("x", 1))
    with pytest.raises(StreamsException, match="sink topic out does not exist"):
        bench.process()
    assert handler.asked == []


def test_one_refused_partition_of_several_leaves_the_others() -> None:
    class Half(Lists):
        def sender(self, topic: str) -> Any:
            send = super().sender(topic)

            def half(partition: int | None, *rest: Any) -> None:
                if partition == 0:
                    raise OSError("no leader")
                send(partition, *rest)

            return half

    handler = Answering(RESUME)
    bench = Bench(sinking(Fixed(frozenset({0, 1}))), collector=Half({"out": 2}), production_handler=handler)
    bench.add_values("in", ("x", 1))
    bench.process()
    assert [sent[1] for sent in bench.collector.sent] == [1]
    assert handler.asked[0][1].partition == 0


# the rest


def test_errors_that_are_nobodys_get_their_record() -> None:
    bench = Bench(sinking())
    queue = bench.task.queues[TopicPartition("in", 0)]

    def broken(*_: Any) -> None:
        raise ZeroDivisionError("engine bug")

    queue._child = broken
    bench.add("in", ("k", "x", 1), first_offset=77)
    with pytest.raises(
        StreamsException, match=r"ZeroDivisionError .*topic=in, partition=0, offset=77.*engine bug"
    ) as e:
        bench.process()
    assert isinstance(e.value.__cause__, ZeroDivisionError)
