"""Windowed aggregations where recorded cases cannot look: throttles, restarts, values changed in place, logs."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from unit.engine.harness import Bench, Lists

from headrace import (
    Consumed,
    EmitStrategy,
    Grouped,
    JsonSerde,
    KTable,
    Materialized,
    Serdes,
    SessionWindows,
    SlidingWindows,
    StoreType,
    StreamsBuilder,
    TimeWindows,
    UnlimitedWindows,
    Windowed,
)
from headrace.api.serde import Deserializer, Serde
from headrace.engine.task import TaskState
from headrace.partitioning import partition_for_key
from headrace.testing.driver import TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace import KGroupedStream, KStream, Topology

IN_MEMORY = {"default.dsl.store": "in_memory"}
TEXT = {"default.key.serde": Serdes.String(), "default.value.serde": Serdes.String()}
TUMBLING = TimeWindows.of_size_with_no_grace(10)
CLOSE = EmitStrategy.on_window_close()


def _topology(make: Callable[[KGroupedStream[str, str]], KTable[Windowed[str], Any]]) -> Topology:
    builder = StreamsBuilder(IN_MEMORY)
    table = make(builder.stream("in").group_by_key())
    table.to_stream(lambda key, value: str(key)).map_values(str).to("out")
    return builder.build()


_KEPT: Materialized[str, int] = Materialized.as_("w").with_retention(1000)
"""With a retention of no more than the size, Java's store in memory forgets a window before it is emitted."""


def _final_count(grouped: KGroupedStream[str, str]) -> KTable[Windowed[str], int]:
    return grouped.windowed_by(TUMBLING).emit_strategy(CLOSE).count(_KEPT)


def test_closed_windows_are_looked_for_once_a_second() -> None:
    bench = Bench(_topology(_final_count))
    bench.add_values("in", ("a", 1), ("b", 11))
    bench.process()
    assert bench.collector.values() == [], "the first record has looked"
    bench.now += 999
    bench.add_values("in", ("c", 21))
    bench.process()
    assert bench.collector.values() == []
    bench.now += 1
    bench.add_values("in", ("d", 22))
    bench.process()
    assert bench.collector.values() == ["1", "1"]


def test_what_was_emitted_is_not_emitted_again_after_a_restart() -> None:
    topology = _topology(_final_count)
    bench = Bench(topology)
    bench.add_values("in", ("a", 1))
    bench.process()
    bench.now += 1000
    bench.add_values("in", ("b", 11))
    bench.process()
    assert [sent[2] for sent in bench.collector.sent] == [b"[k@0/10]"]
    committed = bench.task.prepare_commit(lambda partition: None)
    again = Bench(topology, run=False)
    again.task.resume_from(committed)
    again.task.transition(TaskState.RESTORING)
    again.task.stores["w"].restore([(0, 1, *_window_row("k", 0), None), (1, 11, *_window_row("k", 10), None)], 2)
    again.task.complete_restoration()
    again.add("in", ("k", "c", 21), first_offset=2)
    again.process()
    assert [sent[2] for sent in again.collector.sent] == [b"[k@10/20]"]


def _window_row(key: str, start: int) -> tuple[bytes, bytes]:
    return key.encode() + start.to_bytes(8, "big") + bytes(4), (1).to_bytes(8, "big")


def test_late_records_are_counted_each_and_logged_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(_topology(lambda grouped: grouped.windowed_by(TUMBLING).count()))
    bench.add("in", ("secret", "x", 100), *(("secret", "x", time) for time in range(5)))
    with caplog.at_level(logging.WARNING):
        bench.process()
    assert bench.task.metrics.dropped["expired window"] == 5
    (message,) = [record.getMessage() for record in caplog.records]
    assert "topic=in, partition=0, offset=1" in message
    assert "window=[0,10)" in message
    assert "streamTime=100" in message
    assert "secret" not in message
    caplog.clear()
    bench.now += 10_000
    bench.add("in", ("secret", "x", 7))
    with caplog.at_level(logging.WARNING):
        bench.process()
    (message,) = [record.getMessage() for record in caplog.records]
    assert "timestamp=7" in message
    assert "4 more since" in message


def _append(key: str, value: str, seen: list[str]) -> list[str]:
    seen.append(value)
    return seen


def _merge(key: str, one: list[str], other: list[str]) -> list[str]:
    one.extend(other)
    return one


_LISTS: Materialized[str, list[str]] = Materialized.with_(Serdes.String(), JsonSerde(list[str]))


