"""Serdes with a real schema registry: Apicurio with Confluent's API, beside a real broker."""

from __future__ import annotations

import json
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from cluster.course_revenue.product import Instance, command
from cluster.instances import Instance as AnyInstance
from cluster.instances import wait_until
from cluster.runtime.counting import running
from course_revenue.checks import reconcile, sum_input
from course_revenue.formats import schemas
from course_revenue.lake.table import LakeTable
from course_revenue.options import target
from course_revenue.sample import SampleSize
from course_revenue.topics import load_sample, read_lines, wanted_topics
from course_revenue.totals import open_totals
from unit.serdes.registry.messages import Customer, Order, Refund, WiderOrder

from headrace import (
    Consumed,
    Grouped,
    Materialized,
    Produced,
    Serdes,
    State,
    StreamsBuilder,
)
from headrace.errors import ConfigException, SerializationException
from headrace.serdes.registry import (
    PROTOBUF,
    RegistryException,
    RegistryUnavailableException,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
)
from headrace.serdes.registry.avro import AvroSchema, GenericAvroSerde, GenericRecord, SpecificAvroSerde
from headrace.serdes.registry.avro_types import avro_schema
from headrace.serdes.registry.json_schema import KafkaJsonSchemaSerde
from headrace.serdes.registry.protobuf import KafkaProtobufSerde
from headrace.testing.processes import ClusterError, free_port, process_start
from headrace.testing.registry import LocalRegistry
from headrace.topics import NewTopic as Topic
from headrace.topics import TopicReader, TopicWriter, ensure_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headrace import Topology

FAST = {"max.retries": 0}


class Line(msgspec.Struct, frozen=True):
    id: str
    amount: int


class NotedLine(msgspec.Struct, frozen=True, tag=False):
    id: str
    amount: int
    note: str = "-"


class Total(msgspec.Struct, frozen=True):
    amount: int


@dataclass(frozen=True)
class Plain:
    id: str


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalRegistry]:
    with LocalRegistry(tmp_path_factory.mktemp("registry"), log=print) as running:
        yield running


@pytest.fixture
def client(registry: LocalRegistry) -> SchemaRegistryClient:
    return SchemaRegistryClient(at(registry))


def at(registry: LocalRegistry, **settings: Any) -> dict[str, Any]:
    """Settings of a client; its first answers may take a busy machine longer than the 3 s that are usual."""
    given = {k.replace("_", "."): v for k, v in settings.items()}
    return {"schema.registry.url": registry.url, "http.read.timeout.ms": 30_000, **given}


def test_the_client(client: SchemaRegistryClient, unique: Callable[[str], str]) -> None:
    subject = unique("a/b-value")
    first = client.register_schema(subject, Schema('"string"'))
    assert client.get_schema(first.id).text == '"string"'
    assert client.lookup_schema(subject, Schema('"string"')).version == 1
    assert client.get_latest_version(subject).id == first.id
    assert client.get_versions(subject) == [1]
    assert subject in client.get_subjects()
    client.set_compatibility("BACKWARD", subject)
    assert client.get_compatibility(subject) == "BACKWARD"
    assert not client.test_compatibility(subject, Schema('"int"'))
    with pytest.raises(RegistryException) as refused:
        client.register_schema(subject, Schema('"int"'))
    assert refused.value.status == 409
    with pytest.raises(RegistryException) as refused:
        client.register_schema(subject, Schema('{"type": "nonsense"'))
    assert refused.value.status == 422
    assert client.delete_subject(subject) == [1]
    with pytest.raises(RegistryException) as unknown:
        client.get_versions(subject)
    assert unknown.value.error_code == 40401


def test_avro_values_of_several_versions(registry: LocalRegistry, unique: Callable[[str], str]) -> None:
    topic, where = unique("lines"), at(registry)
    old = SpecificAvroSerde(Line, config=where)
    new = SpecificAvroSerde(NotedLine, schema=avro_schema(NotedLine) | {"name": "Line"}, config=where)
    client = SchemaRegistryClient(where)
    raw = old.serializer.serialize(topic, Line("a", 1))
    client.set_compatibility("FULL", f"{topic}-value")
    newer = new.serializer.serialize(topic, NotedLine("b", 2, "n"))
    assert client.get_versions(f"{topic}-value") == [1, 2]
    assert new.deserializer.deserialize(topic, raw) == NotedLine("a", 1)
    assert old.deserializer.deserialize(topic, newer) == Line("b", 2)
    generic = GenericAvroSerde(config={**where, **FAST})
    assert generic.deserializer.deserialize(topic, newer) == {"id": "b", "amount": 2, "note": "n"}
    latest = GenericAvroSerde(config={**where, "auto.register.schemas": False, "use.latest.version": True})
    assert latest.serializer.serialize(topic, {"id": "b", "amount": 2, "note": "n"}) == newer


