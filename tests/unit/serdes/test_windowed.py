"""Serdes of windowed keys: Java's bytes, settings, errors, and the partition of a windowed key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import Serdes, SessionWindow, TimeWindow, Windowed
from headrace.api.windows import MAX_TIMESTAMP
from headrace.errors import ConfigException, SerializationException
from headrace.partitioning import partition_for_key
from headrace.serdes import (
    SessionWindowedSerde,
    TimeWindowedDeserializer,
    TimeWindowedSerde,
    TimeWindowedSerializer,
    WindowedSerdes,
    WindowedStreamPartitioner,
)

_VECTORS = json.loads((Path(__file__).parents[3] / "conformance" / "vectors.json").read_text(encoding="utf-8"))
_WINDOWED = [row for row in _VECTORS["serdes"] if "windowed" in row["serde"]]


@pytest.mark.parametrize("row", _WINDOWED, ids=lambda row: f"{row['serde']}-{row['value']['key']}")
def test_the_bytes_are_javas(row: dict[str, Any]) -> None:
    value = row["value"]
    if row["serde"].startswith("time"):
        serde = WindowedSerdes.time_windowed(Serdes.String(), 60_000)
        key: Windowed[str] = Windowed(value["key"], TimeWindow(value["start"], value["end"]))
    else:
        serde = WindowedSerdes.session_windowed(Serdes.String())
        key = Windowed(value["key"], SessionWindow(value["start"], value["end"]))
    raw = serde.serializer.serialize("t", key)
    assert raw is not None
    assert raw.hex() == row["hex"]
    assert serde.deserializer.deserialize("t", raw) == key
    assert serde.deserializer.bind("t")(raw) == key


@given(st.text(st.characters(codec="utf-8")), st.integers(0, MAX_TIMESTAMP - 1), st.integers(1, 10_000_000))
def test_what_was_written_is_read(key: str, start: int, length: int) -> None:
    end = min(start + length, MAX_TIMESTAMP)
    timed = WindowedSerdes.time_windowed(Serdes.String(), length)
    for serde, windowed in (
        (timed, Windowed(key, TimeWindow(start, end))),
        (WindowedSerdes.session_windowed(Serdes.String()), Windowed(key, SessionWindow(start, end))),
    ):
        assert serde.deserializer.deserialize("t", serde.serializer.serialize("t", windowed)) == windowed


def test_none_and_no_bytes_are_none() -> None:
    for serde in (TimeWindowedSerde(Serdes.String(), 5), SessionWindowedSerde(Serdes.String())):
        assert serde.serializer.serialize("t", None) is None
        assert serde.deserializer.deserialize("t", None) is None
        assert serde.deserializer.deserialize("t", b"") is None


def test_the_end_of_an_unlimited_window_is_the_greatest_time() -> None:
    serde = TimeWindowedSerde(Serdes.String(), MAX_TIMESTAMP)
    key = Windowed("a", TimeWindow(7, MAX_TIMESTAMP))
    raw = serde.serializer.serialize("t", key)
    assert serde.deserializer.deserialize("t", raw) == key


def test_the_keys_of_a_changelog_have_a_sequence_number_behind() -> None:
    raw = bytes.fromhex("6b657900000000000003e800000007")
    serde = TimeWindowedSerde(Serdes.String(), 60).for_changelog()
    assert serde.deserializer.deserialize("t", raw) == Windowed("key", TimeWindow(1000, 1060))


@pytest.mark.parametrize("serde", [TimeWindowedSerde(Serdes.String(), 5), SessionWindowedSerde(Serdes.String())])
@pytest.mark.parametrize("raw", [b"1234567", b"\xff" + b"\xff" * 16])
def test_malformed_bytes_are_a_serialization_error(serde: Any, raw: bytes) -> None:
    with pytest.raises(SerializationException):
        serde.deserializer.deserialize("t", raw)


def test_a_key_without_a_window_is_refused() -> None:
    wrong: Any = "a"
    with pytest.raises(SerializationException, match="Windowed key, not a str"):
        TimeWindowedSerializer(Serdes.String().serializer).serialize("t", wrong)


def test_settings_stand_in_for_what_the_constructor_was_not_given() -> None:
    serde: TimeWindowedSerde[str] = TimeWindowedSerde()
    settings = {
        "windowed.inner.class.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
        "window.size.ms": "25",
    }
    serde.configure(settings, is_key=True)
    key = Windowed("a", TimeWindow(3, 28))
    assert serde.deserializer.deserialize("t", serde.serializer.serialize("t", key)) == key


_NO_TIME: TimeWindowedSerde[str] = TimeWindowedSerde()
_NO_SESSION: SessionWindowedSerde[str] = SessionWindowedSerde()
_CONTRADICTIONS: list[tuple[Any, dict[str, Any], str]] = [
    (_NO_TIME, {}, "inner serializer .* must be given"),
    (_NO_SESSION, {}, "inner serializer .* must be given"),
    (TimeWindowedSerde(Serdes.String()), {}, "size of windows must be given"),
    (TimeWindowedSerde(Serdes.String(), 5), {"window.size.ms": 5}, "window.size.ms is 5"),
    (TimeWindowedSerde(Serdes.String()), {"window.size.ms": "-1"}, "must not be negative"),
    (TimeWindowedSerde(Serdes.String()), {"window.size.ms": "x"}, "window.size.ms is 'x'"),
    (SessionWindowedSerde(Serdes.String()), {"windowed.inner.class.serde": "headrace:nope"}, "cannot be loaded"),
    (SessionWindowedSerde(Serdes.String()), {"windowed.inner.class.serde": "headrace:Topology"}, "no Serde"),
    (
        SessionWindowedSerde(Serdes.String()),
        {"windowed.inner.class.serde": "headrace.serdes:LongSerde"},
        "StringSerializer, but .* LongSerializer",
    ),
]


@pytest.mark.parametrize(("serde", "settings", "said"), _CONTRADICTIONS)
def test_settings_that_contradict_or_are_missing(serde: Any, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigException, match=said):
        serde.configure(settings, is_key=True)


def test_a_serde_without_inner_one_says_so_when_used() -> None:
    empty: TimeWindowedSerializer[str] = TimeWindowedSerializer()
    with pytest.raises(ConfigException, match="no inner serializer"):
        empty.serialize("t", Windowed("a", TimeWindow(0, 1)))
    with pytest.raises(ConfigException, match="no inner deserializer"):
        TimeWindowedDeserializer(window_size=1).deserialize("t", b"12345678")


def test_all_windows_of_a_key_go_to_one_partition() -> None:
    partitioner = WindowedStreamPartitioner(TimeWindowedSerializer(Serdes.String().serializer))
    for start in range(0, 100, 10):
        chosen = partitioner.partitions("t", Windowed("hello", TimeWindow(start, start + 10)), None, 7)
        assert chosen == frozenset((partition_for_key(b"hello", 7),))
    assert partitioner.partitions("t", None, None, 7) is None
