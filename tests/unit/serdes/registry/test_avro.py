from __future__ import annotations

import copy
import datetime as dt
import enum
import io
import pickle
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import fastavro
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.serdes.registry.server import RegistryServer

from headrace import Consumed, Produced, Serdes, StreamsBuilder
from headrace.api.handlers import LogAndContinueExceptionHandler
from headrace.config import StreamsConfig
from headrace.errors import ConfigException, SerializationException, StreamsException
from headrace.runtime.classes import instance
from headrace.serdes.registry import (
    RecordNameStrategy,
    RegistryUnavailableException,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SubjectNameStrategy,
)
from headrace.serdes.registry.avro import (
    AvroSchema,
    GenericAvroSerde,
    GenericRecord,
    KafkaAvroDeserializer,
    KafkaAvroSerializer,
    PrimitiveAvroSerde,
    SpecificAvroSerde,
)
from headrace.serdes.registry.avro_types import avro_schema
from headrace.testing import TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TEXT = Serdes.String()
ORDER = AvroSchema(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [{"name": "id", "type": "string"}, {"name": "amount", "type": "long"}],
    }
)
WIDER = AvroSchema(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "amount", "type": "double"},
            {"name": "id", "type": "string"},
            {"name": "note", "type": ["null", "string"], "default": None},
        ],
    }
)


def at(name: str, **settings: Any) -> dict[str, Any]:
    return {"schema.registry.url": f"mock://{name}", **{k.replace("_", "."): v for k, v in settings.items()}}


def unique() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as running:
        yield running


def test_the_wire_form_is_confluents() -> None:
    serde = GenericAvroSerde(config=at("wire"))
    raw = serde.serializer.serialize("orders", GenericRecord(ORDER, {"id": "a", "amount": 3}))
    assert raw == b"\x00\x00\x00\x00\x01" + b"\x02a" + b"\x06"
    assert serde.deserializer.deserialize("orders", raw) == {"id": "a", "amount": 3}
    assert SchemaRegistryClient("mock://wire").get_subjects() == ["orders-value"]


def test_a_generic_record_carries_its_schema_on() -> None:
    where = at(unique())
    serde = GenericAvroSerde(config=where)
    read = serde.deserializer.deserialize(
        "one", serde.serializer.serialize("one", GenericRecord(ORDER, {"id": "a", "amount": 3}))
    )
    assert isinstance(read, GenericRecord)
    assert read.schema == ORDER
    again = serde.serializer.serialize("two", read)
    assert serde.deserializer.deserialize("two", again) == read
    assert SchemaRegistryClient(where).get_versions("two-value") == [1]


def test_generic_records_can_be_copied_and_pickled() -> None:
    record = GenericRecord(ORDER, {"id": "a", "amount": 1})
    for other in (record.copy(), copy.deepcopy(record), pickle.loads(pickle.dumps(record))):
        assert other == record
        assert type(other) is GenericRecord
        assert other.schema == ORDER
        other["id"] = "b"
    assert record["id"] == "a"


def test_keys_and_values_have_subjects_of_their_own() -> None:
    where = at(unique())
    GenericAvroSerde(config=where, is_key=True).serializer.serialize("t", "k")
    GenericAvroSerde(config=where).serializer.serialize("t", 1)
    client = SchemaRegistryClient(where)
    assert client.get_subjects() == ["t-key", "t-value"]
    assert client.get_latest_version("t-key").schema.text == '"string"'


@pytest.mark.parametrize(
    ("value", "schema"),
    [(True, "boolean"), (7, "long"), (1.5, "double"), ("text", "string"), (b"\x00\x01", "bytes")],
)
def test_primitives(value: Any, schema: str) -> None:
    where = at(unique())
    serde = PrimitiveAvroSerde(config=where, is_key=True)
    raw = serde.serializer.serialize("t", value)
    assert raw is not None
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    # bytes stand for themselves, without their length
    assert raw[5:] == (value if schema == "bytes" else out.getvalue())
    assert serde.deserializer.deserialize("t", raw) == value
    assert SchemaRegistryClient(where).get_latest_version("t-key").schema.text == f'"{schema}"'
    assert serde.immutable


