"""Threads that wait for others, so that the event loop never does: for records, for the brokers, for the job's ports.

Each hands what it learnt to the loop and waits until it was taken, so a loop that is busy slows the reading down and
nothing piles up. They are daemons: an answer that does not come holds up no end.
"""

from __future__ import annotations

import http.client
import logging
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlsplit

from course_revenue.dashboard.board import Batch, Change, Undecoded
from course_revenue.dashboard.job import Told, read_tasks
from headrace.errors import (
    AuthorizationException,
    KafkaException,
    MissingSourceTopicException,
    SerializationException,
    TimeoutException,
)
from headrace.records import TopicPartition
from headrace.serdes import StringDeserializer
from headrace.topics import TopicAdmin, TopicReader

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from course_revenue.model import Revenue
    from headrace.serdes import Deserializer
    from headrace.topics import TopicRecord

log = logging.getLogger(__name__)

_POLL_S: Final = 0.1
_AGAIN_S: Final = 1.0
_OPEN_S: Final = 5.0
_LOOK_S: Final = 1.5
_ANSWER_S: Final = 3.0
_ASK_S: Final = 1.0
_LONGEST_ANSWER: Final = 8 << 20
_CRITICAL: Final = 2  # syslog level: what an admin client has to say comes as exceptions


class Reading(Enum):
    """How far the reading of the output topic is."""

    OPENING = "opening"
    """The brokers are being asked for the topic."""
    READING = "reading"
    """What was there is being read: sums are of a part."""
    LIVE = "live"
    """The end was reached, and what comes is read as it comes."""
    NO_TOPIC = "no_topic"
    """There is no such topic."""
    NO_BROKERS = "no_brokers"
    """The brokers do not answer."""
    NO_REGISTRY = "no_registry"
    """A record waits for the schema registry, which does not answer."""
    REFUSED = "refused"
    """The brokers do not let us read, or the client cannot go on; the text says why."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The topic is read from its first record on; ``topic_id`` tells it from another one of the same name."""

    topic_id: str


@dataclass(frozen=True, slots=True)
class Moved:
    """The reading is in another state; ``why`` are words for people, empty where there is nothing to say."""

    state: Reading
    why: str = ""