def _lists(kind: str, grouped: KGroupedStream[str, str]) -> KTable[Windowed[str], list[str]]:
    if kind == "session":
        windows = SessionWindows.of_inactivity_gap_and_grace(5, 100)
        return grouped.windowed_by(windows).aggregate(list[str], _append, _merge, _LISTS)
    if kind == "sliding":
        sliding = SlidingWindows.of_time_difference_and_grace(10, 100)
        return grouped.windowed_by(sliding).aggregate(list[str], _append, _LISTS)
    return grouped.windowed_by(TimeWindows.of_size_and_grace(10, 100)).aggregate(list[str], _append, _LISTS)


_GROUPED: Grouped[str, list[str]] = Grouped.with_(Serdes.String(), JsonSerde(list[str]))
_TIMES = [20, 15, 30, 18, 26, 5, 20, 3, 1, 4, 40, 33]


@pytest.mark.parametrize("kind", ["time", "sliding", "session"])
@pytest.mark.parametrize("cached", [False, True])
def test_aggregates_changed_in_place_stay_apart(kind: str, cached: bool) -> None:
    """Each window has what fell into it, and old values are what was sent before: lists as texts do the same."""
    config = {**IN_MEMORY, **TEXT, "statestore.cache.max.bytes": "100000" if cached else "0"}
    rows: list[dict[str, str]] = []
    changes: list[list[str]] = []
    for mutable in (True, False):
        builder = StreamsBuilder(config)
        grouped: KGroupedStream[str, str] = builder.stream("in").group_by_key()
        table = _lists(kind, grouped) if mutable else _texts(kind, grouped)
        seen: list[str] = []
        # an aggregation of the table needs its old values
        subtracted = table.group_by(lambda key, value: (str(key), value), _GROUPED).aggregate(
            lambda: "", lambda key, value, text: f"{text}+{value}", lambda key, value, text: f"{text}-{value}"
        )
        subtracted.to_stream().for_each(lambda key, value, seen=seen: seen.append(f"{key} {value}"))  # type: ignore[misc]
        with TopologyTestDriver(builder.build(), config) as driver:
            topic = driver.create_input_topic("in", Serdes.String().serializer, Serdes.String().serializer)
            for number, time in enumerate(_TIMES):
                topic.pipe_input("k", str(number), time)
            store = next(iter(driver.get_all_state_stores().values()))
            found = store.fetch("k") if kind == "session" else store.all()
            rows.append({str(key): str(getattr(row, "value", row)) for key, row in found})
        changes.append(seen)
    assert rows[0] == rows[1]
    assert changes[0] == changes[1]


@pytest.mark.parametrize("kind", ["none", "hopping", "sliding", "session"])
def test_a_result_that_a_mapper_changes_is_not_the_value_that_another_window_begins_with(kind: str) -> None:
    """The first value of a reduction stands as it is, and lies in several windows and goes to two reductions."""
    values: Serde[Any] = JsonSerde()
    kept: Materialized[str, Any] = Materialized.with_(Serdes.String(), values).with_caching_disabled()

    def reduced(grouped: KGroupedStream[str, Any], store: Materialized[str, Any]) -> KTable[Any, Any]:
        if kind == "none":
            return grouped.reduce(_later, store)
        if kind == "session":
            return grouped.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(5)).reduce(_later, store)
        if kind == "sliding":
            return grouped.windowed_by(SlidingWindows.of_time_difference_with_no_grace(10)).reduce(_later, store)
        return grouped.windowed_by(TimeWindows.of_size_with_no_grace(10).advance_by(5)).reduce(_later, store)

    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed.with_(Serdes.String(), values)).group_by_key(
        Grouped.with_(Serdes.String(), values)
    )
    for name in ("one", "two"):
        store = replace(kept, store_name=name)
        reduced(grouped, store).map_values(_spoilt).to_stream().for_each(lambda key, value: None)
    with TopologyTestDriver(builder.build(), IN_MEMORY) as driver:
        topic = driver.create_input_topic("in", Serdes.String().serializer, values.serializer)
        for time in (20, 24, 31):
            topic.pipe_input("k", {"time": time}, time)
        for name in ("one", "two"):
            store = driver.get_state_store(name)
            rows = [row for _, row in (store.fetch("k") if kind == "session" else store.all())]
            assert rows
            assert all("spoilt" not in getattr(row, "value", row) for row in rows)