def test_none_is_null() -> None:
    serde = PrimitiveAvroSerde(config=at(unique()))
    assert serde.serializer.serialize("t", None) is None
    assert serde.deserializer.deserialize("t", None) is None


def test_a_value_without_a_schema() -> None:
    with pytest.raises(
        SerializationException, match=r"value for topic 't' has no schema of its own.*use.latest.version"
    ):
        GenericAvroSerde(config=at(unique())).serializer.serialize("t", {"id": "a"})


def test_plain_dicts_by_a_schema_that_is_given() -> None:
    serde = GenericAvroSerde(ORDER.schema.text, config=at(unique()))
    raw = serde.serializer.serialize("t", {"id": "a", "amount": 1})
    assert serde.deserializer.deserialize("t", raw) == {"id": "a", "amount": 1}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"id": "a", "amount": 1.5}, "shop.Order.amount: not a long"),
        ({"id": "a", "amount": True}, "shop.Order.amount: not a long"),
        ({"id": "a", "amount": 2**63}, "shop.Order.amount: not a long"),
        ({"id": 7, "amount": 1}, "shop.Order.id: not a string"),
        ({"id": "secret"}, "shop.Order.amount: not a long"),
        ({"id": "a", "amount": 1, "extra": 2}, "more fields"),
        ("secret", "not a shop.Order"),
    ],
)
def test_values_that_do_not_fit_the_schema(value: Any, text: str) -> None:
    serializer = GenericAvroSerde(ORDER, config=at(unique())).serializer
    with pytest.raises(SerializationException, match=text) as raised:
        serializer.serialize("t", value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("text", ['{"type": "recor', '{"type": "record"}', '"nonsense"', "no such thing"])
def test_a_schema_that_is_none(text: str) -> None:
    with pytest.raises(SerializationException, match="not a valid Avro schema"):
        AvroSchema(text)


def test_a_schema_may_be_a_bare_name() -> None:
    assert AvroSchema("string").kind == "string"
    assert AvroSchema(["null", "string"]).kind == "union"
    assert repr(AvroSchema("int")) == "AvroSchema('int')"
    assert AvroSchema("int") != "int"


def test_a_union_of_primitives() -> None:
    serde = GenericAvroSerde(["null", "string", "long"], config=at(unique()))  # type: ignore[arg-type]
    for value in ("a", 5):
        assert serde.deserializer.deserialize("t", serde.serializer.serialize("t", value)) == value


def test_a_readers_schema_adds_widens_and_drops_fields() -> None:
    where = at(unique())
    raw = GenericAvroSerde(ORDER, config=where).serializer.serialize("t", {"id": "a", "amount": 3})
    read = GenericAvroSerde(WIDER, config=where).deserializer.deserialize("t", raw)
    assert read == {"id": "a", "amount": 3.0, "note": None}
    assert isinstance(read["amount"], float)
    assert read.schema == WIDER
    back = GenericAvroSerde(WIDER, config=where).serializer.serialize("t", {"id": "b", "amount": 1.0, "note": "n"})
    with pytest.raises(SerializationException, match=r"schema shop\.Order, which cannot be read as shop\.Order"):
        GenericAvroSerde(ORDER, config=where).deserializer.deserialize("t", back)


def test_schemas_that_refer_to_others() -> None:
    where = at(unique())
    client = SchemaRegistryClient(where)
    customer = '{"type":"record","name":"Customer","namespace":"shop","fields":[{"name":"id","type":"string"}]}'
    client.register_schema("customer", Schema(customer))
    reference = SchemaReference("shop.Customer", "customer", 1)
    sale = AvroSchema(
        '{"type":"record","name":"Sale","fields":[{"name":"who","type":"shop.Customer"}]}', (reference,), (customer,)
    )
    serde = GenericAvroSerde(config=where)
    raw = serde.serializer.serialize("sales", GenericRecord(sale, {"who": {"id": "c"}}))
    assert serde.deserializer.deserialize("sales", raw) == {"who": {"id": "c"}}
    # another process has the id alone
    assert GenericAvroSerde(config={**where, "max.retries": 1}).deserializer.deserialize("sales", raw) == {
        "who": {"id": "c"}
    }
    with pytest.raises(SerializationException, match="not a valid Avro schema"):
        AvroSchema(sale.schema.text, (reference,))


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1


class Sign(enum.Enum):
    PLUS = "+"


@dataclass(frozen=True)
class Point:
    x: int
    y: int = 0


class Pair(NamedTuple):
    x: int


class Extra(TypedDict):
    note: str


@dataclass(frozen=True)
class Everything:
    text: str
    number: int
    real: float
    flag: bool
    raw: bytes
    when: dt.datetime
    day: dt.date
    time: dt.time
    ident: uuid.UUID
    color: Color
    level: Level
    sign: Sign
    point: Point
    extra: Extra
    tags: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()
    counts: dict[str, int] = field(default_factory=dict)
    maybe: int | None = None
    either: str | int = 0
    points: list[Point] = field(default_factory=list)
    since: dt.date = dt.date(2020, 1, 1)


class Line(msgspec.Struct, frozen=True, rename="camel"):
    unit_price: int
    order_id: str = "none"


class Tree(msgspec.Struct):
    value: int
    children: list[Tree] = []


class OldLine(msgspec.Struct, frozen=True, rename={"name": "orderId"}):
    name: str


EVERYTHING = Everything(
    "a",
    -5,
    2.5,
    True,
    b"\x00\xff",
    dt.datetime(2024, 2, 29, 12, 30, 1, 250, dt.UTC),
    dt.date(1999, 12, 31),
    dt.time(23, 59, 1, 5),
    uuid.UUID(int=7),
    Color.BLUE,
    Level.LOW,
    Sign.PLUS,
    Point(1, 2),
    {"note": "n"},
    ("x", "y"),
    frozenset({"q"}),
    {"z": 1},
    5,
    "either",
    [Point(3)],
    dt.date(2021, 1, 1),
)


def test_the_schema_of_a_class() -> None:
    schema = avro_schema(Everything, "shop")
    assert (schema["name"], schema["namespace"]) == ("Everything", "shop")
    fields = {each["name"]: {key: value for key, value in each.items() if key != "name"} for each in schema["fields"]}
    assert fields == {
        "text": {"type": "string"},
        "number": {"type": "long"},
        "real": {"type": "double"},
        "flag": {"type": "boolean"},
        "raw": {"type": "bytes"},
        "when": {"type": {"type": "long", "logicalType": "timestamp-micros"}},
        "day": {"type": {"type": "int", "logicalType": "date"}},
        "time": {"type": {"type": "long", "logicalType": "time-micros"}},
        "ident": {"type": {"type": "string", "logicalType": "uuid"}},
        "color": {"type": {"type": "enum", "name": "Color", "symbols": ["red", "blue"]}},
        "level": {"type": "long"},
        "sign": {"type": "string"},
        "point": {
            "type": {
                "type": "record",
                "name": "Point",
                "fields": [{"name": "x", "type": "long"}, {"name": "y", "type": "long", "default": 0}],
            }
        },
        "extra": {"type": {"type": "record", "name": "Extra", "fields": [{"name": "note", "type": "string"}]}},
        "tags": {"type": {"type": "array", "items": "string"}, "default": []},
        "names": {"type": {"type": "array", "items": "string"}, "default": []},
        "counts": {"type": {"type": "map", "values": "long"}, "default": {}},
        "maybe": {"type": ["null", "long"], "default": None},
        "either": {"type": ["long", "string"], "default": 0},
        "points": {"type": {"type": "array", "items": "Point"}, "default": []},
        # a date has another form in each logical type, so the class alone has the default
        "since": {"type": {"type": "int", "logicalType": "date"}},
    }


def test_values_of_a_class_come_back_equal() -> None:
    serde = SpecificAvroSerde(Everything, config=at(unique()))
    raw = serde.serializer.serialize("t", EVERYTHING)
    assert serde.deserializer.deserialize("t", raw) == EVERYTHING
    assert not serde.immutable


@given(st.builds(Line, unit_price=st.integers(-(2**63), 2**63 - 1), order_id=st.text(st.characters(codec="utf-8"))))
def test_structs_come_back_equal(line: Line) -> None:
    serde = SpecificAvroSerde(Line, config=at("structs"))
    assert serde.deserializer.deserialize("t", serde.serializer.serialize("t", line)) == line
    assert serde.immutable


TREES: st.SearchStrategy[Tree] = st.recursive(
    st.builds(Tree, value=st.integers(-5, 5)),
    lambda below: st.builds(Tree, value=st.just(1), children=st.lists(below, max_size=3)),
    max_leaves=8,
)


@given(TREES)
def test_a_class_that_contains_itself(tree: Tree) -> None:
    serde = SpecificAvroSerde(Tree, config=at("trees"))
    assert serde.deserializer.deserialize("t", serde.serializer.serialize("t", tree)) == tree


def test_typed_dicts() -> None:
    serde = SpecificAvroSerde(Extra, config=at(unique()))
    value: Extra = {"note": "x"}
    assert serde.deserializer.deserialize("t", serde.serializer.serialize("t", value)) == value


def test_a_class_with_a_schema_of_its_own() -> None:
    @dataclass
    class Price:
        amount: Decimal

    schema = {
        "type": "record",
        "name": "Price",
        "fields": [{"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}}],
    }
    with pytest.raises(TypeError, match="Decimal has no Avro form of its own: give the schema beside the class"):
        SpecificAvroSerde(Price)
    serde = SpecificAvroSerde(Price, schema=schema, config=at(unique()))
    assert serde.deserializer.deserialize("t", serde.serializer.serialize("t", Price(Decimal("1.50")))) == Price(
        Decimal("1.50")
    )


class Tagged(msgspec.Struct, tag=True):
    value: int


@pytest.mark.parametrize(
    "type_",
    [dt.timedelta, dict[int, str], tuple[int, str], Tagged, Pair, list[Tagged]],
)
def test_types_without_an_avro_form(type_: Any) -> None:
    with pytest.raises(TypeError, match="give the schema beside the class"):
        avro_schema(type_)


def test_two_classes_of_one_name() -> None:
    fields = [("one", Point), ("other", msgspec.defstruct("Point", [("z", int)]))]
    with pytest.raises(TypeError, match="two classes are named Point"):
        avro_schema(msgspec.defstruct("Both", fields))


def test_a_value_of_another_class_is_refused() -> None:
    serializer: Any = SpecificAvroSerde(Line, config=at(unique())).serializer
    with pytest.raises(SerializationException, match="serializer of Line takes no Point"):
        serializer.serialize("t", Point(1))


def test_a_class_reads_what_an_older_one_wrote() -> None:
    where = at(unique())
    old = SpecificAvroSerde(OldLine, config=where)
    raw = old.serializer.serialize("t", OldLine("o1"))

    class NewLine(msgspec.Struct, frozen=True, rename="camel"):
        order_id: str
        amount: int = 7

    schema = avro_schema(NewLine) | {"name": "OldLine"}
    new = SpecificAvroSerde(NewLine, schema=schema, config=where)
    assert new.deserializer.deserialize("t", raw) == NewLine("o1", 7)
    newer = new.serializer.serialize("t", NewLine("o2", 8))
    assert old.deserializer.deserialize("t", newer) == OldLine("o2")
    assert SchemaRegistryClient(where).get_versions("t-value") == [1, 2]


def test_what_a_schema_says_and_the_class_does_not() -> None:
    class Strict(msgspec.Struct):
        id: Color

    where = at(unique())
    schema = {"type": "record", "name": "Strict", "fields": [{"name": "id", "type": "string"}]}
    raw = GenericAvroSerde(schema, config=where).serializer.serialize("t", {"id": "green"})
    with pytest.raises(SerializationException, match="not of the class"):
        SpecificAvroSerde(Strict, schema=schema, config=where).deserializer.deserialize("t", raw)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"use.latest.version": "true"}, "set that to false"),
        ({"use.schema.id": 3}, "set that to false"),
        ({"value.subject.name.strategy": "math:pi"}, "not a SubjectNameStrategy"),
        ({"value.schema.id.serializer": "math:pi"}, "HeaderSchemaIdSerializer"),
        ({"value.schema.id.deserializer": "no.such.Java"}, "value.schema.id.deserializer"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigException, match=text):
        GenericAvroSerde(config={**at("settings"), **settings})


def test_a_serde_that_is_not_configured() -> None:
    with pytest.raises(ConfigException, match="KafkaAvroSerializer is not configured: give config"):
        GenericAvroSerde().serializer.bind("t")
    with pytest.raises(ConfigException, match="KafkaAvroDeserializer is not configured"):
        GenericAvroSerde().deserializer.deserialize("t", b"x")


def test_the_latest_version_of_the_registry() -> None:
    where = at(unique())
    client = SchemaRegistryClient(where)
    latest = {**where, "auto.register.schemas": False, "use.latest.version": True}
    with pytest.raises(SerializationException, match=r"there is no subject 't-value' at mock.*register a schema"):
        GenericAvroSerde(config=latest).serializer.serialize("t", {"id": "a"})
    client.register_schema("t-value", ORDER.schema)
    raw = GenericAvroSerde(config=latest).serializer.serialize("t", {"id": "a", "amount": 1})
    assert raw == b"\x00\x00\x00\x00\x01\x02a\x02"
    client.register_schema("t-value", WIDER.schema)
    asking_again = GenericAvroSerde(config={**latest, "latest.cache.ttl.sec": 0})
    wider = asking_again.serializer.serialize("t", {"id": "a", "amount": 1.0})
    assert wider is not None
    assert wider[:5] == b"\x00\x00\x00\x00\x02"
    client.register_schema("t-value", Schema('"string"'))
    assert asking_again.serializer.serialize("t", "text") == b"\x00\x00\x00\x00\x03\x08text"


def test_a_schema_by_its_id() -> None:
    where = at(unique())
    by_id = {**where, "auto.register.schemas": "false", "use.schema.id": "1"}
    with pytest.raises(SerializationException, match=r"no schema with id 1 \(use.schema.id\) at mock://"):
        GenericAvroSerde(config=by_id).serializer.serialize("t", {"id": "a", "amount": 1})
    SchemaRegistryClient(where).register_schema("elsewhere", ORDER.schema)
    raw = GenericAvroSerde(config=by_id).serializer.serialize("t", {"id": "a", "amount": 1})
    assert raw == b"\x00\x00\x00\x00\x01\x02a\x02"


def test_schemas_that_must_be_registered_already() -> None:
    where = at(unique())
    serde = GenericAvroSerde(config={**where, "auto.register.schemas": False})
    record = GenericRecord(ORDER, {"id": "a", "amount": 1})
    with pytest.raises(
        SerializationException, match=r"not registered under subject 't-value' at mock.*register it first"
    ):
        serde.serializer.serialize("t", record)
    SchemaRegistryClient(where).register_schema("t-value", ORDER.schema)
    assert serde.serializer.serialize("t", record) is not None


class OneSubject(SubjectNameStrategy):
    def subject_name(self, topic: str, is_key: bool, record_name: str | None) -> str:
        return f"everything-{record_name}"


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        ("io.confluent.kafka.serializers.subject.RecordNameStrategy", "shop.Order"),
        ("io.confluent.kafka.serializers.subject.TopicRecordNameStrategy", "t-shop.Order"),
        (RecordNameStrategy, "shop.Order"),
        (OneSubject(), "everything-shop.Order"),
    ],
)
def test_subjects(strategy: Any, subject: str) -> None:
    where = at(unique())
    serde = GenericAvroSerde(config={**where, "value.subject.name.strategy": strategy})
    serde.serializer.serialize("t", GenericRecord(ORDER, {"id": "a", "amount": 1}))
    assert SchemaRegistryClient(where).get_subjects() == [subject]


