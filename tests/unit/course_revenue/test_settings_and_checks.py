from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING

import msgspec
import pytest
from course_revenue import headers
from course_revenue.adjustments import Skipped
from course_revenue.checks import reconcile, sum_input
from course_revenue.contract import OnBrokenLine
from course_revenue.headers import Place
from course_revenue.model import INT64_MAX, Revenue
from course_revenue.settings import Settings, without_product_keys
from course_revenue.totals import money

from headrace.errors import ConfigException
from headrace.topics import TopicRecord

if TYPE_CHECKING:
    from collections.abc import Iterable


def value(order: str, cents: int, kind: str = "sale", course: str | None = "c1", quantity: int = 1) -> bytes:
    return msgspec.json.encode(
        {
            "order_id": order,
            "line_id": "l1",
            "course_id": course,
            "unit_price_cents": cents,
            "quantity": quantity,
            "line_type": kind,
            "event_time": 1,
        }
    )


def total(net: int, lines: int) -> dict[str, Revenue]:
    return {"c1": Revenue("c1", net, lines, False, 1)}


def records(values: Iterable[bytes | None]) -> list[TopicRecord]:
    return [TopicRecord(0, offset, 1, None, raw, None) for offset, raw in enumerate(values)]


INPUT = [value("o1", 500), value("o2", 300, "refund"), value("o1", 500)]


def test_the_sum_counts_every_line_and_each_identity_once() -> None:
    sums = sum_input(records(INPUT))
    assert sums.courses == {"c1": (700, 3, 200, 2)}
    assert sums.broken == 0


@pytest.mark.parametrize(
    ("totals", "verdict", "agrees", "equal"),
    [
        (total(700, 3), "equal", True, True),
        (total(200, 2), "deduped", True, False),
        (total(699, 3), "different", False, False),
        (total(700, 2), "different", False, False),
        ({}, "different", False, False),
        ({**total(700, 3), "c2": Revenue("c2", 0, 1, False, 1)}, "equal", False, False),
    ],
)
def test_a_difference_is_explained_by_duplicates_or_by_nothing(
    totals: dict[str, Revenue], verdict: str, agrees: bool, equal: bool
) -> None:
    comparison = reconcile(sum_input(records(INPUT)), totals)
    assert (comparison.rows[0].verdict, comparison.agrees, comparison.equal) == (verdict, agrees, equal)


def test_broken_lines_are_counted_and_not_summed() -> None:
    broken = [
        b"no json",
        None,
        value("b1", 5, "gift"),
        value("b2", -5),
        value("b3", 5, quantity=0),
        value("b4", 5, course=None),
        value("b5", INT64_MAX, quantity=2),
    ]
    sums = sum_input(records([*INPUT, *broken]))
    assert sums.courses["c1"].line_count == 3
    assert sums.broken == len(broken)


def test_sums_are_exact_beyond_what_floats_hold() -> None:
    sums = sum_input(records([value("o1", INT64_MAX), value("o2", INT64_MAX)]))
    assert sums.courses["c1"].net_cents == 2 * INT64_MAX


def test_what_was_skipped_by_hand_is_in_no_sum() -> None:
    poison = value("o1", 500)
    twice = [value("o3", 70), value("o3", 70)]
    digest = hashlib.sha256(value("o3", 70)).hexdigest()
    left_out = Skipped(frozenset({(0, 2)}), Counter({digest: 1}))
    sums = sum_input(records([*INPUT[:2], poison, *twice]), skipped=left_out)
    assert sums.courses == {"c1": (270, 3, 270, 3)}
    assert (sums.broken, sums.skipped) == (0, 2)


def test_a_replayed_line_counts_in_place_of_the_rejected_one() -> None:
    replay = [*headers.source_headers(Place("in", 0, 1)), (headers.REPLAYED_OFFSET, b"0")]
    read = [*records(INPUT[:2]), TopicRecord(0, 2, 1, None, INPUT[1], replay)]
    sums = sum_input(read)
    assert (sums.courses, sums.replayed) == ({"c1": (200, 2, 200, 2)}, 1)
    # in the release that rejected it the original is broken, and not counted twice
    sums = sum_input([read[0], read[1]._replace(value=value("o2", 300, "gift")), read[2]])
    assert (sums.courses, sums.replayed, sums.broken) == ({"c1": (200, 2, 200, 2)}, 1, 0)


def test_an_empty_input_has_no_sums() -> None:
    assert sum_input([]).courses == {}


def test_settings_have_defaults_and_leave_other_keys_alone() -> None:
    properties = {
        "application.id": "x",
        "course.revenue.topic.output": "out",
        "course.revenue.on.broken.line": "REJECT",
    }
    assert Settings.of(properties) == Settings(output="out", on_broken_line=OnBrokenLine.REJECT)
    assert Settings.of({"application.id": "x"}) == Settings()
    assert without_product_keys(properties) == {"application.id": "x"}


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({"course.revenue.on.broken.line": "skip"}, "must be fail or reject, not 'skip'"),
        ({"course.revenue.dedupe": "yes"}, "must be off or line-key, not 'yes'"),
        ({"course.revenue.commit.before": "lines:3:4"}, "must be places such as commerce.purchase_line-3@4711"),
        ({"course.revenue.dedupe.retention.ms": "7d"}, "must be a number of milliseconds from 1 to"),
        ({"course.revenue.dedupe.retention.ms": "0"}, "must be a number of milliseconds from 1 to"),
        ({"course.revenue.format": "xml"}, "must be json or avro, not 'xml'"),
        ({"course.revenue.topic.line": "x"}, "did you mean course.revenue.topic.lines"),
        ({"course.revenue.topic.lines": " "}, "must be the name of a topic"),
        ({"course.revenue.topic.lines": "commerce.courses"}, "different from each other"),
    ],
)
def test_a_wrong_setting_is_named_with_what_is_allowed(properties: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigException, match=says):
        Settings.of(properties)


@pytest.mark.parametrize(("cents", "text"), [(0, "0.00"), (5, "0.05"), (-123_456_789, "-1,234,567.89")])
def test_money(cents: int, text: str) -> None:
    assert money(cents) == text


def test_the_jobs_addresses_are_a_list_and_each_is_one() -> None:
    key = "course.revenue.dashboard.job"
    found = Settings.of({key: "http://one:8080/, https://[::1]:9/base ,"}).job_addresses
    assert found == ("http://one:8080", "https://[::1]:9/base")
    assert Settings.of({}).job_addresses == ()
    for wrong in ("one:8080", "ftp://one", "http://", "http://one:x", "http://one:99999"):
        with pytest.raises(ConfigException, match=r"course\.revenue\.dashboard\.job must be addresses such as http"):
            Settings.of({key: wrong})


def test_amounts_are_shown_in_one_of_two_currencies() -> None:
    assert Settings.of({"course.revenue.currency": "USD"}).currency.value == "usd"
    with pytest.raises(ConfigException, match="must be eur or usd"):
        Settings.of({"course.revenue.currency": "gbp"})