@dataclass(frozen=True, slots=True)
class Brokers:
    """What the brokers say of the topic: its id and, by partition, where it begins and ends (committed).

    ``failure`` is why they do not; ``topic_id`` is None where there is no topic. ``job_ends`` is where the partitions
    end that the job reads, ``hidden`` are topics of it that they do not let us ask about.
    """

    failure: str | None = None
    topic_id: str | None = None
    starts: Mapping[int, int] | None = None
    ends: Mapping[int, int] | None = None
    job_ends: Mapping[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    hidden: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class JobSaid:
    """What one of the job's addresses answered: its instances, or why there is no answer."""

    address: str
    instances: Sequence[Told] = ()
    failure: str | None = None


Event: TypeAlias = Opened | Moved | Batch | Brokers | JobSaid
Hand: TypeAlias = "Callable[[Event], bool]"
"""Gives an event to the loop and waits until it was taken; False when the loop has ended."""


@dataclass(frozen=True, slots=True)
class Source:
    """The output topic: where it is and how its values are written; ``client`` are librdkafka settings."""

    brokers: str
    topic: str
    client: Mapping[str, Any]
    value: Deserializer[Revenue]


class Watcher(threading.Thread):
    """A thread that goes on until it is told to end.

    Args:
        name: Of the thread.
        hand: Takes what it learns.
    """

    def __init__(self, name: str, hand: Hand) -> None:
        super().__init__(name=name, daemon=True)
        self._hand = hand
        self._over = threading.Event()

    def run(self) -> None:
        """Until ``end``. What nobody has thought of is logged, and tried again: the page must not stand still by it."""
        while not self._over.is_set():
            try:
                self.watch()
            except Exception:
                log.exception("%s failed, and begins again", self.name)
            else:
                return
            self._over.wait(_AGAIN_S)

    def watch(self) -> None:
        """What it does until ``end``, or until there is nobody to tell."""
        raise NotImplementedError

    def end(self) -> None:
        """Make it end; it takes up to a few seconds, which nobody has to wait for."""
        self._over.set()


class Follower(Watcher):
    """Reads the output topic for as long as it is there, and begins anew when it must.

    Args:
        source: What is read.
        hand: Takes ``Opened``, ``Moved`` and ``Batch``.
    """

    def __init__(self, source: Source, hand: Hand) -> None:
        super().__init__("dashboard-reader", hand)
        self._source = source
        self._anew = threading.Event()
        self._key = StringDeserializer()
        self._said: Moved | None = None
        self._id = ""
        self._positions: dict[int, int] = {}

    def read_anew(self) -> None:
        """Forget how far it has read: the topic is another one, or has lost its end."""
        self._anew.set()

    def watch(self) -> None:
        """See the base."""
        while not self._over.is_set():
            try:
                with self._open() as reader:
                    self._follow(reader)
            except MissingSourceTopicException as error:
                self._say(Moved(Reading.NO_TOPIC, str(error)))
            except TimeoutException as error:
                self._say(Moved(Reading.NO_BROKERS, str(error)))
            except KafkaException as error:
                self._say(Moved(Reading.REFUSED, str(error)))
            if not self._anew.is_set():
                self._over.wait(_AGAIN_S)

    def _open(self) -> TopicReader:
        self._say(Moved(Reading.OPENING))
        source = self._source
        topic_id = self._topic_id()
        goes_on = topic_id == self._id and not self._anew.is_set() and bool(self._positions)
        start = self._positions if goes_on else None
        reader = TopicReader(source.brokers, source.topic, client=source.client, timeout_s=_OPEN_S, start=start)
        self._anew.clear()
        if not goes_on:
            self._id, self._positions = topic_id, {}
            self._hand(Opened(topic_id))
        return reader

    def _topic_id(self) -> str:
        source = self._source
        admin = _admin(source, _OPEN_S)
        try:
            found = admin.topic_ids([source.topic]).get(source.topic)
        finally:
            admin.close()
        if found is None:
            raise MissingSourceTopicException(f"there is no topic {source.topic}: create it first", topic=source.topic)
        return found

    def _follow(self, reader: TopicReader) -> None:
        ends: Mapping[int, int] | None = reader.ends()
        self._say(Moved(Reading.READING))
        while not self._over.is_set() and not self._anew.is_set():
            records = reader.poll(_POLL_S)
            positions = reader.positions()
            batch = self._batch(records, positions)
            if batch is None:
                return
            if (records or positions != self._positions) and not self._hand(batch):
                return
            self._positions = positions
            if ends is not None and reader.has_reached(ends):
                ends = None
                self._say(Moved(Reading.LIVE))

    def _batch(self, records: Sequence[TopicRecord], positions: Mapping[int, int]) -> Batch | None:
        changes: list[Change] = []
        undecoded: list[Undecoded] = []
        topic, value = self._source.topic, self._source.value
        for record in records:
            course: str | None = None
            while True:
                try:
                    course = self._key.deserialize_with_headers(topic, record.headers, record.key)
                    total = value.deserialize_with_headers(topic, record.headers, record.value)
                except TimeoutException as error:
                    state = self._said
                    self._say(Moved(Reading.NO_REGISTRY, str(error)))
                    if self._over.wait(_AGAIN_S):
                        return None
                    if state is not None:
                        self._say(state)
                except SerializationException as error:
                    undecoded.append(Undecoded(record.partition, record.offset, str(error), course))
                    break
                else:
                    if course is None:
                        undecoded.append(Undecoded(record.partition, record.offset, "the record has no key", None))
                    else:
                        changes.append(Change(course, total, record.partition, record.offset))
                    break
        return Batch(changes, undecoded, dict(positions), len(records))

    def _say(self, moved: Moved) -> None:
        if moved != self._said:
            self._said = moved
            if moved.why:
                log.warning("reading %s: %s", self._source.topic, moved.why)
            else:
                log.info("reading %s: %s", self._source.topic, moved.state.value)
            self._hand(moved)


class BrokerWatch(Watcher):
    """Asks the brokers now and then: a reader alone cannot tell silence from an outage, nor a topic from its successor.

    Args:
        source: What is asked about.
        hand: Takes ``Brokers``.
        job_reads: Gives the partitions that the job reads.
    """

    def __init__(
        self, source: Source, hand: Hand, job_reads: Callable[[], Collection[TopicPartition]] = frozenset
    ) -> None:
        super().__init__("dashboard-brokers", hand)
        self._source = source
        self._job_reads = job_reads

    def watch(self) -> None:
        """See the base."""
        admin = _admin(self._source, _ANSWER_S)
        try:
            while self._hand(self._ask(admin)) and not self._over.wait(_LOOK_S):
                pass
        finally:
            admin.close()

    def _ask(self, admin: TopicAdmin) -> Brokers:
        topic = self._source.topic
        try:
            topic_id = admin.topic_ids([topic]).get(topic)
            if topic_id is None:
                return Brokers()
            partitions = [TopicPartition(topic, number) for number in range(admin.partition_counts([topic])[topic])]
            starts = admin.list_offsets(partitions, "earliest")
            ends = admin.list_offsets(partitions, "latest", read_committed=True)
            job_ends, hidden = self._job_ends(admin)
        except KeyError:
            return Brokers()
        except KafkaException as error:
            return Brokers(failure=str(error))
        return Brokers(
            None,
            topic_id,
            {tp.partition: offset for tp, offset in starts.items()},
            {tp.partition: offset for tp, offset in ends.items()},
            job_ends,
            hidden,
        )

    def _job_ends(self, admin: TopicAdmin) -> tuple[dict[TopicPartition, int], frozenset[str]]:
        found: dict[TopicPartition, int] = {}
        hidden: set[str] = set()
        for topic, partitions in groupby(sorted(self._job_reads()), key=lambda tp: tp.topic):
            try:
                found |= admin.list_offsets(list(partitions), "latest", read_committed=True)
            except AuthorizationException:
                hidden.add(topic)
            except KafkaException as error:
                # one that is being made anew, as in a rebuild
                log.info("where %s ends is not known: %s", topic, error)
        return found, frozenset(hidden)


class JobWatch(Watcher):
    """Asks one of the job's ports for its tasks, every second.

    Args:
        address: ``http://host:port``, of an instance or of a supervisor.
        hand: Takes ``JobSaid``.
    """

    def __init__(self, address: str, hand: Hand) -> None:
        super().__init__("dashboard-job", hand)
        self._address = address

    def watch(self) -> None:
        """See the base."""
        while self._hand(self._ask()) and not self._over.wait(_ASK_S):
            pass

    def _ask(self) -> JobSaid:
        parts = urlsplit(self._address)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=_ANSWER_S)
        try:
            connection.request("GET", f"{parts.path.rstrip('/')}/tasks")
            response = connection.getresponse()
            body = response.read(_LONGEST_ANSWER)
            if response.status != http.client.OK:
                return JobSaid(self._address, failure=f"HTTP {response.status}")
            return JobSaid(self._address, read_tasks(body))
        except OSError as error:
            return JobSaid(self._address, failure=error.strerror or str(error) or type(error).__name__)
        except (ValueError, http.client.HTTPException) as error:
            return JobSaid(self._address, failure=str(error) or type(error).__name__)
        finally:
            with suppress(OSError):
                connection.close()


def _admin(source: Source, timeout_s: float) -> TopicAdmin:
    config = {**source.client, "bootstrap.servers": source.brokers, "log_level": _CRITICAL}
    return TopicAdmin(config, timeout_ms=int(timeout_s * 1000))
