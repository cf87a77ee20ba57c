"""One instance of a counting application, as a process.

On its standard output it says what it logs and what happens to its state.

A line is a JSON object: ``{"event": …, "at": wall-clock seconds, …}``.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

from cluster.runtime.counting import counting

from headrace import KafkaStreams, StandbyUpdateListener, StateRestoreListener

if TYPE_CHECKING:
    from headrace import SuspendReason
    from headrace.records import TaskId, TopicPartition


_saying = threading.Lock()


def say(event: str, **facts: object) -> None:
    # print writes a line's end by itself: two threads' lines would come as one
    with _saying:
        print(json.dumps({"event": event, "at": time.time(), **facts}), flush=True)


class Log(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say("log", text=record.getMessage())


class Restores(StateRestoreListener):
    def on_restore_end(self, topic_partition: TopicPartition, store_name: str, total_restored: int) -> None:
        say("restored", partition=topic_partition.partition, count=total_restored)


class Copies(StandbyUpdateListener):
    def on_batch_loaded(
        self,
        topic_partition: TopicPartition,
        store_name: str,
        task_id: TaskId,
        batch_end_offset: int,
        batch_size: int,
        current_end_offset: int,
    ) -> None:
        say("followed", partition=topic_partition.partition, count=batch_size)

    def on_update_suspended(
        self,
        topic_partition: TopicPartition,
        store_name: str,
        store_offset: int,
        current_end_offset: int,
        reason: SuspendReason,
    ) -> None:
        say(reason.value, partition=topic_partition.partition)


def main() -> None:
    logging.basicConfig(level=logging.INFO, handlers=[Log()])
    settings = json.loads(sys.argv[1])
    streams = KafkaStreams(counting(settings.pop("in"), settings.pop("out")), settings)
    streams.set_global_state_restore_listener(Restores())
    streams.set_standby_update_listener(Copies())
    streams.set_state_listener(lambda new, _: say("state", state=new.value))
    signal.signal(signal.SIGTERM, lambda *_: streams.close())
    streams.start()
    streams.wait()


if __name__ == "__main__":
    main()
