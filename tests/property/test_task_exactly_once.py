"""A task against crashes at every step of its commits: what is committed is what an undisturbed run would have made.

The broker here is a list of input records and one transactional log: outputs, changelog records and offsets become
visible together or not at all. The task is killed before, within and after commits, and taken over by a new one, which
has the files of the old one (RocksDB) or nothing (in memory), restores the rest from the committed changelog and goes
on from the committed offsets.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from unit.engine.harness import Bench, Lists

from headrace.api.options import Materialized
from headrace.api.stores import StoreType
from headrace.dsl import StreamsBuilder
from headrace.records import OffsetAndMetadata, TopicPartition
from headrace.serdes import Serdes

TOPICS = ("a", "b")
CHANGELOG = TopicPartition("app-rows-changelog", 0)

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("process"), st.integers(1, 7)),
        st.tuples(st.just("commit"), st.just(0)),
        st.tuples(st.just("abort"), st.just(0)),
        st.tuples(st.just("die after the commit"), st.just(0)),
        st.tuples(st.just("die"), st.just(0)),
    ),
    max_size=25,
)
RECORDS = st.lists(
    st.tuples(st.sampled_from(TOPICS), st.sampled_from("xyz"), st.integers(0, 20)), min_size=1, max_size=40
)


class Cluster:
    """What outlives a task."""

    def __init__(self, records: list[tuple[str, str, int]], store_type: StoreType, cache_bytes: int) -> None:
        self.inputs: dict[str, list[tuple[str, str, int]]] = {topic: [] for topic in TOPICS}
        for topic, key, timestamp in records:
            self.inputs[topic].append((key, "v", timestamp))
        self.outputs: list[tuple[str, int]] = []
        self.changelog: list[tuple[bytes, bytes | None, int]] = []
        self.offsets: dict[str, OffsetAndMetadata] = {}
        self.directory = Path(tempfile.mkdtemp(prefix="headrace-task-"))
        self.store_type, self.cache_bytes = store_type, cache_bytes
        self.take_over()

    def take_over(self) -> None:
        """A new task, as after the death of the old one."""
        builder = StreamsBuilder()
        rows: Materialized[Any, Any] = Materialized.as_("rows").with_value_serde(Serdes.Long())
        stream: Any = builder.stream(TOPICS)
        table = stream.group_by_key().count(rows.with_store_type(self.store_type))
        table.to_stream().map_values(str).to("out")
        self.sent = Lists()
        self.bench = Bench(builder.build(), self.directory, cache_bytes=self.cache_bytes, collector=self.sent)
        store = self.bench.task.changelogs[CHANGELOG]
        start = store.rows.body.offset() or 0
        assert start <= len(self.changelog), "the store is ahead of its changelog"
        records: list[Any] = [(0, timestamp, key, value, None) for key, value, timestamp in self.changelog[start:]]
        store.restore(records, len(self.changelog))
        self.bench.task.resume_from({TopicPartition(topic, 0): entry for topic, entry in self.offsets.items()})
        for topic, records in self.inputs.items():
            start = self.offsets[topic].offset if topic in self.offsets else 0
            if records[start:]:
                self.bench.add(topic, *records[start:], first_offset=start)

    def commit(self, outcome: str) -> None:
        task = self.bench.task
        offsets = task.prepare_commit(lambda partition: None)
        if outcome == "abort":
            self.die()
            return
        self.outputs += [(sent[2].decode(), int(sent[3])) for sent in self.sent.sent]
        self.changelog += [row[2:] for row in self.sent.changelog]
        self.offsets.update({partition.topic: entry for partition, entry in offsets.items()})
        self.sent.sent.clear()
        self.sent.changelog.clear()
        if outcome == "die after the commit":
            self.die()
            return
        task.post_commit({CHANGELOG: len(self.changelog) - 1} if self.changelog else {})

    def die(self) -> None:
        for store in self.bench.task.stores.values():
            # files are let go of, nothing is written
            store.rows.body.close()
        self.take_over()

    def close(self) -> None:
        self.bench.task.close()
        shutil.rmtree(self.directory, ignore_errors=True)


@given(
    records=RECORDS,
    steps=STEPS,
    store_type=st.sampled_from(list(StoreType)),
    cache_bytes=st.sampled_from([0, 500, 1 << 20]),
)
@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
def test_counts_are_exact_whatever_happens(
    records: list[tuple[str, str, int]], steps: list[tuple[str, int]], store_type: StoreType, cache_bytes: int
) -> None:
    cluster = Cluster(records, store_type, cache_bytes)
    try:
        for step, number in steps:
            if step == "process":
                cluster.bench.process(number)
            elif step == "die":
                cluster.die()
            else:
                cluster.commit(step)
        while cluster.bench.process(100):
            pass
        cluster.commit("commit")
        expected = Counter(key for _, key, _ in records)
        latest: dict[str, int] = {}
        for key, count in cluster.outputs:
            assert count > latest.get(key, 0), "a count went back, or came twice"
            assert cache_bytes or count == latest.get(key, 0) + 1, "without a cache every count is seen"
            latest[key] = count
        assert latest == expected
        store: Any = cluster.bench.task.stores["rows"]
        assert {key: row.value for key, row in store.all()} == expected
        times = {key: max(time for _, k, time in records if k == key) for key in expected}
        assert {key: row.timestamp for key, row in store.all()} == times
        read = {topic: entry.offset for topic, entry in cluster.offsets.items()}
        assert read == {topic: len(rows) for topic, rows in cluster.inputs.items() if rows}
        assert cluster.bench.task.stream_time_ms == max(time for _, _, time in records)
    finally:
        cluster.close()