def test_an_avro_schema_that_refers_to_another(registry: LocalRegistry, unique: Callable[[str], str]) -> None:
    where, used = at(registry), unique("customer")
    customer = '{"type":"record","name":"Customer","namespace":"shop","fields":[{"name":"id","type":"string"}]}'
    SchemaRegistryClient(where).register_schema(used, Schema(customer))
    sale = AvroSchema(
        '{"type":"record","name":"Sale","fields":[{"name":"who","type":"shop.Customer"}]}',
        (SchemaReference("shop.Customer", used, 1),),
        (customer,),
    )
    raw = GenericAvroSerde(config=where).serializer.serialize("sales", GenericRecord(sale, {"who": {"id": "c"}}))
    reader = GenericAvroSerde(config={**where, **FAST}).deserializer
    assert reader.deserialize("sales", raw) == {"who": {"id": "c"}}


def test_json_values(registry: LocalRegistry, unique: Callable[[str], str]) -> None:
    topic, where = unique("json"), at(registry)
    old = KafkaJsonSchemaSerde(Line, validate=True, config=where)
    new = KafkaJsonSchemaSerde(NotedLine, config=where)
    raw = old.serializer.serialize(topic, Line("a", 1))
    newer = new.serializer.serialize(topic, NotedLine("b", 2, "n"))
    assert new.deserializer.deserialize(topic, raw) == NotedLine("a", 1)
    assert old.deserializer.deserialize(topic, newer) == Line("b", 2)
    assert SchemaRegistryClient(where).get_latest_version(f"{topic}-value").schema.type == "JSON"


def test_protobuf_values(registry: LocalRegistry, unique: Callable[[str], str]) -> None:
    topic, where = unique("protobuf"), at(registry)
    serde: KafkaProtobufSerde[Any] = KafkaProtobufSerde(Order, config=where)
    order = Order(id="a", amount=3, who=Customer(id="c"))
    raw = serde.serializer.serialize(topic, order)
    assert serde.deserializer.deserialize(topic, raw) == order
    wider: KafkaProtobufSerde[Any] = KafkaProtobufSerde(WiderOrder, config=where)
    read = serde.deserializer.deserialize(topic, wider.serializer.serialize(topic, WiderOrder(id="b", note="n")))
    assert read is not None
    assert read.id == "b"
    refunds: KafkaProtobufSerde[Any] = KafkaProtobufSerde(Refund, config=where)
    refund = refunds.serializer.serialize(unique("refunds"), Refund(id="r"))
    assert refund is not None
    assert refund[5:7] == b"\x02\x02"
    schema = SchemaRegistryClient(where).get_latest_version(f"{topic}-value").schema
    assert (schema.type, [reference.name for reference in schema.references]) == (PROTOBUF, ["shop/customer.proto"])


def test_what_goes_wrong_says_subject_id_and_address(registry: LocalRegistry, unique: Callable[[str], str]) -> None:
    topic, where = unique("wrong"), at(registry)
    serde = GenericAvroSerde(config=where)
    with pytest.raises(SerializationException, match=rf"schema \(id 999999\) that the registry at {registry.url} does"):
        serde.deserializer.deserialize(topic, b"\x00\x00\x0f\x42\x3fx")
    serde.serializer.serialize(topic, "text")
    SchemaRegistryClient(where).set_compatibility("BACKWARD", f"{topic}-value")
    with pytest.raises(
        SerializationException, match=rf"not compatible with earlier versions of subject '{topic}-value'"
    ):
        serde.serializer.serialize(topic, 7)
    # this registry has no GUIDs
    with pytest.raises(ConfigException, match="GUIDs need Confluent 8 or newer"):
        serde.deserializer.deserialize_with_headers(topic, [("__value_schema_id", b"\x01" * 17)], b"x")
    header = {"value.schema.id.serializer": "io.confluent.kafka.serializers.schema.id.HeaderSchemaIdSerializer"}
    with pytest.raises(ConfigException, match="gives schemas no GUIDs"):
        GenericAvroSerde(config={**where, **header}).serializer.serialize(unique("guid"), "text")


