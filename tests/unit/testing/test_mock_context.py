from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from headrace import (
    Consumed,
    FixedKeyProcessor,
    Named,
    Processor,
    PunctuationType,
    Record,
    Serdes,
    StoreBuilder,
    Stores,
    StreamsBuilder,
    TaskId,
)
from headrace.errors import IllegalStateException, TopologyException
from headrace.testing import (
    MockFixedKeyProcessorContext,
    MockProcessorContext,
    TopologyTestDriver,
    fixed_key_record,
)

if TYPE_CHECKING:
    from pathlib import Path

    from headrace import FixedKeyRecord, ProcessorContext

TEXT, LONG = Serdes.String(), Serdes.Long()


class Counting(Processor[str, str, str, int]):
    """Counts per key; every second forwards all counts and asks for a commit."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        super().init(context)
        self._counts = context.get_state_store("counts")
        self._handle = context.schedule(timedelta(seconds=1), PunctuationType.WALL_CLOCK_TIME, self._tick)
        context.schedule(10, PunctuationType.STREAM_TIME, lambda time: None, datetime(2026, 1, 1, tzinfo=UTC))

    def process(self, record: Record[str, str]) -> None:
        count = (self._counts.get(record.key) or 0) + 1
        self._counts.put(record.key, count)
        where = self.context.record_metadata()
        if where is not None:
            self.context.forward(record.with_value(where.offset), "places")

    def _tick(self, timestamp: int) -> None:
        for key, count in self._counts.all():
            self.context.forward(Record(key, count, timestamp))
        self.context.commit()
        self._handle.cancel()


@pytest.mark.parametrize("in_memory", [True, False])
def test_what_a_processor_did_can_be_looked_at(in_memory: bool, tmp_path: Path) -> None:
    context: MockProcessorContext[str, int] = MockProcessorContext(
        {"application.id": "app"}, TaskId(1, 2), state_dir=tmp_path
    )
    supplier = Stores.in_memory_key_value_store if in_memory else Stores.persistent_key_value_store
    store = context.add_state_store(Stores.key_value_store_builder(supplier("counts"), TEXT, LONG))
    processor = Counting()
    processor.init(context)
    processor.process(Record("a", "x", 5))
    assert context.forwarded() == []
    context.set_record_metadata("in", 3, 17)
    processor.process(Record("a", "y", 6))
    assert [(one.record.value, one.child_name) for one in context.forwarded()] == [(17, "places")]
    assert context.forwarded("elsewhere") == []
    every_second, anchored = context.scheduled_punctuators()
    assert (every_second.interval_ms, every_second.kind) == (1000, PunctuationType.WALL_CLOCK_TIME)
    assert (anchored.interval_ms, anchored.start_ms) == (10, 1767225600000)
    cancelled = [every_second.cancelled]
    committed = [context.committed()]
    context.reset_forwards()
    every_second.punctuator(1000)
    (tick,) = context.forwarded("anyone")
    assert [*cancelled, every_second.cancelled] == [False, True]
    assert (tick.record, tick.child_name) == (Record("a", 2, 1000), None)
    committed.append(context.committed())
    context.reset_commit()
    assert [*committed, context.committed()] == [False, True, False]
    assert (context.application_id, context.task_id) == ("app", TaskId(1, 2))
    store.close()


class Longer(FixedKeyProcessor[str, str, int]):
    def process(self, record: FixedKeyRecord[str, str]) -> None:
        now, stream = self.context.current_system_time_ms(), self.context.current_stream_time_ms()
        self.context.forward(record.with_value(len(record.value) + now + stream))


def test_fixed_key_processors_and_their_times() -> None:
    context: MockFixedKeyProcessorContext[str, int] = MockFixedKeyProcessorContext()
    context.set_current_system_time_ms(1000)
    context.set_current_stream_time_ms(20)
    processor = Longer()
    processor.init(context)
    processor.process(fixed_key_record("k", "abc", 7, [("h", b"1")]))
    (forwarded,) = context.forwarded()
    assert (forwarded.record.key, forwarded.record.value, forwarded.record.timestamp) == ("k", 1023, 7)
    assert forwarded.record.headers == [("h", b"1")]


def test_missing_stores_and_serdes_are_named() -> None:
    context: MockProcessorContext[str, int] = MockProcessorContext()
    with pytest.raises(IllegalStateException, match="no store counts"):
        context.get_state_store("counts")
    builder: StoreBuilder[str, str] = Stores.key_value_store_builder(
        Stores.in_memory_key_value_store("bare"), None, None
    )
    with pytest.raises(TopologyException, match=r"bare.*serdes"):
        context.add_state_store(builder)
    stand_in = {"a": 1}
    assert context.add_state_store(stand_in, "plain") is stand_in
    assert context.get_state_store("plain") == {"a": 1}


class Positive(Processor[str, int, str, int]):
    def process(self, record: Record[str, int]) -> None:
        if record.value < 0:
            self.context.drop_record("negative")
        else:
            self.context.forward(record)


def test_dropped_records_are_counted_by_reason_and_told_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    context: MockProcessorContext[str, int] = MockProcessorContext()
    positive = Positive()
    positive.init(context)
    positive.process(Record("k", -1, 0))
    assert (context.dropped_records(), context.forwarded()) == ({"negative": 1}, [])

    text, number = Serdes.String(), Serdes.Long()
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(text, number)).process(Positive, named=Named.as_("positive"))
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", text.serializer, number.serializer)
        for value in (-47, 2, -48, -49):
            topic.pipe_input("k", value)
        driver.advance_wall_clock_time(10_000)
        topic.pipe_input("k", -50)
        assert driver.dropped_records() == {"negative": 4}
    told = [record.getMessage() for record in caplog.records if "Record dropped" in record.getMessage()]
    assert told == [
        f"Record dropped: negative (taskId=0_0, processor=positive, topic=in, partition=0, offset={offset}); "
        f"{unsaid} more since the last such message"
        for offset, unsaid in ((0, 0), (4, 2))
    ]