def test_a_schema_of_another_language() -> None:
    where = at(unique())
    SchemaRegistryClient(where).register_schema("t-value", Schema("{}", "JSON"))
    with pytest.raises(SerializationException, match=r"\(id 1\) of type JSON, but KafkaAvroDeserializer reads AVRO"):
        GenericAvroSerde(config=where).deserializer.deserialize("t", b"\x00\x00\x00\x00\x01x")
    latest = {**where, "auto.register.schemas": False, "use.latest.version": True}
    with pytest.raises(SerializationException, match="is of type JSON, but KafkaAvroSerializer writes AVRO"):
        GenericAvroSerde(config=latest).serializer.serialize("t", "x")


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"{}", "2 bytes are too few"),
        (b"text!", "first byte is 116"),
        (b"\x00\x00\x00\x00\x09x", r"schema \(id 9\) that the registry at mock://\w+ does not have. Was it written"),
        (b"\x00\x00\x00\x00\x01\x09a", "ends early"),
        (b"\x00\x00\x00\x00\x01\x02\xff\x00", "not valid UTF-8"),
    ],
)
def test_bytes_that_are_no_values(raw: bytes, text: str) -> None:
    where = at(unique())
    SchemaRegistryClient(where).register_schema("t-value", ORDER.schema)
    with pytest.raises(SerializationException, match=text):
        GenericAvroSerde(config=where).deserializer.deserialize("t", raw)


