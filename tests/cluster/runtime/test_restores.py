"""Restores that take their time: other tasks go on, and whoever watches is told how far they are."""

from __future__ import annotations

import json
import re
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from cluster.conftest import PROTOCOLS
from cluster.instances import wait_until
from cluster.runtime.counting import KEYS, counting, running, totals_of, write
from cluster.runtime.test_http_port import answer

from headrace import KafkaStreams, State, StateRestoreListener, StreamsConfig, TopicPartition
from headrace.kafka import RecordProducer
from headrace.partitioning import partition_for_key
from headrace.runtime import state_updater
from headrace.topics import TopicAdmin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cluster.runtime.counting import Totals

LINES = 1_000
QUICK, HELD = 0, 1
"""Partitions: the restore of the second one comes to a transaction that is not over."""
UNFINISHED = 3


class Told(StateRestoreListener):
    """What a listener is told of each partition, in order: its offsets and counts."""

    def __init__(self, changelog: str) -> None:
        self.changelog = changelog
        self.events: dict[int, list[tuple[str, int, int]]] = {QUICK: [], HELD: []}

    def _add(self, tp: TopicPartition, store_name: str, *event: Any) -> None:
        assert (tp.topic, store_name) == (self.changelog, "counts")
        self.events[tp.partition].append(event)

    def on_restore_start(
        self, topic_partition: TopicPartition, store_name: str, starting_offset: int, ending_offset: int
    ) -> None:
        self._add(topic_partition, store_name, "start", starting_offset, ending_offset)

    def on_batch_restored(
        self, topic_partition: TopicPartition, store_name: str, batch_end_offset: int, num_restored: int
    ) -> None:
        self._add(topic_partition, store_name, "batch", batch_end_offset, num_restored)

    def on_restore_end(self, topic_partition: TopicPartition, store_name: str, total_restored: int) -> None:
        self._add(topic_partition, store_name, "end", -1, total_restored)

    def on_restore_suspended(self, topic_partition: TopicPartition, store_name: str, total_restored: int) -> None:
        self._add(topic_partition, store_name, "suspended", -1, total_restored)

    def kinds(self, partition: int) -> list[str]:
        """What it was told, batches as one."""
        kinds = [kind for kind, _, _ in self.events[partition]]
        return [kind for kind, before in zip(kinds, ["", *kinds], strict=False) if (kind, before) != ("batch", "batch")]

    def restored(self, partition: int) -> int:
        """Records in batches since the last start."""
        count = 0
        for kind, _, number in self.events[partition]:
            count = 0 if kind == "start" else count + number if kind == "batch" else count
        return count


class Restore:
    """A client that starts without its state while a transaction in the changelog of the partition HELD is open."""

    def __init__(self, client: KafkaStreams, told: Told, totals: Totals, transaction: RecordProducer) -> None:
        self.client = client
        self.told = told
        self.totals = totals
        self.transaction = transaction

    def ask(self, path: str) -> tuple[int, str]:
        address = self.client.http_address
        assert address is not None
        return answer(address, path)

    def tasks(self) -> dict[str, tuple[str, int]]:
        """By task, its state and how many records it has still to restore."""
        rows = json.loads(self.ask("/tasks")[1])["tasks"]
        return {row["id"]: (row["state"], row["restore_remaining"]) for row in rows}

    def remaining(self) -> dict[str, int]:
        """The same number by the metric."""
        return {
            name.tags["task-id"]: int(metric.metric_value())
            for name, metric in self.client.metrics().items()
            if name.name == "restore-remaining-records-total"
        }

    def stands_still(self) -> bool:
        """Whether all has been restored but what the transaction holds up."""
        return self.told.kinds(QUICK)[-1:] == ["end"] and sum(map(self.told.restored, (QUICK, HELD))) == LINES


@contextmanager
def restoring(settings: dict[str, Any], unique: Callable[[str], str]) -> Iterator[Restore]:
    changelog = f"{settings['application.id']}-counts-changelog"
    brokers, topology = settings["bootstrap.servers"], counting(unique("in"), unique("out"))
    # without a cache every line makes one changelog record
    settings = settings | {"statestore.cache.max.bytes": 0, "headrace.http.port": 0}
    write(brokers, unique("in"), LINES)
    with totals_of(brokers, unique("out")) as totals:
        with running(topology, settings):
            wait_until(lambda: totals.total() == LINES, "the lines")
        transaction = RecordProducer(
            {
                "bootstrap.servers": brokers,
                "transactional.id": unique("predecessor"),
                "transaction.timeout.ms": 300_000,
            }
        )
        transaction.init_transactions(30.0)
        for _ in range(UNFINISHED):
            transaction.send(changelog, HELD, b"of-nobody", bytes(8), 1)
        transaction.flush(30.0)
        client, told = KafkaStreams(topology, StreamsConfig.load(settings)), Told(changelog)
        client.set_global_state_restore_listener(told)
        client.clean_up()
        client.start()
        try:
            restore = Restore(client, told, totals, transaction)
            wait_until(restore.stands_still, "the restore comes to the transaction", detail=lambda: told.events)
            yield restore
        finally:
            client.close(60.0)
            transaction.close()


