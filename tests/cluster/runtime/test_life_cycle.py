"""What a running client can be told: more or fewer threads, a pause, the end of the whole application."""

from __future__ import annotations

import re
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from cluster.conftest import PROTOCOLS
from cluster.instances import wait_until
from cluster.runtime.counting import counting, failure_of, make_topics, running, totals_of, write

from headrace import (
    Consumed,
    KafkaStreams,
    Processor,
    Produced,
    Record,
    Serdes,
    State,
    StateRestoreListener,
    StreamsBuilder,
    StreamsConfig,
    StreamThreadExceptionResponse,
)
from headrace.errors import IllegalStateException, MissingSourceTopicException, TopologyException
from headrace.records import HostInfo, TopicPartition
from headrace.testing.cluster import LocalCluster
from headrace.topics import NewTopic, TopicAdmin, TopicReader, ensure_topics

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def settings(app: dict[str, Any]) -> dict[str, Any]:
    return app | {"heartbeat.interval.ms": "500"}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_threads_come_and_go_while_it_runs(
    protocol: str, settings: dict[str, Any], bootstrap_servers: str, unique: Callable[[str], str]
) -> None:
    settings["group.protocol"] = protocol
    write(bootstrap_servers, unique("in"), 1_000)
    streams = KafkaStreams(counting(unique("in"), unique("out")), StreamsConfig.load(settings))
    assert streams.add_stream_thread() is None, "nothing runs yet"
    assert streams.remove_stream_thread() is None
    streams.start()
    try:
        with totals_of(bootstrap_servers, unique("out")) as totals:
            wait_until(lambda: totals.total() == 1_000, "the first lines")
            added = streams.add_stream_thread()
            assert added is not None
            assert added.endswith("-StreamThread-2")

            def shared() -> bool:
                held = [len(thread.active_tasks) for thread in streams.metadata_for_local_threads()]
                return sorted(held) == [1, 1]

            wait_until(shared, "each thread has one of the two tasks")
            write(bootstrap_servers, unique("in"), 1_000, 1_000)
            wait_until(lambda: totals.total() == 2_000, "lines of both threads")
            assert streams.remove_stream_thread(60.0) == added
            wait_until(
                lambda: [len(t.active_tasks) for t in streams.metadata_for_local_threads()] == [2],
                "the thread that stays has both tasks",
            )
            write(bootstrap_servers, unique("in"), 500, 2_000)
            wait_until(lambda: totals.total() == 2_500, "lines of the one thread")
            wait_until(lambda: streams.state() is State.RUNNING, "RUNNING")
    finally:
        assert streams.close(60.0)
    assert streams.add_stream_thread() is None, "closed"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_instance_knows_where_the_others_are_and_what_they_have(
    protocol: str, settings: dict[str, Any], unique: Callable[[str], str], tmp_path: Path
) -> None:
    settings["group.protocol"] = protocol
    topology = counting(unique("in"), unique("out"))
    with (
        running(topology, settings | {"application.server": "here:8080"}) as here,
        running(topology, settings | {"application.server": "there:8081", "state.dir": str(tmp_path / "b")}) as there,
    ):

        def active(client: KafkaStreams) -> set[TopicPartition]:
            (thread,) = client.metadata_for_local_threads()
            return {tp for task in thread.active_tasks for tp in task.topic_partitions}

        def known(client: KafkaStreams) -> dict[HostInfo, frozenset[TopicPartition]]:
            (thread,) = client._threads
            return {host: has.active for host, has in thread.hosts.items()}

        def shared() -> bool:
            has = {HostInfo("here", 8080): active(here), HostInfo("there", 8081): active(there)}
            return all(has.values()) and known(here) == known(there) == has

        wait_until(shared, "both know of both", detail=lambda: [known(here), known(there)])


def test_a_paused_client_stays_in_the_group_and_processes_nothing(
    settings: dict[str, Any], bootstrap_servers: str, unique: Callable[[str], str]
) -> None:
    write(bootstrap_servers, unique("in"), 1_000)
    processed = threading.Event()

    def touch(value: str) -> str:
        processed.set()
        return value

    with (
        running(counting(unique("in"), unique("out"), touch), settings) as streams,
        totals_of(bootstrap_servers, unique("out")) as totals,
    ):
        wait_until(lambda: totals.total() == 1_000, "the first lines")
        streams.pause()
        assert streams.is_paused()
        # a round that had begun may still end
        while processed.wait(0.3):
            processed.clear()
        write(bootstrap_servers, unique("in"), 20_000, 1_000)
        # longer than a session: a client that left the group would come back with lost tasks
        assert not processed.wait(7.0)
        assert streams.state() is State.RUNNING
        streams.resume()
        wait_until(lambda: totals.total() == 21_000, "all lines, each once")
        assert not streams.is_paused()