def test_a_schema_that_is_not_compatible_names_the_subject(server: RegistryServer) -> None:
    serde = GenericAvroSerde(config={"schema.registry.url": server.url})
    server.failing, server.answer = 409, b'{"error_code": 409, "message": "reader lacks a default"}'
    with pytest.raises(
        SerializationException,
        match=rf"values for topic 't' is not compatible with earlier versions of subject 't-value' at {server.url}: .*"
        r"reader lacks a default.*Change the schema",
    ):
        serde.serializer.serialize("t", 5)
    server.failing, server.answer = 422, b'{"error_code": 42201, "message": "no schema at all"}'
    with pytest.raises(SerializationException, match=r"was refused for subject 't-value'.*no schema at all"):
        serde.serializer.serialize("t", 5)


def driver_of(settings: dict[str, Any], serde: Any, **extra: Any) -> TopologyTestDriver:
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, serde)).to("out", Produced.with_(TEXT, serde))
    return TopologyTestDriver(builder.build(), {**settings, **extra})


def test_no_handler_skips_records_because_the_registry_is_down(server: RegistryServer) -> None:
    where = {"schema.registry.url": server.url, "max.retries": 0}
    record = GenericRecord(ORDER, {"id": "a", "amount": 1})
    raw = GenericAvroSerde(config={**where, "max.retries": 1}).serializer.serialize("in", record)
    serde = GenericAvroSerde(config=where)
    skipping = {StreamsConfig.DESERIALIZATION_EXCEPTION_HANDLER_CLASS_CONFIG: LogAndContinueExceptionHandler()}
    with driver_of({}, serde, **skipping) as driver:
        server.failing = 503
        with pytest.raises(RegistryUnavailableException, match=server.url):
            driver.pipe_raw("in", b"k", raw, 1)
        server.failing = None
        driver.advance_wall_clock_time(1000)
        out = driver.create_output_topic("out", TEXT.deserializer, serde.deserializer)
        assert out.read_values_to_list() == [record]
        assert sum(driver.dropped_records().values()) == 0


