from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import SerializationException
from headrace.serdes.registry import (
    RecordNameStrategy,
    SubjectNameStrategy,
    TopicNameStrategy,
    TopicRecordNameStrategy,
    wire,
)

if TYPE_CHECKING:
    import uuid


@given(st.integers(0, 2**31 - 1))
def test_an_id_in_front(schema_id: int) -> None:
    raw = wire.id_prefix(schema_id) + b"rest"
    assert raw[:1] == b"\x00"
    assert raw[1:5] == schema_id.to_bytes(4, "big")
    assert wire.read_ref(raw) == ((schema_id, None), 5)


@given(st.uuids())
def test_a_guid(guid: uuid.UUID) -> None:
    raw = wire.guid_header(str(guid))
    assert raw == b"\x01" + guid.bytes
    assert wire.read_ref(raw + b"rest") == ((None, str(guid)), 17)


@given(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=5))
def test_message_indexes(indexes: list[int]) -> None:
    raw = wire.encode_indexes(indexes)
    assert wire.skip_indexes(b"ab" + raw + b"payload", 2) == 2 + len(raw)


@pytest.mark.parametrize(
    ("indexes", "expected"), [([0], "00"), ([1], "0202"), ([1, 0], "040200"), ([0, 0], "040000"), ([64], "028001")]
)
def test_message_indexes_are_zig_zag_varints(indexes: list[int], expected: str) -> None:
    assert wire.encode_indexes(indexes).hex() == expected


@pytest.mark.parametrize("raw", ["", "02", "0280", "ffffffffff7f", "01"])
def test_message_indexes_that_are_cut_off(raw: str) -> None:
    with pytest.raises(SerializationException):
        wire.skip_indexes(bytes.fromhex(raw), 0)


@pytest.mark.parametrize(
    ("raw", "text"),
    [(b"", "0 bytes"), (b"\x00\x00\x00\x01", "4 bytes"), (b"hello", "first byte is 104"), (b"\x01" * 9, "is 1")],
)
def test_bytes_without_a_schema(raw: bytes, text: str) -> None:
    with pytest.raises(SerializationException, match=text):
        wire.read_ref(raw)


def test_the_last_of_several_headers_counts() -> None:
    assert wire.header_value([("a", b"1"), ("a", b"2"), ("b", b"3")], "a") == b"2"
    assert wire.header_value([("b", None)], "b") is None
    assert wire.header_value(None, "b") is None


def test_setting_a_header_replaces_every_other_of_its_name() -> None:
    headers: Any = [("a", b"1"), ("b", b"2"), ("a", b"3")]
    wire.set_header(headers, "a", b"4")
    assert headers == [("b", b"2"), ("a", b"4")]
    wire.set_header(headers, "a", None)
    assert headers == [("b", b"2")]


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        (TopicNameStrategy(), "t-value"),
        (RecordNameStrategy(), "shop.Order"),
        (TopicRecordNameStrategy(), "t-shop.Order"),
    ],
)
def test_subjects(strategy: SubjectNameStrategy, subject: str) -> None:
    assert strategy.subject_name("t", False, "shop.Order") == subject


def test_a_key_has_a_subject_of_its_own() -> None:
    assert TopicNameStrategy().subject_name("t", True, None) == "t-key"


@pytest.mark.parametrize("strategy", [RecordNameStrategy(), TopicRecordNameStrategy()])
def test_a_subject_by_a_name_that_is_not_there(strategy: SubjectNameStrategy) -> None:
    with pytest.raises(
        SerializationException, match=f"key for topic 't' has a schema without a name.*{type(strategy).__name__}"
    ):
        strategy.subject_name("t", True, None)
