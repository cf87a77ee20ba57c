"""Metadata of committed offsets: Java's text, with the partition time and the numbers of processors."""

from __future__ import annotations

import base64
import struct

import pytest

from headrace.engine.offsets import decode_metadata, encode_metadata


def test_it_is_javas_text() -> None:
    assert encode_metadata(1_795_974_148_884) == base64.b64encode(struct.pack(">bq", 2, 1_795_974_148_884)).decode()
    assert encode_metadata(-1) == "Av//////////"


@pytest.mark.parametrize("time_ms", [-1, 0, 1, 1_795_974_148_884, 2**63 - 1])
def test_a_round_trip(time_ms: int) -> None:
    assert decode_metadata(encode_metadata(time_ms)) == (time_ms, {})


@pytest.mark.parametrize("tail", ["", "\x11\x7f", "AAAA", "=", "é", "/9j"])
def test_whatever_follows_is_not_looked_at(tail: str) -> None:
    assert decode_metadata(encode_metadata(4711) + tail) == (4711, {})


def test_entries_of_processors_follow_the_time() -> None:
    entries = struct.pack(">ii3sq", 1, 3, b"key", 9)
    text = base64.b64encode(struct.pack(">bq", 2, 4711) + entries).decode()
    assert encode_metadata(4711, {"key": 9}) == text
    assert decode_metadata(text) == (4711, {"key": 9})


def test_the_zero_byte_of_the_transactional_client_does_not_count() -> None:
    numbers = {"windows": 1_795_974_148_884, "größe": -1}
    assert decode_metadata(encode_metadata(5, numbers) + "\0") == (5, numbers)


def test_entries_that_were_cut_off_are_left_out() -> None:
    text = encode_metadata(5, {"windows": 7, "sessions": 8})
    assert decode_metadata(text[:-8]) == (5, {"windows": 7})


@pytest.mark.parametrize("text", [None, "", "A", "not ours", "CgAAAAAAAAAA", "!!!!!!!!!!!!", "AgAAAAA="])
def test_what_is_not_ours_says_nothing(text: str | None) -> None:
    assert decode_metadata(text) == (-1, {})


def test_the_older_version_is_read() -> None:
    assert decode_metadata(base64.b64encode(struct.pack(">bq", 1, 4711)).decode()) == (4711, {})
