"""The local cluster's own rules, with small processes in the broker's place where no broker is needed."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import pytest

from headrace.testing.broker import KAFKA_VERSION, BrokerState, jars_directory
from headrace.testing.cluster import LocalCluster
from headrace.testing.processes import ClusterError, process_start

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        yield process
        process.kill()


def write_state(data_dir: Path, process: subprocess.Popen[bytes], start: str | None = None) -> None:
    mark = start or process_start(process.pid) or ""
    state = BrokerState(process.pid, mark, 1, 2, KAFKA_VERSION)
    (data_dir / "cluster.json").write_text(json.dumps(asdict(state)), encoding="utf-8")


def test_nothing_runs_in_an_empty_directory(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path / "none")
    assert cluster.state() is None
    assert cluster.stop() is False
    with pytest.raises(ClusterError, match="no cluster is running"):
        _ = cluster.bootstrap_servers


def test_another_process_finds_and_stops_what_runs(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    write_state(tmp_path, sleeper)
    cluster = LocalCluster(tmp_path)
    state = cluster.state()
    assert state is not None
    assert state.pids == [sleeper.pid]
    assert cluster.stop() is True
    assert sleeper.wait(timeout=5) != 0
    assert cluster.state() is None


def test_a_recycled_process_id_is_not_the_broker_and_is_not_killed(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    write_state(tmp_path, sleeper, start="1")
    assert LocalCluster(tmp_path).state() is None
    assert LocalCluster(tmp_path).stop() is False
    assert sleeper.poll() is None


def test_a_dead_process_is_not_a_running_cluster(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    write_state(tmp_path, sleeper)
    sleeper.kill()
    # a zombie until it is waited for: already no broker
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert LocalCluster(tmp_path).state() is None


def test_a_broken_state_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text("{", encoding="utf-8")
    with pytest.raises(ClusterError, match=r"cluster\.json is not a state file"):
        LocalCluster(tmp_path).state()


def fake_java(directory: Path, says: str) -> None:
    directory.mkdir(exist_ok=True)
    java = directory / "java"
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n", encoding="utf-8")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)


def test_no_java_is_one_clear_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(ClusterError, match="there is no java on PATH: install Java 17 or newer"):
        LocalCluster(tmp_path / "data").start()


def test_an_old_java_is_named_with_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "bin", 'openjdk version "1.8.0_292"')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(ClusterError, match="is Java 8, too old"):
        LocalCluster(tmp_path / "data").start()


def test_a_taken_port_is_named_and_nothing_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "bin", 'openjdk version "21.0.1"')
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "kafka_2.13-0.jar").touch()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("HEADRACE_KAFKA_LIB", str(tmp_path / "jars"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ClusterError, match=f"port {port} on 127.0.0.1 is taken"):
            LocalCluster(tmp_path / "data", port=port).start()
    assert not (tmp_path / "data" / "cluster.json").exists()


def test_a_broker_that_ends_early_fails_with_the_end_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path / "bin", 'openjdk version "21.0.1" and then: no such class')
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "kafka_2.13-0.jar").touch()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("HEADRACE_KAFKA_LIB", str(tmp_path / "jars"))
    cluster = LocalCluster(tmp_path / "data")
    with pytest.raises(ClusterError, match="before it answered") as caught:
        cluster.start()
    assert "no such class" in str(caught.value)
    assert cluster.state() is None


def test_a_directory_without_jars_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_KAFKA_LIB", str(tmp_path))
    with pytest.raises(ClusterError, match="holds no kafka_"):
        jars_directory()


def test_without_maven_the_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADRACE_KAFKA_LIB", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterError, match="no mvn on PATH: install it"):
        jars_directory()
    assert not (tmp_path / "cache").exists()