def test_a_task_goes_on_while_another_ones_restore_says_how_far_it_is(
    app: dict[str, Any], unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(state_updater, "_PROGRESS_S", 0.3)
    caplog.set_level("INFO", logger=state_updater.__name__)
    with restoring(app, unique) as restore:
        told, totals = restore.told, restore.totals
        # the one runs, and its new totals come out
        write(app["bootstrap.servers"], unique("in"), KEYS, start=LINES)
        quick = sum(partition_for_key(f"k{i}".encode(), 2) == QUICK for i in range(KEYS))
        assert 0 < quick < KEYS
        wait_until(lambda: totals.total() == LINES + quick, "the task that is restored goes on", detail=restore.tasks)
        # the other one says how far it is
        done = told.restored(HELD)
        (_, begin, end), *batches = told.events[HELD]
        assert told.kinds(HELD) == ["start", "batch"]
        assert begin == 0
        with closing(TopicAdmin({"bootstrap.servers": app["bootstrap.servers"]})) as admin:
            held = TopicPartition(told.changelog, HELD)
            assert admin.list_offsets([held], "latest") == {held: end}
        left = end - batches[-1][1] - 1
        assert UNFINISHED <= left < UNFINISHED + LINES
        assert restore.remaining() == {"0_0": 0, "0_1": left}
        assert restore.tasks() == {"0_0": ("RUNNING", 0), "0_1": ("RESTORING", left)}
        status, reason = restore.ask("/ready")
        assert status == 503
        assert f"tasks are being restored: 0_1 ({left} records left)" in reason
        line = (
            rf"Restoring 1 stores of 1 tasks: {done} of {done + left} records done, (\d+) records/s, (\d+) seconds left"
        )
        wait_until(lambda: re.search(line, caplog.text), "the log says so", detail=lambda: caplog.text)
        # and it ends
        restore.transaction.abort_transaction(30.0)
        wait_until(lambda: totals.total() == LINES + KEYS, "both go on", detail=restore.tasks)
        assert told.kinds(QUICK) == told.kinds(HELD) == ["start", "batch", "end"]
        assert told.events[HELD][-1] == ("end", -1, done)
        assert told.events[QUICK][-1] == ("end", -1, LINES - done)
        assert restore.remaining() == {"0_0": 0, "0_1": 0}
        assert restore.tasks() == {"0_0": ("RUNNING", 0), "0_1": ("RUNNING", 0)}
        wait_until(lambda: restore.ask("/ready")[0] == 200, "it is ready", detail=lambda: restore.ask("/ready"))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_restore_whose_task_is_taken_away_is_told_to_be_suspended(
    protocol: str, app: dict[str, Any], unique: Callable[[str], str]
) -> None:
    with restoring(app | {"group.protocol": protocol}, unique) as restore:
        told, done = restore.told, restore.told.restored(HELD)
        with closing(TopicAdmin({"bootstrap.servers": app["bootstrap.servers"]})) as admin:
            admin.remove_members(admin.describe_group(app["application.id"]), "test")
        # the member joins again, and so the task begins again
        wait_until(
            lambda: told.kinds(HELD)[:4] == ["start", "batch", "suspended", "start"],
            "the restore is suspended, and begins again",
            detail=lambda: told.events,
        )
        assert [event for event in told.events[HELD] if event[0] == "suspended"] == [("suspended", -1, done)]
        assert "suspended" not in told.kinds(QUICK), "it was complete"


@pytest.mark.parametrize("end", ["closed", "failed"])
def test_a_restore_that_its_client_does_not_finish_is_told_to_be_suspended(
    end: str, app: dict[str, Any], unique: Callable[[str], str]
) -> None:
    with restoring(app | ({"task.timeout.ms": 4_000} if end == "failed" else {}), unique) as restore:
        told, done = restore.told, restore.told.restored(HELD)
        if end == "closed":
            assert restore.client.close(60.0)
        else:
            wait_until(lambda: restore.client.state() is State.ERROR, "the restore takes longer than task.timeout.ms")
        assert told.events[HELD][-1] == ("suspended", -1, done)
        assert told.kinds(HELD) == ["start", "batch", "suspended"]