def test_an_idle_client_is_idle_however_often_it_is_to_commit(
    settings: dict[str, Any], bootstrap_servers: str, unique: Callable[[str], str]
) -> None:
    """With commit.interval.ms=0 it asked for records without ever waiting for any."""
    write(bootstrap_servers, unique("in"), 1_000)
    often = settings | {"commit.interval.ms": "0", "processing.guarantee": "at_least_once", "poll.ms": "200"}
    with (
        running(counting(unique("in"), unique("out")), often) as streams,
        totals_of(bootstrap_servers, unique("out")) as totals,
    ):
        wait_until(lambda: totals.total() == 1_000, "the lines")
        wait_until(lambda: streams.state() is State.RUNNING, "RUNNING")

        def polls() -> float:
            return float(next(m.metric_value() for n, m in streams.metrics().items() if n.name == "poll-total"))

        before, began = polls(), time.monotonic()
        wait_until(lambda: polls() >= before + 20, "20 waits for records")
        assert time.monotonic() - began > 1.0


def test_a_clean_up_has_the_next_start_restore_everything(
    settings: dict[str, Any], bootstrap_servers: str, unique: Callable[[str], str]
) -> None:
    restored: list[int] = []

    class Counts(StateRestoreListener):
        def on_restore_end(self, topic_partition: TopicPartition, store_name: str, total_restored: int) -> None:
            restored.append(total_restored)

    def client() -> KafkaStreams:
        restored.clear()
        made = KafkaStreams(counting(unique("in"), unique("out")), StreamsConfig.load(settings))
        made.set_global_state_restore_listener(Counts())
        return made

    with totals_of(bootstrap_servers, unique("out")) as totals:
        streams = client()
        streams.start()
        try:
            write(bootstrap_servers, unique("in"), 1_000)
            wait_until(lambda: totals.total() == 1_000, "the lines")
            with pytest.raises(IllegalStateException, match="Cannot clean up while running"):
                streams.clean_up()
        finally:
            assert streams.close(60.0)
        for clean in (False, True):
            if clean:
                streams.clean_up()
            streams = client()
            streams.start()
            try:
                wait_until(lambda: streams.state() is State.RUNNING, "RUNNING")  # noqa: B023  # called at once
                assert (sum(restored) > 0) is clean
            finally:
                assert streams.close(60.0)
        streams = client()
        streams.clean_up()  # before it was ever started
        assert streams.close()
        assert totals.total() == 1_000


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("partitions", [3, 0], ids=["differ", "missing"])
def test_joined_topics_that_differ_or_are_missing_end_the_client_before_it_joins_the_group(
    partitions: int,
    protocol: str,
    settings: dict[str, Any],
    bootstrap_servers: str,
    unique: Callable[[str], str],
) -> None:
    if partitions:
        ensure_topics(bootstrap_servers, [NewTopic(unique("courses"), partitions)])
    text = Consumed.with_(Serdes.String(), Serdes.String())
    builder = StreamsBuilder()
    courses = builder.table(unique("courses"), text)
    builder.stream(unique("in"), text).join(courses, lambda a, b: a + b)
    error = failure_of(builder.build(), settings | {"group.protocol": protocol})
    if partitions:
        assert isinstance(error, TopologyException)
        assert all(what in str(error) for what in (unique("in"), unique("courses"), "2", "3"))
    else:
        assert isinstance(error, MissingSourceTopicException)
        assert f"do not exist: {unique('courses')}. Create" in str(error)
    with closing(TopicAdmin({"bootstrap.servers": bootstrap_servers})) as admin:
        # one whose members have all left would still be there
        assert settings["application.id"] not in admin.list_groups()


def test_brokers_too_few_for_transactions_end_the_client_before_it_joins_the_group(
    settings: dict[str, Any], unique: Callable[[str], str], kafka_version: str | None, tmp_path: Path
) -> None:
    three = {"transaction.state.log.replication.factor": "3", "transaction.state.log.min.isr": "2"}
    with LocalCluster(tmp_path / "kafka", version=kafka_version, heap_mb=384, settings=three) as cluster:
        settings["bootstrap.servers"] = cluster.bootstrap_servers
        make_topics(cluster.bootstrap_servers, unique)
        began = time.monotonic()
        error = failure_of(counting(unique("in"), unique("out")), settings)
        # a producer waits 10 s for its first transaction; task.timeout.ms, five minutes, would be for another cause
        assert time.monotonic() - began < 45.0
        assert re.search(
            r"exactly_once_v2 needs transactions, .* shall have 3 copies .* brokers there are 1\. Start more of them; "
            r"or set transaction\.state\.log\.replication\.factor=1 .* or set processing\.guarantee=at_least_once",
            str(error),
        )
        with closing(TopicAdmin({"bootstrap.servers": cluster.bootstrap_servers})) as admin:
            assert settings["application.id"] not in admin.list_groups()