def test_no_handler_skips_records_because_the_credentials_are_wrong(server: RegistryServer) -> None:
    serde = GenericAvroSerde(config={"schema.registry.url": server.url})
    skipping = {StreamsConfig.DESERIALIZATION_EXCEPTION_HANDLER_CLASS_CONFIG: LogAndContinueExceptionHandler()}
    with driver_of({}, serde, **skipping) as driver:
        server.failing = 401
        with pytest.raises(StreamsException, match=r"through no fault of the record.*Check its credentials"):
            driver.pipe_raw("in", b"k", b"\x00\x00\x00\x00\x01x", 1)


def test_an_unknown_id_is_the_records_own_fault(server: RegistryServer) -> None:
    serde = GenericAvroSerde(config={"schema.registry.url": server.url})
    skipping = {StreamsConfig.DESERIALIZATION_EXCEPTION_HANDLER_CLASS_CONFIG: LogAndContinueExceptionHandler()}
    with driver_of({}, serde, **skipping) as driver:
        driver.pipe_raw("in", b"k", b"\x00\x00\x00\x00\x63x", 1)
        assert sum(driver.dropped_records().values()) == 1
    with (
        driver_of({}, serde) as driver,
        pytest.raises(StreamsException, match="in-0 offset 0 does not decode") as raised,
    ):
        driver.pipe_raw("in", b"k", b"\x00\x00\x00\x00\x63x", 1)
    assert "id 99" in str(raised.value.__cause__)


