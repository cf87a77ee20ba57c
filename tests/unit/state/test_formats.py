"""The bytes of rows and of changelog keys are Java's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from unit.state.harness import store_context

from headrace.api.engine import RecordContext
from headrace.api.windows import SessionWindow, Windowed
from headrace.errors import SerializationException
from headrace.serdes import Serdes
from headrace.state import Stores
from headrace.state.formats import DSL_HEADERS, DSL_SESSION_HEADERS, HEADERS, PLAIN, SESSION_HEADERS, TIMESTAMPED

if TYPE_CHECKING:
    from headrace.records import Headers
    from headrace.state.formats import RowFormat

FORMATS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[3] / "conformance" / "vectors.json").read_text("utf-8")
)["formats"]


def vectors(begin: str) -> list[dict[str, Any]]:
    found = [vector for vector in FORMATS if vector["format"].startswith(begin)]
    assert found
    return found


def value_of(vector: dict[str, Any]) -> bytes:
    if "value_long" in vector:
        return int(vector["value_long"]).to_bytes(8, "big", signed=True)
    return str(vector["value_string"]).encode()


@pytest.mark.parametrize("vector", vectors("value and timestamp"), ids=lambda v: v["hex"])
def test_timestamped_rows(vector: dict[str, Any]) -> None:
    row = TIMESTAMPED.join(value_of(vector), vector["timestamp"], None)
    assert row is not None
    assert row.hex() == vector["hex"]
    assert TIMESTAMPED.split(row) == (value_of(vector), vector["timestamp"], None)


def test_rows_with_headers() -> None:
    none, two = vectors("value, timestamp and headers")
    headers: Headers = [("h", b"\x01\x02"), ("n", None)]
    for vector, given, found in ((none, None, None), (none, [], None), (two, headers, headers)):
        row = HEADERS.join(b"x", 7, given)
        assert row is not None
        assert row.hex() == vector["hex"]
        assert HEADERS.split(row) == (b"x", 7, found)
    assert SESSION_HEADERS.join(b"x", 7, headers) == bytes.fromhex(two["hex"][:20]) + b"x"
    assert SESSION_HEADERS.split(b"\x00x") == (b"x", -1, None)


@pytest.mark.parametrize(
    ("row_format", "logged", "logged_deletion", "shown"),
    [
        (PLAIN, False, False, True),
        (TIMESTAMPED, False, False, True),
        (HEADERS, True, True, True),
        (SESSION_HEADERS, True, True, True),
        (DSL_HEADERS, False, True, True),
        (DSL_SESSION_HEADERS, False, True, False),
    ],
)
def test_which_headers_leave_a_store(row_format: RowFormat, logged: bool, logged_deletion: bool, shown: bool) -> None:
    headers: Headers = [("h", b"1")]
    assert row_format.logged(b"v", headers) == (headers if logged else None)
    assert row_format.logged(None, headers) == (headers if logged_deletion else None)
    assert row_format.shown(headers) == (headers if shown else None)
    assert row_format.join(None, 1, headers) is None


def test_the_dsl_leaves_the_room_for_headers_empty() -> None:
    assert DSL_HEADERS.join(b"x", 7, [("h", b"1")]) == HEADERS.join(b"x", 7, None)


def test_a_row_that_is_cut_off_says_so() -> None:
    with pytest.raises(SerializationException, match="size of a row's headers is cut off"):
        HEADERS.split(b"\x80")


def logged_keys(builder: Any, write: Any) -> list[str]:
    log: list[bytes] = []
    context = store_context(
        RecordContext(), lambda key, value, timestamp, headers: log.append(key), None, lambda reason: None
    )
    store = builder.build(context)
    write(store)
    return [key.hex() for key in log]


@pytest.mark.parametrize("time_first", [False, True])
def test_window_changelog_keys(time_first: bool) -> None:
    supplier = Stores.in_memory_window_store("s", 10_000, 10, retain_duplicates=True)
    builder = Stores.window_store_builder(supplier, Serdes.Bytes(), Serdes.String())
    object.__setattr__(supplier, "time_first", time_first)
    keys = logged_keys(builder, lambda store: [store.put(b"key", "v", 1000) for _ in range(7)])
    wanted = {vector["seqnum"]: vector["hex"] for vector in vectors("window store key")}
    assert len(keys) == 7
    assert keys[6] == wanted[7]


def test_session_changelog_keys() -> None:
    builder = Stores.session_store_builder(Stores.in_memory_session_store("s", 10_000), Serdes.Bytes(), Serdes.String())
    keys = logged_keys(builder, lambda store: store.put(Windowed(b"key", SessionWindow(1000, 2500)), "v"))
    assert keys == [vector["hex"] for vector in vectors("session store key")]
