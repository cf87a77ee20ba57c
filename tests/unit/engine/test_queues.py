from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace.api.engine import NEVER, RecordContext
from headrace.api.timestamps import (
    FailOnInvalidTimestamp,
    LogAndSkipOnInvalidTimestamp,
    UsePartitionTimeOnInvalidTimestamp,
    WallclockTimestampExtractor,
)
from headrace.engine.codecs import Decoders
from headrace.engine.order import TimeOrder
from headrace.engine.queues import ExtractingQueue, PartitionQueue, make_queue
from headrace.errors import StreamsException
from headrace.records import TopicPartition

if TYPE_CHECKING:
    from headrace.api.timestamps import ConsumerRecord, TimestampExtractor
    from headrace.records import RawRecord


class FromValue:
    """The value is the time."""

    def extract(self, record: ConsumerRecord, partition_time: int) -> int:
        return int(record.value)


class Broken:
    def extract(self, record: ConsumerRecord, partition_time: int) -> int:
        raise KeyError("no such field")


class Worked:
    """A queue and what came out of it. A value ``bad`` does not decode, a child fails on ``fail``."""

    def __init__(self, extractor: TimestampExtractor | None = None, *, skip_undecodable: bool = True) -> None:
        self.record = RecordContext()
        self.seen: list[tuple[Any, ...]] = []
        self.dropped: list[str] = []
        self.decode_errors: list[tuple[str, int]] = []
        self.stop_at: Any = None
        self.skip_undecodable = skip_undecodable
        self.queue = make_queue(
            TopicPartition("in", 3),
            self.record,
            extractor or FailOnInvalidTimestamp(),
            Decoders(self.decode, self.decode, None),
            self.child,
            self.on_decode_error,
            self.dropped.append,
        )

    def decode(self, raw: bytes) -> str:
        if raw == b"bad":
            raise UnicodeError("bad")
        return raw.decode()

    def on_decode_error(self, error: Exception, half: str, raw: RawRecord) -> bool:
        self.decode_errors.append((half, self.record.offset))
        if not self.skip_undecodable:
            raise StreamsException("stop") from error
        return True

    def child(self, key: Any, value: Any, timestamp: int, headers: Any) -> None:
        if value == "fail":
            raise RuntimeError("fail")
        record = self.record
        assert (record.topic, record.partition) == ("in", 3)
        self.seen.append((record.offset, key, value, timestamp))
        if value == self.stop_at:
            record.interrupt = True

    def add(self, *rows: tuple[Any, int], first: int = 0, key: bytes | None = b"k") -> None:
        self.queue.add(
            [
                (first + number, timestamp, key, value if value is None else value.encode(), None)
                for number, (value, timestamp) in enumerate(rows)
            ]
        )

    @property
    def values(self) -> list[Any]:
        return [seen[2] for seen in self.seen]


def both(request: pytest.FixtureRequest) -> Worked:
    """The raw queue, and the one that decodes its head first (times are the values there)."""
    return Worked(FromValue() if request.param == "extracting" else None)


worked = pytest.fixture(both, params=["raw", "extracting"], name="worked")


def test_the_extractor_decides_which_queue() -> None:
    for raw in (FailOnInvalidTimestamp(), LogAndSkipOnInvalidTimestamp(), UsePartitionTimeOnInvalidTimestamp()):
        assert type(Worked(raw).queue) is PartitionQueue

    class Own(FailOnInvalidTimestamp):
        pass

    for other in (FromValue(), WallclockTimestampExtractor(), Own()):
        assert type(Worked(other).queue) is ExtractingQueue


def test_a_run_ends_at_a_time_past_the_bound(worked: Worked) -> None:
    worked.add(("1", 1), ("5", 5), ("3", 3), ("6", 6), ("2", 2))
    assert worked.queue.run(5, 100) == 3
    assert worked.values == ["1", "5", "3"]
    assert (worked.queue.size, worked.queue.next_offset, worked.queue.head_offset()) == (2, 3, 3)
    assert worked.queue.head_timestamp() == 6
    assert worked.queue.run(NEVER, 100) == 2
    assert worked.queue.head_offset() is None
    assert worked.queue.next_offset == 5


def test_a_run_takes_no_more_than_its_limit(worked: Worked) -> None:
    worked.add(*((str(number), number) for number in range(10)))
    for expected in (4, 4, 2):
        assert worked.queue.run(NEVER, 4) == expected
    assert worked.values == [str(number) for number in range(10)]
    assert [seen[0] for seen in worked.seen] == list(range(10))


def test_runs_begin_in_the_middle_of_a_chunk(worked: Worked) -> None:
    worked.add(*((str(number), number) for number in range(5)))
    worked.add(("5", 5), ("6", 6), first=5)
    done = 0
    for _ in range(7):
        done += worked.queue.run(NEVER, 1)
    assert done == 7
    assert worked.values == list("0123456")
    assert worked.queue.size == 0


