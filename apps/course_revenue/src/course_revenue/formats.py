"""How values are written on the input, the catalog and the output topic: bare JSON, or Avro with a schema registry.

Keys, the repartition topic and the totals' changelog are the same in both formats; the catalog's changelog is as its
topic. In Avro ``line_type`` is an enum: a type that this release does not know does not decode, and the deserialization
handler answers for it. In JSON it decodes, and the contract does.

The published schemas stand in ``contracts/``; they are what ``schemas`` gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeVar

from course_revenue.model import REFUND, SALE, Course, LineKey, PurchaseLine, Revenue
from headrace.errors import ConfigException
from headrace.serdes import JsonDeserializer, JsonSerde

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace import Serde
    from headrace.topics import TopicRecord

T = TypeVar("T")

NAMESPACE: Final = "commerce"
_REGISTRY: Final = "schema.registry.url"


class Format(Enum):
    """The form of values (``course.revenue.format``)."""

    JSON = "json"
    """Bare JSON."""
    AVRO = "avro"
    """Avro behind a zero byte and the schema's id in four bytes, as Confluent's serializers write it."""


@dataclass(frozen=True, slots=True)
class Formats:
    """The serdes of the three kinds of values."""

    line: Serde[PurchaseLine]
    course: Serde[Course]
    revenue: Serde[Revenue]

    def decode_line(self, topic: str) -> Callable[[TopicRecord], PurchaseLine | None]:
        """Gives the line of a record of a topic.

        It raises SerializationException for one that is none, or whose key is none, and TimeoutException while the
        registry does not answer.
        """
        key = JsonDeserializer(LineKey).deserialize
        deserialize = self.line.deserializer.deserialize_with_headers

        def decode(record: TopicRecord) -> PurchaseLine | None:
            key(topic, record.key)
            return deserialize(topic, record.headers, record.value)

        return decode


def formats(format_: Format, config: Mapping[str, Any]) -> Formats:
    """The serdes of a format.

    Args:
        format_: which.
        config: for Avro, the registry's address (``schema.registry.url``) and more by Confluent's names; other settings
            among them are ignored.

    Raises:
        ConfigException: the address is missing, or Avro is not installed.
    """
    if format_ is Format.JSON:
        return Formats(JsonSerde(PurchaseLine), JsonSerde(Course), JsonSerde(Revenue))
    if not config.get(_REGISTRY):
        raise ConfigException(f"course.revenue.format=avro needs the schema registry's address: set {_REGISTRY}")
    try:
        from headrace.serdes.registry.avro import SpecificAvroSerde
    except ImportError as error:
        raise ConfigException(f"course.revenue.format=avro: {error}") from error

    def serde(type_: type[T]) -> Serde[T]:
        return SpecificAvroSerde(type_, schema=schemas()[type_.__name__], config=config)

    return Formats(serde(PurchaseLine), serde(Course), serde(Revenue))


def schemas() -> dict[str, dict[str, Any]]:
    """The Avro schemas as parsed JSON, by the name of the class."""
    from headrace.serdes.registry.avro_types import avro_schema

    line = avro_schema(PurchaseLine, NAMESPACE)
    types = {"type": "enum", "name": "LineType", "symbols": [SALE, REFUND]}
    revenue = avro_schema(Revenue, NAMESPACE)
    return {
        "PurchaseLine": line | {"fields": _with(line["fields"], "line_type", types)},
        "Course": avro_schema(Course, NAMESPACE),
        # only the total before the first line has no course, and that one is never written
        "Revenue": revenue | {"name": "CourseRevenue", "fields": _with(revenue["fields"], "course_id", "string")},
    }


def _with(fields: list[dict[str, Any]], name: str, type_: object) -> list[dict[str, Any]]:
    return [field | {"type": type_} if field["name"] == name else field for field in fields]
