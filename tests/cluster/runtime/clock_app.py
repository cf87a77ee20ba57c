"""The counting application, which also says what its wall clock tells it to once an hour."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING

from cluster.runtime.counting import count_by_key

from headrace import Consumed, Processor, PunctuationType, Serdes, StreamsBuilder

if TYPE_CHECKING:
    from headrace import ProcessorContext, Record, StreamsConfig, Topology


_saying = threading.Lock()
"""``print`` writes a line's end by itself: two threads' lines would come as one."""


class Hourly(Processor[str, str, str, str]):
    """Says each time, and passes on nothing."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        super().init(context)
        context.schedule(timedelta(hours=1), PunctuationType.WALL_CLOCK_TIME, self._tick)

    def process(self, record: Record[str, str]) -> None:
        pass

    def _tick(self, timestamp: int) -> None:
        with _saying:
            print(f"task {self.context.task_id} punctuates at {timestamp}", flush=True)


def build(config: StreamsConfig) -> Topology:
    text = Serdes.String()
    builder = StreamsBuilder()
    records = builder.stream(str(config.get("test.input")), Consumed.with_(text, text))
    records.process(Hourly)
    count_by_key(records, str(config.get("test.output")))
    return builder.build()
