"""The commands against a real broker: a cluster's life, running, resetting."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.course_revenue.java import java

from headrace.kafka import TopicAdmin
from headrace.records import OffsetAndMetadata, TopicPartition
from headrace.serdes import StringDeserializer
from headrace.serdes.registry import SchemaRegistryClient
from headrace.testing.broker import jars_directory
from headrace.testing.processes import process_start
from headrace.topics import LatestByKey, TopicWriter

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest
    from cluster.conftest import TopicFactory

APP = """
from headrace import Consumed, Grouped, Produced, Serdes, StreamsBuilder

def build(config):
    given = config.originals()
    text = Serdes.String()
    builder = StreamsBuilder()
    counts = (
        builder.stream(given["test.input"], Consumed.with_(text, text))
        .group_by(lambda key, value: value, Grouped.with_(text, text))
        .count()
    )
    counts.to_stream().map_values(str).to(given["test.output"], Produced.with_(text, text))
    return builder.build(config.values())
"""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from headrace.cli import main; main()", *arguments]


def headrace(*arguments: str, cwd: Path, code: int = 0) -> str:
    done = subprocess.run(command(*arguments), cwd=cwd, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def test_cluster_up_status_down_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # a third less work for a start
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    try:
        up = headrace("cluster", "up", "--brokers", "3", "--heap", "256", "--registry", "--data-dir", "c", cwd=tmp_path)
        address, registry = up.split()
        assert len(address.split(",")) == 3
        assert headrace("cluster", "up", "--registry", "--data-dir", "c", cwd=tmp_path) == up
        assert SchemaRegistryClient(registry).get_subjects() == []
        status = headrace("cluster", "status", "--data-dir", "c", cwd=tmp_path)
        assert f"running at {address}, processes " in status
        assert f"registry running at {registry}, process " in status
        brokers, beside = re.findall(r"process(?:es)? ([\d, ]+), (?:Apache|Apicurio)", status)
        pids = [int(pid) for pid in (*brokers.split(", "), beside)]
    finally:
        down = headrace("cluster", "down", "--data-dir", "c", cwd=tmp_path)
    assert "stopped the registry" in down
    assert [process_start(pid) for pid in pids] == [None] * 4
    headrace("cluster", "status", "--data-dir", "c", cwd=tmp_path, code=1)


def test_fetch_names_the_directories_of_the_programs(tmp_path: Path) -> None:
    jars, registry = map(Path, headrace("cluster", "fetch", "--registry", cwd=tmp_path).split())
    assert list(jars.glob("kafka-clients-*.jar"))
    assert list(registry.rglob("*-runner.jar"))


def test_run_stops_in_order_and_reset_makes_it_read_anew(
    tmp_path: Path, bootstrap_servers: str, topic_factory: TopicFactory, unique: Callable[[str], str]
) -> None:
    source, output, app = topic_factory("words", 2), topic_factory("counts", 2), unique("cli-app")
    (tmp_path / "cli_cluster_app.py").write_text(APP, encoding="utf-8")
    (tmp_path / "app.properties").write_text(
        f"application.id={app}\nbootstrap.servers={bootstrap_servers}\nprocessing.guarantee=exactly_once_v2\n"
        f"state.dir={tmp_path / 'state'}\ntest.input={source}\ntest.output={output}\n",
        encoding="latin-1",
    )
    with TopicWriter(bootstrap_servers) as writer:
        for word in ("a", "b", "a"):
            writer.send(source, None, word.encode())
    run = command("run", "cli_cluster_app:build", "--config", "app.properties")
    reset = ["reset", "--config", "app.properties", "--topology", "cli_cluster_app:build"]

    with LatestByKey(bootstrap_servers, output, StringDeserializer(), StringDeserializer()) as counts:
        with running(run, tmp_path) as process:
            until(lambda: counts.poll(0.2) is not None and dict(counts.values) == {"a": "2", "b": "1"}, process)
            assert "has active members" in headrace(*reset, "--dry-run", cwd=tmp_path, code=1)
            headrace(*reset, cwd=tmp_path, code=1)
            process.send_signal(signal.SIGQUIT)
            until(lambda: "stream_thread.py" in (tmp_path / "run.log").read_text(errors="replace"), process)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0

        planned = headrace(*reset, "--dry-run", cwd=tmp_path)
        assert headrace(*reset, "--dry-run", cwd=tmp_path) == planned
        starts = [line for line in planned.splitlines() if line.startswith("set the offset")]
        old = headrace(*reset, "--dry-run", "--to-datetime", "2000-01-01T00:00:00.000", cwd=tmp_path)
        assert [line for line in old.splitlines() if line.startswith("set the offset")] == starts
        ahead = headrace(*reset, "--dry-run", "--by-duration", "-PT1H", cwd=tmp_path)
        assert sum(int(end) for end in re.findall(r"set the offset of \S+ to (\d+)", ahead)) == 3
        assert f"delete topic {app}-KSTREAM-AGGREGATE-STATE-STORE-0000000002-changelog" in planned
        assert headrace(*reset, cwd=tmp_path) == planned
        admin = TopicAdmin({"bootstrap.servers": bootstrap_servers})
        until(lambda: not [t for t in admin.list_topics() if t.startswith(f"{app}-")])
        assert {tp: o.offset for tp, o in admin.group_offsets(app).items()} == {
            TopicPartition(source, 0): 0,
            TopicPartition(source, 1): 0,
        }
        admin.close()


def test_reset_carries_out_a_time_a_duration_a_shift_and_a_file(
    tmp_path: Path, bootstrap_servers: str, topic_factory: TopicFactory, unique: Callable[[str], str]
) -> None:
    source, app = topic_factory("timed", 2), unique("timed-app")
    now = int(time.time() * 1000)
    first, second, third = (now - hours * 3_600_000 for hours in (3, 2, 1))
    with TopicWriter(bootstrap_servers) as writer:
        for partition, times in enumerate(((first, first, second, third), (first, second, second, third, third))):
            for at in times:
                writer.send(source, None, b"x", timestamp_ms=at, partition=partition)
    admin = TopicAdmin({"bootstrap.servers": bootstrap_servers})

    def offsets_after(application_id: str) -> tuple[int, int]:
        committed = {tp: entry.offset for tp, entry in admin.group_offsets(application_id).items()}
        assert committed.keys() == {TopicPartition(source, 0), TopicPartition(source, 1)}
        return committed[TopicPartition(source, 0)], committed[TopicPartition(source, 1)]

    def reset(*options: str) -> tuple[int, int]:
        """What is committed after a reset; Java's tool has done the same with an id of its own."""
        given = ["--bootstrap-server", bootstrap_servers, "--input-topics", source, *options]
        headrace("reset", "--application-id", app, *given, cwd=tmp_path)
        resetter = "org.apache.kafka.tools.StreamsResetter"
        java(f"{jars_directory()}/*", resetter, "--application-id", f"java-{app}", *given)
        assert offsets_after(app) == offsets_after(f"java-{app}")
        return offsets_after(app)

    def moment(epoch_ms: int, hours_east: int | None = None) -> str:
        zone = timezone(timedelta(hours=hours_east or 0))
        text = datetime.fromtimestamp(epoch_ms // 1000, zone).replace(microsecond=epoch_ms % 1000 * 1000)
        return (text if hours_east is not None else text.replace(tzinfo=None)).isoformat(timespec="milliseconds")

    # the first record that is not older; without an offset the time is UTC
    assert reset("--to-datetime", moment(second)) == (2, 1)
    assert reset("--to-datetime", moment(second + 1, hours_east=2)) == (3, 3)
    assert reset("--by-duration", "PT2H30M") == (2, 1)
    # from what is committed, which now is inside the log; what would lie behind the log is its end
    assert reset("--shift-by", "1") == (3, 2)
    assert reset("--shift-by", "2") == (4, 4)
    assert reset("--shift-by", "-3") == (1, 1)
    (tmp_path / "offsets.csv").write_text(f"{source},1,2\n{source},0,3\n", encoding="utf-8")
    assert reset("--from-file", str(tmp_path / "offsets.csv")) == (3, 2)
    admin.close()


def test_reset_leaves_an_id_that_begins_with_ours_alone(
    tmp_path: Path, bootstrap_servers: str, topic_factory: TopicFactory, unique: Callable[[str], str]
) -> None:
    ours = unique("id")
    other = f"{ours}-other"
    mine, theirs, shared_look = (
        topic_factory(name, exact=True)
        for name in (f"{ours}-store-changelog", f"{other}-store-changelog", f"{ours}-my-store-changelog")
    )
    source = topic_factory("source")
    admin = TopicAdmin({"bootstrap.servers": bootstrap_servers})
    admin.alter_group_offsets(other, {TopicPartition(source, 0): OffsetAndMetadata(0)})
    told = headrace(
        "reset",
        "--application-id",
        ours,
        "--bootstrap-server",
        bootstrap_servers,
        "--input-topics",
        source,
        cwd=tmp_path,
    )
    assert f"delete topic {mine}" in told
    assert f"keep topic {theirs}" in told
    assert f"keep topic {shared_look}" in told
    until(lambda: mine not in admin.list_topics())
    assert {theirs, shared_look} <= admin.list_topics()
    admin.close()


class running:  # reads as a statement
    """A process that is gone when the block is left; its output is shown when the block fails."""

    def __init__(self, arguments: list[str], cwd: Path) -> None:
        self._log = cwd / "run.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(arguments, cwd=cwd, stdout=log, stderr=subprocess.STDOUT)

    def __enter__(self) -> subprocess.Popen[bytes]:
        return self._process

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._process.kill()
        self._process.wait()
        if error is not None:
            print(self._log.read_text(encoding="utf-8", errors="replace")[-5_000:])


def until(
    condition: Callable[[], object], process: subprocess.Popen[bytes] | None = None, timeout_s: float = 180.0
) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not so within {timeout_s:.0f} s"
        assert process is None or process.poll() is None, "the process ended early"
        time.sleep(0.05)