def test_a_thread_that_died_of_user_code_is_replaced_and_its_records_count_once(
    settings: dict[str, Any], bootstrap_servers: str, unique: Callable[[str], str]
) -> None:
    errors: list[Exception] = []

    def touch(value: str) -> str:
        if value == "v150" and not errors:
            raise ValueError("once")
        return value

    def replace(error: Exception) -> StreamThreadExceptionResponse:
        errors.append(error)
        return StreamThreadExceptionResponse.REPLACE_THREAD

    write(bootstrap_servers, unique("in"), 300)
    topology = counting(unique("in"), unique("out"), touch)
    streams = KafkaStreams(topology, StreamsConfig.load(settings | {"num.stream.threads": 2}))
    streams.set_uncaught_exception_handler(replace)
    streams.start()
    try:
        with totals_of(bootstrap_servers, unique("out")) as totals:
            wait_until(lambda: totals.total() == 300, "all lines counted once")
        wait_until(lambda: streams.state() is State.RUNNING, "RUNNING")
        wait_until(lambda: len(streams.metadata_for_local_threads()) == 2, "two threads again")
    finally:
        assert streams.close(60.0)
    assert isinstance(errors[0].__cause__, ValueError)
    assert len(errors) == 1


class Farewell(Processor[Any, Any, Any, Any]):
    """Forwards when it is closed, which is after the last commit."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then

    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record)

    def close(self) -> None:
        self.context.forward(Record(b"k", b"closed", 1))
        self._then()


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_what_processors_send_as_they_close_is_aborted_or_arrives(
    guarantee: str, settings: dict[str, Any], bootstrap_servers: str, unique: Callable[[str], str]
) -> None:
    """Exactly-once, a transaction stayed open until it timed out, and readers stood still; else the records were lost.

    As in Java, whose producer aborts the one as it closes, and sends the others.
    """
    exactly_once = guarantee == "exactly_once_v2"
    admin = TopicAdmin({"bootstrap.servers": bootstrap_servers})
    partitions = [TopicPartition(unique("out"), number) for number in range(2)]

    def end(*, read_committed: bool) -> int:
        return sum(admin.list_offsets(partitions, "latest", read_committed=read_committed).values())

    def on_its_way() -> None:
        if exactly_once:
            wait_until(lambda: end(read_committed=False) > end(read_committed=True), "a record in a transaction")

    raw, builder = Serdes.Bytes(), StreamsBuilder()
    stream = builder.stream(unique("in"), Consumed.with_(raw, raw))
    stream.process(lambda: Farewell(on_its_way)).to(unique("out"), Produced.with_(raw, raw))
    write(bootstrap_servers, unique("in"), 10)
    try:
        with running(builder.build(), settings | {"processing.guarantee": guarantee}):
            wait_until(lambda: end(read_committed=True) >= 10, "the records")
        assert end(read_committed=True) == end(read_committed=False)
        with TopicReader(bootstrap_servers, unique("out")) as reader:
            seen = [record.value for record in reader.to_end(30.0)]
        assert seen.count(b"closed") == (0 if exactly_once else 2)
    finally:
        admin.close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_error_may_end_every_instance_of_the_application(
    protocol: str, settings: dict[str, Any], bootstrap_servers: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    def touch(value: str) -> str:
        if value == "v1000":
            raise ValueError("no instance can survive this")
        return value

    write(bootstrap_servers, unique("in"), 500)
    clients: list[KafkaStreams] = []
    for name in ("one", "two"):
        config = settings | {"state.dir": str(tmp_path / name), "group.protocol": protocol}
        client = KafkaStreams(counting(unique("in"), unique("out"), touch), StreamsConfig.load(config))
        client.set_uncaught_exception_handler(lambda _: StreamThreadExceptionResponse.SHUTDOWN_APPLICATION)
        clients.append(client)
    try:
        for client in clients:
            client.start()
        wait_until(
            lambda: (
                all(t.active_tasks for c in clients for t in c.metadata_for_local_threads())
                and all(c.state() is State.RUNNING for c in clients)
            ),
            "both instances have a task",
        )
        write(bootstrap_servers, unique("in"), 1, 1_000)
        wait_until(lambda: all(c.state() is State.ERROR for c in clients), "both instances end")
    finally:
        for client in clients:
            client.close(60.0)