def test_an_interrupt_ends_the_run_after_its_record(worked: Worked) -> None:
    worked.add(("1", 1), ("2", 2), ("3", 3))
    worked.stop_at = "2"
    assert worked.queue.run(NEVER, 100) == 2
    assert worked.queue.next_offset == 2
    assert worked.queue.size == 1


def test_a_failing_record_stays_the_head() -> None:
    worked = Worked()
    worked.add(("1", 1), ("fail", 2), ("3", 3))
    with pytest.raises(RuntimeError):
        worked.queue.run(NEVER, 100)
    assert (worked.queue.head_offset(), worked.queue.next_offset, worked.queue.size) == (1, 1, 2)


def test_a_failing_first_record_moves_nothing() -> None:
    worked = Worked()
    worked.add(("fail", 2), ("3", 3), first=7)
    with pytest.raises(RuntimeError):
        worked.queue.run(NEVER, 100)
    assert (worked.queue.head_offset(), worked.queue.next_offset, worked.queue.size) == (7, None, 2)


def test_a_failing_record_stays_the_head_of_an_extracting_queue() -> None:
    class Always:
        def extract(self, record: ConsumerRecord, partition_time: int) -> int:
            return record.offset

    worked = Worked(Always())
    worked.add(("1", 0), ("fail", 0), ("3", 0))
    with pytest.raises(RuntimeError):
        worked.queue.run(NEVER, 100)
    assert (worked.queue.head_offset(), worked.queue.next_offset, worked.queue.size) == (1, 1, 2)


def test_undecodable_records_are_passed_over_and_their_offsets_move(worked: Worked) -> None:
    worked.add(("bad", 1), ("2", 2), ("bad", 3), ("bad", 4))
    assert worked.queue.run(NEVER, 100) == 4
    assert worked.values == ["2"]
    assert worked.decode_errors == [("value", 0), ("value", 2), ("value", 3)]
    assert (worked.queue.next_offset, worked.queue.size) == (4, 0)


def test_the_half_that_does_not_decode_is_told() -> None:
    worked = Worked()
    worked.add(("1", 1), key=b"bad")
    worked.add(("bad", 1), key=None)
    worked.queue.run(NEVER, 100)
    worked.queue.run(NEVER, 100)
    assert [half for half, _ in worked.decode_errors] == ["key", "value"]


def test_an_undecodable_record_that_stops_stays_the_head(worked: Worked) -> None:
    worked.skip_undecodable = False
    worked.add(("1", 1), ("bad", 2))
    with pytest.raises(StreamsException, match="stop"):
        worked.queue.run(NEVER, 100)
    assert worked.values == ["1"]
    assert (worked.queue.head_offset(), worked.queue.next_offset) == (1, 1)


def test_absent_keys_and_values_are_not_decoded() -> None:
    worked = Worked()
    worked.add((None, 1), key=None)
    worked.queue.run(NEVER, 1)
    assert worked.seen == [(0, None, None, 1)]


def test_times_only_rise(worked: Worked) -> None:
    worked.record.stream_time = 4
    worked.add(("3", 3), ("5", 5), ("4", 4))
    worked.queue.run(NEVER, 1)
    assert (worked.queue.partition_time, worked.record.stream_time) == (3, 4)
    worked.queue.run(NEVER, 9)
    assert (worked.queue.partition_time, worked.record.stream_time) == (5, 5)


def test_the_time_is_that_of_the_record_in_work() -> None:
    worked = Worked()
    times: list[int] = []
    worked.queue._child = lambda *_: times.append(worked.record.stream_time)
    worked.add(("a", 3), ("b", 7), ("c", 5))
    worked.queue.run(NEVER, 9)
    assert times == [3, 7, 7]


def test_negative_times_fail_by_default() -> None:
    worked = Worked()
    worked.add(("1", 1), ("2", -1))
    with pytest.raises(StreamsException, match=r"Record at in-3 offset 1 has the negative timestamp -1"):
        worked.queue.run(NEVER, 9)
    assert worked.queue.head_offset() == 1


def test_negative_times_can_be_skipped() -> None:
    worked = Worked(LogAndSkipOnInvalidTimestamp())
    worked.add(("1", 1), ("2", -1), ("3", -7), ("4", 4), ("5", -1))
    assert worked.queue.run(NEVER, 9) == 5
    assert worked.values == ["1", "4"]
    assert worked.dropped == ["negative timestamp"] * 3
    assert worked.queue.next_offset == 5


def test_negative_times_can_take_the_partitions() -> None:
    worked = Worked(UsePartitionTimeOnInvalidTimestamp())
    worked.add(("1", 10), ("2", -1), ("3", 5), ("4", -1))
    worked.queue.run(NEVER, 9)
    assert [seen[3] for seen in worked.seen] == [10, 10, 5, 10]
    worked = Worked(UsePartitionTimeOnInvalidTimestamp())
    worked.add(("1", -1))
    with pytest.raises(StreamsException, match="no earlier record"):
        worked.queue.run(NEVER, 9)


