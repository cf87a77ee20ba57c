from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.config import StreamsConfig
from headrace.errors import ConfigException, SerializationException
from headrace.runtime.classes import instance
from headrace.serdes.registry import Schema, SchemaReference, SchemaRegistryClient
from headrace.serdes.registry.json_schema import KafkaJsonSchemaSerde, json_schema


class Order(msgspec.Struct, frozen=True, rename="camel"):
    order_id: str
    amount: int = 0


class WiderOrder(msgspec.Struct, frozen=True, rename="camel"):
    order_id: str
    amount: int = 0
    note: str | None = None


@dataclass
class Basket:
    orders: list[Order] = field(default_factory=list)


class Tree(msgspec.Struct):
    children: list[Tree] = []


SCHEMA = {
    "title": "Order",
    "type": "object",
    "properties": {"orderId": {"type": "string"}, "amount": {"type": "integer", "maximum": 5}},
    "required": ["orderId"],
}


def at(name: str | None = None, **settings: Any) -> dict[str, Any]:
    return {
        "schema.registry.url": f"mock://{name or uuid.uuid4().hex}",
        **{k.replace("_", "."): v for k, v in settings.items()},
    }


def test_the_wire_form_is_confluents() -> None:
    where = at()
    serde = KafkaJsonSchemaSerde(Order, config=where)
    raw = serde.serializer.serialize("orders", Order("ä", 3))
    assert raw == b"\x00\x00\x00\x00\x01" + '{"orderId":"ä","amount":3}'.encode()
    assert serde.deserializer.deserialize("orders", raw) == Order("ä", 3)
    registered = SchemaRegistryClient(where).get_latest_version("orders-value").schema
    assert registered.type == "JSON"
    assert json.loads(registered.text)["properties"]["orderId"] == {"type": "string"}


@given(st.builds(Order, order_id=st.text(st.characters(codec="utf-8")), amount=st.integers()))
def test_values_come_back_equal(order: Order) -> None:
    serde = KafkaJsonSchemaSerde(Order, config=at("round-trip"))
    assert serde.deserializer.deserialize("t", serde.serializer.serialize("t", order)) == order
    assert serde.immutable


def test_the_schema_of_a_class_has_its_own_part_at_the_top() -> None:
    assert json_schema(Basket)["title"] == "Basket"
    assert set(json_schema(Basket)["$defs"]) == {"Order"}
    assert json_schema(Tree) == {
        "title": "Tree",
        "$ref": "#/$defs/Tree",
        "$defs": {
            "Tree": {
                "title": "Tree",
                "type": "object",
                "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}, "default": []}},
                "required": [],
            }
        },
    }
    assert json_schema(int) == {"type": "integer"}


def test_untyped_values() -> None:
    serde = KafkaJsonSchemaSerde(schema=SCHEMA, config=at())
    raw = serde.serializer.serialize("t", {"orderId": "a", "amount": 99})
    assert serde.deserializer.deserialize("t", raw) == {"orderId": "a", "amount": 99}
    with pytest.raises(SerializationException, match="has no schema of its own"):
        KafkaJsonSchemaSerde(config=at()).serializer.serialize("t", {"a": 1})
    assert not serde.immutable


def test_a_class_reads_what_others_wrote() -> None:
    where = at()
    older, newer = KafkaJsonSchemaSerde(Order, config=where), KafkaJsonSchemaSerde(WiderOrder, config=where)
    assert newer.deserializer.deserialize("t", older.serializer.serialize("t", Order("a", 1))) == WiderOrder("a", 1)
    raw = newer.serializer.serialize("t", WiderOrder("b", 2, "note"))
    assert older.deserializer.deserialize("t", raw) == Order("b", 2)


def test_wrong_values() -> None:
    serde: Any = KafkaJsonSchemaSerde(Order, config=at())
    with pytest.raises(SerializationException, match="takes a Order, not a dict"):
        serde.serializer.serialize("t", {"orderId": "a"})
    raw = serde.serializer.serialize("t", Order("a"))
    with pytest.raises(SerializationException, match="cannot deserialize the data received from topic 't'"):
        serde.deserializer.deserialize("t", raw[:5] + b'{"orderId":7}')


@pytest.mark.parametrize("by_setting", [True, False])
def test_values_may_be_checked_against_their_schema(by_setting: bool) -> None:
    where = at()
    loose = KafkaJsonSchemaSerde(schema=SCHEMA, config=where)
    strict = KafkaJsonSchemaSerde(
        schema=SCHEMA,
        validate=not by_setting,
        config={**where, "json.fail.invalid.schema": "true"} if by_setting else where,
    )
    assert strict.serializer.serialize("t", {"orderId": "a", "amount": 5}) is not None
    with pytest.raises(SerializationException, match=r"rule 'maximum' at \$\.amount") as raised:
        strict.serializer.serialize("t", {"orderId": "a", "amount": 654321})
    assert "654321" not in str(raised.value)
    raw = loose.serializer.serialize("t", {"amount": 1})
    assert loose.deserializer.deserialize("t", raw) == {"amount": 1}
    with pytest.raises(SerializationException, match="rule 'required'"):
        strict.deserializer.deserialize("t", raw)
    assert strict.deserializer.deserialize("t", loose.serializer.serialize("t", {"orderId": "b"})) == {"orderId": "b"}


def test_schemas_that_refer_to_others() -> None:
    where = at()
    client = SchemaRegistryClient(where)
    client.register_schema("price", Schema('{"type": "integer", "minimum": 0}', "JSON"))
    text = '{"type": "object", "properties": {"price": {"$ref": "price.json"}}}'
    sale = client.register_schema("t-value", Schema(text, "JSON", (SchemaReference("price.json", "price", 1),)))
    by_id = {**where, "auto.register.schemas": False, "use.schema.id": sale.id}
    serde = KafkaJsonSchemaSerde(validate=True, config=by_id)
    assert serde.serializer.serialize("t", {"price": 1}) is not None
    with pytest.raises(SerializationException, match=r"rule 'minimum' at \$\.price"):
        serde.serializer.serialize("t", {"price": -1})


def test_the_title_is_the_records_name() -> None:
    where = at(value_subject_name_strategy="io.confluent.kafka.serializers.subject.TopicRecordNameStrategy")
    KafkaJsonSchemaSerde(Order, config=where).serializer.serialize("t", Order("a"))
    assert SchemaRegistryClient(where).get_subjects() == ["t-Order"]


def test_the_serde_by_its_java_name() -> None:
    config = StreamsConfig.load(
        {
            "application.id": "a",
            "bootstrap.servers": "b:1",
            "default.key.serde": "io.confluent.kafka.streams.serdes.json.KafkaJsonSchemaSerde",
            "json.key.type": f"{__name__}:Order",
            **at(),
        }
    )
    serde = instance(config, "default.key.serde")
    raw = serde.serializer.serialize("t", Order("a"))
    assert serde.deserializer.deserialize("t", raw) == Order("a")
    assert SchemaRegistryClient(config.originals()).get_subjects() == ["t-key"]


def test_settings_that_cannot_be() -> None:
    with pytest.raises(ConfigException, match=r"json\.fail\.invalid\.schema"):
        KafkaJsonSchemaSerde(Order, config=at(json_fail_invalid_schema="perhaps"))
    with pytest.raises(ConfigException, match="is not a class"):
        KafkaJsonSchemaSerde(config=at(json_value_type="math:pi"))
