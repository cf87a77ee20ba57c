"""What tables send through internal topics, against the Java library's own bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import SerializationException
from headrace.processors.murmur3 import murmur3_128
from headrace.serdes import Serdes
from headrace.serdes.change import ChangeDeserializer, ChangeSerializer, split_change
from headrace.serdes.foreign_key import (
    Answer,
    AnswerDeserializer,
    AnswerSerializer,
    Instruction,
    Subscription,
    SubscriptionDeserializer,
    SubscriptionSerializer,
    foreign_key_prefix,
    primary_key_of,
)

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parents[3] / "conformance" / "vectors.json").read_text(encoding="utf-8")
)
TEXT = Serdes.String()
SUBSCRIPTION = (
    SubscriptionSerializer("s", TEXT.serializer, "app"),
    SubscriptionDeserializer("s", TEXT.deserializer, "app"),
)
ANSWER = AnswerSerializer(TEXT.serializer), AnswerDeserializer(TEXT.deserializer)
CHANGE = ChangeSerializer(TEXT.serializer), ChangeDeserializer(TEXT.deserializer)


def vectors(name: str) -> list[dict[str, Any]]:
    found = [vector for vector in VECTORS["formats"] if vector["format"].startswith(name)]
    assert found
    return found


def hash_of(vector: dict[str, Any]) -> bytes | None:
    raw = vector["hash_of_hex"]
    return None if raw is None else murmur3_128(bytes.fromhex(raw))


@pytest.mark.parametrize("vector", VECTORS["murmur3_128"], ids=lambda v: v["key_hex"] or "empty")
def test_murmur3(vector: dict[str, Any]) -> None:
    expected = vector["h1"].to_bytes(8, "big", signed=True) + vector["h2"].to_bytes(8, "big", signed=True)
    assert murmur3_128(bytes.fromhex(vector["key_hex"])) == expected


def test_changes() -> None:
    serializer, deserializer = CHANGE
    for vector in vectors("table groupBy repartition value"):
        change = vector["new"], vector["old"]
        if "hex" in vector:
            assert serializer.serialize("t", change) == bytes.fromhex(vector["hex"])
            assert deserializer.deserialize("t", bytes.fromhex(vector["hex"])) == change
        elif change == (None, None):
            with pytest.raises(SerializationException):
                serializer.serialize("t", change)


def test_changes_with_a_flag_for_late_ones_are_read() -> None:
    assert split_change(b"old\x01\x03") == (None, b"old")
    assert split_change(b"new\x00\x04") == (b"new", None)
    assert split_change(b"\x06newold\x01\x05") == (b"new", b"old")


@pytest.mark.parametrize("data", [b"", b"x\x06", b"\x08new\x02", b"\xff\xff\xff\xff\xff\xff\x02", b"\x02"])
def test_what_is_no_change_is_refused(data: bytes) -> None:
    with pytest.raises(SerializationException, match="change of a table"):
        split_change(data)


@given(new=st.none() | st.text(max_size=200), old=st.none() | st.text(max_size=200))
def test_a_change_comes_back(new: str | None, old: str | None) -> None:
    if new is not None or old is not None:
        raw = CHANGE[0].serialize("t", (new, old))
        assert CHANGE[1].deserialize("t", raw) == (new, old)


def test_subscriptions() -> None:
    serializer, deserializer = SUBSCRIPTION
    for vector in vectors("foreign-key subscription value"):
        instruction = Instruction[vector["instruction"]]
        subscription = Subscription(hash_of(vector), instruction, vector["primary_key"], vector["primary_partition"])
        assert serializer.serialize("t", subscription) == bytes.fromhex(vector["hex"])
        assert deserializer.deserialize("t", bytes.fromhex(vector["hex"])) == subscription


def test_a_subscription_of_an_old_member_has_no_partition_and_stays_as_it_is() -> None:
    serializer, deserializer = SUBSCRIPTION
    raw = b"\x00\x02" + b"h" * 16 + b"key"
    subscription = deserializer.deserialize("t", raw)
    assert subscription == Subscription(b"h" * 16, Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE, "key", None)
    assert serializer.serialize("t", subscription) == raw


def test_a_newer_subscription_says_so() -> None:
    with pytest.raises(SerializationException, match="version 2, but 1 is the newest known"):
        SUBSCRIPTION[1].deserialize("t", b"\x82\x00key\x00\x00\x00\x00")


def test_answers() -> None:
    serializer, deserializer = ANSWER
    for vector in vectors("foreign-key subscription response value"):
        answer = Answer(hash_of(vector), vector["foreign_value"], None)
        assert serializer.serialize("t", answer) == bytes.fromhex(vector["hex"])
        assert deserializer.deserialize("t", bytes.fromhex(vector["hex"])) == answer


def test_a_value_of_no_bytes_reads_back_as_none_as_in_java() -> None:
    assert ANSWER[1].deserialize("t", ANSWER[0].serialize("t", Answer(None, "", 3))) == Answer(None, None, None)


@given(foreign=st.binary(max_size=20), primary=st.binary(max_size=20))
def test_keys_of_the_subscription_store_come_apart(foreign: bytes, primary: bytes) -> None:
    assert primary_key_of(foreign_key_prefix(foreign) + primary) == primary
