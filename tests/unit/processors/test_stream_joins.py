"""Joins of two streams: what the recorded cases of Java cannot show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace import Consumed, JoinWindows, JsonSerde, Produced, Serdes, StreamJoined, StreamsBuilder
from headrace.api.handlers import LogAndContinueProcessingExceptionHandler
from headrace.errors import FailedProcessingException, StreamsException
from headrace.state.builders import Stores
from headrace.testing.driver import TopologyTestDriver

if TYPE_CHECKING:
    from headrace import KStream, Serde

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
        return [(r.key, r.value, r.timestamp) for r in out], driver.metrics()["dropped-records-total"]


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


def test_stores_in_the_same_state_after_a_restart_give_what_they_still_owe() -> None:
    builder = StreamsBuilder()
    left, right = _streams(builder)
    left.outer_join(right, lambda one, other: f"{one}+{other}", JoinWindows.of_time_difference_with_no_grace(0)).to(
        "out"
    )
    out, _ = _run(builder, [("l", "a", "1", 1), ("r", "b", "2", 1), ("r", "c", "3", 5)])
    assert out == [("b", "None+2", 1), ("a", "1+None", 1)]


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