HEADER = {"value.schema.id.serializer": "io.confluent.kafka.serializers.schema.id.HeaderSchemaIdSerializer"}


def test_guids_in_headers(server: RegistryServer) -> None:
    where = {"schema.registry.url": server.url}
    serde = GenericAvroSerde(config={**where, **HEADER})
    record = GenericRecord(ORDER, {"id": "a", "amount": 1})
    with driver_of({}, serde) as driver:
        topic = driver.create_input_topic("in", TEXT.serializer, serde.serializer)
        topic.pipe_input("k", record, 1, [("__value_schema_id", b"stale"), ("other", b"o")])
        written = driver.read_raw("out")
        assert written is not None
        guid = SchemaRegistryClient(where).get_version("out-value", 1).guid
        assert guid is not None
        assert written.value == b"\x02a\x02"
        assert written.headers == [("other", b"o"), ("__value_schema_id", b"\x01" + uuid.UUID(guid).bytes)]
        # the reader of another process has the GUID alone
        reader = GenericAvroSerde(config={**where, "max.retries": 2}).deserializer
        assert reader.deserialize_with_headers("out", written.headers, written.value) == record
    assert ("GET", f"/schemas/guids/{guid}") in server.requests


def test_an_id_in_front_after_a_guid_in_a_header() -> None:
    where = at(unique())
    record = GenericRecord(ORDER, {"id": "a", "amount": 1})
    headers: list[tuple[str, bytes | None]] = []
    raw = GenericAvroSerde(config={**where, **HEADER}).serializer.serialize_with_headers("in", headers, record)
    with driver_of({}, GenericAvroSerde(config=where)) as driver:
        driver.pipe_raw("in", b"k", raw, 1, headers)
        written = driver.read_raw("out")
        assert written is not None
        assert written.value == b"\x00\x00\x00\x00\x01\x02a\x02"
        assert not written.headers, "a reader would take the header's GUID for the schema of these bytes"


