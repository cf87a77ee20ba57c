"""The buffer of suppressed changes: order, sizes, changelog, restore of every version, failed commits."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest
from unit.state.harness import make_world

from headrace.errors import ProcessorStateException
from headrace.serdes import Serdes
from headrace.state.buffered import Buffered, decode_buffered
from headrace.state.formats import HEADERS, PLAIN
from headrace.state.memory import InMemoryBody
from headrace.state.suppress import SuppressBuffer

if TYPE_CHECKING:
    from unit.state.harness import World

    from headrace.records import Headers
    from headrace.state.formats import RowFormat

Emitted = list[tuple[str, "str | None", "str | None", int]]


def _buffer(row_format: RowFormat = PLAIN, world: World | None = None) -> tuple[World, SuppressBuffer[str, str]]:
    world = world or make_world(InMemoryBody())
    text = Serdes.String()
    return world, SuppressBuffer(world.rows, text, text, row_format, world.context)


def _all(buffer: SuppressBuffer[str, str]) -> Emitted:
    emitted: Emitted = []
    buffer.evict_beyond(0, 0, lambda key, change: emitted.append(_shown(buffer, key, change)))
    return emitted


def _shown(buffer: SuppressBuffer[str, str], key: str, change: Buffered) -> tuple[str, str | None, str | None, int]:
    return key, buffer.value(change.new), buffer.value(change.old), change.timestamp


def test_changes_come_out_by_time_and_then_by_key() -> None:
    _, buffer = _buffer()
    for time, key in ((5, "b"), (3, "c"), (5, "a"), (4, "ab")):
        buffer.put(time, key, key.upper(), None, time, None)
    assert [row[0] for row in _all(buffer)] == ["c", "ab", "a", "b"]
    assert (len(buffer), buffer.size_bytes) == (0, 0)


def test_a_key_that_changes_again_keeps_its_place() -> None:
    _, buffer = _buffer()
    buffer.put(1, "a", "1", "0", 1, None)
    buffer.put(2, "b", "1", None, 2, None)
    buffer.put(9, "a", "2", "1", 9, None)
    assert buffer.prior("a") == (True, ("0", -1, None))
    assert buffer.prior("c") == (False, None)
    assert _all(buffer) == [("a", "2", "1", 9), ("b", "1", None, 2)]


def test_only_what_is_old_enough_comes_out() -> None:
    _, buffer = _buffer()
    for time in (10, 20, 30):
        buffer.put(time, str(time), "x", None, time, None)
    seen: list[str] = []
    buffer.evict_until(20, lambda key, change: seen.append(key))
    assert seen == ["10", "20"]
    assert len(buffer) == 1


def test_readers_are_shown_the_prior_value_until_the_change_has_gone_on() -> None:
    _, buffer = _buffer()
    buffer.put(1, "a", "new", "prior", 1, None)
    seen: list[Any] = []
    buffer.evict_until(1, lambda key, change: seen.append(buffer.prior(key)))
    assert seen == [(True, ("prior", -1, None))]
    assert buffer.prior("a") == (False, None)


def test_a_change_that_cannot_go_on_stays() -> None:
    _, buffer = _buffer()
    buffer.put(1, "a", "new", None, 1, None)

    def fail(key: str, change: Buffered) -> None:
        raise LookupError

    with pytest.raises(LookupError):
        buffer.evict_until(1, fail)
    assert len(buffer) == 1


def test_the_changelog_has_each_key_once_a_commit() -> None:
    world, buffer = _buffer()
    buffer.put(1, "a", "1", None, 1, None)
    buffer.put(1, "a", "2", "1", 2, None)
    buffer.put(2, "b", "1", None, 2, None)
    buffer.evict_until(2, lambda key, change: None)
    buffer.put(5, "c", "1", None, 5, None)
    world.commit(buffer)
    assert [(key, value is None) for key, value, _ in world.log] == [(b"a", True), (b"b", True), (b"c", False)]
    assert not buffer.dirty
    world.commit(buffer)
    assert len(world.log) == 3


def test_a_commit_that_fails_leaves_what_was_committed() -> None:
    world, buffer = _buffer()
    buffer.put(1, "a", "1", None, 1, None)
    buffer.put(2, "b", "1", None, 2, None)
    world.commit(buffer)
    buffer.put(1, "a", "2", "1", 3, None)
    buffer.evict_until(2, lambda key, change: None)
    buffer.put(4, "c", "1", None, 4, None)
    buffer.drop_uncommitted()
    buffer.put(5, "d", "1", None, 5, None)
    assert _all(buffer) == [("a", "1", None, 1), ("b", "1", None, 2), ("d", "1", None, 5)]


def _changelog_of(row_format: RowFormat) -> tuple[list[Any], Emitted]:
    world, buffer = _buffer(row_format)
    log: list[Any] = []
    world.rows.log = lambda key, value, timestamp, headers: log.append((len(log), 77, key, value, headers))
    headers: Headers = [("h", b"1"), ("n", None)]
    buffer.put(1, "a", "1", "0", 1, headers)
    buffer.put(2, "gone", "1", None, 2, None)
    buffer.flush()
    buffer.put(3, "a", "2", "1", 3, [("h", b"2")])
    buffer.put(4, "größe", None, "x", 4, None)
    buffer.flush()
    return log, _all(buffer)


@pytest.mark.parametrize("row_format", [PLAIN, HEADERS], ids=["plain", "headers"])
def test_what_is_restored_is_what_was_buffered(row_format: RowFormat) -> None:
    log, wanted = _changelog_of(row_format)
    _, buffer = _buffer(row_format)
    buffer.restore(log, len(log))
    assert buffer.prior("a") == (True, ("0", -1, None))
    size = buffer.size_bytes
    assert _all(buffer) == wanted
    assert size > 0
    assert buffer.size_bytes == 0


def test_a_tombstone_takes_a_key_out() -> None:
    log, wanted = _changelog_of(PLAIN)
    _, buffer = _buffer()
    buffer.restore([*log, (9, 0, b"gone", None, None)], 10)
    assert _all(buffer) == [row for row in wanted if row[0] != "gone"]


def _sized(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


_CONTEXT = struct.pack(">qq", 11, 22) + _sized(b"topic") + struct.pack(">i", 3)
_NO_HEADERS, _LEGACY_HEADERS = struct.pack(">i", 0), struct.pack(">i", -1)
_CHANGE = _sized(b"old") + _sized(b"new")


@pytest.mark.parametrize(
    ("version", "value", "wanted"),
    [
        (None, struct.pack(">q", 5) + _CHANGE, Buffered(77, 8, "", -1, [], b"old", b"old", b"new")),
        (
            b"\x01",
            struct.pack(">q", 5) + _CONTEXT + _LEGACY_HEADERS + _sized(_CHANGE),
            Buffered(11, 22, "topic", 3, [], b"old", b"old", b"new"),
        ),
        (
            b"\x02",
            _CONTEXT + _NO_HEADERS + _sized(_CHANGE) + _sized(b"prior") + struct.pack(">q", 5),
            Buffered(11, 22, "topic", 3, [], b"prior", b"old", b"new"),
        ),
        (
            b"\x02",
            _CONTEXT + _NO_HEADERS + _sized(b"prior") + struct.pack(">i", -2) + _sized(b"new") + struct.pack(">q", 5),
            Buffered(11, 22, "topic", 3, [], b"prior", b"prior", b"new"),
        ),
        (
            b"\x03",
            _CONTEXT + _NO_HEADERS + _sized(b"prior") + _sized(None) + _sized(None) + struct.pack(">q", 5),
            Buffered(11, 22, "topic", 3, [], b"prior", None, None),
        ),
    ],
    ids=["0", "1", "2", "2 with the bytes of 3", "3"],
)
def test_every_version_of_the_changelog_is_read(version: bytes | None, value: bytes, wanted: Buffered) -> None:
    world, buffer = _buffer()
    headers: Headers | None = None if version is None else [("v", version)]
    buffer.restore([(8, 77, b"k", value, headers)], 9)
    (row,) = world.rows.scan(None, None)
    assert decode_buffered(row[1]) == (wanted, 5)


def test_an_old_version_keeps_the_prior_value_and_the_place() -> None:
    _, buffer = _buffer()
    first = (0, 7, b"k", struct.pack(">q", 5) + _CHANGE, None)
    second = (1, 8, b"k", struct.pack(">q", 9) + _sized(b"new") + _sized(b"newer"), None)
    buffer.restore([first, second], 2)
    assert buffer.prior("k") == (True, ("old", -1, None))
    seen: list[str | None] = []
    buffer.evict_until(5, lambda key, change: seen.append(buffer.value(change.new)))
    assert seen == ["newer"]


@pytest.mark.parametrize("value", [b"", b"\0" * 12, _CONTEXT])
@pytest.mark.parametrize("version", [b"\x03", b"\x02", b"\x01", b"\x07"])
def test_a_changelog_of_something_else_is_refused(version: bytes, value: bytes) -> None:
    _, buffer = _buffer()
    with pytest.raises(ProcessorStateException, match="offset 3 is no buffered change"):
        buffer.restore([(3, 0, b"k", value, [("v", version)])], 4)
