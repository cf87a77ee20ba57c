from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
from unit.state.harness import store_context

from headrace.api.engine import RecordContext
from headrace.serdes import Serdes
from headrace.state import Stores, ValueAndTimestamp

if TYPE_CHECKING:
    from headrace.records import Headers

STRING = Serdes.String()


def opened(most: int, *, timestamped: bool) -> tuple[Any, list[Any]]:
    log: list[Any] = []

    def write(key: bytes, value: bytes | None, timestamp: int | None, headers: Headers | None) -> None:
        log.append((0, timestamp, key, value, headers))

    make = Stores.timestamped_key_value_store_builder if timestamped else Stores.key_value_store_builder
    builder = make(Stores.lru_map("s", most), STRING, STRING)
    return builder.build(store_context(RecordContext(), write, None, lambda reason: None)), log


def test_the_changelog_hears_of_what_a_plain_store_forgot() -> None:
    store, log = opened(2, timestamped=False)
    for key in "abc":
        store.put(key, key)
    assert [(row[2], row[3]) for row in log] == [(b"a", b"a"), (b"b", b"b"), (b"a", None), (b"c", b"c")]
    again, _ = opened(2, timestamped=False)
    again.restore(log, 4)
    assert list(again.all()) == [("b", "b"), ("c", "c")]


def test_a_timestamped_store_forgets_in_silence_and_so_does_its_restore() -> None:
    store, log = opened(2, timestamped=True)
    for key in "abc":
        store.put(key, ValueAndTimestamp(key, 1))
    assert [row[2] for row in log] == [b"a", b"b", b"c"]
    again, _ = opened(2, timestamped=True)
    again.restore(log, 3)
    assert [key for key, _ in again.all()] == ["b", "c"]


OPS = st.lists(st.tuples(st.sampled_from(["put", "get", "delete", "commit", "drop"]), st.sampled_from("abcde")))


@given(OPS, st.integers(0, 3))
def test_against_an_ordered_dict(ops: list[tuple[str, str]], most: int) -> None:
    store, log = opened(most, timestamped=False)
    model: OrderedDict[str, str] = OrderedDict()
    for number, (op, key) in enumerate(ops):
        if op == "put":
            store.put(key, str(number))
            model[key] = str(number)
            model.move_to_end(key)
            if len(model) > most:
                model.popitem(last=False)
        elif op == "get":
            assert store.get(key) == model.get(key)
            if key in model:
                model.move_to_end(key)
        elif op == "delete":
            assert store.delete(key) == model.pop(key, None)
        elif op == "commit":
            store.seal()
            store.rows.apply(len(log))
        else:
            continue
        assert dict(store.all()) == dict(model)
        assert len(model) <= most
    store.drop_uncommitted()
    assert len(dict(store.all())) <= most
