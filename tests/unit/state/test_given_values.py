"""Values that were given to a cached store never come back changed by their owner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest
from unit.state.harness import make_body, make_world, timestamped

from headrace.serdes import JsonSerde

if TYPE_CHECKING:
    from pathlib import Path


class Numbers(msgspec.Struct, frozen=True):
    numbers: tuple[int, ...]


def test_a_list_given_for_a_tuple_is_not_handed_out_again(tmp_path: Path) -> None:
    store = timestamped(make_world(make_body("memory", tmp_path), cache_bytes=1 << 20), JsonSerde(Numbers))
    given = [1, 2]
    store.put_pair("k", Numbers(cast("Any", given)), 5, None)
    given.append(3)
    pair = store.get_pair("k")
    assert pair is not None
    assert pair[0] == Numbers((1, 2))


@pytest.mark.parametrize("row", ["vw", ("v",), ("v", 1.5), ("v", None), ("v", 2**63), ["v", 1]])
def test_a_row_that_is_no_value_with_its_time_is_refused_at_once(row: Any, tmp_path: Path) -> None:
    store = timestamped(make_world(make_body("memory", tmp_path), cache_bytes=1 << 20))
    with pytest.raises((TypeError, ValueError), match="store "):
        store.put("k", row)
    assert store.get("k") is None
    store.flush()
