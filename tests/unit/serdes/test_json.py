from __future__ import annotations

import datetime as dt
import decimal
import enum
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Optional

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import SerializationException
from headrace.serdes import JsonSerde, is_immutable_type


class Total(msgspec.Struct, frozen=True):
    course_id: str
    net_cents: int
    flagged: bool = False


class Mutable(msgspec.Struct):
    a: int


class HoldsList(msgspec.Struct, frozen=True):
    a: list[int]


class HoldsMutable(msgspec.Struct, frozen=True):
    a: Mutable


class Node(msgspec.Struct, frozen=True):
    value: int
    next: Optional["Node"] = None  # noqa: UP037, UP045  # a string inside a union type is no type


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    a: int


class Colour(enum.Enum):
    RED = "red"


class Pair(NamedTuple):
    a: int
    b: list[int]


@dataclass(frozen=True)
class FrozenData:
    a: tuple[int, ...]


@dataclass
class PlainData:
    a: int


@given(st.builds(Total, st.text(st.characters(codec="utf-8")), st.integers(-(2**63), 2**63 - 1), st.booleans()))
def test_what_was_written_is_read(total: Total) -> None:
    serde = JsonSerde(Total)
    assert serde.deserializer.deserialize("t", serde.serializer.serialize("t", total)) == total


def test_compact_text_in_field_order_and_back() -> None:
    serde = JsonSerde(Total)
    total = Total("é-1", -5)
    raw = b'{"course_id":"\xc3\xa9-1","net_cents":-5,"flagged":false}'
    assert serde.serializer.serialize("t", total) == raw
    assert serde.serializer.bind("t")(total) == raw
    assert serde.deserializer.deserialize("t", raw) == total
    assert serde.deserializer.bind("t")(raw) == total
    assert serde.serializer.serialize("t", None) is None
    assert serde.deserializer.deserialize("t", None) is None


@pytest.mark.parametrize(
    "raw",
    [
        b'{"course_id":1,"net_cents":1}',
        b'{"course_id":"a","net_cents":"1"}',
        b'{"course_id":"a","net_cents":1.0}',
        b'{"course_id":"a","net_cents":true}',
        b'{"course_id":"a","net_cents":1,"flagged":0}',
        b'{"course_id":"a"}',
        b'{"course_id":null,"net_cents":1}',
        b"null",
        b"[]",
        b"",
        b"{oops",
        b'{"course_id":"\xff","net_cents":1}',
        b"[" * 100_000,
    ],
)
def test_what_is_not_the_type_is_refused_never_coerced(raw: bytes) -> None:
    with pytest.raises(SerializationException, match="not the expected JSON"):
        JsonSerde(Total).deserializer.deserialize("t", raw)
    with pytest.raises((msgspec.MsgspecError, RecursionError)):
        JsonSerde(Total).deserializer.bind("t")(raw)


def test_unknown_fields_are_ignored_unless_the_struct_forbids_them() -> None:
    total = JsonSerde(Total).deserializer.deserialize("t", b'{"learner_id":"x","course_id":"a","net_cents":1}')
    assert total == Total("a", 1)
    with pytest.raises(SerializationException, match="learner_id"):
        JsonSerde(Strict).deserializer.deserialize("t", b'{"a":1,"learner_id":"x"}')


@pytest.mark.parametrize("number", [2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**30])
def test_large_integers_stay_exact(number: int) -> None:
    typed = JsonSerde(Total)
    raw = typed.serializer.serialize("t", Total("a", number))
    assert raw is not None
    assert str(number).encode() in raw
    assert typed.deserializer.deserialize("t", raw) == Total("a", number)
    untyped: JsonSerde[Any] = JsonSerde()
    back: Any = untyped.deserializer.deserialize("t", raw)
    assert back == {"course_id": "a", "net_cents": number, "flagged": False}
    assert type(back["net_cents"]) is int


def test_a_value_of_another_class_is_refused_when_writing() -> None:
    serde: JsonSerde[Any] = JsonSerde(Total)
    for wrong in (Mutable(1), {"course_id": "a"}, "a"):
        with pytest.raises(SerializationException, match="takes a Total, not a"):
            serde.serializer.serialize("t", wrong)
        with pytest.raises(SerializationException, match="takes a Total, not a"):
            serde.serializer.bind("t")(wrong)
    number: JsonSerde[Any] = JsonSerde(int)
    with pytest.raises(SerializationException, match="takes a int, not a bool"):
        number.serializer.serialize("t", True)


def test_what_json_cannot_hold_is_refused() -> None:
    serde: JsonSerde[Any] = JsonSerde()
    for wrong in (object(), "\ud800", {(1, 2): 3}):
        with pytest.raises(SerializationException, match="cannot be written as JSON"):
            serde.serializer.serialize("t", wrong)


def test_untyped_and_container_types() -> None:
    untyped: JsonSerde[Any] = JsonSerde(Any)
    assert untyped.serializer.serialize("t", {"a": [1, None, "é"]}) == '{"a":[1,null,"é"]}'.encode()
    numbers = JsonSerde(list[int])
    assert numbers.deserializer.deserialize("t", b"[1,2]") == [1, 2]
    assert JsonSerde(float).serializer.serialize("t", 1) == b"1"
    assert (untyped.immutable, untyped.exact, numbers.immutable) == (False, False, False)


@pytest.mark.parametrize(
    ("type_", "immutable"),
    [
        (Total, True),
        (Node, True),
        (Mutable, False),
        (HoldsList, False),
        (HoldsMutable, False),
        (Pair, False),
        (FrozenData, True),
        (PlainData, False),
        (str, True),
        (bytes, True),
        (bytearray, False),
        (int | None, True),
        (Total | None, True),
        (list[int], False),
        (dict[str, int], False),
        (tuple[int, str], True),
        (tuple[int, list[int]], False),
        (tuple[Total, ...], True),
        (frozenset[str], True),
        (set[str], False),
        (Colour, True),
        (Literal["a", "b"], True),
        (decimal.Decimal, True),
        (dt.datetime, True),
        (Any, False),
        (object, False),
    ],
)
def test_immutable_follows_from_the_type(type_: Any, immutable: bool) -> None:
    assert is_immutable_type(type_) is immutable
    assert JsonSerde(type_).immutable is immutable
    assert JsonSerde(type_).exact is False


class _Flat(msgspec.Struct, frozen=True):
    name: str
    count: int | None = None


class _WithTuple(msgspec.Struct, frozen=True):
    numbers: tuple[int, ...]


def test_only_flat_frozen_structs_are_faithful() -> None:
    assert JsonSerde(_Flat).faithful
    assert JsonSerde(_WithTuple).immutable
    assert not JsonSerde(_WithTuple).faithful  # a list given in the tuple's place would come back as a tuple
    assert not JsonSerde(tuple[int, ...]).faithful
