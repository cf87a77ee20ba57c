"""The threads of the dashboard that read the topic, against a broker, without a page."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cluster.instances import wait_until
from course_revenue.dashboard.board import Batch, Board
from course_revenue.dashboard.feed import Feed, Shown
from course_revenue.dashboard.reader import (
    Brokers,
    BrokerWatch,
    Follower,
    JobSaid,
    JobWatch,
    Moved,
    Opened,
    Reading,
    Source,
)
from course_revenue.formats import Format, formats
from course_revenue.model import Revenue

from headrace.errors import TimeoutException
from headrace.records import TopicPartition
from headrace.serdes import Deserializer
from headrace.testing.processes import free_port
from headrace.topics import TopicAdmin, TopicWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cluster.conftest import TopicFactory
    from course_revenue.dashboard.reader import Event, Watcher

    from headrace.records import Headers

REVENUE = Revenue("algebra", -5, 3, True, 1_800_000_000_000)


class Taken:
    """What the threads hand over, and the board that it makes."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.board = Board("b")
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> bool:
        with self._lock:
            if isinstance(event, Opened):
                self.board = Board(event.topic_id)
            elif isinstance(event, Batch):
                self.board.apply(event, 1)
            self.events.append(event)
        return True

    def states(self) -> list[Reading]:
        return [event.state for event in self.events if isinstance(event, Moved)]


@contextmanager
def running(watcher: Watcher) -> Iterator[None]:
    watcher.start()
    try:
        yield
    finally:
        watcher.end()
        watcher.join(30)


class Flaky(Deserializer[Revenue]):
    """The schema registry does not answer for the first few records that ask it."""

    def __init__(self, inner: Deserializer[Revenue], failures: int) -> None:
        self._inner = inner
        self._failures = failures

    def deserialize(self, topic: str, data: bytes | None) -> Revenue | None:
        return self._inner.deserialize(topic, data)

    def deserialize_with_headers(self, topic: str, headers: Headers | None, data: bytes | None) -> Revenue | None:
        self._failures -= 1
        if self._failures >= 0:
            raise TimeoutException("the schema registry does not answer")
        return self._inner.deserialize_with_headers(topic, headers, data)


def test_avro_totals_are_read_and_wait_for_the_registry_and_what_does_not_decode_is_counted(
    bootstrap_servers: str, topic_factory: TopicFactory
) -> None:
    topic, taken = topic_factory("totals", 2), Taken()
    values = formats(Format.AVRO, {"schema.registry.url": f"mock://{topic}"})
    with TopicWriter(bootstrap_servers) as writer:
        writer.send(topic, b"algebra", values.revenue.serializer.serialize(topic, REVENUE))
        writer.send(topic, b"botany", b"\x00no such schema")
        writer.send(topic, b"botany", b'{"course_id": "botany"}')
        writer.send(topic, None, values.revenue.serializer.serialize(topic, REVENUE))
    with running(Follower(Source(bootstrap_servers, topic, {}, Flaky(values.revenue.deserializer, 2)), taken)):
        wait_until(lambda: Reading.LIVE in taken.states(), "the topic is read", detail=lambda: taken.events)
        assert Reading.NO_REGISTRY in taken.states()
        assert dict(taken.board.everything().rows) == {"algebra": REVENUE}
        assert (taken.board.records, taken.board.undecoded) == (4, 3)
        assert sum(taken.board.positions.values()) == 4


def test_a_topic_is_waited_for_and_one_that_is_made_anew_begins_another_board(
    bootstrap_servers: str, topic_factory: TopicFactory, unique: Callable[[str], str]
) -> None:
    name, lock = unique("totals"), threading.Lock()
    values = formats(Format.JSON, {})
    source = Source(bootstrap_servers, name, {}, values.revenue.deserializer)

    def take(event: Event) -> bool:
        # a feed belongs to one thread; here its callers take turns
        with lock:
            feed.take(event)
        return True

    def state() -> str:
        state: str = feed._source(0)["state"]
        return state

    def send(cents: int) -> None:
        total = Revenue("algebra", cents, 1, False, 1)
        with TopicWriter(bootstrap_servers) as writer:
            writer.send(name, b"algebra", values.revenue.serializer.serialize(name, total))

    follower = Follower(source, take)
    feed = Feed(Shown(name, "eur", False), [], follower.read_anew)
    with running(follower), running(BrokerWatch(source, take)):
        wait_until(lambda: state() == "no_topic", "the topic is missed", detail=state)
        topic_factory(name, exact=True)
        send(7)
        wait_until(lambda: feed.board.sums().net_cents == 7, "its total is read", detail=state)
        wait_until(lambda: state() == "live", "the end is reached", detail=state)
        first = feed.board.name
        admin = TopicAdmin({"bootstrap.servers": bootstrap_servers})
        admin.delete_topics([name])
        admin.close()
        wait_until(lambda: state() == "no_topic", "the topic is gone", detail=state)
        assert feed.board.sums().net_cents == 7
        topic_factory(name, exact=True)
        send(3)
        wait_until(lambda: feed.board.name != first, "it is read anew", detail=state)
        wait_until(lambda: feed.board.sums().net_cents == 3, "its total is another one", detail=state)


def test_the_brokers_are_asked_where_the_topics_end_that_the_job_reads(
    bootstrap_servers: str, topic_factory: TopicFactory, unique: Callable[[str], str]
) -> None:
    totals, lines = topic_factory("totals", 1), topic_factory("lines", 2)
    said: list[Brokers] = []

    def take(event: Event) -> bool:
        assert isinstance(event, Brokers)
        said.append(event)
        return False

    with TopicWriter(bootstrap_servers) as writer:
        writer.send(lines, None, b"one", partition=1)
    reads = [TopicPartition(lines, 0), TopicPartition(lines, 1), TopicPartition(unique("gone"), 0)]
    source = Source(bootstrap_servers, totals, {}, formats(Format.JSON, {}).revenue.deserializer)
    with running(BrokerWatch(source, take, lambda: reads)):
        wait_until(lambda: said, "they were asked")
    assert (said[0].failure, said[0].hidden) == (None, frozenset())
    assert said[0].job_ends == {reads[0]: 0, reads[1]: 1}


def test_a_port_that_does_not_answer_or_is_another_programs_is_told() -> None:
    said: list[JobSaid] = []

    def take(event: Event) -> bool:
        assert isinstance(event, JobSaid)
        said.append(event)
        return False

    address = f"http://127.0.0.1:{free_port()}"
    with running(JobWatch(address, take)):
        wait_until(lambda: said, "it was asked")
    assert said == [JobSaid(address, (), "Connection refused")]
