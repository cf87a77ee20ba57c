"""What the runtime does when brokers, producers or user code misbehave: it goes on, and the sums stay exact."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from cluster.instances import wait_until
from cluster.runtime.counting import counting, deaths_of, running, totals_of, write
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its __init__ re-exports them
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from confluent_kafka.cimpl import NewPartitions

from headrace import (
    KafkaStreams,
    State,
    StreamsConfig,
)
from headrace.kafka import TopicAdmin
from headrace.records import TopicPartition
from headrace.testing.cluster import LocalCluster
from headrace.tools.reset import ResetRequest, application_topics, reset
from headrace.topics import NewTopic as Topic
from headrace.topics import ensure_topics

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_a_fencing_that_a_send_notices_leads_to_a_clean_rejoin(
    app: dict[str, Any], bootstrap_servers: str, unique: Callable[[str], str]
) -> None:
    fence, fenced = threading.Event(), threading.Event()
    count = 0

    def touch(value: str) -> str:
        nonlocal count
        count += 1
        if count == 700 and not fenced.is_set():
            # in the middle of a transaction, with sends to come
            fence.set()
            assert fenced.wait(60)
        return value

    write(bootstrap_servers, unique("in"), 2_000)
    app["commit.interval.ms"] = "5000"
    with (
        totals_of(bootstrap_servers, unique("out")) as totals,
        running(counting(unique("in"), unique("out"), touch), app) as streams,
    ):
        assert fence.wait(60)
        twin = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "transactional.id": f"{app['application.id']}-{streams.process_id}-1",
            }
        )
        twin.init_transactions(30)
        fenced.set()
        wait_until(lambda: totals.total() == 2_000, "all lines counted once")
        assert streams.state() in (State.RUNNING, State.REBALANCING)


def test_a_transaction_that_its_coordinator_timed_out_is_done_again(
    app: dict[str, Any], bootstrap_servers: str, unique: Callable[[str], str]
) -> None:
    stalled = threading.Event()
    count = 0

    def touch(value: str) -> str:
        nonlocal count
        count += 1
        if count == 500 and not stalled.is_set():
            stalled.set()
            # longer than the transaction may last, shorter than the member may be silent
            threading.Event().wait(6)
        return value

    app |= {"producer.transaction.timeout.ms": "2000"}
    write(bootstrap_servers, unique("in"), 1_500)
    with (
        totals_of(bootstrap_servers, unique("out")) as totals,
        running(counting(unique("in"), unique("out"), touch), app) as streams,
    ):
        wait_until(lambda: totals.total() == 1_500, "all lines counted once")
        assert stalled.is_set()
        assert streams.state() in (State.RUNNING, State.REBALANCING)


def test_slow_user_code_commits_all_the_same_and_gathers_little(
    app: dict[str, Any], bootstrap_servers: str, unique: Callable[[str], str]
) -> None:
    def touch(value: str) -> str:
        threading.Event().wait(0.005)
        return value

    write(bootstrap_servers, unique("in"), 60_000)
    with (
        totals_of(bootstrap_servers, unique("out")) as totals,
        running(counting(unique("in"), unique("out"), touch), app) as streams,
    ):
        # 60,000 lines would take five minutes; a slice of thousands would outlast the transaction
        wait_until(lambda: totals.total() > 500, "some lines committed")
        thread: Any = streams._threads[0]
        most = 0
        for _ in range(50):
            most = max(most, sum(task.buffered for task in list(thread._tasks.values())))
            totals.total()
        assert most <= 11_000
        assert streams.state() is State.RUNNING


def test_a_store_of_a_changelog_that_a_reset_made_anew_is_dropped(
    app: dict[str, Any], bootstrap_servers: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topology = counting(unique("in"), unique("out"))
    write(bootstrap_servers, unique("in"), 400)
    with totals_of(bootstrap_servers, unique("out")) as totals, running(topology, app):
        wait_until(lambda: totals.total() == 400, "the first life's lines")
    admin = TopicAdmin({"bootstrap.servers": bootstrap_servers})
    inputs, internal = application_topics(topology, app["application.id"])
    reset(admin, ResetRequest(app["application.id"], inputs, internal_topics=internal))
    admin.close()
    # the second life begins on another machine, and its changelog grows past the offsets that the first machine has
    again = counting(unique("in"), unique("out-again"))
    ensure_topics(bootstrap_servers, [Topic(unique("out-again"), 2)])
    write(bootstrap_servers, unique("in"), 400, 400)
    elsewhere = app | {"state.dir": str(tmp_path / "elsewhere")}
    with totals_of(bootstrap_servers, unique("out-again")) as totals, running(again, elsewhere):
        wait_until(lambda: totals.total() >= 800, "the second life's lines")
    write(bootstrap_servers, unique("in"), 20, 800)
    with totals_of(bootstrap_servers, unique("out-again")) as totals, running(again, app):
        wait_until(lambda: totals.total() >= 820, "the lines after both")
        assert totals.total() == 820


def set_cleanup_policy(brokers: str, topic: str, policy: str) -> None:
    entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": brokers})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(timeout=30)


def test_a_store_that_the_changelog_no_longer_continues_is_named_and_filled_anew(
    app: dict[str, Any],
    bootstrap_servers: str,
    unique: Callable[[str], str],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    # every line is a record of the changelog
    app["statestore.cache.max.bytes"] = "0"
    topology = counting(unique("in"), unique("out"))
    with totals_of(bootstrap_servers, unique("out")) as totals:

        def counted(lines: int, state: Path) -> None:
            before = totals.total()
            write(bootstrap_servers, unique("in"), lines, before)
            with running(topology, app | {"state.dir": str(state)}):
                wait_until(lambda: totals.total() == before + lines, "the lines counted once")

        counted(100, tmp_path / "here")
        counted(700, tmp_path / "elsewhere")
        changelog = f"{app['application.id']}-counts-changelog"
        admin = TopicAdmin({"bootstrap.servers": bootstrap_servers})
        # brokers delete no records of a topic that is only compacted
        set_cleanup_policy(bootstrap_servers, changelog, "delete")
        ends = admin.list_offsets([TopicPartition(changelog, number) for number in range(2)], "latest")
        # a hundred records have the newest of every key
        admin.delete_records({tp: end - 100 for tp, end in ends.items()})
        admin.close()
        set_cleanup_policy(bootstrap_servers, changelog, "compact")
        counted(20, tmp_path / "here")
    assert "but the log holds" in caplog.text
    assert "The local store is dropped and restored" in caplog.text


def test_partitions_added_to_a_source_topic_end_the_thread_with_what_to_do(
    app: dict[str, Any], bootstrap_servers: str, unique: Callable[[str], str]
) -> None:
    write(bootstrap_servers, unique("in"), 40)
    streams = KafkaStreams(
        counting(unique("in"), unique("out")), StreamsConfig.load(app | {"metadata.max.age.ms": "500"})
    )
    deaths = deaths_of(streams)
    streams.start()
    try:
        with totals_of(bootstrap_servers, unique("out")) as totals:
            wait_until(lambda: totals.total() == 40, "the lines counted")
        client = AdminClient({"bootstrap.servers": bootstrap_servers})
        client.create_partitions([NewPartitions(unique("in"), 3)])[unique("in")].result(30)
        wait_until(lambda: streams.state() is State.ERROR, "the end of the client")
    finally:
        streams.close(30.0)
    assert f"Topic {unique('in')} now has 3 partitions instead of 2" in str(deaths[0])
    assert "headrace reset" in str(deaths[0])


@pytest.mark.parametrize(("anew", "told"), [(False, "was deleted. Create it"), (True, "was deleted and made anew")])
def test_a_source_topic_that_is_deleted_ends_the_thread_with_what_to_do(
    app: dict[str, Any], bootstrap_servers: str, unique: Callable[[str], str], anew: bool, told: str
) -> None:
    """Nobody said so; made anew, it was read on from where the former one was, and what lay before was lost."""
    admin, source = TopicAdmin({"bootstrap.servers": bootstrap_servers}), unique("in")
    streams = KafkaStreams(counting(source, unique("out")), StreamsConfig.load(app | {"metadata.max.age.ms": "200"}))
    deaths = deaths_of(streams)
    streams.start()
    try:
        wait_until(lambda: streams.state() is State.RUNNING, "RUNNING")
        wait_until(lambda: source in streams._threads[0]._watch._ids, "a first look")
        admin.delete_topics([source])
        if anew:
            ensure_topics(bootstrap_servers, [Topic(source, 2)])
        wait_until(lambda: streams.state() is State.ERROR, "the end of the client")
    finally:
        streams.close(30.0)
        admin.close()
    assert f"opic {source} {told}" in str(deaths[0])


def test_an_outage_longer_than_a_transaction_is_survived_with_either_guarantee(
    kafka_version: str | None, unique: Callable[[str], str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    guarantees = ("exactly_once_v2", "at_least_once")
    broker = LocalCluster(tmp_path / "kafka", version=kafka_version)
    state = broker.start()
    brokers, source = state.bootstrap_servers, unique("in")
    compact = {"cleanup.policy": "compact"}
    try:
        ensure_topics(brokers, [Topic(source, 2), *(Topic(unique(name), 2, config=compact) for name in guarantees)])
        write(brokers, source, 2_000)
        reached = {name: threading.Event() for name in guarantees}

        def touching(guarantee: str) -> Callable[[str], str]:
            count = 0

            def touch(value: str) -> str:
                nonlocal count
                count += 1
                if count >= 1_000:
                    reached[guarantee].set()
                threading.Event().wait(0.001)
                return value

            return touch

        with ExitStack() as stack:
            clients: list[KafkaStreams] = []
            for guarantee in guarantees:
                settings = {
                    "application.id": unique(f"app-{guarantee}"),
                    "bootstrap.servers": brokers,
                    "processing.guarantee": guarantee,
                    "commit.interval.ms": "200",
                    "producer.transaction.timeout.ms": "5000",
                    "producer.delivery.timeout.ms": "5000",
                    "state.dir": str(tmp_path / guarantee),
                }
                topology = counting(source, unique(guarantee), touching(guarantee))
                clients.append(stack.enter_context(running(topology, settings)))
            assert all(event.wait(60) for event in reached.values())
            broker.kill()
            # the outage has to outlast the transaction and delivery timeouts of 5 s
            threading.Event().wait(8)
            LocalCluster(tmp_path / "kafka", port=state.port).start()
            write(brokers, source, 500, 2_000)
            once, least = (stack.enter_context(totals_of(brokers, unique(name))) for name in guarantees)
            wait_until(lambda: once.total() == 2_500, "all lines counted once", 180)
            wait_until(lambda: least.total() >= 2_500, "all lines counted", 180)

            # one in which nothing is under way: the next transaction finds its coordinator, and nobody floods the log
            caplog.clear()
            LocalCluster(tmp_path / "kafka").stop()
            threading.Event().wait(3)
            LocalCluster(tmp_path / "kafka", port=state.port).start()
            write(brokers, source, 10, 2_500)
            wait_until(lambda: once.total() == 2_510, "all lines counted once", 180)
            said = [record.getMessage() for record in caplog.records if record.name.startswith("headrace")]
            assert not [text for text in said if "has not come back" in text]
            assert len(said) < 200, said[:200]
            assert all(client.state() in (State.RUNNING, State.REBALANCING) for client in clients)
    finally:
        LocalCluster(tmp_path / "kafka").stop()


def test_a_state_listener_that_fails_keeps_no_client_from_ending(
    app: dict[str, Any], bootstrap_servers: str, unique: Callable[[str], str]
) -> None:
    def touch(value: str) -> str:
        raise ValueError(value)

    def listen(new: State, old: State) -> None:
        heard.append(new)
        raise RuntimeError("the listener")

    heard: list[State] = []
    write(bootstrap_servers, unique("in"), 1)
    topology = counting(unique("in"), unique("out"), touch)
    streams = KafkaStreams(topology, StreamsConfig.load({**app, "num.stream.threads": "2"}))
    streams.set_state_listener(listen)
    streams.start()
    assert streams.wait(60)
    assert streams.close(60)
    assert (streams.state(), heard[-2:]) == (State.ERROR, [State.PENDING_ERROR, State.ERROR])
