"""The product's topics: which there are, how they are made, and loading them with a sample."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

from course_revenue.contract import OnBrokenLine
from course_revenue.model import Course, PurchaseLine
from course_revenue.sample import sample
from headrace.errors import MissingSourceTopicException, SerializationException
from headrace.serdes import JsonSerde
from headrace.topics import NewTopic, TopicAdmin, TopicReader, TopicWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from course_revenue.formats import Formats
    from course_revenue.sample import SampleRecord, SampleSize
    from course_revenue.settings import Settings
    from headrace.topics import TopicRecord

PARTITIONS = 6
REJECTED_RETENTION_MS = 30 * 24 * 3_600_000
_TELL_EVERY = 2_000
_TELL_S = 0.5
_SHORTEST_WAIT_S = 0.005


def wanted_topics(
    settings: Settings,
    *,
    partitions: int = PARTITIONS,
    replication_factor: int = -1,
    lines_retention_ms: int | None = None,
    rejected_retention_ms: int = REJECTED_RETENTION_MS,
) -> list[NewTopic]:
    """The topics that must exist before the first start.

    Args:
        settings: their names; the rejected topic is among them only where broken lines go there.
        partitions: of each.
        replication_factor: of each; -1 is the brokers' default.
        lines_retention_ms: how long lines are kept, by the *event time* that their records carry; None is the brokers'
            default, -1 for ever (a sample with old event times vanishes within minutes otherwise).
        rejected_retention_ms: how long rejected lines are kept, by their times, too: they hold what producers put in.
    """
    retention = {} if lines_retention_ms is None else {"retention.ms": str(lines_retention_ms)}
    compacted = {"cleanup.policy": "compact"}
    topics = [
        NewTopic(settings.lines, partitions, replication_factor, {"cleanup.policy": "delete", **retention}),
        NewTopic(settings.courses, partitions, replication_factor, compacted),
        NewTopic(settings.output, partitions, replication_factor, compacted),
    ]
    if settings.on_broken_line is OnBrokenLine.REJECT:
        config = {"cleanup.policy": "delete", "retention.ms": str(rejected_retention_ms)}
        topics.append(NewTopic(settings.rejected, partitions, replication_factor, config))
    return topics


def load_sample(
    bootstrap_servers: str,
    settings: Settings,
    size: SampleSize,
    tell: Callable[[int], None] = lambda _: None,
    *,
    client: Mapping[str, Any] | None = None,
    values: Formats | None = None,
) -> int:
    """Sends a sample to the lines topic and the courses topic; see ``load_records``."""
    return load_records(bootstrap_servers, settings, sample(size), tell, client=client, values=values)


def load_records(
    bootstrap_servers: str,
    settings: Settings,
    records: Iterable[SampleRecord],
    tell: Callable[[int], None] = lambda _: None,
    *,
    rate: float | None = None,
    client: Mapping[str, Any] | None = None,
    values: Formats | None = None,
) -> int:
    """Sends records to the lines topic and the courses topic.

    Args:
        bootstrap_servers: ``host:port`` list.
        settings: the topics' names.
        records: what to send, in this order.
        tell: told the number of lines sent so far, now and then.
        rate: lines a second; None is as fast as it goes. Each record is taken only when its time has come.
        client: more librdkafka settings, such as security.
        values: how values are written; None is JSON.

    Returns:
        The number of lines, repeated ones included. All have arrived.

    Raises:
        MissingSourceTopicException: one of the topics does not exist. Nothing was sent.
    """
    _must_exist(bootstrap_servers, (settings.lines, settings.courses), client or {})
    lines, recode, began = 0, recoder(values), time.monotonic()
    with TopicWriter(bootstrap_servers, client=client) as writer:
        for record in records:
            topic = settings.courses if record.is_course else settings.lines
            writer.send(topic, record.key, recode(topic, record), timestamp_ms=record.timestamp_ms)
            if record.is_course:
                continue
            lines += 1
            if lines % _TELL_EVERY == 0 or (rate is not None and lines % max(1, int(rate * _TELL_S)) == 0):
                tell(lines)
            if rate is not None:
                ahead_s = began + lines / rate - time.monotonic()
                if ahead_s > _SHORTEST_WAIT_S:
                    time.sleep(ahead_s)
    tell(lines)
    return lines


def _must_exist(bootstrap_servers: str, topics: Sequence[str], client: Mapping[str, Any]) -> None:
    """A writer is told late, once much has been given to it."""
    with contextlib.closing(TopicAdmin({**client, "bootstrap.servers": bootstrap_servers})) as admin:
        there = admin.partition_counts(topics)
    for topic in topics:
        if topic not in there:
            raise MissingSourceTopicException(
                f"there is no topic {topic} at {bootstrap_servers}: create it first", topic=topic
            )


def recoder(values: Formats | None) -> Callable[[str, SampleRecord], bytes | None]:
    """Gives the value of a record, which is JSON, in another format (None: JSON); what is no JSON stays as it is."""
    if values is None:
        return lambda topic, record: record.value
    lines, courses = JsonSerde(PurchaseLine), JsonSerde(Course)

    def recode(topic: str, record: SampleRecord) -> bytes | None:
        if record.is_course:
            return values.course.serializer.serialize(topic, courses.deserializer.deserialize(topic, record.value))
        try:
            line = lines.deserializer.deserialize(topic, record.value)
        except SerializationException:
            return record.value
        return values.line.serializer.serialize(topic, line)

    return recode


def read_lines(
    bootstrap_servers: str, settings: Settings, *, client: Mapping[str, Any] | None = None
) -> Iterator[TopicRecord]:
    """The records of the lines topic up to its present end, as they are; ``client`` as in ``load_sample``."""
    with TopicReader(bootstrap_servers, settings.lines, client=client) as reader:
        yield from reader.to_end()
