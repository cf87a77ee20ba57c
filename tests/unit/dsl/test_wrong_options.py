"""An option in the place of another is refused where it is given, with what is expected there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace import (
    BufferConfig,
    Consumed,
    JoinWindows,
    KStream,
    KTable,
    Materialized,
    Named,
    Processor,
    Record,
    Serdes,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
)
from headrace.testing import TopologyTestDriver

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT: Any = Serdes.String()
NAMED: Any = Named.as_("x")
STORE: Any = Materialized.as_("x")
WINDOWS: Any = TimeWindows.of_size_with_no_grace(1)
JOIN_WINDOWS: Any = JoinWindows.of_time_difference_with_no_grace(1)
BUFFER: Any = BufferConfig.unbounded()


class Drop(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None: ...


DROP: Any = Drop()

WRONG: dict[str, Callable[[KStream[str, str], KTable[str, str]], object]] = {
    "a Named is expected here, not Materialized": lambda s, t: s.map_values(str, STORE),
    "a Materialized is expected here, not Named": lambda s, t: s.group_by_key().count(NAMED),
    "a Materialized is expected here, not 'counts'": lambda s, t: s.group_by_key().count("counts"),  # type: ignore[arg-type]
    "a Produced is expected here, not": lambda s, t: s.to("out", TEXT),
    "a Grouped is expected here, not": lambda s, t: s.group_by_key(TEXT),
    "a Joined is expected here, not Named": lambda s, t: s.join(t, max, NAMED),
    "a JoinWindows is expected here, not TimeWindows": lambda s, t: s.join(s, max, WINDOWS),
    "windowed_by takes time, sliding, unlimited or session windows, not JoinWindows": (
        lambda s, t: s.group_by_key().windowed_by(JOIN_WINDOWS)
    ),
    "a Materialized is expected here, not String": lambda s, t: t.filter(lambda k, v: True, TEXT),
    "a Printed is expected here, not 'label'": lambda s, t: s.print("label"),  # type: ignore[arg-type]
    "a Suppressed is expected here, not StrictBufferConfig": lambda s, t: t.suppress(BUFFER),
    "the supplier of processor KSTREAM-PROCESSOR-0000000004 is a Drop, which cannot be called": (
        lambda s, t: s.process(DROP)
    ),
    "to_stream takes a function first, and a name as named=, not Named": lambda s, t: t.to_stream(NAMED),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_option(message: str) -> None:
    builder = StreamsBuilder()
    stream, table = builder.stream("s", Consumed.with_(TEXT, TEXT)), builder.table("t", Consumed.with_(TEXT, TEXT))
    with pytest.raises(TypeError, match=f"^{message}"):
        WRONG[message](stream, table)


def test_serde_for_consumed() -> None:
    with pytest.raises(TypeError, match=r"^a Consumed is expected here, not"):
        StreamsBuilder().stream("s", TEXT)


def test_serde_for_a_serializer_of_a_test_topic() -> None:
    builder = StreamsBuilder()
    builder.stream("s", Consumed.with_(TEXT, TEXT)).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        with pytest.raises(TypeError, match=r"^a serializer is expected here, not StringSerde\(\): give its .serial"):
            driver.create_input_topic("s", TEXT, TEXT.serializer)
        with pytest.raises(TypeError, match=r"^a deserializer is expected here, not StringSerde"):
            driver.create_output_topic("out", TEXT.deserializer, TEXT)


def test_a_join_that_lacks_an_argument_names_it_and_the_method_that_was_called() -> None:
    builder = StreamsBuilder()
    stream: Any = builder.stream("in")
    joiner = lambda one, other: (one, other)  # noqa: E731
    with pytest.raises(TypeError, match=r"^KStream\.join\(\) with a KStream: missing a required argument: 'windows'$"):
        stream.join(builder.stream("other"), joiner)
    table: Any = builder.global_table("table")
    with pytest.raises(TypeError, match=r"^KStream\.left_join\(\) with a GlobalKTable: missing .* 'key_selector'$"):
        stream.left_join(table, joiner=joiner)
    with pytest.raises(TypeError, match=r"^KStream\.join\(\) with a KTable: got an unexpected .* 'windows'$"):
        stream.join(builder.table("rows"), joiner, windows=None)


NEEDS: dict[str, Callable[[KStream[str, str]], object]] = {
    "time": lambda s: s.group_by_key().windowed_by(TimeWindows.of_size_and_grace(1, 2**63 - 1)).count(),
    "sliding": lambda s: s.group_by_key().windowed_by(SlidingWindows.of_time_difference_with_no_grace(2**62)).count(),
    "session": lambda s: s.group_by_key().windowed_by(SessionWindows.of_inactivity_gap_and_grace(1, 2**63 - 1)).count(),
    "join": lambda s: s.join(s, max, JoinWindows.of_time_difference_and_grace(1, 2**63 - 1)),
}


@pytest.mark.parametrize("windows", NEEDS)
def test_windows_that_need_their_rows_for_longer_than_64_bits_hold(windows: str) -> None:
    builder = StreamsBuilder()
    NEEDS[windows](builder.stream("s", Consumed.with_(TEXT, TEXT)))
    with pytest.raises(ValueError, match=r"does not fit into 64 bits: give them a shorter grace period or size"):
        builder.build()
