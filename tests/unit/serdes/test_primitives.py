from __future__ import annotations

import json
import math
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.api.serde import Deserializer, Serde, Serializer
from headrace.errors import SerializationException
from headrace.serdes import Serdes, join_value_and_timestamp, split_value_and_timestamp, timestamp_of

VECTORS = json.loads((Path(__file__).parents[3] / "conformance" / "vectors.json").read_text("utf-8"))
SERDES: dict[str, Serde[Any]] = {
    "string": Serdes.String(),
    "bytes": Serdes.Bytes(),
    "long": Serdes.Long(),
    "integer": Serdes.Integer(),
    "short": Serdes.Short(),
    "double": Serdes.Double(),
    "float": Serdes.Float(),
    "boolean": Serdes.Boolean(),
    "uuid": Serdes.UUID(),
    "void": Serdes.Void(),
}
PRIMITIVE_VECTORS = [v for v in VECTORS["serdes"] if v["serde"] in SERDES]


def python_value(vector: dict[str, Any]) -> Any:
    value = vector["value"]
    if value is None:
        return None
    match vector["serde"]:
        case "bytes":
            return bytes.fromhex(value)
        case "uuid":
            return uuid.UUID(value)
        case "double" | "float":
            return float(value)
        case _:
            return value


@pytest.mark.parametrize("vector", PRIMITIVE_VECTORS, ids=lambda v: f"{v['serde']}-{v['value']}")
def test_bytes_are_the_java_librarys(vector: dict[str, Any]) -> None:
    serde = SERDES[vector["serde"]]
    value = python_value(vector)
    raw = None if vector["hex"] is None else bytes.fromhex(vector["hex"])
    assert serde.serializer.serialize("t", value) == raw
    back: Any = serde.deserializer.deserialize("t", raw)
    assert back == value or (math.isnan(back) and math.isnan(value))
    if raw is not None:
        assert serde.serializer.bind("t")(value) == raw
        bound = serde.deserializer.bind("t")(raw)
        assert type(bound) is type(value)
        assert repr(bound) == repr(value)


def test_vectors_cover_every_primitive() -> None:
    assert {v["serde"] for v in PRIMITIVE_VECTORS} == set(SERDES)


@pytest.mark.parametrize("name", sorted(SERDES))
def test_none_is_null_in_both_directions(name: str) -> None:
    assert SERDES[name].serializer.serialize("t", None) is None
    assert SERDES[name].deserializer.deserialize("t", None) is None


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("long", True, "takes an int, not a bool"),
        ("long", 1.0, "takes an int, not a float"),
        ("long", "1", "takes an int, not a str"),
        ("long", 2**63, "not a signed 64-bit number"),
        ("long", -(2**63) - 1, "not a signed 64-bit number"),
        ("integer", 2**31, "not a signed 32-bit number"),
        ("short", 2**15, "not a signed 16-bit number"),
        ("short", False, "takes an int, not a bool"),
        ("double", "1.5", "takes a float, not a str"),
        ("double", True, "takes a float, not a bool"),
        ("double", 2**53 + 1, "exactly"),
        ("double", 10**400, "exactly"),
        ("float", 1e39, "32-bit range"),
        ("string", b"a", "cannot serialize a bytes"),
        ("string", 1, "cannot serialize a int"),
        ("string", "\ud800", "surrogates not allowed"),
        ("bytes", "a", "takes bytes, not a str"),
        ("bytes", bytearray(b"a"), "takes bytes, not a bytearray"),
        ("boolean", 1, "takes a bool, not a int"),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000", "takes a uuid.UUID, not a str"),
        ("void", 0, "takes None only"),
    ],
)
def test_wrong_values_are_refused(name: str, value: Any, text: str) -> None:
    with pytest.raises(SerializationException, match=text):
        SERDES[name].serializer.serialize("t", value)


@pytest.mark.parametrize(
    ("name", "raw", "text"),
    [
        ("long", b"1234567", "LongDeserializer needs exactly 8 bytes, but got 7"),
        ("long", b"", "exactly 8 bytes, but got 0"),
        ("integer", b"12345", "IntegerDeserializer needs exactly 4 bytes"),
        ("short", b"1", "ShortDeserializer needs exactly 2 bytes"),
        ("double", b"1234", "DoubleDeserializer needs exactly 8 bytes"),
        ("float", b"12345678", "FloatDeserializer needs exactly 4 bytes"),
        ("boolean", b"\x02", "neither 0 nor 1"),
        ("boolean", b"", "exactly 1 byte, but got 0"),
        ("string", b"\xff\xfe", "not valid UTF-8"),
        ("uuid", b"1-1-1-1-1", "36-character"),
        ("uuid", b"{123e4567-e89b-12d3-a456-426614174000}", "36-character"),
        ("uuid", b"\xff" * 36, "36-character"),
        ("void", b"", "takes null only"),
    ],
)
def test_wrong_bytes_are_refused_without_showing_them(name: str, raw: bytes, text: str) -> None:
    with pytest.raises(SerializationException, match=text):
        SERDES[name].deserializer.deserialize("t", raw)


