"""The course-revenue job as a topology.

With the default settings it is, node for node, the topology that the Java DSL makes of the same steps, so the names of
its internal topics are the same. No setting changes those names: the rejecting processor and its neighbours, and the
deduping one, have names of their own and take no number, and the rejected sink comes last.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from course_revenue import dedupe, stepping
from course_revenue.contract import BrokenLineError, OnBrokenLine, check, select_course
from course_revenue.formats import formats
from course_revenue.headers import REASON, Place, source_headers
from course_revenue.model import Course, LineKey, LineWithCourse, PurchaseLine, Revenue
from course_revenue.settings import Dedupe, Settings
from course_revenue.stepping import CommitBefore, waiting
from headrace import (
    Consumed,
    FixedKeyProcessor,
    Grouped,
    Joined,
    Materialized,
    Named,
    Processor,
    Produced,
    StreamsBuilder,
)
from headrace.serdes import Deserializer, JsonSerde, Serde, Serdes, Serializer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from course_revenue.formats import Formats
    from headrace import FixedKeyRecord, KStream, Record, StreamsConfig, Topology
    from headrace.records import Headers

log = logging.getLogger(__name__)

T = TypeVar("T")

STORE: Final = "course-revenue"
"""The name of the store, and so of its changelog: ``{application.id}-course-revenue-changelog``."""

CONTRACT: Final = "line-contract"
ACCEPTED: Final = "accepted-lines"
REJECTED: Final = "rejected-lines"
REJECTED_REASON: Final = "rejected: "
"""Begins the reason under which a line that goes to the rejected topic is counted; the rule's name follows."""


def build(config: StreamsConfig) -> Topology:
    """The job for a configuration: what ``headrace topology show course_revenue.topology:build`` calls."""
    settings = Settings.of(config.originals())
    return build_topology(settings, config.values(), values=formats(settings.format, config.originals()))


def build_topology(
    settings: Settings,
    config: Mapping[str, Any] | None = None,
    *,
    select: Callable[[LineKey | None, PurchaseLine | None], str] = select_course,
    values: Formats | None = None,
) -> Topology:
    """The job.

    Args:
        settings: topic names, and what is done with broken and repeated lines.
        config: settings that the builder looks at (optimization); None for the defaults.
        select: the key selector of ``fail`` mode; another one must do what ``select_course`` does.
        values: serdes of what is read and written; None makes them of the format in ``settings``, with the registry in
            ``config``.

    Returns:
        A topology ready to run.
    """
    outside = values or formats(settings.format, config or {})
    line_serde = JsonSerde(PurchaseLine)
    course_id_serde = Serdes.String()
    line_key: Serde[LineKey] = JsonSerde(LineKey)
    line, course_key, course = outside.line, course_id_serde, outside.course
    if settings.wait_at_broken:
        line_key, course_key, course = waiting(line_key), waiting(course_key), waiting(course)
        line = waiting(line, check if settings.on_broken_line is OnBrokenLine.FAIL else None)

    builder = StreamsBuilder()
    received: KStream[Any, Any] | None = None
    lines: KStream[Any, Any]
    if settings.on_broken_line is OnBrokenLine.FAIL:
        lines = builder.stream(settings.lines, Consumed.with_(line_key, line))
    else:
        received = builder.stream(settings.lines, Consumed.with_(ReceivedSerde(line_key), ReceivedSerde(line)))
        lines = received
    if settings.commit_before:
        lines = lines.process_values(lambda: CommitBefore(settings.commit_before), named=Named.as_(stepping.LINES))
        received = None if received is None else lines
    # declared before the key is chosen, as in the Java job: generated names count the steps
    courses = builder.table(settings.courses, Consumed.with_(course_key, course))
    judged: KStream[Any, Any] | None = None
    if received is not None:
        judged = received.process(LineContract, named=Named.as_(CONTRACT))
        # a processor, for a named one takes no number, while every other step takes one even when it is named
        lines = judged.process_values(Unpack, named=Named.as_(ACCEPTED))
    joined = lines.select_key(select).left_join(
        courses, LineWithCourse, Joined.with_(course_id_serde, line_serde, JsonSerde(Course))
    )
    if settings.commit_before:
        joined = joined.process_values(
            lambda: CommitBefore(settings.commit_before), named=Named.as_(stepping.REPARTITIONED)
        )
    if settings.dedupe is Dedupe.LINE_KEY:
        retention_ms = settings.dedupe_retention_ms
        builder.add_state_store(dedupe.store_builder(retention_ms))
        joined = joined.process_values(
            lambda: dedupe.Dedupe(retention_ms), dedupe.STORE, named=Named.as_(dedupe.PROCESSOR)
        )
    revenue = joined.group_by_key(Grouped.with_(course_id_serde, JsonSerde(LineWithCourse))).aggregate(
        Revenue.zero,
        _apply,
        Materialized.as_(STORE).with_key_serde(course_id_serde).with_value_serde(JsonSerde(Revenue)),
    )
    revenue.to_stream().to(settings.output, Produced.with_(course_id_serde, outside.revenue))
    if judged is not None:
        as_received = Produced.with_(ReceivedSerde(JsonSerde(LineKey)), ReceivedSerde(outside.line))
        judged.to(settings.rejected, as_received.with_name(REJECTED))
    return builder.build(config)


