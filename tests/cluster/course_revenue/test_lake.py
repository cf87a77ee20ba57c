"""The totals in a Delta table: by merge, killed at any moment, replayed, as of a version."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from arro3.core import Array, DataType, Table
from cluster.course_revenue.held_commits import HeldWriter, compiled
from cluster.course_revenue.product import encode, wait_until
from cluster.instances import PATIENCE_S
from course_revenue.errors import LakeError
from course_revenue.lake.command import totals as print_totals
from course_revenue.lake.landing import Landing, Pace
from course_revenue.lake.table import LakeTable
from course_revenue.model import Revenue
from course_revenue.options import Target, target
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from headrace.topics import NewTopic, TopicAdmin, TopicReader, TopicWriter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cluster.conftest import TopicFactory

PARTITIONS = 2
NEVER_COMPACT = Pace(every_s=60.0, records=100_000, compact_every=0, retention_hours=168)


@dataclass
class Lake:
    """An output topic that is written by hand, and tables of it."""

    brokers: str
    topic: str
    directory: Path

    def write(self, totals: Iterable[tuple[str, int | None]]) -> None:
        """Totals of courses: net cents (the line count is one tenth of it), None for a removal."""
        with TopicWriter(self.brokers) as writer:
            for course, net in totals:
                value: dict[str, Any] = {
                    "course_id": course,
                    "net_cents": net,
                    "line_count": (net or 0) // 10,
                    "dimension_missing": False,
                    "updated_event_time": net,
                }
                writer.send(self.topic, course.encode(), None if net is None else encode(value))

    @property
    def options(self) -> list[str]:
        return ["--bootstrap-server", self.brokers, "--set", f"course.revenue.topic.output={self.topic}"]

    @property
    def target(self) -> Target:
        return target(None, [f"course.revenue.topic.output={self.topic}"], self.brokers)

    def path(self, name: str) -> str:
        return str(self.directory / name)

    def land(self, name: str, pace: Pace = NEVER_COMPACT, *, replay: bool = False) -> LakeTable:
        """Lands up to the end, in this process."""
        table = LakeTable(self.path(name), create=True)
        with Landing(self.target, table, pace) as landing:
            if replay:
                landing.replay()
            landing.follow(lambda: False, once=True)
        return table

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        """Everything in the table's rows, their places in the topic included."""
        read = QueryBuilder().register("t", DeltaTable(self.path(name))).execute("SELECT * FROM t").read_all()
        return sorted(zip(*(read[column].to_pylist() for column in read.column_names), strict=True))

    def arguments(self, name: str, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "course_revenue", "lake", *self.options, "--table", self.path(name), *arguments]

    def command(self, name: str, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.arguments(name, *arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )


@pytest.fixture
def lake(bootstrap_servers: str, topic_factory: TopicFactory, tmp_path: Path) -> Lake:
    return Lake(bootstrap_servers, topic_factory("output", PARTITIONS, {"cleanup.policy": "compact"}), tmp_path)


def test_rows_are_merged_in_batches_and_what_was_removed_goes(lake: Lake) -> None:
    lake.write((f"c{n % 5}", 10 * n) for n in range(100))
    lake.write([("gone", 7), ("c0", None), ("gone", None)])
    table = lake.land("t", Pace(60.0, 2, 3, 0))
    expected = {f"c{n % 5}": 10 * n for n in range(96, 100)}
    assert {course: total.net_cents for course, total in table.snapshot().totals.items()} == expected
    assert table.snapshot().totals["c4"] == Revenue("c4", 990, 99, False, 990)
    history = [entry["operation"] for entry in DeltaTable(lake.path("t")).history()]
    assert history.count("MERGE") >= 3
    assert "VACUUM START" in history
    types = {field.name: str(field.type) for field in DeltaTable(lake.path("t")).schema().fields}
    assert types["net_cents"] == types["line_count"] == types["updated_event_time"] == 'PrimitiveType("long")'
    # it goes on from its own offsets, and an empty round writes nothing
    version = table.version
    assert lake.land("t").version == version
    lake.write([("c1", 5), ("c0", 3)])
    later = lake.land("t")
    assert {course: total.net_cents for course, total in later.snapshot().totals.items()} == {
        **expected,
        "c1": 5,
        "c0": 3,
    }
    # checkpoints keep the offsets that a start reads
    DeltaTable(lake.path("t")).create_checkpoint()
    assert lake.land("t").version == later.version


def test_killed_between_the_data_files_and_the_commit_the_table_comes_out_like_that_of_a_straight_run(
    lake: Lake,
) -> None:
    lake.write((f"c{n % 40}", 10 * n) for n in range(120))
    lake.write((f"c{n}", None) for n in range(0, 40, 7))
    lake.write((f"c{n}", 10 * n) for n in range(0, 40, 14))
    lake.land("straight")
    table, library = Path(lake.path("killed")), compiled(lake.directory)

    def kill_before(operation: str, *arguments: str) -> list[tuple[Any, ...]]:
        """Kills it when the files of a commit are there, and its entry in the log is not; the rows then."""
        with HeldWriter(lake.arguments("killed", "--once", *arguments), library, table) as running:
            running.before(operation)
            there = versions(lake, "killed")
        assert versions(lake, "killed") == there
        assert {file.name for file in table.glob("*.parquet")} - committed_files(table)
        return lake.rows("killed")

    batches = ("--batch", "5", "--compact-every", "2")
    # the first rows of all, a compaction, and rows in a table that has some
    assert kill_before("MERGE", *batches) == []
    rows = kill_before("OPTIMIZE", *batches)
    assert 0 < len(rows) < 40
    assert kill_before("MERGE", *batches) == rows
    lake.land("killed", Pace(every_s=60.0, records=5, compact_every=2, retention_hours=168))
    assert lake.rows("killed") == lake.rows("straight")
    # a replay reads the topic from its start, and is one commit
    assert kill_before("WRITE", "--replay") == lake.rows("straight")
    version = LakeTable(lake.path("killed")).version
    assert lake.land("killed", replay=True).version == version + 1
    assert lake.rows("killed") == lake.rows("straight")


def committed_files(table: Path) -> set[str]:
    """The data files of all versions."""
    entries = [json.loads(line) for log in table.glob("_delta_log/*.json") for line in log.read_text().splitlines()]
    return {entry["add"]["path"] for entry in entries if "add" in entry}


def versions(lake: Lake, name: str) -> set[str]:
    return {file.name for file in Path(lake.path(name), "_delta_log").glob("*.json")}


def test_a_topic_that_does_not_go_on_where_the_table_stands_is_an_error_that_says_replay(lake: Lake) -> None:
    lake.write([("old", 1), ("kept", 10)])
    lake.land("t")
    admin = TopicAdmin({"bootstrap.servers": lake.brokers})
    try:
        admin.delete_topics([lake.topic])
        wait_until(lambda: not admin.topic_ids([lake.topic]), "the topic is gone")
        admin.create_topics([NewTopic(lake.topic, PARTITIONS, config={"cleanup.policy": "compact"})])
    finally:
        admin.close()
    lake.write([("kept", 20)])
    with pytest.raises(LakeError, match=r"was made anew, or is another one\. --replay"):
        lake.land("t")
    assert {row[0] for row in lake.rows("t")} == {"old", "kept"}
    table = lake.land("t", replay=True)
    assert {course: total.net_cents for course, total in table.snapshot().totals.items()} == {"kept": 20}
    assert lake.land("t").version == table.version


def test_a_record_that_is_no_total_is_named_and_passed_over_only_when_asked_for(lake: Lake) -> None:
    """It ended every start, and a replay too, and did not say where the record lies."""
    lake.write([("c1", 10), ("c2", 20)])
    with TopicWriter(lake.brokers) as writer:
        writer.send(lake.topic, b"c1", b"{}", partition=1)
    with TopicReader(lake.brokers, lake.topic) as reader:
        at = f"{lake.topic}-1, offset {reader.ends()[1] - 1}"
    lake.write([("c2", 30)])
    for replay in (False, True):
        with pytest.raises(LakeError, match=f"the record at {at} is no total"):
            lake.land("t", replay=replay)
    table = LakeTable(lake.path("t"))
    with Landing(lake.target, table, NEVER_COMPACT, skip_undecodable=True) as landing:
        landing.follow(lambda: False, once=True)
    assert {course: total.net_cents for course, total in table.snapshot().totals.items()} == {"c1": 10, "c2": 30}


def test_a_second_writer_of_a_table_is_noticed(lake: Lake) -> None:
    lake.write([("c1", 10)])
    table = LakeTable(lake.path("t"), create=True)
    with Landing(lake.target, table, NEVER_COMPACT) as landing:
        landed = False

        def over() -> bool:
            nonlocal landed
            if not landed:
                landed = True
                lake.land("t")
            return True

        with pytest.raises(LakeError, match="somebody else has landed"):
            landing.follow(over, once=False)
    assert table.snapshot().totals["c1"].net_cents == 10


def test_it_runs_until_sigterm_and_the_past_can_be_read(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    lake.write([("c1", 10), ("c2", 20)])
    running = lake.command("t", "--every", "0.1")

    def landed() -> list[int]:
        return [total.net_cents for _, total in sorted(LakeTable(lake.path("t")).snapshot().totals.items())]

    def wait_for(totals: list[int]) -> None:
        # the table is opened only when it has a new version: the other process needs the cores, too
        looked_at = 1

        def there() -> bool:
            nonlocal looked_at
            now = len(versions(lake, "t"))
            new, looked_at = now > looked_at, max(now, looked_at)
            return new and landed() == totals

        wait_until(there, f"{totals} are landed", detail=running.poll)

    wait_for([10, 20])
    first = LakeTable(lake.path("t")).snapshot()
    lake.write([("c1", 100)])
    wait_for([100, 20])
    running.send_signal(signal.SIGTERM)
    said, _ = running.communicate(timeout=PATIENCE_S)
    assert (running.returncode, "is at version" in said) == (0, True), said

    def shown(as_of: str | None) -> str:
        print_totals(table=lake.path("t"), as_of=as_of)
        return capsys.readouterr().out

    assert "c1\t100\t10\tfalse\t100\t" in shown(None)
    assert "c1\t10\t1\tfalse\t10\t" in shown(str(first.version))
    assert "c1\t10\t1\tfalse\t10\t" in shown(first.written.isoformat())
    assert LakeTable(lake.path("t")).snapshot(first.version) == first, "an older version has its own time"
    with pytest.raises(LakeError, match="has no version 99: its newest is "):
        LakeTable(lake.path("t")).snapshot(99)
    with pytest.raises(LakeError, match=r"has no version as of 2020-01-01T00:00:00\+00:00: its oldest, 0, is of "):
        shown("2020-01-01")
    with pytest.raises(LakeError, match="there is no Delta table"):
        LakeTable(lake.path("nowhere"))


def test_to_append_the_topic_and_to_sum_it_gives_another_number(lake: Lake) -> None:
    """What the contract warns of: each record is a total, not a change."""
    lake.write([("c1", 10), ("c1", 30), ("c1", 60)])
    lake.land("right")
    assert [row[1] for row in lake.rows("right")] == [60]
    with TopicReader(lake.brokers, lake.topic) as reader:
        records = [record.value or b"" for record in reader.to_end()]
    query = "SELECT json_extract(value, '$.net_cents')::BIGINT FROM (SELECT unnest(?) AS value)"
    appended = [net for (net,) in duckdb.execute(query, [[record.decode() for record in records]]).fetchall()]
    write_deltalake(lake.path("wrong"), Table({"net": Array(appended, type=DataType.int64())}), mode="append")
    wrong = QueryBuilder().register("t", DeltaTable(lake.path("wrong")))
    assert wrong.execute("SELECT sum(net) AS s FROM t").read_all()["s"].to_pylist() == [100]
