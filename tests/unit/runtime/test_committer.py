from __future__ import annotations

import ctypes
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError

from headrace import StreamsConfig
from headrace.errors import TaskCorruptedException
from headrace.kafka.native import function
from headrace.runtime.committer import Committer

if TYPE_CHECKING:
    from pathlib import Path

_make_fatal = function("rd_kafka_test_fatal_error", ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)


def _committer(path: Path) -> Committer:
    """One without transactions, and without a broker."""
    settings = {"application.id": "app", "bootstrap.servers": "127.0.0.1:1", "state.dir": str(path)}
    shared: Any = SimpleNamespace(
        config=StreamsConfig.load(settings),
        exactly_once=False,
        commit_interval_ms=100,
        task_timeout_ms=60_000,
        application_id="app",
        process_id="p",
    )
    membership: Any = None
    return Committer("thread", 1, shared, membership, lambda _: 1, lambda _: set(), lambda: None, threading.Event())


@pytest.mark.parametrize("code", [KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, KafkaError.INVALID_PRODUCER_EPOCH])
def test_a_plain_producer_that_lost_its_sequence_is_replaced(code: int, tmp_path: Path) -> None:
    """After an election that lost records the thread ended, or joined anew for ever, by the same error."""
    committer = _committer(tmp_path)
    broken = committer._producer
    client = ctypes.c_void_p.from_address(id(broken._client) + object.__basicsize__)
    _make_fatal(client, code, b"made up")
    with pytest.raises(TaskCorruptedException, match="Another producer goes on from what is committed") as caught:
        committer.serve()
    with pytest.raises(TaskCorruptedException):
        broken.send("out", 0, b"k", b"v")
    committer.give_up(caught.value)
    assert committer._producer is not broken
    committer.serve()
    usable = committer._producer
    committer.give_up(None)
    assert committer._producer is usable, "nothing is wrong with it"
    committer.close(clean=False)