def _apply(course_id: str, joined: LineWithCourse, total: Revenue) -> Revenue:
    return total.apply(course_id, joined)


class Received(msgspec.Struct, Generic[T], frozen=True):
    """A decoded key or value together with the bytes it came from."""

    value: T
    raw: bytes


class _ReceivedSerializer(Serializer[Received[T]], Generic[T]):
    def serialize(self, topic: str, data: Received[T] | None) -> bytes | None:
        return None if data is None else data.raw


class _ReceivedDeserializer(Deserializer[Received[T]], Generic[T]):
    def __init__(self, inner: Deserializer[T]) -> None:
        self._inner = inner

    def deserialize(self, topic: str, data: bytes | None) -> Received[T] | None:
        if data is None:
            return None
        return self.bind(topic)(data)

    def bind(self, topic: str) -> Callable[[bytes], Received[T]]:
        decode = self._inner.bind(topic)
        return lambda data: Received(decode(data), data)

    def bind_with_headers(self, topic: str) -> Callable[[bytes, Headers | None], Received[T]] | None:
        decode = self._inner.bind_with_headers(topic)
        return None if decode is None else lambda data, headers: Received(decode(data, headers), data)


class ReceivedSerde(Serde[Received[T]], Generic[T]):
    """Decodes with another serde and keeps the bytes, so that a record can be passed on exactly as it came."""

    def __init__(self, inner: Serde[T]) -> None:
        super().__init__(
            _ReceivedSerializer[T](),
            _ReceivedDeserializer(inner.deserializer),
            immutable=inner.immutable,
            exact=True,
        )


class Unpack(FixedKeyProcessor[Any, "Received[PurchaseLine]", PurchaseLine]):
    """Goes on with the decoded line alone."""

    def process(self, record: FixedKeyRecord[Any, Received[PurchaseLine]]) -> None:
        """Forwards the line; its key and bytes are done with."""
        self.context.forward(record.with_value(record.value.value))


class LineContract(Processor["Received[LineKey]", "Received[PurchaseLine] | None", Any, Any]):
    """Sends lines that keep the contract on, and the others, untouched, to the rejected topic."""

    def process(self, record: Record[Received[LineKey], Received[PurchaseLine] | None]) -> None:
        """Forwards to one of the two children, never to both."""
        try:
            check(None if record.value is None else record.value.value)
        except BrokenLineError as broken:
            self._reject(record, broken.reason)
        else:
            self.context.forward(record, ACCEPTED)

    def _reject(self, record: Record[Received[LineKey], Received[PurchaseLine] | None], reason: str) -> None:
        source = self.context.record_metadata()
        headers = [*record.headers, (REASON, reason.encode())]
        if source is not None:
            headers += source_headers(Place(source.topic, source.partition, source.offset))
            log.warning(
                "rejected a line: %s (topic %s, partition %d, offset %d)",
                reason,
                source.topic,
                source.partition,
                source.offset,
            )
        self.context.drop_record(REJECTED_REASON + reason)
        self.context.forward(record.with_headers(headers), REJECTED)