def _later(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return other


def _spoilt(value: dict[str, Any]) -> dict[str, Any]:
    value["spoilt"] = True
    return value


def _texts(kind: str, grouped: KGroupedStream[str, str]) -> KTable[Windowed[str], Any]:
    # tuples cannot be changed in place: what the lists must agree with
    def append(key: str, value: str, seen: list[str]) -> list[str]:
        return [*seen, value]

    def merge(key: str, one: list[str], other: list[str]) -> list[str]:
        return [*one, *other]

    if kind == "session":
        windows = SessionWindows.of_inactivity_gap_and_grace(5, 100)
        return grouped.windowed_by(windows).aggregate(list[str], append, merge, _LISTS)
    if kind == "sliding":
        sliding = SlidingWindows.of_time_difference_and_grace(10, 100)
        return grouped.windowed_by(sliding).aggregate(list[str], append, _LISTS)
    return grouped.windowed_by(TimeWindows.of_size_and_grace(10, 100)).aggregate(list[str], append, _LISTS)


class Reader(Deserializer[str]):
    """Counts what it reads."""

    decoded = 0

    def deserialize(self, topic: str, data: bytes | None) -> str | None:
        self.decoded += 1
        return None if data is None else data.decode()


def test_a_record_decodes_the_sliding_windows_that_it_lies_in_and_one_more() -> None:
    reader = Reader()
    serde = Serdes.from_(Serdes.String().serializer, reader)
    windows = SlidingWindows.of_time_difference_and_grace(20, 100)
    kept: Materialized[str, str] = Materialized.as_("w").with_value_serde(serde)
    bench = Bench(
        _topology(
            lambda grouped: grouped.windowed_by(windows).aggregate(str, lambda key, value, seen: seen + value, kept)
        )
    )
    count = 100
    bench.add_values("in", *(("x", 100 + number) for number in range(count)))
    bench.process()
    store: Any = bench.task.stores["w"]
    assert [row for _, row in store.fetch("k", 179, 179)] == [("x" * 21, 199)]
    assert reader.decoded <= 22 * count


def test_windows_of_ones_own() -> None:
    class FromEvenSecond:
        """One window per record, from the last even second on."""

        size_ms = 2000
        grace_ms = 0

        def windows_for(self, timestamp: int) -> list[Any]:
            return list(TimeWindows.of_size_with_no_grace(2000).windows_for(timestamp))

    bench = Bench(_topology(lambda grouped: grouped.windowed_by(FromEvenSecond()).count()))
    bench.add_values("in", ("a", 1999), ("b", 2000), ("c", 3999))
    bench.process()
    assert bench.collector.values() == ["1", "1", "2"]


def test_final_results_need_windows_that_close() -> None:
    grouped: KGroupedStream[str, str] = StreamsBuilder().stream("in").group_by_key()
    with pytest.raises(ValueError, match="never closes"):
        grouped.windowed_by(UnlimitedWindows.of()).emit_strategy(CLOSE)


def test_an_initializer_that_fails_names_operator_and_place() -> None:
    def fail() -> list[str]:
        raise LookupError("no list today")

    windows = TimeWindows.of_size_with_no_grace(10)
    bench = Bench(_topology(lambda grouped: grouped.windowed_by(windows).aggregate(fail, _append, _LISTS)))
    bench.add_values("in", ("a", 1))
    with pytest.raises(Exception, match=r"processor=KSTREAM-AGGREGATE-0000000002, topic=in, partition=0, offset=0"):
        bench.process()


@pytest.mark.parametrize("store_type", list(StoreType))
def test_rows_of_a_windowed_table_are_read_by_windowed_keys(store_type: StoreType) -> None:
    builder = StreamsBuilder()
    text = Serdes.String()
    grouped: KGroupedStream[str, str] = builder.stream("in").group_by_key()
    how: Materialized[str, int] = Materialized.as_("w")
    grouped.windowed_by(TUMBLING).count(how.with_store_type(store_type))
    with TopologyTestDriver(builder.build(), TEXT) as driver:
        topic = driver.create_input_topic("in", text.serializer, text.serializer)
        for time in (1, 5, 11):
            topic.pipe_input("k", "v", time)
        rows = {str(key): row.value for key, row in driver.get_state_store("w").all()}
    assert rows == {"[k@0/10]": 2, "[k@10/20]": 1}


def test_all_windows_of_a_key_are_written_to_the_partition_of_the_key() -> None:
    builder = StreamsBuilder(IN_MEMORY)
    text = Serdes.String()
    stream: KStream[str, str] = builder.stream("in", Consumed.with_(text, text))
    stream.group_by_key().windowed_by(TUMBLING).count().to_stream().to("out")
    bench = Bench(builder.build(), collector=Lists({"out": 8}))
    bench.add("in", *((key, "v", time) for key in ("hello", "21") for time in range(0, 50, 10)))
    bench.process()
    chosen = {(sent[2][:-8], sent[1]) for sent in bench.collector.sent}
    assert chosen == {(key, partition_for_key(key, 8)) for key in (b"hello", b"21")}