def test_an_extractor_sees_the_decoded_record_and_the_partition_time() -> None:
    seen: list[tuple[ConsumerRecord, int]] = []

    class Spy:
        def extract(self, record: ConsumerRecord, partition_time: int) -> int:
            seen.append((record, partition_time))
            return 100 + record.offset

    worked = Worked(Spy())
    worked.add(("a", 1), ("b", 2))
    worked.queue.run(NEVER, 9)
    assert [record[:6] for record, _ in seen] == [("in", 3, 0, 1, "k", "a"), ("in", 3, 1, 2, "k", "b")]
    assert [time for _, time in seen] == [-1, 100]
    assert [row[3] for row in worked.seen] == [100, 101]


def test_each_head_is_extracted_once_and_no_record_before_it_is_the_head() -> None:
    calls: list[int] = []

    class Counting:
        def extract(self, record: ConsumerRecord, partition_time: int) -> int:
            calls.append(record.offset)
            return 1

    worked = Worked(Counting())
    worked.add(("a", 1), ("b", 2), ("c", 3))
    for _ in range(3):
        assert worked.queue.head_timestamp() == 1
    assert calls == [0]
    worked.queue.run(NEVER, 1)
    worked.queue.head_timestamp()
    assert calls == [0, 1]


def test_negative_extracted_times_drop_the_record() -> None:
    worked = Worked(FromValue())
    worked.add(("-1", 5), ("4", 5), ("-9", 5))
    assert worked.queue.head_timestamp() == 4
    assert worked.queue.next_offset == 1
    assert worked.queue.run(NEVER, 9) == 2
    assert worked.values == ["4"]
    assert worked.dropped == ["negative timestamp"] * 2
    assert worked.queue.head_timestamp() == NEVER


@pytest.mark.parametrize("negative_only", [False, True])
def test_an_extractors_own_error_names_it_and_the_record(negative_only: bool) -> None:
    worked = Worked(Broken())
    if negative_only:
        # the raw queue asks its extractor only about negative times
        worked.queue = PartitionQueue(
            TopicPartition("in", 3),
            worked.record,
            Broken(),
            Decoders(worked.decode, worked.decode, None),
            worked.child,
            worked.on_decode_error,
            worked.dropped.append,
        )
    worked.add(("1", -1), first=12)
    with pytest.raises(
        StreamsException, match=r"timestamp extractor Broken failed for the record at in-3 offset 12"
    ) as e:
        worked.queue.run(NEVER, 9)
    assert isinstance(e.value.__cause__, KeyError)
    assert worked.queue.head_offset() == 12


def test_an_extracted_time_beyond_64_bits_is_an_error_and_no_record_that_is_never_reached() -> None:
    worked = Worked(FromValue())
    worked.add((str(2**63), 5))
    with pytest.raises(StreamsException, match=r"at in-3 offset 0: 9223372036854775808 is greater than 64 bits hold"):
        worked.queue.run(NEVER, 9)


def test_an_extractor_that_gives_nothing_is_at_fault() -> None:
    class Nothing:
        def extract(self, record: ConsumerRecord, partition_time: int) -> int:
            return None  # type: ignore[return-value]

    worked = Worked(Nothing())
    worked.add(("1", 1))
    with pytest.raises(StreamsException, match="timestamp extractor Nothing failed"):
        worked.queue.run(NEVER, 9)


def test_clear_forgets_records_and_progress(worked: Worked) -> None:
    worked.add(("1", 1), ("2", 2))
    worked.queue.run(NEVER, 1)
    worked.queue.head_timestamp()
    worked.queue.clear()
    assert (worked.queue.size, worked.queue.head_offset(), worked.queue.next_offset) == (0, None, None)
    worked.add(("9", 9), first=1)
    worked.queue.run(NEVER, 9)
    assert worked.values == ["1", "9"]
    assert worked.queue.next_offset == 2


def test_head_order_is_by_time() -> None:
    order: TimeOrder[PartitionQueue] = TimeOrder()
    queues = [Worked().queue for _ in range(6)]
    times = [30, 10, 20, 60, 50, 40]
    for queue, time in zip(queues, times, strict=True):
        order.offer(queue, time)
    order.offer(queues[0], NEVER)
    polled = []
    while order:
        least = order.least()
        polled.append((least, queues.index(order.poll())))
    assert polled == [(10, 1), (20, 2), (30, 0), (40, 5), (50, 4), (60, 3)]
    assert order.least() == NEVER


def test_equal_heads_alternate_as_in_javas_queue() -> None:
    order: TimeOrder[PartitionQueue] = TimeOrder()
    one, two = Worked().queue, Worked().queue
    order.offer(one, 5)
    order.offer(two, 5)
    taken = []
    for _ in range(4):
        queue = order.poll()
        taken.append(1 if queue is one else 2)
        order.offer(queue, 5)
    assert taken == [1, 2, 1, 2]