def test_a_reader_may_be_told_to_ignore_headers() -> None:
    where = at(unique())
    ignoring = GenericAvroSerde(
        config={
            **where,
            "value.schema.id.deserializer": "io.confluent.kafka.serializers.schema.id.PrefixSchemaIdDeserializer",
        }
    )
    raw = ignoring.serializer.serialize("t", 5)
    headers: list[tuple[str, bytes | None]] = [("__value_schema_id", b"nonsense")]
    assert ignoring.deserializer.deserialize_with_headers("t", headers, raw) == 5
    dual = GenericAvroSerde(config=where).deserializer
    with pytest.raises(SerializationException, match="first byte is 110"):
        dual.deserialize_with_headers("t", headers, raw)
    assert dual.deserialize_with_headers("t", [("x", b"")], raw) == 5
    assert dual.deserialize_with_headers("t", headers, None) is None


def test_a_guid_in_front_is_read_too() -> None:
    where = at(unique())
    guid = SchemaRegistryClient(where).register_schema("t-value", ORDER.schema).guid
    assert guid is not None
    raw = b"\x01" + uuid.UUID(guid).bytes + b"\x02a\x02"
    made = 0

    class Reader(KafkaAvroDeserializer):
        def _decoder(self, schema: Schema) -> Callable[[bytes], Any]:
            nonlocal made
            made += 1
            return super()._decoder(schema)

    reader = Reader()
    reader.configure(where, is_key=False)
    for _ in range(3):
        assert reader.deserialize("t", raw) == {"id": "a", "amount": 1}
    assert made == 1


