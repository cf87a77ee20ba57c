from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.config import Environment, StreamsConfig, parse_properties, read_properties_file
from headrace.errors import ConfigException

VECTORS = json.loads((Path(__file__).parents[3] / "conformance" / "vectors.json").read_text("utf-8"))
PRODUCT_BLOCK = """\
application.id=course-revenue
bootstrap.servers=kafka-1:9092,kafka-2:9092,kafka-3:9092
processing.guarantee=exactly_once_v2
commit.interval.ms=1000
num.standby.replicas=1
default.deserialization.exception.handler=org.apache.kafka.streams.errors.LogAndFailExceptionHandler
"""


@pytest.mark.parametrize("vector", VECTORS["properties"], ids=lambda v: repr(v["text"])[:40])
def test_text_is_read_as_java_reads_it(vector: dict[str, Any]) -> None:
    assert parse_properties(vector["text"]) == vector["parsed"]


@pytest.mark.parametrize("vector", VECTORS["properties_invalid"], ids=lambda v: repr(v["text"]))
def test_malformed_escapes_are_refused(vector: dict[str, Any]) -> None:
    with pytest.raises(ConfigException, match="four hexadecimal digits"):
        parse_properties(vector["text"])


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("\\\n# comment=1\na=1\n", {"a": "1"}),
        ("a=\\\n\\\n# no comment\n", {"a": "# no comment"}),
        ("a=1\\", {"a": "1"}),
        ("a\\", {"a": ""}),
        ("\\\n\\\n\n", {}),
        ("a=b\x0bc\x85d\n", {"a": "b\x0bc\x85d"}),
        ("a=\\u00E9\\u00e9", {"a": "éé"}),
        ("a \t = \t b", {"a": "b"}),
        ("a\\\\=b", {"a\\": "b"}),
        ("", {}),
    ],
)
def test_edges_of_the_format(text: str, parsed: dict[str, str]) -> None:
    assert parse_properties(text) == parsed


def test_error_names_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "app.properties"
    file.write_text("a=1\nb=\\\n  2\nc=\\u00g1\n")
    with pytest.raises(ConfigException, match=r"app\.properties, line 4: .* near key 'c'"):
        read_properties_file(file)
    with pytest.raises(ConfigException, match=r"Cannot read the configuration file .*missing\.properties"):
        read_properties_file(tmp_path / "missing.properties")


def test_files_are_latin_1_as_kafkas_tools_read_them(tmp_path: Path) -> None:
    file = tmp_path / "app.properties"
    file.write_bytes("my.name=caf\xe9\n".encode("latin-1"))
    assert read_properties_file(file) == {"my.name": "café"}
    file.write_text("my.name=café\n", "utf-8")
    assert read_properties_file(file, "utf-8") == {"my.name": "café"}


def test_product_block_loads_unmodified(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "course-revenue.properties"
    file.write_text(PRODUCT_BLOCK)
    config = StreamsConfig.from_properties(file)
    assert config.application_id == "course-revenue"
    assert config.bootstrap_servers == ("kafka-1:9092", "kafka-2:9092", "kafka-3:9092")
    assert config.exactly_once
    assert config.commit_interval_ms == 1000
    assert config["num.standby.replicas"] == 1
    assert config["deserialization.exception.handler"] == "headrace.api.handlers:LogAndFailExceptionHandler"
    assert [r.getMessage() for r in caplog.records] == []


def test_later_sources_win_key_by_key(tmp_path: Path) -> None:
    file = tmp_path / "app.properties"
    file.write_text("application.id=file\nbootstrap.servers=b:1\npoll.ms=1\nmax.task.idle.ms=1\n")
    environment = Environment(
        {"HEADRACE_POLL_MS": "2", "HEADRACE_MAX_TASK_IDLE_MS": "2", "PATH": "/bin", "HEADRACE_": "x"}
    )
    config = StreamsConfig.load(str(file), environment, {"max.task.idle.ms": 3})
    assert (config.application_id, config.poll_ms, config.max_task_idle_ms) == ("file", 2, 3)
    assert set(config.originals()) == {"application.id", "bootstrap.servers", "poll.ms", "max.task.idle.ms"}


def test_environment_names_are_unambiguous() -> None:
    found = Environment(
        {
            "HEADRACE_CONSUMER_MAX_POLL_RECORDS": "1",
            "HEADRACE_RACK_AWARE_ASSIGNMENT_TRAFFIC___COST": "2",
            "HEADRACE_MY__OWN_KEY": "3",
        }
    ).settings()
    assert found == {
        "consumer.max.poll.records": "1",
        "rack.aware.assignment.traffic_cost": "2",
        "my-own.key": "3",
    }
    with pytest.raises(ConfigException, match="HEADRACE_A____B has 4 underscores in a row"):
        Environment({"HEADRACE_A____B": "1"}).settings()
