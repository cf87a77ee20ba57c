"""An option in the place of another is refused where it is given, with what is expected there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace import (
    BufferConfig,
    Consumed,
    Grouped,
    JoinWindows,
    KafkaStreams,
    KStream,
    KTable,
    Materialized,
    Named,
    Processor,
    Produced,
    Record,
    Serdes,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamJoined,
    StreamsBuilder,
    TimeWindows,
)
from headrace.errors import TopologyException
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


NO_SERDE: dict[str, Callable[[Any, Any], object]] = {
    r"<function Serdes.String at .*>: call it": lambda make, half: Consumed.with_(TEXT, make),
    r"<.*StringSerializer object at .*>: give both halves": lambda make, half: Produced.with_(half, TEXT),
    r"'counts': give both halves": lambda make, half: Materialized.with_("counts"),  # type: ignore[arg-type]
    r"<function .*: call it": lambda make, half: StreamJoined.with_(TEXT, TEXT, make),
    r"<function S.*: call it": lambda make, half: Grouped.as_("g").with_key_serde(make),
    r"<function Serdes.*: call it": (
        lambda make, half: Stores.key_value_store_builder(Stores.in_memory_key_value_store("s"), make, TEXT)
    ),
}


@pytest.mark.parametrize("message", NO_SERDE)
def test_the_class_or_one_half_of_a_serde_in_its_place(message: str) -> None:
    with pytest.raises(TypeError, match=f"^a serde is expected here, not {message}"):
        NO_SERDE[message](Serdes.String, TEXT.serializer)


def test_a_name_or_a_supplier_for_the_builder_of_a_store() -> None:
    name: Any = "counts"
    with pytest.raises(TypeError, match=r"^a StoreSupplier is expected here, not 'counts'"):
        Stores.window_store_builder(name, TEXT, TEXT)
    supplier: Any = Stores.in_memory_key_value_store("counts")
    with pytest.raises(TypeError, match=r"^a StoreBuilder is expected here, not KeyValueSupplier"):
        StreamsBuilder().add_state_store(supplier)


def test_a_text_for_a_reset_policy() -> None:
    reset: Any = "earliest"
    with pytest.raises(TypeError, match=r"^an AutoOffsetReset is expected here, not 'earliest'"):
        Consumed.with_(TEXT, TEXT).with_offset_reset_policy(reset)


def test_a_text_for_an_error_policy() -> None:
    policy: Any = "resume"
    with pytest.raises(TypeError, match=r"^an ErrorPolicy is expected"), StreamsBuilder().on_error(policy):
        pass


def test_a_supplier_that_makes_no_processor() -> None:
    supplier: Any = lambda: 1  # noqa: E731
    with pytest.raises(TypeError, match=r"KSTREAM-PROCESSOR-0000000001 gave 1, which has no method process"):
        StreamsBuilder().stream("in").process(supplier)


def test_the_builder_for_its_topology() -> None:
    builder: Any = StreamsBuilder()
    with pytest.raises(TypeError, match=r"a Topology is expected here, not a StreamsBuilder: .*build\(\)"):
        TopologyTestDriver(builder)
    with pytest.raises(TypeError, match=r"a Topology is expected here, not a StreamsBuilder"):
        KafkaStreams(builder, {"application.id": "app", "bootstrap.servers": "localhost:9092"})


@pytest.mark.parametrize("together", ["merge", "join", "table", "tables", "foreign key", "cogroup"])
def test_handles_of_two_builders_do_not_come_together(together: str) -> None:
    mine, other = StreamsBuilder(), StreamsBuilder()
    how = Consumed.with_(TEXT, TEXT)
    stream, table = mine.stream("s", how), mine.table("t", how)
    calls: dict[str, Callable[[], object]] = {
        "merge": lambda: stream.merge(other.stream("o", how)),
        "join": lambda: stream.join(other.stream("o", how), max, JOIN_WINDOWS),
        "table": lambda: stream.join(other.table("o", how), max),
        "tables": lambda: table.outer_join(other.table("o", how), lambda one, two: one or two),
        "foreign key": lambda: table.join(other.table("o", how), max, foreign_key_extractor=str),
        "cogroup": lambda: (
            stream.group_by_key()
            .cogroup(lambda key, value, sum_: value)
            .cogroup(other.stream("o", how).group_by_key(), lambda key, value, sum_: value)
        ),
    }
    with pytest.raises(TopologyException, match=r"come from two StreamsBuilders"):
        calls[together]()


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
