"""What ``group.protocol`` chooses, and what the streams protocol refuses before anything runs."""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING

import pytest

from headrace import Consumed, KafkaStreams, Serdes, StreamsBuilder, StreamsConfig
from headrace.errors import TopologyException
from headrace.runtime.groups import ClassicGroup, StreamsGroup, group_protocol
from headrace.runtime.topics import BrokerMadeTopics

if TYPE_CHECKING:
    from pathlib import Path

TEXT = Serdes.String()


def settings(protocol: str, state_dir: Path) -> dict[str, str]:
    return {
        "application.id": "app",
        "bootstrap.servers": "localhost:1",
        "group.protocol": protocol,
        "state.dir": str(state_dir),
    }


def test_the_setting_chooses(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed.with_(TEXT, TEXT)).to("out")
    built = builder.build().build("app")
    process = uuid.uuid4()
    assert isinstance(group_protocol(StreamsConfig.load(settings("classic", tmp_path)), built, process), ClassicGroup)
    streams = group_protocol(StreamsConfig.load(settings("Streams", tmp_path)), built, process)
    assert isinstance(streams, StreamsGroup)
    assert isinstance(streams.topics, BrokerMadeTopics)


def test_patterns_of_topics_are_refused_before_anything_starts(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    builder.stream(re.compile("in-.*"), Consumed.with_(TEXT, TEXT)).to("out")
    with pytest.raises(TopologyException, match=r"pattern in-\.\*.*group\.protocol=classic"):
        KafkaStreams(builder.build(), settings("streams", tmp_path))
    KafkaStreams(builder.build(), settings("classic", tmp_path)).close()
