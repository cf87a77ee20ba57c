"""Joins of two streams, and of a stream with a versioned table: what the recorded cases of Java cannot show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace import (
    Consumed,
    Joined,
    JoinWindows,
    JsonSerde,
    Materialized,
    Produced,
    Serdes,
    StreamJoined,
    StreamsBuilder,
)
from headrace.api.handlers import LogAndContinueProcessingExceptionHandler
from headrace.errors import FailedProcessingException, StreamsException
from headrace.state.builders import Stores
from headrace.testing.driver import TopologyTestDriver

if TYPE_CHECKING:
    from headrace import KStream, KTable, Serde

TEXT = Serdes.String()
LISTS: Serde[list[Any]] = JsonSerde(list[Any])
WINDOWS = JoinWindows.of_time_difference_and_grace(10, 0)
CONTINUE = {"processing.exception.handler": LogAndContinueProcessingExceptionHandler()}


def _streams(builder: StreamsBuilder, serde: Serde[Any] = TEXT) -> tuple[KStream[str, Any], KStream[str, Any]]:
    return builder.stream("l", Consumed.with_(TEXT, serde)), builder.stream("r", Consumed.with_(TEXT, serde))


def _run(
    builder: StreamsBuilder,
    rows: list[tuple[str, str | None, Any, int]],
    config: dict[str, Any] | None = None,
    serde: Serde[Any] = TEXT,
) -> tuple[list[tuple[Any, ...]], int]:
    defaults = {"default.key.serde": TEXT, "default.value.serde": serde, **(config or {})}
    with TopologyTestDriver(builder.build(), defaults, 0) as driver:
        for topic, key, value, timestamp in rows:
            driver.create_input_topic(topic, TEXT.serializer, serde.serializer).pipe_input(key, value, timestamp)
        out = driver.create_output_topic("out", TEXT.deserializer, serde.deserializer).read_records_to_list()
        return [(r.key, r.value, r.timestamp) for r in out], sum(driver.dropped_records().values())


def test_a_joiner_that_changes_a_value_in_place_does_not_change_what_is_kept() -> None:
    def taint(one: list[Any], other: list[Any]) -> list[Any]:
        result = [*one, *other]
        one.append("tainted")
        other.append("tainted")
        return result

    builder = StreamsBuilder()
    left, right = _streams(builder, LISTS)
    left.join(right, taint, WINDOWS, StreamJoined.with_(TEXT, LISTS, LISTS)).to("out", Produced.with_(TEXT, LISTS))
    rows: list[tuple[str, str | None, Any, int]] = [
        ("l", "a", [1], 1),
        ("r", "a", [2], 2),
        ("l", "a", [3], 3),
    ]
    out, _ = _run(builder, rows, serde=LISTS)
    assert out == [("a", [1, 2], 2), ("a", [3, 2], 3)]


def test_a_joiner_that_fails_names_its_node_and_the_record() -> None:
    builder = StreamsBuilder()
    left, right = _streams(builder)
    options: StreamJoined[str, Any, Any] = StreamJoined.with_(TEXT, TEXT, TEXT).with_name("pairs")
    left.join(right, lambda one, other: one + int(other), WINDOWS, options).to("out")
    with pytest.raises(FailedProcessingException, match=r"processor=pairs-other-join, topic=r, partition=0, offset=0"):
        _run(builder, [("l", "a", "1", 1), ("r", "a", "2", 2)])


def test_a_joiner_that_fails_for_a_row_that_met_none_loses_that_row_only() -> None:
    def joiner(one: str, other: str | None) -> str:
        if one == "bad":
            raise RuntimeError("bad")
        return f"{one}+{other}"

    builder = StreamsBuilder()
    left, right = _streams(builder)
    left.left_join(right, joiner, WINDOWS).to("out")
    rows: list[tuple[str, str | None, Any, int]] = [
        ("l", "a", "bad", 1),
        ("l", "b", "1", 2),
        ("l", "c", "2", 50),
        ("l", "d", "3", 100),
    ]
    out, dropped = _run(builder, rows, CONTINUE)
    assert out == [("b", "1+None", 2), ("c", "2+None", 50)]
    assert dropped == 1


@pytest.mark.parametrize("where", ["1", "elsewhere"], ids=["from its directory", "from the changelogs"])
@pytest.mark.parametrize("grace", [0, 5])
def test_after_a_crash_both_sides_are_found_and_what_met_none_is_still_given(where: str, grace: int) -> None:
    builder = StreamsBuilder()
    left, right = _streams(builder)
    windows = JoinWindows.of_time_difference_and_grace(grace and 10, grace)
    left.outer_join(right, lambda one, other: f"{one}+{other}", windows).to("out")
    with TopologyTestDriver(
        builder.build(), {"default.key.serde": TEXT, "default.value.serde": TEXT}, 0, partitions=1
    ) as driver:
        topics = {side: driver.create_input_topic(side, TEXT.serializer, TEXT.serializer) for side in "lr"}
        out = driver.create_output_topic("out", TEXT.deserializer, TEXT.deserializer)
        topics["l"].pipe_input("a", "1", 20)
        topics["l"].pipe_input("a", "2", 20)
        topics["r"].pipe_input("b", "3", 21)
        driver.kill_instance("1")
        driver.start_instance(where)
        if grace:
            topics["r"].pipe_input("a", "4", 22)
            assert out.read_values_to_list() == ["1+4", "2+4"]
        topics["l"].pipe_input("c", "5", 60)
        assert out.read_key_values_to_list() == (
            [("b", "None+3")] if grace else [("a", "1+None"), ("a", "2+None"), ("b", "None+3")]
        )


def test_supplied_stores_must_fit_the_windows() -> None:
    def joined(retain_duplicates: bool, retention: int, size: int, name: str = "other") -> None:
        builder = StreamsBuilder()
        left, right = _streams(builder)
        options: StreamJoined[str, Any, Any] = StreamJoined.with_stores(
            Stores.in_memory_window_store("this", 20, 20, retain_duplicates=True),
            Stores.persistent_window_store(name, retention, size, retain_duplicates=retain_duplicates),
        )
        left.join(right, lambda one, other: one + other, WINDOWS, options).to("out")
        out, _ = _run(builder, [("l", "a", "1", 1), ("r", "a", "2", 2), ("l", "a", "3", 2)])
        assert out == [("a", "12", 2), ("a", "32", 2)]

    joined(retain_duplicates=True, retention=20, size=20)
    with pytest.raises(StreamsException, match="retain_duplicates"):
        joined(retain_duplicates=False, retention=20, size=20)
    with pytest.raises(StreamsException, match="needs 20 ms and 20 ms"):
        joined(retain_duplicates=True, retention=21, size=20)
    with pytest.raises(StreamsException, match="needs its own"):
        joined(retain_duplicates=True, retention=20, size=20, name="this")


def test_a_stream_is_joined_with_streams_and_tables_only() -> None:
    builder = StreamsBuilder()
    left, _ = _streams(builder)
    with pytest.raises(TypeError, match="not with a list"):
        left.join([], lambda one, other: one)  # type: ignore[call-overload]  # what is tested


def _with_grace(builder: StreamsBuilder, grace: int) -> None:
    table: KTable[str, str] = builder.table(
        "t", Consumed.with_(TEXT, TEXT), Materialized.as_(Stores.persistent_versioned_key_value_store("rows", 1000))
    )
    stream = builder.stream("s", Consumed.with_(TEXT, TEXT))
    joined: Joined[str, str, str] = Joined.with_(TEXT, TEXT, TEXT, "join", grace)
    stream.join(table, lambda one, row: f"{one}+{row}", joined).to("out", Produced.with_(TEXT, TEXT))


@pytest.mark.parametrize("where", ["1", "elsewhere"], ids=["from its directory", "from the changelogs"])
def test_records_that_wait_for_a_table_survive_a_crash(where: str) -> None:
    builder = StreamsBuilder()
    _with_grace(builder, 10)
    with TopologyTestDriver(builder.build(), {}, 0, partitions=1) as driver:
        topics = {name: driver.create_input_topic(name, TEXT.serializer, TEXT.serializer) for name in "st"}
        out = driver.create_output_topic("out", TEXT.deserializer, TEXT.deserializer)
        topics["t"].pipe_input("a", "row", 1)
        topics["s"].pipe_input("a", "1", 5)
        topics["s"].pipe_input("a", "2", 5)
        driver.kill_instance("1")
        driver.start_instance(where)
        # the same key and time once more: it must not take the place of one that waits
        topics["s"].pipe_input("a", "3", 5)
        topics["s"].pipe_input("a", "4", 4)
        assert out.is_empty()
        topics["s"].pipe_input("a", "5", 15)
        assert out.read_values_to_list() == ["4+row", "1+row", "2+row", "3+row"]


def test_a_joiner_that_fails_for_a_record_that_waited_loses_that_record_only() -> None:
    builder = StreamsBuilder()
    table: KTable[str, str] = builder.table(
        "t", Consumed.with_(TEXT, TEXT), Materialized.as_(Stores.persistent_versioned_key_value_store("rows", 1000))
    )
    builder.stream("s", Consumed.with_(TEXT, TEXT)).left_join(
        table, lambda one, row: str(int(one)), Joined.with_(TEXT, TEXT, TEXT, grace_period=5)
    ).to("out")
    rows: list[tuple[str, str | None, Any, int]] = [
        ("s", "a", "x", 1),
        ("s", "b", "2", 2),
        ("s", "c", "3", 20),
        ("s", "d", "4", 40),
    ]
    out, dropped = _run(builder, rows, CONTINUE)
    assert out == [("b", "2", 2), ("c", "3", 20)]
    assert dropped == 1


def test_a_grace_period_needs_a_versioned_table_that_remembers_as_long() -> None:
    with pytest.raises(ValueError, match="store rows of its table keeps a history of 1000 ms"):
        _with_grace(StreamsBuilder(), 1001)
    builder = StreamsBuilder()
    stream = builder.stream("s", Consumed.with_(TEXT, TEXT))
    table: KTable[str, str] = builder.table("t", Consumed.with_(TEXT, TEXT), Materialized.as_("rows"))
    with pytest.raises(ValueError, match="the store rows is not versioned"):
        stream.join(table, lambda one, row: one + row, Joined.with_(grace_period=5))
