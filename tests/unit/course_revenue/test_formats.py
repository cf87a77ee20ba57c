"""JSON and Avro on the outside, the same inside; and the written contracts against what the job does."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from course_revenue.contract import OnBrokenLine
from course_revenue.dashboard.job import BUDGET_MS
from course_revenue.formats import Format, formats, schemas
from course_revenue.model import Course, PurchaseLine, Revenue
from course_revenue.settings import Settings
from course_revenue.topology import build, build_topology

from headrace import StreamsConfig
from headrace.errors import ConfigException, KafkaException
from headrace.serdes import ByteArraySerializer
from headrace.serdes.registry.avro import GenericAvroSerde
from headrace.testing import TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Callable

CONTRACTS = Path(__file__).parents[3] / "apps" / "course_revenue" / "contracts"
FIELDS: dict[str, Any] = {
    "order_id": "o1",
    "line_id": "l1",
    "course_id": "c1",
    "unit_price_cents": 1000,
    "quantity": 2,
    "line_type": "sale",
    "event_time": 5,
}


@pytest.fixture
def registry(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"schema.registry.url": f"mock://{request.node.name}"}


def producers_schema(*types: str) -> dict[str, Any]:
    """What a producer writes by: fields of its own, and perhaps types that we do not know."""
    own = schemas()["PurchaseLine"]
    fields = [
        {**field, "type": {**field["type"], "symbols": list(types)}} if field["name"] == "line_type" else field
        for field in own["fields"]
    ]
    return {**own, "fields": [{"name": "learner_id", "type": "string"}, *fields]}


class Job:
    """The driver with lines that go in as JSON or Avro, and bytes that come out."""

    def __init__(self, format_: Format, registry: dict[str, Any], broken: OnBrokenLine = OnBrokenLine.FAIL) -> None:
        self.settings = Settings(format=format_, on_broken_line=broken)
        self.driver = TopologyTestDriver(
            build_topology(self.settings, values=formats(format_, registry)), {"application.id": "course-revenue"}
        )
        self._raw = self.driver.create_input_topic(self.settings.lines, ByteArraySerializer(), ByteArraySerializer())
        avro = GenericAvroSerde(producers_schema("sale", "refund", "gift"), config=registry).serializer.serialize
        encode: dict[Format, Callable[[dict[str, Any]], bytes | None]] = {
            Format.JSON: msgspec.json.encode,
            Format.AVRO: lambda fields: avro(self.settings.lines, fields),
        }
        self.encode = encode[format_]

    def line(self, **changes: Any) -> bytes | None:
        raw = self.encode({"learner_id": "secret", **FIELDS, **changes})
        self._raw.pipe_input(b'{"order_id":"o1","line_id":"l1"}', raw, 1)
        return raw

    def written(self, ending: str) -> list[bytes]:
        found: list[bytes] = []
        (topic,) = (name for name in self.driver.produced_topic_names() if name.endswith(ending))
        while (record := self.driver.read_raw(topic)) is not None:
            found.append(record.value or b"")
        return found


@pytest.mark.parametrize("broken", list(OnBrokenLine))
def test_avro_is_on_the_outside_only(registry: dict[str, Any], broken: OnBrokenLine) -> None:
    inside: dict[Format, list[list[bytes]]] = {}
    for format_ in Format:
        job = Job(format_, registry, broken)
        with job.driver:
            courses = job.driver.create_input_topic(job.settings.courses, ByteArraySerializer(), ByteArraySerializer())
            course = formats(format_, registry).course.serializer.serialize(job.settings.courses, Course("W", True))
            courses.pipe_input(b"c1", course, 0)
            job.line()
            job.line(line_type="refund", quantity=1)
            inside[format_] = [job.written("-repartition"), job.written("course-revenue-changelog")]
            (*_, last) = job.written("commerce.course_revenue")
            total = formats(format_, registry).revenue.deserializer.deserialize(job.settings.output, last)
            assert total == Revenue("c1", 1000, 2, False, 5)
            assert (last[:1] == b"\0") == (format_ is Format.AVRO)
            assert "secret" not in repr(inside[format_])
    assert inside[Format.JSON] == inside[Format.AVRO]


def test_an_unknown_type_is_a_line_that_breaks_the_contract_in_json(registry: dict[str, Any]) -> None:
    job = Job(Format.JSON, registry)
    with job.driver, pytest.raises(KafkaException) as caught:
        job.line(line_type="gift")
    assert "unknown_line_type" in str(caught.value.__cause__ or caught.value)
    rejecting = Job(Format.JSON, registry, OnBrokenLine.REJECT)
    with rejecting.driver:
        raw = rejecting.line(line_type="gift")
        assert rejecting.written("rejected") == [raw]


@pytest.mark.parametrize("broken", list(OnBrokenLine))
def test_an_unknown_type_does_not_decode_in_avro(registry: dict[str, Any], broken: OnBrokenLine) -> None:
    job = Job(Format.AVRO, registry, broken)
    with job.driver:
        job.line()
        with pytest.raises(
            KafkaException, match="does not decode, and the deserialization exception handler"
        ) as caught:
            job.line(line_type="gift")
    assert "secret" not in str(caught.value)
    assert "unknown_line_type" not in str(caught.value)


@pytest.mark.parametrize("changes", [{"course_id": None}, {"unit_price_cents": -1}, {"quantity": 0}])
def test_other_broken_lines_are_rejected_in_avro_as_they_came(
    registry: dict[str, Any], changes: dict[str, Any]
) -> None:
    job = Job(Format.AVRO, registry, OnBrokenLine.REJECT)
    with job.driver:
        raw = job.line(**changes)
        assert job.written("rejected") == [raw]


def test_avro_without_a_registry_is_an_error_of_the_setting() -> None:
    with pytest.raises(ConfigException, match=r"avro needs the schema registry's address: set schema\.registry\.url"):
        build_topology(Settings(format=Format.AVRO))
    where = {"application.id": "a", "bootstrap.servers": "k:1", "schema.registry.url": "mock://build"}
    avro = build(StreamsConfig.load({**where, "course.revenue.format": "avro"})).describe()
    assert str(avro) == str(build(StreamsConfig.load(where)).describe())


@pytest.mark.parametrize(
    ("name", "file"), [("PurchaseLine", "purchase_line"), ("Course", "course"), ("Revenue", "course_revenue")]
)
def test_the_published_schemas_are_those_of_the_job(name: str, file: str) -> None:
    assert json.loads((CONTRACTS / f"{file}.avsc").read_text(encoding="utf-8")) == schemas()[name]


def contract_fields(heading: str) -> dict[str, str]:
    """Names and types of the table below a heading of the written contract."""
    text = (CONTRACTS / "README.md").read_text(encoding="utf-8")
    section = text.split(f"## {heading}", 1)[1].split("\n## ", 1)[0]
    return dict(re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", section, re.MULTILINE))


@pytest.mark.parametrize("format_", list(Format))
def test_the_output_has_the_fields_of_the_written_contract(registry: dict[str, Any], format_: Format) -> None:
    job = Job(format_, registry)
    with job.driver:
        job.line()
        (raw,) = job.written("commerce.course_revenue")
    reader = GenericAvroSerde(config=registry).deserializer
    read: Any = reader.deserialize(job.settings.output, raw) if format_ is Format.AVRO else None
    total: dict[str, Any] = json.loads(raw) if format_ is Format.JSON else read
    kinds = {"string": str, "integer": int, "boolean": bool}
    fields = contract_fields("Totals")
    assert list(total) == list(fields)
    assert {field: type(value) for field, value in total.items()} == {f: kinds[kind] for f, kind in fields.items()}


def test_the_written_contract_of_lines_has_their_fields() -> None:
    names = [field.name for field in msgspec.structs.fields(PurchaseLine)]
    assert list(contract_fields("Purchase lines")) == names


def test_the_written_contract_of_totals_says_what_readers_may_rely_on() -> None:
    text = (CONTRACTS / "README.md").read_text(encoding="utf-8")
    promised = set(re.findall(r"^\| \*\*([^*]+)\*\* \|", text, re.MULTILINE))
    assert {"Freshness", "A duplicate", "A broken line", "A rebuild", "Not for the books", "Owner"} <= promised
    # the numbers in it are the defaults
    assert Settings().dedupe_retention_ms == 7 * 24 * 3_600_000
    assert BUDGET_MS == 60_000
