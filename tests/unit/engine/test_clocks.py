"""What waits, or is not to happen too often, goes by a clock that never jumps: the wall clock may, by hours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from unit.engine.harness import TEXT, Bench
from unit.engine.test_unready import AWAY, Register, reading, waits_for

from headrace.api.joins import JoinWindows
from headrace.api.options import Consumed, Materialized
from headrace.api.windows import EmitStrategy, TimeWindows
from headrace.dsl import StreamsBuilder

if TYPE_CHECKING:
    from pathlib import Path

HOUR_MS = 3_600_000
AS_TEXT = Consumed.with_(TEXT, TEXT)

jumps = pytest.mark.parametrize("jump_ms", [-HOUR_MS, HOUR_MS])


@jumps
def test_a_partition_is_waited_for_as_long_as_is_configured(jump_ms: int) -> None:
    """The task stood still for the hour by which the clock was put back."""
    builder = StreamsBuilder()
    builder.stream(("a", "b"), AS_TEXT).to("out")
    bench = Bench(builder.build(), max_task_idle_ms=100)
    bench.add_values("a", ("a", 1))
    assert bench.process() == 0
    bench.jumped_ms = jump_ms
    bench.now += 99
    assert bench.process() == 0
    bench.now += 1
    assert bench.process() == 1


@jumps
def test_a_serde_that_has_to_wait_asks_again_after_its_pause_and_for_as_long_as_it_may(jump_ms: int) -> None:
    """Ahead, ``task.timeout.ms`` was over at once; back, it was not asked again for an hour."""
    register = Register()
    register.error = AWAY
    bench = Bench(reading(register))
    bench.add_values("in", ("?a", 1))
    assert bench.process() == 0
    bench.jumped_ms = jump_ms
    bench.now += 100
    assert bench.process() == 0
    assert (register.asked, waits_for(bench)) == (2, AWAY)
    register.error = None
    bench.now += 200
    assert bench.process() == 1


def _closed_windows(builder: StreamsBuilder) -> Any:
    windows = TimeWindows.of_size_with_no_grace(10)
    grouped = builder.stream("a", AS_TEXT).group_by_key().windowed_by(windows)
    final = grouped.emit_strategy(EmitStrategy.on_window_close()).count(
        Materialized.as_("counts").with_retention(1_000)
    )
    return final.to_stream(lambda window, _: window.key).map_values(str)


def _unmatched(builder: StreamsBuilder) -> Any:
    left, right = builder.stream("a", AS_TEXT), builder.stream("b", AS_TEXT)
    windows = JoinWindows.of_time_difference_with_no_grace(10)
    return left.left_join(right, lambda value, other: f"{value}, {other}", windows)


@jumps
@pytest.mark.parametrize(
    ("results", "found"),
    [(_closed_windows, ["1", "1"]), (_unmatched, ["first, None", "second, None"])],
    ids=["windows", "join"],
)
def test_results_that_come_late_are_looked_for_once_a_second(
    jump_ms: int, results: Any, found: list[str], tmp_path: Path
) -> None:
    """No final result, and no record without a match, came for the hour by which the clock was put back."""
    builder = StreamsBuilder()
    results(builder).to("out")
    bench = Bench(builder.build(), tmp_path)
    bench.add_values("a", ("first", 1), ("second", 15))
    bench.process()
    bench.jumped_ms = jump_ms
    bench.now += 1_000
    bench.add_values("a", ("third", 40))
    bench.process()
    assert bench.collector.values() == found
    bench.task.close()