def totals(source: str, out: str, where: dict[str, Any]) -> Topology:
    """Amounts by id, summed: Avro in, Avro in the store, Avro out."""
    text, lines, sums = (
        Serdes.String(),
        SpecificAvroSerde(NotedLine, config=where),
        SpecificAvroSerde(Total, config=where),
    )
    builder = StreamsBuilder()
    (
        builder.stream(source, Consumed.with_(text, lines))
        .group_by_key(Grouped.with_(text, lines))
        .aggregate(
            lambda: Total(0),
            lambda _, line, total: Total(total.amount + line.amount),
            Materialized.as_("totals").with_key_serde(text).with_value_serde(sums),
        )
        .to_stream()
        .to(out, Produced.with_(text, sums))
    )
    return builder.build()


def test_records_wait_while_the_registry_is_down_and_none_is_lost(
    registry: LocalRegistry,
    tmp_path: Path,
    bootstrap_servers: str,
    unique: Callable[[str], str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    source, out = unique("in"), unique("out")
    ensure_topics(bootstrap_servers, [Topic(source, 1), Topic(out, 1)])
    settings = {
        "application.id": unique("app"),
        "bootstrap.servers": bootstrap_servers,
        "processing.guarantee": "exactly_once_v2",
        "commit.interval.ms": "100",
        "state.dir": str(tmp_path / "state"),
        "deserialization.exception.handler": "org.apache.kafka.streams.errors.LogAndContinueExceptionHandler",
        "production.exception.handler": "headrace.api.handlers:DefaultProductionExceptionHandler",
    }
    where = {"schema.registry.url": registry.url, **FAST}
    writer_serde = SpecificAvroSerde(Line, schema=avro_schema(Line) | {"name": "NotedLine"}, config=where)
    with TopicWriter(bootstrap_servers) as writer:
        for number in range(3):
            writer.send(source, b"k", writer_serde.serializer.serialize(source, Line("a", 10**number)))
        # and one that no registry knows: that is the record's own fault
        writer.send(source, b"k", b"\x00\x00\x0f\x42\x3fx")
        writer.send(source, b"k", writer_serde.serializer.serialize(source, Line("a", 1000)))
    registry.stop()
    caplog.set_level("WARNING")
    with (
        running(totals(source, out, where), settings) as streams,
        TopicReader(bootstrap_servers, out) as reader,
    ):
        wait_until(lambda: "waits at" in caplog.text, "the first record waits for its schema")
        assert streams.state() is State.RUNNING
        registry.start()
        seen: list[int] = []
        sums = SpecificAvroSerde(Total, config=where).deserializer

        def take() -> int:
            for record in reader.poll(0.1):
                total = sums.deserialize(out, record.value)
                assert total is not None
                seen.append(total.amount)
            return seen[-1] if seen else 0

        wait_until(lambda: take() == 1111, "every record has been counted once")
        assert seen == sorted(set(seen))
        assert streams.state() is State.RUNNING
    dropped = [line for line in caplog.text.splitlines() if "cannot be decoded and is skipped" in line]
    assert len(dropped) == 1
    assert "offset: 3" in dropped[0]


def test_results_wait_while_the_registry_is_down(
    registry: LocalRegistry,
    tmp_path: Path,
    bootstrap_servers: str,
    unique: Callable[[str], str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    source, out = unique("in"), unique("out")
    ensure_topics(bootstrap_servers, [Topic(source, 1), Topic(out, 1)])
    settings = {
        "application.id": unique("app"),
        "bootstrap.servers": bootstrap_servers,
        "processing.guarantee": "exactly_once_v2",
        "commit.interval.ms": "100",
        "state.dir": str(tmp_path / "state"),
    }
    with TopicWriter(bootstrap_servers) as writer:
        for number in range(5):
            writer.send(source, b"k", str(number).encode())
    where = {"schema.registry.url": registry.url, **FAST}
    plain = SpecificAvroSerde(Plain, config=where)
    state = registry.state()
    assert state is not None
    SchemaRegistryClient(registry.url).register_schema(unique("kept"), Schema('"string"'))
    registry.kill()
    assert process_start(state.pid) is None
    with pytest.raises(RegistryUnavailableException):
        SchemaRegistryClient(where).get_subjects()
    builder = StreamsBuilder()
    text = Serdes.String()
    builder.stream(source, Consumed.with_(text, text)).map_values(Plain).to(out, Produced.with_(text, plain))
    caplog.set_level("WARNING")
    with (
        running(builder.build(), settings) as streams,
        TopicReader(bootstrap_servers, out) as reader,
    ):
        wait_until(lambda: "tasks start again" in caplog.text, "the tasks go back to the last commit")
        assert registry.start().port == state.port
        seen: list[Plain | None] = []

        def take() -> int:
            seen.extend(plain.deserializer.deserialize(out, record.value) for record in reader.poll(0.1))
            return len(seen)

        wait_until(lambda: take() >= 5, "every record has come through")
        assert streams.state() is State.RUNNING
    assert seen == [Plain(str(number)) for number in range(5)]
    assert unique("kept") in SchemaRegistryClient(where).get_subjects()


def test_course_revenue_and_its_readers_in_avro(
    registry: LocalRegistry, tmp_path: Path, bootstrap_servers: str, unique: Callable[[str], str]
) -> None:
    topics = {key: unique(key) for key in ("lines", "courses", "output", "rejected")}
    named = {f"course.revenue.topic.{key}": name for key, name in topics.items()}
    product = Instance(
        "course-revenue",
        tmp_path,
        {
            "application.id": unique("course-revenue"),
            "bootstrap.servers": bootstrap_servers,
            "processing.guarantee": "exactly_once_v2",
            "commit.interval.ms": "100",
            "course.revenue.format": "avro",
            "schema.registry.url": registry.url,
            **named,
        },
    )
    product.configure()
    at_job = target(product.config_file, None, None)
    ensure_topics(bootstrap_servers, wanted_topics(at_job.settings, partitions=2, lines_retention_ms=-1))
    client = SchemaRegistryClient(registry.url)
    size = SampleSize(lines=200, courses=10, duplicates=0.1)
    load_sample(bootstrap_servers, at_job.settings, size, values=at_job.values)
    client.set_compatibility("FULL_TRANSITIVE", f"{topics['lines']}-value")
    sums = sum_input(read_lines(bootstrap_servers, at_job.settings), at_job.values.decode_line(topics["lines"]))
    assert (sums.fates.broken, sums.fates.undecodable) == (0, 0)

    def says(url: str) -> str:
        """The grand total that the page has, in cents."""
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return str(json.loads(answer.read())["sums"]["net_cents"])
        except OSError:
            return ""

    url = f"http://127.0.0.1:{(port := free_port())}"
    page = AnyInstance(
        "page", tmp_path, ("-m", "course_revenue", "dashboard", "--port", str(port)), product.config
    ).start()
    product.start()
    try:
        with open_totals(bootstrap_servers, at_job.settings, values=at_job.values) as table:
            wait_until(
                lambda: table.poll(0.1) is not None and reconcile(sums, table.values).equal,
                "the sums in the totals",
                detail=product.tail,
            )
            net = sum(total.net_cents for total in table.values.values())
        # every reader, of the same topics while the job runs
        assert "10 courses: " in command(product, "reconcile")
        command(product, "lake", "--once", "--table", str(tmp_path / "table"))
        landed = LakeTable(str(tmp_path / "table")).snapshot().totals
        assert landed == table.values
        wait_until(lambda: says(f"{url}/status") == str(net), "the page has the sum", detail=page.tail)
        # a type that this release does not have, by a schema of its producer's own: no money rule, it does not decode
        with TopicWriter(bootstrap_servers) as writer:
            writer.send(topics["lines"], b'{"order_id":"o","line_id":"l"}', gift(at(registry), unique("rogue")))
        assert product.exit_code() == 1
        assert f"The value of the record at {topics['lines']}-" in product.log()
        assert "does not decode" in product.log()
        assert "unknown_line_type" not in product.log()
    finally:
        product.end()
        page.end()
    assert (
        client.get_latest_version(f"{topics['output']}-value").schema.text
        == AvroSchema(schemas()["Revenue"]).schema.text
    )


def gift(where: dict[str, Any], subject: str) -> bytes:
    """A purchase line of an unknown type, in Confluent's form."""
    schema = schemas()["PurchaseLine"]
    (types,) = (field["type"] for field in schema["fields"] if field["name"] == "line_type")
    types["symbols"] = [*types["symbols"], "gift"]
    line = {"order_id": "o", "line_id": "l", "course_id": "c", "unit_price_cents": 1, "quantity": 1, "event_time": 1}
    record = GenericRecord(AvroSchema(schema), {**line, "line_type": "gift"})
    written = GenericAvroSerde(config=where).serializer.serialize(subject, record)
    assert written is not None
    return written


def test_the_registrys_own_life(registry: LocalRegistry, tmp_path: Path) -> None:
    nowhere = LocalRegistry(tmp_path)
    assert nowhere.state() is None
    with pytest.raises(ClusterError, match="no registry is running"):
        _ = nowhere.url
    state = registry.state()
    assert state is not None
    assert LocalRegistry(registry.data_dir).start() == state
    with pytest.raises(ClusterError, match="already runs"):
        LocalRegistry(registry.data_dir, port=state.port + 1).start()
