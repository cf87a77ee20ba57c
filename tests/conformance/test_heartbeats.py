"""What members of a streams group tell the brokers of a topology is what the Java library tells them, list by list.

``heartbeats.jsonl.xz`` holds what it sends for every case that has topics to agree in partitions; it is made by
``interop/java/golden/heartbeats.sh``.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from headrace.config import StreamsConfig
from headrace.errors import TopologyException
from headrace.kafka.streams_protocol import (
    Heartbeat,
    MemberDescription,
    StreamsGroupHeartbeatRequest,
    heartbeat_request,
)
from headrace.testing.conformance.runner import case_config
from headrace.testing.conformance.steps import Steps
from headrace.topology.group import group_topology

HERE = Path(__file__).parent
CASES = HERE.parents[1] / "conformance" / "cases"
LINES = lzma.decompress((HERE / "heartbeats.jsonl.xz").read_bytes()).decode("utf-8").splitlines()
RECORDED: list[dict[str, Any]] = [json.loads(line) for line in LINES]


@pytest.mark.parametrize("at", range(len(RECORDED)), ids=[entry["name"] for entry in RECORDED])
def test_the_topology_in_the_heartbeat_is_javas(at: int) -> None:
    wanted = RECORDED[at]
    case = json.loads((CASES / f"{wanted['name']}.json").read_text(encoding="utf-8"))
    settings = case_config(case)
    config = StreamsConfig.load(settings)
    built = (
        Steps(settings, at_construction=case.get("topology_config", False))
        .build(case["steps"])
        .build("golden", config.topic_config(), config["windowstore.changelog.additional.retention.ms"])
    )
    if "error" in wanted:  # Java cannot run these in a streams group either
        with pytest.raises(TopologyException, match="different sub-topologies"):
            group_topology(built, config["replication.factor"])
        return
    member = MemberDescription("golden", None, "p", 300_000, group_topology(built, config["replication.factor"]))
    sent = heartbeat_request(member, Heartbeat("m", 0)).encode(version=1)
    topology = StreamsGroupHeartbeatRequest.decode(bytes(sent), version=1).topology
    assert [_json(sub) for sub in topology.subtopologies] == wanted["subtopologies"]


def _json(part: Any) -> Any:
    if hasattr(part, "fields"):
        return {_camel(name): _json(getattr(part, name)) for name in part.fields}
    return [_json(item) for item in part] if hasattr(part, "append") else part


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
