from __future__ import annotations

import json
import math
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.config import StreamsConfig
from headrace.errors import ConfigException, SerializationException
from headrace.runtime.classes import instance
from headrace.serdes import ListDeserializer, ListSerde, ListSerializer, Serde, Serdes

VECTORS = json.loads((Path(__file__).parents[3] / "conformance" / "vectors.json").read_text("utf-8"))
INNER: dict[str, Serde[Any]] = {
    "string": Serdes.String(),
    "integer": Serdes.Integer(),
    "long": Serdes.Long(),
    "short": Serdes.Short(),
    "double": Serdes.Double(),
    "float": Serdes.Float(),
    "uuid": Serdes.UUID(),
    "boolean": Serdes.Boolean(),
    "bytes": Serdes.Bytes(),
}
LIST_VECTORS = [v for v in VECTORS["serdes"] if v["serde"].startswith("list<arraylist,")]
ELEMENTS: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(st.characters(codec="utf-8")),
    "integer": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "short": st.integers(-(2**15), 2**15 - 1),
    "double": st.floats(allow_nan=False),
    "float": st.floats(width=32, allow_nan=False),
    "uuid": st.uuids(),
    "boolean": st.booleans(),
    "bytes": st.binary(),
}


@pytest.mark.parametrize("vector", LIST_VECTORS, ids=lambda v: f"{v['serde']}-{v['value']}")
def test_bytes_are_the_java_librarys(vector: dict[str, Any]) -> None:
    serde = ListSerde(list, INNER[vector["serde"].removeprefix("list<arraylist,").removesuffix(">")])
    raw = bytes.fromhex(vector["hex"])
    assert serde.serializer.serialize("t", vector["value"]) == raw
    assert serde.deserializer.deserialize("t", raw) == vector["value"]


@given(st.data())
def test_what_was_written_is_read(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(INNER)))
    elements = data.draw(st.lists(st.none() | ELEMENTS[name], max_size=8))
    serde = ListSerde(tuple, INNER[name])
    raw = serde.serializer.bind("t")(tuple(elements))
    assert serde.deserializer.bind("t")(raw) == tuple(elements)
    assert serde.deserializer.deserialize("t", serde.serializer.serialize("t", tuple(elements))) == tuple(elements)


@given(st.sampled_from(sorted(INNER)), st.binary(max_size=60))
def test_any_bytes_are_a_list_or_a_serialization_exception(name: str, raw: bytes) -> None:
    try:
        found = ListSerde(list, INNER[name]).deserializer.deserialize("t", raw)
    except SerializationException:
        return
    assert isinstance(found, list)


def test_a_list_in_a_list() -> None:
    serde = ListSerde(list, ListSerde(list, Serdes.Long()))
    value: list[Any] = [[1], None, [], [None, 2]]
    assert serde.deserializer.deserialize("t", serde.serializer.serialize("t", value)) == value


def test_a_list_with_variable_sizes_is_read_by_a_serde_of_fixed_ones() -> None:
    raw = bytes.fromhex("0100000002" + "00000004" + "00000007" + "ffffffff")
    assert ListSerde(list, Serdes.Integer()).deserializer.deserialize("t", raw) == [7, None]


@pytest.mark.parametrize(
    ("raw", "inner", "text"),
    [
        ("", "integer", "no bytes"),
        ("02", "integer", "strategy flag 2"),
        ("00000000000000000100000001", "string", "no fixed size"),
        ("000000000000000001000001", "integer", "fewer bytes"),
        ("00ffffffff00000000", "integer", "list of -1 elements"),
        ("0100000001fffffffe", "string", "fewer bytes"),
        ("0100000001", "string", "fewer bytes"),
        ("007fffffff", "integer", "fewer bytes"),
        ("0100000001000000026162", "integer", "exactly 4 bytes"),
        ("010000000100000001ff", "string", "UnicodeDecodeError"),
    ],
)
def test_bytes_that_are_no_list(raw: str, inner: str, text: str) -> None:
    with pytest.raises(SerializationException, match=text):
        ListSerde(list, INNER[inner]).deserializer.deserialize("t", bytes.fromhex(raw))


