"""Tables whose rows change while something made of them is on its way or in a cache: the last results are right."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from unit.engine.harness import Bench

from headrace import Consumed, Grouped, Materialized, Produced, Serdes, SessionWindows, StreamsBuilder, TimeWindows
from headrace.records import TaskId
from headrace.serdes.foreign_key import Instruction
from headrace.testing import TopologyTestDriver

if TYPE_CHECKING:
    from pathlib import Path

    from headrace import KGroupedStream, KTable

TEXT = Serdes.String()
TEXTS = Consumed.with_(TEXT, TEXT)
CONFIG: dict[str, Any] = {
    "default.key.serde": TEXT,
    "default.value.serde": TEXT,
    "processing.guarantee": "exactly_once_v2",
}
KEPT: Materialized[Any, Any] = Materialized.with_(TEXT, TEXT)
UNCACHED = KEPT.with_caching_disabled()


def joined(one: str | None, other: str | None) -> str:
    return f"{one}+{other}"


def results(builder: StreamsBuilder, *steps: tuple[str, str, str | None] | str) -> list[tuple[Any, Any]]:
    """What ``out`` gets of records and commits; exactly-once, so what a sub-topology writes needs a commit to go on."""
    with TopologyTestDriver(builder.build(), CONFIG, 0, partitions=1, commit_every_record=False) as driver:
        for step in steps:
            if isinstance(step, str):
                for _ in range(8):
                    driver.commit()
            else:
                topic, key, value = step
                driver.create_input_topic(topic, TEXT.serializer, TEXT.serializer, 1).pipe_input(key, value)
        for _ in range(8):
            driver.commit()
        return driver.create_output_topic("out", TEXT.deserializer, TEXT.deserializer).read_key_values_to_list()


@pytest.mark.parametrize(
    "changes",
    [
        # the product is gone, and the order changes before it has heard of that
        [("products", "a", None), ("orders", "o", "a2")],
        [("orders", "o", "a2"), ("products", "a", None)],
        # made anew, for a product that was never there, before the end of the former one is known
        [("orders", "o", None), ("orders", "o", "c3")],
        [("orders", "o", None), ("orders", "o", "a2"), ("products", "a", None)],
        # for no product any more, and then changed once more
        [("orders", "o", "-"), ("orders", "o", "-2")],
        [("orders", "o", "-"), ("orders", "o", "c3")],
    ],
)
def test_a_result_of_a_foreign_key_join_does_not_outlive_rows_that_change_while_an_answer_is_on_its_way(
    changes: list[tuple[str, str, str | None]],
) -> None:
    builder = StreamsBuilder()
    orders: KTable[str, str] = builder.table("orders", TEXTS, UNCACHED)
    products: KTable[str, str] = builder.table("products", TEXTS, UNCACHED)
    result = orders.join(
        products, joined, KEPT, foreign_key_extractor=lambda order: None if order[0] == "-" else order[0]
    )
    result.to_stream().to("out", Produced.with_(TEXT, TEXT))
    found = results(builder, ("products", "a", "A"), ("orders", "o", "a1"), "commit", *changes)
    assert (found[0], found[-1]) == (("o", "a1+A"), ("o", None))


@pytest.mark.parametrize("last", ["c4", None])
def test_what_a_cache_holds_back_of_an_order_is_not_asked_for(last: str | None, tmp_path: Path) -> None:
    """Nobody would take that back when it is replaced: the question waits for the commit and is of what went out."""
    builder = StreamsBuilder()
    orders: KTable[str, str] = builder.table("orders", TEXTS, KEPT.with_caching_enabled())
    products: KTable[str, str] = builder.table("products", TEXTS, UNCACHED)
    result = orders.join(products, joined, KEPT, foreign_key_extractor=lambda order: order[0])
    result.to_stream().to("out", Produced.with_(TEXT, TEXT))
    topology = builder.build()
    of_orders = next(sub for sub in topology.build("app").subtopologies if "orders" in sub.source_topics)
    (answers,) = (topic for topic in of_orders.source_topics if "RESPONSE" in topic)
    (questions,) = (topic for topic in of_orders.sink_topics if "REGISTRATION" in topic)
    bench = Bench(topology, tmp_path, task_id=TaskId(of_orders.id, 0), cache_bytes=1 << 20)

    def changes(*values: str | None) -> None:
        for value in values:
            bench.add("orders", ("o", value, 1))
            bench.process()

    changes("a1")
    bench.commit()
    changes(None)
    bench.commit()
    before = len(bench.collector.sent)
    changes("c3")
    # that there is nothing for the deleted order: an answer to a former value by now
    bench.add(answers, ("o", b"\x80", 1))
    bench.process()
    changes(None, *([] if last is None else [last]))
    bench.commit()
    sent = [(topic, key, value) for topic, _, key, value, *_ in bench.collector.sent[before:]]
    if last is None:
        assert sent == [("out", b"o", None)]
    else:
        assert [(topic, key) for topic, key, _ in sent] == [(questions, b"c")] * 2
        # the second one is answered in any case
        assert [Instruction(value[1]) for _, _, value in sent] == [
            Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE,
            Instruction.PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE,
        ]


def test_a_changed_order_of_a_product_that_is_there_keeps_its_result() -> None:
    builder = StreamsBuilder()
    orders: KTable[str, str] = builder.table("orders", TEXTS, UNCACHED)
    products: KTable[str, str] = builder.table("products", TEXTS, UNCACHED)
    result = orders.join(products, joined, KEPT, foreign_key_extractor=lambda order: order[0])
    result.to_stream().to("out", Produced.with_(TEXT, TEXT))
    steps = [("products", "a", None), ("orders", "o", "b2"), ("products", "b", "B")]
    found = results(builder, ("products", "a", "A"), ("orders", "o", "a1"), "commit", *steps)
    assert found[-1] == ("o", "b2+B")


@pytest.mark.parametrize(("how", "last"), [("join", None), ("left_join", "l+None"), ("outer_join", "l+None")])
def test_what_was_joined_with_a_row_that_came_and_went_between_two_commits_is_taken_back(
    how: str, last: str | None
) -> None:
    builder = StreamsBuilder()
    left: KTable[str, str] = builder.table("left", TEXTS, UNCACHED)
    right: KTable[str, str] = builder.table("right", TEXTS, KEPT.with_caching_enabled())
    # also where the rows are computed from those of a store
    getattr(left, how)(right.map_values(str), joined).to_stream().to("out", Produced.with_(TEXT, TEXT))
    found = results(builder, ("right", "k", "r"), ("left", "k", "l"), ("right", "k", None))
    assert found == [("k", "l+r"), ("k", last)]


def test_a_row_that_came_and_went_unseen_is_not_told_of() -> None:
    builder = StreamsBuilder()
    left: KTable[str, str] = builder.table("left", TEXTS, UNCACHED)
    right: KTable[str, str] = builder.table("right", TEXTS, KEPT.with_caching_enabled())
    left.outer_join(right, joined).to_stream().to("out", Produced.with_(TEXT, TEXT))
    assert results(builder, ("right", "k", "r"), ("right", "k", None)) == []


@pytest.mark.parametrize("by", ["time", "session"])
def test_what_was_joined_with_a_window_that_came_and_went_between_two_commits_is_taken_back(by: str) -> None:
    def windowed(grouped: KGroupedStream[str, str], store: Materialized[Any, Any]) -> KTable[Any, str]:
        # the reducer forgets the window at a minus sign
        ten = timedelta(seconds=10)
        if by == "time":
            return grouped.windowed_by(TimeWindows.of_size_with_no_grace(ten)).reduce(_unless_minus, store)
        return grouped.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(ten)).reduce(_unless_minus, store)

    builder = StreamsBuilder()
    left = windowed(builder.stream("left", TEXTS).group_by_key(Grouped.with_(TEXT, TEXT)), UNCACHED)
    right = windowed(
        builder.stream("right", TEXTS).group_by_key(Grouped.with_(TEXT, TEXT)), KEPT.with_caching_enabled()
    )
    pairs: KTable[Any, str] = left.left_join(right, joined)
    pairs.to_stream(lambda key, value: key.key).to("out", Produced.with_(TEXT, TEXT))
    found = results(builder, ("right", "k", "r"), ("left", "k", "l"), ("right", "k", "-"))
    assert (found[0], found[-1]) == (("k", "l+r"), ("k", "l+None"))


def _unless_minus(so_far: str, value: str) -> str | None:
    return None if value == "-" else so_far
