from __future__ import annotations

from datetime import timedelta

import pytest

from headrace.errors import ConfigException
from headrace.records import OffsetAndMetadata, TopicPartition
from headrace.resets import AutoOffsetReset, iso_duration
from headrace.tools.reset_offsets import AtTime, EachOwn, Positions, ShiftBy, moment_ms, parse_offsets, plan_offsets

A, B = TopicPartition("in", 0), TopicPartition("in", 1)
HERE = Positions({A: 5, B: 0}, {A: 90, B: 7}, committed={A: OffsetAndMetadata(40)})


def test_a_shift_counts_from_what_is_committed_and_stays_in_the_log() -> None:
    assert plan_offsets(ShiftBy(3), HERE).offsets == {A: 43, B: 3}
    back = plan_offsets(ShiftBy(-36), HERE)
    assert back.offsets == {A: 5, B: 0}
    assert [note.split(":")[0] for note in back.notes if "committed" in note] == ["nothing is committed for in-1"]
    assert "offset 4 of in-0 is before its log start, 5, which is taken" in back.notes
    assert plan_offsets(ShiftBy(51), HERE, "latest").offsets == {A: 90, B: 7}
    assert "in-1" in plan_offsets(ShiftBy(1), HERE, None).refusals[0]


def test_a_time_is_the_first_record_as_young_or_the_end() -> None:
    plan = plan_offsets(AtTime(1), Positions({A: 5, B: 0}, {A: 90, B: 7}, at_time={A: 12, B: -1}))
    assert plan.offsets == {A: 12, B: 7}
    assert plan.notes == ("in-1 has no record as young: its log end is taken",)


def test_a_file_names_every_partition_and_no_other() -> None:
    assert plan_offsets(EachOwn({A: 6, B: 99}), HERE).offsets == {A: 6, B: 7}
    other = TopicPartition("out", 0)
    plan = plan_offsets(EachOwn({A: 6, other: 1}), HERE)
    assert plan.offsets == {}
    assert plan.refusals == (
        "the file has no offset for in-1",
        "the file has an offset for out-0, which is no partition of an input topic",
    )


def test_offsets_of_a_file() -> None:
    assert parse_offsets(["in,0,5\n", "\n", "in,1,0\r\n"], "f").offsets == {A: 5, B: 0}


@pytest.mark.parametrize("lines", [["in,0\n"], ["in,0,-1\n"], ["in,x,1\n"], [",0,1\n"], ["in,0,1\n", "in,0,2\n"], []])
def test_a_file_of_another_form_is_refused(lines: list[str]) -> None:
    with pytest.raises(ConfigException, match=r"plan\.csv"):
        parse_offsets(lines, "plan.csv")


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-03-01T06:30:00.123", 1_772_346_600_123),
        ("2026-03-01T06:30:00.123Z", 1_772_346_600_123),
        ("2026-03-01T07:30:00.123+01:00", 1_772_346_600_123),
        ("2026-03-01T07:30:00.123+01", 1_772_346_600_123),
        ("2026-03-01T06:30:00", 1_772_346_600_000),
        ("1969-12-31T23:59:59.999", -1),
    ],
)
def test_a_moment_is_utc_unless_it_says_otherwise(text: str, ms: int) -> None:
    assert moment_ms(text) == ms


@pytest.mark.parametrize("text", ["2026-03-01", "2026-02-30T00:00:00.000", "2026-03-01 06:30:00", "2026-03-01T6:30:00"])
def test_another_form_of_a_moment_is_refused(text: str) -> None:
    with pytest.raises(ConfigException, match="is not a date and time such as"):
        moment_ms(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("PT1H30M", 5400),
        ("P2D", 172_800),
        ("pt0.5s", 0.5),
        ("-PT6H+3M", -21_780),
        ("PT-6H3M", -21_420),
        ("PT1,25S", 1.25),
    ],
)
def test_a_duration_is_written_as_javas(text: str, seconds: float) -> None:
    assert iso_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1H", "P1W", "PT1D"])
def test_another_form_of_a_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an ISO-8601 duration"):
        iso_duration(text)


def test_a_policy_does_not_look_ahead() -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        AutoOffsetReset("by_duration:-PT1H")