def test_wrong_values_are_refused() -> None:
    serializer: Any = ListSerde(list, Serdes.Integer()).serializer
    with pytest.raises(SerializationException, match="takes a list or tuple, not a str"):
        serializer.serialize("t", "abc")
    with pytest.raises(SerializationException, match="takes an int, not a str"):
        serializer.serialize("t", ["1"])
    with pytest.raises(SerializationException, match="an element of a list for topic 't'"):
        ListSerde(list, Serdes.String()).serializer.serialize("t", [1])  # type: ignore[list-item]


def test_only_tuples_of_immutable_values_are_immutable() -> None:
    assert ListSerde(tuple, Serdes.String()).immutable
    assert not ListSerde(list, Serdes.String()).immutable
    assert not ListSerde(tuple, ListSerde(list, Serdes.String())).immutable


def settings(**extra: Any) -> StreamsConfig:
    return StreamsConfig.load({"application.id": "a", "bootstrap.servers": "b:1", **extra})


@pytest.mark.parametrize(("list_class", "expected"), [("java.util.ArrayList", [1, None]), (tuple, (1, None))])
def test_list_serde_by_the_java_settings(list_class: object, expected: object) -> None:
    config = settings(
        **{
            "default.value.serde": "org.apache.kafka.common.serialization.Serdes$ListSerde",
            "default.list.value.serde.type": list_class,
            "default.list.value.serde.inner": "org.apache.kafka.common.serialization.Serdes$IntegerSerde",
        }
    )
    serde = instance(config, "default.value.serde")
    raw = serde.serializer.serialize("t", [1, None])
    assert raw.hex() == "0000000001000000010000000200000001"
    assert serde.deserializer.deserialize("t", raw) == expected


@pytest.mark.parametrize(
    ("extra", "text"),
    [
        ({}, "default.list.key.serde.inner"),
        ({"default.list.key.serde.inner": Serdes.Long()}, "default.list.key.serde.type"),
        ({"default.list.key.serde.inner": StreamsConfig, "default.list.key.serde.type": list}, "without arguments"),
        ({"default.list.key.serde.inner": Path, "default.list.key.serde.type": list}, "is not a Serde"),
        ({"default.list.key.serde.inner": Serdes.Long(), "default.list.key.serde.type": "builtins:__debug__"}, "class"),
    ],
)
def test_a_list_serde_that_is_not_configured_says_what_is_missing(extra: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigException, match=text):
        instance(settings(**{"default.key.serde": ListSerde, **extra}), "default.key.serde")


def test_a_list_serde_without_parts() -> None:
    with pytest.raises(ConfigException, match="give one, or configure it"):
        ListSerializer[int]().bind("t")
    with pytest.raises(ConfigException, match="give one, or configure it"):
        ListDeserializer[int]().bind("t")
    with pytest.raises(ConfigException, match="cannot be configured"):
        ListSerde(list, Serdes.Long()).configure({}, is_key=True)
    with pytest.raises(ValueError, match="both"):
        ListSerde(list, None)  # type: ignore[call-overload]


def test_elements_keep_their_type() -> None:
    serde = Serdes.ListSerde(tuple, Serdes.Double())
    value = (1.5, math.inf)
    assert serde.deserializer.deserialize("t", serde.serializer.serialize("t", value)) == value
    named = uuid.uuid4()
    ids = Serdes.ListSerde(list, Serdes.UUID())
    assert ids.deserializer.deserialize("t", ids.serializer.serialize("t", [named])) == [named]


def test_a_byte_buffer_is_its_bytes() -> None:
    serde = Serdes.ByteBuffer()
    changing = bytearray(b"abc")
    raw = serde.serializer.serialize("t", memoryview(changing)[1:])
    changing[1] = 0
    assert raw == b"bc"
    view: Any = serde.deserializer.deserialize("t", b"bc")
    assert view.readonly
    assert bytes(view) == b"bc"
    assert not serde.faithful
    with pytest.raises(SerializationException, match="not a str"):
        serde.serializer.serialize("t", "abc")