@given(st.integers(-(2**63), 2**63 - 1))
def test_long_bytes_round_trip(value: int) -> None:
    raw = Serdes.Long().serializer.bind("t")(value)
    assert raw == value.to_bytes(8, "big", signed=True)
    assert Serdes.Long().deserializer.bind("t")(raw) == value


_VALUES: dict[str, st.SearchStrategy[Any]] = {
    # a lone surrogate has no UTF-8
    "string": st.text(st.characters(codec="utf-8")),
    "bytes": st.binary(),
    "long": st.integers(-(2**63), 2**63 - 1),
    "integer": st.integers(-(2**31), 2**31 - 1),
    "short": st.integers(-(2**15), 2**15 - 1),
    "double": st.floats(allow_nan=False),
    "float": st.floats(width=32, allow_nan=False),
    "boolean": st.booleans(),
    "uuid": st.uuids(),
    "void": st.none(),
}


@given(st.sampled_from(sorted(SERDES)).flatmap(lambda name: st.tuples(st.just(name), _VALUES[name])))
def test_what_was_written_is_read(row: tuple[str, Any]) -> None:
    name, value = row
    serde = SERDES[name]
    raw = serde.serializer.serialize("t", value)
    back = serde.deserializer.deserialize("t", raw)
    assert back == value
    assert serde.serializer.serialize("t", back) == raw


@given(st.binary(min_size=8, max_size=8))
def test_double_and_timestamp_take_any_eight_bytes(raw: bytes) -> None:
    value = Serdes.Double().deserializer.bind("t")(raw)
    again = Serdes.Double().serializer.bind("t")(value)
    assert again == raw or (math.isnan(value) and again.hex() == "7ff8000000000000")


def test_an_int_is_a_fine_double() -> None:
    assert Serdes.Double().serializer.serialize("t", 3) == Serdes.Double().serializer.serialize("t", 3.0)


def test_exact_serdes_give_back_the_bytes_they_came_from() -> None:
    for vector in PRIMITIVE_VECTORS:
        serde = SERDES[vector["serde"]]
        if serde.exact and vector["hex"] is not None:
            raw = bytes.fromhex(vector["hex"])
            assert serde.serializer.bind("t")(serde.deserializer.bind("t")(raw)) == raw
    assert not Serdes.UUID().exact
    assert not Serdes.Double().exact
    assert all(serde.immutable for serde in SERDES.values())


@pytest.mark.parametrize(
    "vector",
    [v for v in VECTORS["formats"] if v["format"].split(":")[0] == "value and timestamp"],
    ids=lambda v: v["hex"],
)
def test_stored_value_and_timestamp(vector: dict[str, Any]) -> None:
    value = (
        vector["value_string"].encode() if "value_string" in vector else vector["value_long"].to_bytes(8, signed=True)
    )
    raw = bytes.fromhex(vector["hex"])
    assert join_value_and_timestamp(value, vector["timestamp"]) == raw
    assert split_value_and_timestamp(raw) == (value, vector["timestamp"])
    with pytest.raises(SerializationException, match="at least 8 bytes"):
        timestamp_of(raw[:7])


class UpperSerializer(Serializer[str]):
    def serialize(self, topic: str, data: str | None) -> bytes | None:
        return None if data is None or data == "gone" else f"{topic}:{data.upper()}".encode()


class LowerDeserializer(Deserializer[str]):
    def deserialize(self, topic: str, data: bytes | None) -> str | None:
        return None if data is None else data.decode().removeprefix(f"{topic}:").lower()


def test_users_own_halves_work_alone_bound_and_as_a_serde() -> None:
    serde = Serdes.from_(UpperSerializer(), LowerDeserializer())
    assert serde.serializer.bind("t")("a") == b"t:A"
    assert serde.deserializer.bind("t")(b"t:A") == "a"
    assert (serde.immutable, serde.exact) == (False, False)
    with pytest.raises(SerializationException, match="A deletion must be a None value"):
        serde.serializer.bind("t")("gone")