def test_a_registry_without_guids(server: RegistryServer) -> None:
    server.without_guids = True
    serde = GenericAvroSerde(config={"schema.registry.url": server.url, **HEADER})
    with pytest.raises(ConfigException, match=r"gives schemas no GUIDs.*PrefixSchemaIdSerializer"):
        serde.serializer.serialize_with_headers("t", [], 5)
    server.failing, server.answer = 404, b'{"error_code": 0, "message": "no such resource"}'
    with pytest.raises(ConfigException, match="GUIDs need Confluent 8 or newer"):
        serde.deserializer.deserialize_with_headers("t", [("__value_schema_id", b"\x01" * 17)], b"x")


def test_the_serdes_by_their_java_names() -> None:
    java = "io.confluent.kafka.streams.serdes.avro."
    where = at(unique())
    config = StreamsConfig.load(
        {
            "application.id": "a",
            "bootstrap.servers": "b:1",
            "default.key.serde": f"{java}PrimitiveAvroSerde",
            "default.value.serde": f"{java}SpecificAvroSerde",
            "specific.avro.value.type": f"{__name__}:Line",
            **where,
        }
    )
    key, value = instance(config, "default.key.serde"), instance(config, "default.value.serde")
    assert isinstance(key, PrimitiveAvroSerde)
    assert isinstance(value, SpecificAvroSerde)
    assert value.immutable
    line = Line(5)
    assert value.deserializer.deserialize("t", value.serializer.serialize("t", line)) == line
    assert key.deserializer.deserialize("t", key.serializer.serialize("t", "k")) == "k"
    assert SchemaRegistryClient(where).get_subjects() == ["t-key", "t-value"]
    generic = instance(config.with_values({"default.value.serde": f"{java}GenericAvroSerde"}), "default.value.serde")
    assert isinstance(generic, GenericAvroSerde)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, "specific.avro.value.type"),
        ({"specific.avro.value.type": "math:pi"}, "is not a class"),
        ({"specific.avro.value.type": "no.such:Class"}, "cannot be loaded"),
        ({"specific.avro.value.type": "datetime:timedelta"}, "no Avro form"),
    ],
)
def test_a_class_that_is_missing_in_the_settings(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigException, match=text):
        SpecificAvroSerde(config={**at("missing"), **settings})


def test_a_misspelt_setting_of_the_registry_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    base = {"application.id": "a", "bootstrap.servers": "b:1", **at("known"), "request.header.X": "y"}
    StreamsConfig.load({**base, "schema.registry.ssl.truststore.location": "x", "basic.auth.user.info": "u:p"})
    assert not caplog.records
    with pytest.raises(ConfigException, match=r"use.latest.version"):
        StreamsConfig.load({**base, "use.latest.version": "perhaps"})


def test_the_halves_alone() -> None:
    where = at(unique())
    serializer, deserializer = KafkaAvroSerializer(), KafkaAvroDeserializer(WIDER)
    serializer.configure(where, is_key=False)
    deserializer.configure(where, is_key=False)
    raw = serializer.bind("t")(GenericRecord(ORDER, {"id": "a", "amount": 1}))
    assert deserializer.bind("t")(raw) == {"id": "a", "amount": 1.0, "note": None}
