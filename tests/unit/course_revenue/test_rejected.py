"""What the rejected topic says of its lines, and which of them are chosen for a replay."""

from __future__ import annotations

import msgspec
import pytest
from course_revenue import headers
from course_revenue.errors import RefusedError
from course_revenue.headers import Place
from course_revenue.model import PurchaseLine
from course_revenue.rejected import Selection, choose, rejected_lines, since_rebuilt

from headrace.serdes import JsonDeserializer
from headrace.topics import TopicRecord

GOOD = msgspec.json.encode(
    {
        "order_id": "o",
        "line_id": "l",
        "course_id": "c",
        "unit_price_cents": 1,
        "quantity": 1,
        "line_type": "sale",
        "event_time": 1,
    }
)
GIFT = GOOD.replace(b"sale", b"gift")


def rejected(offset: int, reason: str = "unknown_line_type", value: bytes = GOOD, partition: int = 0) -> TopicRecord:
    added = [("trace", b"1"), (headers.REASON, reason.encode()), *headers.source_headers(Place("in", 3, offset + 100))]
    return TopicRecord(partition, offset, 1_000, b"k", value, added)


def mark(offset: int, of: int, partition: int = 0) -> TopicRecord:
    return TopicRecord(partition, offset, 2_000, None, None, [(headers.REPLAYED_OFFSET, str(of).encode())])


def rebuilt(offset: int, application_id: str = "app", partition: int = 0) -> TopicRecord:
    return TopicRecord(partition, offset, 2_000, None, None, [(headers.REBUILT, application_id.encode())])


def decode(record: TopicRecord) -> PurchaseLine | None:
    return JsonDeserializer(PurchaseLine).deserialize("t", record.value)


def offsets(records: list[TopicRecord], **selected: frozenset[object]) -> list[tuple[int, int]]:
    selection = Selection(**selected)  # type: ignore[arg-type]  # of the tests' own sets
    return [line.place for line in choose(rejected_lines(records), selection, decode).lines]


def test_a_mark_of_the_same_partition_says_that_a_line_was_replayed() -> None:
    lines = rejected_lines(
        [rejected(5), rejected(0), mark(6, of=5), rejected(0, partition=1), mark(1, of=5, partition=1)]
    )
    assert [(line.place, line.replayed) for line in lines] == [((0, 0), False), ((0, 5), True), ((1, 0), False)]
    assert (lines[0].reason, str(lines[0].source)) == ("unknown_line_type", "in-3@100")


def test_a_line_that_a_rebuild_rejected_once_more_is_replayed_once() -> None:
    twice = rejected(9)._replace(headers=rejected(0).headers)
    assert offsets([rejected(0), rejected(1), twice]) == [(0, 0), (0, 1)]
    assert offsets([rejected(0), rejected(1), twice, mark(10, of=0)]) == [(0, 1)]
    assert offsets([rejected(0), rejected(1), twice, mark(10, of=9)]) == [(0, 1)]


def test_a_line_that_was_rejected_again_is_a_line_and_names_its_newest_place() -> None:
    first = rejected(0)
    again = rejected(9)._replace(
        headers=[
            *headers.source_headers(Place("in", 3, 100)),
            (headers.REPLAYED_PARTITION, b"0"),
            (headers.REPLAYED_OFFSET, b"0"),
            (headers.REASON, b"amount_overflow"),
            *headers.source_headers(Place("in", 3, 200)),
        ]
    )
    lines = rejected_lines([first, mark(1, of=0), again])
    assert [(line.record.offset, line.reason, line.replayed) for line in lines] == [
        (0, "unknown_line_type", True),
        (9, "amount_overflow", False),
    ]
    assert str(lines[1].source) == "in-3@200"
    assert headers.producers_own(again.headers) == []
    assert headers.producers_own(first.headers) == [("trace", b"1")]


def test_all_means_those_not_replayed_yet() -> None:
    assert offsets([rejected(0), rejected(1), mark(2, of=0)]) == [(0, 1)]


def test_lines_are_chosen_by_reason_or_by_place() -> None:
    records = [rejected(0), rejected(1, "amount_overflow"), rejected(3, partition=2)]
    assert offsets(records, reasons=frozenset({"amount_overflow"})) == [(0, 1)]
    assert offsets(records, places=frozenset({(2, 3), (0, 0)})) == [(0, 0), (2, 3)]


@pytest.mark.parametrize(
    ("places", "says"), [({(0, 7)}, "no rejected line at 0:7"), ({(0, 0)}, "the line at 0:0 was replayed already")]
)
def test_a_place_without_a_line_or_replayed_already_refuses_all(places: set[object], says: str) -> None:
    with pytest.raises(RefusedError, match=says):
        offsets([rejected(0), rejected(1), mark(2, of=0)], places=frozenset({(0, 1), *places}))


def test_lines_that_are_broken_still_refuse_all() -> None:
    with pytest.raises(
        RefusedError, match=r"2 of 3 lines still break .* 0:1 \(unknown_line_type\); 0:2 \(undecodable\)"
    ):
        offsets([rejected(0), rejected(1, value=GIFT), rejected(2, value=b"no json")])


def test_lines_that_are_broken_still_are_left_out_where_that_is_asked_for() -> None:
    lines = rejected_lines([rejected(0), rejected(1, value=GIFT), rejected(2, value=b"no json"), rejected(3)])
    chosen = choose(lines, Selection(leave_broken=True), decode)
    assert [line.place for line in chosen.lines] == [(0, 0), (0, 3)]
    assert chosen.broken == {"unknown_line_type": 1, "undecodable": 1}


def test_only_lines_behind_a_mark_are_rejected_by_the_job_whose_totals_were_begun_there() -> None:
    assert since_rebuilt([rejected(0), mark(1, of=0)]) == ([rejected(0)], {})
    found = since_rebuilt([rejected(0), rejected(7, partition=1), rebuilt(1), rejected(2), rebuilt(8, "b", 1)])
    assert found == ([rejected(2)], {0: "app", 1: "b"})


def test_lines_that_a_rebuild_has_read_again_are_not_replayed() -> None:
    """Each counted twice: the release that knows the type counts the original, and the replay."""
    records = [rejected(0), rejected(1), rebuilt(2), rejected(7, partition=1)]
    chosen = choose(rejected_lines(records), Selection(), decode)
    assert ([line.place for line in chosen.lines], chosen.read_again) == ([(1, 7)], 2)
    with pytest.raises(RefusedError, match="the line at 0:1 was rejected before the totals were begun anew"):
        offsets(records, places=frozenset({(0, 1)}))
    # only the last mark of the partition counts, and a line that was rejected once more is not left out
    again = [rejected(offset)._replace(headers=rejected(0).headers) for offset in (3, 5)]
    chosen = choose(rejected_lines([*records, again[0], rebuilt(4), again[1]]), Selection(), decode)
    assert ([line.place for line in chosen.lines], chosen.read_again) == ([(0, 5), (1, 7)], 1)
    assert offsets([*records, again[0], rebuilt(4), again[1], mark(6, of=5)]) == [(1, 7)]


def test_lines_that_the_input_had_lost_when_the_totals_were_begun_anew_are_replayed() -> None:
    begun = rebuilt(3)
    # the lines lay at 100, 101 and 102
    begin = (headers.REBUILT_WITHOUT, b"in-3@101")
    records = [rejected(0), rejected(1), rejected(2), begun._replace(headers=[*(begun.headers or ()), begin])]
    chosen = choose(rejected_lines(records), Selection(), decode)
    assert ([line.place for line in chosen.lines], chosen.read_again) == ([(0, 0)], 2)
    for other in (b"in-2@101", b"out-3@101", b"in-3@100", b"nonsense"):
        lost = begun._replace(headers=[*(begun.headers or ()), (headers.REBUILT_WITHOUT, other)])
        assert offsets([*records[:3], lost]) == []


def test_a_reason_that_nobody_has_is_refused_and_one_that_no_line_has_yet_is_not() -> None:
    """A misspelt reason was 0 lines, and all was well."""
    records = [rejected(0), rejected(1, "late")]
    with pytest.raises(RefusedError, match=r"for lat, and no rule .* topic are: late, unknown_line_type\. .*no_value"):
        offsets(records, reasons=frozenset({"lat", "late"}))
    assert offsets(records, reasons=frozenset({"late"})) == [(0, 1)]
    chosen = choose(rejected_lines(records), Selection(frozenset({"no_value"})), decode)
    assert chosen.lines == []
    assert chosen.reasons == {"late", "unknown_line_type"}
